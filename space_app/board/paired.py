"""Pairwise comparison of models on the same examples: ties with the best, and differences of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...hub_datasets.core.benchmarks import get_task
from ...metrics.common.errors import PredictionsError
from ...metrics.contract.aggregate import aggregate
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
from ...metrics.modules.discovery import get_spec
from ...metrics.records.predictions import Predictions
from ...metrics.statistics.differences import differences, p_value
from ...metrics.statistics.paired import holm

LEVEL = 0.05


class PairedTests:
    """Paired tests of models, with a cache. Predictions are identified by their SHA-256.

    Args:
        load: reads a predictions file.
    """

    def __init__(self, load: Callable[[str], Predictions]) -> None:
        self._load = load
        # The examples of a detector may take 25 MB; values and p-values are small.
        self._scored = lru_cache(maxsize=256)(self._read)
        self._values = lru_cache(maxsize=1 << 16)(self._average)
        self._p_value = lru_cache(maxsize=1 << 16)(self._test)
        self.difference = lru_cache(maxsize=1 << 12)(self._difference)

    def shared(self, all_predictions: Mapping[str, str], metric: str, score: str, category: str = "") -> frozenset[str]:
        """The best model and those that do not differ significantly from it.

        Each model is compared with the best on the examples that both have, by the permutation test of
        ``differences.p_value``, which exchanges models on whole clusters of examples that share an image. The p-values
        are corrected by Holm's method for the number of models and compared with 5 %.

        Args:
            all_predictions: predictions by the name of the model, all of one task.
            metric, score: the score, or its macro average.
            category: the examples to compare; empty for all.

        Returns:
            Names of models; empty if none has the score.
        """
        found = {name: self._values(sha256, metric) for name, sha256 in sorted(all_predictions.items())}
        values = {name: scores[score, category] for name, scores in found.items() if (score, category) in scores}
        if not values:
            return frozenset()
        pick = max if get_spec(metric).is_higher_better(score) else min
        best = pick(values, key=values.__getitem__)
        others = {name: all_predictions[name] for name in values if name != best}
        return frozenset({best}) | self.alike(all_predictions[best], others, metric, score, category)

    def alike(
        self, predictions: str, others: Mapping[str, str], metric: str, score: str, category: str = ""
    ) -> frozenset[str]:
        """Which other models do not differ significantly from one; the tests and arguments are those of `shared`."""
        scored = self._scored(predictions, metric)
        assert scored is not None
        count = permutations(scored.examples, score, len(others))
        p_values = [self._p_value(predictions, other, metric, score, category, count) for other in others.values()]
        return frozenset(name for name, p in zip(others, holm(p_values), strict=True) if p > LEVEL)

    def pair(self, first: str, second: str, metric: str) -> tuple[Scored, Scored]:
        """The examples that two predictions files share.

        Raises:
            PredictionsError: there are none.
        """
        one, two = self._scored(first, metric), self._scored(second, metric)
        found = common(one, two) if one and two else None
        if found is None:
            raise PredictionsError("the models have no example in common: each lacks the images of the other")
        return found

    def _read(self, name: str, metric: str) -> Scored | None:
        """The examples by the task's settings and the metric's tie policy; None without scores."""
        predictions = self._load(name)
        rows = scored_rows(predictions.rows)
        if not rows:
            return None
        examples = examples_of(rows, metric, get_task(predictions.benchmark, predictions.task).metrics[metric])
        return Scored(example_ids(rows, examples), examples)

    def _average(self, predictions: str, metric: str) -> dict[tuple[str, str], float]:
        """Values by score and category, which is empty for all examples."""
        scored = self._scored(predictions, metric)
        if scored is None:
            return {}
        found = aggregate(scored.examples)
        parts = {"": found, **found[scored.examples.category_key]}
        return {(name, part): parts[part][name] for part in parts for name in parts[part]}

    def _test(self, best: str, other: str, metric: str, score: str, category: str, count: int) -> float:
        try:
            one, two = self.pair(best, other, metric)
        except PredictionsError:
            return 1.0
        return p_value(one.examples, two.examples, score, category, count)

    def _difference(self, first: str, second: str, metric: str, score: str) -> dict[str, Any]:
        """The result of ``differences.differences`` for one score; wins are of the first model.

        ``per_category`` is empty for scores whose resamples are costly, such as average precision.

        Raises:
            PredictionsError: they have no example in common.
        """
        pair = [each.examples for each in self.pair(first, second, metric)]
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
        if get_spec(metric).is_higher_better(score):
            return found
        return found | {"wins": found["losses"], "losses": found["wins"]}
