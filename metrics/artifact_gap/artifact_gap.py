"""Artefact gap: how far a model that never sees the image tells the correct caption from the hard negative."""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.artifact_gap.spec import SPEC
from vl_assay.metrics.citations import SUGARCREPE
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe


class ArtifactGap(CheckedInputs, evaluate.Metric):
    """What blind (text-only) scores give away of a benchmark: 0.5 accuracy and symmetric gaps are a sound benchmark.

    Args:
        predictions: float64 of shape (n, 2): a text-only model's scores of an example's two captions, higher meaning
            more plausible. A caption with several hard negatives makes one row for each.
        references: whole numbers of shape (n,): the column of the correct caption, 0 or 1.
        ties: what equal scores earn in the accuracy: ``"wrong"`` 0, ``"half"`` 1/2, ``"right"`` 1.
        categories: one label per example, such as ``"swap_att"``.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per example: rows that share a caption or an image.
        resamples: number of bootstrap resamples, at least 100.
        permutations: number of random sign flips, at least 100; 1,000 by default.
        seed: seed of the random draws.

    Returns:
        accuracy: how often the correct caption scores higher, in [0, 1]; 0.5 is best.
        mean_gap, median_gap: score of the correct caption minus that of the negative; 0 is best.
        auc: chance that any correct caption outscores any negative, in [0, 1], ties half; 0.5 is best.
        asymmetry: largest distance between the distributions of the gap and of its negative, in [0, 1]; 0 is best.
        symmetry_p_value: chance of such an asymmetry if gaps were symmetric, from flipping whole clusters.
        tie_rate, n, n_clusters: share of equal scores; numbers of examples and clusters.
        per_category: the same for each category.
        confidence, accuracy_interval, mean_gap_interval, auc_interval: with ``confidence``.

    Raises:
        ValueError: more than two captions, a NaN or infinite score, an index that names no caption, missing labels, or
            a value that an option does not have; the message names the rows.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/artifact_gap")
        >>> results = metric.compute(predictions=[[0.9, 0.4], [0.8, 0.1], [0.3, 0.5]], references=[0, 0, 0])
        >>> round(results["accuracy"], 4), round(results["mean_gap"], 4), round(results["auc"], 4)
        (0.6667, 0.3333, 0.7778)
    """

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=SUGARCREPE,
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("float64")),
                    # As int64 a column of 0.9 would become 0 without notice.
                    "references": datasets.Value("float64"),
                }
            ),
            reference_urls=["https://arxiv.org/abs/2306.14610"],
            codebase_urls=["https://github.com/RAIVNLab/sugar-crepe"],
        )
