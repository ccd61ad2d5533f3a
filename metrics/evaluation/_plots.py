"""The profile of models as a plot: a figure, a PNG, or an interactive page. A colour is one model in all panels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.figures import colours
from ..common.formatting import words
from ..records.results import Result
from ._details import MOST_CATEGORIES, is_share, label_tables
from ._tables import Line, lines, model_labels, variants, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Names stand upright where there are more.
_MOST_LEVEL_NAMES = 12
_WIDEST = 40.0
_PLOTLY_DASHES = {"dashed": "dash", "dotted": "dot"}


class Bar(NamedTuple):
    """A value with what its interval reaches below and above; NaN, of which nothing is drawn, where there is none."""

    value: float
    below: float
    above: float
    n: int
    tie_rate: float | None


@dataclass(frozen=True)
class Series:
    """The bars of one result by their names."""

    model: str
    variant: str
    bars: dict[str, Bar]


@dataclass(frozen=True)
class Panel:
    """One plot: a score by category, or the numbers of a table by label.

    Args:
        title: what it shows.
        axis: what its values are.
        is_percent: whether they are fractions in per cent.
        series: one for each result.
        levels: values to compare with, such as chance, by their names.
        by_category: whether the names of its bars are those of categories.
    """

    title: str
    axis: str
    is_percent: bool
    series: list[Series]
    levels: dict[str, float]
    by_category: bool = False

    @property
    def names(self) -> list[str]:
        """The names of all bars, in the order in which they first appear."""
        return list(dict.fromkeys(name for series in self.series for name in series.bars))


def panels(results: Sequence[Result]) -> list[Panel]:
    """The panels of a profile: for each task and metric its main score by category, then the metric's other tables."""
    groups: dict[tuple[str, str], list[_Named]] = {}
    for named in map(_Named, results, model_labels(results), variants(results)):
        groups.setdefault((_task(named.result), named.result.metric), []).append(named)
    found = []
    for group in groups.values():
        found.append(_score_panel(group, results))
        tables = dict.fromkeys(name for named in group for name in label_tables(named.result))
        found += [_table_panel(name, group) for name in tables]
    return found


def plot(results: Sequence[Result]) -> Figure:
    """The profile as a figure of matplotlib: a panel for each metric, a colour for each model."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = panels(results)
    colour = colours([series.model for panel in shown for series in panel.series])
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    width = max(map(_width, shown), default=7.0)
    heights = [max(map(_height, shown[row * columns : (row + 1) * columns])) for row in range(rows)]
    figure = Figure(figsize=(columns * width, sum(heights) + 0.4), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False, height_ratios=heights).ravel()
    for unused in every[len(shown) :]:
        unused.remove()
    for axes, panel in zip(every, shown, strict=False):
        _draw(axes, panel, colour)
    levels = dict.fromkeys(name for panel in shown for name in panel.levels)
    handles = [Patch(color=value, label=name) for name, value in colour.items()]
    handles += [Line2D([], [], color="black", linewidth=1, ls=_dash(name), label=name) for name in levels]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)
    return figure


def plot_html(results: Sequence[Result]) -> bytes:
    """The profile as one interactive page that needs no network; a click on a model's name hides it everywhere."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    shown = panels(results)
    colour = colours([series.model for panel in shown for series in panel.series])
    figure: Any = make_subplots(rows=len(shown), cols=1, subplot_titles=[panel.title for panel in shown])
    in_legend: set[str] = set()
    for row, panel in enumerate(shown, start=1):
        for series in panel.series:
            bars = list(series.bars.values())
            figure.add_trace(
                go.Bar(
                    name=series.model,
                    legendgroup=series.model,
                    showlegend=series.model not in in_legend,
                    marker_color=colour[series.model],
                    x=list(series.bars),
                    y=[bar.value for bar in bars],
                    error_y={
                        "type": "data",
                        "symmetric": False,
                        "array": [bar.above for bar in bars],
                        "arrayminus": [bar.below for bar in bars],
                    },
                    customdata=[[bar.n, bar.tie_rate] for bar in bars],
                    hovertemplate=f"{_hover(series)}%{{x}}: %{{y:.4g}}{' %' if panel.is_percent else ''}"
                    "<br>n = %{customdata[0]}, tie rate %{customdata[1]}<extra></extra>",
                ),
                row=row,
                col=1,
            )
            in_legend.add(series.model)
        for name, level in panel.levels.items():
            figure.add_hline(y=level, line_dash=_PLOTLY_DASHES[_dash(name)], annotation_text=name, row=row, col=1)
        limits = {"range": [0, 102]} if panel.is_percent else {}
        figure.update_yaxes(title=panel.axis, row=row, col=1, **limits)
    figure.update_layout(template="plotly_white", height=420 * len(shown), barmode="group")
    return figure.to_html(include_plotlyjs=True, full_html=True).encode()


class _Named(NamedTuple):
    """A result with what its model is called, and what distinguishes it from others of the model."""

    result: Result
    model: str
    variant: str


def _task(result: Result) -> str:
    return f"{result.benchmark['name']} ({result.benchmark['task']})"


def _score_panel(group: Sequence[_Named], results: Sequence[Result]) -> Panel:
    """The main score of the results of one task and metric, categories first."""
    first = group[0].result
    score = first.main_score
    series, blind = [], []
    order = category_names([named.result for named in group])
    for result, model, variant in group:
        every = {line.name: line for line in lines(result, results)}
        series.append(Series(model, variant, {name: _bar(every[name], score) for name in order if name in every}))
        blind.append(whole(list(every.values())).scores[score].blind)
    levels = {name: 100 * level for name, level in [("chance", first.chance.get(score))] if level is not None}
    known = [level for level in blind if level is not None]
    if known:
        levels["blind"] = 100 * (max if first.higher_is_better[score] else min)(known)
    lower = "" if first.higher_is_better[score] else " (lower is better)"
    title = f"{_task(first)}: {f'{first.spec.label} {words(score)}'.strip()}"
    return Panel(title, f"{words(score)}, %{lower}", True, series, levels, by_category=True)


def category_names(results: Sequence[Result]) -> list[str]:
    """The names of all lines of some results: categories in order of first appearance, then the averages."""
    every = [line for result in results for line in lines(result)]
    return list(dict.fromkeys(line.name for line in sorted(every, key=lambda line: line.is_average)))


def _table_panel(name: str, group: Sequence[_Named]) -> Panel:
    """The numbers of a table by category, then over all examples; of many categories over all examples alone."""
    chosen = [named for named in group if name in named.result.scores]
    shares = is_share(chosen[0].result.scores[name])
    series = [Series(model, variant, _table_bars(result, name, shares)) for result, model, variant in chosen]
    return Panel(
        f"{_task(chosen[0].result)}: {words(name)}", f"{words(name)}{', %' if shares else ''}", shares, series, {}
    )


def _table_bars(result: Result, name: str, shares: bool) -> dict[str, Bar]:
    scale = 100 if shares else 1
    categories = result.scores.get("per_category", {})
    parts = {"": result.scores}
    if 1 < len(categories) <= MOST_CATEGORIES:
        parts = {**{f"{category}: ": part for category, part in categories.items()}, "all: ": result.scores}
    bars = {}
    for place, part in parts.items():
        bounds = part.get(f"{name}_interval", {})
        for label, value in part[name].items():
            low, high = bounds.get(label) or (value, value)
            below, above = _above_zero(scale * (value - low)), _above_zero(scale * (high - value))
            bars[f"{place}{label}"] = Bar(scale * value, below, above, part["n"], part.get("tie_rate"))
    return bars


def _bar(line: Line, name: str) -> Bar:
    score = line.scores[name]
    value = math.nan if score.value is None else 100 * score.value
    low, high = (100 * bound for bound in score.interval) if score.interval else (value, value)
    return Bar(value, _above_zero(value - low), _above_zero(high - value), line.n, line.tie_rate)


def _above_zero(reach: float) -> float:
    """How far an interval reaches; nothing where it or the value is not known."""
    return max(reach, 0.0) if reach == reach else 0.0


def _draw(axes: Any, panel: Panel, colour: dict[str, str]) -> None:
    names = panel.names
    width = 0.8 / len(panel.series)
    for number, series in enumerate(panel.series):
        offset = (number - (len(panel.series) - 1) / 2) * width
        places = [names.index(name) + offset for name in series.bars]
        bars = list(series.bars.values())
        errors = [[bar.below for bar in bars], [bar.above for bar in bars]]
        values = [bar.value for bar in bars]
        axes.bar(places, values, width * 0.9, yerr=errors, capsize=3, color=colour[series.model])
    for name, level in panel.levels.items():
        axes.axhline(level, color="black", linewidth=1, linestyle=_dash(name))
    upright = len(names) > _MOST_LEVEL_NAMES
    broken = names if upright or not panel.by_category else [re.sub("[ _]", "\n", name) for name in names]
    axes.set_xticks(range(len(names)), broken)
    axes.tick_params(axis="x", rotation=90 if upright else 0)
    # A single bar does not fill its panel.
    axes.set(xlim=(-0.6, max(len(names), 4) - 0.4), ylabel=panel.axis, title=panel.title)
    if panel.is_percent:
        axes.set_ylim(0, 102)
    axes.spines[["top", "right"]].set_visible(False)


def _width(panel: Panel) -> float:
    """The width of a panel in inches."""
    names = len(panel.names)
    each = 1.1 if names <= _MOST_LEVEL_NAMES else 0.3
    return min(max(7.0, each * names + 2), _WIDEST)


def _height(panel: Panel) -> float:
    """The height of a panel in inches."""
    return 4.2 if len(panel.names) <= _MOST_LEVEL_NAMES else 4.2 + 0.06 * max(map(len, panel.names))


def _dash(level: str) -> str:
    """The style of the line of a level: dashes for chance, dots for what is known of these examples."""
    return "dashed" if level == "chance" else "dotted"


def _hover(series: Series) -> str:
    from html import escape

    return escape(f"{series.model}{f' ({series.variant})' if series.variant else ''}") + "<br>"
