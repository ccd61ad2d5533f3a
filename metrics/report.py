"""Results for people: tables (terminal, Markdown, LaTeX) and the profile plot (PNG, interactive HTML)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results import Result, write_results
from .storage import write_atomically, write_text

_HEADERS = ("", "accuracy", "interval", "ties", "n")


@dataclass(frozen=True)
class Line:
    """One line of a table; fractions in [0, 1], None where there is none."""

    name: str
    accuracy: float
    interval: tuple[float, float] | None
    tie_rate: float | None
    n: int
    is_average: bool = False


def lines(result: Result) -> list[Line]:
    """The lines of a result: its categories in the metric's order, then the micro and the macro average."""
    scores = result.scores
    categories = [
        Line(name, s["accuracy"], _pair(s.get("confidence_interval")), s["tie_rate"], s["n"])
        for name, s in scores["per_category"].items()
    ]
    micro = Line(
        "micro average",
        scores["accuracy"],
        _pair(scores.get("accuracy_interval")),
        scores["tie_rate"],
        scores["n"],
        True,
    )
    macro = Line(
        "macro average",
        scores["macro_accuracy"],
        _pair(scores.get("macro_accuracy_interval")),
        None,
        scores["n"],
        True,
    )
    return [*categories, micro, macro]


def title(result: Result) -> str:
    """What a result is about, in a line."""
    return f"{result.model['name']} on {result.benchmark['name']} ({result.benchmark['task']})"


def footnote(result: Result) -> str:
    """How the numbers were made and what is not in them, in a sentence or two."""
    options = result.options
    text = f"Ties count as {options['ties']}."
    if options.get("confidence"):
        text += f" Intervals: {100 * options['confidence']:g} %, bootstrap over images."
    if result.missing:
        rows = result.benchmark["rows"]
        text += f" {result.missing:,} of {rows:,} examples lack their image and are in no score."
    truncated = result.run.get("truncated_captions", 0)
    if truncated:
        text += f" {truncated:,} captions were longer than the model reads and were cut."
    return text


def print_results(results: list[Result]) -> None:
    """Print a table for each result to the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for result in results:
        name, note = escape(title(result)), escape(footnote(result))
        table = Table(title=name, caption=note, title_justify="left", caption_justify="left")
        table.add_column(_HEADERS[0], no_wrap=True)
        for header in _HEADERS[1:]:
            table.add_column(header, justify="right", no_wrap=True)
        for position, line in enumerate(lines(result)):
            if line.is_average and not lines(result)[position - 1].is_average:
                table.add_section()
            table.add_row(*map(escape, _cells(line)), style="bold" if line.is_average else None)
        console.print(table)


def to_markdown(results: list[Result]) -> str:
    """The tables as Markdown."""
    blocks = []
    for result in results:
        rows = [_cells(line) for line in lines(result)]
        table = ["| " + " | ".join(_HEADERS) + " |", "|---|---:|---:|---:|---:|"]
        table += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        blocks.append(f"### {title(result)}\n\n" + "\n".join(table) + f"\n\n{footnote(result)}\n")
    return "\n".join(blocks)


def to_latex(results: list[Result]) -> str:
    """The tables as LaTeX, for the package booktabs."""
    blocks = []
    for result in results:
        body = [r"\begin{table}", r"\centering", r"\begin{tabular}{lrrrr}", r"\toprule"]
        body += [" & ".join(_HEADERS) + r" \\", r"\midrule"]
        for position, line in enumerate(lines(result)):
            if line.is_average and not lines(result)[position - 1].is_average:
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
    """The profile as a PNG: a panel for each benchmark, accuracy and interval by category, a colour for each model."""
    from matplotlib.figure import Figure

    panels = _panels(results)
    figure = Figure(figsize=(8, 3.6 * len(panels)), layout="constrained")
    for axes, (name, group) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True):
        names = category_names(group)
        for number, result in enumerate(group):
            shown = lines(result)
            width = 0.8 / len(group)
            offset = (number - (len(group) - 1) / 2) * width
            places = [names.index(line.name) + offset for line in shown]
            values = [100 * line.accuracy for line in shown]
            axes.bar(places, values, width * 0.9, yerr=_errors(shown), capsize=3, label=result.model["name"])
        axes.set_xticks(range(len(names)), [re.sub("[ _]", "\n", name) for name in names])
        axes.axhline(50, color="black", linewidth=1, linestyle="--", label="chance")
        axes.set(ylim=(0, 102), ylabel="accuracy, %", title=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def plot_html(results: list[Result]) -> bytes:
    """The profile as one interactive page that needs no network."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    panels = _panels(results)
    figure: Any = make_subplots(rows=len(panels), cols=1, subplot_titles=list(panels))
    for row, group in enumerate(panels.values(), start=1):
        for result in group:
            shown = lines(result)
            low, high = _errors(shown)
            figure.add_trace(
                go.Bar(
                    name=result.model["name"],
                    x=[line.name for line in shown],
                    y=[100 * line.accuracy for line in shown],
                    error_y={"type": "data", "symmetric": False, "array": high, "arrayminus": low},
                    customdata=[[line.n, line.tie_rate] for line in shown],
                    hovertemplate="%{x}: %{y:.1f} %<br>n = %{customdata[0]}, tie rate %{customdata[1]}",
                ),
                row=row,
                col=1,
            )
        figure.add_hline(y=50, line_dash="dash", annotation_text="chance", row=row, col=1)
    figure.update_yaxes(title="accuracy, %", range=[0, 102])
    figure.update_layout(template="plotly_white", height=420 * len(panels), barmode="group")
    return figure.to_html(include_plotlyjs=True, full_html=True).encode()


def category_names(results: list[Result]) -> list[str]:
    """The names of all lines of some results: categories in order of first appearance, then the averages."""
    every = [line for result in results for line in lines(result)]
    return list(dict.fromkeys(line.name for line in sorted(every, key=lambda line: line.is_average)))


def _panels(results: list[Result]) -> dict[str, list[Result]]:
    panels: dict[str, list[Result]] = {}
    for result in results:
        panels.setdefault(f"{result.benchmark['name']} ({result.benchmark['task']})", []).append(result)
    return panels


def _errors(shown: list[Line]) -> tuple[list[float], list[float]]:
    low = [100 * (line.accuracy - line.interval[0]) if line.interval else 0.0 for line in shown]
    high = [100 * (line.interval[1] - line.accuracy) if line.interval else 0.0 for line in shown]
    return low, high


def _cells(line: Line) -> tuple[str, ...]:
    interval = f"{100 * line.interval[0]:.1f} – {100 * line.interval[1]:.1f}" if line.interval else ""
    ties = "" if line.tie_rate is None else f"{100 * line.tie_rate:.1f} %"
    return (line.name, f"{100 * line.accuracy:.1f} %", interval, ties, f"{line.n:,}")


def _pair(interval: Any) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def _latex(text: str) -> str:
    for character in "\\&%$#_{}~^":
        replacement = {"\\": r"\textbackslash ", "~": r"\textasciitilde ", "^": r"\textasciicircum "}
        text = text.replace(character, replacement.get(character, "\\" + character))
    return text.replace("–", "--")
