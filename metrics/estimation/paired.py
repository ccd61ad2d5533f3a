"""Paired comparison of two models: the difference, its interval, and significance tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import ScoresError
from .aggregate import RESAMPLES
from .bootstrap import (
    MIN_RESAMPLES,
    Floats,
    Indices,
    check_options,
    check_share,
    check_whole,
    cluster_bootstrap,
    cluster_standard_error,
)
from .checks import Labels, as_float64, check_values, cluster_codes, refuse
from .permutation import cluster_permutation_test
from .spec import Described, category_numbers

PERMUTATIONS = 10_000
POWER = 0.8

_FEW_DISCORDANT = 25


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
    """The options of tests of differences.

    Attributes:
        confidence: coverage of the intervals, in (0, 1).
        resamples, permutations: at least 100 each; at most ``differences.MOST_WEIGHTED_DRAWS`` are made of a score such
            as AP.
        power: the chance with which the smallest detectable difference is found.
        seed: seed of the random draws.
    """

    confidence: float = 0.95
    resamples: int = RESAMPLES
    permutations: int = PERMUTATIONS
    power: float = POWER
    seed: int = 0

    def check(self) -> None:
        """Raise a `ScoresError` if an option is outside its range."""
        check_options(self.confidence, self.resamples, self.seed)
        check_share("power", self.power)
        check_whole(permutations=(self.permutations, MIN_RESAMPLES))

    def detectable(self, error: float | None) -> float | None:
        """Return the smallest detectable difference for a standard error."""
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
    """Compute the difference between two models on the same examples, with its interval and significance tests.

    On easy examples both models are right, and this shared part cancels in the difference, so the intervals of the
    single models are uninformative. Examples of one image are not independent, so the interval, the standard error and
    the permutation test treat whole clusters; McNemar's test, the customary one, does not, and its p-value is too small
    where examples of an image share their fate.

    The interval is computed by ``bootstrap.cluster_bootstrap``, except in two cases without spread between clusters:

    - one cluster: [-1, 1];
    - the mean difference d is the same in each of G clusters, as for two models of equal scores
      (d = 0): a kind of cluster that none of G showed may still have a share of up to
      b = 1 - ((1 - confidence) / 2) ** (1 / G), the exact binomial (Clopper-Pearson) bound, and any
      difference. The interval is [(1 - b) d - b, (1 - b) d + b], thus [-b, b] for equal models.

    The result depends on ``seed``, but not on the order of rows or the names of clusters and categories.

    Args:
        values1: array-like of shape (n,), in [0, 1]: the score of model 1 on each example, higher is better, such as
            ``matching.match_scores`` returns, whose tie policy applies.
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
        - ``permutation_p_value``: two-sided, see ``permutation.cluster_permutation_test``.
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
    resampling = Resampling(0.95 if confidence is None else confidence, resamples, permutations, power, seed)
    resampling.check()
    first, second = _check_pair(values1, values2)
    return compare_values(
        first, second, cluster_codes(clusters, len(first)), category_numbers(categories, len(first)), resampling
    )


def compare_values(
    first: Floats,
    second: Floats,
    cluster: Indices,
    categories: Mapping[str, Indices],
    resampling: Resampling,
) -> dict[str, Any]:
    """Compute `paired_difference` of validated values; `categories` maps each category to its examples."""
    per_category = {
        name: _compare(first[rows], second[rows], cluster[rows], resampling) for name, rows in categories.items()
    }
    add_holm(per_category)
    return {
        **_compare(first, second, cluster, resampling),
        "confidence": float(resampling.confidence),
        "per_category": per_category,
    }


def add_holm(per_category: Mapping[str, dict[str, Any]]) -> None:
    """Add ``p_value_holm`` to the results by category."""
    adjusted = holm([result["permutation_p_value"] for result in per_category.values()])
    for result, p_value in zip(per_category.values(), adjusted.tolist(), strict=True):
        result["p_value_holm"] = p_value


def mcnemar(wins: int, losses: int) -> tuple[float, str]:
    """Compute McNemar's test of two models that are right or wrong on the same, independent examples.

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


def holm(p_values: ArrayLike) -> Floats:
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


def _check_pair(values1: ArrayLike, values2: ArrayLike) -> tuple[Floats, Floats]:
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


def _compare(first: Floats, second: Floats, cluster: Indices, resampling: Resampling) -> dict[str, Any]:
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
        "difference_interval": _interval(differences, cluster, resampling),
        "wins": wins,
        "losses": losses,
        "agreement": (n - wins - losses) / n,
        "n": n,
        "n_clusters": len(np.unique(cluster)),
        "permutation_p_value": cluster_permutation_test(
            differences, cluster, permutations=resampling.permutations, seed=resampling.seed
        ),
        "mcnemar_p_value": p_value,
        "mcnemar_method": method,
        "standard_error": error,
        "smallest_detectable_difference": resampling.detectable(error),
    }


def _interval(differences: Floats, cluster: Indices, resampling: Resampling) -> list[float]:
    if len(np.unique(cluster)) == 1:
        return [-1.0, 1.0]
    shares = (differences + 1) / 2
    intervals = cluster_bootstrap(shares, cluster, None, resampling.confidence, resampling.resamples, resampling.seed)
    return [2 * bound - 1 for bound in intervals.micro]
