"""The profile of models as a figure, or as parts of a page: a panel for each metric, a colour for each model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.documents import Fold, HtmlFigure, Part
from ..common.figures import Bar, bars_html, colours, dark, legend_html
from ..common.formatting import MISSING, words
from ..records.results import Result
from .scores import CATEGORIES, MOST_CATEGORIES, ScoreRow, by_result, task_of
from .tables import label_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With more names than this they are rotated.
_MOST_LEVEL_NAMES = 12
_WIDEST = 40.0
_LEGEND_COLUMNS = 6


class ScoreBar(NamedTuple):
    """A value (NaN if unknown) with the ends of its interval, further facts as text, and the blind level."""

    value: float
    low: float
    high: float
    facts: str
    blind: float | None


@dataclass(frozen=True)
class Series:
    """The bars of one result by their names."""

    model: str
    variant: str
    bars: dict[str, ScoreBar]


@dataclass(frozen=True)
class Panel:
    """One panel: a score by category, or the numbers of a table by label.

    Args:
        title: the heading.
        axis: the label of the value axis.
        is_percent: whether values are in per cent.
        series: one for each result.
        levels: reference lines of all names, such as chance, by their own names.
        by_category: whether the bars are categories.
        higher_is_better: the direction.
    """

    title: str
    axis: str
    is_percent: bool
    series: list[Series]
    levels: dict[str, float]
    by_category: bool = False
    higher_is_better: bool = True

    @property
    def names(self) -> list[str]:
        """The names of all bars, in order of first appearance."""
        return list(dict.fromkeys(name for series in self.series for name in series.bars))

    def levels_of(self, name: str) -> dict[str, float]:
        """Return the reference lines of one name: the blind level differs between categories."""
        bars = [series.bars[name] for series in self.series if name in series.bars]
        blind = [bar.blind for bar in bars if bar.blind is not None]
        return self.levels | ({"blind": (max if self.higher_is_better else min)(blind)} if blind else {})

    @property
    def level_names(self) -> list[str]:
        """The names of all reference lines."""
        return [level for name in self.names for level in self.levels_of(name)]


def panels(rows: Sequence[ScoreRow]) -> list[Panel]:
    """Return for each task and metric its main score by category, then the metric's tables of numbers by label."""
    groups: dict[tuple[str, ...], list[list[ScoreRow]]] = {}
    for result_rows in by_result(rows):
        result = result_rows[0].result
        groups.setdefault((*task_of(result), result.metric), []).append([row for row in result_rows if row.is_main])
    made = []
    for group in groups.values():
        made.append(_score_panel(group))
        names = dict.fromkeys(name for result_rows in group for name in label_tables(result_rows[0].result))
        made += [_table_panel(name, group) for name in names]
    return made


def plot(rows: Sequence[ScoreRow], is_dark: bool = False) -> Figure:
    """Plot the profile with matplotlib, for a white or for a dark page."""
    from matplotlib import rc_context

    with rc_context(dark() if is_dark else {}):
        return _plot(panels(rows))


def _plot(shown: Sequence[Panel]) -> Figure:
    from matplotlib import rcParams
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colour = colours([series.model for panel in shown for series in panel.series])
    columns = 1 if len(shown) == 1 else 2
    count = -(-len(shown) // columns)
    sizes = [_size(panel) for panel in shown]
    width = max((width for width, _, _ in sizes), default=7.0)
    heights = [max(height for _, height, _ in sizes[row * columns : (row + 1) * columns]) for row in range(count)]
    strip = 0.2 + 0.25 * -(-(len(colour) + 2) // _LEGEND_COLUMNS)
    # Axes are placed in inches: matplotlib's own layouts draw every label once more to measure it.
    whole = (columns * width, sum(heights) + strip)
    figure = Figure(figsize=whole)
    for number, (panel, (_, _, below)) in enumerate(zip(shown, sizes, strict=True)):
        row, column = divmod(number, columns)
        box = (column * width + 0.8, strip + sum(heights[row + 1 :]) + below, width - 1, heights[row] - below - 0.4)
        left, bottom, wide, high = (length / whole[index % 2] for index, length in enumerate(box))
        _draw(figure.add_axes((left, bottom, wide, high)), panel, colour)
    levels = dict.fromkeys(level for panel in shown for level in panel.level_names)
    handles = [Patch(color=value, label=name) for name, value in colour.items()]
    ink = rcParams["text.color"]
    handles += [Line2D([], [], color=ink, linewidth=1, ls=_dash(name), label=name) for name in levels]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), _LEGEND_COLUMNS), frameon=False)
    return figure


def plot_html(rows: Sequence[ScoreRow]) -> list[Part]:
    """Return the profile for a page: a legend, a figure for each score, and tables of numbers folded."""
    shown = panels(rows)
    colour = colours([series.model for panel in shown for series in panel.series])
    levels = dict.fromkeys(level for panel in shown for level in panel.level_names)
    parts: list[Part] = [HtmlFigure(legend_html(colour, levels))]
    for panel in shown:
        values = [bar.value for series in panel.series for bar in series.bars.values() if bar.value == bar.value]
        limits = (0.0, 100.0)
        if not panel.is_percent:
            limits = (min([0.0, *values]), max([0.0, *values])) if values else (0.0, 1.0)
        bars = {
            name: [
                _page_bar(series, name, colour[series.model], panel) for series in panel.series if name in series.bars
            ]
            for name in panel.names
        }
        html = bars_html(bars, limits, {name: panel.levels_of(name) for name in bars})
        if panel.by_category:
            parts.append(HtmlFigure(html, panel.title, "" if panel.higher_is_better else "Lower is better."))
        else:
            parts.append(Fold(panel.title, (HtmlFigure(html),)))
    return parts


def _page_bar(series: Series, name: str, colour: str, panel: Panel) -> Bar:
    value, low, high, facts, _ = series.bars[name]
    unit, digits = (" %", ".1f") if panel.is_percent else ("", ".4g")
    text = MISSING if value != value else f"{value:{digits}}{unit}"
    model = f"{series.model} ({series.variant})" if series.variant else series.model
    bounds = f" [{low:{digits}} – {high:{digits}}]" if low < high else ""
    return Bar(colour, value, low, high, text, f"{model}, {name}: {text}{bounds}{facts}")


def _score_panel(group: Sequence[Sequence[ScoreRow]]) -> Panel:
    """Return the main score of the results of one task and metric: categories by first appearance, then averages."""
    first = group[0][0]
    every = sorted((row for rows in group for row in rows), key=lambda row: row.is_average)
    order = list(dict.fromkeys(row.category for row in every))
    series = []
    for rows in group:
        bars = {}
        for row in sorted(rows, key=lambda row: order.index(row.category)):
            value = math.nan if row.value is None else row.value
            bars[row.category] = _bar(value, row.interval, 100, row.n, row.tie_rate, row.blind)
        series.append(Series(rows[0].model, rows[0].variant, bars))
    score = words(first.score)
    levels = {} if first.chance is None else {"chance": 100 * first.chance}
    lower = "" if first.higher_is_better else " (lower is better)"
    title = f"{_task(first.result)}: {f'{first.result.spec.label} {score}'.strip()}"
    return Panel(title, f"{score}, %{lower}", True, series, levels, True, first.higher_is_better)


def _task(result: Result) -> str:
    return "{} ({})".format(*task_of(result))


def _table_panel(name: str, group: Sequence[Sequence[ScoreRow]]) -> Panel:
    """Return the numbers of a table by category and over all examples; with many categories over all examples only."""
    with_table = [rows[0] for rows in group if name in label_tables(rows[0].result)]
    result = with_table[0].result
    is_share = label_tables(result)[name]
    series = [
        Series(row.model, row.variant, _table_bars(row.result, name, 100 if is_share else 1)) for row in with_table
    ]
    return Panel(f"{_task(result)}: {words(name)}", f"{words(name)}{', %' if is_share else ''}", is_share, series, {})


def _table_bars(result: Result, name: str, scale: float) -> dict[str, ScoreBar]:
    categories = result.scores.get(CATEGORIES, {})
    prefixed = {"": result.scores}
    if 1 < len(categories) <= MOST_CATEGORIES:
        prefixed = {**{f"{category}: ": scores for category, scores in categories.items()}, "all: ": result.scores}
    return {
        f"{prefix}{label}": _bar(
            value, scores.get(f"{name}_interval", {}).get(label), scale, scores["n"], scores.get("tie_rate")
        )
        for prefix, scores in prefixed.items()
        for label, value in scores[name].items()
    }


def _bar(
    value: float,
    bounds: Sequence[float] | None,
    scale: float,
    n: int,
    tie_rate: float | None,
    blind: float | None = None,
) -> ScoreBar:
    low, high = bounds or (value, value)
    # NaN compares false, so that nothing is drawn for an unknown bound.
    below, above = (scale * reach if reach > 0 else 0.0 for reach in (value - low, high - value))
    blind = None if blind is None else 100 * blind
    facts = "" if blind is None else f", blind {blind:.1f} %"
    facts += f", n {n:,}" + ("" if tie_rate is None else f", ties {100 * tie_rate:.1f} %")
    return ScoreBar(scale * value, scale * value - below, scale * value + above, facts, blind)


def _draw(axes: Any, panel: Panel, colour: dict[str, str]) -> None:
    from matplotlib import rcParams

    ink = rcParams["text.color"]
    names = panel.names
    width = 0.8 / len(panel.series)
    for number, series in enumerate(panel.series):
        offset = (number - (len(panel.series) - 1) / 2) * width
        x = [names.index(name) + offset for name in series.bars]
        bars = list(series.bars.values())
        errors = [[bar.value - bar.low for bar in bars], [bar.high - bar.value for bar in bars]]
        heights = [bar.value for bar in bars]
        axes.bar(x, heights, width * 0.9, yerr=errors, capsize=3, ecolor=ink, color=colour[series.model])
    for level, value in panel.levels.items():
        axes.axhline(value, color=ink, linewidth=1, linestyle=_dash(level))
    for index, name in enumerate(names):
        blind = panel.levels_of(name).get("blind")
        if blind is not None:
            axes.hlines(blind, index - 0.45, index + 0.45, color=ink, linewidth=1, linestyle=_dash("blind"))
    axes.set_xticks(range(len(names)), _names(panel))
    axes.tick_params(axis="x", rotation=90 if len(names) > _MOST_LEVEL_NAMES else 0)
    # A single bar does not fill its panel.
    axes.set(xlim=(-0.6, max(len(names), 4) - 0.4), ylabel=panel.axis, title=panel.title)
    if panel.is_percent:
        axes.set_ylim(0, 102)
    axes.spines[["top", "right"]].set_visible(False)


def _size(panel: Panel) -> tuple[float, float, float]:
    """Return the width and height of a panel, and the room for the names below it, in inches."""
    names = _names(panel)
    if len(names) > _MOST_LEVEL_NAMES:
        below = 0.25 + 0.085 * max(map(len, names))
        return min(max(7.0, 0.3 * len(names) + 2), _WIDEST), 3.6 + below, below
    return max(7.0, 1.1 * len(names) + 2), 4.2, 0.25 + 0.17 * max(name.count("\n") + 1 for name in names)


def _names(panel: Panel) -> list[str]:
    """Return the names of a panel's bars; with few categories their words stand below each other."""
    if len(panel.names) > _MOST_LEVEL_NAMES or not panel.by_category:
        return panel.names
    return [re.sub("[ _]", "\n", name) for name in panel.names]


def _dash(level: str) -> str:
    """Return the line style of a level: dashed for chance, dotted for others."""
    return "dashed" if level == "chance" else "dotted"
