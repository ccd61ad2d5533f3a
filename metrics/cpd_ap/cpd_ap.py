"""Average precision of contextual phrase detection: find what a phrase means, if and only if the caption is true."""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.citations import TRICD
from vl_assay.metrics.cpd_ap.spec import SPEC
from vl_assay.metrics.inputs import BoxInputs
from vl_assay.metrics.modules import describe, detection_features


class CPDAP(BoxInputs, evaluate.Metric):
    """AP, AP50 and AP75 with one precision-recall curve over all phrases; higher is better.

    Args:
        predictions: for each image-caption row ``{"boxes": [[…4], …], "scores": […], "phrase_ids": […]}``; empty lists
            where the model abstains. A box belongs to one phrase.
        references: for each row ``{"boxes": …, "phrase_ids": …}``; empty lists where the caption is false of the image.
        box_format: ``"xyxy"`` or ``"xywh"`` for both, or a mapping that gives one to ``"predictions"`` and one to
            ``"references"``. By default as in TRICD's released files: predictions XYXY, references XYWH.
        ties: ``"wrong"``: boxes of equal score enter the curve together; ``"coco"``: the order of rows decides, as in
            pycocotools.
        max_boxes: how many boxes of a row count, the most confident first; 100 as in COCO.
        positive: one flag per row, whether the caption is true of the image; by default the rows with ground truth.
        subsamples: number of random 90 % subsets for the standard deviation; 0 for none.
        categories: one label per row, such as TRICD's splits.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per row: rows that share a caption or an image.
        resamples: number of bootstrap resamples, at least 100; 1,000 by default.
        seed: seed of the subsets and the resampling.

    Returns:
        ap: mean over the IoU thresholds 0.50, 0.55 … 0.95, in [0, 1]; ``ap50`` and ``ap75`` at one threshold.
        ap_positives: AP over the positive rows alone.
        ap_subsample_std: standard deviation of AP over the 90 % subsets; the paper claims no smaller gap.
        tie_rate: share of boxes at whose score stand both a match and a miss.
        n, n_positive, n_boxes: numbers of rows, of positive rows and of ground-truth boxes.
        per_category: the scores, ``n`` and ``n_boxes`` of each category.
        confidence, and ``<score>_interval`` beside each score: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: rows that cannot be read (unequal lengths, NaN, x2 < x1, a negative phrase id …), no ground truth,
            or a value that an option does not have; the message names the row and the cure.

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

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=TRICD,
            features=datasets.Features(detection_features()),
            reference_urls=["https://ashkamath.github.io/TRICD/"],
            codebase_urls=["https://github.com/ashkamath/TRICD"],
        )
