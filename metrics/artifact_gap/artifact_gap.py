"""Artefact gap: how well a model that never sees the image separates the correct caption from the hard negative."""

import evaluate

from vl_assay.metrics.artifact_gap.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class ArtifactGap(MetricModule, evaluate.Metric):
    """What blind (text-only) scores give away of a benchmark: 0.5 accuracy and symmetric gaps are a sound benchmark.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/artifact_gap")
        >>> results = metric.compute(predictions=[[0.9, 0.4], [0.8, 0.1], [0.3, 0.5]], references=[0, 0, 0])
        >>> round(results["accuracy"], 4), round(results["mean_gap"], 4), round(results["auc"], 4)
        (0.6667, 0.3333, 0.7778)
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2306.14610",)
    code = ("https://github.com/RAIVNLab/sugar-crepe",)
