"""The agreement of the predictions of two models for the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .schema import MatchingRow, Row, VQARow

# Scores have the same scale if their median difference is within this share of their standard deviation.
_SAME_SCALE = 0.1


class Agreement(NamedTuple):
    """The agreement of two models.

    Attributes:
        same: the share of examples with the same decisions, in [0, 1].
        n: the number of examples.
        largest_difference: of two scores for the same image and text; None if the scores have different scales.
    """

    same: float
    n: int
    largest_difference: float | None


def agreement(first: Sequence[Row], second: Sequence[Row]) -> Agreement | None:
    """Compute the agreement of two models on the same examples; None if no row is of task type matching or vqa.

    Scores have the same scale if the median of their differences is at most a tenth of the first ones' standard
    deviation.
    """
    pairs = [(one, two) for one, two in zip(first, second, strict=True) if decisions(one) is not None]
    if not pairs:
        return None
    same = [decisions(one) == decisions(two) for one, two in pairs]
    ours, theirs = (np.concatenate([_scores(pair[side]) for pair in pairs]) for side in (0, 1))
    apart = np.abs(ours - theirs)
    is_same_scale = np.median(apart) <= _SAME_SCALE * ours.std()
    return Agreement(float(np.mean(same)), len(same), float(apart.max()) if is_same_scale else None)


def decisions(row: Row) -> Any:
    """Return the decisions that metrics depend on: the order of each image's texts and of each text's images.

    For a question it is the answer. Return None for rows of other task types and rows without scores.
    """
    if isinstance(row, VQARow):
        return None if row.score is None else np.sign(row.score)
    if not isinstance(row, MatchingRow) or row.scores is None:
        return None
    scores = np.array(row.scores)
    texts = np.sign(scores[:, :, None] - scores[:, None, :])
    images = np.sign(scores[:, None, :] - scores[None, :, :])
    return texts.tolist(), images.tolist()


def _scores(row: Row) -> np.ndarray:
    values: Any = row.score if isinstance(row, VQARow) else getattr(row, "scores", ())
    return np.ravel(values).astype(np.float64)
