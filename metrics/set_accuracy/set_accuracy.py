"""Set accuracy: is a model right about all images that share their captions, such as left, right, on and under?"""

import evaluate

from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.set_accuracy.spec import SPEC


class SetAccuracy(MetricModule, evaluate.Metric):
    """Share of examples, of pairs and of sets of them that are right; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/set_accuracy")
        >>> results = metric.compute(
        ...     predictions=[[0.4, 0.1, 0.2, 0.2], [0.1, 0.4, 0.2, 0.2], [0.1, 0.2, 0.4, 0.2], [0.1, 0.2, 0.4, 0.2]],
        ...     references=[0, 1, 2, 3],
        ...     sets=["mug and plate"] * 4,
        ...     categories=["left", "right", "on", "under"],
        ...     pairs=[["left", "right"], ["on", "under"]],
        ... )
        >>> results["accuracy"], results["pair_accuracy"], results["set_accuracy"]
        (0.75, 0.5, 0.0)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2310.19785",)
    code = ("https://github.com/amitakamath/whatsup_vlms",)
