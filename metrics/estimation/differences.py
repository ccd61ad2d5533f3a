"""Differences between two models in any score, with intervals and permutation tests.

Means, and their macro averages, are compared through the differences of single examples (``paired``). Any other score
is compared through its `Estimator`: both models are resampled together, and the permutation test exchanges their
predictions on whole clusters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..common.errors import ScoresError
from .bootstrap import (
    Floats,
    Indices,
    cluster_bootstrap,
    cluster_sums,
    cluster_totals,
    percentile_interval,
    resampled_totals,
    resampled_weights,
)
from .estimators import Estimator, OfTotals
from .paired import Resampling, add_holm, compare_values
from .permutation import Flips, cluster_permutation_test, permutation_p_value
from .spec import Examples

MACRO = "macro_"
# Of a score such as AP, whose resamples are no product of matrices, each draw costs milliseconds.
MOST_WEIGHTED_DRAWS = 1_000

# Values closer than this differ by rounding only.
_ROUNDING = 1e-10


def differences(first: Examples, second: Examples, resampling: Resampling | None = None) -> dict[str, dict[str, Any]]:
    """Compute the difference between two models in every score, with intervals and permutation tests.

    Args:
        first, second: the same examples of both models, in the same order.
        resampling: confidence, draws, power and seed.

    Returns:
        For each score plain Python numbers:

        - ``difference``: ``score1`` minus ``score2``, and ``difference_interval`` as [low, high]; None if resamples do
          not spread and no exact interval is known;
        - ``score1``, ``score2``, ``tie_rate1``, ``tie_rate2``, ``n``, ``n_clusters``;
        - ``permutation_p_value``, from exchanging the models on whole clusters;
        - ``standard_error`` and ``smallest_detectable_difference``; None if clusters show no spread;
        - for means ``wins``, ``losses`` (examples on which model 1 has the higher, or the lower, value), ``agreement``,
          ``mcnemar_p_value`` and ``mcnemar_method``; None for other scores;
        - ``per_category``: the same by category, with ``p_value_holm``, corrected for the number of categories;
        - ``macro``: the same of the macro average, if there is one;
        - ``resamples``, ``permutations``: the numbers drawn, at most `MOST_WEIGHTED_DRAWS` of a score such as AP.

        Scores for which no intervals are computed, such as ranks, are left out.

    Raises:
        ScoresError: another number of examples, or an option outside its range.

    Source: Miller, Adding Error Bars to Evals, arXiv:2411.00640, 2024; for the exchange Winkler et al., NeuroImage 92,
    2014; see ``paired``.
    """
    if len(first) != len(second):
        raise ScoresError(f"got {len(first)} examples of model 1 and {len(second)} of model 2; pass the same examples")
    resampling = resampling or Resampling()
    resampling.check()
    results = {}
    for score in first.values:
        ours, theirs = first.of_score(score), second.of_score(score)
        results[score] = _mean_difference(ours, theirs, score, resampling)
        results[score] |= {"resamples": resampling.resamples, "permutations": resampling.permutations}
        if first.with_macro and first.categories:
            results[score]["macro"] = _macro_difference(ours, theirs, score, resampling)
    for ours, theirs in zip(first.estimators, second.estimators, strict=True):
        if ours.with_interval:
            results |= _estimated_differences(first, second, ours, theirs, resampling)
    return results


def p_value(first: Examples, second: Examples, score: str, category: str = "", permutations: int = 1_000) -> float:
    """Return the two-sided permutation p-value of one score's difference, over all examples or in a category.

    Args:
        first, second: the same examples of both models, in the same order.
        score: a score, or ``macro_<score>``.
        category: the category of the examples to use; empty for all examples.
        permutations: number of random exchanges, at least 100.

    Returns:
        In (0, 1]; 1 if no example counts.
    """
    name = score if score in first.scores else score.removeprefix(MACRO)
    if category:
        indices = first.categories.get(category, np.empty(0, dtype=np.intp))
        first, second = first.select(indices), second.select(indices)
    if not len(first):
        return 1.0
    if name in first.values:
        ours, theirs = first.of_score(name), second.of_score(name)
        weights = _macro_weights(ours) if score != name and not category else np.ones(len(ours))
        values = (ours.values[name] - theirs.values[name]) * weights
        return cluster_permutation_test(values, ours.clusters, permutations=permutations) if len(values) else 1.0
    ours, theirs = first.estimator(name), second.estimator(name)
    resampling = Resampling(permutations=permutations)
    return float(
        _exchange_p_values(ours, theirs, first.clusters, ours() - theirs(), resampling)[ours.names.index(name)]
    )


def _mean_difference(first: Examples, second: Examples, score: str, resampling: Resampling) -> dict[str, Any]:
    result = compare_values(first.values[score], second.values[score], first.clusters, first.categories, resampling)
    for indices, scores in zip(
        [np.arange(len(first)), *first.categories.values()], [result, *result["per_category"].values()], strict=True
    ):
        scores |= {"score1": scores.pop("accuracy1"), "score2": scores.pop("accuracy2")}
        scores |= _tie_rates(first, second, indices)
    return result


def _tie_rates(first: Examples, second: Examples, indices: Indices) -> dict[str, float | None]:
    return {
        f"tie_rate{n}": float(examples.tied[indices].mean()) if examples.has_ties else None
        for n, examples in enumerate((first, second), start=1)
    }


def _macro_weights(examples: Examples) -> Floats:
    """Return the weight of each example in the macro average; the weights sum to the number of examples."""
    if not examples.categories:
        return np.ones(len(examples))
    weights = np.zeros(len(examples))
    categories = examples.macro_categories
    for indices in categories.values():
        weights[indices] += len(examples) / (len(categories) * len(indices))
    return weights


def _macro_difference(first: Examples, second: Examples, score: str, resampling: Resampling) -> dict[str, Any]:
    weights = _macro_weights(first)
    values = [_macro_mean(examples, score) for examples in (first, second)]
    if not weights.any():
        return _result(values, None, 1.0, None, first, second, resampling)
    differences_ = first.values[score] - second.values[score]
    indices, labels = first.macro_membership
    shares = (differences_[indices] + 1) / 2
    options = (resampling.confidence, resampling.resamples, resampling.seed)
    low, high = cluster_bootstrap(shares, first.clusters[indices], labels, *options).macro
    if len(np.unique(first.clusters)) == 1:
        low, high = 0.0, 1.0
    residuals = weights * differences_
    for rows in first.macro_categories.values():
        share = len(first) / (len(first.macro_categories) * len(rows))
        residuals[rows] -= share * differences_[rows].mean()
    sums, _ = cluster_totals(residuals, first.clusters)
    groups = len(sums)
    error = math.sqrt(groups / (groups - 1) * math.fsum(sums**2)) / len(first) if groups > 1 else 0.0
    draws = {"permutations": resampling.permutations, "seed": resampling.seed}
    p = cluster_permutation_test(differences_ * weights, first.clusters, **draws)
    return _result(values, [2 * low - 1, 2 * high - 1], p, error, first, second, resampling)


def _macro_mean(examples: Examples, score: str) -> float | None:
    means = [float(examples.values[score][indices].mean()) for indices in examples.macro_categories.values()]
    return math.fsum(means) / len(means) if means else None


def _result(
    values: list[Any],
    interval: list[float] | None,
    p: float,
    error: float | None,
    first: Examples,
    second: Examples,
    resampling: Resampling,
) -> dict[str, Any]:
    """Return the result for a difference that is not a mean over examples."""
    score1, score2 = (None if value is None or math.isnan(value) else float(value) for value in values)
    error = error if error and error > _ROUNDING else None
    return {
        "difference": None if score1 is None or score2 is None else score1 - score2,
        "score1": score1,
        "score2": score2,
        "difference_interval": interval,
        # Of means over examples alone.
        **dict.fromkeys(("wins", "losses", "agreement", "mcnemar_p_value", "mcnemar_method")),
        "n": len(first),
        "n_clusters": len(np.unique(first.clusters)),
        "permutation_p_value": float(p),
        "standard_error": error,
        "smallest_detectable_difference": resampling.detectable(error),
        **_tie_rates(first, second, np.arange(len(first))),
        "confidence": float(resampling.confidence),
        "per_category": {},
    }


def _estimated_differences(
    first: Examples, second: Examples, ours: Estimator, theirs: Estimator, resampling: Resampling
) -> dict[str, dict[str, Any]]:
    """Return the differences of all scores of an estimator, by score."""
    if not isinstance(ours, OfTotals):
        most = {name: min(getattr(resampling, name), MOST_WEIGHTED_DRAWS) for name in ("resamples", "permutations")}
        resampling = resampling._replace(**most)
    results = _estimated_part(first, second, ours, theirs, resampling)
    for name, indices in first.categories.items():
        sides = (first.select(indices), second.select(indices), ours.select(indices), theirs.select(indices))
        for score, scores in _estimated_part(*sides, resampling).items():
            del scores["per_category"], scores["confidence"]
            results[score]["per_category"][name] = scores
    for result in results.values():
        add_holm(result["per_category"])
        result |= {"resamples": resampling.resamples, "permutations": resampling.permutations}
    return results


def _estimated_part(
    first: Examples, second: Examples, ours: Estimator, theirs: Estimator, resampling: Resampling
) -> dict[str, dict[str, Any]]:
    values = np.stack([ours(), theirs()])
    drawn = _resampled_differences(ours, theirs, first.clusters, resampling)
    p_values = _exchange_p_values(ours, theirs, first.clusters, values[0] - values[1], resampling)
    results = {}
    for column, name in enumerate(ours.names):
        drawn_scores = drawn[:, column][np.isfinite(drawn[:, column])]
        spread = len(drawn_scores) > 1 and bool(np.ptp(drawn_scores) > _ROUNDING)
        interval = list(percentile_interval(drawn_scores, resampling.confidence, first.clusters)) if spread else None
        error = float(drawn_scores.std(ddof=1)) if spread else None
        results[name] = _result(
            values[:, column].tolist(), interval, p_values[column], error, first, second, resampling
        )
    return results


def _resampled_differences(ours: Estimator, theirs: Estimator, clusters: Indices, resampling: Resampling) -> Floats:
    """Compute differences in resamples of whole clusters, of shape (resamples, scores)."""
    if isinstance(ours, OfTotals) and isinstance(theirs, OfTotals):
        both = resampled_totals(
            np.hstack([ours.values, theirs.values]), clusters, resampling.resamples, resampling.seed
        )
        first, second = np.hsplit(both, 2)
        return ours.function(first) - theirs.function(second)
    resampled = resampled_weights(clusters, resampling.resamples, resampling.seed)
    return np.array([ours(weights) - theirs(weights) for weights in resampled])


def _exchange_p_values(
    ours: Estimator, theirs: Estimator, clusters: Indices, observed: Floats, resampling: Resampling
) -> Floats:
    """Compute the share of exchanges of the models on whole clusters that differ at least as much, by score."""
    codes = np.unique(clusters, return_inverse=True)[1]
    threshold = np.abs(observed) - _ROUNDING
    if isinstance(ours, OfTotals) and isinstance(theirs, OfTotals):
        first, second = cluster_sums(ours.values, codes), cluster_sums(theirs.values, codes)

        def gaps(flips: Flips) -> Floats:
            moved = flips.astype(np.float64) @ (second - first)
            return ours.function(first.sum(axis=0) + moved) - theirs.function(second.sum(axis=0) - moved)
    else:
        both = ours.stacked(theirs)

        def gaps(flips: Flips) -> Floats:
            weights = flips[:, codes].astype(np.float64)
            unchanged, exchanged = np.hstack([1 - weights, weights]), np.hstack([weights, 1 - weights])
            return np.array([both(a) - both(b) for a, b in zip(unchanged, exchanged, strict=True)])

    p_values = permutation_p_value(
        lambda flips: (np.abs(gaps(flips)) >= threshold).sum(axis=0),
        int(codes.max()) + 1,
        resampling.permutations,
        resampling.seed,
        2 * len(codes),
    )
    return np.where(np.isnan(observed), 1.0, p_values)
