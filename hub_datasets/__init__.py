"""Benchmarks: each a Hub dataset, how its rows are scored, and which metrics evaluate the scores.

Each folder with a ``benchmark.py`` is a benchmark; the other folders serve them. The names below are the public
interface.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.benchmarks import Benchmark, Task, benchmark_names, get_benchmark
    from .core.build import build, build_all
    from .core.examples import Example, Phrase, TaskData, load_examples
    from .hub.install import install
    from .hub.model_cards import write_model_card
    from .hub.publish import publish
    from .reports.evaluation import compare, errors, report

__all__ = [
    "Benchmark",
    "Example",
    "Phrase",
    "Task",
    "TaskData",
    "benchmark_names",
    "build",
    "build_all",
    "compare",
    "errors",
    "get_benchmark",
    "install",
    "load_examples",
    "publish",
    "report",
    "write_model_card",
]

_HOMES = {
    **dict.fromkeys(("Benchmark", "Task", "benchmark_names", "get_benchmark"), "core.benchmarks"),
    **dict.fromkeys(("compare", "errors", "report"), "reports.evaluation"),
    **dict.fromkeys(("Example", "Phrase", "TaskData", "load_examples"), "core.examples"),
    **dict.fromkeys(("build", "build_all"), "core.build"),
    "install": "hub.install",
    "publish": "hub.publish",
    "write_model_card": "hub.model_cards",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line must start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
