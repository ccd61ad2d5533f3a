"""Hard positives: metrics on whether a model ranks both positive captions above the hard negative, or only one."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import check_ties, score_matrix
from ..estimation.spec import Described, Examples, make_examples
from .matching import match_scores

# From best to worst: c the original caption, c_p its hard positive, c_n the hard negative.
_ORDERS = {
    "c>c_p>c_n": (0, 1, 2),
    "c_p>c>c_n": (1, 0, 2),
    "c>c_n>c_p": (0, 2, 1),
    "c_p>c_n>c": (1, 2, 0),
    "c_n>c>c_p": (2, 0, 1),
    "c_n>c_p>c": (2, 1, 0),
}


@metric_function()
def augmented_accuracy(scores: ArrayLike, *, ties: str = "wrong", **labels: Unpack[Described]) -> Examples:
    """Compute the share of examples in which both positive captions outscore the hard negative; higher is better.

    ::

        original  = share of examples with s(c|i) > s(c_n|i)
        augmented = share of examples with s(c|i) > s(c_n|i) and s(c_p|i) > s(c_n|i)       (equation 1)
        gap       = original - augmented

    Choosing at random gives 1/2, 1/3 and 1/6.

    Args:
        scores: array-like of shape (n, 3), rows [s(c), s(c_p), s(c_n)]: the original caption, its hard positive and
            its hard negative; higher means a better match, on any scale.
        ties: how a tie of the hard negative with a positive caption counts where it decides: ``"wrong"`` 0, as in the
            paper's strict inequalities; ``"half"`` the mean over random ways of breaking it; ``"right"`` 1.
        labels: categories, clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        ``original_accuracy``, ``augmented_accuracy``, their ``macro_`` averages, ``gap`` and ``macro_gap`` in [0, 1]
        (lower is better for the gap; with ties ``"half"`` or ``"right"`` too, an example's augmented score
        never exceeds its original one), ``tie_rate``, ``n``, ``per_category``, and with ``confidence`` the intervals.

    Raises:
        ScoresError: rows without three scores, a NaN or infinite score, labels or options that cannot be used.
        UnknownNameError: an unknown tie policy.

    Source: The Hard Positive Truth about Vision-Language Compositionality (Kamath et al., ECCV 2024), section 4.1,
    equation 1.

    >>> result = augmented_accuracy([[3, 2, 1], [3, 1, 2]])
    >>> result["original_accuracy"], result["augmented_accuracy"], result["gap"]
    (1.0, 0.5, 0.5)
    """
    rows = _triples(scores)
    first = np.zeros(len(rows))
    original, original_tied = match_scores(rows[:, [0, 2]], first, ties)
    # The negative must be the worst of the three: the same kernel, upside down.
    augmented, augmented_tied = match_scores(-rows, first + 2, ties)
    values = {"original_accuracy": original, "augmented_accuracy": augmented, "gap": original - augmented}
    return make_examples(values, original_tied | augmented_tied, **labels)


@metric_function()
def brittleness(scores: ArrayLike, *, ties: str = "right", **labels: Unpack[Described]) -> Examples:
    """Compute the share of examples with one positive caption above the hard negative and one below; lower is better.

    ::

        brittleness = share of examples with s(c|i) > s(c_n|i) > s(c_p|i)
                      or s(c_p|i) > s(c_n|i) > s(c|i)                                      (equation 2)

    Ranking at random gives 1/3. With the strict inequalities of the paper a model that gives every caption the same
    score is not brittle, and never right: read ``tie_rate`` and ``both_wrong`` with it.

    Args:
        scores: array-like of shape (n, 3), rows [s(c), s(c_p), s(c_n)]; see `augmented_accuracy`.
        ties: how a tie of the hard negative with a positive caption counts: ``"right"`` not brittle, as in the paper's
            strict inequalities; ``"half"`` the chance that breaking it at random makes the example brittle;
            ``"wrong"`` brittle, since some way of breaking it makes it so.
        labels: categories, clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        - ``brittleness``, and ``both_wrong``, the share with s(c_n|i) above both, each in [0, 1], with ``macro_``
          averages; lower is better;
        - ``tie_rate``: share of examples in which the hard negative ties with a positive caption; what remains of
          1 - brittleness - both_wrong - tie_rate (with ``"right"``) is the augmented accuracy;
        - ``rankings``: the shares of the six rankings and of ``tied`` rows, which have none; they sum to 1;
        - ``mean_scores``: the means of ``c``, ``c_p`` and ``c_n``, on the scale of the scores;
        - ``n``, ``per_category`` with all of these, and with ``confidence`` the intervals.

    Raises:
        ScoresError: rows without three scores, a NaN or infinite score, labels or options that cannot be used.
        UnknownNameError: an unknown tie policy.

    Source: The Hard Positive Truth about Vision-Language Compositionality (Kamath et al., ECCV 2024), section 4.1,
    equation 2, and Tables 2 and 9 (mean scores).

    >>> result = brittleness([[3, 1, 2], [3, 2, 1], [1, 2, 3], [2, 1, 1]])
    >>> result["brittleness"], result["both_wrong"], result["tie_rate"]
    (0.25, 0.25, 0.25)
    """
    check_ties(ties)
    rows = _triples(scores)
    above = (rows[:, :2] > rows[:, 2:]).sum(axis=1)
    equal = (rows[:, :2] == rows[:, 2:]).sum(axis=1)
    brittle = (above == 1) & (equal == 0)
    # One tie is broken for or against; of the six ways to break a tie of all three, the negative is second in two.
    chance = {0: 0.0, 1: 1 / 2, 2: 1 / 3}
    counted = {"right": {}, "half": chance, "wrong": {1: 1.0, 2: 1.0}}[ties]
    values = brittle.astype(np.float64)
    for ways, value in counted.items():
        values[equal == ways] += value
    both_wrong = (above == 0) & (equal == 0)
    return make_examples(
        {"brittleness": values, "both_wrong": both_wrong},
        equal > 0,
        tables={"rankings": _rankings(rows), "mean_scores": dict(zip(("c", "c_p", "c_n"), rows.T, strict=True))},
        **labels,
    )


def _rankings(rows: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the ranking of each row, one of six; no ranking if some of its scores are tied."""
    flags = {
        name: (rows[:, best] > rows[:, middle]) & (rows[:, middle] > rows[:, worst])
        for name, (best, middle, worst) in _ORDERS.items()
    }
    flags["tied"] = (rows == rows[:, [1, 2, 0]]).any(axis=1)
    return {name: flag.astype(np.float64) for name, flag in flags.items()}


def _triples(scores: ArrayLike) -> NDArray[np.float64]:
    rows = score_matrix(scores)
    if rows.shape[1] != 3:
        raise ScoresError(
            f"the rows have {rows.shape[1]} scores; pass three for each example: [s(c), s(c_p), s(c_n)], the "
            "original caption, its hard positive and its hard negative"
        )
    return rows
