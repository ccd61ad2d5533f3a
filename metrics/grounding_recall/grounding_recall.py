"""Phrase grounding: is one of the k most confident boxes of a phrase on what the phrase means?"""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.citations import TRICD
from vl_assay.metrics.grounding_recall.spec import SPEC
from vl_assay.metrics.inputs import BoxInputs
from vl_assay.metrics.modules import describe, detection_features


class GroundingRecall(BoxInputs, evaluate.Metric):
    """Recall@k of phrase grounding under the any-box protocol; higher is better.

    Args:
        predictions: for each image-caption row ``{"boxes": [[…4], …], "scores": […], "phrase_ids": […]}``; empty lists
            where the model abstains.
        references: for each row ``{"boxes": …, "phrase_ids": …}``. Rows without boxes are negatives, and in no score.
        box_format: ``"xyxy"`` or ``"xywh"`` for both, or a mapping that gives one to ``"predictions"`` and one to
            ``"references"``. By default as in TRICD's released files: predictions XYXY, references XYWH.
        ks: numbers of boxes, (1, 5, 10) by default.
        ties: which of equally confident boxes come first: ``"wrong"`` the wrong ones, ``"right"`` the right ones,
            ``"half"`` any order, with the chance of success as credit.
        categories: one label per row, such as TRICD's splits.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per row, its image; by default the row.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        recall_at_1, recall_at_5, recall_at_10: share of phrases with a right box (IoU of at least 0.5 with any
            ground-truth box) among the first k, in [0, 1]; with ``macro_`` averages over the categories.
        tie_rate: share of phrases for which a tie decides at some k.
        n, n_positive, n_abstained: numbers of phrases, of positive rows, and of phrases without any predicted box,
            which are misses.
        per_category: the same for each category.
        confidence, and ``<score>_interval`` beside each score: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: rows that cannot be read, no ground truth, or a value that an option does not have; the message
            names the row.

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

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=TRICD,
            features=datasets.Features(detection_features()),
            reference_urls=["https://ashkamath.github.io/TRICD/"],
            codebase_urls=["https://github.com/ashkamath/TRICD"],
        )
