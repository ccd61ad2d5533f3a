"""Pairwise comparison of models on the same examples: ties with the best, and differences of two."""

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
    LEVEL,
    Scored,
    base_score,
    best_models,
    common,
    example_ids,
    is_costly,
    p_by_category,
    p_overall,
)
from .entries import Column


class PairedTests:
    """Paired tests of models, with a cache. Predictions are identified by their SHA-256 and their task.

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

    def shared(self, all_predictions: Mapping[str, str], column: Column) -> frozenset[str]:
        """Return the best models and those that do not differ significantly from one of them.

        Each model is compared with the best on the examples that both have, by the p-values of ``compare``.

        Args:
            all_predictions: predictions by the name of the model, all with the column's task.
            column: the score, or its macro average, and the category of the examples to compare.

        Returns:
            Names of models; empty if none has the score.
        """
        found = {name: self._values(sha256, column[:3]) for name, sha256 in sorted(all_predictions.items())}
        values = {name: scores[column[3:]] for name, scores in found.items() if column[3:] in scores}
        if not values:
            return frozenset()

        def p(one: str, two: str) -> float:
            return self._p_value(all_predictions[one], all_predictions[two], column)

        best, equal = best_models(values, column.is_higher_better, p)
        return frozenset([*best, *equal])

    def alike(self, predictions: str, others: Mapping[str, str], column: Column) -> frozenset[str]:
        """Return the models that do not differ significantly from one; tests and arguments are those of `shared`."""
        return frozenset(name for name, other in others.items() if self._p_value(predictions, other, column) > LEVEL)

    def pair(self, first: str, second: str, column: Column) -> tuple[Scored, Scored]:
        """The examples of a column's task that two predictions files share.

        Raises:
            PredictionsError: there are none.
        """
        one, two = self._scored(first, column[:3]), self._scored(second, column[:3])
        found = common(one, two) if one and two else None
        if found is None:
            raise PredictionsError("the models have no example in common: each lacks the images of the other")
        return found

    def _read(self, name: str, place: tuple[str, str, str]) -> Scored | None:
        """The examples by the task's settings and the metric's tie policy; None without scores."""
        benchmark, task, metric = place
        rows = scored_rows(self._load(name, task).rows)
        if not rows:
            return None
        examples = examples_of(rows, metric, get_task(benchmark, task).metrics[metric])
        return Scored(example_ids(rows, examples), examples)

    def _average(self, predictions: str, place: tuple[str, str, str]) -> dict[tuple[str, str], float]:
        """Values by score and category, which is empty for all examples."""
        scored = self._scored(predictions, place)
        if scored is None:
            return {}
        found = aggregate(scored.examples)
        parts = {"": found, **found["per_category"]}
        return {(name, part): parts[part][name] for part in parts for name in parts[part]}

    def _p_value(self, one: str, two: str, column: Column) -> float:
        p_values = self._p_values(*sorted((one, two)), column._replace(category=""), bool(column.category))
        return p_values.get(column.category, 1.0)

    def _test(self, one: str, two: str, column: Column, by_category: bool) -> Mapping[str, float]:
        """Return the p-values of a column's score by category, or under "" over all examples."""
        first, second = self._scored(one, column[:3]), self._scored(two, column[:3])
        if first is None or second is None:
            return {}
        if by_category:
            return p_by_category(first, second, column.score)
        return {"": p_overall(first, second, column.score)}

    def _difference(self, first: str, second: str, column: Column) -> dict[str, Any]:
        """The result of ``differences.differences`` for a column's score; wins are of the first model.

        ``per_category`` is empty for scores whose resamples are costly, such as average precision.

        Raises:
            PredictionsError: they have no example in common.
        """
        score = column.score
        pair = [each.examples for each in self.pair(first, second, column)]
        name = base_score(pair[0], score)
        alone = [  # so that no other score is tested
            replace(
                each,
                values={key: values for key, values in each.values.items() if key == name},
                estimators=tuple(estimator for estimator in each.estimators if name in estimator.names),
                membership=each.membership if name != score or not is_costly(each, name) else None,
            )
            for each in pair
        ]
        found = differences(alone[0], alone[1])[name]
        found = found if name == score else found["macro"] | {"per_category": found["per_category"]}
        if column.is_higher_better:
            return found
        return found | {"wins": found["losses"], "losses": found["wins"]}
