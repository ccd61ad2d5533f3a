"""ARO accuracy: does a model know which relation, attribute or word order a caption needs to be true of an image?"""

from __future__ import annotations

import datasets
import evaluate

from vl_assay.metrics.aro_itm.spec import SPEC
from vl_assay.metrics.citations import ARO
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe


class AROITM(CheckedInputs, evaluate.Metric):
    """Share of examples whose correct caption outscores all others, with ARO's macro averages; higher is better.

    Args:
        predictions: float64 of shape (n, k), k >= 2: the scores of an image's captions, on any scale, higher meaning a
            better match. VG-Relation and VG-Attribution have two captions, Order has five.
        references: whole numbers of shape (n,): the column of the correct caption.
        task: ``"relation"`` (the default), ``"attribution"`` or ``"order"``.
        categories: the relation of each example; or its attributes, as text or as a list of two. None for Order.
        ties: what a tie for the highest score earns: ``"wrong"`` 0, ``"half"`` 1 over the number of captions that share
            it, ``"right"`` 1 (the authors' code on Order).
        keep_symmetric: count the symmetric relations too; by default they are left out, and counted.
        min_count: least number of examples with which a category enters the macro average: by default 25 for
            attributes, 1 for relations.
        confidence: coverage of confidence intervals, such as 0.95; none are computed without it.
        clusters: one label per example, its image; without them the intervals are too narrow.
        resamples: number of bootstrap resamples, at least 100.
        seed: seed of the resampling.

    Returns:
        accuracy: mean over the judged examples, in [0, 1].
        macro_accuracy: unweighted mean over relations or attribute pairs, in [0, 1]; ``None`` where none is frequent
            enough.
        tie_rate: share of the judged examples that a tie decides, in [0, 1].
        n: number of judged examples; ``n_symmetric``: examples with a symmetric relation, which are in no score.
        per_category: for each relation or pair ``accuracy``, ``tie_rate`` and ``n``.
        per_group: for ``spatial`` relations and ``verb`` relations (the paper's Table 2) the same with
            ``macro_accuracy``.
        rare: categories that are not in the macro average, with their numbers of examples.
        confidence, accuracy_interval, macro_accuracy_interval: with ``confidence``; intervals as [low, high].

    Raises:
        ValueError: a score is NaN or infinite, a row is shorter than another, an index names no caption, labels are
            missing, or an option has no such value; the message names the rows.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/aro_itm")
        >>> results = metric.compute(
        ...     predictions=[[0.31, 0.27], [0.22, 0.25], [0.30, 0.20], [0.30, 0.20]],
        ...     references=[0, 0, 0, 0],
        ...     categories=["on", "on", "eating", "next to"],
        ... )
        >>> results["macro_accuracy"], results["n"], results["n_symmetric"]  # (1/2 + 1/1) / 2
        (0.75, 3, 1)
        >>> results["per_group"]["spatial"]["accuracy"]
        0.5
    """

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            **describe(type(self)),
            citation=ARO,
            features=datasets.Features(
                {
                    "predictions": datasets.Sequence(datasets.Value("float64")),
                    # As int64 a column of 0.9 would become 0 without notice.
                    "references": datasets.Value("float64"),
                }
            ),
            reference_urls=["https://arxiv.org/abs/2210.01936"],
            codebase_urls=["https://github.com/mertyg/vision-language-models-are-bows"],
        )
