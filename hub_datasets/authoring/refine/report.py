"""Reports of a refinement: the pairs kept, and the figures as JSON, Markdown and a page with the scorers' gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....metrics.common import documents
from ....metrics.common.figures import COLOURS, HistogramSample, histogram_html, legend_html
from ....metrics.common.formatting import percent, words
from ..audit.report import accuracy, as_json, write_forms
from ..data.pairs import write_pairs
from .refine import Gaps, Refinement

# Odd, so that gaps of exactly 0 are in the middle.
_BINS = 61
_RIGHT, _WRONG = COLOURS[0], COLOURS[3]


def write_refinement(refinement: Refinement, folder: str | Path, dataset: str) -> list[Path]:
    """Write ``pairs.jsonl`` (see `pairs.write_pairs`), ``report.json``, ``report.md`` and ``report.html``.

    Raises:
        StorageError: a file could not be written.
    """
    pairs, record = Path(folder) / "pairs.jsonl", {"dataset": dataset, **refinement.record}
    write_pairs(refinement.kept, pairs)
    markdown, page = to_markdown(record, dataset), to_html(refinement, dataset)
    return [pairs, *write_forms(pairs.with_name("report"), json=as_json(record), md=markdown, html=page)]


def to_markdown(record: Mapping[str, Any], dataset: str) -> str:
    """Return the report as Markdown."""
    return documents.to_markdown(_tables(record), f"Refinement of {dataset}", level=2)


def to_html(refinement: Refinement, dataset: str) -> str:
    """Return the report as one self-contained page, with the distributions of gaps as in Figure 4 of SugarCrepe."""
    text = (
        "A gap is the score of the positive caption minus that of the negative, before scaling: on the right of 0 the "
        "scorer is right. The line is the mirror image; where it follows the bars, the size of a gap tells "
        "nothing either. Gaps beyond the 99th percentile count in the outermost bars. Probes are trained again on the "
        "pairs kept."
    )
    tables = _tables(refinement.record)
    figure = documents.HtmlFigure(_figure(refinement.gaps), text=text)
    folds = [documents.Fold(table.title, (replace(table, title=""),)) for table in tables]
    parts = [documents.Verdict(_verdict(refinement.record)), *folds, documents.Fold("Gaps", (figure,))]
    return documents.to_page(f"Refinement of {dataset}", parts)


def print_refinement(record: Mapping[str, Any]) -> None:
    """Print the report's tables to the terminal."""
    documents.print_tables(_tables(record))


def _tables(record: Mapping[str, Any]) -> list[documents.Table]:
    settings = record["settings"]
    by = "each category by itself" if settings["by_category"] else "all categories together"
    text = (
        f"{record['kept']:,} of {record['pairs']:,} pairs are kept. Cells: {settings['grid']} for "
        f"each scorer; {by}; seed {settings['seed']}."
    )
    rows = [
        [name, f"{line['pairs']:,}", f"{line['kept']:,}", f"{line['kept'] / line['pairs']:.1%}"]
        for name, line in {**record["categories"], "all": record}.items()
    ]
    headings = ["category", "pairs", "kept", "share"]
    tables = [documents.simple_table(headings, rows, title="Pairs", text=text, numbers=True)]
    if record["scorers"]:
        scales = ", ".join(f"{name} ({columns['scale']})" for name, columns in record["scorers"].items())
        text = (
            "How often each scorer prefers the positive caption, in percent, with its "
            f"{100 * settings['confidence']:g} % interval over images; a tie counts half. It is 50 after refinement by "
            f"construction, which says nothing of other scorers. Scorers, and how their gaps were scaled: {scales}."
        )
        columns = {
            f"{name}, {when}": figures[when] for name, figures in record["scorers"].items() for when in Gaps._fields
        }
        by_category = [figures["per_category"] for figures in columns.values()]
        rows = [
            [
                category,
                *(
                    accuracy(per_category[category]) if category in per_category else "–"
                    for per_category in by_category
                ),
            ]
            for category in record["categories"]
        ]
        rows.append(["all", *map(accuracy, columns.values())])
        rows.append(["ties, all", *(f"{figures['tie_rate']:.1%}" for figures in columns.values())])
        headings = ["category", *columns]
        tables.append(documents.simple_table(headings, rows, title="Blind accuracy", text=text, numbers=True))
    if "learned" in record:
        learned, rounds = record["learned"], record["learned"]["rounds"]
        text = (
            "How often probes that are trained on other images prefer the positive caption, in percent, with the "
            "interval. Those that refine decide which pairs are removed, by the ranks of their gaps in "
            f"{learned['grid']} cells; those that watch do not. Rounds ended because {learned['ended']}."
        )
        rows = [["pairs", *(f"{round['pairs']:,}" for round in rounds)]]
        rows += [
            [f"{words(name)} ({role})", *(accuracy(round["probes"][name]) for round in rounds)]
            for key, role in (("refining", "refines"), ("watching", "watches"))
            for name in learned[key]
        ]
        rows.append(["then refined on", *(", ".join(map(words, round["refined_on"])) or "–" for round in rounds)])
        headings = ["refinements", *map(str, range(len(rounds)))]
        tables.append(documents.simple_table(headings, rows, title="Learned probes", text=text, numbers=True))
    return tables


def _verdict(record: Mapping[str, Any]) -> str:
    """Return the number of pairs that are kept, and the scores of the probes before and after."""
    reached = {
        words(name): [percent(figures[when]["accuracy"]) for when in Gaps._fields]
        for name, figures in record["scorers"].items()
    }
    changes = ", ".join(f"{name} from {before} to {after} %" for name, (before, after) in reached.items())
    summary = f"{record['kept']:,} of {record['pairs']:,} pairs are kept"
    return f"{summary}; blind accuracy: {changes}." if changes else f"{summary}."


def _figure(gaps: Mapping[str, Gaps]) -> str:
    """Draw histograms before and after, for each scorer."""
    figures = []
    for name, column in gaps.items():
        # Symmetric about 0, and the same for both panels, which are compared.
        reach = float(np.quantile(np.abs(column.before), 0.99)) or float(np.abs(column.before).max()) or 1.0
        edges = np.linspace(-reach, reach, _BINS + 1)
        for when, values in column._asdict().items():
            title = f"{words(name)}, {when}: {len(values):,} pairs"
            figures.append(histogram_html(title, [HistogramSample(values, _WRONG, _RIGHT)], edges, mirrored=True))
    legend = legend_html({"wrong": _WRONG, "right": _RIGHT})
    return f'{legend}<div class="histograms">{"".join(figures)}</div>'
