"""Average precision of phrase detection: against loops, against pycocotools, and where the numbers are known."""

from __future__ import annotations

import contextlib
import functools
import io
import math

import numpy as np
import pytest
from box_rows import precisions_by_hand
from hypothesis import given
from hypothesis import strategies as st
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from vl_assay.metrics.functional.boxes import read_boxes
from vl_assay.metrics.functional.detection import average_precisions, match, stacked


def precisions(predictions, references, ties="wrong", weights=None, **options):
    """The ten average precisions of boxes that are all XYXY."""
    found = match(*read_boxes(predictions, references, "xyxy"), ties=ties, **options)
    return average_precisions(found, weights, ties).tolist()


def draw_dataset(rng, rows=4, boxes=7, truths=4, phrases=3, levels=4, size=5):
    """Boxes on a coarse grid, so that overlaps, scores and whole boxes are often equal."""

    def corners(n):
        low = rng.integers(0, size, (n, 2))
        return np.hstack([low, low + rng.integers(0, size, (n, 2))]).tolist()

    predictions, references = [], []
    for _ in range(rng.integers(1, rows + 1)):
        given = rng.integers(0, truths + 1)
        reference = {"boxes": corners(given), "phrase_ids": rng.integers(0, phrases, given).tolist()}
        found = rng.integers(0, boxes + 1)
        prediction = {
            "boxes": corners(found),
            "scores": (rng.integers(0, levels, found) / 8).tolist(),
            "phrase_ids": rng.integers(0, phrases + 1, found).tolist(),
        }
        for place in range(found):
            if given and rng.random() < 0.6:
                truth = rng.integers(given)
                prediction["boxes"][place] = list(reference["boxes"][truth])
                prediction["boxes"][place][2] += int(rng.integers(0, 2))
                prediction["phrase_ids"][place] = reference["phrase_ids"][truth]
        predictions.append(prediction)
        references.append(reference)
    return predictions, references


@st.composite
def datasets(draw, **options):
    return draw_dataset(np.random.default_rng(draw(st.integers(0, 2**32))), **options)


@pytest.mark.parametrize("max_boxes", [3, 100])
def test_average_precision_is_that_of_plain_loops(max_boxes):
    rng = np.random.default_rng(max_boxes)
    undefined = distinct = split_by_ties = 0
    for _ in range(80):
        data = draw_dataset(rng)
        expected = {ties: precisions_by_hand(*data, ties, max_boxes) for ties in ("wrong", "coco")}
        for ties, wanted in expected.items():
            assert precisions(*data, ties, max_boxes=max_boxes) == pytest.approx(wanted, abs=1e-9, nan_ok=True)
        undefined += math.isnan(expected["wrong"][0])
        distinct += len(set(expected["coco"])) > 1
        split_by_ties += expected["wrong"][0] < expected["coco"][0]
    # The cases are of every kind: without truth, with overlaps between the thresholds, decided by ties.
    assert min(undefined, distinct, split_by_ties) > 5


def average_precisions_of_pycocotools(predictions, references, use_cats):
    """The ten average precisions and the three of its summary; each row is an image with one phrase."""

    def index(rows, **extra):
        boxes = [(row, place, box) for row, side in enumerate(rows) for place, box in enumerate(side["boxes"])]
        coco = COCO()
        coco.dataset = {
            "images": [{"id": row} for row in range(len(rows))],
            "categories": [{"id": 1}],
            "annotations": [
                {
                    "id": number,
                    "image_id": row,
                    "category_id": 1,
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": (x2 - x1) * (y2 - y1),
                    "iscrowd": 0,
                    **{key: rows[row][name][place] for key, name in extra.items()},
                }
                for number, (row, place, (x1, y1, x2, y2)) in enumerate(boxes, start=1)
            ],
        }
        coco.createIndex()
        return coco

    with contextlib.redirect_stdout(io.StringIO()):
        evaluator = COCOeval(index(references), index(predictions, score="scores"), "bbox")
        evaluator.params.useCats = use_cats
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return evaluator.eval["precision"][:, :, 0, 0, -1].mean(axis=1), evaluator.stats[:3]


@pytest.mark.parametrize("use_cats", [0, 1])
@pytest.mark.parametrize(
    ("cases", "options"),
    [(20, {}), (3, {"boxes": 250, "truths": 12, "size": 8}), (8, {"rows": 20})],
    ids=["tied", "more than 100 boxes", "many rows"],
)
def test_one_phrase_a_row_is_what_pycocotools_computes(cases, options, use_cats):
    rng = np.random.default_rng(cases)
    compared = 0
    for _ in range(cases):
        predictions, references = draw_dataset(rng, phrases=1, **options)
        for side in (*predictions, *references):
            side["phrase_ids"] = [0] * len(side["boxes"])
        expected, summary = average_precisions_of_pycocotools(predictions, references, use_cats)
        actual = precisions(predictions, references, "coco")
        if not any(reference["boxes"] for reference in references):
            assert np.isnan(actual).all()  # pycocotools says -1
            continue
        compared += 1
        assert actual == pytest.approx(expected.tolist(), abs=1e-9)
        assert [np.mean(actual), actual[0], actual[5]] == pytest.approx(summary.tolist(), abs=1e-9)
    assert compared > cases / 2


def test_a_threshold_is_reached_by_equality():
    # 8 / 10, 5 / 10 and 4 / 10 of the truth.
    references = [{"boxes": [[0, 0, 10, 1]], "phrase_ids": [0]}]
    for width, reached in ((8, 7), (5, 1), (4, 0)):
        predictions = [{"boxes": [[0, 0, width, 1]], "scores": [1], "phrase_ids": [0]}]
        assert precisions(predictions, references) == [1] * reached + [0] * (10 - reached)


@given(data=datasets(), wild=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_weights_stand_for_rows_repeated_or_left_out(data, wild):
    weights = wild[: len(data[0])]
    repeated = [[row for row, times in zip(side, weights, strict=True) for _ in range(times)] for side in data]
    actual = precisions(*data, weights=weights)
    if not any(weights):
        assert np.isnan(actual).all()
        return
    assert actual == pytest.approx(precisions(*repeated), abs=1e-12, nan_ok=True)


def test_pairs_beyond_one_chunk_are_matched_alike():
    # 30 rows of 100 boxes and 100 truths are 300,000 pairs; a chunk has 2**18.
    rng = np.random.default_rng(6)
    corners = rng.integers(0, 6, (2, 30, 100, 2))
    boxes = np.concatenate([corners, corners + rng.integers(1, 5, corners.shape)], axis=3).tolist()
    phrases = [0] * 100
    predictions = [{"boxes": row, "scores": rng.random(100).tolist(), "phrase_ids": phrases} for row in boxes[0]]
    references = [{"boxes": row, "phrase_ids": phrases} for row in boxes[1]]
    alone = (match(*read_boxes([one], [two], "xyxy")) for one, two in zip(predictions, references, strict=True))
    together = match(*read_boxes(predictions, references, "xyxy"))
    for part, other in zip(functools.reduce(stacked, alone), together, strict=True):
        assert np.array_equal(part, other)
