"""The report of a reproduced table: published and our values in the terminal, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """A published value and ours; scores are fractions in [0, 1].

    Args:
        row, column: of the table; see `published.tables.Table` for which is which in the paper.
        printed: the value as it is printed.
        published: the same as a fraction.
        rounding: half of its last decimal.
        why: the reason if there is no value of ours.
        ours, interval, n, tie_rate: our score, its interval, number of examples, and share of examples with ties.
        deviation: standard deviation over seeds of the data, of which `ours` is then the mean.
        predictions: file and hash of each file of predictions that it was computed from.
        not_comparable: why the two are not compared, if so.
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
    not_comparable: str = ""

    @property
    def is_compared(self) -> bool:
        """Whether there is a value of ours that means the same as the published one."""
        return self.ours is not None and not self.not_comparable

    @property
    def difference(self) -> float | None:
        """Ours minus the published value."""
        return None if self.ours is None or self.not_comparable else self.ours - self.published

    @property
    def equal(self) -> bool | None:
        """Whether ours rounds to the published value; None without a comparison."""
        return None if self.difference is None else abs(self.difference) <= self.rounding + _FLOAT_ROUNDING

    @property
    def inside(self) -> bool | None:
        """Whether a number that rounds to the published one lies inside our interval; None without an interval."""
        if self.interval is None or self.not_comparable:
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
        marks: what stands next to the names of rows whose values are of a part only, such as one order of captions.
    """

    table: Table
    options: dict[str, Any]
    comparisons: list[Comparison]
    not_run: dict[str, str]
    failed: dict[str, str]
    remarks: list[str]
    marks: Mapping[str, str] = field(default_factory=dict)


def as_json(result: Reproduction) -> str:
    """`document` as JSON."""
    return json.dumps(document(result), indent=1, ensure_ascii=False, allow_nan=False)


def document(result: Reproduction) -> dict[str, Any]:
    """The comparisons with the sources of both values; scores are fractions in [0, 1]."""
    table = result.table
    return {
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
        "marks": dict(result.marks),
    }


def _entry(table: Table, one: Comparison) -> dict[str, Any]:
    row = " / ".join(filter(None, (one.row.group, one.row.label)))
    column = one.column.header or one.column.name
    if table.transposed:
        row, column = column, row
    fields = ("published", "ours", "interval", "deviation", "difference", "inside", "equal", "n", "tie_rate")
    return {
        "model": one.row.name,
        "paper": {"table": f"Table {table.number}", "row": row, "column": column, "printed": one.printed},
        **{name: getattr(one, name) for name in fields},
        "predictions": [dict(each) for each in one.predictions],
        "not_comparable": one.not_comparable or None,
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
    yield from (summary(result), *_tables(result), *_lists(result, f"{'#' * level} {{}}\n\n"))


def print_reproduction(result: Reproduction) -> None:
    """Print the comparison."""
    documents.print_tables([_title(result.table), *_tables(result), summary(result), *_lists(result, "\n{}\n")])


def _title(table: Table) -> str:
    return f"{table.paper.short}, Table {table.number}: published and ours"


def summary(result: Reproduction) -> str:
    """How many published values lie inside our intervals, or equal ours, and the largest difference, in sentences."""
    compared = [one for one in result.comparisons if one.is_compared]
    if not compared:
        why = result.table.not_comparable
        return f"Not comparable: {why}." if why else "No published value can be compared with one of ours."
    parts = []
    if with_interval := [one for one in compared if one.inside is not None]:
        inside = sum(bool(one.inside) for one in with_interval)
        level = f"{100 * result.options['confidence']:g} %, over images"
        parts.append(f"{inside} of {len(with_interval)} published values lie inside our intervals ({level}).")
    parts.append(f"{sum(bool(one.equal) for one in compared)} of {len(compared)} equal ours to the last printed digit.")
    largest = max(compared, key=lambda one: abs(one.difference or 0.0))
    if not all(one.equal for one in compared):
        is_count = result.table.is_statistics
        difference = f"{largest.difference:+,g}" if is_count else _number(result.table, largest.difference, "+")
        parts.append(f"The largest difference is {difference} ({largest.row.name}, {largest.column.name}).")
    return " ".join(parts)


def _tables(result: Reproduction) -> Iterator[documents.Table]:
    """A table for each model; one for statistics of a dataset."""
    if result.table.is_statistics:
        yield _statistics_table(result)
        return
    for name, comparisons in groupby(result.comparisons, key=lambda one: one.row.name):
        rows = [_row(result.table, one) for one in comparisons]
        mark = result.marks.get(name)
        yield simple_table(_HEADERS, rows, title=f"{name} ({mark})" if mark else name, numbers=True)


def _row(table: Table, one: Comparison) -> tuple[str, ...]:
    if one.ours is None:
        return one.column.name, one.printed, "–", one.why, "", ""
    ours = _number(table, one.ours)
    if one.deviation is not None:
        ours += f" ± {_number(table, one.deviation)}"
    interval = " – ".join(_number(table, end) for end in one.interval) if one.interval else "none"
    verdict = "not comparable" if one.not_comparable else _YES_NO[one.inside]
    return one.column.name, one.printed, ours, interval, _number(table, one.difference, "+"), verdict


def _statistics_table(result: Reproduction) -> documents.Table:
    """Printed and our statistics of a dataset, in one table."""
    rows = [
        (f"{one.column.name}, {one.row.name}", one.printed, _statistic(one), _YES_NO[one.equal])
        for one in result.comparisons
    ]
    return simple_table(("", "published", "ours", "equal"), rows, numbers=True)


def _statistic(one: Comparison) -> str:
    return one.why if one.ours is None else f"{one.ours:,.3f}".rstrip("0").rstrip(".")


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
