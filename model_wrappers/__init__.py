"""Models: how each family is scored, and the runner that scores them.

The public modules of this package are the model families; `score` runs any of them on any benchmark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._families import demo_names, family_names, load_model
    from ._protocol import DualEncoder, LoadOptions, ModelInfo, PairScorer
    from ._runner import score

__all__ = [
    "DualEncoder",
    "LoadOptions",
    "ModelInfo",
    "PairScorer",
    "demo_names",
    "family_names",
    "load_model",
    "score",
]

_HOMES = {
    **dict.fromkeys(("demo_names", "family_names", "load_model"), "_families"),
    **dict.fromkeys(("DualEncoder", "LoadOptions", "ModelInfo", "PairScorer"), "_protocol"),
    "score": "_runner",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line must start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
