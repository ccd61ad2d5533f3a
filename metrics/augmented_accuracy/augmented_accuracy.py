"""Augmented test accuracy: does a model rank a caption and its hard positive, both true, above the hard negative?"""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.augmented_accuracy.spec import SPEC
from vl_assay.metrics.citations import HARD_POSITIVES
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe


class AugmentedAccuracy(CheckedInputs, evaluate.Metric):
    """Share of examples in which both true captions outscore the hard negative; higher is better.

    Args:
        predictions: float64 of shape (n, 3): rows [s(c), s(c_p), s(c_n)], the scores of the original caption, its hard
            positive and its hard negative with the image, on any scale, higher meaning a better match.
        ties: what a tie of the hard negative with a true caption earns where it decides: ``"wrong"`` 0 (the paper),
            ``"half"`` what breaking it at random earns on average, ``"right"`` 1.
        categories: one label per example, such as ``"swap"`` or ``"replace_att"``.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per example, its image; without them the intervals are too narrow.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        original_accuracy: share with s(c) > s(c_n), in [0, 1].
        augmented_accuracy: share with s(c) > s(c_n) and s(c_p) > s(c_n), in [0, 1] (equation 1).
        gap: original minus augmented, in [0, 1]; lower is better.
        macro_original_accuracy, macro_augmented_accuracy, macro_gap: unweighted means over the categories.
        tie_rate: share of the examples that a tie decides, in [0, 1].
        n: number of examples.
        per_category: the same for each category.
        confidence, and ``<score>_interval`` beside each score: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: a row without three scores, a NaN or infinite score, missing labels or a value that an option does
            not have; the message names the rows.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/augmented_accuracy")
        >>> results = metric.compute(predictions=[[0.30, 0.28, 0.25], [0.30, 0.20, 0.25], [0.20, 0.30, 0.25]])
        >>> round(results["original_accuracy"], 4), round(results["augmented_accuracy"], 4), round(results["gap"], 4)
        (0.6667, 0.3333, 0.3333)
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
