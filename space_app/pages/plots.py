"""The figure of models by category, as HTML; positions are in per cent, so that texts keep their size.

Models differ by colour and by shape. The figure is a table with the same numbers, for screen readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

from markupsafe import Markup

from ...metrics.common.figures import COLOURS
from ...metrics.common.formatting import words
from ..board.entries import BoardColumn, BoardEntry
from .common import render

MOST = len(COLOURS)
_MOST_TICKS = 6


class Axis(NamedTuple):
    """A range of values, with the values to mark in it."""

    low: float
    high: float
    ticks: list[float]

    def at(self, value: float) -> float:
        """Return the position of a value in per cent of the axis, clipped to its range."""
        return round(100 * min(max((value - self.low) / (self.high - self.low), 0), 1), 2)

    @classmethod
    def of(cls, values: Sequence[float]) -> Axis:
        """Return an axis for some fractions, with a margin and ticks at round numbers of per cent."""
        low, high = min(values), max(values)
        margin = max(0.06 * (high - low), 0.02)
        if low < 0:  # differences
            low, high = low - margin, high + margin
        else:
            low, high = max(low - margin, 0), min(high + margin, 1)
        step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / step <= _MOST_TICKS)
        return cls(low, high, [number * step for number in range(ceil(low / step), floor(high / step) + 1)])


def profile(column: BoardColumn, entries: Sequence[BoardEntry]) -> Markup:
    """Render a row for each category with values and intervals of up to five models; the overall score comes last.

    Args:
        column: the score.
        entries: its values by category, at least one. A model of two origins counts as two models.
    """
    models: dict[tuple[str, str], dict[str, BoardEntry]] = {}
    for entry in entries:
        models.setdefault((entry.model, entry.origin), {})[entry.category] = entry
    often = Counter(model for model, _ in models)
    names = [model if often[model] == 1 else f"{model} ({origin})" for model, origin in models]
    categories = sorted(dict.fromkeys(entry.category for entry in entries), key=lambda category: not category)
    axis = Axis.of([bound for entry in entries for bound in (entry.value, *entry.bounds)])
    rows = [(words(category) or "all", [values.get(category) for values in models.values()]) for category in categories]
    return render("profile.html", column=column, names=names, axis=axis, rows=rows)
