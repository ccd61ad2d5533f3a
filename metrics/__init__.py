"""Scores: arithmetic in plain NumPy, statistics, the `evaluate` modules, and the artefacts that carry numbers.

Nothing here needs torch. Each folder is an `evaluate` module; the public modules beside the folders are

- what an `evaluate` module calls, by subject: `matching` and `aro` (one image, several captions), `hard_positives` (a
  caption, its hard positive and negative), `groups` (two images, two captions), `retrieval`, `cpd` and `grounding`
  (phrases and boxes), `answers` (yes or no), `symmetry` (text-only scores), `comparison` (two models);
- what those share: `kernels`, `boxes`, `detection` and `ranking` row by row;
- the `contract` of a metric, with `estimators` for scores that are no means, and what is written once over it for all
  scores: `aggregate`, `differences`, below them `stats` and `paired`;
- `evaluation`: from predictions to reports and comparisons;
- what carries numbers: `sheets` with `sheet_rows`, `results`;
- what a metric's folder needs: `inputs` (what comes through `evaluate`), `modules` (finding and installing), `page`
  (its Space), `citations`;
- `errors`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import evaluation
    from .common import errors
    from .contract import aggregate, estimators
    from .contract import spec as contract
    from .functional import (
        aro,
        boxes,
        comparison,
        cpd,
        detection,
        grounding,
        groups,
        hard_positives,
        kernels,
        matching,
        ranking,
        retrieval,
        symmetry,
    )
    from .functional import vqa as answers
    from .modules import citations, inputs, page
    from .modules import discovery as modules
    from .records import predictions as sheets
    from .records import results
    from .records import schema as sheet_rows
    from .statistics import bootstrap as stats
    from .statistics import differences, paired

__all__ = [
    "aggregate",
    "answers",
    "aro",
    "boxes",
    "citations",
    "comparison",
    "contract",
    "cpd",
    "detection",
    "differences",
    "errors",
    "estimators",
    "evaluation",
    "grounding",
    "groups",
    "hard_positives",
    "inputs",
    "kernels",
    "matching",
    "modules",
    "page",
    "paired",
    "ranking",
    "results",
    "retrieval",
    "sheet_rows",
    "sheets",
    "stats",
    "symmetry",
]


def __getattr__(name: str) -> Any:
    """Import public modules when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
