"""Reports of a refinement: the pairs kept, and the figures as JSON, Markdown and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common import documents
from ....metrics.common.formatting import words
from ..audit.report import accuracy, write_report
from ..data.made import PAIRS_FILE
from ..data.pairs import Pair, write_pairs


def write_refinement(kept: Sequence[Pair], record: Mapping[str, Any], folder: Path, dataset: str) -> list[Path]:
    """Write ``pairs.jsonl`` (see `pairs.write_pairs`), ``report.json`` and ``report.md``; return these files.

    Raises:
        StorageError: a file could not be written.
    """
    write_pairs(kept, folder / PAIRS_FILE)
    report = write_report(folder / "report", {"dataset": dataset, **record}, to_markdown(record, dataset))
    return [folder / PAIRS_FILE, *report]


def to_markdown(record: Mapping[str, Any], dataset: str) -> str:
    """Return the report as Markdown."""
    return documents.to_markdown(_tables(record), f"Refinement of {dataset}", level=2)


def print_refinement(record: Mapping[str, Any]) -> None:
    """Print the report's tables to the terminal."""
    documents.print_tables(_tables(record))


def _tables(record: Mapping[str, Any]) -> list[documents.Table]:
    settings = record["settings"]
    text = (
        f"{record['kept']:,} of {record['pairs']:,} pairs are kept. Cells: {settings['grid']} for "
        f"each scorer; each category by itself; seed {settings['seed']}."
    )
    rows = [
        [name, f"{line['pairs']:,}", f"{line['kept']:,}", f"{line['kept'] / line['pairs']:.1%}"]
        for name, line in {**record["categories"], "all": record}.items()
    ]
    headings = ["category", "pairs", "kept", "share"]
    tables = [documents.simple_table(headings, rows, title="Pairs", text=text, numbers=True)]
    if record["scorers"]:
        text = (
            "How often each scorer prefers the positive caption, in percent, with its "
            f"{100 * settings['confidence']:g} % interval over images; a tie counts half. It is 50 after refinement by "
            "construction, which says nothing of other scorers."
        )
        columns = {f"{name}, {when}": part for name, own in record["scorers"].items() for when, part in own.items()}
        parts = [figures["per_category"] for figures in columns.values()]
        rows = [
            [category, *(accuracy(part[category]) if category in part else "–" for part in parts)]
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
