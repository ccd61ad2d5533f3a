"""The rank of the first right candidate of each query, with an explicit tie policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.checks import NOT_FINITE, as_float64, check_ties, name_rows, refuse

# Rows of unequal length too, which are not an array.
Rows = ArrayLike | Sequence[ArrayLike]

_DEEPEST = 2**53


class RightCandidates(NamedTuple):
    """The correct candidates as parallel index arrays: `rows[i]`, `columns[i]` is the i-th correct cell."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


class HitRanks(NamedTuple):
    """Counts of the candidates above and tied with the best right candidate of each query.

    Attributes, all of shape (q,):
        higher: the wrong candidates that score strictly higher.
        tied_wrong, tied_right: the wrong and the right candidates of exactly its score, itself included.
        found: false for a query without a correct candidate; its counts are 0.
    """

    higher: NDArray[np.intp]
    tied_wrong: NDArray[np.intp]
    tied_right: NDArray[np.intp]
    found: NDArray[np.bool_]

    def of(self, queries: NDArray[np.intp]) -> HitRanks:
        """Return the counts of some queries."""
        return HitRanks(self.higher[queries], self.tied_wrong[queries], self.tied_right[queries], self.found[queries])


def hit_ranks(queries: ArrayLike, scores: ArrayLike, hits: ArrayLike, n_queries: int) -> HitRanks:
    """Count the candidates above and tied with the best right candidate of each query.

    Retrieval sets that all queries share are counted from their score matrix instead (`retrieval`).

    Time grows as m log m, and as m where the candidates come query by query; memory with m.

    Args:
        queries: of shape (m,), the number of each candidate's query, from 0 to n_queries - 1, in any order.
        scores: of shape (m,), finite (not checked here), higher means a better match; compared as float64.
        hits: bools of shape (m,), whether the candidate is a right one.
        n_queries: number of queries; one may have several right candidates, none, or no candidates at all.

    Source: the rank behind recall at k, as in the released evaluation of CREPE (Ma et al., CVPR 2023), except for ties.

    >>> hit_ranks([0, 0, 0, 1], [0.9, 0.5, 0.5, 0.7], [False, True, False, False], 2).higher.tolist()
    [1, 0]
    """
    number, right = np.asarray(queries, dtype=np.intp), np.asarray(hits, dtype=bool)
    score = np.asarray(scores, dtype=np.float64)
    best, tied_right = best_right(number[right], score[right], n_queries)
    higher = np.bincount(number[score > best[number]], minlength=n_queries)
    tied_wrong = np.bincount(number[(score == best[number]) & ~right], minlength=n_queries)
    return HitRanks(higher, tied_wrong, tied_right, tied_right > 0)


def best_right(
    queries: NDArray[np.intp], scores: NDArray[Any], n_queries: int
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return each query's best score of a correct candidate (infinity without any), and how many of these have it.

    Takes the query and the finite score of each right candidate, both of shape (m,), in any order.

    >>> best_right(np.array([0, 0, 2]), np.array([0.5, 0.5, 0.1]), 3)
    (array([0.5, inf, 0.1]), array([2, 0, 1]))
    """
    order = np.argsort(queries, kind="stable")
    ordered = queries[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    best = np.full(n_queries, np.inf, dtype=scores.dtype)
    best[ordered[starts]] = np.maximum.reduceat(scores[order], starts)
    return best, np.bincount(queries[scores == best[queries]], minlength=n_queries)


def recall_at(ranks: HitRanks, k: int, ties: str = "wrong") -> NDArray[np.float64]:
    """Return whether a right candidate of each query is among its k highest: the summands of recall at k.

    Args:
        ranks: as `hit_ranks` returns them.
        k: how many candidates are looked at, a whole number from 1; with all of them a right one is always there.
        ties: the order of equal scores. ``"wrong"``: wrong candidates come first; ``"right"``: right ones come
            first; ``"half"``: any order is as likely as another, and the value is the probability that one of the
            j = k - higher places left goes to a right candidate, with C the binomial coefficient::

                1 - C(tied_wrong, j) / C(tied_wrong + tied_right, j)

    Returns:
        float64 array of shape (q,), in [0, 1], higher is better; 0 where no candidate is right. For one right
        candidate and k = 1 it is the score of ``matching.match_scores``.

    Raises:
        ScoresError: k is not a whole number from 1.
        UnknownNameError: an unknown tie policy.

    Source: recall at k, as in ARO (Yuksekgonul et al., ICLR 2023), section 3.1; the authors leave the order of ties
    to their sort.

    >>> ranks = hit_ranks([0, 0, 0, 0], [2, 1, 1, 1], [False, True, False, False], 1)
    >>> [round(float(recall_at(ranks, 2, ties)[0]), 4) for ties in ("wrong", "half", "right")]  # 1 place for 3
    [0.0, 0.3333, 1.0]
    """
    check_ties(ties)
    places_left = check_depth(k) - ranks.higher
    if ties == "half":
        values = _chance(places_left, ranks.tied_wrong, ranks.tied_right)
    else:
        values = places_left > (ranks.tied_wrong if ties == "wrong" else 0)
    return np.where(ranks.found, values, 0.0)


def rank(ranks: HitRanks, ties: str = "wrong") -> NDArray[np.float64]:
    """Return the rank, from 1, of the first right candidate of each query; lower is better.

    Args:
        ranks: of shape (q,).
        ties: ``"wrong"``: higher + tied_wrong + 1; ``"right"``: higher + 1; ``"half"``: the mean over all orders of
            equal scores, higher + (tied_wrong + tied_right + 1) / (tied_right + 1).

    Returns:
        float64 array of shape (q,); infinity where no candidate is right, which a caller must not average.

    Raises:
        UnknownNameError: an unknown tie policy.

    Source: mean and median rank, as in CREPE (Ma et al., CVPR 2023); the mean of the smallest of r numbers
    drawn from 1 to n is (n + 1) / (r + 1).

    >>> rank(hit_ranks([0, 0, 0], [1, 1, 1], [True, False, False], 1), "half").tolist()
    [2.0]
    """
    check_ties(ties)
    wrong, right = ranks.tied_wrong, ranks.tied_right
    among_tied = {"wrong": wrong + 1, "right": 1, "half": (wrong + right + 1) / (right + 1)}[ties]
    return np.where(ranks.found, ranks.higher + among_tied, np.inf)


def tied(ranks: HitRanks) -> NDArray[np.bool_]:
    """Return whether a wrong candidate shares the score of the best right one: bool array of shape (q,)."""
    return ranks.found & (ranks.tied_wrong > 0)


def tied_at(ranks: HitRanks, k: int) -> NDArray[np.bool_]:
    """Return whether a tie decides recall at k: the worst order of equal scores misses where the best one hits.

    >>> ranks = hit_ranks([0, 0], [1, 1], [True, False], 1)
    >>> tied_at(ranks, 1).tolist(), tied_at(ranks, 2).tolist()
    ([True], [False])
    """
    return recall_at(ranks, k, "right") > recall_at(ranks, k, "wrong")


def candidate_sets(scores: Rows) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Flatten the scores of the candidates of n >= 1 rows of any length; return them and the number of each row.

    Raises:
        ScoresError: no rows, a row that is not a flat list of numbers, or a score that is NaN or infinite.
    """
    rows = [as_float64(row, f"scores of row {number}") for number, row in enumerate(_listed(scores, "scores"))]
    if not rows:
        raise ScoresError("there are no scores; pass at least one row with the scores of its candidates")
    message = "the scores have shape {first} in {rows}; pass a flat list of scores for each row's candidates"
    refuse([row.ndim != 1 for row in rows], message, [row.shape for row in rows])
    bad = [row[~np.isfinite(row)] for row in rows]
    refuse([len(row) > 0 for row in bad], NOT_FINITE, [row[0] if len(row) else None for row in bad], what="candidates")
    return np.concatenate(rows), np.array([len(row) for row in rows], dtype=np.intp)


def right_candidates(right: Rows, sizes: NDArray[np.intp]) -> RightCandidates:
    """Validate the correct candidates: for each row, given its number of candidates, an index or a non-empty list.

    Raises:
        ScoresError: another number of rows, or an index that is missing, repeated, not a whole number or out of range;
            the message names the rows.

    >>> right_candidates([1, [0, 2]], np.array([2, 3]))
    RightCandidates(rows=array([0, 1, 1]), columns=array([1, 0, 2]))
    """
    places, counts = _places(right, len(sizes))
    refuse(
        counts == 0,
        "no candidate is right in {rows}; name at least one for each row, or leave these rows out and report how many",
    )
    rows = np.repeat(np.arange(len(sizes)), counts)
    bad = ~((places == np.floor(places)) & (places >= 0) & (places < sizes[rows]))
    if bad.any():
        raise ScoresError(
            f"the place of a right candidate is {places[bad][0]:g} in {name_rows(np.bincount(rows, bad) > 0)}; pass "
            f"whole numbers from 0, below the row's number of candidates, here {sizes[rows[bad][0]]}"
        )
    columns = places.astype(np.intp)
    order = np.lexsort((columns, rows))
    again = (np.diff(rows[order], prepend=-1) == 0) & (np.diff(columns[order], prepend=-1) == 0)
    refuse(np.bincount(rows, again) > 0, "a right candidate comes twice in {rows}; name each of them once")
    return RightCandidates(rows, columns)


def check_depth(k: int) -> int:
    """Return k, or raise `ScoresError` unless it is a whole number from 1."""
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 1 <= k <= _DEEPEST:
        raise ScoresError(f"k is {k!r}; it must be a whole number from 1, such as 5")
    return int(k)


def check_depths(ks: Sequence[int] | int) -> tuple[int, ...]:
    """Return the distinct depths; raise `ScoresError` for an empty list or one that is not a whole number from 1."""
    values = [ks] if isinstance(ks, int | np.integer) else []
    if isinstance(ks, Iterable) and not isinstance(ks, str):
        values = list(ks)
    if not values:
        raise ScoresError(f"ks is {ks!r}; pass a list of whole numbers from 1, such as [1, 5, 10]")
    return tuple(dict.fromkeys(check_depth(k) for k in values))


def _chance(places: NDArray[np.intp], wrong: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the chance that a random order of tied candidates puts a right one into the remaining places."""
    values = (places > wrong).astype(np.float64)
    undecided = np.flatnonzero((places > 0) & (places <= wrong))
    total = (wrong + right)[undecided]
    # Which candidates are right and which get a place are interchangeable: draw the fewer, one after the other.
    few = np.minimum(places, right)[undecided]
    many = np.maximum(places, right)[undecided]
    hit, missed = np.zeros(len(total)), np.ones(len(total))
    for drawn in range(few.max(initial=0)):
        chance = np.where(few > drawn, many / np.maximum(total - drawn, 1), 0.0)
        hit += missed * chance
        missed *= 1 - chance
    values[undecided] = np.minimum(hit, 1)
    return values


def _places(right: Rows, n: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the indices of all rows in one array, and their number in each row."""
    subject = "places of the right candidates"
    rows = _listed(right, subject)
    if len(rows) != n:
        raise ScoresError(f"got right candidates for {len(rows)} rows, but scores for {n}; pass them for each row")
    try:
        parts = [np.asarray(row) for row in rows]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ScoresError(
            f"the {subject} cannot be read ({error}); pass a whole number or a list for each row"
        ) from error
    masks = [row.dtype == bool for row in parts]
    refuse(masks, "the {what} are booleans in {rows}; pass the places, not a mask: [0, 3]", what=subject)
    return as_float64(np.concatenate(parts, axis=None), subject), np.array([row.size for row in parts], dtype=np.intp)


def _listed(values: Any, noun: str) -> list[Any]:
    try:
        return list(values)
    except TypeError as error:
        raise ScoresError(f"the {noun} are {values!r}; pass a list or array with an entry for each row") from error
