"""Paired difference: is one model better than another on the same examples, and could these examples have shown it?"""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from vl_assay.metrics.functional.comparison import are_scores, check_not_text
from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.paired_difference.spec import SPEC


class PairedDifference(MetricModule, evaluate.Comparison):
    """Difference of two models' accuracies with its interval, tests and power; positive means the first is better.

    Examples:
        >>> import evaluate
        >>> comparison = evaluate.load("metrics/paired_difference")
        >>> results = comparison.compute(
        ...     predictions1=[[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.1, 0.9]],
        ...     predictions2=[[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.1, 0.9]],
        ...     references=[0, 0, 0, 0],
        ... )
        >>> results["difference"], results["wins"], results["losses"]
        (0.5, 2, 0)
        >>> results["mcnemar_p_value"], results["mcnemar_method"]  # two discordant examples: 2 * (1/2) ** 2
        (0.5, 'exact')
    """

    spec = SPEC
    papers = ("https://arxiv.org/abs/2411.00640",)

    def has_indices(self, batch: dict[str, Any]) -> bool:
        """Return whether the references are column indices of captions, which is so if a model gives scores."""
        return any(are_scores(batch[name]) for name in ("predictions1", "predictions2"))

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> datasets.Features:
        # `evaluate` looks at the first row alone: an empty batch has none, and a missing answer has no type.
        for name, rows in batch.items():
            check_not_text(rows, name)
        return self.features[2 * are_scores(batch["predictions1"]) + are_scores(batch["predictions2"])]
