"""Contextual phrase detection: matching boxes to ground truth, and average precision over a whole dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError, check_known
from .boxes import PredictedBoxes, Truths, box_iou

TIES = ("wrong", "coco")
IOU_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
RECALL_POINTS = tuple(np.linspace(0, 1, 101).tolist())
_RECALLS = np.array(RECALL_POINTS)

# Pairs of a box and a truth compared at once: 2**18 pairs need some 50 MB.
_PAIRS_PER_CHUNK = 2**18


class Matched(NamedTuple):
    """The evaluated boxes, by descending score, and whether each of them matched a ground-truth box.

    Boxes of equal score keep the order of the rows, and within a row the order of its boxes.

    Attributes:
        rows, scores: of shape (m,), each box's row and its score, descending.
        matched: of shape (10, m), whether it was matched, by IoU threshold.
        block_ends: of shape (m,), the position of the last box with the same score.
        truths_per_row: of shape (n_rows,), the number of ground-truth boxes.
    """

    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    matched: NDArray[np.bool_]
    block_ends: NDArray[np.intp]
    truths_per_row: NDArray[np.int64]


class Hits(NamedTuple):
    """The matched boxes at one IoU threshold, by descending score: their rows, and the rank up to which boxes count."""

    rows: NDArray[np.intp]
    ends: NDArray[np.intp]


class _Pairs(NamedTuple):
    """Overlapping pairs of a box and a truth of the same row and phrase (a group), sorted by box, then by truth."""

    boxes: NDArray[np.intp]
    truths: NDArray[np.intp]
    groups: NDArray[np.intp]
    ious: NDArray[np.float64]


def match(detections: PredictedBoxes, truths: Truths, max_boxes: int = 100, ties: str = "wrong") -> Matched:
    """Match boxes to ground truth greedily, within rows and phrases, at the ten COCO thresholds of IoU.

    Of each row the ``max_boxes`` highest-scoring boxes count, over all its phrases. By descending score, each
    takes the ground-truth box of its row and phrase that is still free and has the highest IoU, if that is at
    least the threshold. A box that takes none is a false positive, and so is every box of a row or phrase without
    ground truth. The thresholds are 0.5, 0.55, …, 0.95 (``IOU_THRESHOLDS``).

    Of equal IoU the later ground-truth box is taken, as in pycocotools.

    Args:
        detections: predicted boxes from ``boxes.read_boxes``, without NaN.
        truths: the ground truth of the same rows.
        max_boxes: how many boxes of a row count, at least 1.
        ties: which of equal scores in a row go first, here and where boxes beyond ``max_boxes`` are dropped. With
            ``"wrong"`` the boxes that overlap their ground truth least, so that the order of boxes does not matter and
            a tie never helps; with ``"coco"`` the earlier ones, as in pycocotools.

    Returns:
        The boxes that count and what they matched. Time grows with the pairs of a box and a truth of one row and
        phrase (and m log m for sorting), memory with those pairs that overlap by half or more.

    Raises:
        ScoresError: ``max_boxes`` is not a whole number from 1.
        UnknownNameError: an unknown tie policy.

    Source: TRICD (Kamath, Price et al., 2023), section 3.2; pycocotools, ``COCOeval.evaluateImg``. The paper says
    IoU "higher than" the threshold; COCO's code and the paper's Table 5 take IoU >= threshold, as here.

    >>> from vl_assay.metrics.functional.boxes import read_boxes
    >>> prediction = {"boxes": [[0, 0, 4, 3], [0, 0, 4, 4]], "scores": [0.9, 0.8], "phrase_ids": [1, 1]}
    >>> found = match(*read_boxes([prediction], [{"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}]))
    >>> found.matched.sum(axis=0).tolist()  # IoU 0.75 suffices six times; then the truth is free for the other
    [6, 4]
    """
    if not isinstance(max_boxes, int | np.integer) or max_boxes < 1:
        raise ScoresError(f"max_boxes is {max_boxes!r}; it must be a whole number of at least 1, such as COCO's 100")
    check_known("tie policy", [str(ties)], TIES)
    if ties == "wrong" and _has_ties(detections):
        order = _worst_first(detections, truths)
        parts: list[Any] = [column[order] for column in detections[:4]]
        moved = PredictedBoxes(*parts, n_rows=detections.n_rows)
        return match(moved, truths, max_boxes, "coco")
    kept = _descending(detections.scores)
    kept = kept[_ranks(detections.rows[kept]) < max_boxes]
    scores = detections.scores[kept]
    position = np.full(len(detections.rows), -1)
    position[kept] = np.arange(len(kept))
    pairs = _overlapping(detections, truths, position >= 0)
    pairs = pairs._replace(boxes=position[pairs.boxes])
    return Matched(
        rows=detections.rows[kept],
        scores=scores,
        matched=_match_greedily(pairs, len(kept), len(truths.rows)),
        block_ends=_block_ends(scores),
        truths_per_row=np.bincount(truths.rows, minlength=truths.n_rows),
    )


def select_rows(matched: Matched, rows: ArrayLike) -> Matched:
    """Keep the boxes and ground truth of the rows selected by a bool array of shape (n_rows,); empty the other rows."""
    asked_rows = np.asarray(rows, dtype=bool)
    kept = _taken(matched, np.flatnonzero(asked_rows[matched.rows]))
    return kept._replace(truths_per_row=matched.truths_per_row * asked_rows)


def renumbered(matched: Matched, rows: NDArray[np.intp]) -> Matched:
    """Keep the boxes and ground truth of the rows with these indices, and renumber the rows in this order."""
    position = np.full(len(matched.truths_per_row), -1)
    position[rows] = np.arange(len(rows))
    kept_rows = select_rows(matched, position >= 0)
    return kept_rows._replace(rows=position[kept_rows.rows], truths_per_row=matched.truths_per_row[rows])


def stacked(first: Matched, second: Matched) -> Matched:
    """Concatenate the rows of two matched sets of boxes, as if they had been matched together."""
    second = second._replace(rows=second.rows + len(first.truths_per_row))
    parts: list[Any] = [np.concatenate(columns, axis=-1) for columns in zip(first, second, strict=True)]
    both = Matched(*parts)
    return _taken(both, _descending(both.scores))


def _taken(matched: Matched, boxes: NDArray[np.intp]) -> Matched:
    """Return the boxes with these indices, in this order."""
    scores = matched.scores[boxes]
    return Matched(matched.rows[boxes], scores, matched.matched[:, boxes], _block_ends(scores), matched.truths_per_row)


def hits_of(matched: Matched, ties: str = "wrong") -> list[Hits]:
    """Return the matches at each IoU threshold for `average_precisions`; an unknown policy is an `UnknownNameError`."""
    check_known("tie policy", [ties], TIES)
    ends = matched.block_ends if ties == "wrong" else np.arange(len(matched.rows))
    positions = map(np.flatnonzero, matched.matched)
    return [Hits(matched.rows[hits], ends[hits]) for hits in positions]


def average_precisions(
    matched: Matched,
    row_weights: ArrayLike | None = None,
    ties: str = "wrong",
    hits: Sequence[Hits] | None = None,
) -> NDArray[np.float64]:
    """Compute average precision at each IoU threshold, from one precision-recall curve over all rows and phrases.

    Precision is interpolated at 101 recalls, 0, 0.01, …, 1: at each it is the highest precision at that or any
    higher recall, and 0 beyond the highest recall. The mean of the ten numbers is COCO's AP, the first AP50
    and the sixth AP75.

    Args:
        matched: the result of ``match``.
        row_weights: whole numbers of shape (n_rows,), not checked, how often each row counts: 0 leaves it out, 2 has it
            twice, as a bootstrap resample does. ``None`` counts each once. Boxes are not matched again.
        ties: how equal scores count; as for ``match``. With ``"wrong"`` they enter the curve together, since no
            threshold on the score could separate them: the same curve as with all misses first, independent of the
            order of rows. With ``"coco"`` the order of rows decides, then that within the row, as in pycocotools; a
            weight then repeats each box on the spot.
        hits: the result of ``hits_of`` for the same boxes and ties, to share among many weightings.

    Returns:
        Array of shape (10,), in [0, 1]; higher is better. NaN throughout if no row with a ground-truth box has
        weight: undefined. A constant score gets the share of matches among the boxes, up to its recall.

    Raises:
        UnknownNameError: an unknown tie policy.

    Source: TRICD (Kamath, Price et al., 2023), section 3.2; pycocotools, ``COCOeval.accumulate``.

    >>> from vl_assay.metrics.functional.boxes import read_boxes
    >>> prediction = {"boxes": [[0, 0, 4, 4], [9, 9, 11, 11]], "scores": [0.9, 0.9], "phrase_ids": [1, 1]}
    >>> sides = read_boxes([prediction], [{"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}])
    >>> [average_precisions(match(*sides, ties=ties), ties=ties)[0].item() for ties in ("wrong", "coco")]
    [0.5, 1.0]
    """
    if hits is None:
        hits = hits_of(matched, ties)
    if row_weights is None:
        weights = np.ones(len(matched.truths_per_row))
        seen = np.arange(1.0, len(matched.rows) + 1)
    else:
        weights = np.asarray(row_weights, dtype=np.float64)
        seen = weights[matched.rows].cumsum()
    positives = weights @ matched.truths_per_row
    if not positives:
        return np.full(len(IOU_THRESHOLDS), np.nan)
    curves = np.empty((len(IOU_THRESHOLDS), len(_RECALLS)))
    for curve, (rows, ends) in zip(curves, hits, strict=True):
        # Precision peaks at matches, so the curve is needed only there; within a block of equal scores it
        # then rises to its value at the block's end, which the envelope carries back over the block.
        true = weights[rows].cumsum()
        envelope = np.zeros(len(true) + 1)
        falling = envelope[-2::-1]
        np.divide(true[::-1], np.maximum(seen[ends[::-1]], 1), out=falling)
        np.maximum.accumulate(falling, out=falling)
        envelope.take((true / positives).searchsorted(_RECALLS), out=curve)
    return curves.mean(axis=1)


def tie_rate(matched: Matched) -> float:
    """Return the share of boxes whose score both a match and a miss at IoU 0.5 have, in [0, 1]; 0 without boxes.

    >>> from vl_assay.metrics.functional.boxes import read_boxes
    >>> prediction = {"boxes": [[0, 0, 4, 4], [9, 9, 11, 11]], "scores": [0.9, 0.9], "phrase_ids": [1, 1]}
    >>> tie_rate(match(*read_boxes([prediction], [{"boxes": [[0, 0, 4, 4]], "phrase_ids": [1]}])))
    1.0
    """
    ends, hit = matched.block_ends, matched.matched[0]
    if not len(ends):
        return 0.0
    members = np.bincount(ends)
    hits = np.bincount(ends[hit], minlength=len(members))
    return float(members[(hits > 0) & (hits < members)].sum() / len(ends))


def any_box_hits(detections: PredictedBoxes, truths: Truths) -> NDArray[np.bool_]:
    """Return whether some ground-truth box of its row and phrase overlaps each box by an IoU of at least 0.5.

    This is the any-box protocol: several boxes may hit the same ground-truth box.

    Source: TRICD (Kamath, Price et al., 2023), section 6.2 with Table 5 (IoU >= 0.5), and appendix A.
    """
    hits = np.zeros(len(detections.rows), dtype=bool)
    hits[_overlapping(detections, truths, ~hits).boxes] = True
    return hits


def _block_ends(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return, for each score, the index of the last element in its run of equal scores."""
    if not len(scores):
        return np.empty(0, dtype=np.intp)
    last = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)
    return np.repeat(last, np.diff(last, prepend=-1))


def _has_ties(detections: PredictedBoxes) -> bool:
    """Return whether two boxes of one row have the same score."""
    order = np.lexsort((detections.scores, detections.rows))
    scores, rows = detections.scores[order], detections.rows[order]
    return bool(((scores[1:] == scores[:-1]) & (rows[1:] == rows[:-1])).any())


def _worst_first(detections: PredictedBoxes, truths: Truths) -> NDArray[np.intp]:
    """Order each row's boxes by rising overlap with their ground truth, then by content, whatever their input order."""
    pairs = _overlapping(detections, truths, np.ones(len(detections.rows), dtype=bool))
    best = np.zeros(len(detections.rows))
    np.maximum.at(best, pairs.boxes, pairs.ious)
    return np.lexsort((*detections.boxes.T, detections.phrase_ids, best, detections.rows))


def _descending(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the stable descending order; a faster unstable sort is used if no two scores are equal."""
    order = np.argsort(-scores)
    ordered = scores[order]
    return order if (ordered[1:] < ordered[:-1]).all() else np.argsort(-scores, kind="stable")


def _ranks(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rank of each element within its group, from 0, in input order."""
    sizes = np.bincount(groups)
    # Integers of 16 bits, which these nearly always are, NumPy sorts in linear time.
    order = np.argsort(groups.astype(np.min_scalar_type(len(sizes))), kind="stable")
    ranks = np.empty(len(groups), dtype=np.intp)
    ranks[order] = np.arange(len(groups)) - np.repeat(sizes.cumsum() - sizes, sizes)
    return ranks


def _overlapping(detections: PredictedBoxes, truths: Truths, eligible: NDArray[np.bool_]) -> _Pairs:
    """Return the pairs of an eligible box and a truth of the same row and phrase with an IoU of at least 0.5."""
    names, codes = np.unique(truths.phrase_ids, return_inverse=True)
    truth_groups = truths.rows * len(names) + codes
    order = np.argsort(truth_groups, kind="stable")
    truth_groups = truth_groups[order]
    boxes = np.flatnonzero(eligible & (np.bincount(truths.rows, minlength=truths.n_rows) > 0)[detections.rows])
    phrases = detections.phrase_ids[boxes]
    codes = np.minimum(np.searchsorted(names, phrases), len(names) - 1)
    groups = np.where(names[codes] == phrases, detections.rows[boxes] * len(names) + codes, -1)
    first = np.searchsorted(truth_groups, groups)
    counts = np.searchsorted(truth_groups, groups, side="right") - first

    nothing = np.empty(0, dtype=np.intp)
    pairs = [_Pairs(nothing, nothing, nothing, np.empty(0))]
    chunks = counts.cumsum() // _PAIRS_PER_CHUNK
    for chunk in np.split(np.arange(len(boxes)), np.flatnonzero(np.diff(chunks)) + 1):
        spread = np.repeat(chunk, counts[chunk])
        skipped = counts[chunk].cumsum() - counts[chunk]
        truth = order[np.arange(len(spread)) + np.repeat(first[chunk] - skipped, counts[chunk])]
        ious = box_iou(detections.boxes[boxes[spread]], truths.boxes[truth])
        enough = ious >= IOU_THRESHOLDS[0]
        spread = spread[enough]
        pairs.append(_Pairs(boxes[spread], truth[enough], first[spread], ious[enough]))
    return _Pairs(*map(np.concatenate, zip(*pairs, strict=True)))


def _match_greedily(pairs: _Pairs, n_boxes: int, n_truths: int) -> NDArray[np.bool_]:
    """Return match flags of shape (10, n_boxes); boxes are numbered by descending score.

    Step k matches the k-th box of every group (row and phrase) at once: no two of these boxes share a truth.
    """
    matched = np.zeros((len(IOU_THRESHOLDS), n_boxes), dtype=bool)
    if not len(pairs.boxes):
        return matched
    # Sorted by IoU within a box, and stably: the last free truth is the closest, the later one of equals.
    order = np.lexsort((pairs.ious, pairs.boxes))
    first = np.flatnonzero(np.diff(pairs.boxes[order], prepend=-1))
    steps = np.repeat(_ranks(pairs.groups[order[first]]), np.diff(first, append=len(order)))
    order = order[np.argsort(steps.astype(np.min_scalar_type(steps.max())), kind="stable")]
    boxes, wanted, ious = pairs.boxes[order], pairs.truths[order], pairs.ious[order]
    taken = np.zeros((len(IOU_THRESHOLDS), n_truths), dtype=bool)
    thresholds = np.array(IOU_THRESHOLDS)[:, np.newaxis]
    for step in np.split(np.arange(len(order)), np.bincount(steps).cumsum()[:-1]):
        free = (ious[step] >= thresholds) & ~taken[:, wanted[step]]
        starts = np.flatnonzero(np.diff(boxes[step], prepend=-1))
        best = np.maximum.reduceat(np.where(free, step, -1), starts, axis=1)
        matched[:, boxes[step][starts]] = best >= 0
        level, index = np.nonzero(best >= 0)
        taken[level, wanted[best[level, index]]] = True
    return matched
