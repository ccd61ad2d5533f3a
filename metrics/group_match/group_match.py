"""Group match: does a model pair two images with their two captions, as Winoground and Cola ask?"""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.citations import COLA, WINOGROUND
from vl_assay.metrics.group_match.spec import SPEC
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe


class GroupMatch(CheckedInputs, evaluate.Metric):
    """Text, image and group score of groups of two images and two captions; higher is better.

    Args:
        predictions: float64 of shape (n, 2, 2): for each group the matrix of scores, rows images, columns captions, on
            any scale; the right pairs stand on the diagonal.
        ties: what a tie of a right with a wrong pair earns where it decides: ``"wrong"`` 0 (Winoground's strict
            inequalities), ``"half"`` what breaking it at random earns on average, ``"right"`` 1.
        categories: one label per group, or a list of labels, such as Winoground's tags, and ``[]`` for a group that has
            none.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per group, where groups share images.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        text_score: share of groups in which each image prefers its caption, in [0, 1].
        image_score: share of groups in which each caption prefers its image, in [0, 1].
        group_score: share of groups in which both hold, in [0, 1].
        macro_text_score, macro_image_score, macro_group_score: unweighted means over the categories.
        tie_rate: share of the groups that a tie decides, in [0, 1].
        n: number of groups.
        per_category: the same for each label.
        confidence, and ``<score>_interval`` beside each score: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: a group that is no 2×2 matrix, a NaN or infinite score, missing labels or a value that an option
            does not have; the message names the rows.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/group_match")
        >>> results = metric.compute(predictions=[[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.4], [0.6, 0.7]]])
        >>> results["text_score"], results["image_score"], results["group_score"]
        (1.0, 0.5, 0.5)
    """

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=WINOGROUND + "\n" + COLA,
            features=datasets.Features(
                {"predictions": datasets.Sequence(datasets.Sequence(datasets.Value("float64")))}
            ),
            reference_urls=["https://arxiv.org/abs/2204.03162", "https://arxiv.org/abs/2305.03689"],
            codebase_urls=[
                "https://huggingface.co/datasets/facebook/winoground",
                "https://github.com/arijitray1993/COLA",
            ],
        )
