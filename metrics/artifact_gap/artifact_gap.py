"""Artefact gap: how well a model that never sees the image separates the correct caption from the hard negative."""

import evaluate

from vl_assay.metrics.artifact_gap.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class ArtifactGap(MetricModule, evaluate.Metric):
    """Accuracy and gaps of blind (text-only) scores; a sound benchmark has accuracy 0.5 and gaps symmetric around 0.

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
