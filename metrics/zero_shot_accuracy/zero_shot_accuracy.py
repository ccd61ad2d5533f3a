"""Zero-shot classification: is the class of an image among the k that a model scores highest?"""

import evaluate

from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.zero_shot_accuracy.spec import SPEC


class ZeroShotAccuracy(MetricModule, evaluate.Metric):
    """Share of images whose class is the one, or among the five, with the highest scores; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/zero_shot_accuracy")
        >>> results = metric.compute(
        ...     predictions=[[0.3, 0.2, 0.1], [0.3, 0.2, 0.1], [0.1, 0.1, 0.4]],
        ...     references=[0, 1, 1],
        ...     categories=["cat", "dog", "dog"],
        ...     ks=[1, 2],
        ... )
        >>> round(results["acc_at_1"], 4), results["macro_acc_at_1"], round(results["acc_at_2"], 4)
        (0.3333, 0.5, 0.6667)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2103.00020", "https://arxiv.org/abs/2409.17958")
    code = ("https://github.com/openai/CLIP",)
