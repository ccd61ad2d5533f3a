"""The report of a reproduced table: published and our values in the terminal, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...hub_datasets.published.tables import Table
from ...metrics.common import documents
from ...metrics.common.documents import simple_table
from ...metrics.records.results import code_version
from .comparing import Comparison

SCHEMA, VERSION = "vl-assay/reproduction", 2
_YES_NO: Mapping[bool | None, str] = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Reproduction:
    """A table of a paper, compared.

    Args:
        table: the table.
        options: tie policy and confidence of our values.
        comparisons: one for each value, by row.
        not_run: the reason for each model that was not run.
        failed: the error for each model that could not be loaded, by the row's name.
        remarks: properties of our predictions that affect the values.
    """

    table: Table
    options: dict[str, Any]
    comparisons: list[Comparison]
    not_run: dict[str, str]
    failed: dict[str, str]
    remarks: list[str]

    @property
    def notes(self) -> list[str]:
        """The notes of the table, then those of the rows that were run."""
        by_row = {one.row.name: one.row.run.note for one in self.comparisons if one.row.run.note}
        return [*self.table.notes, *(f"{name}: {note}." for name, note in by_row.items())]


def as_json(result: Reproduction) -> str:
    """Return the comparisons with the sources of both values; scores are fractions in [0, 1]."""
    table = result.table
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "code": code_version(),
        "table": {"name": table.name, "paper": table.paper.title, "number": table.number},
        "options": result.options,
        "comparisons": [_entry(table, one) for one in result.comparisons],
        "not_run": result.not_run,
        "failed": result.failed,
        "notes": result.notes,
        "remarks": result.remarks,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _entry(table: Table, one: Comparison) -> dict[str, Any]:
    row, column = table.address(one.row, one.column)
    names = ("published", "ours", "interval", "deviation", "difference", "inside", "equal", "n", "tie_rate")
    return {
        "model": one.row.name,
        "paper": {"table": f"Table {table.number}", "row": row, "column": column, "printed": one.printed},
        **{name: getattr(one, name) for name in names},
        "predictions": [dict(each) for each in one.predictions],
        "why_not": one.why or None,
        "published_n": one.column.n,
        **{name: getattr(one.column, name) or None for name in ("task", "metric")},
        "score": list(one.column.score),
        "average": one.column.average,
    }


def to_markdown(result: Reproduction) -> str:
    """Return comparisons by model, models that were not run, and why values may differ, as Markdown."""
    return documents.to_markdown(parts_of(result, level=2), _title(result.table), level=2)


def parts_of(result: Reproduction, level: int) -> list[documents.Part]:
    """Return the summary, the tables and the lists of a report, with headings of that level."""
    return [summarise_reproduction(result), *_tables(result), *_lists(result, f"{'#' * level} {{}}\n\n")]


def print_reproduction(result: Reproduction) -> None:
    """Print the comparison."""
    lists = _lists(result, "\n{}\n")
    documents.print_tables([_title(result.table), *_tables(result), summarise_reproduction(result), *lists])


def print_tables(status: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Print the names of the tables, and how many of their models can be run; see `plans.status`."""
    rows = [[name, *(str(len(names)) for names in models.values())] for name, models in status.items()]
    headers = ["table", *next(iter(status.values()))]
    table = simple_table(headers, rows, title="Models of each table, by what they need to be run here", numbers=True)
    documents.print_tables([table, "`vl-assay reproduce TABLE` names them; --json does so for all tables."])


def _title(table: Table) -> str:
    return f"{table.paper.short}, Table {table.number}: published and ours"


def summarise_reproduction(result: Reproduction) -> str:
    """Count the published values that lie inside our intervals or equal ours, and name the largest difference."""
    if not result.table.is_comparable:
        return "Not comparable: the paper's values are of other data. None is counted."
    compared = [one for one in result.comparisons if one.difference is not None]
    if not compared:
        return "No published value can be compared with one of ours."
    parts = []
    if inside := [one.inside for one in compared if one.inside is not None]:
        level = f"{100 * result.options['confidence']:g} %, over images"
        parts.append(f"{sum(inside)} of {len(inside)} published values lie inside our intervals ({level}).")
    equal = sum(bool(one.equal) for one in compared)
    parts.append(f"{equal} of {len(compared)} published values equal ours to the last printed digit.")
    largest = max(compared, key=lambda one: abs(one.difference or 0.0))
    if not largest.equal:
        difference = _number(result.table, largest.difference, "+")
        parts.append(f"The largest difference is {difference} ({largest.row.name}, {largest.column.name}).")
    return " ".join(parts)


def _tables(result: Reproduction) -> Iterator[documents.Table]:
    """Return a table for each model; one for statistics of a dataset."""
    if result.table.is_statistics:
        columns = 4 if result.table.is_comparable else 3
        rows = [_statistic(one)[:columns] for one in result.comparisons]
        yield simple_table(("", "published", "ours", "equal")[:columns], rows, numbers=True)
        return
    headers = ("", "published", "ours", "interval", "difference", "inside")
    for name, comparisons in groupby(result.comparisons, key=lambda one: one.row.name):
        yield simple_table(headers, [_row(result.table, one) for one in comparisons], title=name, numbers=True)


def _statistic(one: Comparison) -> tuple[str, ...]:
    ours = one.why if one.ours is None else f"{one.ours:,.3f}".rstrip("0").rstrip(".")
    return f"{one.column.name}, {one.row.name}", one.printed, ours, _YES_NO[one.equal]


def _row(table: Table, one: Comparison) -> tuple[str, ...]:
    if one.ours is None:
        return one.column.name, one.printed, "–", one.why, "", ""
    ours = _number(table, one.ours) + (f" ± {_number(table, one.deviation)}" if one.deviation is not None else "")
    interval = " – ".join(_number(table, end) for end in one.interval) if one.interval else "none"
    inside = _YES_NO[one.inside] if one.is_comparable else "not comparable"
    return one.column.name, one.printed, ours, interval, _number(table, one.difference, "+"), inside


def _number(table: Table, value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value * table.unit:{sign}.{table.decimals + 1}f}"


def _lists(result: Reproduction, layout: str) -> Iterator[str]:
    lists = {
        "Failed": [f"{name}: {why}" for name, why in result.failed.items()],
        "Not run": [f"{name}: {why}" for name, why in result.not_run.items()],
        "Why values may differ": result.notes,
        "About our predictions": result.remarks,
    }
    return (
        layout.format(heading) + "\n".join(f"- {item}" for item in lists[heading])
        for heading in lists
        if lists[heading]
    )
