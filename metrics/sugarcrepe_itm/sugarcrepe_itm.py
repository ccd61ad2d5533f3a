"""SugarCrepe image-text matching accuracy: how often a model prefers the caption that is true of an image."""

import evaluate

from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.sugarcrepe_itm.spec import SPEC


class SugarCrepeITM(MetricModule, evaluate.Metric):
    """Share of examples whose correct caption outscores all hard negatives of the image; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/sugarcrepe_itm")
        >>> results = metric.compute(
        ...     predictions=[[0.31, 0.27], [0.22, 0.25], [0.30, 0.30]],
        ...     references=[0, 0, 0],
        ...     categories=["swap_obj", "swap_att", "swap_att"],
        ... )
        >>> round(results["accuracy"], 4), results["macro_accuracy"], round(results["tie_rate"], 4)
        (0.3333, 0.5, 0.3333)
        >>> results["per_category"]["swap_att"]
        {'accuracy': 0.0, 'tie_rate': 0.5, 'n': 2}
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2306.14610",)
    code = ("https://github.com/RAIVNLab/sugar-crepe",)
