"""Image-text retrieval: is a right caption, or image, among the k highest, also under shuffles and hard negatives?"""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.citations import ARO, CREPE
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe
from vl_assay.metrics.retrieval_recall.spec import SPEC


class RetrievalRecall(CheckedInputs, evaluate.Metric):
    """Recall@k, mean and median rank of text and image retrieval; higher is better for recall, lower for ranks.

    Args:
        predictions: float64, a row of scores for each image, higher meaning a better match. With ``pool="shared"`` all
            rows score the same captions, in one order; with ``pool="own"`` each row has candidates of its own.
        references: for each row the columns of its right captions as a list; with ``pool="own"`` also one number.
        pool: ``"shared"`` (retrieval in both directions, the default) or ``"own"`` (CREPE's hard-negative sets).
        ks: the depths, (1, 5, 10) by default.
        conditions: shared only: one label per row, such as "none" and "shuffle_trigrams"; the rows of a label form a
            matrix of their own.
        seeds: shared only, with conditions: one label per row; scores are averaged over the seeds of a condition.
        ties: the order of equal scores: ``"wrong"`` puts wrong candidates first, ``"right"`` right ones, ``"half"``
            any order, with the chance of success as credit.
        categories: own only: one label per row, such as CREPE's complexity.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per row, its image; by default the row.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        text_recall_at_1 …, text_mean_rank, text_median_rank, text_tie_rate, and the same with ``image_``: with
            ``pool="shared"``; recalls and rates in [0, 1], ranks from 1.
        recall_at_1 …, mean_rank, median_rank, tie_rate, mean_candidates, chance_recall_at_1 …: with ``pool="own"``.
        n: number of rows; ``n_images``, ``n_captions``, ``n_captions_without_image``: with ``pool="shared"``.
        per_condition, per_category: the same for each; with seeds also ``<score>_std`` and ``n_seeds``.
        confidence, and ``<recall>_interval`` beside each recall: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: a NaN or infinite score, rows of unequal length in a shared pool, a right candidate that is missing
            or out of range, or a value that an option does not have; the message names the rows.

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

    def _info(self) -> evaluate.MetricInfo:
        scores = datasets.Sequence(datasets.Value("float64"))
        right = datasets.Value("float64")  # as int64 a column of 0.9 would become 0 without notice
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=ARO + "\n" + CREPE,
            features=[
                datasets.Features({"predictions": scores, "references": datasets.Sequence(right)}),
                datasets.Features({"predictions": scores, "references": right}),
            ],
            reference_urls=["https://arxiv.org/abs/2210.01936", "https://arxiv.org/abs/2212.07796"],
            codebase_urls=[
                "https://github.com/mertyg/vision-language-models-are-bows",
                "https://github.com/RAIVNLab/CREPE",
            ],
        )
