"""Pairs of questions about pairs of images; each question has different answers on the two images (NaturalBench)."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..estimation.aggregate import metric_function
from ..estimation.checks import check_ties
from ..estimation.spec import Described, Examples, make_examples
from .groups import group_tables

_REMEDY = (
    "pass a 2×4 matrix for each group: rows images, columns the answers of question 0 and of question 1 that are right "
    "of the image of the same number, and then the other answers of both"
)


@metric_function()
def paired_question_accuracy(scores: ArrayLike, *, ties: str = "wrong", **labels: Unpack[Described]) -> Examples:
    """Compute how often a model answers two questions about two images correctly; higher is better.

    ``s[i][j]`` is the score of image i with the answer to question j that is correct for image j, and ``s[i][2 + j]``
    its score with the other answer, which is correct for the other image::

        right[i][j] = s[i][j] > s[i][2 + j] if i == j else s[i][2 + j] > s[i][j]
        accuracy    = mean of right
        question    = mean over questions j of right[0][j] and right[1][j]
        image       = mean over images i of right[i][0] and right[i][1]
        group       = all four

    Answering at random gives 1/2, 1/4, 1/4 and 1/16; the same answer whatever the image 1/2, 0, at most 1/2, and 0.

    Args:
        scores: array-like of shape (n, 2, 4), see above; on any scale, as only two answers of one image to one question
            are compared.
        ties: how a tie of the two answers counts: ``"wrong"`` 0, as no answer does in the authors' code; ``"half"`` the
            mean over both ways of breaking it; ``"right"`` 1.
        labels: categories (NaturalBench's types of questions), clusters; and further options: see
            ``aggregate.SummaryOptions``.

    Returns:
        ``accuracy``, ``question_accuracy``, ``image_accuracy`` and ``group_accuracy`` in [0, 1], their ``macro_``
        averages over the categories, ``tie_rate`` (share of groups with a tie), ``n`` (groups), ``per_category``, and
        with ``confidence`` the intervals.

    Raises:
        ScoresError: a group that is not a 2×4 matrix, a NaN or infinite score, labels or options that cannot be used.
        UnknownNameError: an unknown tie policy.

    Source: NaturalBench (Li, Lin, Peng et al., NeurIPS Datasets and Benchmarks 2024), section 3.

    >>> result = paired_question_accuracy([[[2, 1, 1, 2], [1, 2, 2, 1]], [[2, 2, 1, 1], [1, 2, 2, 1]]])
    >>> result["accuracy"], result["question_accuracy"], result["image_accuracy"], result["group_accuracy"]
    (0.875, 0.75, 0.75, 0.5)
    """
    check_ties(ties)
    tables = group_tables(scores, 4, _REMEDY)
    own, other = tables[:, :, :2], tables[:, :, 2:]
    is_own = np.eye(2, dtype=bool)
    answered, left = np.where(is_own, own, other), np.where(is_own, other, own)
    tied = answered == left
    right = np.where(tied, {"wrong": 0.0, "half": 0.5, "right": 1.0}[ties], answered > left)
    # No two comparisons share a score, so that ties break independently and a product is the mean over all ways.
    values = {
        "accuracy": right.mean(axis=(1, 2)),
        "question_accuracy": right.prod(axis=1).mean(axis=1),
        "image_accuracy": right.prod(axis=2).mean(axis=1),
        "group_accuracy": right.prod(axis=(1, 2)),
    }
    return make_examples(values, tied.any(axis=(1, 2)), **labels)
