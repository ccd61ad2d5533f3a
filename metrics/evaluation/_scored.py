"""The examples of models for paired tests: those that two have in common, and how many permutations a test takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..estimation.estimators import OfTotals
from ..estimation.spec import Examples
from ..records.schema import Row


@dataclass(frozen=True)
class Scored:
    """The examples of a model, and what identifies each; see `example_ids`."""

    ids: list[tuple[str, str]]
    examples: Examples

    @cached_property
    def index(self) -> dict[tuple[str, str], int]:
        """The place of each example by what identifies it."""
        return {id: place for place, id in enumerate(self.ids)}

    def select(self, ids: list[tuple[str, str]]) -> Scored:
        """Some of the examples, in this order."""
        places = np.array([self.index[id] for id in ids], dtype=np.intp)
        return Scored(ids, self.examples.select(places, with_categories=True))


def example_ids(rows: Sequence[Row], examples: Examples) -> list[tuple[str, str]]:
    """For each example the id of its row, and the name of its part of the row, such as a phrase; else ""."""
    names = [""] * len(examples) if examples.names is None else examples.names
    return [(rows[row].id, name) for row, name in zip(examples.rows.tolist(), names, strict=True)]


def common(one: Scored, two: Scored) -> tuple[Scored, Scored] | None:
    """The examples that two models have in common, in one order; None if there are none."""
    if one.ids == two.ids:
        return one, two
    ids = [id for id in one.ids if id in two.index]
    return (one.select(ids), two.select(ids)) if ids else None


def base_score(examples: Examples, score: str) -> str:
    """The score that is averaged in a macro average, or the score itself."""
    return score if score in examples.scores else score.removeprefix("macro_")


def is_costly(examples: Examples, score: str) -> bool:
    """Return whether each resample has to compute the score again."""
    return score not in examples.values and not isinstance(examples.estimator(score), OfTotals)


def permutations(examples: Examples, score: str, models: int) -> int:
    """The number of permutations, enough for the smallest p-value to be significant after Holm's correction.

    The smallest p-value is 1 / (permutations + 1). Times the number of models it has to stay below 5 %, for which 20
    permutations per model are enough. Scores that each permutation has to compute again, such as average precision
    (12 ms for 2,672 images of 100 boxes), get that, and at least 200; all others 40 per model, and at least 1,000. The
    number is doubled as models are added, so that tests are seldom repeated.
    """
    number, each = (200, 20) if is_costly(examples, base_score(examples, score)) else (1000, 40)
    while number < each * models:
        number *= 2
    return number
