"""ARO accuracy: does a model know which relation, attribute or word order a caption needs to be true of an image?"""

import evaluate

from vl_assay.metrics.aro_itm.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class AROITM(MetricModule, evaluate.Metric):
    """Share of examples whose correct caption outscores all others, with ARO's macro averages; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/aro_itm")
        >>> results = metric.compute(
        ...     predictions=[[0.31, 0.27], [0.22, 0.25], [0.30, 0.20], [0.30, 0.20]],
        ...     references=[0, 0, 0, 0],
        ...     categories=["on", "on", "eating", "next to"],
        ... )
        >>> results["macro_accuracy"], results["n"], results["n_symmetric"]  # (1/2 + 1/1) / 2
        (0.75, 3, 1)
        >>> results["per_group"]["spatial"]["accuracy"]
        0.5
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2210.01936",)
    code = ("https://github.com/mertyg/vision-language-models-are-bows",)
