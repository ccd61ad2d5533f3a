"""Reading boxes: what is accepted in which format, invalid inputs and how it is named, and their overlap."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError, UnknownNameError, VLAssayError
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
    assert [part.dtype for part in found[:4]] == [np.intp, np.float64, np.float64, np.int64]
    assert [part.dtype for part in truth[:3]] == [np.intp, np.float64, np.int64]


def test_a_dataset_without_any_box_keeps_its_shapes():
    found, truth = read_boxes([{"boxes": [], "scores": [], "phrase_ids": []}], [{"boxes": [], "phrase_ids": []}])
    assert (found.boxes.shape, truth.boxes.shape) == ((0, 4), (0, 4))
    assert [part.dtype for part in found[:4]] == [np.intp, np.float64, np.float64, np.int64]
    assert [part.dtype for part in truth[:3]] == [np.intp, np.float64, np.int64]


@pytest.mark.parametrize(
    ("box_format", "expected"),
    [
        ("xyxy", ([1, 2, 4, 6], [1, 2, 3, 4])),
        ("xywh", ([1, 2, 5, 8], [1, 2, 4, 6])),
        (("xyxy", "xywh"), ([1, 2, 4, 6], [1, 2, 4, 6])),
        (["xywh", "xyxy"], ([1, 2, 5, 8], [1, 2, 3, 4])),
        ({"references": "xyxy", "predictions": "xywh"}, ([1, 2, 5, 8], [1, 2, 3, 4])),
    ],
)
def test_the_format_is_as_declared_for_both_sides_or_for_each(box_format, expected):
    found, truth = read_boxes(*dataset(), box_format)
    assert (found.boxes[0].tolist(), truth.boxes[0].tolist()) == expected


@pytest.mark.parametrize(
    "convert",
    [
        tuple,
        lambda values: np.array(values, dtype=np.float32),
        lambda values: torch.tensor(values, dtype=torch.float64),
        lambda values: [np.array(value) for value in values],
        lambda values: [torch.tensor(value) for value in values],
        lambda values: [tuple(value) if isinstance(value, list) else value for value in values],
    ],
    ids=["tuples", "arrays", "tensors", "lists of arrays", "lists of tensors", "lists of tuples"],
)
def test_rows_come_in_any_common_container(convert):
    expected = read_boxes(*dataset())
    converted = [[{key: convert(value) for key, value in row.items()} for row in side] for side in dataset()]
    for side, wanted in zip(read_boxes(*map(tuple, converted)), expected, strict=True):
        for part, other in zip(side, wanted, strict=True):
            assert np.array_equal(part, other)
            assert np.asarray(part).dtype == np.asarray(other).dtype


def test_rows_survive_arrow_and_a_null_is_named():
    sides = [pa.array(side) for side in dataset()]
    for side, wanted in zip(read_boxes(*(side.to_pylist() for side in sides)), read_boxes(*dataset()), strict=True):
        assert all(np.array_equal(part, other) for part, other in zip(side, wanted, strict=True))
    predictions, references = dataset()
    references[2]["boxes"] = None
    with pytest.raises(ScoresError, match=r"boxes of the references are of type NoneType in row 2 "):
        read_boxes(predictions, pa.array(references).to_pylist())


def test_phrase_ids_beyond_float64_stay_apart():
    predictions, references = dataset()
    predictions[0]["phrase_ids"] = [2**53, 2**53 + 1]
    assert read_boxes(predictions, references)[0].phrase_ids.tolist() == [2**53, 2**53 + 1, 0]


def test_whole_phrase_ids_may_come_as_floats_and_booleans():
    predictions, references = dataset()
    predictions[0]["phrase_ids"], references[0]["phrase_ids"] = [3.0, 4.0], [True]
    found, truth = read_boxes(predictions, references)
    assert (found.phrase_ids.tolist(), truth.phrase_ids.tolist()) == ([3, 4, 0], [1, 9])


@pytest.mark.parametrize(
    ("side", "row", "changes", "message"),
    [
        (0, 2, {"boxes": [[2, 2, 5]]}, r"four numbers; .* row 2 \(1 of 4 rows.* box 0 of row 2: \[2, 2, 5\]"),
        (0, 0, {"boxes": [[1, 2, 4, 6], 5]}, r"four numbers; .* in row 0 .*first in box 1 of row 0: 5"),
        (1, 0, {"boxes": np.array([[1, 2, 3]])}, r"four numbers; the references .*row 0"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [0, 0, 1, "1"]]}, r"numbers, not text or None; convert.*box 1 of row 0: 1"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [0, [0], 1, 1]]}, r"must be numbers.*box 1 of row 0: \[0\]"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [0, 0, 1, math.nan]]}, r"must be finite.*box 1 of row 0: .*nan\]"),
        (1, 1, {"boxes": [[-math.inf, 0, 1, 1]]}, r"must be finite.*the references .*box 0 of row 1"),
        (0, 2, {"boxes": [[0, 0, 1e101, 1]]}, r"at most 1e\+100.*row 2"),
        (0, 2, {"boxes": [[0, 0, 10**400, 1]]}, r"must be numbers.*row 2.*…"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [3, 0, 2, 1]]}, r"x2 must not be below x1.*pass 'xywh'.*box 1 of row 0"),
        (0, 0, {"boxes": [[1, 2, 4, 6], [0, 3, 1, 2]]}, r"box_format 'xyxy'.*nor y2 below y1.*box 1 of row 0"),
        (1, 0, {"boxes": [[1, 2, 3, -4]]}, r"'xywh' width and height must not be negative \(pass 'xyxy'.*row 0"),
        (0, 0, {"scores": [0.5, math.nan]}, r"score must be finite.*score again.*box 1 of row 0: nan"),
        (0, 2, {"scores": [math.inf]}, r"score must be finite.*in row 2 .*box 0 of row 2: inf"),
        (0, 2, {"scores": ["0.5"]}, r"scores must be numbers, not text.*box 0 of row 2: 0.5"),
        (0, 2, {"phrase_ids": [-1]}, r"phrase id must be a whole number from 0 .*box 0 of row 2: -1"),
        (1, 0, {"phrase_ids": [1.5]}, r"whole number from 0 .*the references .*box 0 of row 0: 1.5"),
        (0, 2, {"phrase_ids": [2.0**53]}, r"whole number from 0 to 9007199254740991.*row 2"),
        (0, 2, {"phrase_ids": ["7"]}, r"phrase ids must be numbers, not text or None; convert.*row 2: 7"),
        (0, 0, {"scores": [1]}, r"predictions have 2 boxes, 1 scores, 2 phrase_ids in row 0 .*must be equal"),
        (1, 2, {"phrase_ids": [1]}, r"references have 0 boxes, 1 phrase_ids in row 2 "),
        (0, 1, {"boxes": None}, r"boxes of the predictions are of type NoneType in row 1 .*empty list"),
        (1, 3, {"phrase_ids": "abc"}, r"phrase_ids of the references are of type str in row 3 "),
        (0, 1, {"scores": ...}, r"predictions lack scores in row 1 \(1 of 4 rows.*just boxes, scores, phrase_ids"),
        (1, 1, {"boxes": ...}, r"references lack boxes in row 1 .*mapping with just boxes, phrase_ids"),
        (0, 3, {"labels": []}, r"predictions have the unknown key 'labels' in row 3 .*just boxes, scores, phrase_ids"),
    ],
)
def test_what_is_invalid_is_rejected_and_named(side, row, changes, message):
    sides = dataset()
    changed = sides[side][row] | changes
    sides[side][row] = {key: value for key, value in changed.items() if value is not ...}
    with pytest.raises(ScoresError, match=message):
        read_boxes(*sides)


def test_several_bad_rows_are_counted_and_the_first_box_named():
    predictions, references = dataset()
    predictions[0]["scores"][1] = predictions[2]["scores"][0] = math.nan
    with pytest.raises(ScoresError, match=r"rows 0, 2 \(2 of 4 rows, counted from 0\), first in box 1 of row 0"):
        read_boxes(predictions, references)


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "there are no rows; pass at least one"),
        (dataset()[0][:3], dataset()[1], "got 3 rows of predictions for 4 rows of references; pass one of each"),
        (dataset()[0][0], dataset()[1], "the predictions are one dict; pass a list with one mapping per row"),
        (None, [], "the predictions are one NoneType"),
        (dataset()[0], "rows", "the references are one str"),
        ([dataset()[0][0], []], dataset()[1][:2], r"predictions are of type list in row 1 \(1 of 2 rows"),
    ],
)
def test_rows_that_are_none_are_rejected(predictions, references, message):
    with pytest.raises(ScoresError, match=message):
        read_boxes(predictions, references)


EACH = (ScoresError, "pass 'xyxy' or 'xywh', or a mapping that gives one of them to each")
KNOWN = (UnknownNameError, r"unknown box format .*; known: xyxy, xywh")


@pytest.mark.parametrize(
    ("box_format", "expected"),
    [(name, EACH) for name in (None, 3, ("xyxy",), ("xyxy",) * 3, {}, {"predictions": "xyxy"})]
    + [(name, KNOWN) for name in ("cxcywh", ("xyxy", "XYWH"), {"predictions": None, "references": "xyxy"})],
)
def test_an_unknown_box_format_or_one_for_one_side_only_is_rejected(box_format, expected):
    error, message = expected
    with pytest.raises(error, match=message):
        read_boxes(*dataset(), box_format)


KEYS = st.sampled_from(["boxes", "scores", "phrase_ids", "other"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.complex_numbers()
)
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


@given(
    junk=JUNK | st.lists(LEAVES, min_size=4, max_size=4),
    place=st.sampled_from(["value", "element", "coordinate"]),
    data=st.data(),
)
def test_junk_in_one_place_is_read_as_numbers_or_rejected(junk, place, data):
    sides = dataset()
    row = sides[data.draw(st.integers(0, 1))][0]
    key = data.draw(st.sampled_from(sorted(row)))
    if place == "value":
        row[key] = junk
    elif place == "element" or key != "boxes":
        row[key][0] = junk
    else:
        row[key][0][data.draw(st.integers(0, 3))] = junk
    try:
        found, truth = read_boxes(*sides)
    except VLAssayError as error:
        refusal = str(error)
    else:
        numbers = np.concatenate([found.boxes.ravel(), found.scores, truth.boxes.ravel()])
        assert np.isfinite(numbers).all()
        assert (found.phrase_ids >= 0).all()
        return
    assert "row 0" in refusal


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


def test_overlap_needs_pairs_of_boxes():
    with pytest.raises(ScoresError, match=r"shapes \(1, 4\) and \(2, 4\); pass two arrays of shape \(p, 4\)"):
        box_iou([[0, 0, 1, 1]], [[0, 0, 1, 1]] * 2)
