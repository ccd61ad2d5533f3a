"""Reading boxes: what is accepted in which format, invalid inputs and how it is named, and their overlap."""

import math

import numpy as np
import pyarrow as pa
import pytest
import torch

from vl_assay.metrics.common.errors import ScoresError, UnknownNameError
from vl_assay.metrics.functional.boxes import box_iou, read_boxes


def dataset():
    """Four rows: two boxes of two phrases, an abstention, a row without truth, and one without anything."""
    predictions = [
        {"boxes": [[1, 2, 4, 6], [0, 0, 1, 1]], "scores": [0.5, 0.25], "phrase_ids": [7, 8]},
        {"boxes": [], "scores": [], "phrase_ids": []},
        {"boxes": [[2, 2, 2, 5]], "scores": [-3], "phrase_ids": [0]},
        {"boxes": [], "scores": [], "phrase_ids": []},
    ]
    references = [
        {"boxes": [[1, 2, 3, 4]], "phrase_ids": [7]},
        {"boxes": [[0, 0, 2.5, 2]], "phrase_ids": [9]},
        {"boxes": [], "phrase_ids": []},
        {"boxes": [], "phrase_ids": []},
    ]
    return predictions, references


SIDES = dataset()


def test_rows_become_flat_arrays_in_corners():
    found, truth = read_boxes(*dataset())
    assert found.rows.tolist() == [0, 0, 2]
    assert found.boxes.tolist() == [[1, 2, 4, 6], [0, 0, 1, 1], [2, 2, 2, 5]]
    assert found.scores.tolist() == [0.5, 0.25, -3]
    assert found.phrase_ids.tolist() == [7, 8, 0]
    assert truth.rows.tolist() == [0, 1]
    assert truth.boxes.tolist() == [[1, 2, 4, 6], [0, 0, 2.5, 2]]  # [x, y, x + width, y + height]
    assert truth.phrase_ids.tolist() == [7, 9]
    assert found.n_rows == truth.n_rows == 4


@pytest.mark.parametrize(
    ("box_format", "expected"),
    [
        ("xyxy", ([1, 2, 4, 6], [1, 2, 3, 4])),
        ("xywh", ([1, 2, 5, 8], [1, 2, 4, 6])),
        ({"references": "xyxy", "predictions": "xywh"}, ([1, 2, 5, 8], [1, 2, 3, 4])),
    ],
)
def test_the_format_is_as_declared_for_both_sides_or_for_each(box_format, expected):
    found, truth = read_boxes(*dataset(), box_format)
    assert (found.boxes[0].tolist(), truth.boxes[0].tolist()) == expected


def test_phrase_ids_are_whole_numbers_of_any_type_and_rows_may_come_from_arrow_or_as_tensors():
    predictions, references = dataset()
    predictions[0]["phrase_ids"] = [2**53, 2**53 + 1]  # the same as float64
    references[0]["phrase_ids"] = [True]
    of_arrow = [pa.array(side).to_pylist() for side in (predictions, dataset()[1])]
    tensors = [[{key: torch.tensor(value) for key, value in row.items()} for row in side] for side in of_arrow]
    for sides in ((predictions, references), of_arrow, tensors):
        found, truth = read_boxes(*sides)
        assert found.phrase_ids.tolist() == [2**53, 2**53 + 1, 0]
        assert found.boxes.tolist() == [[1, 2, 4, 6], [0, 0, 1, 1], [2, 2, 2, 5]]
    assert truth.phrase_ids.tolist() == [7, 9]


@pytest.mark.parametrize(
    ("side", "row", "changes", "message"),
    [
        (0, 2, {"boxes": [[2, 2, 5]]}, r"four numbers; .* row 2 \(1 of 4 rows.* box 0 of row 2: \[2, 2, 5\]"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [0, 0, 1, "1"]]}, r"numbers, not text or None; convert.*box 1 of row 0: 1"),
        (1, 1, {"boxes": [[-math.inf, 0, 1, 1]]}, r"must be finite.*the references .*box 0 of row 1"),
        (0, 2, {"boxes": [[0, 0, 1e101, 1]]}, r"at most 1e\+100.*row 2"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [3, 0, 2, 1]]}, r"x2 must not be below x1.*pass 'xywh'.*box 1 of row 0"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [0, 3, 1, 2]]}, r"box_format 'xyxy'.*nor y2 below y1.*box 1 of row 0"),
        (1, 0, {"boxes": [[1, 2, 3, -4]]}, r"'xywh' width and height must not be negative \(pass 'xyxy'.*row 0"),
        (0, 0, {"scores": [0.5, math.nan]}, r"score must be finite.*score again.*box 1 of row 0: nan"),
        (0, 2, {"boxes": [[0, 0, 10**400, 1]]}, r"must be numbers.*row 2.*…"),
        (0, 2, {"phrase_ids": [-1]}, r"phrase id must be a whole number from 0 .*box 0 of row 2: -1"),
        (1, 0, {"phrase_ids": [1.5]}, r"whole number from 0 .*the references .*box 0 of row 0: 1.5"),
        (0, 2, {"phrase_ids": [2.0**53]}, r"whole number from 0 to 9007199254740991.*row 2"),
        (0, 0, {"scores": [1]}, r"predictions have 2 boxes, 1 scores, 2 phrase_ids in row 0 .*must be equal"),
        (0, 1, {"boxes": None}, r"boxes of the predictions are of type NoneType in row 1 .*empty list"),
        (0, 3, {"labels": []}, r"predictions have the unknown key 'labels' in row 3 .*just boxes, scores, phrase_ids"),
    ],
)
def test_what_is_invalid_is_rejected_and_named(side, row, changes, message):
    sides = dataset()
    sides[side][row] |= changes
    with pytest.raises(ScoresError, match=message):
        read_boxes(*sides)


@pytest.mark.parametrize(
    ("predictions", "references", "box_format", "error", "message"),
    [
        ([], [], "xyxy", ScoresError, "there are no rows; pass at least one"),
        (
            SIDES[0][:3],
            SIDES[1],
            "xyxy",
            ScoresError,
            "got 3 rows of predictions for 4 rows of references; pass one of",
        ),
        (SIDES[0][0], SIDES[1], "xyxy", ScoresError, "the predictions are one dict; pass a list with one mapping per"),
        (SIDES[1], SIDES[1], "xyxy", ScoresError, r"predictions lack scores in rows 0.*just boxes, scores, phrase_ids"),
        ([SIDES[0][0], []], SIDES[1][:2], "xyxy", ScoresError, r"predictions are of type list in row 1 \(1 of 2 rows"),
        (*SIDES, ["xyxy", "xywh"], ScoresError, "pass 'xyxy' or 'xywh', or a mapping that gives one of them to each"),
        (*SIDES, {"predictions": "xyxy"}, ScoresError, "pass 'xyxy' or 'xywh', or a mapping that gives one of them"),
        (*SIDES, "cxcywh", UnknownNameError, r"unknown box format .*; known: xyxy, xywh"),
    ],
)
def test_rows_and_formats_that_are_none_are_rejected(predictions, references, box_format, error, message):
    with pytest.raises(error, match=message):
        read_boxes(predictions, references, box_format)


def test_overlap_is_that_of_pycocotools():
    from pycocotools import mask

    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(-50, 600, (2, 200, 2, 2)), axis=2).reshape(2, 200, 4)
    sizes = np.concatenate([corners[..., :2], corners[..., 2:] - corners[..., :2]], axis=2)
    expected = np.diag(mask.iou(sizes[0], sizes[1], [0] * 200))
    assert (expected > 0).sum() > 50
    assert box_iou(*corners) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("box", "other", "expected"),
    [
        ([0, 0, 2, 2], [0, 0, 2, 2], 1),
        ([0, 0, 2, 2], [2, 0, 4, 2], 0),  # they touch
        ([1, 1, 1, 1], [1, 1, 1, 1], 0),  # a union without area
        ([0, 0, 0, 9], [0, 0, 2, 2], 0),
        ([0, 0, 4, 2], [0, 0, 2, 2], 1 / 2),
        ([-1e100, -1e100, 1e100, 1e100], [0, 0, 1e100, 1e100], 1 / 4),
        ([0, 0, 1e-200, 1e-200], [0, 0, 1e-200, 1e-200], 0),  # an area too small for float64
    ],
)
def test_overlap_at_its_edges(box, other, expected):
    assert box_iou([box], [other]).tolist() == [expected]
