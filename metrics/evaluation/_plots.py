"""The profile of models as a figure, or as parts of a page: a panel for each metric, a colour for each model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.documents import Fold, HtmlFigure, Part
from ..common.figures import Bar as PageBar
from ..common.figures import bars_html, colours, dark, legend_html
from ..common.formatting import MISSING, words
from ..records.results import Result
from ._tables import CATEGORIES, MOST_CATEGORIES, is_share, label_tables, lines, model_labels, variants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With more names than this they are rotated.
_MOST_LEVEL_NAMES = 12
_WIDEST = 40.0
_LEGEND_COLUMNS = 6


class Bar(NamedTuple):
    """A value, NaN where there is none, the ends of its interval, further facts as text, and the blind level."""

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
    bars: dict[str, Bar]


@dataclass(frozen=True)
class Panel:
    """One panel: a score by category, or the numbers of a table by label.

    Args:
        title: what it shows.
        axis: what its values are.
        is_percent: whether they are in per cent.
        series: one for each result.
        levels: reference lines of all names, such as chance, by their own names.
        by_category: whether the names of its bars are those of categories.
        is_higher_better: whether higher is better.
    """

    title: str
    axis: str
    is_percent: bool
    series: list[Series]
    levels: dict[str, float]
    by_category: bool = False
    is_higher_better: bool = True

    @property
    def names(self) -> list[str]:
        """The names of all bars, in order of first appearance."""
        return list(dict.fromkeys(name for series in self.series for name in series.bars))

    def levels_of(self, name: str) -> dict[str, float]:
        """The reference lines of one name: the blind level differs between categories."""
        blind = [bar.blind for each in self.series if (bar := each.bars.get(name)) and bar.blind is not None]
        return self.levels | ({"blind": (max if self.is_higher_better else min)(blind)} if blind else {})

    @property
    def level_names(self) -> list[str]:
        """The names of all reference lines."""
        return [level for name in self.names for level in self.levels_of(name)]


def panels(results: Sequence[Result]) -> list[Panel]:
    """For each task and metric its main score by category, then the metric's tables of numbers by label."""
    groups: dict[tuple[str, str], list[_Named]] = {}
    for named in map(_Named, results, model_labels(results), variants(results)):
        groups.setdefault((_task(named.result), named.result.metric), []).append(named)
    found = []
    for group in groups.values():
        found.append(_score_panel(group, results))
        tables = dict.fromkeys(name for named in group for name in label_tables(named.result))
        found += [_table_panel(name, group) for name in tables]
    return found


def plot(results: Sequence[Result], is_dark: bool = False) -> Figure:
    """The profile as a figure of matplotlib, for a white or for a dark page."""
    from matplotlib import rc_context

    with rc_context(dark() if is_dark else {}):
        return _plot(results)


def _plot(results: Sequence[Result]) -> Figure:
    from matplotlib import rcParams
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown = panels(results)
    colour = colours([series.model for panel in shown for series in panel.series])
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    sizes = [_size(panel) for panel in shown]
    width = max((width for width, _, _ in sizes), default=7.0)
    heights = [max(height for _, height, _ in sizes[row * columns : (row + 1) * columns]) for row in range(rows)]
    strip = 0.2 + 0.25 * -(-(len(colour) + 2) // _LEGEND_COLUMNS)
    # Places by the inch: matplotlib's own layouts draw every label once more to measure it.
    whole = (columns * width, sum(heights) + strip)
    figure = Figure(figsize=whole)
    for number, (panel, (_, _, below)) in enumerate(zip(shown, sizes, strict=True)):
        row, column = divmod(number, columns)
        box = (column * width + 0.8, strip + sum(heights[row + 1 :]) + below, width - 1, heights[row] - below - 0.4)
        left, bottom, wide, high = (part / whole[index % 2] for index, part in enumerate(box))
        axes = figure.add_axes((left, bottom, wide, high))
        _draw(axes, panel, colour)
    levels = dict.fromkeys(level for panel in shown for level in panel.level_names)
    handles = [Patch(color=value, label=name) for name, value in colour.items()]
    ink = rcParams["text.color"]
    handles += [Line2D([], [], color=ink, linewidth=1, ls=_dash(name), label=name) for name in levels]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), _LEGEND_COLUMNS), frameon=False)
    return figure


def plot_html(results: Sequence[Result]) -> list[Part]:
    """The profile for a page: a legend, a figure for each score, and those of tables of numbers folded."""
    shown = panels(results)
    colour = colours([series.model for panel in shown for series in panel.series])
    levels = dict.fromkeys(level for panel in shown for level in panel.level_names)
    parts: list[Part] = [HtmlFigure(legend_html(colour, levels))]
    for panel in shown:
        every = [bar for series in panel.series for bar in series.bars.values() if bar.value == bar.value]
        least, most = min((bar.value for bar in every), default=0.0), max((bar.value for bar in every), default=1.0)
        limits = (0.0, 100.0) if panel.is_percent else (min(least, 0.0), max(most, 0.0))
        bars = {
            name: [
                _page_bar(series, name, colour[series.model], panel) for series in panel.series if name in series.bars
            ]
            for name in panel.names
        }
        html = bars_html(bars, limits, {name: panel.levels_of(name) for name in bars})
        text = "Lower is better." if panel.by_category and not panel.is_higher_better else ""
        figure = HtmlFigure(html, panel.title if panel.by_category else "", text)
        parts.append(figure if panel.by_category else Fold(panel.title, (figure,)))
    return parts


def _page_bar(series: Series, name: str, colour: str, panel: Panel) -> PageBar:
    value, low, high, facts, _ = series.bars[name]
    unit, digits = (" %", ".1f") if panel.is_percent else ("", ".4g")
    text = MISSING if value != value else f"{value:{digits}}{unit}"
    model = f"{series.model} ({series.variant})" if series.variant else series.model
    bounds = f" [{low:{digits}} – {high:{digits}}]" if low < high else ""
    return PageBar(colour, value, low, high, text, f"{model}, {name}: {text}{bounds}{facts}")


class _Named(NamedTuple):
    """A result with the label of its model, and what distinguishes it from others of the model."""

    result: Result
    model: str
    variant: str


def _task(result: Result) -> str:
    return f"{result.benchmark['name']} ({result.benchmark['task']})"


def _score_panel(group: Sequence[_Named], results: Sequence[Result]) -> Panel:
    """The main score of the results of one task and metric, by category and on average."""
    first = group[0].result
    score = first.main_score
    series = []
    shown = [lines(named.result, results) for named in group]
    # Categories in order of first appearance, then the averages.
    order = list(dict.fromkeys(line.name for line in sorted(chain(*shown), key=lambda line: line.is_average)))
    for named, every in zip(group, shown, strict=True):
        bars = {}
        for line in sorted(every, key=lambda line: order.index(line.name)):
            found = line.scores[score]
            value = math.nan if found.value is None else found.value
            bars[line.name] = _bar(value, found.interval, 100, line.n, line.tie_rate, found.blind)
        series.append(Series(named.model, named.variant, bars))
    levels = {"chance": 100 * first.chance[score]} if score in first.chance else {}
    is_higher_better = first.higher_is_better[score]
    lower = "" if is_higher_better else " (lower is better)"
    title = f"{_task(first)}: {f'{first.spec.label} {words(score)}'.strip()}"
    return Panel(title, f"{words(score)}, %{lower}", True, series, levels, True, is_higher_better)


def _table_panel(name: str, group: Sequence[_Named]) -> Panel:
    """The numbers of a table by category and over all examples; with many categories over all examples only."""
    chosen = [named for named in group if name in named.result.scores]
    shares = is_share(chosen[0].result.scores[name], chosen[0].result.scores["n"])
    series = [Series(model, variant, _table_bars(result, name, shares)) for result, model, variant in chosen]
    return Panel(
        f"{_task(chosen[0].result)}: {words(name)}", f"{words(name)}{', %' if shares else ''}", shares, series, {}
    )


def _table_bars(result: Result, name: str, shares: bool) -> dict[str, Bar]:
    scale = 100 if shares else 1
    categories = result.scores.get(CATEGORIES, {})
    parts = {"": result.scores}
    if 1 < len(categories) <= MOST_CATEGORIES:
        parts = {**{f"{category}: ": part for category, part in categories.items()}, "all: ": result.scores}
    bars = {}
    for prefix, part in parts.items():
        bounds = part.get(f"{name}_interval", {})
        for label, value in part[name].items():
            bars[f"{prefix}{label}"] = _bar(value, bounds.get(label), scale, part["n"], part.get("tie_rate"))
    return bars


def _bar(
    value: float,
    bounds: Sequence[float] | None,
    scale: float,
    n: int,
    tie_rate: float | None,
    blind: float | None = None,
) -> Bar:
    low, high = bounds or (value, value)
    # NaN compares false, so that nothing is drawn for an unknown bound.
    below, above = (scale * reach if reach > 0 else 0.0 for reach in (value - low, high - value))
    blind = None if blind is None else 100 * blind
    facts = "" if blind is None else f", blind {blind:.1f} %"
    facts += f", n {n:,}" + ("" if tie_rate is None else f", ties {100 * tie_rate:.1f} %")
    return Bar(scale * value, scale * value - below, scale * value + above, facts, blind)


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
    for place, name in enumerate(names):
        if "blind" in (own := panel.levels_of(name)):
            axes.hlines(own["blind"], place - 0.45, place + 0.45, color=ink, linewidth=1, linestyle=_dash("blind"))
    axes.set_xticks(range(len(names)), _names(panel))
    axes.tick_params(axis="x", rotation=90 if len(names) > _MOST_LEVEL_NAMES else 0)
    # A single bar does not fill its panel.
    axes.set(xlim=(-0.6, max(len(names), 4) - 0.4), ylabel=panel.axis, title=panel.title)
    if panel.is_percent:
        axes.set_ylim(0, 102)
    axes.spines[["top", "right"]].set_visible(False)


def _size(panel: Panel) -> tuple[float, float, float]:
    """The width and height of a panel, and the room for the names below it, in inches."""
    names = _names(panel)
    if len(names) > _MOST_LEVEL_NAMES:
        below = 0.25 + 0.085 * max(map(len, names))
        return min(max(7.0, 0.3 * len(names) + 2), _WIDEST), 3.6 + below, below
    return max(7.0, 1.1 * len(names) + 2), 4.2, 0.25 + 0.17 * max(name.count("\n") + 1 for name in names)


def _names(panel: Panel) -> list[str]:
    """The names of a panel's bars, those of few categories with their words below each other."""
    if len(panel.names) > _MOST_LEVEL_NAMES or not panel.by_category:
        return panel.names
    return [re.sub("[ _]", "\n", name) for name in panel.names]


def _dash(level: str) -> str:
    """The line style of a level: dashed for chance, dotted for others."""
    return "dashed" if level == "chance" else "dotted"
