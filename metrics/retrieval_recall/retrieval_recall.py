"""Image-text retrieval: is a right caption, or image, among the k highest, also under shuffles and hard negatives?"""

import evaluate

from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.retrieval_recall.spec import SPEC


class RetrievalRecall(MetricModule, evaluate.Metric):
    """Recall@k, mean and median rank of text and image retrieval; higher is better for recall, lower for ranks.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/retrieval_recall")
        >>> results = metric.compute(
        ...     predictions=[[0.9, 0.8, 0.1], [0.7, 0.2, 0.6]], references=[[0, 1], [2]], ks=[1, 2]
        ... )
        >>> results["text_recall_at_1"], results["text_recall_at_2"], results["image_recall_at_1"]
        (0.5, 1.0, 1.0)
        >>> sets = {"predictions": [[0.9, 0.8], [0.2, 0.7, 0.6]], "references": [0, 0]}
        >>> metric.compute(**sets, pool="own")["mean_rank"]
        2.0
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2210.01936", "https://arxiv.org/abs/2212.07796")
    code = ("https://github.com/mertyg/vision-language-models-are-bows", "https://github.com/RAIVNLab/CREPE")
