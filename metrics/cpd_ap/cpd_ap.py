"""Average precision of contextual phrase detection: find what a phrase means, if and only if the caption is true."""

import evaluate

from vl_assay.metrics.cpd_ap.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class CPDAP(MetricModule, evaluate.Metric):
    """AP, AP50 and AP75 with one precision-recall curve over all phrases; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/cpd_ap")
        >>> results = metric.compute(
        ...     predictions=[
        ...         {"boxes": [[10, 10, 30, 40]], "scores": [0.9], "phrase_ids": [1]},
        ...         {"boxes": [[50, 50, 60, 60]], "scores": [0.8], "phrase_ids": [2]},
        ...     ],
        ...     references=[
        ...         {"boxes": [[10, 10, 20, 30]], "phrase_ids": [1]},
        ...         {"boxes": [], "phrase_ids": []},
        ...     ],
        ... )
        >>> results["ap"], results["n"], results["n_positive"]  # the box on the negative row comes after all truth
        (1.0, 2, 1)
    """

    spec = SPEC
    papers = ("https://ashkamath.github.io/TRICD/",)
    code = ("https://github.com/ashkamath/TRICD",)
