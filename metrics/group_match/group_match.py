"""Group match: does a model pair two images with their two captions, as Winoground and Cola ask?"""

import evaluate

from vl_assay.metrics.group_match.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class GroupMatch(MetricModule, evaluate.Metric):
    """Text, image and group score of groups of two images and two captions; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/group_match")
        >>> results = metric.compute(predictions=[[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.4], [0.6, 0.7]]])
        >>> results["text_score"], results["image_score"], results["group_score"]
        (1.0, 0.5, 0.5)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2204.03162", "https://arxiv.org/abs/2305.03689")
    code = ("https://huggingface.co/datasets/facebook/winoground", "https://github.com/arijitray1993/COLA")
