"""The profile of models, as a figure or as parts of a page: a panel for each metric, a colour for each model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..common.documents import HtmlFigure, Part
from ..common.figures import Bar, bars_html, colours, legend_html
from ..common.formatting import MISSING, words
from .scores import ScoreRow, best, by_result, task_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With more names than this they are rotated.
_MOST_LEVEL_NAMES = 12
_WIDEST = 40.0
_LEGEND_COLUMNS = 6


@dataclass(frozen=True)
class Panel:
    """The main score of one task and metric by category.

    Args:
        names: the categories in the order of first appearance, then the averages.
        series: for each result its rows by name.
    """

    names: list[str]
    series: list[dict[str, ScoreRow]]

    @property
    def first(self) -> ScoreRow:
        """A row that stands for the score in all rows."""
        return next(iter(self.series[0].values()))

    @property
    def title(self) -> str:
        """The task and the score."""
        benchmark, task = task_of(self.first.result)
        return f"{benchmark} ({task}): {f'{self.first.result.spec.label} {words(self.first.score)}'.strip()}"

    def levels(self, name: str) -> dict[str, float]:
        """Return the reference lines of a category, in per cent, by their names."""
        rows = [rows[name] for rows in self.series if name in rows]
        levels = {"chance": self.first.chance, "blind": best((row.blind for row in rows), self.first.higher_is_better)}
        return {level: 100 * value for level, value in levels.items() if value is not None}


def panels(rows: Sequence[ScoreRow]) -> list[Panel]:
    """Return a panel for each task and metric."""
    groups: dict[tuple[str, ...], list[list[ScoreRow]]] = {}
    for result_rows in by_result(rows):
        result = result_rows[0].result
        groups.setdefault((*task_of(result), result.metric), []).append([row for row in result_rows if row.is_main])
    of_groups = []
    for group in groups.values():
        every = sorted((row for rows in group for row in rows), key=lambda row: row.is_average)
        names = list(dict.fromkeys(row.category for row in every))
        of_groups.append(Panel(names, [{row.category: row for row in rows} for rows in group]))
    return of_groups


def plot(rows: Sequence[ScoreRow]) -> Figure:
    """Plot the profile with matplotlib."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown, colour = panels(rows), colours([row.model for row in rows])
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
    handles = [Patch(color=value, label=name) for name, value in colour.items()]
    ink = rcParams["text.color"]
    handles += [Line2D([], [], color=ink, linewidth=1, ls=_dash(name), label=name) for name in _level_names(shown)]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), _LEGEND_COLUMNS), frameon=False)
    return figure


def plot_html(rows: Sequence[ScoreRow]) -> list[Part]:
    """Return the profile for a page: a legend, and a figure for each score."""
    shown, colour = panels(rows), colours([row.model for row in rows])
    parts: list[Part] = [HtmlFigure(legend_html(colour, _level_names(shown)))]
    for panel in shown:
        bars = {
            name: [_page_bar(rows[name], colour[rows[name].model]) for rows in panel.series if name in rows]
            for name in panel.names
        }
        html = bars_html(bars, (0.0, 100.0), {name: panel.levels(name) for name in bars})
        parts.append(HtmlFigure(html, panel.title, "" if panel.first.higher_is_better else "Lower is better."))
    return parts


def _level_names(shown: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(level for panel in shown for name in panel.names for level in panel.levels(name)))


def _page_bar(row: ScoreRow, colour: str) -> Bar:
    value, low, high = _value(row)
    text = MISSING if math.isnan(value) else f"{value:.1f} %"
    bounds = f" [{low:.1f} – {high:.1f}]" if low < high else ""
    facts = "" if row.blind is None else f", blind {100 * row.blind:.1f} %"
    facts += f", n {row.n:,}" + ("" if row.tie_rate is None else f", ties {100 * row.tie_rate:.1f} %")
    return Bar(colour, value, low, high, text, f"{row.label}, {row.category}: {text}{bounds}{facts}")


def _value(row: ScoreRow) -> tuple[float, float, float]:
    """Return a score and the ends of its interval, or the score itself, in per cent; NaN if it is unknown."""
    value = math.nan if row.value is None else row.value
    low, high = row.interval or (value, value)
    return 100 * value, 100 * min(low, value), 100 * max(high, value)


def _draw(axes: Any, panel: Panel, colour: dict[str, str]) -> None:
    from matplotlib import rcParams

    ink = rcParams["text.color"]
    width = 0.8 / len(panel.series)
    for number, rows in enumerate(panel.series):
        offset = (number - (len(panel.series) - 1) / 2) * width
        bars = [(panel.names.index(name) + offset, *_value(row)) for name, row in rows.items()]
        errors = [[value - low for _, value, low, _ in bars], [high - value for _, value, _, high in bars]]
        x, heights = [position for position, *_ in bars], [value for _, value, *_ in bars]
        model = next(iter(rows.values())).model
        axes.bar(x, heights, width * 0.9, yerr=errors, capsize=3, ecolor=ink, color=colour[model])
    for index, name in enumerate(panel.names):
        levels = panel.levels(name)
        if index == 0 and "chance" in levels:
            axes.axhline(levels["chance"], color=ink, linewidth=1, linestyle=_dash("chance"))
        if "blind" in levels:
            axes.hlines(levels["blind"], index - 0.45, index + 0.45, color=ink, linewidth=1, linestyle=_dash("blind"))
    axes.set_xticks(range(len(panel.names)), _names(panel))
    axes.tick_params(axis="x", rotation=90 if len(panel.names) > _MOST_LEVEL_NAMES else 0)
    lower = "" if panel.first.higher_is_better else " (lower is better)"
    # A single bar does not fill its panel.
    axes.set(xlim=(-0.6, max(len(panel.names), 4) - 0.4), ylim=(0, 102), title=panel.title)
    axes.set_ylabel(f"{words(panel.first.score)}, %{lower}")
    axes.spines[["top", "right"]].set_visible(False)


def _size(panel: Panel) -> tuple[float, float, float]:
    """Return the width and height of a panel, and the room for the names below it, in inches."""
    names = _names(panel)
    if len(names) > _MOST_LEVEL_NAMES:
        below = 0.25 + 0.085 * max(map(len, names))
        return min(max(7.0, 0.3 * len(names) + 2), _WIDEST), 3.6 + below, below
    return max(7.0, 1.1 * len(names) + 2), 4.2, 0.25 + 0.17 * max(name.count("\n") + 1 for name in names)


def _names(panel: Panel) -> list[str]:
    """Return the names of a panel's bars; few of them have their words below each other."""
    if len(panel.names) > _MOST_LEVEL_NAMES:
        return panel.names
    return [re.sub("[ _]", "\n", name) for name in panel.names]


def _dash(level: str) -> str:
    """Return the line style of a level: dashed for chance, dotted for others."""
    return "dashed" if level == "chance" else "dotted"
