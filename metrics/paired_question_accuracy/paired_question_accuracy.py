"""Paired question accuracy: does a model answer two questions about two images, each with another answer on each?"""

import evaluate

from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.paired_question_accuracy.spec import SPEC


class PairedQuestionAccuracy(MetricModule, evaluate.Metric):
    """Accuracy of answers, of questions on both images, of images with both questions, and of groups; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/paired_question_accuracy")
        >>> right = [[0.9, 0.2, 0.1, 0.8], [0.3, 0.7, 0.6, 0.4]]
        >>> always_yes = [[0.9, 0.9, 0.1, 0.1], [0.9, 0.9, 0.1, 0.1]]
        >>> results = metric.compute(predictions=[right, always_yes])
        >>> results["accuracy"], results["question_accuracy"], results["image_accuracy"], results["group_accuracy"]
        (0.75, 0.5, 0.5, 0.5)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2410.14669",)
    code = ("https://github.com/Baiqi-Li/NaturalBench",)
