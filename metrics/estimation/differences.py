"""Differences between two models in any score, with intervals and permutation tests.

Means, and their macro averages, are compared through the differences of single examples (``paired``). Any other score
is compared through its `Estimator`: both models are resampled together, and the permutation test exchanges their
predictions on whole clusters.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..common.errors import ScoresError
from .bootstrap import chunks, cluster_bootstrap, cluster_counts, cluster_totals, percentile_interval, resampled_weights
from .estimators import Estimator, Floats, MeanOf, Numbers, OfTotals
from .paired import Resampling, add_holm, cluster_permutation_test, compare_values
from .spec import Examples

MACRO = "macro_"
# Of a score such as AP, whose resamples are no product of matrices, each draw costs milliseconds.
MOST_WEIGHTED_DRAWS = 1_000

# Values closer than this differ by rounding only.
_ROUNDING = 1e-10


def differences(first: Examples, second: Examples, how: Resampling | None = None) -> dict[str, dict[str, Any]]:
    """How much each score differs between two models.

    Args:
        first, second: the same examples of both models, in the same order.
        how: confidence, draws, power and seed.

    Returns:
        For each score plain Python numbers:

        - ``difference``: ``score1`` minus ``score2``, and ``difference_interval`` as [low, high]; None where resamples
          do not spread and no exact interval is known;
        - ``score1``, ``score2``, ``tie_rate1``, ``tie_rate2``, ``n``, ``n_clusters``;
        - ``permutation_p_value``, from exchanging the models on whole clusters;
        - ``standard_error`` and ``smallest_detectable_difference``; None where clusters show no spread;
        - for means ``wins``, ``losses`` (examples on which model 1 has the higher, or the lower, value), ``agreement``,
          ``mcnemar_p_value`` and ``mcnemar_method``; None for other scores;
        - ``per_category``: the same by category, with ``p_value_holm``, corrected for the number of categories;
        - ``macro``: the same of the macro average, where there is one;
        - ``resamples``, ``permutations``: the numbers drawn, at most `MOST_WEIGHTED_DRAWS` of a score such as AP.

        Scores without intervals of their own, such as ranks, are left out.

    Raises:
        ScoresError: another number of examples, or an option outside its range.

    Source: Miller, Adding Error Bars to Evals, arXiv:2411.00640, 2024; for the exchange Winkler et al., NeuroImage 92,
    2014; see ``paired``.
    """
    if len(first) != len(second):
        raise ScoresError(f"got {len(first)} examples of model 1 and {len(second)} of model 2; pass the same examples")
    how = how or Resampling()
    how.check()
    found = {}
    for score in first.values:
        one, two = first.of_score(score), second.of_score(score)
        found[score] = _mean_difference(one, two, score, how)
        found[score] |= {"resamples": how.resamples, "permutations": how.permutations}
        if first.with_macro and first.categories:
            found[score]["macro"] = _macro_difference(one, two, score, how)
    for one, two in zip(first.estimators, second.estimators, strict=True):
        if one.with_interval:
            found |= _estimated_differences(first, second, one, two, how)
    return found


def p_value(first: Examples, second: Examples, score: str, category: str = "", permutations: int = 1_000) -> float:
    """The two-sided permutation p-value of one score's difference, over all examples or in a category.

    Args:
        first, second: the same examples of both models, in the same order.
        score: a score, or ``macro_<score>``.
        category: the part of the examples that counts; empty for all.
        permutations: number of random exchanges, at least 100.

    Returns:
        In (0, 1]; 1 where no example counts.
    """
    name = score if score in first.scores else score.removeprefix(MACRO)
    if category:
        numbers = first.categories.get(category, np.empty(0, dtype=np.intp))
        first, second = first.select(numbers), second.select(numbers)
    if not len(first):
        return 1.0
    if name in first.values:
        one, two = first.of_score(name), second.of_score(name)
        weights = _macro_weights(one) if score != name and not category else np.ones(len(one))
        values = (one.values[name] - two.values[name]) * weights
        return cluster_permutation_test(values, one.clusters, permutations=permutations) if len(values) else 1.0
    one, two = first.estimator(name), second.estimator(name)
    how = Resampling(permutations=permutations)
    return float(_exchange_p_values(one, two, first.clusters, one() - two(), how)[one.names.index(name)])


def _mean_difference(first: Examples, second: Examples, score: str, how: Resampling) -> dict[str, Any]:
    result = compare_values(first.values[score], second.values[score], first.clusters, first.categories, how)
    for numbers, part in zip(
        [np.arange(len(first)), *first.categories.values()], [result, *result["per_category"].values()], strict=True
    ):
        part |= {"score1": part.pop("accuracy1"), "score2": part.pop("accuracy2")}
        part |= _tie_rates(first, second, numbers)
    return result


def _tie_rates(first: Examples, second: Examples, numbers: Numbers) -> dict[str, float | None]:
    return {
        f"tie_rate{n}": float(each.tied[numbers].mean()) if each.has_ties else None
        for n, each in enumerate((first, second), start=1)
    }


def _macro_weights(examples: Examples) -> Floats:
    """How much each example weighs in the macro average; the weights sum to the number of examples."""
    if not examples.categories:
        return np.ones(len(examples))
    weights = np.zeros(len(examples))
    places = examples.macro_categories
    for numbers in places.values():
        weights[numbers] += len(examples) / (len(places) * len(numbers))
    return weights


def _macro_difference(first: Examples, second: Examples, score: str, how: Resampling) -> dict[str, Any]:
    weights = _macro_weights(first)
    values = [_macro_mean(each, score) for each in (first, second)]
    if not weights.any():
        return _result(values, None, 1.0, None, first, second, how)
    differences_ = first.values[score] - second.values[score]
    numbers, labels = first.macro_membership
    shares = (differences_[numbers] + 1) / 2
    chosen = (how.confidence, how.resamples, how.seed)
    low, high = cluster_bootstrap(shares, first.clusters[numbers], labels, *chosen).macro
    if len(np.unique(first.clusters)) == 1:
        low, high = 0.0, 1.0
    residuals = weights * differences_
    for places in first.macro_categories.values():
        share = len(first) / (len(first.macro_categories) * len(places))
        residuals[places] -= share * differences_[places].mean()
    sums, _ = cluster_totals(residuals, first.clusters)
    groups = len(sums)
    error = math.sqrt(groups / (groups - 1) * math.fsum(sums**2)) / len(first) if groups > 1 else 0.0
    p = cluster_permutation_test(differences_ * weights, first.clusters, permutations=how.permutations, seed=how.seed)
    return _result(values, [2 * low - 1, 2 * high - 1], p, error, first, second, how)


def _macro_mean(examples: Examples, score: str) -> float | None:
    means = [float(examples.values[score][numbers].mean()) for numbers in examples.macro_categories.values()]
    return math.fsum(means) / len(means) if means else None


def _result(
    values: list[Any],
    interval: list[float] | None,
    p: float,
    error: float | None,
    first: Examples,
    second: Examples,
    how: Resampling,
) -> dict[str, Any]:
    """The result for a difference that is not a mean over examples."""
    one, two = (None if value is None or math.isnan(value) else float(value) for value in values)
    error = error if error and error > _ROUNDING else None
    return {
        "difference": None if one is None or two is None else one - two,
        "score1": one,
        "score2": two,
        "difference_interval": interval,
        # Of means over examples alone.
        **dict.fromkeys(("wins", "losses", "agreement", "mcnemar_p_value", "mcnemar_method")),
        "n": len(first),
        "n_clusters": len(np.unique(first.clusters)),
        "permutation_p_value": float(p),
        "standard_error": error,
        "smallest_detectable_difference": how.detectable(error),
        **_tie_rates(first, second, np.arange(len(first))),
        "confidence": float(how.confidence),
        "per_category": {},
    }


def _estimated_differences(
    first: Examples, second: Examples, one: Estimator, two: Estimator, how: Resampling
) -> dict[str, dict[str, Any]]:
    """The differences of all scores of an estimator, by score."""
    if not isinstance(one, OfTotals):
        resamples, permutations = (min(draws, MOST_WEIGHTED_DRAWS) for draws in (how.resamples, how.permutations))
        how = how._replace(resamples=resamples, permutations=permutations)
    found = _estimated_part(first, second, one, two, how)
    for name, numbers in first.categories.items():
        parts = (first.select(numbers), second.select(numbers), one.select(numbers), two.select(numbers))
        for score, part in _estimated_part(*parts, how).items():
            del part["per_category"], part["confidence"]
            found[score]["per_category"][name] = part
    for result in found.values():
        add_holm(result["per_category"])
        result |= {"resamples": how.resamples, "permutations": how.permutations}
    return found


def _estimated_part(
    first: Examples, second: Examples, one: Estimator, two: Estimator, how: Resampling
) -> dict[str, dict[str, Any]]:
    values = np.stack([one(), two()])
    drawn = _resampled_differences(one, two, first.clusters, how)
    p_values = _exchange_p_values(one, two, first.clusters, values[0] - values[1], how)
    found = {}
    for place, name in enumerate(one.names):
        column = drawn[:, place][np.isfinite(drawn[:, place])]
        spread = len(column) > 1 and bool(np.ptp(column) > _ROUNDING)
        interval = list(percentile_interval(column, how.confidence, first.clusters)) if spread else None
        error = float(column.std(ddof=1)) if spread else None
        found[name] = _result(values[:, place].tolist(), interval, p_values[place], error, first, second, how)
    return found


def _resampled_differences(one: Estimator, two: Estimator, clusters: Numbers, how: Resampling) -> Floats:
    """Differences in resamples of whole clusters, of shape (resamples, scores)."""
    if isinstance(one, OfTotals) and isinstance(two, OfTotals):
        first, second = _cluster_sums(one.values, clusters), _cluster_sums(two.values, clusters)
        draws = cluster_counts(len(first), how.resamples, how.seed)
        return np.concatenate([one.function(drawn @ first) - two.function(drawn @ second) for drawn in draws])
    return np.array([one(each) - two(each) for each in resampled_weights(clusters, how.resamples, how.seed)])


def _exchange_p_values(one: Estimator, two: Estimator, clusters: Numbers, observed: Floats, how: Resampling) -> Floats:
    """The share of random exchanges of the models on whole clusters that differ at least as much, by score."""
    codes = np.unique(clusters, return_inverse=True)[1]
    groups = int(codes.max()) + 1
    generator = np.random.default_rng(how.seed)
    threshold = np.abs(observed) - _ROUNDING
    extreme = np.zeros(len(observed))
    if isinstance(one, OfTotals) and isinstance(two, OfTotals):
        first, second = _cluster_sums(one.values, clusters), _cluster_sums(two.values, clusters)
        for count in chunks(how.permutations, groups):
            moved = generator.integers(0, 2, (count, groups)) @ (second - first)
            gaps = one.function(first.sum(axis=0) + moved) - two.function(second.sum(axis=0) - moved)
            extreme += (np.abs(gaps) >= threshold).sum(axis=0)
    else:
        both = one.stacked(two)
        for _ in range(how.permutations):
            exchanged = generator.integers(0, 2, groups)[codes].astype(np.float64)
            gap = both(np.concatenate([1 - exchanged, exchanged])) - both(np.concatenate([exchanged, 1 - exchanged]))
            extreme += np.abs(gap) >= threshold
    undefined = np.isnan(observed)
    return np.where(undefined, 1.0, (1 + extreme) / (1 + how.permutations))


def _cluster_sums(columns: Floats, clusters: Numbers) -> Floats:
    """Column sums of each cluster, of shape (clusters, m), in an order that does not depend on that of the rows."""
    codes = np.unique(clusters, return_inverse=True)[1]
    sums = np.zeros((int(codes.max()) + 1, columns.shape[1]))
    np.add.at(sums, codes, columns)
    return sums


def pooled(parts: list[Examples], clusters: Numbers, rows: Numbers) -> Examples:
    """The examples of several seeds as one set, whose scores are the means over the seeds.

    Args:
        parts: the examples of each seed, of one metric.
        clusters: of all of them, one after the other: examples that share an image are not independent across seeds.
        rows: the input row of each of them among the rows of all parts.

    Returns:
        One set. Means weigh each example alike, so that seeds of unequal size weigh by it.
    """
    starts = np.cumsum([0, *(len(part) for part in parts)])
    numbers = [np.arange(start, stop) for start, stop in pairwise(starts.tolist())]
    first = parts[0]
    membership = None
    if all(part.membership is not None for part in parts):
        found = [part.membership for part in parts if part.membership is not None]
        membership = (
            np.concatenate([each + start for (each, _), start in zip(found, starts, strict=False)]),
            [label for _, labels in found for label in labels],
        )
    return Examples(
        rows=rows,
        values={name: np.concatenate([part.values[name] for part in parts]) for name in first.values},
        tied=np.concatenate([part.tied for part in parts]),
        clusters=clusters,
        membership=membership,
        rare={name: why for part in parts for name, why in part.rare.items()},
        estimators=tuple(
            MeanOf([part.estimators[place] for part in parts], numbers, int(starts[-1]))
            for place in range(len(first.estimators))
        ),
        names=[name for part in parts for name in part.names or ()] if first.names is not None else None,
        with_macro=first.with_macro,
        with_tie_rate=first.with_tie_rate,
        has_ties=first.has_ties,
    )


def averaged(runs: list[Examples]) -> Examples:
    """The mean of several runs of a model on the same examples, in the same order, such as of training seeds.

    To be compared with a mean of as many runs: the exchange of models in ``differences`` is of means of equal spread.
    """
    first = runs[0]
    numbers = np.arange(len(first))
    return replace(
        first,
        values={name: np.mean([run.values[name] for run in runs], axis=0) for name in first.values},
        tied=np.mean([run.tied for run in runs], axis=0),
        estimators=tuple(
            MeanOf([run.estimators[place] for run in runs], [numbers] * len(runs), len(first))
            for place in range(len(first.estimators))
        ),
    )
