"""Brittleness: how often a model ranks the hard negative between a caption and its hard positive, both of them true."""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.brittleness.spec import SPEC
from vl_assay.metrics.citations import HARD_POSITIVES
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe


class Brittleness(CheckedInputs, evaluate.Metric):
    """Share of examples in which one true caption is above the hard negative and the other below; lower is better.

    Args:
        predictions: float64 of shape (n, 3): rows [s(c), s(c_p), s(c_n)], the scores of the original caption, its hard
            positive and its hard negative with the image, on any scale, higher meaning a better match.
        ties: what a tie of the hard negative with a true caption counts: ``"right"`` not brittle (the paper's strict
            inequalities), ``"half"`` the chance that breaking it at random makes the example brittle, ``"wrong"``
            brittle, as breaking it in some way makes it.
        categories: one label per example, such as ``"swap"`` or ``"replace_att"``.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per example, its image; without them the intervals are too narrow.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        brittleness: share with the hard negative strictly between the true captions, in [0, 1] (equation 2).
        both_wrong: share with the hard negative strictly above both, in [0, 1]; lower is better.
        macro_brittleness, macro_both_wrong: unweighted means over the categories.
        tie_rate: share with the hard negative at the score of a true caption, in [0, 1].
        rankings: shares of the six rankings, and of rows with any tie, which have none; they sum to 1.
        mean_scores: the mean scores of c, c_p and c_n.
        n: number of examples.
        per_category: brittleness, both_wrong, tie_rate and n for each category.
        confidence, and ``<score>_interval`` beside each score: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: a row without three scores, a NaN or infinite score, missing labels or a value that an option does
            not have; the message names the rows.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/brittleness")
        >>> results = metric.compute(predictions=[[0.30, 0.20, 0.25], [0.30, 0.28, 0.25]])
        >>> results["brittleness"], results["both_wrong"], results["tie_rate"]
        (0.5, 0.0, 0.0)
    """

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=HARD_POSITIVES,
            features=datasets.Features({"predictions": datasets.Sequence(datasets.Value("float64"))}),
            reference_urls=["https://arxiv.org/abs/2409.17958"],
            codebase_urls=["https://github.com/amitakamath/hard_positives"],
        )
