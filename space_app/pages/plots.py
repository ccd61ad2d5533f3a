"""Figures as HTML in the colours of the page; positions are in per cent, so that texts keep their size.

Names and values show on hover and tap. For screen readers each figure has a table or a sentence with the same numbers.
Models differ by colour and by shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from ...hub_datasets.core.benchmarks import get_task
from ...metrics.common.errors import ScoresError
from ...metrics.common.figures import COLOURS
from ...metrics.common.formatting import words
from ...metrics.records.predictions import Predictions
from ...metrics.records.schema import ROWS, MatchingRow
from ...metrics.results.errors.outcomes import matching_margin
from ..board.board import Board
from ..board.entries import REFERENCE, BoardColumn, BoardEntry
from .common import render

MOST = len(COLOURS)
_BINS = 30
_RECOGNITION = ("ImageNet", "CIFAR100", "CIFAR10")
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


def pairs_of(across: Sequence[BoardEntry], up: Sequence[BoardEntry]) -> list[tuple[BoardEntry, BoardEntry]]:
    """Return pairs of entries, of models with both scores of the same origin, published or recomputed."""
    by_model = {(entry.model, entry.origin): entry for entry in up}
    return [(x, by_model[x.model, x.origin]) for x in across if (x.model, x.origin) in by_model]


def kind(entry: BoardEntry) -> str:
    """Return the kind of an entry's point: its origin; baselines are references."""
    return REFERENCE if entry.is_reference else entry.origin


def scatter(pairs: Sequence[tuple[BoardEntry, BoardEntry]]) -> Markup:
    """Render a point for each model that has both scores, such as accuracy and brittleness, with their intervals.

    Args:
        pairs: of one score across and one up, see `pairs_of`.

    Raises:
        ScoresError: no model has both.
    """
    if not pairs:
        raise ScoresError("no model has both scores; choose two scores of the same models")
    first, second = (entry.column for entry in pairs[0])
    axes = [
        Axis.of([bound for entry in side for bound in (entry.value, *entry.bounds)])
        for side in zip(*pairs, strict=True)
    ]
    # The best models come last, above the others.
    pairs = sorted(pairs, key=lambda pair: (not pair[0].is_reference, pair[1].value))
    places = [[axis.at(entry.value) for axis, entry in zip(axes, pair, strict=True)] for pair in pairs]
    # References and the best and the worst of each score are named; all names show on hover and tap.
    ends = {
        function(range(len(pairs)), key=lambda n: pairs[n][side].value) for side in (0, 1) for function in (min, max)
    }
    points = [
        {
            "x": x,
            "y": y,
            "kind": kind(x),
            "sides": _sides(*places[number]),
            "is_named": kind(x) == REFERENCE or number in ends,
        }
        for number, (x, y) in enumerate(pairs)
    ]
    kinds = list(dict.fromkeys(point["kind"] for point in points[::-1]))
    return render("scatter.html", x=first, y=second, x_axis=axes[0], y_axis=axes[1], points=points, kinds=kinds)


def ready_pairs(board: Board) -> dict[str, tuple[str, str]]:
    """Return the pairs of scores to show first, those that most models have: headings (across, up) by title."""
    recognition = [column for name in _RECOGNITION for column in board.columns if column.benchmark == name]
    matching = [column for column in board.columns if column.task_type == "matching" and column.is_higher_better]
    failures = [column for column in board.columns if not column.is_higher_better]
    pairs = {
        # Of two metrics, because the scores of one metric depend on each other.
        "": [(x, y) for x in matching for y in failures if x[:2] == y[:2] and x.metric != y.metric],
        "recognition against composition": [(x, y) for x in recognition for y in matching],
    }
    models = {
        column: {(entry.model, entry.origin) for entry in board.entries(column)}
        for column in {column for candidates in pairs.values() for pair in candidates for column in pair}
    }
    headings = {}
    for name, candidates in pairs.items():
        across, up = max(candidates, key=lambda pair: len(models[pair[0]] & models[pair[1]]), default=(None, None))
        if across and up and models[across] & models[up]:
            headings[name or f"{words(across.score)} against {words(up.score)}"] = across.heading, up.heading
    return headings


def gap_histogram(predictions: Predictions) -> Markup:
    """Draw the distribution of score gaps over the examples of a matching task.

    A gap is the score of the worst positive caption minus the score of the best negative one.

    Each example counts once, with the smallest gap among its images and captions. The model is wrong left of zero. Gaps
    of two models are not comparable, since scores have no common unit. The outer bins contain the values beyond the
    lowest and highest half per cent.

    Raises:
        ScoresError: the predictions are of another type, or have no scores.
    """
    gaps = _gaps(predictions)
    reach = float(np.abs(np.quantile(gaps, [0.005, 0.995])).max()) or 1.0
    edges = reach * np.arange(_BINS + 1) / _BINS
    right = np.histogram(np.minimum(gaps[gaps > 0], reach), edges)[0].tolist()
    wrong = np.histogram(np.minimum(-gaps[gaps <= 0], reach), edges)[0].tolist()
    return render(
        "gaps.html",
        predictions=predictions,
        right=right,
        wrong=wrong,
        most=max(right + wrong),
        reach=reach,
        width=reach / _BINS,
        share=float((gaps > 0).mean()),
        ties=int((gaps == 0).sum()),
        n=len(gaps),
    )


def _gaps(predictions: Predictions) -> np.ndarray:
    if not issubclass(ROWS[predictions.task_type], MatchingRow):
        raise ScoresError(
            f"the predictions are of the type {predictions.task_type}; only those of the types matching and "
            "text_similarity have score gaps"
        )
    task = get_task(predictions.benchmark, predictions.task)
    positives = task.positives or 1 if task.task_type == "matching" else 1
    gaps = [
        matching_margin(row, positives)
        for row in predictions.rows
        if isinstance(row, MatchingRow) and row.scores and len(row.scores[0]) > 1
    ]
    if not gaps:
        raise ScoresError("no example has scores of two captions; the images were missing")
    # Finite scores may have an infinite difference.
    return np.clip(np.array(gaps), -1e300, 1e300)


def _sides(x: float, y: float) -> str:
    """Return the side on which the name of a point is printed: away from the edges."""
    return f"{'left' if x > 50 else 'right'} {'below' if y > 75 else 'above'}"
