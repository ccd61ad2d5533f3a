"""Models: the model families, and the runner that evaluates them.

The public modules of this package are the model families. `run` evaluates a model on benchmarks, `predict` only writes
its predictions, and `RunConfig` holds their further options. `check` tests whether a model is loaded as its authors
intended. To evaluate your model, implement one or more of the protocols `DualEncoder`, `CrossEncoder`, `ChoiceModel`,
`PairScorer`, `TextPairScorer`, `TextScorer`, `Detector` and `VQAModel`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine.checking import check
    from .engine.config import RunConfig
    from .engine.families import demo_names, family_names, load_model
    from .engine.protocol import (
        ChoiceModel,
        CrossEncoder,
        Detections,
        Detector,
        DualEncoder,
        LoadOptions,
        ModelInfo,
        PairScorer,
        PhraseQuery,
        TextPairScorer,
        TextScorer,
        VQAModel,
    )
    from .engine.runner import merge, plan, predict, run
    from .finetune.callback import CompositionalityCallback

__all__ = [
    "ChoiceModel",
    "CompositionalityCallback",
    "CrossEncoder",
    "Detections",
    "Detector",
    "DualEncoder",
    "LoadOptions",
    "ModelInfo",
    "PairScorer",
    "PhraseQuery",
    "RunConfig",
    "TextPairScorer",
    "TextScorer",
    "VQAModel",
    "check",
    "demo_names",
    "family_names",
    "load_model",
    "merge",
    "plan",
    "predict",
    "run",
]

_HOMES = {
    "CompositionalityCallback": "finetune.callback",
    "RunConfig": "engine.config",
    "check": "engine.checking",
    **dict.fromkeys(("demo_names", "family_names", "load_model"), "engine.families"),
    **dict.fromkeys(("merge", "plan", "predict", "run"), "engine.runner"),
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that the command line starts fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'engine.protocol')}"), name)
