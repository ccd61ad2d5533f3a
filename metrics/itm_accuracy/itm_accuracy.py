"""Image-text matching accuracy: does a model prefer the one caption that is true of an image, or the image?"""

import evaluate

from vl_assay.metrics.itm_accuracy.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class ITMAccuracy(MetricModule, evaluate.Metric):
    """Share of examples whose positive candidate outscores all negatives; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/itm_accuracy")
        >>> results = metric.compute(
        ...     predictions=[[0.31, 0.27, 0.20], [0.22, 0.25, 0.19], [0.30, 0.30, 0.10]],
        ...     references=[0, 0, 0],
        ...     categories=["negation", "negation", "count"],
        ... )
        >>> round(results["accuracy"], 4), results["macro_accuracy"], round(results["tie_rate"], 4)
        (0.3333, 0.25, 0.3333)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2106.09141",)
    code = ("https://github.com/google-deepmind/svo_probes",)
