"""What a refinement writes: the pairs kept, and its figures as JSON, Markdown and a page with the scorers' gaps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ..audit.html import page, table
from ..audit.report import in_a_line
from ..data.pairs import write_pairs

if TYPE_CHECKING:
    from .refine import Gaps, Refinement

# An odd number: gaps of exactly 0 are in the middle.
_BINS = 61
# Blue and vermilion of Okabe and Ito, told apart without colour vision.
_RIGHT, _WRONG, _MIRROR = "#0072B2", "#D55E00", "#7f7f7f"
_COLOURS = [_WRONG] * (_BINS // 2) + [_MIRROR] + [_RIGHT] * (_BINS // 2)

# Headings, and rows of cells.
Table = tuple[list[str], list[list[str]]]


def write_refinement(refinement: Refinement, folder: str | Path, dataset: str) -> list[Path]:
    """Write ``pairs.jsonl`` (see `pairs.write_pairs`), ``report.json``, ``report.md`` and ``report.html``.

    Raises:
        DataError: plotly, which draws the page's figure, is not installed; nothing is written then.
        StorageError: a file could not be written.
    """
    folder = Path(folder)
    contents = {
        "report.json": json.dumps({"dataset": dataset, **refinement.record}, indent=1, ensure_ascii=False) + "\n",
        "report.md": to_markdown(refinement.record, dataset),
        "report.html": to_html(refinement, dataset),
    }
    write_pairs(refinement.kept, folder / "pairs.jsonl")
    for name, text in contents.items():
        write_text(folder / name, text)
    return [folder / name for name in ("pairs.jsonl", *contents)]


def to_markdown(record: Mapping[str, Any], dataset: str) -> str:
    """The report as Markdown."""
    blocks = [f"# Refinement of {in_a_line(dataset)}"]
    for heading, text, (head, rows) in _sections(record):
        blocks += [f"## {heading}", in_a_line(text), _markdown_table(head, rows)]
    return "\n\n".join(blocks) + "\n"


def to_html(refinement: Refinement, dataset: str) -> str:
    """The report as one page that needs no other file, with the distributions of gaps as in Figure 4 of SugarCrepe.

    Raises:
        DataError: plotly is not installed.
    """
    parts = []
    for heading, text, (head, rows) in _sections(refinement.record):
        cells = [[escape(cell) for cell in row] for row in rows]
        parts += [f"<h2>{escape(heading)}</h2>", f"<p>{escape(text)}</p>", table(head, cells, "numbers")]
    parts += [
        "<h2>Gaps</h2>",
        "<p>A gap is the score of the true caption minus that of the negative, before it is scaled: on the right of 0 "
        "the scorer is right. The grey line is the mirror image; where it follows the bars, the size of a gap tells "
        "nothing either. What lies beyond the 99th percentile counts in the outermost bars. Probes are trained anew on "
        "the pairs kept.</p>",
        _figure(refinement.gaps),
    ]
    return page(f"Refinement of {dataset}", parts)


def print_refinement(record: Mapping[str, Any]) -> None:
    """Print the report's tables to the terminal."""
    from rich.console import Console
    from rich.markup import escape as escape_markup
    from rich.table import Table as RichTable

    console = Console(highlight=False)
    for heading, text, (head, rows) in _sections(record):
        printed = RichTable(title=heading, title_justify="left")
        for number, name in enumerate(head):
            printed.add_column(
                escape_markup(name.replace(" (", "\n(").replace(", ", ",\n")), justify="right" if number else "left"
            )
        for row in rows:
            printed.add_row(*(escape_markup(cell.replace(" (", "\n(").replace(", ", ",\n")) for cell in row))
        console.print(printed)
        console.print(text, markup=False)


def kept_table(record: Mapping[str, Any]) -> Table:
    """Pairs before and after, by category."""
    lines = {**record["categories"], "all": record}
    rows = [
        [name, f"{line['pairs']:,}", f"{line['kept']:,}", f"{line['kept'] / line['pairs']:.1%}"]
        for name, line in lines.items()
    ]
    return ["category", "pairs", "kept", "share"], rows


def accuracy_table(record: Mapping[str, Any]) -> Table:
    """Blind accuracy of each scorer before and after, in percent with its interval, by category."""
    scorers = record["scorers"]
    head = ["category", *(f"{name}, {when}" for name in scorers for when in ("before", "after"))]
    rows = []
    for category in [*record["categories"], None]:
        parts = [
            found[when] if category is None else found[when]["per_category"].get(category)
            for found in scorers.values()
            for when in ("before", "after")
        ]
        rows.append([category or "all", *("–" if part is None else _accuracy(part) for part in parts)])
    ties = [f"{found[when]['tie_rate']:.1%}" for found in scorers.values() for when in ("before", "after")]
    return head, [*rows, ["ties, all", *ties]]


def rounds_table(record: Mapping[str, Any]) -> Table:
    """What each learned probe knew before the first refinement and after each."""
    rounds = record["learned"]["rounds"]
    kinds = {"refining": "refines", "watching": "watches"}
    roles = {name: role for kind, role in kinds.items() for name in record["learned"][kind]}
    rows = [
        [f"{_words(name)} ({role})", *(_accuracy(found["probes"][name]) for found in rounds)]
        for name, role in roles.items()
    ]
    pairs = ["pairs", *(f"{found['pairs']:,}" for found in rounds)]
    refined = ["then refined on", *(", ".join(map(_words, found["refined_on"])) or "–" for found in rounds)]
    return ["refinements", *map(str, range(len(rounds)))], [pairs, *rows, refined]


def _sections(record: Mapping[str, Any]) -> list[tuple[str, str, Table]]:
    """Heading, text and table of each part of the report."""
    settings = record["settings"]
    scales = ", ".join(f"{name} ({found['scale']})" for name, found in record["scorers"].items())
    by = "each category by itself" if settings["by_category"] else "all categories together"
    how = f"Cells: {settings['cells']}, {settings['grid']} for each scorer; {by}; seed {settings['seed']}."
    sections = [
        ("Pairs", f"{record['kept']:,} of {record['pairs']:,} pairs are kept. {how}", kept_table(record)),
    ]
    if record["scorers"]:
        text = (
            "How often each scorer prefers the true caption, in percent, with its "
            f"{100 * settings['confidence']:g} % interval over images; a tie counts half. It is 50 after refinement by "
            f"construction, which says nothing of other scorers. Scorers, and how their gaps were scaled: {scales}."
        )
        sections.append(("Blind accuracy", text, accuracy_table(record)))
    if "learned" in record:
        text = (
            "How often probes that are trained on the captions of other images prefer the true caption, in percent, "
            "with the interval. Those that refine decide which pairs go, by the ranks of their gaps in "
            f"{record['learned']['grid']} cells; those that watch do not. It ended because "
            f"{record['learned']['ended']}."
        )
        sections.append(("Learned probes", text, rounds_table(record)))
    return sections


def _figure(gaps: Mapping[str, Gaps]) -> str:
    """Histograms before and after, a row for each scorer, as HTML with plotly's code."""
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError:
        raise DataError("the report's figure needs plotly; pip install 'vl-assay[authoring]'") from None

    titles = [
        f"{escape(_words(name))}, {when}<br>{len(values):,} pairs"
        for name, column in gaps.items()
        for when, values in column._asdict().items()
    ]
    rows = len(gaps)
    figure = make_subplots(rows=rows, cols=2, shared_yaxes=True, subplot_titles=titles, vertical_spacing=0.35 / rows)
    figure.update_annotations(font_size=13)
    for row, column in enumerate(gaps.values(), start=1):
        # One scale for both, or the eye would compare what cannot be compared.
        edges = _edges(column.before)
        middles = (edges[:-1] + edges[1:]) / 2
        for place, values in enumerate(column, start=1):
            shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
            bars = go.Bar(
                x=middles.round(6).tolist(),
                y=shares.round(6).tolist(),
                width=float(edges[1] - edges[0]),
                marker={"color": _COLOURS, "line": {"width": 0}},
                hovertemplate="%{x:.3g}: %{y:.2%}<extra></extra>",
            )
            mirror = go.Scatter(
                x=middles.round(6).tolist(),
                y=shares[::-1].round(6).tolist(),
                mode="lines",
                line={"color": _MIRROR, "width": 1.5, "shape": "hvh"},
                hoverinfo="skip",
            )
            figure.add_traces([bars, mirror], rows=row, cols=place)
    figure.update_yaxes(tickformat=".0%")
    figure.update_layout(
        height=260 * rows + 80,
        template="plotly_white",
        showlegend=False,
        bargap=0,
        margin={"l": 50, "r": 20, "t": 60, "b": 40},
    )
    return figure.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False, "responsive": True})


def _edges(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges of bins that are symmetric about 0, over all but the largest hundredth."""
    reach = float(np.quantile(np.abs(gaps), 0.99)) or float(np.abs(gaps).max()) or 1.0
    return np.linspace(-reach, reach, _BINS + 1)


def _accuracy(part: Mapping[str, Any]) -> str:
    low, high = part["accuracy_interval"]
    return f"{100 * part['accuracy']:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(in_a_line, line)) + " |" for line in lines)


def _words(name: str) -> str:
    return name.replace("_", " ")
