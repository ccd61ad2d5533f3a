"""Paired difference: is one model better than another on the same examples, and could these examples have shown it?"""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from vl_assay.metrics.citations import MCNEMAR, MILLER
from vl_assay.metrics.comparison import are_scores, refuse_text
from vl_assay.metrics.inputs import CheckedInputs
from vl_assay.metrics.modules import describe
from vl_assay.metrics.paired_difference.spec import SPEC


class PairedDifference(CheckedInputs, evaluate.Comparison):
    """Difference of two models' accuracies with its interval, tests and power; positive means the first is better.

    Args:
        predictions1: what the first model said: rows of scores, where the highest is its choice; or answers as numbers,
            such as that of the chosen caption, or 1 and 0 for yes and no. Text is refused.
        predictions2: what the second model said of the same examples; it may give scores where the first one answers.
        references: the column of the correct caption, or the right answer.
        ties: what a tie for the highest score earns: ``"wrong"`` 0, ``"half"`` 1 over the number of captions that share
            it, ``"right"`` 1.
        categories: one label per example; the tests in the categories are then corrected for their number (Holm).
        clusters: one label per example, its image; without them the interval is too narrow and the test too sure.
        confidence: coverage of the interval, 0.95 by default; 1 minus it is the level of the test.
        resamples: number of bootstrap resamples, at least 100.
        permutations: number of random permutations, at least 100.
        power: chance with which the smallest detectable difference is found, 0.8 by default.
        seed: seed of the random draws.

    Returns:
        difference: accuracy of the first model minus that of the second, in [-1, 1].
        difference_interval: [low, high], from resampling clusters; ``confidence``.
        accuracy1, accuracy2, tie_rate1, tie_rate2: in [0, 1].
        wins, losses, agreement: examples on which the first earns more, on which it earns less, and the share of all on
            which both earn the same.
        permutation_p_value: two-sided, from exchanging the models in whole clusters.
        mcnemar_p_value, mcnemar_method: McNemar's test, exact below 25 examples of disagreement; it takes examples as
            independent.
        smallest_detectable_difference, standard_error: what these examples can show; smaller gaps are likely missed.
        n, n_clusters: numbers of examples and of clusters.
        per_category: the same for each category, with ``p_value_holm``.

    Raises:
        ValueError: predictions of different numbers, text, a NaN, missing labels or a value that an option does not
            have; the message names the rows.

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

    def _info(self) -> evaluate.ComparisonInfo:
        scores, answer = datasets.Sequence(datasets.Value("float64")), datasets.Value("float64")
        return evaluate.ComparisonInfo(
            **describe(type(self)),
            citation=MILLER + "\n" + MCNEMAR,
            # Right answers as float64: as int64 one of 0.7 would become 0 without notice.
            features=[
                datasets.Features({"predictions1": first, "predictions2": second, "references": answer})
                for first in (answer, scores)
                for second in (answer, scores)
            ],
            reference_urls=["https://arxiv.org/abs/2411.00640"],
        )

    def has_indices(self, batch: dict[str, Any]) -> bool:
        """Whether the references are columns of captions: where some model gives scores."""
        return any(are_scores(batch[name]) for name in ("predictions1", "predictions2"))

    def _infer_feature_from_batch(self, batch: dict[str, Any]) -> datasets.Features:
        # `evaluate` looks at the first row alone: an empty batch has none, and a missing answer says nothing.
        for name, rows in batch.items():
            refuse_text(rows, name)
        return self.features[2 * are_scores(batch["predictions1"]) + are_scores(batch["predictions2"])]
