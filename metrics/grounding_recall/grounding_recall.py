"""Phrase grounding: is one of the k most confident boxes of a phrase on what the phrase means?"""

import evaluate

from vl_assay.metrics.grounding_recall.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class GroundingRecall(MetricModule, evaluate.Metric):
    """Recall@k of phrase grounding under the any-box protocol; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/grounding_recall")
        >>> results = metric.compute(
        ...     predictions=[{"boxes": [[7, 7, 8, 8], [10, 10, 30, 40]], "scores": [0.9, 0.8], "phrase_ids": [1, 1]}],
        ...     references=[{"boxes": [[10, 10, 20, 30]], "phrase_ids": [1]}],
        ... )
        >>> results["recall_at_1"], results["recall_at_5"]
        (0.0, 1.0)
    """

    spec = SPEC
    papers = ("https://ashkamath.github.io/TRICD/",)
    code = ("https://github.com/ashkamath/TRICD",)
