"""Accuracy and macro F1 of yes-or-no answers, and where the false ones come from, as on TRICD-VQA."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from vl_assay.metrics.modules.module import MetricModule
from vl_assay.metrics.yes_no_f1.spec import SPEC


class YesNoF1(MetricModule, evaluate.Metric):
    """Accuracy and macro F1 of yes-or-no answers; higher is better.

    Examples:
        >>> import evaluate
        >>> metric = evaluate.load("metrics/yes_no_f1")
        >>> results = metric.compute(predictions=["yes", "yes", "no", "no"], references=["yes", "no", "no", "no"])
        >>> results["accuracy"], round(results["macro_f1"], 4)  # (2/3 + 4/5) / 2
        (0.75, 0.7333)
        >>> metric.compute(predictions=[1, 1, 0, 0], references=[1, 0, 0, 0])["false_positives"]
        1
    """

    spec = SPEC
    papers = ("https://ashkamath.github.io/TRICD/",)
    code = ("https://github.com/ashkamath/TRICD",)

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> datasets.Features:
        # `evaluate` looks at the first row alone: an empty batch has none, and a missing answer has no type.
        answers, truth = (any(isinstance(value, str) for value in rows) for rows in batch.values())
        return self.features[2 * answers + truth]
