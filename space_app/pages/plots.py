"""Plotly figures for light and dark pages.

Plotly interprets tags, so untrusted texts are escaped. The colours (blue, vermilion, green and purple of Okabe and Ito,
and a violet) can be told apart without colour vision and have a contrast of 3 to white and to black; models also differ
by symbol, dash or pattern.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ...metrics.common.errors import ScoresError
from ...metrics.evaluation import words
from ...metrics.records.predictions import Predictions
from ...metrics.records.schema import MatchingRow
from ..board.board import Board
from ..board.entries import Column, Entry

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A55AFF")
MOST = len(PALETTE)
_SYMBOLS = ("circle", "square", "diamond", "x", "triangle-up")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_PATTERNS = ("", "/", "x", ".", "-")
_LONGEST = 40
_AXIS = 34
_BINS = 30
_RECOGNITION = ("ImageNet", "CIFAR100", "CIFAR10")


def radar(entries: Sequence[Entry], *, dark: bool = False) -> go.Figure:
    """A radar chart of two to five models over at least three categories.

    Args:
        entries: of one score, by category; the score over all is left out, and missing categories are gaps.
        dark: for a dark page.

    Raises:
        ScoresError: another number of models, fewer than three categories, or entries of several scores.
    """
    column, models, skills = _by_category(entries, fewest=2)
    if len(skills) < 3:
        raise ScoresError(f"{column.heading} has {len(skills)} categories; a radar chart needs three or more")
    figure = go.Figure()
    for number, (model, values) in enumerate(models.items()):
        points = [100 * values[skill].value if skill in values else None for skill in skills]
        figure.add_scatterpolar(
            name=_text(model),
            r=[*points, points[0]],
            theta=[_label(skill).replace(" ", "<br>") for skill in (*skills, skills[0])],
            mode="lines+markers",
            line={"color": PALETTE[number], "dash": _DASHES[number]},
            marker={"symbol": _SYMBOLS[number], "size": 8},
            hovertemplate="%{theta}: %{r:.1f} %",
        )
    # The axis lies between two spokes, away from their labels.
    angle = 90 - 180 / len(skills)
    axis = {"range": [0, 100], "tickvals": [25, 50, 75, 100], "angle": angle, "tickangle": angle}
    polar = {"radialaxis": axis, "angularaxis": {"direction": "clockwise"}, "bgcolor": "rgba(0,0,0,0)"}
    title = f"{column.heading}, %, by category"
    return _finish(figure, title, dark).update_layout(polar=polar, margin={"l": 70, "r": 70})


def bars(entries: Sequence[Entry], *, dark: bool = False) -> go.Figure:
    """A group of bars for each category, one for each of up to five models, with their intervals.

    Args:
        entries: of one score, by category; the score over all comes last.
        dark: for a dark page.

    Raises:
        ScoresError: no model, more than five, or entries of several scores.
    """
    column, models, skills = _by_category(entries, whole=True)
    figure = go.Figure()
    for number, (model, values) in enumerate(models.items()):
        shown = [values[skill] for skill in skills if skill in values]
        figure.add_bar(
            name=_text(model),
            x=[_label(entry.category) for entry in shown],
            y=[100 * entry.value for entry in shown],
            error_y=_errors(shown),
            marker=_fill(number),
            customdata=[["" if entry.n is None else f"n = {entry.n:,}"] for entry in shown],
            hovertemplate="%{x}: %{y:.1f} % %{customdata[0]}",
        )
    figure.update_xaxes(title="category", categoryorder="array", categoryarray=[_label(skill) for skill in skills])
    figure.update_yaxes(title=_wrapped(f"{column.heading}, %"), range=[0, 102])
    return _finish(figure, f"{column.heading} by category", dark).update_layout(barmode="group")


def scatter(across: Sequence[Entry], up: Sequence[Entry], *, dark: bool = False) -> go.Figure:
    """A point for each model that has both scores, such as accuracy and brittleness, with their intervals.

    Only values of the same origin are paired, never a paper's value with a recomputed one; the symbol shows the origin.

    Args:
        across, up: entries of one score each, as ``Board.entries`` returns them.
        dark: for a dark page.

    Raises:
        ScoresError: no model has both, or entries of several scores.
    """
    first, second = _one_score(across), _one_score(up)
    others = {(entry.model, entry.origin): entry for entry in up}
    pairs = [(entry, others[entry.model, entry.origin]) for entry in across if (entry.model, entry.origin) in others]
    if not pairs:
        raise ScoresError(
            f"no model has both {first.heading} and {second.heading}; choose two scores of the same models"
        )
    figure = go.Figure()
    for number, origin in enumerate(dict.fromkeys(x.origin for x, _ in pairs)):
        shown = [(x, y) for x, y in pairs if x.origin == origin]
        figure.add_scatter(
            name=origin,
            x=[100 * x.value for x, _ in shown],
            y=[100 * y.value for _, y in shown],
            error_x=_errors([x for x, _ in shown]),
            error_y=_errors([y for _, y in shown]),
            mode="markers",
            marker={"color": PALETTE[number], "symbol": _SYMBOLS[number], "size": 10},
            text=[_text(x.model) for x, _ in shown],
            hovertemplate="%{text}<br>%{x:.1f} %, %{y:.1f} %",
        )
    figure.update_xaxes(title=_wrapped(f"{first.heading}, %"))
    figure.update_yaxes(title=_wrapped(f"{second.heading}, %"))
    return _finish(figure, f"{second.heading} against {first.heading}", dark)


def ready_pairs(board: Board) -> dict[str, tuple[str, str]]:
    """Pairs of scores to show first: headings (across, up) by title, of the pairs that most models have."""
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
        for column in {column for both in pairs.values() for pair in both for column in pair}
    }
    found = {}
    for name, both in pairs.items():
        across, up = max(both, key=lambda pair: len(models[pair[0]] & models[pair[1]]), default=(None, None))
        if across and up and models[across] & models[up]:
            found[name or f"{words(across.score)} against {words(up.score)}"] = across.heading, up.heading
    return found


def gap_histogram(predictions: Predictions, *, dark: bool = False) -> go.Figure:
    """The score of the positive caption minus that of the best other one, over the examples of a matching task.

    An example counts once for each image. The model is wrong left of zero. Gaps of two models are not comparable, since
    scores have no common unit. The outer bins contain the values beyond the lowest and highest half per cent.

    Raises:
        ScoresError: the predictions are of another type, or have no scores.
    """
    gaps = _gaps(predictions)
    reach = float(np.abs(np.quantile(gaps, [0.005, 0.995])).max()) or 1.0
    edges = reach * np.arange(_BINS + 1) / _BINS
    centres = (edges[:-1] + edges[1:]) / 2
    sides = {"right": (gaps[gaps > 0], 1), "wrong, or a tie": (-gaps[gaps <= 0], -1)}
    figure = go.Figure()
    for number, (name, (sizes, sign)) in enumerate(sides.items()):
        figure.add_bar(
            name=name,
            x=(sign * centres).tolist(),
            y=np.histogram(np.minimum(sizes, reach), edges)[0].tolist(),
            width=reach / _BINS,
            marker=_fill(number),
            hovertemplate="%{y} examples at %{x:.3g}",
        )
    figure.update_xaxes(title=_wrapped("score of the positive caption minus that of the best other one"))
    figure.update_yaxes(title="examples")
    share = 100 * float((gaps > 0).mean())
    title = f"{predictions.model} on {predictions.benchmark} ({predictions.task}): {share:.1f} % above zero"
    return _finish(figure, title, dark).update_layout(barmode="overlay", bargap=0)


def _gaps(predictions: Predictions) -> np.ndarray:
    if predictions.task_type != MatchingRow.task_type:
        raise ScoresError(
            f"the predictions are of the type {predictions.task_type}; only those of the type matching have score gaps"
        )
    gaps = [
        scores[right] - max(other for number, other in enumerate(scores) if number != right)
        for row in predictions.rows
        if isinstance(row, MatchingRow) and row.scores
        for scores, right in zip(row.scores, row.correct, strict=True)
        if len(scores) > 1
    ]
    if not gaps:
        raise ScoresError("no example has scores of two captions; the images were missing")
    # Finite scores may have an infinite difference.
    return np.clip(np.array(gaps), -1e300, 1e300)


def _by_category(
    entries: Sequence[Entry], fewest: int = 1, whole: bool = False
) -> tuple[Column, dict[str, dict[str, Entry]], list[str]]:
    """The score, its entries by model and category, and the categories, "" last.

    A model of two origins counts as two models.
    """
    column = _one_score(entries)
    found: dict[tuple[str, str], dict[str, Entry]] = {}
    for entry in entries:
        if entry.category or whole:
            found.setdefault((entry.model, entry.origin), {})[entry.category] = entry
    names = Counter(model for model, _ in found)
    models = {model if names[model] == 1 else f"{model} ({origin})": some for (model, origin), some in found.items()}
    if not fewest <= len(models) <= MOST:
        raise ScoresError(f"got {len(models)} models; choose {fewest} to {MOST}")
    skills = dict.fromkeys(skill for values in models.values() for skill in values)
    return column, models, sorted(skills, key=lambda skill: not skill)


def _one_score(entries: Sequence[Entry]) -> Column:
    """The score of all entries, with its category if they have one in common."""
    columns = {entry.column._replace(category="") for entry in entries}
    if len(columns) != 1:
        raise ScoresError(f"got entries of {len(columns)} scores; an axis shows one")
    [column] = columns
    categories = {entry.category for entry in entries}
    return column._replace(category=categories.pop()) if len(categories) == 1 else column


def _errors(entries: Sequence[Entry]) -> Mapping[str, Any]:
    """Plotly's error bars; None for entries without an interval."""
    up = [entry.interval and 100 * (entry.interval[1] - entry.value) for entry in entries]
    down = [entry.interval and 100 * (entry.value - entry.interval[0]) for entry in entries]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.5, "width": 4}


def _fill(number: int) -> Mapping[str, Any]:
    """Colour and pattern of the bars of one model or side."""
    return {"color": PALETTE[number], "pattern": {"shape": _PATTERNS[number], "fgcolor": "white"}}


def _label(category: str) -> str:
    return _text(category.replace("_", " ")) if category else "all"


def _text(text: str) -> str:
    """An escaped text, cut if it is long."""
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def _wrapped(text: str, most: int = _AXIS) -> str:
    """An escaped text in lines that fit on a phone."""
    kept = re.sub(" (?=[%↓])", "\N{NO-BREAK SPACE}", text)
    return "<br>".join(escape(line) for line in textwrap.wrap(kept, most))


def _finish(figure: go.Figure, title: str, dark: bool) -> go.Figure:
    return figure.update_layout(
        template="plotly_dark" if dark else "plotly_white",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        title={"text": _wrapped(title, _LONGEST), "font": {"size": 15}, "x": 0.02},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0},
        showlegend=True,
        margin={"t": 90, "r": 20},
    )
