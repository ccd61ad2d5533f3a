"""Differences between two models in any score, with intervals and permutation tests.

Means, and their macro averages, are compared through the differences of single examples. Any other score is compared
through its `Estimator`: both models are resampled together, and the permutation test exchanges their predictions on
whole clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..common.errors import ScoresError
from .bootstrap import (
    Floats,
    Indices,
    cluster_bootstrap,
    cluster_standard_error,
    cluster_sums,
    cluster_totals,
    percentile_interval,
    resampled_totals,
    resampled_weights,
)
from .estimators import Estimator, OfTotals
from .paired import Resampling, holm, mcnemar
from .permutation import Flips, cluster_permutation_test, permutation_p_value
from .spec import Examples

MACRO = "macro_"
# Of a score such as AP, whose resamples are no product of matrices, each draw costs milliseconds.
MOST_WEIGHTED_DRAWS = 1_000

# Values closer than this differ by rounding only.
_ROUNDING = 1e-10
_DRAWS = ("resamples", "permutations")


def differences(first: Examples, second: Examples, resampling: Resampling | None = None) -> dict[str, dict[str, Any]]:
    """Compute the difference between two models in every score, with intervals and permutation tests.

    On easy examples both models are right, and this shared part cancels in the difference, so the intervals of the
    single models are uninformative. Examples of one image are not independent, so the interval, the standard error and
    the permutation test treat whole clusters; McNemar's test, the customary one, does not, and its p-value is too small
    where examples of an image share their fate.

    Intervals of means are computed by ``bootstrap.cluster_bootstrap``, except in two cases without spread between
    clusters:

    - one cluster: [-1, 1];
    - the mean difference d is the same in each of G clusters, as for two models of equal scores (d = 0): a kind of
      cluster that none of G showed may still have a share of up to b = 1 - ((1 - confidence) / 2) ** (1 / G), the exact
      binomial (Clopper-Pearson) bound, and any difference. The interval is [(1 - b) d - b, (1 - b) d + b], thus [-b, b]
      for equal models.

    The result depends on the seed, but not on the order of rows or the names of clusters and categories.

    Args:
        first, second: the same examples of both models, in the same order.
        resampling: confidence, draws, power and seed.

    Returns:
        For each score plain Python numbers:

        - ``difference``: ``score1`` minus ``score2``, and ``difference_interval`` as [low, high]; None if resamples do
          not spread and no exact interval is known; ``confidence`` of the interval;
        - ``score1``, ``score2``, ``tie_rate1``, ``tie_rate2``, ``n``, ``n_clusters``;
        - ``permutation_p_value``, two-sided, from exchanging the models on whole clusters: see
          ``permutation.cluster_permutation_test``;
        - ``standard_error``, robust to dependence within clusters, and ``smallest_detectable_difference``, the true
          difference that a two-sided test at level 1 - confidence finds with probability power; None if clusters show
          no spread;
        - for means ``wins``, ``losses`` (examples on which model 1 has the higher, or the lower, value), ``agreement``
          (share of examples of equal value), ``mcnemar_p_value`` and ``mcnemar_method`` (see ``paired.mcnemar``; None
          where some value is neither 0 nor 1); None for other scores;
        - ``per_category``: the same by category but for ``confidence``, as if its examples were all, with
          ``p_value_holm``, the permutation p-value corrected for the number of categories (see ``paired.holm``);
        - ``macro``: the same of the macro average, if there is one;
        - ``resamples``, ``permutations``: the numbers drawn, at most `MOST_WEIGHTED_DRAWS` of a score such as AP.

        Scores for which no intervals are computed, such as ranks, are left out, and so are scores of no example.

    Raises:
        ScoresError: another number of examples, or an option outside its range.

    Source: Miller, Adding Error Bars to Evals, arXiv:2411.00640, 2024, for paired differences, clustered standard
    errors and power; Liang and Zeger, Biometrika 73, 1986, for the sandwich estimate; for the exchange Winkler et al.,
    NeuroImage 92, 2014.
    """
    if len(first) != len(second):
        raise ScoresError(f"got {len(first)} examples of model 1 and {len(second)} of model 2; pass the same examples")
    resampling = resampling or Resampling()
    resampling.check()
    results = {}
    for score in first.values:
        ours, theirs = first.of_score(score), second.of_score(score)
        if not len(ours):
            continue
        places = ours.places.items()
        parts = {name: {score: _mean_difference(ours, theirs, score, rows, resampling)} for name, rows in places}
        results |= _with_categories(parts, resampling)
        if first.with_macro and first.categories:
            results[score]["macro"] = _macro_difference(ours, theirs, score, resampling)
    for ours, theirs in zip(first.estimators, second.estimators, strict=True):
        if ours.with_interval:
            limited = resampling
            if not isinstance(ours, OfTotals):
                draws = {name: min(getattr(resampling, name), MOST_WEIGHTED_DRAWS) for name in _DRAWS}
                limited = resampling._replace(**draws)
            parts = {}
            for name, rows in first.places.items():
                pair = (ours.select(rows), theirs.select(rows)) if name else (ours, theirs)
                parts[name] = _estimated_differences(first, second, *pair, rows, limited)
            results |= _with_categories(parts, limited)
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


def _with_categories(
    parts: Mapping[str, dict[str, dict[str, Any]]], resampling: Resampling
) -> dict[str, dict[str, Any]]:
    """Return the results over all examples, under "" in `parts`, with the results of the categories, by score."""
    results = parts[""]
    for score, result in results.items():
        per_category = {name: part[score] for name, part in parts.items() if name}
        adjusted = holm([part["permutation_p_value"] for part in per_category.values()])
        for part, p_holm in zip(per_category.values(), adjusted.tolist(), strict=True):
            part["p_value_holm"] = p_holm
        result |= {"confidence": float(resampling.confidence), "per_category": per_category}
        result |= {name: getattr(resampling, name) for name in _DRAWS}
    return results


def _result(
    first: Examples,
    second: Examples,
    rows: Indices,
    values: Sequence[float | None],
    interval: list[float] | None,
    p: float,
    error: float | None,
    resampling: Resampling,
    **of_means: Any,
) -> dict[str, Any]:
    """Return the result for the examples with these indices; `of_means` are the entries of means alone."""
    score1, score2 = (None if value is None or math.isnan(value) else float(value) for value in values)
    ties = [float(side.tied[rows].mean()) if side.has_ties else None for side in (first, second)]
    return {
        "difference": None if score1 is None or score2 is None else score1 - score2,
        "score1": score1,
        "score2": score2,
        "difference_interval": interval,
        **dict.fromkeys(("wins", "losses", "agreement", "mcnemar_p_value", "mcnemar_method")),
        "n": len(rows),
        "n_clusters": len(np.unique(first.clusters[rows])),
        "permutation_p_value": float(p),
        "standard_error": error,
        "smallest_detectable_difference": resampling.detectable(error),
        "tie_rate1": ties[0],
        "tie_rate2": ties[1],
        **of_means,
    }


def _mean_difference(
    first: Examples, second: Examples, score: str, rows: Indices, resampling: Resampling
) -> dict[str, Any]:
    """Return the result of a mean over the examples with these indices."""
    ours, theirs, clusters = first.values[score][rows], second.values[score][rows], first.clusters[rows]
    n, gaps = len(rows), ours - theirs
    wins, losses = int((gaps > 0).sum()), int((gaps < 0).sum())
    is_right_or_wrong = bool(np.isin([ours, theirs], (0, 1)).all())
    p_value, method = mcnemar(wins, losses) if is_right_or_wrong else (None, None)
    interval = [-1.0, 1.0]
    if len(np.unique(clusters)) > 1:
        options = (resampling.confidence, resampling.resamples, resampling.seed)
        interval = [2 * bound - 1 for bound in cluster_bootstrap((gaps + 1) / 2, clusters, None, *options).micro]
    draws = {"permutations": resampling.permutations, "seed": resampling.seed}
    return _result(
        *(first, second, rows),
        [math.fsum(ours) / n, math.fsum(theirs) / n],
        interval,
        cluster_permutation_test(gaps, clusters, **draws),
        cluster_standard_error(gaps, clusters),
        resampling,
        difference=math.fsum(gaps) / n,
        wins=wins,
        losses=losses,
        agreement=(n - wins - losses) / n,
        mcnemar_p_value=p_value,
        mcnemar_method=method,
    )


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
    """Return the result of a macro average, without categories."""
    rows, weights = np.arange(len(first)), _macro_weights(first)
    values = [_macro_mean(examples, score) for examples in (first, second)]
    alone = {"confidence": float(resampling.confidence), "per_category": {}}
    if not weights.any():
        return _result(first, second, rows, values, None, 1.0, None, resampling, **alone)
    gaps = first.values[score] - second.values[score]
    indices, labels = first.macro_membership
    options = (resampling.confidence, resampling.resamples, resampling.seed)
    low, high = cluster_bootstrap((gaps[indices] + 1) / 2, first.clusters[indices], labels, *options).macro
    if len(np.unique(first.clusters)) == 1:
        low, high = 0.0, 1.0
    residuals = weights * gaps
    for members in first.macro_categories.values():
        share = len(first) / (len(first.macro_categories) * len(members))
        residuals[members] -= share * gaps[members].mean()
    sums, _ = cluster_totals(residuals, first.clusters)
    groups = len(sums)
    error = math.sqrt(groups / (groups - 1) * math.fsum(sums**2)) / len(first) if groups > 1 else 0.0
    draws = {"permutations": resampling.permutations, "seed": resampling.seed}
    p = cluster_permutation_test(gaps * weights, first.clusters, **draws)
    interval = [2 * low - 1, 2 * high - 1]
    error = error if error > _ROUNDING else None
    return _result(first, second, rows, values, interval, p, error, resampling, **alone)


def _macro_mean(examples: Examples, score: str) -> float | None:
    means = [float(examples.values[score][indices].mean()) for indices in examples.macro_categories.values()]
    return math.fsum(means) / len(means) if means else None


def _estimated_differences(
    first: Examples, second: Examples, ours: Estimator, theirs: Estimator, rows: Indices, resampling: Resampling
) -> dict[str, dict[str, Any]]:
    """Return the results of all scores of an estimator over the examples with these indices, by score."""
    values, clusters = np.stack([ours(), theirs()]), first.clusters[rows]
    drawn = _resampled_differences(ours, theirs, clusters, resampling)
    p_values = _exchange_p_values(ours, theirs, clusters, values[0] - values[1], resampling)
    results = {}
    for column, name in enumerate(ours.names):
        gaps = drawn[:, column][np.isfinite(drawn[:, column])]
        interval = error = None
        if len(gaps) > 1 and np.ptp(gaps) > _ROUNDING:
            interval = list(percentile_interval(gaps, resampling.confidence, clusters))
            error = float(gaps.std(ddof=1))
        pair = values[:, column].tolist()
        results[name] = _result(first, second, rows, pair, interval, p_values[column], error, resampling)
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
