"""The diagnosis of a detector as a person holds it: conditions of its average precision, as tables and as a curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.figures import colours
from ..common.formatting import interval, points, words
from ._details import interval_cell, percent_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Measure:
    """A score under one condition.

    Args:
        name: the condition.
        value: the score, a fraction; higher is better.
        interval: [low, high]; None where resamples do not spread, or there are none.
        basis: the condition that it is compared with; empty where it is itself such a basis.
        change: its value less that of the basis, and `change_interval`.
    """

    name: str
    value: float
    interval: list[float] | None
    basis: str = ""
    change: float | None = None
    change_interval: list[float] | None = None


@dataclass(frozen=True)
class CurvePoint:
    """AP where negative rows count so often that there are `negatives_per_positive`."""

    negatives_per_positive: float
    value: float
    interval: list[float] | None


@dataclass(frozen=True)
class Diagnosis:
    """What decides the average precision of a detector; see `diagnose`.

    Args:
        score: what AP is called by its metric.
        precision: AP under several conditions, as predicted first.
        recall: how often the most confident box of a phrase is right; empty where the predictions declare no such
            metric.
        curve: AP by the number of negative rows for each positive one.
        n_positive, n_negative: rows.
        has_absent_phrases: whether positive rows have phrases without ground truth. Without them both oracles are
            the same as the positive rows alone.
        options: confidence, resamples and seed.
    """

    metric: str
    score: str
    precision: list[Measure]
    recall: list[Measure]
    curve: list[CurvePoint]
    n_positive: int
    n_negative: int
    has_absent_phrases: bool
    options: dict[str, Any]

    def table(self, label: str) -> Table:
        """The measures as a table, under what they are about."""
        rows = [
            TableRow(each.name, (Cell(percent_cell(each.value), (interval_cell(each.interval),)), _change_cell(each)))
            for each in (*self.precision, *self.recall)
        ]
        columns = (Column("value", (INTERVAL,)), Column("change", (INTERVAL,)))
        return Table(f"{label}: diagnosis of {words(self.score)}", columns, tuple(rows), self._note())

    def curve_table(self) -> Table:
        """AP by the number of negatives, as a table."""
        rows = [
            TableRow(
                f"{point.negatives_per_positive:g}",
                (Cell(percent_cell(point.value), (interval_cell(point.interval),)),),
            )
            for point in self.curve
        ]
        return Table(
            "by negative rows for each positive row",
            (Column(words(self.score), (INTERVAL,)),),
            tuple(rows),
            is_part=True,
        )

    def plot(self) -> Figure:
        """AP against the number of negatives for each positive row, with its intervals."""
        return plot_curves({"": self})

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)

    def _note(self) -> str:
        sentences = [
            f"{self.n_positive:,} positive and {self.n_negative:,} negative rows.",
            "Change: to the first row of the same score, in points.",
            "Without their boxes negative rows are in no precision and no recall, so that a perfect classifier of "
            "images gives the same as the positive rows alone.",
            "Ranks: every phrase has the same confidences, and the order of its boxes stays.",
        ]
        if self.options["confidence"] is not None:
            level = 100 * self.options["confidence"]
            sentences.append(f"Intervals: {level:g} %, {self.options['resamples']:,} resamples of images.")
        return " ".join(sentences)


def plot_curves(diagnoses: Mapping[str, Diagnosis]) -> Figure:
    """AP against the number of negatives for each positive row: a line for each label."""
    from matplotlib.figure import Figure

    colour = colours(list(diagnoses))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, diagnosis in diagnoses.items():
        places = [point.negatives_per_positive for point in diagnosis.curve]
        axes.plot(places, [100 * point.value for point in diagnosis.curve], "o-", color=colour[label], label=label)
        bounds = np.array([point.interval or (point.value, point.value) for point in diagnosis.curve])
        axes.fill_between(places, *(100 * bounds.T), color=colour[label], alpha=0.2, linewidth=0)
    names = dict.fromkeys(f"{words(each.score)}, %" for each in diagnoses.values())
    axes.set(xlabel="negative rows for each positive row", ylabel=" · ".join(names))
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if any(diagnoses):
        figure.legend(loc="outside lower center", ncols=min(len(diagnoses), 4), frameon=False)
    return figure


def _change_cell(measure: Measure) -> Cell:
    if measure.change is None:
        return Cell("", ("",))
    bounds = measure.change_interval
    return Cell(points(measure.change), ("" if bounds is None else interval(bounds, signed=True),))
