"""Group-Recall@1: over an image and its distractor, is the most confident box of a phrase on the image, and right?"""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.citations import TRICD
from vl_assay.metrics.group_recall_at_1.spec import SPEC
from vl_assay.metrics.inputs import BoxInputs
from vl_assay.metrics.modules import describe, detection_features


class GroupRecallAt1(BoxInputs, evaluate.Metric):
    """Recall@1 with the boxes of the positive row and of its distractor pooled, phrase by phrase; higher is better.

    Args:
        predictions: for each image-caption row ``{"boxes": [[…4], …], "scores": […], "phrase_ids": […]}``; empty lists
            where the model abstains.
        references: for each row ``{"boxes": …, "phrase_ids": …}``; empty lists on distractors.
        pair_ids: one label per row; the positive row of a caption and its distractors share it.
        positive: one flag per row, true where the caption is true of the image: once in each pair.
        phrase_keys: for each row a mapping from phrase id to the phrase's place in the caption (TRICD's ``phrases``),
            where the rows of a pair number their phrases differently; by default they share the ids.
        box_format: ``"xyxy"`` or ``"xywh"`` for both, or a mapping that gives one to ``"predictions"`` and one to
            ``"references"``. By default as in TRICD's released files: predictions XYXY, references XYWH.
        ties: what a phrase earns where boxes share the highest confidence: ``"wrong"`` 1 if all of them are right,
            ``"right"`` 1 if one of them is, ``"half"`` the right ones' share.
        categories: one label per row, such as TRICD's splits.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per row, its image; by default the pair.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        recall_at_1: share of phrases, in [0, 1]; ``macro_recall_at_1`` averages over the categories.
        tie_rate: share of phrases that a tie decides.
        n, n_pairs, n_abstained: numbers of phrases, of pairs, and of phrases without any predicted box, which are
            misses.
        per_category: the same for each category.
        confidence, and ``<score>_interval`` beside each score: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: rows that cannot be read, a pair without exactly one positive row or without a distractor, a phrase
            without a key, or a value that an option does not have; the message names the rows.

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

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=TRICD,
            features=datasets.Features(detection_features()),
            reference_urls=["https://ashkamath.github.io/TRICD/"],
            codebase_urls=["https://github.com/ashkamath/TRICD"],
        )
