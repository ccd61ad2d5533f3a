"""Benchmarks: each a Hub dataset, how its rows are scored, and which metric judges the scores.

Each folder is a benchmark, but for `authoring`, with which benchmarks are made. The names below are all that is public
beside them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._bare_names import install
    from ._benchmarks import Benchmark, Task, benchmark_names, get_benchmark
    from ._comparing import Comparison, Difference, compare
    from ._examples import Example, Phrase, TaskData, load_examples
    from ._judging import judge
    from ._model_cards import write_model_card
    from ._publishing import publish
    from ._repository import build, build_all

__all__ = [
    "Benchmark",
    "Comparison",
    "Difference",
    "Example",
    "Phrase",
    "Task",
    "TaskData",
    "benchmark_names",
    "build",
    "build_all",
    "compare",
    "get_benchmark",
    "install",
    "judge",
    "load_examples",
    "publish",
    "write_model_card",
]

_HOMES = {
    **dict.fromkeys(("Benchmark", "Task", "benchmark_names", "get_benchmark"), "_benchmarks"),
    **dict.fromkeys(("Comparison", "Difference", "compare"), "_comparing"),
    **dict.fromkeys(("Example", "Phrase", "TaskData", "load_examples"), "_examples"),
    **dict.fromkeys(("build", "build_all"), "_repository"),
    "install": "_bare_names",
    "judge": "_judging",
    "publish": "_publishing",
    "write_model_card": "_model_cards",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line must start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
