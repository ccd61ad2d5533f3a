"""Time and memory of every metric module on 100,000 examples, through `evaluate`, as a user calls it.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_metrics.py [NAME…]

Prints the seconds, and what twice the examples cost in time and in memory. Exits with 1 when a module takes 5 seconds
or more, or when twice the examples cost more than 3 times the time or 2.5 times the memory.
"""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
from harness import least_seconds  # and the way to the tests' support
from metric_cases import CASES

from vl_assay.metrics.modules.discovery import load_metric

EXAMPLES, FEW = 100_000, 25_000
GOAL, TIME_RATIO, MEMORY_RATIO = 5.0, 3.0, 2.5


def make_inputs(name: str, n: int) -> dict[str, Any]:
    """Random inputs of a module."""
    case = CASES[name]
    settings = {key: value for key, value in case.settings.items() if key == "subsamples"}
    return (case.large or case.random)(np.random.default_rng(0), n) | settings


def seconds(name: str, n: int) -> float:
    """The least time of two."""
    inputs, module = make_inputs(name, n), load_metric(name)
    return least_seconds(lambda: module.compute(**inputs))


def peak(name: str, n: int) -> int:
    """The most bytes that a computation held at a time, beside its inputs."""
    inputs, module = make_inputs(name, n), load_metric(name)
    tracemalloc.start()
    module.compute(**inputs)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held


def main() -> int:
    """Measure and print; the exit status."""
    good = True
    print(f"{'':20} {EXAMPLES:,} examples   twice: time  memory")
    for name in sys.argv[1:] or sorted(CASES):
        whole = seconds(name, EXAMPLES)
        more, memory = whole / seconds(name, EXAMPLES // 2), peak(name, 2 * FEW) / peak(name, FEW)
        good &= whole < GOAL and more < TIME_RATIO and memory < MEMORY_RATIO
        print(f"{name:20} {whole:12.2f} s {more:16.1f} x {memory:5.1f} x", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
