"""The initial content of the leaderboard: the papers' tables and the recomputed results of the demo models.

The values of the papers come from ``hub_datasets.published``, each with its address. ``models.csv`` describes the
models behind the papers' row labels, with one name for a checkpoint in all papers. Sizes are from SugarCrepe's Table 6,
whose architectures the other papers share, or from a model's name; training data are from that table, TRICD's Table 2
and the papers' texts. ``columns.csv`` places the columns of the papers that no task here scores.

The folder ``launch`` has the predictions of the demo models, and of two mocks as references, on toy_scenes, and the
results computed from them. ``tests/make_launch_predictions.py`` makes it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ...hub_datasets.published import tables
from ...metrics.common.model_sizes import parameter_count
from ...metrics.records.results import Result, read_results
from .entries import CHANCE, PUBLISHED, REFERENCE, BoardColumn, BoardEntry, of_results

SHIPPED = "shipped with VL-Assay"
RESULTS = Path(__file__).parents[1] / "launch" / "results.json"

_TRAINED = {"demo-clip": "80,000 toy scenes", "demo-owlvit": "19,200 toy scenes"}
_REFERENCES = {"Human": "Human", "Human Estimate": "Human", "Random Chance": CHANCE, "Chance-level": CHANCE}
# Names of references on the leaderboard, which no model may take.
RESERVED = (*dict.fromkeys([*_REFERENCES, *_REFERENCES.values()]), "Random")
# TRICD's test set is not public, so values on it are not comparable with those computed on the validation set.
_TEST_SET = ("tricd-3", "tricd-4", "tricd-5", "tricd-6")


def published() -> list[BoardEntry]:
    """Return every value of the papers' tables that the leaderboard shows, in the order of the tables.

    Values of people and of chance are references. ``source`` names paper, table, row and column as printed. Values
    after ± are left out, because they are a spread over seeds and not a confidence interval.
    """
    shown = [table for table in tables.all_tables().values() if table.on_leaderboard]
    return [entry for table in shown for row in table.rows for entry in _entries(table, row)]


@cache
def published_names() -> frozenset[str]:
    """Return the names that models, people and chance of the papers' tables have on the leaderboard."""
    return frozenset({entry.model for entry in published()} | {*RESERVED})


@cache
def shipped_results() -> list[Result]:
    """Return the results of the predictions that ship with this package, computed with ``submissions.OPTIONS``."""
    return read_results(RESULTS)


def shipped_predictions() -> dict[str, Path]:
    """Return the shipped predictions files by SHA-256."""
    return {result.predictions["sha256"]: RESULTS.with_name(result.predictions["file"]) for result in shipped_results()}


def shipped(submitted: Iterable[BoardEntry]) -> list[BoardEntry]:
    """Return the entries of the shipped predictions.

    If one of `submitted` has the name of a shipped model but other predictions, it may be another model, so the shipped
    one's name gets an addition.
    """
    entries: list[BoardEntry] = []
    for result in shipped_results():
        trained = {"training_data": _TRAINED.get(result.model["checkpoint"])}
        entries += of_results([result], model=trained, source=SHIPPED)
    shipped_models = {(entry.model, entry.predictions) for entry in entries}
    taken = {entry.model for entry in submitted if (entry.model, entry.predictions) not in shipped_models}
    return [replace(entry, model=f"{entry.model}, {SHIPPED}") if entry.model in taken else entry for entry in entries]


def model_of(table: tables.PublishedTable, row: tables.PublishedRow) -> dict[str, Any]:
    """Return the fields of an `BoardEntry` that describe the model behind a row of a table.

    Raises:
        KeyError: ``models.csv`` does not have the row's label.
    """
    if not row.run.is_model:
        return {"model": _REFERENCES[row.label]}
    return tables.of_row(_models(), table.name, row.name, row.label)


def place_of(table: tables.PublishedTable, column: tables.PublishedColumn) -> BoardColumn:
    """Return the leaderboard's column for a column of a table.

    Raises:
        KeyError: no task scores the column and ``columns.csv`` does not have it.
    """
    if not column.task:
        return _columns()[table.name, column.name]
    benchmark, _, task = column.task.partition("/")
    *path, score = column.score
    return BoardColumn(benchmark, "test" if table.name in _TEST_SET else task, column.metric, score, (path or [""])[-1])


def _entries(table: tables.PublishedTable, row: tables.PublishedRow) -> Iterator[BoardEntry]:
    for column, printed in table.cells(row):
        line, header = table.address(row, column)
        yield BoardEntry(
            **model_of(table, row),
            **place_of(table, column)._asdict(),
            value=tables.number(printed) / table.unit,
            n=column.n,
            origin=PUBLISHED if row.run.is_model else REFERENCE,
            source=f"{table.paper.short}, Table {table.number}, row {line}, column {header}",
            status="published",
        )


@cache
def _models() -> dict[str, dict[str, Any]]:
    """Return the papers' models by row labels, such as ``"aro/NegCLIP"``."""
    models: dict[str, dict[str, Any]] = {}
    for line in tables.read_csv(Path(__file__).with_name("models.csv")):
        facts = {"parameters": parameter_count(line["parameters"]), "is_baseline": bool(line["is_baseline"])}
        models |= dict.fromkeys(line.pop("labels").split(", "), line | facts)
    return models


@cache
def _columns() -> dict[tuple[str, str], BoardColumn]:
    lines = tables.read_csv(Path(__file__).with_name("columns.csv"))
    return {(line.pop("table"), line.pop("column")): BoardColumn(**line) for line in lines}
