"""Paired comparison of two models: the difference, its interval, and significance tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from .aggregate import RESAMPLES
from .bootstrap import (
    MIN_RESAMPLES,
    check_options,
    check_share,
    check_whole,
    chunks,
    cluster_bootstrap,
    cluster_standard_error,
    cluster_totals,
)
from .checks import Labels, as_float64, check_values, cluster_codes, refuse
from .spec import Described, category_numbers

PERMUTATIONS = 10_000
POWER = 0.8

_FEW_DISCORDANT = 25

# Sums and means closer than this, relative to the largest they could be, differ by rounding only.
_SUM_ROUNDING = 1e-10


class PairedOptions(Described, total=False):
    """The options of `paired_difference`.

    Keys:
        categories, clusters, resamples, seed: see ``aggregate.SummaryOptions``.
        confidence: coverage of the intervals, 0.95 by default; 1 - ``confidence`` is the level of the test for which
            ``smallest_detectable_difference`` is meant.
        permutations: number of random sign flips, at least 100; 10,000 by default.
        power: probability of detecting the smallest detectable difference, in (0, 1); 0.8 by default.
    """

    confidence: float | None
    resamples: int
    seed: int
    permutations: int
    power: float


class Resampling(NamedTuple):
    """How differences are tested.

    Attributes:
        confidence: coverage of the intervals, in (0, 1).
        resamples, permutations: at least 100 each; at most ``differences.MOST_WEIGHTED_DRAWS`` are made of a score such
            as AP.
        power: the chance with which the smallest detectable difference is found.
        seed: of the random draws.
    """

    confidence: float = 0.95
    resamples: int = RESAMPLES
    permutations: int = PERMUTATIONS
    power: float = POWER
    seed: int = 0

    def check(self) -> None:
        """Raise a `ScoresError` where an option lies outside its range."""
        check_options(self.confidence, self.resamples, self.seed)
        check_share("power", self.power)
        check_whole(permutations=(self.permutations, MIN_RESAMPLES))

    def detectable(self, error: float | None) -> float | None:
        """The smallest difference that is detected, for a standard error."""
        z = NormalDist().inv_cdf
        return None if error is None else (z((1 + self.confidence) / 2) + z(self.power)) * error


def paired_difference(
    values1: ArrayLike,
    values2: ArrayLike,
    *,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    confidence: float | None = 0.95,
    resamples: int = 10_000,
    permutations: int = 10_000,
    power: float = 0.8,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two models on the same examples.

    On easy examples both models are right, and what they share cancels in the difference, so each model's
    interval alone is uninformative. Examples of one image are not independent, so the interval, the standard
    error and the permutation test treat whole clusters; McNemar's test, the customary one, does not, and
    its p-value is too small where examples of an image share their fate.

    The interval is that of ``bootstrap.cluster_bootstrap``, but for two cases that show no spread between clusters:

    - one cluster: [-1, 1];
    - the mean difference d is the same in each of G clusters, as for two models of equal scores
      (d = 0): a kind of cluster that none of G showed may still have a share of up to
      b = 1 - ((1 - confidence) / 2) ** (1 / G), the exact binomial (Clopper-Pearson) bound, and any
      difference. The interval is [(1 - b) d - b, (1 - b) d + b], thus [-b, b] for equal models.

    The result depends on ``seed``, but not on the order of rows or the names of clusters and categories.

    Args:
        values1: array-like of shape (n,), in [0, 1]: the score of model 1 on each example, higher is better, such
            as that of ``matching.match_scores``, whose tie policy applies.
        values2: the same of model 2, for the same examples in the same order.
        categories, clusters, confidence, resamples, permutations, power, seed: see `PairedOptions`.

    Returns:
        Plain Python numbers:

        - ``difference``: ``accuracy1`` minus ``accuracy2``, in [-1, 1]; positive: model 1 is better.
        - ``accuracy1``, ``accuracy2``: the models' mean scores, in [0, 1].
        - ``difference_interval``: [low, high], and its ``confidence``.
        - ``wins``, ``losses``: number of examples on which the score of model 1 is higher, or lower.
        - ``agreement``: share of examples on which both score the same, in [0, 1].
        - ``n``, ``n_clusters``: number of examples and of clusters.
        - ``permutation_p_value``: two-sided, see ``cluster_permutation_test``.
        - ``mcnemar_p_value``, ``mcnemar_method``: see ``mcnemar``; both ``None`` where some score is neither 0
          nor 1.
        - ``standard_error``: of ``difference``, robust to dependence within clusters (sandwich estimate over
          G clusters, times G / (G - 1)); ``None`` where clusters show no spread, as above.
        - ``smallest_detectable_difference``: the true difference that a two-sided test at level 1 - ``confidence``
          finds with probability ``power``: (z(1 - level / 2) + z(power)) * ``standard_error``. ``None`` where the
          standard error is.
        - ``per_category``: by category, in the order of appearance, the same but for ``confidence``, as if the
          category's examples were all, and ``p_value_holm``: the permutation p-value corrected for the number
          of categories (see ``holm``). Empty without categories.

    Raises:
        ScoresError: no examples, values of unequal number, NaN or outside [0, 1], labels missing or of
            another number, or an option outside its range.

    Source: Miller, Adding Error Bars to Evals, arXiv:2411.00640, 2024, for paired differences, clustered
    standard errors and power; Liang and Zeger, Biometrika 73, 1986, for the sandwich estimate.

    >>> result = paired_difference([1, 1, 1, 0], [1, 0, 0, 0], clusters=["a", "a", "b", "b"])
    >>> result["difference"], result["wins"], result["losses"], result["agreement"]
    (0.5, 2, 0, 0.5)
    """
    how = Resampling(0.95 if confidence is None else confidence, resamples, permutations, power, seed)
    how.check()
    first, second = _check_pair(values1, values2)
    return compare_values(
        first, second, cluster_codes(clusters, len(first)), category_numbers(categories, len(first)), how
    )


def compare_values(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    cluster: NDArray[np.intp],
    categories: Mapping[str, NDArray[np.intp]],
    how: Resampling,
) -> dict[str, Any]:
    """What `paired_difference` returns, for checked values; `categories` has the examples of each."""
    per_category = {name: _compare(first[rows], second[rows], cluster[rows], how) for name, rows in categories.items()}
    add_holm(per_category)
    return {**_compare(first, second, cluster, how), "confidence": float(how.confidence), "per_category": per_category}


def add_holm(per_category: Mapping[str, dict[str, Any]]) -> None:
    """Add ``p_value_holm`` to the results by category."""
    adjusted = holm([part["permutation_p_value"] for part in per_category.values()])
    for part, p_value in zip(per_category.values(), adjusted.tolist(), strict=True):
        part["p_value_holm"] = p_value


def cluster_permutation_test(
    differences: ArrayLike, clusters: Labels | None = None, *, permutations: int = 10_000, seed: int = 0
) -> float:
    """Test whether differences are symmetric around zero, flipping the signs of whole clusters.

    If two models are equally good, and their errors are spread alike over images, exchanging their scores on all
    examples of an image gives an equally likely outcome. Where one is right or wrong on whole images and the other is
    not, the test of 5 % rejects 6 to 45 % of equally good models with 15 images, and 4 to 6 % with 300; a studentised
    statistic changes nothing, since flips of equal clusters order both alike. The p-value is the chance that such an
    exchange, by a coin flip for each cluster, gives a sum of differences at least as far from zero. Sums that equal the
    observed one up to rounding count.

    It is exact, and ``seed`` unused, where all outcomes can be told by at most ``permutations`` cases: clusters
    of equal absolute sum are interchangeable, so that m_1, m_2, … clusters of one absolute sum each make
    (m_1 + 1) (m_2 + 1) … cases, never more than 2 ** (clusters). Unclustered differences of -1, 0 and 1 thus
    get the exact sign test. Otherwise the p-value is (1 + c) / (1 + permutations), with c random flips
    at least as far out: valid, and never 0.

    Args:
        differences: array-like of shape (n,), finite: score of model 1 minus score of model 2.
        clusters: one label per example, its image; ``None`` makes each example its own cluster.
        permutations: number of random flips, at least 100.
        seed: seed of the random flips, a whole number from 0.

    Returns:
        The two-sided p-value, in (0, 1]; 1 where no cluster's sum differs from zero. It does not depend on the
        order of rows, on the names of clusters, or on which model comes first.

    Raises:
        ScoresError: no differences, NaN or infinite ones, labels missing or of another number, or an option
            outside its range.

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
    return _permutation_p_value(values, cluster_codes(clusters, len(values)), permutations, seed)


def mcnemar(wins: int, losses: int) -> tuple[float, str]:
    """McNemar's test of two models that are right or wrong on the same, independent examples.

    Args:
        wins: number of examples on which model 1 is right and model 2 wrong, from 0.
        losses: number of examples on which model 1 is wrong and model 2 right, from 0.

    Returns:
        The two-sided p-value in [0, 1] and how it was found: ``"exact"`` from the binomial distribution for
        fewer than 25 discordant examples (1 for none), else ``"chi-square"``, one degree of freedom, from
        max(|wins - losses| - 1, 0) ** 2 / (wins + losses). Exchanging the models changes nothing. The correction
        stops at 0, so that as many wins as losses give 1; statsmodels, which lets it overshoot, gives less there.

    Raises:
        ScoresError: a number that is not whole, or negative.

    Source: McNemar, Psychometrika 12, 1947; continuity correction, Edwards, Psychometrika 13, 1948.

    >>> mcnemar(0, 5)  # 2 * 0.5 ** 5
    (0.0625, 'exact')
    """
    check_whole(wins=(wins, 0), losses=(losses, 0))
    discordant, fewer = int(wins) + int(losses), int(min(wins, losses))
    if discordant < _FEW_DISCORDANT:
        tail = sum(math.comb(discordant, count) for count in range(fewer + 1)) / 2**discordant
        return min(1.0, 2 * tail), "exact"
    distance = max(discordant - 2 * fewer - 1, 0)
    # A chi-square variable of one degree of freedom is the square of a normal one.
    return math.erfc(distance / math.sqrt(2 * discordant)), "chi-square"


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Correct p-values for the number of tests made, by Holm's step-down method.

    Rejecting where the result is at most 5 % keeps the chance of any false rejection at 5 %, however the tests
    depend on each other.

    Args:
        p_values: array-like of shape (m,), in [0, 1]; m may be 0.

    Returns:
        float64 array of shape (m,): the adjusted p-values in the same order, none below its own p-value, at
        most 1. The i-th smallest, from 0, is multiplied by m - i and raised to those before it; equal p-values
        get equal results.

    Raises:
        ScoresError: another shape, or a p-value that is NaN or outside [0, 1].

    Source: Holm, Scandinavian Journal of Statistics 6, 1979.

    >>> holm([0.04, 0.01]).tolist()  # 0.01 * 2, then 0.04 * 1
    [0.04, 0.02]
    """
    values = as_float64(p_values, "p-values")
    if values.ndim != 1:
        raise ScoresError(f"the p-values have shape {values.shape}; pass a flat list, one per test")
    message = (
        "the p-value is {first:g} in {rows}; it must lie between 0 and 1, without NaN: leave out tests that could "
    )
    refuse(~((values >= 0) & (values <= 1)), message + "not be made", values)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return np.minimum(adjusted, 1.0)


def _check_pair(values1: ArrayLike, values2: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pair = []
    for name, values in (("values1", values1), ("values2", values2)):
        try:
            pair.append(check_values(values))
        except ScoresError as error:
            raise ScoresError(f"{name}: {error}") from error
    first, second = pair
    if len(first) != len(second):
        raise ScoresError(
            f"got {len(first)} values of model 1 and {len(second)} of model 2; pass those of the same examples, in "
            "the same order"
        )
    return first, second


def _compare(
    first: NDArray[np.float64], second: NDArray[np.float64], cluster: NDArray[np.intp], how: Resampling
) -> dict[str, Any]:
    n = len(first)
    differences = first - second
    wins, losses = int((first > second).sum()), int((first < second).sum())
    right_or_wrong = bool((np.isin(first, (0, 1)) & np.isin(second, (0, 1))).all())
    p_value, method = mcnemar(wins, losses) if right_or_wrong else (None, None)
    error = cluster_standard_error(differences, cluster)
    return {
        "difference": math.fsum(differences) / n,
        "accuracy1": math.fsum(first) / n,
        "accuracy2": math.fsum(second) / n,
        "difference_interval": _interval(differences, cluster, how),
        "wins": wins,
        "losses": losses,
        "agreement": (n - wins - losses) / n,
        "n": n,
        "n_clusters": len(np.unique(cluster)),
        "permutation_p_value": _permutation_p_value(differences, cluster, how.permutations, how.seed),
        "mcnemar_p_value": p_value,
        "mcnemar_method": method,
        "standard_error": error,
        "smallest_detectable_difference": how.detectable(error),
    }


def _interval(differences: NDArray[np.float64], cluster: NDArray[np.intp], how: Resampling) -> list[float]:
    if len(np.unique(cluster)) == 1:
        return [-1.0, 1.0]
    shares = (differences + 1) / 2
    intervals = cluster_bootstrap(shares, cluster, None, how.confidence, how.resamples, how.seed)
    return [2 * bound - 1 for bound in intervals.micro]


def _permutation_p_value(
    differences: NDArray[np.float64], cluster: NDArray[np.intp], permutations: int, seed: int
) -> float:
    scale = np.abs(differences).max()
    if not scale:
        return 1.0
    sums = cluster_totals(differences / scale, cluster)[0].round(12)
    values, members = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    threshold = abs(math.fsum(sums)) - _SUM_ROUNDING * math.fsum(values * members)
    if math.prod((members + 1).tolist()) <= permutations:
        return _exact_p_value(values, members, threshold)
    extreme = _extreme_flips(values, members, threshold, permutations, seed)
    return (1 + extreme) / (1 + permutations)


def _exact_p_value(values: NDArray[np.float64], members: NDArray[np.intp], threshold: float) -> float:
    sums, chances = np.zeros(1), np.ones(1)
    for value, count in zip(values.tolist(), members.tolist(), strict=True):
        sums = np.add.outer(sums, value * np.arange(-count, count + 1, 2)).ravel()
        chances = np.multiply.outer(chances, _coin_flips(count)).ravel()
    return min(1.0, math.fsum(chances[np.abs(sums) >= threshold]))


def _coin_flips(count: int) -> list[float]:
    """Chance of 0, 1, … heads in ``count`` flips of a coin."""
    ways = accumulate(range(count), lambda ways, heads: ways * (count - heads) // (heads + 1), initial=1)
    return [way / 2**count for way in ways]


def _extreme_flips(
    values: NDArray[np.float64], members: NDArray[np.intp], threshold: float, permutations: int, seed: int
) -> int:
    """Number of random flips whose sum is at least as far from zero as ``threshold``."""
    generator = np.random.default_rng(seed)
    total = math.fsum(values * members)
    # A binomial draw for each absolute sum replaces its clusters' coins, but costs as much as many coins.
    by_kind = 8 * len(values) <= members.sum()
    weights = values if by_kind else np.repeat(values, members)
    extreme = 0
    for flips in chunks(permutations, len(weights)):
        size = (flips, len(weights))
        if by_kind:
            positive = generator.binomial(members, 0.5, size)
        else:
            positive = generator.integers(0, 2, size, dtype=np.uint8)
        sums = 2 * (positive.astype(np.float64) @ weights) - total
        extreme += int(np.count_nonzero(np.abs(sums) >= threshold))
    return extreme
