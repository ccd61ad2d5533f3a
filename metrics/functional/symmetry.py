"""Artefact gap: how well text-only scores separate correct captions from hard negatives."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import with_examples
from ..estimation.bootstrap import (
    MIN_RESAMPLES,
    check_options,
    check_whole,
    cluster_bootstrap,
    cluster_standard_error,
    effective_clusters,
    mean_intervals,
    t_quantile,
    unseen_share,
)
from ..estimation.checks import Labels, cluster_codes, refuse, score_matrix
from ..estimation.estimators import OfValues, mean, median
from ..estimation.permutation import Flips, permutation_p_value
from ..estimation.spec import Described, Examples, category_numbers, make_examples
from .matching import match_scores

# The squares of sums of larger scores would soon leave the range of float64.
_LARGEST_SCORE = 1e100


class _Examples(NamedTuple):
    """Scores of the correct and the other caption, and accuracy, tie flag and cluster of each example."""

    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    tied: NDArray[np.bool_]
    cluster: NDArray[np.intp]

    def chosen(self, rows: NDArray[np.intp]) -> _Examples:
        parts: list[Any] = [column[rows] for column in self]
        return _Examples(*parts)


def artifact_examples(
    scores: ArrayLike, correct: ArrayLike, *, ties: str = "wrong", **labels: Unpack[Described]
) -> Examples:
    """Return the per-example scores of `artifact_gap`; the arguments are the same."""
    checked = _check_examples(scores, correct, labels.get("clusters"), ties)
    gaps = checked.positive - checked.negative
    placement = _placement_values(checked.positive, checked.negative) / 2
    return make_examples(
        {"accuracy": checked.accuracy},
        checked.tied,
        estimators=(
            OfValues(("auc",), placement, (mean,)),
            OfValues(("mean_gap", "median_gap"), gaps, (mean, median)),
        ),
        **labels,
    )


@with_examples(artifact_examples)
def artifact_gap(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    ties: str = "wrong",
    confidence: float | None = None,
    resamples: int = 10_000,
    permutations: int = 1_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure how well a model that never sees the image separates correct captions from hard negatives.

    The gap of an example is the score of its correct caption minus the score of its hard negative. A benchmark without
    artefacts has gaps that are symmetric around zero, and an accuracy of 0.5; a high accuracy means that the
    benchmark is biased.

    ``accuracy`` measures whether the sign of the gap identifies the correct caption, ``asymmetry`` whether its size
    does where the sign does not (a gap of 3 is always right, one of 1 always wrong), and ``auc`` whether the score of a
    single caption does. Gaps may be symmetric while ``auc`` is not 0.5: (correct, negative) scores of (5, 3), (5, 3),
    (0, 2) and (3, 5) have the gaps 2, 2, -2 and -2, but an ``auc`` of 9/16.

    Args:
        scores: array-like of shape (n, 2): a row is an example, a column a caption; higher is more plausible, on
            any scale, in magnitude at most 1e100. A caption with several hard negatives makes one row for each.
        correct: array-like of shape (n,), the column of the correct caption in each row, 0 or 1.
        categories, clusters, confidence, resamples, seed: see ``aggregate.SummaryOptions``. Rows that share a caption
            belong to one cluster.
        ties: ``"wrong"``, ``"half"`` or ``"right"``: how equal scores count in ``accuracy``. A constant scorer
            gets 0, 0.5 or 1. In ``auc`` a tie always counts half, and a gap of zero is on neither side.
        permutations: number of random sign flips, at least 100.

    Returns:
        Plain Python numbers:

        - ``accuracy``: share of examples whose correct caption has the higher score, in [0, 1]; 0.5 is chance.
          ``tie_rate``: share of examples with equal scores. ``n``, ``n_clusters``.
        - ``mean_gap``, ``median_gap``: in units of the scores; 0 means no artefact, above 0 correct captions score
          higher.
        - ``auc``: chance that a random correct caption scores higher than a random hard negative, of any example,
          ties half, in [0, 1]; 0.5 is chance.
        - ``asymmetry``: largest distance between the distribution functions of the gap and of its negative, which
          is the largest |P(gap >= x) - P(gap <= -x)| over x > 0, in [0, 1]; 0 is symmetric. Of n independent and
          symmetric gaps it is about 1.25 / sqrt(n).
        - ``symmetry_p_value``: chance of such an asymmetry in symmetric gaps, in (0, 1], from flipping the signs of
          all gaps of a cluster together. Exact, and ``seed`` unused, where 2 ** (clusters with a gap other than
          zero) is at most ``permutations``; else (1 + c) / (1 + permutations) with c random flips at least as
          asymmetric. 1 where all gaps are zero.
        - ``per_category``: the same by category, in the order of appearance, as if its examples were all.

        With ``confidence`` also ``confidence`` and, each [low, high]:

        - ``accuracy_interval``: see ``bootstrap.cluster_bootstrap``.
        - ``mean_gap_interval``: percentile interval from resampling clusters; ``None`` where the mean gap is the
          same in all clusters, or there is one, since the gap has no bounds to fall back on.
        - ``auc_interval``: normal interval with a standard error from each cluster's placement values, clipped to
          [0, 1]. Where these do not differ between G clusters, as when all correct captions score higher than all
          others, rows like none of them may have a share of up to b = 1 - ((1 - confidence) / 2) ** (1 / G), and the
          interval is [(1 - b)² auc, 1 - (1 - b)² (1 - auc)]; for one cluster [0, 1].

        The result does not depend on the order of rows or the names of clusters and categories.

    Raises:
        ScoresError: no examples, more than two captions, a score that is NaN, infinite or too large, an index that
            is neither 0 nor 1, labels missing or of another number, or an option outside its range.
        UnknownNameError: an unknown tie policy.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), sections 3 and 4.1, Figures 1 and 4, for
    the gap and blind accuracy; Butler, Annals of Mathematical Statistics 40, 1969, for the asymmetry; Obuchowski,
    Biometrics 53, 1997, for the error of a clustered AUC.

    >>> result = artifact_gap([[0.9, 0.4], [0.8, 0.1], [0.3, 0.5]], [0, 0, 0])
    >>> round(result["mean_gap"], 4), round(result["asymmetry"], 4), round(result["auc"], 4)  # 2/3, 7/9
    (0.3333, 0.6667, 0.7778)
    """
    check_options(confidence, resamples, seed)
    check_whole(permutations=(permutations, MIN_RESAMPLES))
    examples = _check_examples(scores, correct, clusters, ties)
    options = (confidence, resamples, permutations, seed)
    per_category = {
        name: _measure(examples.chosen(rows), *options)
        for name, rows in category_numbers(categories, len(examples.accuracy)).items()
    }
    certainty = {} if confidence is None else {"confidence": float(confidence)}
    return {**_measure(examples, *options), **certainty, "per_category": per_category}


def _check_examples(scores: ArrayLike, correct: ArrayLike, clusters: Labels | None, ties: str) -> _Examples:
    matrix = score_matrix(scores)
    accuracy, tied = match_scores(matrix, correct, ties)
    if matrix.shape[1] != 2:
        raise ScoresError(
            f"the scores have {matrix.shape[1]} captions per example, but a gap is between two; pass one row for each "
            "hard negative, (correct, negative), and give rows that belong together one label in `clusters`"
        )
    large = (np.abs(matrix) > _LARGEST_SCORE).any(axis=1)
    message = "the scores are beyond {most:g} in {rows}: {first}; divide all scores by one number"
    refuse(large, message, matrix, most=_LARGEST_SCORE)
    n = len(matrix)
    rows, columns = np.arange(n), np.asarray(correct, dtype=np.float64).astype(np.intp)
    return _Examples(matrix[rows, columns], matrix[rows, 1 - columns], accuracy, tied, cluster_codes(clusters, n))


def _measure(
    examples: _Examples, confidence: float | None, resamples: int, permutations: int, seed: int
) -> dict[str, Any]:
    n = len(examples.accuracy)
    gaps = examples.positive - examples.negative
    placement = _placement_values(examples.positive, examples.negative)
    statistic, p_value = _symmetry_test(examples, permutations, seed)
    result: dict[str, Any] = {
        "accuracy": math.fsum(examples.accuracy) / n,
        "tie_rate": int(examples.tied.sum()) / n,
        "n": n,
        "n_clusters": len(np.unique(examples.cluster)),
        "mean_gap": math.fsum(gaps) / n,
        "median_gap": float(np.median(gaps)),
        "auc": math.fsum(placement) / n / 2,
        "asymmetry": statistic / n,
        "symmetry_p_value": p_value,
    }
    if confidence is not None:
        cluster = examples.cluster
        intervals = cluster_bootstrap(examples.accuracy, cluster, None, confidence, resamples, seed)
        result["accuracy_interval"] = list(intervals.micro)
        [interval] = mean_intervals([gaps], cluster, confidence, resamples, seed)
        result["mean_gap_interval"] = interval and list(interval)
        result["auc_interval"] = _auc_interval(placement, cluster, confidence)
    return result


def _placement_values(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of negatives below a positive plus the share of positives above its negative (ties half)."""
    n = len(positive)
    low, high = np.sort(negative), np.sort(positive)
    below = np.searchsorted(low, positive, "left") + np.searchsorted(low, positive, "right")
    above = 2 * n - np.searchsorted(high, negative, "left") - np.searchsorted(high, negative, "right")
    return (below + above) / (2 * n)


def _auc_interval(placement: NDArray[np.float64], cluster: NDArray[np.intp], confidence: float) -> list[float]:
    auc = math.fsum(placement) / len(placement) / 2
    error = cluster_standard_error(placement, cluster)
    if error is not None:
        reach = t_quantile(confidence, float(effective_clusters(np.bincount(cluster)))) * error
        return [max(0.0, auc - reach), min(1.0, auc + reach)]
    clusters = len(np.unique(cluster))
    seen = 0.0 if clusters == 1 else (1 - unseen_share(clusters, confidence)) ** 2
    return [seen * auc, 1 - seen * (1 - auc)]


def _symmetry_test(examples: _Examples, permutations: int, seed: int) -> tuple[int, float]:
    """Compute the asymmetry in examples, and the p-value of the sign-flip test."""
    gaps = examples.positive - examples.negative
    different = gaps != 0
    if not different.any():
        return 0, 1.0
    gaps = gaps[different]
    cluster = _ordered_clusters(gaps, examples.cluster[different])
    order = np.argsort(-np.abs(gaps))
    signs = np.sign(gaps[order]).astype(np.int8)
    cluster = cluster[order]
    # Gaps that differ by the rounding of a subtraction are of one size: 0.3 - 0.1 and 0.4 - 0.2.
    rounding = 4 * np.finfo(np.float64).eps * max(np.abs(examples.positive).max(), np.abs(examples.negative).max())
    ends = np.flatnonzero(np.append(-np.diff(np.abs(gaps[order])) > rounding, True))
    observed = int(_largest_excess(signs[np.newaxis], ends)[0])

    def count_extreme(flips: Flips) -> int:
        flipped = (2 * flips.astype(np.int8) - 1)[:, cluster] * signs
        return int(np.count_nonzero(_largest_excess(flipped, ends) >= observed))

    p_value = permutation_p_value(count_extreme, int(cluster.max()) + 1, permutations, seed, len(gaps))
    return observed, float(p_value)


def _largest_excess(signs: NDArray[np.int8], ends: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return the largest surplus of one sign among the largest gaps, by row; signs are sorted by falling gap size."""
    excess = np.cumsum(signs, axis=1, dtype=np.int32)
    if len(ends) < signs.shape[1]:
        excess = excess[:, ends]
    return np.maximum(excess.max(axis=1), -excess.min(axis=1))


def _ordered_clusters(gaps: NDArray[np.float64], cluster: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number clusters by their content, so that flips do not depend on cluster names or on the order of rows."""
    codes, counts = np.unique(cluster, return_inverse=True, return_counts=True)[1:]
    content = np.split(gaps[np.lexsort((gaps, codes))], np.cumsum(counts)[:-1])
    keys = [gaps_of_cluster.tolist() for gaps_of_cluster in content]
    ranks = np.empty(len(keys), dtype=np.intp)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks[codes]
