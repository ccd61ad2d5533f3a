"""The report of a reproduced table: published and our values in the terminal, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...hub_datasets.published.tables import Column, Row, Table
from ...metrics.common import documents
from ...metrics.common.documents import simple_table
from ...metrics.records.results import code_version

SCHEMA = "vl-assay/reproduction"
VERSION = 2
_HEADERS = ("", "published", "ours", "interval", "difference", "inside")
# Far below half of the last decimal that any table prints.
_FLOAT_ROUNDING = 1e-12
_YES_NO: Mapping[bool | None, str] = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Comparison:
    """A published value and ours; scores are fractions in [0, 1], statistics of a dataset are counts or means.

    Args:
        row, column: of the table; see `published.tables.Table` for which is which in the paper.
        printed: the value as it is printed.
        published: the same as a fraction.
        rounding: half of its last decimal.
        why: the reason if there is no value of ours.
        ours, interval, n, tie_rate: our score, its interval, number of examples, and share of examples with ties.
        deviation: standard deviation over seeds of the data, of which `ours` is then the mean.
        predictions: file and hash of each file of predictions that it was computed from.
        is_comparable: False where the published value is of other data.
    """

    row: Row
    column: Column
    printed: str
    published: float
    rounding: float
    why: str = ""
    ours: float | None = None
    interval: tuple[float, float] | None = None
    n: int | None = None
    tie_rate: float | None = None
    deviation: float | None = None
    predictions: Sequence[Mapping[str, str]] = ()
    is_comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Ours minus the published value; None where they are of other data."""
        return self.ours - self.published if self.ours is not None and self.is_comparable else None

    @property
    def equal(self) -> bool | None:
        """Whether ours rounds to the published value; None without one or of other data."""
        return None if self.difference is None else abs(self.difference) <= self.rounding + _FLOAT_ROUNDING

    @property
    def inside(self) -> bool | None:
        """Whether what rounds to the published number is inside our interval; None without one or of other data."""
        if self.interval is None or not self.is_comparable:
            return None
        low, high = self.interval
        margin = self.rounding + _FLOAT_ROUNDING
        return low - margin <= self.published <= high + margin


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


def as_json(result: Reproduction) -> str:
    """The comparisons with the sources of both values; scores are fractions in [0, 1]."""
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
        "notes": [*_notes(result)],
        "remarks": result.remarks,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _entry(table: Table, one: Comparison) -> dict[str, Any]:
    row, column = table.address(one.row, one.column)
    fields = ("published", "ours", "interval", "deviation", "difference", "inside", "equal", "n", "tie_rate")
    return {
        "model": one.row.name,
        "paper": {"table": f"Table {table.number}", "row": row, "column": column, "printed": one.printed},
        **{name: getattr(one, name) for name in fields},
        "predictions": [dict(each) for each in one.predictions],
        "why_not": one.why or None,
        "published_n": one.column.n,
        "task": one.column.task or None,
        "metric": one.column.metric or None,
        "score": list(one.column.score),
        "average": one.column.average,
    }


def to_markdown(result: Reproduction) -> str:
    """Comparisons by model, models that were not run, and why values may differ, as Markdown."""
    return documents.to_markdown([*parts_of(result, level=2)], _title(result.table), level=2)


def parts_of(result: Reproduction, level: int) -> Iterator[documents.Part]:
    """The summary, the tables and the lists of a report, with headings of that level."""
    yield from (summarise_reproduction(result), *_tables(result), *_lists(result, f"{'#' * level} {{}}\n\n"))


def print_reproduction(result: Reproduction) -> None:
    """Print the comparison."""
    documents.print_tables(
        [_title(result.table), *_tables(result), summarise_reproduction(result), *_lists(result, "\n{}\n")]
    )


def print_tables(status: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Print the names of the tables, and how many of their models can be run; see `reproduce.status`."""
    rows = [[name, *(str(len(names)) for names in models.values())] for name, models in status.items()]
    headers = ["table", *next(iter(status.values()))]
    table = simple_table(headers, rows, title="Models of each table, by what they need to be run here", numbers=True)
    documents.print_tables([table, "`vl-assay reproduce TABLE` names them; --json does so for all tables."])


def _title(table: Table) -> str:
    return f"{table.paper.short}, Table {table.number}: published and ours"


def summarise_reproduction(result: Reproduction) -> str:
    """How many published values lie inside our intervals or equal ours, and the largest difference, in sentences."""
    compared = [one for one in result.comparisons if one.difference is not None]
    if not result.table.is_comparable:
        return "Not comparable: the paper's values are of other data. None is counted."
    if not compared:
        return "No published value can be compared with one of ours."
    parts = []
    if with_interval := [one for one in compared if one.inside is not None]:
        inside, level = sum(bool(one.inside) for one in with_interval), 100 * result.options["confidence"]
        parts.append(
            f"{inside} of {len(with_interval)} published values lie inside our intervals ({level:g} %, over images)."
        )
    equal = sum(bool(one.equal) for one in compared)
    parts.append(f"{equal} of {len(compared)} published values equal ours to the last printed digit.")
    largest = max(compared, key=lambda one: abs(one.difference or 0.0))
    if not largest.equal:
        difference = _number(result.table, largest.difference, "+")
        parts.append(f"The largest difference is {difference} ({largest.row.name}, {largest.column.name}).")
    return " ".join(parts)


def _tables(result: Reproduction) -> Iterator[documents.Table]:
    """A table for each model; one for statistics of a dataset."""
    if result.table.is_statistics:
        columns = 4 if result.table.is_comparable else 3
        rows = [_statistic(one)[:columns] for one in result.comparisons]
        yield simple_table(("", "published", "ours", "equal")[:columns], rows, numbers=True)
        return
    for name, comparisons in groupby(result.comparisons, key=lambda one: one.row.name):
        rows = [_row(result.table, one) for one in comparisons]
        yield simple_table(_HEADERS, rows, title=name, numbers=True)


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
    """What there is to know of the comparison, in lists under headings."""
    for heading, items in (
        ("Failed", [f"{name}: {why}" for name, why in result.failed.items()]),
        ("Not run", [f"{name}: {why}" for name, why in result.not_run.items()]),
        ("Why values may differ", [*_notes(result)]),
        ("About our predictions", result.remarks),
    ):
        if items:
            yield layout.format(heading) + "\n".join(f"- {item}" for item in items)


def _notes(result: Reproduction) -> Iterator[str]:
    """The notes of the table, then those of the rows that were run."""
    yield from result.table.notes
    notes = {one.row.name: one.row.run.note for one in result.comparisons if one.row.run.note}
    yield from (f"{name}: {note}." for name, note in notes.items())
