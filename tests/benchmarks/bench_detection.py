"""Time from lists of boxes to AP on a set of TRICD's size, compared with pycocotools.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_detection.py

Exits with 1 when the package takes 2 seconds or more, is less than 20 times as fast as pycocotools, or disagrees with
it.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import numpy as np
from harness import least_seconds
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from vl_assay.metrics.functional.boxes import read_boxes
from vl_assay.metrics.functional.detection import average_precisions, match

ROWS, BOXES = 2672, 100
GOAL, RATIO = 2.0, 20

Dataset = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def make_dataset() -> Dataset:
    """1.9 phrases a row and, on the even rows, 4.5 ground-truth boxes; the others describe another image."""
    rng = np.random.default_rng(0)
    predictions, references = [], []
    for row in range(ROWS):
        phrases = 2 * row + np.arange(1 + (rng.random() < 0.9))
        truths = 1 + rng.poisson(3.5)
        corners, sizes = rng.random((truths, 2)) * 400, 20 + rng.random((truths, 2)) * 200
        owners = rng.choice(phrases, truths)
        near = rng.integers(0, truths, BOXES)
        noise = rng.normal(0, 1, (BOXES, 4)) * rng.choice([3, 20, 150], (BOXES, 1))
        found = np.hstack([corners, corners + sizes])[near] + noise
        found = np.hstack([np.minimum(found[:, :2], found[:, 2:]), np.maximum(found[:, :2], found[:, 2:])])
        predictions.append(
            {"boxes": found.tolist(), "scores": rng.random(BOXES).tolist(), "phrase_ids": owners[near].tolist()}
        )
        kept = slice(None) if row % 2 == 0 else slice(0)
        boxes = np.hstack([corners, sizes])[kept]
        references.append({"boxes": boxes.tolist(), "phrase_ids": owners[kept].tolist()})
    return predictions, references


def pycocotools_ap(predictions: list[dict[str, Any]], references: list[dict[str, Any]]) -> float:
    """AP of pycocotools as it comes (four ranges of area, three numbers of boxes), each row and phrase an image.

    No row has more than the hundred boxes that count, so that the numbers must agree.
    """
    images: dict[tuple[int, int], int] = {}
    truths, found = [], []
    for row, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        for box, phrase in zip(reference["boxes"], reference["phrase_ids"], strict=True):
            image = images.setdefault((row, phrase), len(images) + 1)
            entry = {"image_id": image, "category_id": 1, "bbox": box}
            truths.append(entry | {"id": len(truths) + 1, "area": 1, "iscrowd": 0})
        columns = (prediction[key] for key in ("boxes", "scores", "phrase_ids"))
        for (x1, y1, x2, y2), score, phrase in zip(*columns, strict=True):
            image = images.setdefault((row, phrase), len(images) + 1)
            found.append({"image_id": image, "category_id": 1, "bbox": [x1, y1, x2 - x1, y2 - y1], "score": score})
    truth = COCO()
    truth.dataset = {
        "images": [{"id": image} for image in images.values()],
        "annotations": truths,
        "categories": [{"id": 1}],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluator = COCOeval(truth, truth.loadRes(found), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
    return float(evaluator.eval["precision"][:, :, 0, 0, -1].mean())


def vl_assay_ap(predictions: list[dict[str, Any]], references: list[dict[str, Any]]) -> float:
    """AP of the package."""
    return float(average_precisions(match(*read_boxes(predictions, references))).mean())


def main() -> int:
    """Measure and print; the exit status."""
    data = make_dataset()
    ap, tool_ap = vl_assay_ap(*data), pycocotools_ap(*data)
    seconds = least_seconds(lambda: vl_assay_ap(*data))
    tool = least_seconds(lambda: pycocotools_ap(*data), repeats=1)
    matched, weights = match(*read_boxes(*data)), np.random.default_rng(0).poisson(1, ROWS)
    resample = least_seconds(lambda: average_precisions(matched, weights), repeats=20)
    print(f"{ROWS:,} rows of {BOXES} boxes: {seconds:.2f} s to AP {ap:.6f}; a resample more: {resample * 1e3:.1f} ms")
    print(f"pycocotools: {tool:.1f} s to AP {tool_ap:.6f}, {tool / seconds:.0f} times as long")
    return 0 if abs(ap - tool_ap) < 1e-9 and seconds < GOAL and tool / seconds >= RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
