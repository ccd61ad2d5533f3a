"""Time to choose among a million pairs, what twice the pairs cost, and time of the n-gram scorers.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_refine.py

Gaps, ids and captions are made up. Exits with 1 when a million pairs take ten seconds or more with either convention of
cells, or twice the pairs cost more than three times as long.
"""

from __future__ import annotations

import sys

import numpy as np
from harness import least_seconds

from vl_assay.hub_datasets.authoring.data.pairs import Pair
from vl_assay.hub_datasets.authoring.refine.cells import CELLS, balance
from vl_assay.hub_datasets.authoring.refine.ngrams import BLIND_SCORERS, blind_scores

PAIRS, GOAL, TIME_RATIO = 1_000_000, 10.0, 3.0
CAPTIONS = 35_000
WORDS = [
    "a",
    "the",
    "red",
    "old",
    "small",
    "dog",
    "cat",
    "man",
    "table",
    "pizza",
    "street",
    "on",
    "near",
    "holds",
    "eats",
]


def time_to_choose(n: int, cells: str, columns: int = 2) -> float:
    rng = np.random.default_rng(0)
    gaps = rng.normal(0.1, 0.3, (n, columns)).clip(-1, 1) * (rng.random((n, columns)) > 0.02)
    ids = [f"category/{number}" for number in range(n)]
    groups = rng.integers(7, size=n).astype(str).tolist()
    return least_seconds(lambda: balance(gaps, ids, groups=groups, cells=cells))


def make_pairs() -> list[Pair]:
    rng = np.random.default_rng(0)
    captions = [f"A {' '.join(rng.choice(WORDS, 10))} {number}." for number in range(CAPTIONS)]
    halves = zip(captions[::2], captions[1::2], strict=True)
    return [Pair(f"{n}", f"{n // 4}", true, false, "swap") for n, (true, false) in enumerate(halves)]


def main() -> int:
    good = True
    for cells in CELLS:
        half, whole = time_to_choose(PAIRS // 2, cells), time_to_choose(PAIRS, cells)
        print(f"{PAIRS:,} pairs, cells of the {cells}: {whole:.1f} s (allowed {GOAL:.0f})")
        print(f"  twice the pairs: {whole / half:.1f} times as long (allowed {TIME_RATIO:.0f})")
        good &= whole < GOAL and whole / half < TIME_RATIO
    print(f"{PAIRS:,} pairs, eight scorers: {time_to_choose(PAIRS, CELLS[0], columns=8):.1f} s")
    pairs = make_pairs()
    for name in BLIND_SCORERS:
        print(f"{CAPTIONS:,} captions by {name}: {least_seconds(lambda name=name: blind_scores(pairs, name)):.1f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
