"""Pairwise comparison of models on the same examples: ties with the best, and differences of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...hub_datasets.core.benchmarks import get_task
from ...metrics.common.errors import PredictionsError
from ...metrics.estimation.aggregate import aggregate
from ...metrics.estimation.differences import differences, p_value
from ...metrics.estimation.paired import holm
from ...metrics.evaluation import (
    Scored,
    base_score,
    common,
    example_ids,
    examples_of,
    is_costly,
    permutations,
    scored_rows,
)
from ...metrics.records.predictions import Predictions
from .entries import Column

LEVEL = 0.05


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
        self._p_value = lru_cache(maxsize=1 << 16)(self._test)
        self.difference = lru_cache(maxsize=1 << 12)(self._difference)

    def shared(self, all_predictions: Mapping[str, str], column: Column) -> frozenset[str]:
        """The best model and those that do not differ significantly from it.

        Each model is compared with the best on the examples that both have, by the permutation test of
        ``differences.p_value``, which exchanges models on whole clusters of examples that share an image. The p-values
        are corrected by Holm's method for the number of models and compared with 5 %.

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
        pick = max if column.is_higher_better else min
        best = pick(values, key=values.__getitem__)
        others = {name: all_predictions[name] for name in values if name != best}
        return frozenset({best}) | self.alike(all_predictions[best], others, column)

    def alike(self, predictions: str, others: Mapping[str, str], column: Column) -> frozenset[str]:
        """Return the models that do not differ significantly from one; tests and arguments are those of `shared`."""
        scored = self._scored(predictions, column[:3])
        assert scored is not None
        count = permutations(scored.examples, column.score, len(others))
        p_values = [self._p_value(predictions, other, column, count) for other in others.values()]
        return frozenset(name for name, p in zip(others, holm(p_values), strict=True) if p > LEVEL)

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
        parts = {"": found, **found[scored.examples.category_key]}
        return {(name, part): parts[part][name] for part in parts for name in parts[part]}

    def _test(self, best: str, other: str, column: Column, count: int) -> float:
        try:
            one, two = self.pair(best, other, column)
        except PredictionsError:
            return 1.0
        return p_value(one.examples, two.examples, column.score, column.category, count)

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
