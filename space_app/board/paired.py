"""Pairwise comparison of models on the same examples: ties with the best, and differences of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ...hub_datasets.core.benchmarks import get_task
from ...metrics.common.errors import PredictionsError
from ...metrics.contract.aggregate import aggregate
from ...metrics.contract.estimators import OfTotals
from ...metrics.contract.spec import Examples
from ...metrics.evaluation import examples_of, scored_rows
from ...metrics.modules.discovery import get_spec
from ...metrics.records.predictions import Predictions
from ...metrics.statistics.differences import differences, p_value
from ...metrics.statistics.paired import holm

LEVEL = 0.05


@dataclass
class Scored:
    """The per-example scores of a metric on a predictions file.

    Args:
        ids: for each example the id of its row, and the name of its part of the row, such as a phrase.
        examples: with their scores.
    """

    ids: list[tuple[str, str]]
    examples: Examples

    @cached_property
    def index(self) -> dict[tuple[str, str], int]:
        """The place of each example by its id."""
        return {id: place for place, id in enumerate(self.ids)}

    def select(self, ids: list[tuple[str, str]]) -> Scored:
        """Some of the examples, in this order."""
        places = np.array([self.index[id] for id in ids], dtype=np.intp)
        return Scored(ids, self.examples.select(places, with_categories=True))


def base_score(examples: Examples, score: str) -> str:
    """The score that is averaged in a macro average, or the score itself."""
    return score if score in examples.scores else score.removeprefix("macro_")


def _is_costly(examples: Examples, score: str) -> bool:
    """Whether each resample has to compute the score again."""
    return score not in examples.values and not isinstance(examples.estimator(score), OfTotals)


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
        permutations = self._permutations(predictions, metric, score, len(others))
        p_values = [
            self._p_value(predictions, other, metric, score, category, permutations) for other in others.values()
        ]
        return frozenset(name for name, p in zip(others, holm(p_values), strict=True) if p > LEVEL)

    def pair(self, first: str, second: str, metric: str) -> tuple[Scored, Scored]:
        """The examples that two predictions files share.

        Raises:
            PredictionsError: there are none.
        """
        one, two = self._scored(first, metric), self._scored(second, metric)
        if one and two and one.ids != two.ids:
            ids = [id for id in one.ids if id in two.index]
            one, two = one.select(ids), two.select(ids)
        if not (one and two and one.ids):
            raise PredictionsError("the models have no example in common: each lacks the images of the other")
        return one, two

    def _read(self, name: str, metric: str) -> Scored | None:
        """The examples by the task's settings and the metric's tie policy; None without scores."""
        predictions = self._load(name)
        rows = scored_rows(predictions.rows)
        if not rows:
            return None
        examples = examples_of(rows, metric, get_task(predictions.benchmark, predictions.task).metrics[metric])
        names = [""] * len(examples) if examples.names is None else examples.names
        return Scored([(rows[row].id, part) for row, part in zip(examples.rows, names, strict=True)], examples)

    def _average(self, predictions: str, metric: str) -> dict[tuple[str, str], float]:
        """Values by score and category, which is empty for all examples."""
        scored = self._scored(predictions, metric)
        if scored is None:
            return {}
        found = aggregate(scored.examples)
        parts = {"": found, **found[scored.examples.category_key]}
        return {(name, part): parts[part][name] for part in parts for name in parts[part]}

    def _permutations(self, predictions: str, metric: str, score: str, models: int) -> int:
        """The number of permutations, enough for the smallest p-value to be significant after Holm's correction.

        The smallest p-value is 1 / (permutations + 1). Times the number of models it has to stay below `LEVEL`, for
        which 20 permutations per model are enough. Scores that each permutation has to compute again, such as average
        precision (12 ms for 2,672 images of 100 boxes), get that, and at least 200; all others 40 per model, and at
        least 1,000. The number is doubled as models are added, so that tests are seldom repeated.
        """
        scored = self._scored(predictions, metric)
        assert scored is not None
        is_costly = _is_costly(scored.examples, base_score(scored.examples, score))
        number, each = (200, 20) if is_costly else (1000, 40)
        while number < each * models:
            number *= 2
        return number

    def _test(self, best: str, other: str, metric: str, score: str, category: str, permutations: int) -> float:
        try:
            one, two = self.pair(best, other, metric)
        except PredictionsError:
            return 1.0
        return p_value(one.examples, two.examples, score, category, permutations)

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
                membership=each.membership if name != score or not _is_costly(each, name) else None,
            )
            for each in pair
        ]
        found = differences(alone[0], alone[1])[name]
        found = found if name == score else found["macro"] | {"per_category": found["per_category"]}
        if get_spec(metric).is_higher_better(score):
            return found
        return found | {"wins": found["losses"], "losses": found["wins"]}
