"""Boxes as flat arrays: reading rows of predictions and references, checking them, and their overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError, check_known
from ..estimation.checks import name_rows, refuse

FORMATS = ("xyxy", "xywh")
RELEASED_FORMATS: Mapping[str, str] = MappingProxyType({"predictions": "xyxy", "references": "xywh"})

KEYS = {"predictions": ("boxes", "scores", "phrase_ids"), "references": ("boxes", "phrase_ids")}

BoxFormat = str | Mapping[str, str]

# The area of a box of this size is far from overflow, so that no overlap can become NaN.
_LARGEST = 1e100
# Beyond it float64 cannot represent all whole numbers.
_LARGEST_EXACT = 2**53 - 1


class PredictedBoxes(NamedTuple):
    """Predicted boxes of all rows, one after the other.

    Attributes:
        rows: of shape (m,), the row of each box, ascending, from 0 to n_rows - 1.
        boxes: of shape (m, 4), XYXY: x1, y1, x2, y2 with x1 <= x2 and y1 <= y2.
        scores, phrase_ids: of shape (m,); finite, higher means more confident; from 0.
        n_rows: number of rows, with those that have no box.
    """

    rows: NDArray[np.intp]
    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    phrase_ids: NDArray[np.int64]
    n_rows: int


class Truths(NamedTuple):
    """Ground-truth boxes of all rows; the attributes are as in `PredictedBoxes`, without scores."""

    rows: NDArray[np.intp]
    boxes: NDArray[np.float64]
    phrase_ids: NDArray[np.int64]
    n_rows: int


def read_boxes(
    predictions: Iterable[Mapping[str, Any]],
    references: Iterable[Mapping[str, Any]],
    box_format: BoxFormat = RELEASED_FORMATS,
) -> tuple[PredictedBoxes, Truths]:
    """Read and validate a dataset's predictions and references, and return them as flat arrays.

    A row is an image-caption pair. One without predictions or without ground truth has empty lists: the model
    abstains, or the caption does not describe the image. A box may have zero area. The inputs are not changed.

    Args:
        predictions: for each row ``{"boxes": [[…4], …], "scores": […], "phrase_ids": […]}``, lists or arrays of one
            length: four finite numbers per box, finite scores (higher means more confident), and whole numbers from 0;
            empty lists where the model abstains. A box belongs to one phrase.
        references: for each row ``{"boxes": …, "phrase_ids": …}``; empty lists where the caption is false of the image.
        box_format: ``"xyxy"`` (x1, y1, x2, y2) or ``"xywh"`` (x1, y1, width, height) for both sides, or a mapping with
            one for each of ``"predictions"`` and ``"references"``. The default is the format of TRICD's released files,
            XYXY and XYWH. It is never guessed.

    Returns:
        The predicted boxes and the ground truth, all XYXY, in the order of the inputs.

    Raises:
        ScoresError: rows of another form; the message names them and the first box, both counted from 0.
        UnknownNameError: a box format that does not exist.

    Source: TRICD (Kamath, Price et al., 2023), section 3.2, and the format of its released annotations.

    >>> prediction = {"boxes": [[1, 1, 3, 4]], "scores": [0.5], "phrase_ids": [7]}
    >>> found, truth = read_boxes([prediction], [{"boxes": [[1, 1, 2, 3]], "phrase_ids": [7]}])
    >>> bool((found.boxes == truth.boxes).all())
    True
    """
    formats = _formats(box_format)
    sides = {"predictions": predictions, "references": references}
    for side, rows in sides.items():
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise ScoresError(f"the {side} are one {type(rows).__name__}; pass a list with one mapping per row")
    tables = {side: list(rows) for side, rows in sides.items()}
    n_predicted, n_true = map(len, tables.values())
    if n_predicted != n_true:
        raise ScoresError(
            f"got {n_predicted} rows of predictions for {n_true} rows of references; pass one of each per "
            "image-caption pair, in one order, with empty lists where there is no box"
        )
    if not n_predicted:
        raise ScoresError("there are no rows; pass at least one image-caption pair")
    read = {side: _read_side(table, side, formats[side]) for side, table in tables.items()}
    return PredictedBoxes(**read["predictions"]), Truths(**read["references"])


def box_iou(boxes: ArrayLike, others: ArrayLike) -> NDArray[np.float64]:
    """Compute the intersection over union of boxes, pair by pair.

    Areas are width times height, without COCO's older "+ 1", as pycocotools computes them. Boxes that only
    touch have 0, and so have two boxes without area.

    Args:
        boxes: array-like of shape (p, 4), XYXY, in any unit, finite, with x1 <= x2 and y1 <= y2.
        others: array-like of shape (p, 4), in the same unit.

    Returns:
        Array of shape (p,), in [0, 1]; higher is closer.

    Raises:
        ScoresError: other shapes.

    Source: pycocotools, ``bbIou`` in maskApi.c; TRICD (Kamath, Price et al., 2023), section 3.2.

    >>> box_iou([[0, 0, 2, 2]], [[1, 0, 3, 2]]).round(3).tolist()  # 2 / (4 + 4 - 2)
    [0.333]
    """
    first, second = np.asarray(boxes, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if first.ndim != 2 or first.shape != second.shape or first.shape[1] != 4:
        raise ScoresError(f"got boxes of shapes {first.shape} and {second.shape}; pass two arrays of shape (p, 4)")
    x1, y1, x2, y2 = first.T
    left, top, right, bottom = second.T
    width = np.minimum(x2, right) - np.maximum(x1, left)
    height = np.minimum(y2, bottom) - np.maximum(y1, top)
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - shared
    return np.divide(shared, union, out=np.zeros(len(first)), where=union > 0)


def _formats(box_format: BoxFormat) -> dict[str, str]:
    if isinstance(box_format, str):
        box_format = dict.fromkeys(RELEASED_FORMATS, box_format)
    if not isinstance(box_format, Mapping) or set(box_format) != set(RELEASED_FORMATS):
        raise ScoresError(
            f"box_format is {box_format!r}; pass 'xyxy' or 'xywh', or a mapping that gives one of them to each "
            "of 'predictions' and 'references'"
        )
    check_known("box format", map(str, box_format.values()), FORMATS)
    return dict(box_format)


def _read_side(table: list[Mapping[str, Any]], side: str, box_format: str) -> dict[str, Any]:
    """Return the fields of `PredictedBoxes` or `Truths` by name."""
    keys = KEYS[side]
    check_keys(table, side)
    columns = {key: _read_lists([row[key] for row in table], key, side) for key in keys}
    lengths = {key: np.fromiter(map(len, column), np.intp, len(table)) for key, column in columns.items()}
    bad = np.any([lengths[key] != lengths["boxes"] for key in keys], axis=0)
    given = ", ".join(f"{lengths[key][bad.argmax()]} {key}" for key in keys)
    refuse(bad, "the {side} have {given} in {rows}; their numbers must be equal in each row", side=side, given=given)
    flat = _Flat(np.repeat(np.arange(len(table)), lengths["boxes"]), len(table), side)
    values = {
        "rows": flat.rows,
        "boxes": flat.read_boxes(chain.from_iterable(columns["boxes"]), box_format),
        "phrase_ids": flat.read_phrase_ids(chain.from_iterable(columns["phrase_ids"])),
        "n_rows": flat.n_rows,
    }
    if "scores" in columns:
        values["scores"] = flat.read_scores(chain.from_iterable(columns["scores"]))
    return values


def check_keys(table: list[Any], side: str) -> None:
    """Raise a `ScoresError` unless each row is a mapping with exactly the keys of its side; see `KEYS`."""
    keys = KEYS[side]
    wanted = dict.fromkeys(keys).keys()
    bad = np.array([not isinstance(row, Mapping) or row.keys() != wanted for row in table], dtype=bool)
    if not bad.any():
        return
    row = table[bad.argmax()]
    if not isinstance(row, Mapping):
        given = f"are of type {type(row).__name__}"
    elif missing := [key for key in keys if key not in row]:
        given = f"lack {', '.join(missing)}"
    else:
        given = f"have the unknown key {next(key for key in row if key not in keys)!r}"
    raise ScoresError(f"the {side} {given} in {name_rows(bad)}; each row must be a mapping with just {', '.join(keys)}")


def _read_lists(column: list[Any], key: str, side: str) -> list[Sequence[Any]]:
    lists = [_as_list(value) for value in column]
    refuse(
        [value is None for value in lists],
        "the {key} of the {side} are of type {first.__name__} in {rows}; pass a list or an array, and an empty list "
        "where there is no box",
        list(map(type, column)),
        key=key,
        side=side,
    )
    return [value for value in lists if value is not None]


def _as_list(value: Any) -> Sequence[Any] | None:
    if isinstance(value, list | tuple):
        return value
    try:
        listed = np.asarray(value).tolist()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return listed if isinstance(listed, list) else None


def _as_numbers(values: Sequence[Any]) -> NDArray[Any] | None:
    """Return values as a numeric array; None if a value is not a number, or is text, which NumPy would parse."""
    try:
        array = np.array(values) if len(values) else np.empty(0)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return array if array.ndim == 1 and array.dtype.kind in "biuf" else None


class _Flat(NamedTuple):
    """The boxes of one side as one flat array, with the information to name a box in a message."""

    rows: NDArray[np.intp]
    n_rows: int
    side: str

    def read_boxes(self, boxes: Iterable[Any], box_format: str) -> NDArray[np.float64]:
        given = listed = list(boxes)
        if not set(map(type, given)) <= {list, tuple}:
            listed = [_as_list(box) or () for box in given]
        if not set(map(len, listed)) <= {4}:
            bad = np.array([len(box) != 4 for box in listed], dtype=bool)
            self.fail(bad, "a box must be a list of four numbers", given[bad.argmax()])
        corners = self.read_numbers(list(chain.from_iterable(listed)), "the coordinates of a box", 4)
        corners = corners.astype(np.float64).reshape(-1, 4)
        small = np.abs(corners) <= _LARGEST
        if not small.all():
            bad = ~small.all(axis=1)
            self.fail(bad, f"coordinates must be finite, and at most {_LARGEST:g} in size", corners[bad][0].tolist())
        as_sizes = box_format == "xywh"
        turned = corners[:, 2:] < (0 if as_sizes else corners[:, :2])
        if turned.any():
            bad = turned.any(axis=1)
            rule = "width and height must not be negative" if as_sizes else "x2 must not be below x1, nor y2 below y1"
            alternative = "'xyxy' for [x1, y1, x2, y2]" if as_sizes else "'xywh' for [x1, y1, width, height]"
            self.fail(bad, f"with box_format {box_format!r} {rule} (pass {alternative})", corners[bad][0].tolist())
        if as_sizes:
            corners[:, 2:] += corners[:, :2]
        return corners

    def read_scores(self, scores: Iterable[Any]) -> NDArray[np.float64]:
        values = self.read_numbers(list(scores), "the scores").astype(np.float64)
        bad = ~np.isfinite(values)
        if bad.any():
            self.fail(bad, "a score must be finite, for NaN compares with nothing; score again", values[bad][0])
        return values

    def read_phrase_ids(self, phrase_ids: Iterable[Any]) -> NDArray[np.int64]:
        values = self.read_numbers(list(phrase_ids), "the phrase ids")
        largest = _LARGEST_EXACT if values.dtype.kind == "f" else np.iinfo(np.int64).max
        bad = ~((values == np.floor(values)) & (values >= 0) & (values <= largest))
        if bad.any():
            self.fail(bad, f"a phrase id must be a whole number from 0 to {largest}", values[bad][0])
        return values.astype(np.int64)

    def read_numbers(self, values: list[Any], what: str, per_box: int = 1) -> NDArray[Any]:
        numbers = _as_numbers(values)
        if numbers is not None:
            return numbers
        bad = np.array([_as_numbers([value]) is None for value in values], dtype=bool)
        rule = f"{what} must be numbers, not text or None; convert or leave out"
        self.fail(bad.reshape(-1, per_box).any(axis=1), rule, values[bad.argmax()])

    def fail(self, bad: ArrayLike, rule: str, value: Any) -> NoReturn:
        """Raise a `ScoresError` for the boxes in ``bad``, of shape (m,); ``value`` is the first bad box's value."""
        flags = np.asarray(bad, dtype=bool)
        first = int(flags.argmax())
        row = int(self.rows[first])
        offset = first - int(np.searchsorted(self.rows, row))
        mask = np.zeros(self.n_rows, dtype=bool)
        mask[self.rows[flags]] = True
        text = f"{value:g}" if isinstance(value, np.floating) else str(value)
        raise ScoresError(
            f"{rule}; the {self.side} break this in {name_rows(mask)}, first in box {offset} of row {row}: "
            f"{text if len(text) <= 80 else text[:79] + '…'}"
        )
