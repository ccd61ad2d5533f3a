"""Pairwise tests of models on the same examples: ties with the best model, and differences of two models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...hub_datasets.core.benchmarks import get_task
from ...metrics.common.errors import PredictionsError
from ...metrics.estimation.aggregate import aggregate
from ...metrics.estimation.differences import differences
from ...metrics.records.predictions import Predictions
from ...metrics.results.compute import examples_of, scored_rows
from ...metrics.results.pairs import (
    Scored,
    base_score,
    best_models,
    common,
    example_ids,
    is_costly,
    p_by_category,
    p_overall,
)
from .entries import BoardColumn


class PairedTests:
    """Cached paired tests of models. Predictions are identified by their SHA-256 and their task.

    Args:
        load: reads the predictions of a task in the file with a hash.
    """

    def __init__(self, load: Callable[[str, str], Predictions]) -> None:
        self._load = load
        # The examples of a detector may take 25 MB; values and p-values are small.
        self._scored = lru_cache(maxsize=256)(self._read)
        self._values = lru_cache(maxsize=1 << 16)(self._average)
        self._p_values = lru_cache(maxsize=1 << 16)(self._test)
        self.difference = lru_cache(maxsize=1 << 12)(self._difference)

    def shared(self, all_predictions: Mapping[str, str], column: BoardColumn) -> frozenset[str]:
        """Return the best models and the models that do not differ significantly from one of them.

        Each model is compared with the best on the examples that both have, by the p-values of ``compare``.

        Args:
            all_predictions: predictions by the name of the model, all with the column's task.
            column: the score, or its macro average, and the category of the examples to compare.

        Returns:
            Names of models; empty if none has the score.
        """
        scores_by_model = {name: self._values(sha256, column[:3]) for name, sha256 in sorted(all_predictions.items())}
        values = {name: scores[column[3:]] for name, scores in scores_by_model.items() if column[3:] in scores}
        if not values:
            return frozenset()
        whole, by_category = column._replace(category=""), bool(column.category)

        def p(one: str, two: str) -> float:
            files = sorted((all_predictions[one], all_predictions[two]))
            return self._p_values(*files, whole, by_category).get(column.category, 1.0)

        best, equal = best_models(values, column.is_higher_better, p)
        return frozenset([*best, *equal])

    def pair(self, first: str, second: str, column: BoardColumn) -> tuple[Scored, Scored]:
        """Return the examples of a column's task that two predictions files share.

        Raises:
            PredictionsError: they share no example.
        """
        first_scored, second_scored = self._scored(first, column[:3]), self._scored(second, column[:3])
        shared_examples = common(first_scored, second_scored) if first_scored and second_scored else None
        if shared_examples is None:
            raise PredictionsError("the models have no example in common: each lacks the images of the other")
        return shared_examples

    def _read(self, name: str, column: tuple[str, str, str]) -> Scored | None:
        """Read the examples, with the task's settings and the metric's tie policy; None without scores."""
        benchmark, task, metric = column
        rows = scored_rows(self._load(name, task).rows)
        if not rows:
            return None
        examples = examples_of(rows, metric, get_task(benchmark, task).metrics[metric])
        return Scored(example_ids(rows, examples), examples)

    def _average(self, predictions: str, column: tuple[str, str, str]) -> dict[tuple[str, str], float]:
        """Return the values by score and category, which is empty for all examples."""
        scored = self._scored(predictions, column)
        if scored is None:
            return {}
        scores = aggregate(scored.examples)
        tables = {"": scores, **scores["per_category"]}
        return {(name, category): value for category, table in tables.items() for name, value in table.items()}

    def _test(self, one: str, two: str, column: BoardColumn, by_category: bool) -> Mapping[str, float]:
        """Return the p-values of a column's score by category, or under "" over all examples."""
        first, second = self._scored(one, column[:3]), self._scored(two, column[:3])
        if first is None or second is None:
            return {}
        if by_category:
            return p_by_category(first, second, column.score)
        return {"": p_overall(first, second, column.score)}

    def _difference(self, first: str, second: str, column: BoardColumn) -> dict[str, Any]:
        """Return the result of ``differences.differences`` for a column's score; wins are of the first model.

        ``per_category`` is empty for scores that are costly to resample, such as average precision.

        Raises:
            PredictionsError: they share no example.
        """
        score = column.score
        pair = [examples.examples for examples in self.pair(first, second, column)]
        name = base_score(pair[0], score)
        single_score = [  # so that no other score is tested
            replace(
                examples,
                values={key: values for key, values in examples.values.items() if key == name},
                estimators=tuple(estimator for estimator in examples.estimators if name in estimator.names),
                membership=examples.membership if name != score or not is_costly(examples, name) else None,
            )
            for examples in pair
        ]
        result = differences(single_score[0], single_score[1])[name]
        result = result if name == score else result["macro"] | {"per_category": result["per_category"]}
        if column.is_higher_better:
            return result
        return result | {"wins": result["losses"], "losses": result["wins"]}
