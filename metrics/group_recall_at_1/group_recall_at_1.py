"""Group-Recall@1: over an image and its distractor, is the most confident box of a phrase on the image, and right?"""

import evaluate

from vl_assay.metrics.group_recall_at_1.spec import SPEC
from vl_assay.metrics.modules.module import MetricModule


class GroupRecallAt1(MetricModule, evaluate.Metric):
    """Recall@1 with the boxes of the positive row and of its distractor pooled, phrase by phrase; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/group_recall_at_1")
        >>> results = metric.compute(
        ...     predictions=[
        ...         {"boxes": [[10, 10, 30, 40]], "scores": [0.9], "phrase_ids": [1]},
        ...         {"boxes": [[50, 50, 60, 60]], "scores": [0.8], "phrase_ids": [2]},
        ...     ],
        ...     references=[{"boxes": [[10, 10, 20, 30]], "phrase_ids": [1]}, {"boxes": [], "phrase_ids": []}],
        ...     pair_ids=["a cat on a mat", "a cat on a mat"],
        ...     positive=[True, False],
        ...     phrase_keys=[{1: [[0, 5]]}, {2: [[0, 5]]}],
        ... )
        >>> results["recall_at_1"]
        1.0
    """

    spec = SPEC
    papers = ("https://ashkamath.github.io/TRICD/",)
    code = ("https://github.com/ashkamath/TRICD",)
