"""The tables of the papers that `reproduce` compares with: their printed values, models, and settings for scoring here.

The data are next to this file:

| file               | content |
|---|---|
| tables.yaml        | the papers; number, unit and notes of each table |
| columns.csv        | the columns of each table; see `PublishedColumn` |
| models.csv         | how the models are scored here; see `Run` |
| values/<table>.csv | what the table prints: a line for each row, with its group and label |
| inventory.csv      | every table and figure of the papers, and where it can be had; see `inventory` |

Values are stored as printed; we measured none of them. The checkpoint of a row comes from the paper's text or its
authors' code; if neither names it, the row has a note. `models.csv` names the rows of a model ``paper/label``, or more
specifically ``paper/name`` or ``table/label``.

Some tables are statistics of a dataset. Their rows are parts of it, of the category that `Run.settings` names, and
their columns have the average ``"statistic"`` and no metric.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

import yaml

from ...metrics.common.errors import check_known
from ..core.benchmarks import suites_of

SUITE = "suite"
NOTHING = "-"  # a cell without a value
STATISTIC = "statistic"
T = TypeVar("T")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Paper:
    """A paper: its title, and what to call it in a line."""

    title: str
    short: str


@dataclass(frozen=True)
class PublishedColumn:
    """A score that a table prints for each model.

    Args:
        name: its name, unique in the table.
        task: benchmark and task, such as ``"sugarcrepe/itm"``; empty if no benchmark here has it.
        metric: the metric that computes it.
        score: its path in the metric's result, such as ``("per_category", "swap_obj", "accuracy")``.
        average: ``"category"``, over the examples of one category; ``"micro"``, over all examples; ``"macro"``, the
            unweighted mean over categories; ``"suite"``, that over the tasks of a suite (`task` names it, see
            ``core.benchmarks``); ``"curve"``, one precision-recall curve over all examples;
            ``"statistic"``, none: the score names a property of the dataset, such as ``("words",)``.
        n: number of examples, if the paper prints it.
        reason: why it cannot be computed here, where `task` is empty.
        header: the header in the paper, if it differs from the name.
    """

    name: str
    task: str = ""
    metric: str = ""
    score: tuple[str, ...] = ()
    average: str = "category"
    n: int | None = None
    reason: str = ""
    header: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the tasks whose results the column needs: one task, all tasks of a suite, or an empty tuple."""
        if self.average != SUITE:
            return (self.task,) if self.task else ()
        benchmark, name = self.task.split("/")
        return tuple(f"{benchmark}/{task}" for task in suites_of(benchmark)[name])


@dataclass(frozen=True)
class Run:
    """The run that scores the model of a row.

    Args:
        model: its name as `load_model` takes it; empty if no family loads it.
        settings: of its family.
        weights: what the user must download: a file of weights, which becomes the setting ``pretrained``; or, where
            `model` ends in a colon, what completes it: a file of weights or the folder of released answers.
        source: where to download it.
        reason: why no family loads it.
        note: what is uncertain about it.
        is_model: False for people and for chance.
        ties: the tie policy of its values where predictions are means over several orders of the captions.
    """

    model: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""
    source: str = ""
    reason: str = ""
    note: str = ""
    is_model: bool = True
    ties: str = ""


@dataclass(frozen=True)
class PublishedRow:
    """The row of one model in a published table.

    Args:
        name: the row's label, with its group if the table has the label more than once.
        label, group: as printed; not every table has groups.
        printed: the values in the order of the columns, `NOTHING` for an empty cell.
        run: how the model is scored here.
    """

    name: str
    label: str
    group: str
    printed: tuple[str, ...]
    run: Run

    @property
    def folder(self) -> str:
        """The name of the folder with its predictions."""
        return re.sub(r"[^\w.+-]+", "-", self.name).strip("-.")


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    Args:
        name: its name here, such as ``"sugarcrepe-6"``.
        paper, number: the paper that prints it, and its number.
        unit: what it prints for a score of 1: 100 if it prints per cent.
        decimals: how many it prints; a zero at the end may be left out.
        columns, rows: scores and models; in the paper it is the other way round where `transposed`.
        notes: why our values may differ.
        is_comparable: False if the paper uses other data, so that its values are not compared with ours.
        on_leaderboard: whether the leaderboard shows it.
    """

    name: str
    paper: Paper
    number: int
    unit: int
    decimals: int
    columns: tuple[PublishedColumn, ...]
    rows: tuple[PublishedRow, ...]
    notes: tuple[str, ...]
    transposed: bool = False
    is_comparable: bool = True
    on_leaderboard: bool = True

    def tasks(self, row: PublishedRow) -> list[str]:
        """Return the tasks for which a row has values, like ``["hard_positives/replace", "hard_positives/swap"]``."""
        return list(dict.fromkeys(task for column, _ in self.cells(row) for task in column.tasks))

    def cells(self, row: PublishedRow) -> list[tuple[PublishedColumn, str]]:
        """Return the columns in which a row has a value, each with the value as printed."""
        return [cell for cell in zip(self.columns, row.printed, strict=True) if cell[1] != NOTHING]

    def values(self, row: PublishedRow) -> dict[str, float]:
        """Return the printed values of a row as numbers, by column."""
        return {column.name: number(printed) for column, printed in self.cells(row)}

    def address(self, row: PublishedRow, column: PublishedColumn) -> tuple[str, str]:
        """Return the labels of row and column of a value, as they stand in the paper."""
        line, header = " / ".join(filter(None, (row.group, row.label))), column.header or column.name
        return (header, line) if self.transposed else (line, header)

    @property
    def metrics(self) -> set[str]:
        """The metrics that compute its columns."""
        return {column.metric for column in self.columns if column.metric}

    @property
    def is_statistics(self) -> bool:
        """Return whether it describes a dataset, and no models."""
        return all(column.average == STATISTIC for column in self.columns)

    def why_not(self) -> str:
        """Return why no value of the table can be computed here; empty if some can."""
        if any(column.task for column in self.columns):
            return ""
        return "; ".join(dict.fromkeys(column.reason for column in self.columns))


def number(printed: str) -> float:
    """Return a printed value as a number, without its deviation."""
    return float(printed.partition("±")[0].replace(",", ""))


@cache
def all_tables() -> Mapping[str, PublishedTable]:
    """Return all tables by name, grouped by paper."""
    described = yaml.safe_load((_FOLDER / "tables.yaml").read_text("utf-8"))
    columns: dict[str, list[PublishedColumn]] = {}
    for line in read_csv(_FOLDER / "columns.csv"):
        number = {"n": int(line["n"]) if line["n"] else None}
        facts = {**line, **number, "score": tuple(filter(None, line["score"].split("/")))}
        columns.setdefault(facts.pop("table"), []).append(PublishedColumn(**facts))
    runs = _runs()
    tables = {}
    for name, facts in described["tables"].items():
        paper = name.rpartition("-")[0]
        tables[name] = PublishedTable(
            name=name,
            paper=Paper(**described["papers"][paper]),
            columns=tuple(columns[name]),
            rows=tuple(_rows(name, runs)),
            **{**facts, "notes": tuple(described["notes"].get(note, note) for note in facts["notes"])},
        )
    return tables


def get_table(name: str) -> PublishedTable:
    """Return the table of a name.

    Raises:
        UnknownNameError: no table has that name; the message lists the known names.
    """
    check_known("table", [name], all_tables())
    return all_tables()[name]


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _runs() -> dict[str, Run]:
    """Return the runs that score the models of rows, by the names of the rows in ``models.csv``."""
    found = {}
    for facts in read_csv(_FOLDER / "models.csv"):
        rows = facts.pop("rows").split(", ")
        settings = dict(setting.split("=") for setting in facts.pop("settings").split())
        is_model = facts.pop("is_model") != "no"
        found |= dict.fromkeys(rows, Run(settings=settings, is_model=is_model, **facts))
    return found


def _rows(table: str, runs: Mapping[str, Run]) -> Iterator[PublishedRow]:
    lines = read_csv(_FOLDER / "values" / f"{table}.csv")
    counts = Counter(line["label"] for line in lines)
    for line in lines:
        group, label, *printed = line.values()
        name = f"{label} ({group})" if counts[label] > 1 else label
        yield PublishedRow(name, label, group, tuple(printed), of_row(runs, table, name, label))


def of_row(described: Mapping[str, T], table: str, name: str, label: str) -> T:
    """Return the description of a row, found by ``table/label``, ``paper/name`` or ``paper/label``.

    Raises:
        KeyError: no description has one of these names.
    """
    paper = table.rpartition("-")[0]
    keys = (f"{table}/{label}", f"{paper}/{name}", f"{paper}/{label}")
    return described[next((key for key in keys if key in described), keys[-1])]
