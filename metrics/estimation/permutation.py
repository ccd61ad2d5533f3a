"""Permutation tests that exchange two models, or flip signs, on whole clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import accumulate, islice, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from .bootstrap import MIN_RESAMPLES, Floats, Indices, check_whole, chunks, cluster_totals
from .checks import Labels, as_float64, cluster_codes, refuse

# Sums and means closer than this, relative to the largest they could be, differ by rounding only.
_SUM_ROUNDING = 1e-10
_COINS_PER_BINOMIAL = 8

Flips = NDArray[np.uint8]


def cluster_permutation_test(
    differences: ArrayLike, clusters: Labels | None = None, *, permutations: int = 10_000, seed: int = 0
) -> float:
    """Test whether differences are symmetric around zero, by flipping the signs of whole clusters.

    If two models are equally good, and their errors have the same distribution over images, exchanging their scores on
    all examples of an image gives an equally likely outcome. The p-value is the chance that such an exchange, by a coin
    flip for each cluster, gives a sum of differences at least as far from zero. Sums that equal the observed one up to
    rounding count. If one model is right or wrong on whole images and the other is not, the test of 5 % rejects 6 to
    45 % of equally good models with 15 images, and 4 to 6 % with 300; a studentised statistic changes nothing, since
    flips of equal clusters order both statistics in the same way.

    The test is exact, and ``seed`` unused, if at most ``permutations`` cases cover all outcomes: clusters of equal
    absolute sum are interchangeable, so that m_1, m_2, … clusters of one absolute sum each make (m_1 + 1) (m_2 + 1) …
    cases, never more than 2 ** (clusters). Unclustered differences of -1, 0 and 1 thus get the exact sign test.
    Otherwise the p-value is (1 + c) / (1 + permutations), with c random flips at least as far out: valid, and never 0.

    Args:
        differences: array-like of shape (n,), finite: score of model 1 minus score of model 2.
        clusters: one label per example, its image; ``None`` makes each example its own cluster.
        permutations: number of random flips, at least 100.
        seed: seed of the random flips, a whole number from 0.

    Returns:
        The two-sided p-value, in (0, 1]; 1 if no cluster's sum differs from zero. It does not depend on the order of
        rows, on the names of clusters, or on which model comes first.

    Raises:
        ScoresError: no differences, NaN or infinite ones, labels missing or of another number, or an option outside its
            range.

    Source: Winkler et al., NeuroImage 92, 2014 (sign flips of whole blocks); Phipson and Smyth, Statistical
    Applications in Genetics and Molecular Biology 9, 2010 (counting the observed outcome).

    >>> cluster_permutation_test([1, 1, 1, 0], ["a", "a", "b", "c"])  # ±2 ±1: 3 or -3 in 2 of 4 cases
    0.5
    """
    check_whole(permutations=(permutations, MIN_RESAMPLES), seed=(seed, 0))
    values = as_float64(differences, "differences")
    if values.ndim != 1 or not values.size:
        raise ScoresError(f"the differences have shape {values.shape}; pass one per example, at least one")
    refuse(
        ~np.isfinite(values),
        "the difference is {first} in {rows}; a NaN or infinite one has no direction: leave these examples out, for "
        "both models, and report how many",
        values,
    )
    cluster = cluster_codes(clusters, len(values))
    scale = np.abs(values).max()
    if not scale:
        return 1.0
    sums = cluster_totals(values / scale, cluster)[0].round(12)
    kinds, members = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    total = math.fsum(kinds * members)
    threshold = abs(math.fsum(sums)) - _SUM_ROUNDING * total
    if math.prod((members + 1).tolist()) <= permutations:
        return _exact_p_value(kinds, members, threshold)
    # A binomial draw for each absolute sum replaces its clusters' coins, but costs as much as many coins.
    if _COINS_PER_BINOMIAL * len(kinds) <= members.sum():
        generator = np.random.default_rng(seed)
        positive = (generator.binomial(members, 0.5, (n, len(kinds))) for n in chunks(permutations, len(kinds)))
    else:
        kinds = np.repeat(kinds, members)
        positive = sign_flips(len(kinds), permutations, seed)
    sums = (2 * (flips.astype(np.float64) @ kinds) - total for flips in positive)
    extreme = sum(int(np.count_nonzero(np.abs(flipped) >= threshold)) for flipped in sums)
    return (1 + extreme) / (1 + permutations)


def sign_flips(clusters: int, permutations: int, seed: int, width: int = 0) -> Iterator[Flips]:
    """Yield coin flips for each cluster and permutation; all 2 ** clusters outcomes if these are no more.

    Args:
        clusters: number of clusters.
        permutations: most rows that are wanted.
        seed: seed of the coin flips.
        width: how many numbers the caller makes of each row, if more than `clusters`; memory stays flat.

    Yields:
        Arrays of 0 and 1 of shape (rows, clusters); see `permutation_p_value` for the number of all rows.
    """
    outcomes, generator = product((0, 1), repeat=clusters), np.random.default_rng(seed)
    for rows in chunks(min(2**clusters, permutations), max(clusters, width)):
        if 2**clusters <= permutations:
            yield np.array(list(islice(outcomes, rows)), dtype=np.uint8)
        else:
            yield generator.integers(0, 2, (rows, clusters), dtype=np.uint8)


def permutation_p_value(
    count_extreme: Callable[[Flips], Any], clusters: int, permutations: int, seed: int, width: int = 0
) -> Any:
    """Return the share of sign flips that are at least as extreme as what was observed.

    Args:
        count_extreme: from some rows of flips to the number of extreme ones: an integer, or an array of them.
        clusters, permutations, seed, width: see `sign_flips`.

    Returns:
        The p-value or p-values: exact if all outcomes were tried, else (1 + extreme) / (1 + permutations).
    """
    extreme = sum(count_extreme(flips) for flips in sign_flips(clusters, permutations, seed, width))
    return extreme / 2**clusters if 2**clusters <= permutations else (1 + extreme) / (1 + permutations)


def _exact_p_value(values: Floats, members: Indices, threshold: float) -> float:
    sums, chances = np.zeros(1), np.ones(1)
    for value, count in zip(values.tolist(), members.tolist(), strict=True):
        sums = np.add.outer(sums, value * np.arange(-count, count + 1, 2)).ravel()
        chances = np.multiply.outer(chances, _coin_flips(count)).ravel()
    return min(1.0, math.fsum(chances[np.abs(sums) >= threshold]))


def _coin_flips(count: int) -> list[float]:
    """Return the chance of 0, 1, … heads in `count` flips of a coin."""
    ways = accumulate(range(count), lambda ways, heads: ways * (count - heads) // (heads + 1), initial=1)
    return [way / 2**count for way in ways]
