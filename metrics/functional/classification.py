"""Classification by scores: accuracy among the k highest-scoring classes, over images and over classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import check_ties, score_matrix
from ..estimation.estimators import Floats, OfRows
from ..estimation.spec import Described, Examples, make_examples
from .matching import correct_columns
from .ranking import HitRanks, check_depths, recall_at, tied_at


@metric_function()
def zero_shot_accuracy(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    ks: Sequence[int] | int = (1, 5),
    ties: str = "wrong",
    **labels: Unpack[Described],
) -> Examples:
    """Compute the share of images whose class is among the k highest-scoring classes; higher is better.

    Args:
        scores: array-like of shape (n, classes), at least 2 classes: a row is an image, higher means a better match.
        correct: array-like of shape (n,): the column of each image's class.
        ks: the depths, whole numbers from 1. A depth of at least the number of classes is trivial and left out.
        ties: the order of classes with equal scores: ``"wrong"``, the right one comes last among them, ``"half"``, any
            order is as likely as another, or ``"right"``; see ``ranking.recall_at``.
        labels: categories, clusters; and further options: see ``aggregate.SummaryOptions``. The classes of the macro
            averages are always taken from ``correct``, not from the categories.

    Returns:
        ``acc_at_<k>`` over images, ``macro_acc_at_<k>``, the unweighted mean over the classes that have images, all in
        [0, 1], the share of images where a tie decides one of them, ``tie_rate``, ``n`` and ``per_category``; see
        ``aggregate.aggregate``. A constant scorer gets 0, a random one k / classes.

    Raises:
        ScoresError: invalid scores, NaN among them, indices, labels or options; or no depth below the number of
            classes.
        UnknownNameError: an unknown tie policy.

    Source: top-1 and top-5 accuracy of zero-shot classification (Radford et al., ICML 2021, section 3.1), as Acc@1 and
    Acc@5 in The Hard Positive Truth about Vision-Language Compositionality (Kamath et al., ECCV 2024), Table 10.

    >>> zero_shot_accuracy([[0.1, 0.9, 0.3], [0.4, 0.4, 0.2]], [1, 0], ks=[1, 2])["acc_at_1"]
    0.5
    """
    check_ties(ties)
    matrix = score_matrix(scores)
    n, classes = matrix.shape
    columns = correct_columns(correct, n, classes)
    depths = [k for k in check_depths(ks) if k < classes]
    if not depths:
        raise ScoresError(f"ks is {ks!r}, and there are {classes} classes; pass a k below their number, such as 1")
    right_scores = matrix[np.arange(n), columns][:, np.newaxis]
    tied_wrong = (matrix == right_scores).sum(axis=1) - 1
    ranks = HitRanks((matrix > right_scores).sum(axis=1), tied_wrong, np.ones_like(tied_wrong), np.ones(n, dtype=bool))
    values = {f"acc_at_{k}": recall_at(ranks, k, ties) for k in depths}
    names = tuple(f"macro_{name}" for name in values)
    return make_examples(
        values,
        np.any([tied_at(ranks, k) for k in depths], axis=0),
        estimators=(OverClasses(names, np.column_stack([*values.values(), columns.astype(np.float64)])),),
        chance={f"{average}acc_at_{k}": k / classes for average in ("", "macro_") for k in depths},
        with_macro=False,
        **labels,
    )


class OverClasses(OfRows):
    """Unweighted means over the classes that have examples.

    Categories would give the same, with an interval and a test for each of a thousand classes.

    Args:
        names: the scores.
        values: float64 of shape (n, scores + 1): the scores of each example and, in the last column, its class.
    """

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`."""
        weights = np.ones(len(self.values)) if weights is None else weights
        *columns, classes = self.values.T
        counts = np.bincount(classes.astype(np.intp), weights)
        there = counts > 0
        if not there.any():
            return np.full(len(self.names), np.nan)
        sums = [np.bincount(classes.astype(np.intp), weights * column) for column in columns]
        return np.array([(sums_of_class[there] / counts[there]).mean() for sums_of_class in sums])
