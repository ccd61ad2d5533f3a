"""Whether predictions are what their model gives: predictions that were made again are compared with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.common.errors import PredictionsError
from ...metrics.functional.boxes import box_iou
from ...metrics.modules.discovery import get_spec
from ...metrics.records.agreement import decisions
from ...metrics.records.predictions import Predictions
from ...metrics.records.schema import DetectionRow, RetrievalRow, Row, VQARow

# Rounding on another device moves scores by less than this share of their standard deviation.
_TOLERANCE = 0.1
# Captions of an image whose scores are compared in a retrieval set, in addition to the correct ones, and ranks that are
# told apart; recalls end at 10.
_FIRST = 10
_SAME_BOX = 0.5


class Repetition(NamedTuple):
    """How far predictions that were made again agree with the first ones.

    Attributes:
        same: the share of examples that are repeated, in [0, 1].
        n: the number of examples that have scores in one or both.
        largest_difference: of two scores of the same thing.
    """

    same: float
    n: int
    largest_difference: float


def repetition(first: Predictions, second: Predictions) -> Repetition:
    """Compare predictions with those that the same model gave again.

    An example is repeated if its scores differ by at most a tenth of the standard deviation of the first ones, and
    decide the same: the order of its captions and images, or the answer to its question. Of a retrieval set the scores
    of the correct captions and of the ten highest of either are compared, and the ranks up to ten, which scores that
    differ by no more may exchange: of the first correct caption, and, unless captions are classes, of the image for
    each of its captions. Of a detector the scores of the best box of each phrase are compared, and these boxes overlap
    by an IoU of at least 0.5. An example that lacks its image in one of them is not repeated.

    Raises:
        PredictionsError: they are of different data, or have no example with scores in common.
    """
    data, theirs = ([each.metadata["benchmark"].get(key) for key in _DATA] for each in (first, second))
    again = {row.id: row for row in second.rows}
    if data != theirs or again.keys() != {row.id for row in first.rows}:
        raise PredictionsError(f"predictions of {theirs} do not repeat those of {data}; make them with the same data")
    pairs: list[tuple[Row, Row]] = [(row, again[row.id]) for row in first.rows]
    both = [pair for pair in pairs if pair[0].is_scored and pair[1].is_scored]
    if not both:
        raise PredictionsError(f"the two predictions of {data} have no example with scores in common")
    # Captions that are classes are scored by metrics of matching, and nothing looks for an image of them.
    metrics = first.metadata["benchmark"].get("metrics", {})
    of_images = not metrics or any(get_spec(name).task_type == RetrievalRow.task_type for name in metrics)
    numbers = [_numbers(*pair) for pair in both]
    ours = np.concatenate([one for one, _ in numbers])
    most = _TOLERANCE * ours.std() if ours.size else 0.0
    ranks, their_ranks = (_ranks([pair[side] for pair in both], most, of_images=of_images) for side in (0, 1))
    apart = [np.abs(one - two).max(initial=0) if one.shape == two.shape else np.inf for one, two in numbers]
    same = sum(
        gap <= most
        and decisions(one) == decisions(two)
        and _overlap(ranks.get(one.id), their_ranks.get(one.id))
        and _same_boxes(one, two)
        for gap, (one, two) in zip(apart, both, strict=True)
    )
    n = sum(one.is_scored or two.is_scored for one, two in pairs)
    return Repetition(float(same / n), n, float(max(apart)))


_DATA = ("name", "task", "configs", "split", "fingerprint")


def _numbers(one: Any, two: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scores to compare of two rows."""
    if isinstance(one, VQARow):
        return _flat(one.score), _flat(two.score)
    if isinstance(one, DetectionRow):
        best = [
            (max(ours), max(theirs))
            for ours, theirs in zip(one.scores or (), two.scores or (), strict=True)
            if ours and theirs
        ]
        return _flat([ours for ours, _ in best]), _flat([theirs for _, theirs in best])
    first, second = _flat(one.scores), _flat(two.scores)
    if isinstance(one, RetrievalRow) and len(first) == len(second):
        highest = [np.argsort(-each, kind="stable")[:_FIRST] for each in (first, second)]
        places = np.unique(np.concatenate([one.correct, *highest]))
        return first[places], second[places]
    return first, second


def _ranks(rows: Iterable[Row], margin: float, *, of_images: bool) -> dict[str, NDArray[np.intp]]:
    """The ranks that recalls depend on, (2, k), by the id of each image of a retrieval set; those beyond ten are one.

    They are of its first correct caption and, if asked for, of the first image of each of its captions: the lowest and
    the highest that they may have where scores move by `margin`.
    """
    scored = [(row, row.scores) for row in rows if isinstance(row, RetrievalRow) and row.scores is not None]
    if not scored:
        return {}
    best = np.full(len(scored[0][1]), -np.inf)  # of each caption the score of its best correct image
    for row, scores in scored:
        best[row.correct] = np.maximum(best[row.correct], scores[row.correct])
    best[np.isinf(best)] = np.nan  # captions of no image here
    images = np.zeros((2, len(best)), np.intp)
    for _, scores in scored:
        images += _above(scores, best, margin)
    found = {}
    for row, scores in scored:
        captions = _above(scores, scores[row.correct].max(), margin).sum(axis=1, keepdims=True)
        ranks = np.hstack([captions, images[:, row.correct]]) if of_images else captions
        # What is surely above its own does not count itself.
        found[row.id] = np.minimum(np.add(ranks, [[1], [0]]), _FIRST + 1)
    return found


def _above(scores: NDArray[Any], own: Any, margin: float) -> NDArray[np.bool_]:
    """Whether scores are above their `own`, surely and possibly: (2, n)."""
    return np.stack([scores > own + margin, scores >= own - margin])


def _overlap(one: NDArray[np.intp] | None, two: NDArray[np.intp] | None) -> bool:
    """Whether ranks can be the same; true for rows without ranks."""
    if one is None or two is None:
        return one is two
    return one.shape == two.shape and bool((one[0] <= two[1]).all() and (two[0] <= one[1]).all())


def _flat(scores: Any) -> NDArray[np.float64]:
    return np.ravel(np.asarray(scores, np.float64))


def _same_boxes(one: Row, two: Row) -> bool:
    """Whether the best boxes of all phrases are the same; true for rows without boxes."""
    if not isinstance(one, DetectionRow) or not isinstance(two, DetectionRow):
        return True
    pairs = [*zip(_best_boxes(one), _best_boxes(two), strict=True)]
    found = [pair for pair in pairs if all(pair)]
    are_missing_together = all(all(pair) or not any(pair) for pair in pairs)
    return are_missing_together and all(box_iou(*([box] for box in pair))[0] >= _SAME_BOX for pair in found)


def _best_boxes(row: DetectionRow) -> list[list[float]]:
    """The box of each phrase with the highest score, empty without any."""
    found = zip(row.boxes or (), row.scores or (), strict=True)
    return [boxes[int(np.argmax(scores))] if boxes else [] for boxes, scores in found]
