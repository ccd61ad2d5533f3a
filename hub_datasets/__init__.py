"""Benchmarks: each a Hub dataset, how its rows are scored, and which metric judges the scores."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bare_names import install
    from .benchmarks import Benchmark, Task, benchmark_names, get_benchmark
    from .examples import load_examples
    from .judging import judge
    from .repository import build

__all__ = [
    "Benchmark",
    "Task",
    "benchmark_names",
    "build",
    "get_benchmark",
    "install",
    "judge",
    "load_examples",
]

_HOMES = {
    **dict.fromkeys(("Benchmark", "Task", "benchmark_names", "get_benchmark"), "benchmarks"),
    "build": "repository",
    "load_examples": "examples",
    "install": "bare_names",
    "judge": "judging",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the command line must start at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
