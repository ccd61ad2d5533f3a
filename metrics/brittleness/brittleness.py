"""Brittleness: how often a model ranks the hard negative between a caption and its hard positive, both of them true."""

import evaluate

from vl_assay.metrics.brittleness.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class Brittleness(MetricModule, evaluate.Metric):
    """Share of examples in which one positive caption is above the hard negative and the other below; lower is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/brittleness")
        >>> results = metric.compute(predictions=[[0.30, 0.20, 0.25], [0.30, 0.28, 0.25]])
        >>> results["brittleness"], results["both_wrong"], results["tie_rate"]
        (0.5, 0.0, 0.0)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2409.17958",)
    code = ("https://github.com/amitakamath/hard_positives",)
