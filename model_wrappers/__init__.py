"""Models: the families, and the runner that predicts with them.

The public modules of this package are the model families; `run` evaluates any of them on any benchmark, `predict`
writes its predictions alone (`score` is its older name). A model of your own follows one or more of the protocols:
`DualEncoder`, `CrossEncoder`, `PairScorer`, `TextScorer`, `Detector`, `VQAModel`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine.families import demo_names, family_names, load_model
    from .engine.protocol import (
        CrossEncoder,
        Detections,
        Detector,
        DualEncoder,
        LoadOptions,
        ModelInfo,
        PairScorer,
        PhraseQuery,
        TextScorer,
        VQAModel,
    )
    from .engine.run import run
    from .engine.runner import plan, predict, score

__all__ = [
    "CrossEncoder",
    "Detections",
    "Detector",
    "DualEncoder",
    "LoadOptions",
    "ModelInfo",
    "PairScorer",
    "PhraseQuery",
    "TextScorer",
    "VQAModel",
    "demo_names",
    "family_names",
    "load_model",
    "plan",
    "predict",
    "run",
    "score",
]

_HOMES = {
    **dict.fromkeys(("demo_names", "family_names", "load_model"), "engine.families"),
    **dict.fromkeys(("plan", "predict", "score"), "engine.runner"),
    "run": "engine.run",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line must start at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'engine.protocol')}"), name)
