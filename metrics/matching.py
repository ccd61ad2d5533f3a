"""Image-text matching accuracy with its averages, tie rate and intervals, as one result."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from .kernels import aggregate, label_codes, match_credit
from .stats import cluster_bootstrap


def matching_accuracy(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    categories: ArrayLike | None = None,
    ties: str = "wrong",
    confidence: float | None = None,
    clusters: ArrayLike | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Judge which captions a model prefers, and say how sure the numbers are.

    Args:
        scores: array-like of shape (n, k), k >= 2; higher means a better match. See ``kernels.match_credit``.
        correct: array-like of shape (n,), the column of the correct caption in each row.
        categories: one label per example; ``None`` for a set without categories.
        ties: ``"wrong"``, ``"half"`` or ``"right"``: what a tie for the highest score earns.
        confidence: coverage of the intervals, strictly between 0 and 1; ``None`` for no intervals.
        clusters: one label per example, its image; ``None`` makes each example its own cluster, and the
            intervals too narrow where several examples share an image. Unused without ``confidence``.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        Plain Python numbers, accuracies and rates in [0, 1], higher accuracy being better: ``accuracy``,
        ``macro_accuracy``, ``tie_rate``, ``n`` and ``per_category`` (see ``kernels.Aggregate``). With
        ``confidence`` also ``confidence``, ``accuracy_interval`` and ``macro_accuracy_interval``, each
        [low, high], and a ``confidence_interval`` in each category (see ``stats.cluster_bootstrap``).

    Raises:
        ScoresError: scores, indices, labels or options that cannot be judged; a NaN is refused.
        UnknownNameError: ``ties`` is no tie policy.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 5 and Table 6.
    """
    credit, tied = match_credit(scores, correct, ties)
    result: dict[str, Any] = {**aggregate(credit, tied, categories)}
    if confidence is None:
        if clusters is not None:
            label_codes(clusters, len(credit), "clusters")
        return result
    intervals = cluster_bootstrap(credit, clusters, categories, confidence, resamples, seed)
    for name, interval in intervals.categories.items():
        result["per_category"][name]["confidence_interval"] = list(interval)
    return {
        **result,
        "confidence": float(confidence),
        "accuracy_interval": list(intervals.micro),
        "macro_accuracy_interval": list(intervals.macro),
    }
