"""Augmented test accuracy: does a model rank a caption and its hard positive, both true, above the hard negative?"""

import evaluate

from vl_assay.metrics.augmented_accuracy.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class AugmentedAccuracy(MetricModule, evaluate.Metric):
    """Share of examples in which both positive captions outscore the hard negative; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/augmented_accuracy")
        >>> results = metric.compute(predictions=[[0.30, 0.28, 0.25], [0.30, 0.20, 0.25], [0.20, 0.30, 0.25]])
        >>> round(results["original_accuracy"], 4), round(results["augmented_accuracy"], 4), round(results["gap"], 4)
        (0.6667, 0.3333, 0.3333)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2409.17958",)
    code = ("https://github.com/amitakamath/hard_positives",)
