"""Time from scores to intervals through the contract of metrics, for a mean and for average precision.

    python tests/benchmarks/bench_contract.py

100,000 matching examples on 20,000 images with 10,000 resamples, and two detectors on a set of TRICD's size, 2,672 rows
of 100 boxes, with 1,000 paired resamples of AP, AP50, AP75 and AP on positives. Exits with 1 when the first takes more
than 2 seconds or the second more than 30.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import least_seconds

from vl_assay.metrics.contract.aggregate import aggregate
from vl_assay.metrics.contract.spec import Examples
from vl_assay.metrics.functional.cpd import cpd_ap
from vl_assay.metrics.functional.matching import FORMS, sugarcrepe_accuracy
from vl_assay.metrics.statistics.differences import Resampling, differences

EXAMPLES, IMAGES, GOAL = 100_000, 20_000, 2.0
ROWS, BOXES, PAIRED_GOAL = 2672, 100, 30.0


def matching() -> None:
    """Examples of SugarCrepe's seven categories, averaged with intervals, by form too."""
    rng = np.random.default_rng(0)
    scores, clusters = rng.normal(size=(EXAMPLES, 2)), rng.integers(0, IMAGES, EXAMPLES)
    categories = [[*FORMS][number % len(FORMS)] for number in range(EXAMPLES)]
    examples = sugarcrepe_accuracy.per_example(scores, np.zeros(EXAMPLES), categories=categories, clusters=clusters)
    aggregate(examples, confidence=0.95, resamples=10_000)


def detector(seed: int) -> Examples:
    """Random boxes; every other row has five of them, at random, as its ground truth."""
    rng, truth = np.random.default_rng(seed), np.random.default_rng(0)
    corners = truth.random((ROWS, BOXES, 2)) * 500  # both detectors draw the same boxes, and differ in their scores
    boxes = np.concatenate([corners, corners + 5 + 100 * truth.random((ROWS, BOXES, 2))], axis=2)
    predictions: list[dict[str, Any]] = [
        {"boxes": row.tolist(), "scores": rng.random(BOXES).tolist(), "phrase_ids": [0] * BOXES} for row in boxes
    ]
    found = [row[truth.integers(BOXES, size=5)].tolist() if n % 2 == 0 else [] for n, row in enumerate(boxes)]
    references = [{"boxes": each, "phrase_ids": [0] * len(each)} for each in found]
    return cpd_ap.per_example(predictions, references, clusters=np.arange(ROWS) // 2, box_format="xyxy")


def main() -> int:
    """Measure and print; the exit status."""
    first, second = detector(1), detector(2)
    taken = least_seconds(matching)
    print(f"{EXAMPLES:,} matching examples, 10,000 resamples of {IMAGES:,} images: {taken:.2f} s")
    how = Resampling(resamples=1_000, permutations=100)
    paired = least_seconds(lambda: differences(first, second, how))
    print(f"{ROWS:,} rows of {BOXES} boxes, 1,000 paired resamples and 100 exchanges of four scores: {paired:.2f} s")
    return int(taken > GOAL or paired > PAIRED_GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
