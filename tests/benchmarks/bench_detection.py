"""Time from lists of boxes to AP on a set of TRICD's size, beside pycocotools and a plain loop over the rows.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_detection.py

The loop does for one range of area what COCOeval does for four, without its bookkeeping. Exits with 1 when the
package takes 2 seconds or more, is less than 20 times as fast as pycocotools, or disagrees with either.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from vl_assay.metrics.functional.boxes import read_boxes
from vl_assay.metrics.functional.detection import average_precisions, match

ROWS, BOXES = 2672, 100
GOAL, RATIO = 2.0, 20
THRESHOLDS, RECALLS = np.linspace(0.5, 0.95, 10), np.linspace(0, 1, 101)

Dataset = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def make_dataset() -> Dataset:
    """1.9 phrases a row and, on the even rows, 4.5 ground-truth boxes; the others describe another image."""
    rng = np.random.default_rng(0)
    predictions, references = [], []
    for row in range(ROWS):
        phrases = 2 * row + np.arange(1 + (rng.random() < 0.9))
        truths = 1 + rng.poisson(3.5)
        corners, sizes, owners = (
            rng.random((truths, 2)) * 400,
            20 + rng.random((truths, 2)) * 200,
            rng.choice(phrases, truths),
        )
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


def row_by_row(predictions: list[dict[str, Any]], references: list[dict[str, Any]]) -> float:
    """AP the way COCOeval's evaluate and accumulate find it, for one area range and with the phrase as a gate."""
    results = [evaluate_row(*pair) for pair in zip(predictions, references, strict=True)]
    scores = np.concatenate([result["scores"] for result in results])
    order = np.argsort(-scores, kind="mergesort")
    matches = np.concatenate([result["matches"] for result in results], axis=1)[:, order]
    positives = sum(result["truths"] for result in results)
    true, false = np.cumsum(matches > 0, axis=1).astype(float), np.cumsum(matches == 0, axis=1).astype(float)
    curves = np.zeros((len(THRESHOLDS), len(RECALLS)))
    for level, (tp, fp) in enumerate(zip(true, false, strict=True)):
        precision = (tp / (fp + tp + np.spacing(1))).tolist()
        for place in range(len(precision) - 1, 0, -1):
            if precision[place] > precision[place - 1]:
                precision[place - 1] = precision[place]
        for point, place in enumerate(np.searchsorted(tp / positives, RECALLS, side="left")):
            if place < len(precision):
                curves[level, point] = precision[place]
    return float(np.mean(curves))


def evaluate_row(prediction: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    """The ids of the truths that the boxes of a row match, of shape (10, boxes), 0 for none."""
    found = [
        {"bbox": box, "score": score, "phrase": phrase}
        for box, score, phrase in zip(*(prediction[key] for key in ("boxes", "scores", "phrase_ids")), strict=True)
    ]
    given = [
        {"id": place + 1, "bbox": box, "phrase": phrase, "ignore": 0}
        for place, (box, phrase) in enumerate(zip(reference["boxes"], reference["phrase_ids"], strict=True))
    ]
    order = np.argsort([-box["score"] for box in found], kind="mergesort")
    found = [found[place] for place in order[:100]]
    ious = row_ious(found, given) if given else np.empty((0, 0))
    taken, matches = np.zeros((len(THRESHOLDS), len(given))), np.zeros((len(THRESHOLDS), len(found)))
    ignored = np.array([truth["ignore"] for truth in given])
    if len(ious):
        for level, threshold in enumerate(THRESHOLDS):
            for place, box in enumerate(found):
                best, chosen = min([threshold, 1 - 1e-10]), -1
                for number, truth in enumerate(given):
                    if taken[level, number] > 0 or truth["phrase"] != box["phrase"]:
                        continue
                    if chosen > -1 and ignored[chosen] == 0 and ignored[number] == 1:
                        break
                    if ious[place, number] < best:
                        continue
                    best, chosen = ious[place, number], number
                if chosen == -1:
                    continue
                matches[level, place] = given[chosen]["id"]
                taken[level, chosen] = 1
    return {"matches": matches, "scores": [box["score"] for box in found], "truths": len(given)}


def row_ious(found: list[dict[str, Any]], given: list[dict[str, Any]]) -> np.ndarray:
    """The IoU of each XYXY box with each XYWH truth of a row."""
    boxes, truths = np.array([box["bbox"] for box in found]), np.array([truth["bbox"] for truth in given])
    low = np.maximum(boxes[:, np.newaxis, :2], truths[:, :2])
    high = np.minimum(boxes[:, np.newaxis, 2:], truths[:, :2] + truths[:, 2:])
    shared = np.maximum(high - low, 0).prod(axis=2)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)[:, np.newaxis] + truths[:, 2:].prod(axis=1)
    return shared / (areas - shared)


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


def measure(function: Callable[..., float], data: Dataset, repeats: int = 2) -> tuple[float, float]:
    """The least time in seconds, which other processes disturb least, and the AP."""
    times, ap = [], float("nan")
    for _ in range(repeats):
        start = time.perf_counter()
        ap = function(*data)
        times.append(time.perf_counter() - start)
    return min(times), ap


def main() -> int:
    """Measure and print; the exit status."""
    data = make_dataset()
    seconds, ap = measure(vl_assay_ap, data, repeats=3)
    tool, tool_ap = measure(pycocotools_ap, data)
    loop, loop_ap = measure(row_by_row, data)
    matched, weights = match(*read_boxes(*data)), np.random.default_rng(0).poisson(1, ROWS)
    resample, _ = measure(lambda *_: average_precisions(matched, weights).mean(), data, repeats=20)
    print(f"{ROWS:,} rows of {BOXES} boxes: {seconds:.2f} s to AP {ap:.6f}; a resample more: {resample * 1e3:.1f} ms")
    print(f"pycocotools: {tool:.1f} s to AP {tool_ap:.6f}, {tool / seconds:.0f} times as long")
    print(f"plain loop:  {loop:.1f} s to AP {loop_ap:.6f}, {loop / seconds:.0f} times as long")
    agree = max(abs(ap - tool_ap), abs(ap - loop_ap)) < 1e-9
    return 0 if agree and seconds < GOAL and tool / seconds >= RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
