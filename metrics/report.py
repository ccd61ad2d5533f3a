"""Results for people: tables (terminal, Markdown, LaTeX) and the profile plot (PNG, interactive HTML)."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._storage import write_atomically, write_text
from .results import Result, write_results


@dataclass(frozen=True)
class Score:
    """A score and its interval; None where there is none, as for the macro average of rare categories alone."""

    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Line:
    """One line of a table: scores by name, fractions in [0, 1]."""

    name: str
    scores: dict[str, Score]
    tie_rate: float | None
    n: int
    is_average: bool = False


def lines(result: Result) -> list[Line]:
    """The lines of a result: its categories in the metric's order, then the micro and the macro average.

    A set of one category has that line alone.
    """
    scores = result.scores

    def line(label: str, part: dict[str, Any], prefix: str = "", is_average: bool = True) -> Line:
        values = {
            name: Score(part.get(prefix + name), _pair(part.get(f"{prefix}{name}_interval"))) for name in result.shown
        }
        return Line(label, values, None if prefix else part.get("tie_rate"), part["n"], is_average)

    categories = [line(name, part, is_average=False) for name, part in scores.get("per_category", {}).items()]
    if len(categories) == 1:
        return categories
    if not categories:
        return [line("all", scores)]
    averages = [line("micro average", scores)]
    if any(f"macro_{name}" in scores for name in result.shown):
        averages.append(line("macro average", scores, prefix="macro_"))
    return [*categories, *averages]


def title(result: Result) -> str:
    """What a result is about, in a line."""
    return f"{result.model['name']} on {result.benchmark['name']} ({result.benchmark['task']}): {result.metric}"


def footnote(result: Result) -> str:
    """How the numbers were made and what is not in them, in a sentence or two."""
    options = result.options
    text = f"Ties count as {options['ties']}." if "ties" in options else ""
    if options.get("confidence"):
        text += f" Intervals: {100 * options['confidence']:g} %, bootstrap over images."
    if result.missing:
        rows = result.benchmark["rows"]
        text += f" {result.missing:,} of {rows:,} examples lack their image and are in no score."
    truncated = result.run.get("truncated_captions", 0)
    if truncated:
        text += f" {truncated:,} captions were longer than the model reads and were cut."
    return text.strip()


def print_results(results: list[Result]) -> None:
    """Print a table for each result to the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for result in results:
        name, note = escape(title(result)), escape(footnote(result))
        table = Table(title=name, caption=note, title_justify="left", caption_justify="left")
        table.add_column("", no_wrap=True)
        # Several scores fit the width of a terminal with each interval below its score.
        stacked = len(result.shown) > 1
        for header in _headers(result, stacked)[1:]:
            table.add_column(header.replace(" ", "\n"), justify="right", no_wrap=True)
        for line, starts_averages in _with_breaks(result):
            if starts_averages:
                table.add_section()
            table.add_row(*map(escape, _cells(line, stacked)), style="bold" if line.is_average else None)
        console.print(table)


def to_markdown(results: list[Result]) -> str:
    """The tables as Markdown."""
    blocks = []
    for result in results:
        rows = [_cells(line) for line in lines(result)]
        headers = _headers(result)
        table = ["| " + " | ".join(headers) + " |", "|---" + "|---:" * (len(headers) - 1) + "|"]
        table += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        blocks.append(f"### {title(result)}\n\n" + "\n".join(table) + f"\n\n{footnote(result)}\n")
    return "\n".join(blocks)


def to_latex(results: list[Result]) -> str:
    """The tables as LaTeX, for the package booktabs."""
    blocks = []
    for result in results:
        headers = _headers(result)
        columns = "l" + "r" * (len(headers) - 1)
        body = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        body += [" & ".join(map(_latex, headers)) + r" \\", r"\midrule"]
        for line, starts_averages in _with_breaks(result):
            if starts_averages:
                body.append(r"\midrule")
            body.append(" & ".join(_latex(cell) for cell in _cells(line)) + r" \\")
        body += [r"\bottomrule", r"\end{tabular}"]
        body += [rf"\caption{{{_latex(title(result))}. {_latex(footnote(result))}}}", r"\end{table}"]
        blocks.append("\n".join(body) + "\n")
    return "\n".join(blocks)


def write_report(results: list[Result], out: str | Path) -> list[Path]:
    """Write ``results.json``, ``report.md``, ``report.tex`` and, where the libraries are there, the profile plots.

    Args:
        results: what `judge` returned.
        out: a folder; files of an earlier report there are replaced, one by one and whole.

    Returns:
        The files written. ``profile.png`` needs matplotlib and ``profile.html`` plotly (the extra ``plots``).
    """
    out = Path(out)
    files = [out / name for name in ("results.json", "report.md", "report.tex")]
    write_results(files[0], results)
    write_text(files[1], to_markdown(results))
    write_text(files[2], to_latex(results))
    plots: dict[str, Callable[[list[Result]], bytes]] = {"profile.png": plot_png, "profile.html": plot_html}
    for name, plot in plots.items():
        try:
            content = plot(results)
        except ModuleNotFoundError:
            continue
        write_atomically(out / name, content)
        files.append(out / name)
    return files


def plot_png(results: list[Result]) -> bytes:
    """The profile as a PNG: a panel for each metric, its headline score by category, a colour for each model."""
    from matplotlib.figure import Figure

    panels = _panels(results)
    widest = max(len(category_names(group)) for group in panels.values())
    columns = 1 if len(panels) == 1 else 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(columns * max(7.0, 1.1 * widest + 2), 4.2 * rows), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in every[len(panels) :]:
        unused.remove()
    for axes, (name, group) in zip(every, panels.items(), strict=False):
        names, plotted = category_names(group), group[0].headline
        for number, result in enumerate(group):
            shown = lines(result)
            width = 0.8 / len(group)
            offset = (number - (len(group) - 1) / 2) * width
            places = [names.index(line.name) + offset for line in shown]
            values = [_percent(line.scores[plotted]) for line in shown]
            errors = _errors(shown, plotted)
            axes.bar(places, values, width * 0.9, yerr=errors, capsize=3, label=result.model["name"])
        axes.set_xticks(range(len(names)), [re.sub("[ _]", "\n", name) for name in names])
        if plotted in group[0].chance:
            axes.axhline(100 * group[0].chance[plotted], color="black", linewidth=1, linestyle="--", label="chance")
        # A single bar does not fill its panel.
        axes.set(xlim=(-0.6, max(len(names), 4) - 0.4), ylim=(0, 102), ylabel=f"{_spaced(plotted)}, %", title=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def plot_html(results: list[Result]) -> bytes:
    """The profile as one interactive page that needs no network."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    panels = _panels(results)
    figure: Any = make_subplots(rows=len(panels), cols=1, subplot_titles=list(panels))
    for row, group in enumerate(panels.values(), start=1):
        plotted = group[0].headline
        for result in group:
            shown = lines(result)
            low, high = _errors(shown, plotted)
            figure.add_trace(
                go.Bar(
                    name=result.model["name"],
                    x=[line.name for line in shown],
                    y=[_percent(line.scores[plotted]) for line in shown],
                    error_y={"type": "data", "symmetric": False, "array": high, "arrayminus": low},
                    customdata=[[line.n, line.tie_rate] for line in shown],
                    hovertemplate="%{x}: %{y:.1f} %<br>n = %{customdata[0]}, tie rate %{customdata[1]}",
                ),
                row=row,
                col=1,
            )
        if plotted in group[0].chance:
            level = 100 * group[0].chance[plotted]
            figure.add_hline(y=level, line_dash="dash", annotation_text="chance", row=row, col=1)
        figure.update_yaxes(title=f"{_spaced(plotted)}, %", range=[0, 102], row=row, col=1)
    figure.update_layout(template="plotly_white", height=420 * len(panels), barmode="group")
    return figure.to_html(include_plotlyjs=True, full_html=True).encode()


def category_names(results: list[Result]) -> list[str]:
    """The names of all lines of some results: categories in order of first appearance, then the averages."""
    every = [line for result in results for line in lines(result)]
    return list(dict.fromkeys(line.name for line in sorted(every, key=lambda line: line.is_average)))


def _panels(results: list[Result]) -> dict[str, list[Result]]:
    panels: dict[str, list[Result]] = {}
    for result in results:
        task = f"{result.benchmark['name']} ({result.benchmark['task']})"
        panels.setdefault(f"{task}: {_spaced(result.headline)}", []).append(result)
    return panels


def _errors(shown: list[Line], name: str) -> tuple[list[float], list[float]]:
    scores = [line.scores[name] for line in shown]
    low = [_percent(score) - 100 * score.interval[0] if score.interval else 0.0 for score in scores]
    high = [100 * score.interval[1] - _percent(score) if score.interval else 0.0 for score in scores]
    return low, high


def _percent(score: Score) -> float:
    """In percent; NaN, of which plots draw nothing, where there is no score."""
    return math.nan if score.value is None else 100 * score.value


def _with_breaks(result: Result) -> list[tuple[Line, bool]]:
    """The lines, each with whether the averages start there."""
    every = lines(result)
    return [(line, place > 0 and line.is_average > every[place - 1].is_average) for place, line in enumerate(every)]


def _headers(result: Result, stacked: bool = False) -> list[str]:
    names = [_spaced(name) for name in result.shown]
    columns = names if stacked else [header for name in names for header in (name, "interval")]
    return ["", *columns, "ties", "n"]


def _cells(line: Line, stacked: bool = False) -> tuple[str, ...]:
    cells = [line.name]
    for score in line.scores.values():
        value = "" if score.value is None else f"{100 * score.value:.1f} %"
        interval = f"{100 * score.interval[0]:.1f} – {100 * score.interval[1]:.1f}" if score.interval else ""
        cells += [f"{value}\n{interval}"] if stacked else [value, interval]
    ties = "" if line.tie_rate is None else f"{100 * line.tie_rate:.1f} %"
    return (*cells, ties, f"{line.n:,}")


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _pair(interval: Any) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def _latex(text: str) -> str:
    for character in "\\&%$#_{}~^":
        replacement = {"\\": r"\textbackslash ", "~": r"\textasciitilde ", "^": r"\textasciicircum "}
        text = text.replace(character, replacement.get(character, "\\" + character))
    return text.replace("–", "--")
