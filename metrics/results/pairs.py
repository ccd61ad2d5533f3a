"""Paired tests of models: the examples that two models share, p-values, and the best of several models.

Comparisons, reports and the leaderboard all decide significance here, so that a difference always has the same p-value.
The p-value of a category is corrected for the number of categories of the score (Holm).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..estimation.differences import MOST_WEIGHTED_DRAWS, p_value
from ..estimation.estimators import OfTotals
from ..estimation.paired import PERMUTATIONS, holm
from ..estimation.spec import Examples
from ..records.schema import Row

LEVEL = 0.05


@dataclass(frozen=True)
class Scored:
    """The examples of a model with an id for each; see `example_ids`."""

    ids: list[tuple[str, str]]
    examples: Examples

    @cached_property
    def index(self) -> dict[tuple[str, str], int]:
        """The index of each example by its id."""
        return {id: position for position, id in enumerate(self.ids)}

    def select(self, ids: list[tuple[str, str]]) -> Scored:
        """Return the examples with these ids, in this order."""
        positions = np.array([self.index[id] for id in ids], dtype=np.intp)
        return Scored(ids, self.examples.select(positions, with_categories=True))


def example_ids(rows: Sequence[Row], examples: Examples) -> list[tuple[str, str]]:
    """Return for each example the id of its row and the name of its part of the row, such as a phrase, or ""."""
    names = [""] * len(examples) if examples.names is None else examples.names
    return [(rows[row].id, name) for row, name in zip(examples.rows.tolist(), names, strict=True)]


def common(one: Scored, two: Scored) -> tuple[Scored, Scored] | None:
    """Return the examples that two models share, in one order; None without any."""
    if one.ids == two.ids:
        return one, two
    ids = [id for id in one.ids if id in two.index]
    return (one.select(ids), two.select(ids)) if ids else None


def base_score(examples: Examples, score: str) -> str:
    """Return the score that a macro average averages, or the score itself."""
    return score if score in examples.scores else score.removeprefix("macro_")


def is_costly(examples: Examples, score: str) -> bool:
    """Return whether each resample has to compute the score again."""
    return score not in examples.values and not isinstance(examples.estimator(score), OfTotals)


def p_overall(one: Scored, two: Scored, score: str) -> float:
    """Return the p-value of two models' difference in a score, or its macro average, on their common examples.

    It comes from ``differences.p_value``, and ``compare`` prints the same by default; 1 without common examples.
    """
    pair = common(one, two)
    return 1.0 if pair is None else _p_value(*pair, score, "")


def p_by_category(one: Scored, two: Scored, score: str) -> dict[str, float]:
    """Return the p-value of two models' difference in a score by category, corrected for their number (Holm)."""
    pair = common(one, two)
    categories = list(pair[0].examples.categories) if pair else []
    corrected = holm([_p_value(*pair, score, category) for category in categories] if pair else [])
    return dict(zip(categories, corrected.tolist(), strict=True))


def _p_value(one: Scored, two: Scored, score: str, category: str) -> float:
    first, second = one.examples, two.examples
    draws = MOST_WEIGHTED_DRAWS if is_costly(first, base_score(first, score)) else PERMUTATIONS
    return p_value(first, second, score, category, draws)


def best_models(
    values: Mapping[str, float], higher_is_better: bool, p: Callable[[str, str], float], level: float = LEVEL
) -> tuple[list[str], list[str]]:
    """Return the best models of a score, and those that do not differ significantly from one of them.

    Args:
        values: the score by model.
        higher_is_better: its direction.
        p: the p-value of the difference of two models.
        level: the level of the tests.
    """
    if not values:
        return [], []
    top = (max if higher_is_better else min)(values.values())
    best = [name for name, value in values.items() if value == top]
    rest = [name for name in values if name not in best]
    return best, [name for name in rest if any(p(first, name) > level for first in best)]
