"""Artefact gap: how well text-only scores separate correct captions from hard negatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import ScoresError
from ..estimation.aggregate import aggregate
from ..estimation.checks import Labels, refuse, score_matrix
from ..estimation.estimators import Floats, OfRows
from ..estimation.spec import Described, Examples, make_examples
from .matching import match_scores

# The squares of sums of larger scores would soon leave the range of float64.
_LARGEST_SCORE = 1e100


@dataclass(frozen=True)
class GapScores(OfRows):
    """AUC, mean gap, median gap and asymmetry; `values`, of shape (n, 2), are the scores (correct, negative)."""

    with_interval: bool = False

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`; the weights are whole numbers."""
        pairs = self.values if weights is None else np.repeat(self.values, weights.astype(np.intp), axis=0)
        positive, negative = pairs.T
        gaps, ordered = positive - negative, np.sort(negative)
        below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
        order = np.argsort(-np.abs(gaps))
        # Gaps that differ by the rounding of a subtraction are of one size: 0.3 - 0.1 and 0.4 - 0.2.
        rounding = 4 * np.finfo(np.float64).eps * np.abs(pairs).max()
        ends = np.append(-np.diff(np.abs(gaps[order])) > rounding, True)
        asymmetry = np.abs(np.sign(gaps[order]).cumsum()[ends]).max() / len(gaps)
        return np.array([below.mean() / (2 * len(gaps)), math.fsum(gaps) / len(gaps), np.median(gaps), asymmetry])


def artifact_gap(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    ties: str = "wrong",
    confidence: float | None = None,
    resamples: int = 10_000,
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
        - ``per_category``: the same by category, in the order of appearance, as if its examples were all.

        With ``confidence`` also ``confidence`` and ``accuracy_interval`` as [low, high]; see
        ``bootstrap.cluster_bootstrap``.

        The result does not depend on the order of rows or the names of clusters and categories.

    Raises:
        ScoresError: no examples, more than two captions, a score that is NaN, infinite or too large, an index that
            is neither 0 nor 1, labels missing or of another number, or an option outside its range.
        UnknownNameError: an unknown tie policy.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), sections 3 and 4.1, Figures 1 and 4, for
    the gap and blind accuracy; Butler, Annals of Mathematical Statistics 40, 1969, for the asymmetry.

    >>> result = artifact_gap([[0.9, 0.4], [0.8, 0.1], [0.3, 0.5]], [0, 0, 0])
    >>> round(result["mean_gap"], 4), round(result["asymmetry"], 4), round(result["auc"], 4)  # 2/3, 7/9
    (0.3333, 0.6667, 0.7778)
    """
    examples = _examples(scores, correct, ties, categories=categories, clusters=clusters)
    results = {}
    for name, rows in examples.places.items():
        results[name] = aggregate(examples.select(rows), confidence=confidence, resamples=resamples, seed=seed)
        results[name]["n_clusters"] = len(np.unique(examples.clusters[rows]))
    whole = results.pop("")
    for result in results.values():
        del result["per_category"]
        result.pop("confidence", None)
    return whole | {"per_category": results}


def _examples(scores: ArrayLike, correct: ArrayLike, ties: str, **labels: Unpack[Described]) -> Examples:
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
    columns = np.asarray(correct, dtype=np.float64).astype(np.intp)[:, np.newaxis]
    pairs = np.take_along_axis(matrix, np.hstack([columns, 1 - columns]), axis=1)
    gaps = GapScores(("auc", "mean_gap", "median_gap", "asymmetry"), pairs)
    return make_examples({"accuracy": accuracy}, tied, estimators=(gaps,), with_macro=False, **labels)
