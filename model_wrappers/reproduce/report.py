"""What comes of reproducing a table, for people and for programs: terminal, Markdown, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ...hub_datasets.published.tables import Column, Row, Table, all_tables
from ...metrics.common.storage import write_text
from ...metrics.records.results import code_version

SCHEMA = "vl-assay/reproduction"
VERSION = 1
_HEADERS = ("", "published", "ours", "interval", "difference", "inside")
# Far below half of the last decimal that any table prints.
_FLOAT_ROUNDING = 1e-12


@dataclass(frozen=True)
class Comparison:
    """A value that a table prints, and ours; scores are fractions in [0, 1].

    Args:
        row, column: of the table; see ``hub_datasets._published.Table`` for which is which in the paper.
        printed: the value as it is printed.
        published: the same as a fraction.
        rounding: half of its last decimal.
        why: why there is none of ours, where there is none.
        ours, interval, n, tie_rate: our score, its interval, its number of examples, and the share that ties decide.
        predictions: file and hash of the predictions file that ours was computed from.
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
    predictions: Mapping[str, str] | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus the published."""
        return None if self.ours is None else self.ours - self.published

    @property
    def inside(self) -> bool | None:
        """Whether a number that rounds to the published one lies inside our interval; None where there is none."""
        if self.interval is None:
            return None
        low, high = self.interval
        margin = self.rounding + _FLOAT_ROUNDING
        return low - margin <= self.published <= high + margin


@dataclass(frozen=True)
class Reproduction:
    """What came of a table.

    Args:
        table: the table.
        options: how ours was computed.
        comparisons: a value each, by row.
        not_run: why rows of models were not run, by name.
        failed: why models could not be loaded, by the row's name.
        remarks: what is particular about our predictions.
    """

    table: Table
    options: dict[str, Any]
    comparisons: list[Comparison]
    not_run: dict[str, str]
    failed: dict[str, str]
    remarks: list[str]


def write_reproduction(result: Reproduction, folder: Path) -> list[Path]:
    """Write ``<table>.json`` and ``<table>.md`` into a folder, each atomically; their paths."""
    paths = [folder / f"{result.table.name}.{ending}" for ending in ("json", "md")]
    for path, content in zip(paths, (as_json(result), to_markdown(result)), strict=True):
        write_text(path, content.rstrip() + "\n")
    return paths


def as_json(result: Reproduction) -> str:
    """The comparisons with everything that tells where each number is from; scores are fractions in [0, 1]."""
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


def to_markdown(result: Reproduction) -> str:
    """Tables by model, what was not run, and why values may differ, as Markdown."""
    lines = [f"# {title(result.table)}", "", summary(result), ""]
    for name, cells in _by_model(result):
        lines += [f"## {name}", "", "| " + " | ".join(_HEADERS) + " |", "|---|" + "---:|" * (len(_HEADERS) - 1)]
        for one in cells:
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in _line(result.table, one)) + " |")
        lines.append("")
    for heading, items in _lists(result):
        lines += [f"## {heading}", "", *(f"- {item}" for item in items), ""]
    return "\n".join(lines)


def print_reproduction(result: Reproduction) -> None:
    """Print the same to the terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    console = Console(highlight=False)
    grid = Grid(title=escape(title(result.table)), title_justify="left")
    for header in _HEADERS:
        grid.add_column(header, justify="right" if header else "left")
    for name, cells in _by_model(result):
        grid.add_section()
        grid.add_row(f"[bold]{escape(name)}[/]")
        for one in cells:
            grid.add_row(*map(escape, _line(result.table, one)))
    console.print(grid)
    console.print(summary(result), markup=False, soft_wrap=True)
    for heading, items in _lists(result):
        console.print(f"\n[bold]{heading}[/]")
        for item in items:
            console.print(f"- {item}", markup=False, soft_wrap=True)


def print_tables(status: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Print which tables there are, and how many of their models can be run; see ``_reproduce.status``."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title="Models of each table, by what they need to be run here", title_justify="left")
    for header in ("table", "benchmark"):
        grid.add_column(header, no_wrap=True)
    for need in next(iter(status.values())):
        grid.add_column(need, justify="right")
    for name, models in status.items():
        [benchmark] = {column.task.partition("/")[0] for column in all_tables()[name].columns if column.task}
        grid.add_row(name, benchmark, *(str(len(names)) for names in models.values()))
    console = Console(highlight=False)
    console.print(grid)
    console.print("`vl-assay reproduce TABLE` names them; --json does so for all tables.", markup=False)


def title(table: Table) -> str:
    """What is compared, in a line."""
    return f"{table.paper.short}, Table {table.number}: published and ours"


def summary(result: Reproduction) -> str:
    """How many values agree, and the largest difference, in two sentences."""
    compared = [one for one in result.comparisons if one.ours is not None]
    judged = [one for one in compared if one.inside is not None]
    if not compared:
        return "None of the published values has one of ours beside it."
    inside = sum(bool(one.inside) for one in judged)
    far = max(compared, key=lambda one: abs(one.difference or 0.0))
    return (
        f"{inside} of {len(judged)} published values lie inside our intervals "
        f"({100 * result.options['confidence']:g} %, over images). The largest difference is "
        f"{_signed(result.table, far.difference)} ({far.row.name}, {far.column.name})."
    )


def _entry(table: Table, one: Comparison) -> dict[str, Any]:
    row = " / ".join(filter(None, (one.row.group, one.row.label)))
    column = one.column.header or one.column.name
    if table.transposed:
        row, column = column, row
    return {
        "model": one.row.name,
        "paper": {"table": f"Table {table.number}", "row": row, "column": column, "printed": one.printed},
        "published": one.published,
        "ours": one.ours,
        "interval": one.interval,
        "difference": one.difference,
        "inside": one.inside,
        "why_not": one.why or None,
        "n": one.n,
        "published_n": one.column.n,
        "tie_rate": one.tie_rate,
        "task": one.column.task or None,
        "metric": one.column.metric or None,
        "score": list(one.column.score),
        "average": one.column.average,
        "predictions": one.predictions,
    }


def _by_model(result: Reproduction) -> Iterator[tuple[str, list[Comparison]]]:
    for name, cells in groupby(result.comparisons, key=lambda one: one.row.name):
        yield name, list(cells)


def _lists(result: Reproduction) -> Iterator[tuple[str, list[str]]]:
    for heading, items in (
        ("Failed", [f"{name}: {why}" for name, why in result.failed.items()]),
        ("Not run", [f"{name}: {why}" for name, why in result.not_run.items()]),
        ("Why values may differ", [*_notes(result)]),
        ("About our predictions", result.remarks),
    ):
        if items:
            yield heading, items


def _notes(result: Reproduction) -> Iterator[str]:
    """Those of the table, then those of the rows that were run."""
    yield from result.table.notes
    noted = {one.row.name: one.row.run.note for one in result.comparisons if one.row.run.note}
    yield from (f"{name}: {note}." for name, note in noted.items())


def _line(table: Table, one: Comparison) -> tuple[str, ...]:
    if one.ours is None:
        return one.column.name, one.printed, "–", one.why, "", ""
    interval = " – ".join(_number(table, end) for end in one.interval) if one.interval else "none"
    inside = {True: "yes", False: "no", None: ""}[one.inside]
    return one.column.name, one.printed, _number(table, one.ours), interval, _signed(table, one.difference), inside


def _number(table: Table, value: float, sign: str = "") -> str:
    return f"{value * table.unit:{sign}.{table.decimals + 1}f}"


def _signed(table: Table, value: float | None) -> str:
    return "" if value is None else _number(table, value, "+")
