"""SugarCrepe image-text matching accuracy: how often a model prefers the caption that is true of an image."""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.citations import SUGARCREPE
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe
from vl_assay.metrics.sugarcrepe_itm.spec import SPEC


class SugarCrepeITM(CheckedInputs, evaluate.Metric):
    """Share of examples whose correct caption outscores all hard negatives of the image; higher is better.

    Args:
        predictions: float64 of shape (n, k), k >= 2: the scores of an image's captions, on any scale, higher meaning a
            better match. SugarCrepe has k = 2, and [positive, negative] is the usual order.
        references: whole numbers of shape (n,): the column of the correct caption, so 0 in the usual order.
        categories: one of SugarCrepe's seven per example, such as ``"swap_att"``; without them the macro average equals
            the micro average, and there are no forms.
        forms: the form of each category, for categories of your own: ``{"swap_number": "SWAP"}``.
        ties: what a tie for the highest score earns: ``"wrong"`` 0, ``"half"`` 1 over the number of captions that share
            it, ``"right"`` 1. A tie is wrong by default, as in the authors' code.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per example, its image, as the examples of an image are not independent. Without them each
            example is its own cluster, and the intervals are too narrow.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        accuracy: mean over all examples, in [0, 1].
        macro_accuracy: unweighted mean over the categories, in [0, 1]; "Average" in the paper's Table 6.
        tie_rate: share of the examples that a tie decides, in [0, 1].
        n: number of examples.
        per_category: for each category its ``accuracy``, ``tie_rate`` and ``n``, and with ``confidence`` its
            ``accuracy_interval``.
        per_form: for REPLACE, SWAP and ADD ``accuracy`` (over examples, as in the paper's Table 5),
            ``macro_accuracy`` (over categories), ``tie_rate``, ``n``, and with ``confidence`` the intervals.
        confidence, accuracy_interval, macro_accuracy_interval: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: a score is NaN or infinite, a row is shorter than another, an index names no caption, a category is
            missing or has no form, or an option has no such value; the message names the rows.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/sugarcrepe_itm")
        >>> results = metric.compute(
        ...     predictions=[[0.31, 0.27], [0.22, 0.25], [0.30, 0.30]],
        ...     references=[0, 0, 0],
        ...     categories=["swap_obj", "swap_att", "swap_att"],
        ... )
        >>> round(results["accuracy"], 4), results["macro_accuracy"], round(results["tie_rate"], 4)
        (0.3333, 0.5, 0.3333)
        >>> results["per_category"]["swap_att"]
        {'accuracy': 0.0, 'tie_rate': 0.5, 'n': 2}
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
