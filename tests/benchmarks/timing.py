"""Timing that the benchmarks share."""

from __future__ import annotations

import time
from collections.abc import Callable


def least_seconds(work: Callable[[], object], repeats: int = 2) -> float:
    """The least wall-clock time of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
