"""Published values of a table next to ours, and the report that shows both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ...hub_datasets.core.benchmarks import get_task, suites_of
from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.core.examples import Example, load_examples
from ...hub_datasets.published.tables import SUITE, PublishedColumn, PublishedRow, PublishedTable, number
from ...hub_datasets.sources.availability import check_sources
from ...metrics.common import documents
from ...metrics.common.documents import Document, Part, bullets, simple_table
from ...metrics.common.storage import write_text
from ...metrics.records.results import Result, code_version
from ...metrics.results.suites import suite_means

SCHEMA, VERSION = "vl-assay/reproduction", 2
STATISTICS: dict[str, Callable[[Sequence[Example]], float]] = {
    "pairs": len,
    "images": lambda examples: len({image for example in examples for image in example.images}),
    # Strings between single spaces, as TRICD's Table 7 counts words: a trailing space adds an empty one.
    "words": lambda examples: len(
        {word for example in examples for text in example.captions for word in text.split(" ")}
    ),
    "words_per_caption": lambda examples: fmean(len(text.split()) for example in examples for text in example.captions),
    "phrases": lambda examples: len({phrase.text for example in examples for phrase in example.phrases}),
    "phrases_per_image": lambda examples: fmean(len(example.phrases) for example in examples),
    "boxes": lambda examples: sum(len(phrase.boxes) for example in examples for phrase in example.phrases),
    # Phrases of a negative row have no box.
    "boxes_per_phrase": lambda examples: fmean(
        len(phrase.boxes) for example in examples for phrase in example.phrases if phrase.boxes
    ),
}
_YES_NO: Mapping[bool | None, str] = {True: "yes", False: "no", None: ""}
# Far below half of the last decimal that any table prints.
_FLOAT_ROUNDING = 1e-12


@dataclass(frozen=True)
class ValueComparison:
    """A published value and ours; scores are fractions in [0, 1], statistics of a dataset are counts or means.

    Args:
        row, column: of the table; see `published.tables.Table` for their place in the paper.
        printed, published: the published value as printed, and on the scale of `ours`.
        ours: our value; None with a reason in `why`.
        interval, n, tie_rate: the interval of `ours`, its number of examples, and the share of examples with ties.
        deviation: standard deviation over seeds of the data; `ours` is then the mean.
        difference: our value minus the published one; None without `ours`, or if the values are of different data.
        equal: True if our value rounds to the published one; None without a difference.
        inside: True if `interval` contains a value that rounds to the published one; None without it or a difference.
        predictions: file and hash of each file of predictions that `ours` was computed from.
    """

    row: PublishedRow
    column: PublishedColumn
    printed: str
    published: float
    why: str = ""
    ours: float | None = None
    interval: tuple[float, float] | None = None
    n: int | None = None
    tie_rate: float | None = None
    deviation: float | None = None
    difference: float | None = None
    equal: bool | None = None
    inside: bool | None = None
    predictions: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Reproduction(Document):
    """The comparison of a table.

    Args:
        table: the table.
        comparisons: one for each published value, by row.
        options: tie policy and confidence of our values.
        not_run: the reason for each model that was not run.
        failed: the error for each model that could not be loaded, by the row's name.
        remarks: properties of our predictions that affect the values.
    """

    table: PublishedTable
    comparisons: list[ValueComparison]
    options: Mapping[str, Any] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """The notes of the table, followed by the notes of the rows that were run."""
        by_row = {value.row.name: value.row.run.note for value in self.comparisons if value.row.run.note}
        return [*self.table.notes, *(f"{name}: {note}." for name, note in by_row.items())]

    def summary(self) -> str:
        """Count the published values that lie inside our intervals or equal ours, and name the largest difference."""
        if not self.table.is_comparable:
            return "Not comparable: the paper's values are of other data. None is counted."
        compared = [value for value in self.comparisons if value.difference is not None]
        if not compared:
            return "No published value can be compared with one of ours."
        sentences = []
        if inside := [value.inside for value in compared if value.inside is not None]:
            level = f"{100 * self.options['confidence']:g} %, over images"
            sentences.append(f"{sum(inside)} of {len(inside)} published values lie inside our intervals ({level}).")
        equal = sum(bool(value.equal) for value in compared)
        sentences.append(f"{equal} of {len(compared)} published values equal ours to the last printed digit.")
        largest = max(compared, key=lambda value: abs(value.difference or 0.0))
        if not largest.equal:
            difference = self._text(largest.difference, "+")
            sentences.append(f"The largest difference is {difference} ({largest.row.name}, {largest.column.name}).")
        return " ".join(sentences)

    def parts(self) -> list[Part]:
        """Return the summary, the tables, and a list of failures, models that were not run, and reasons to differ."""
        lists = {
            "Failed": [f"{name}: {why}" for name, why in self.failed.items()],
            "Not run": [f"{name}: {why}" for name, why in self.not_run.items()],
            "Why values may differ": self.notes,
            "Our predictions": self.remarks,
        }
        sentences = [f"{title}: {item}" for title, items in lists.items() for item in items]
        return [self.summary(), *self._tables(), *bullets(sentences)]

    def data(self) -> list[dict[str, Any]]:
        """Return an entry for each published value, with its place in the paper and ours; scores are in [0, 1]."""
        return [self._entry(value) for value in self.comparisons]

    def print(self) -> None:
        """Print the report to the terminal."""
        documents.print_tables([self._title, *self.parts()])

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return documents.to_markdown(self.parts(), self._title, level=2)

    def to_json(self) -> str:
        """Return the comparisons with the sources of both values; scores are fractions in [0, 1]."""
        table = self.table
        document = {
            "schema": SCHEMA,
            "version": VERSION,
            "code": code_version(),
            "table": {"name": table.name, "paper": table.paper.title, "number": table.number},
            "options": self.options,
            "comparisons": self.data(),
            **{name: getattr(self, name) for name in ("not_run", "failed", "notes", "remarks")},
        }
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)

    def write(self, folder: Path) -> None:
        """Write the report to a folder as ``<table>.json`` and ``<table>.md``."""
        write_text(folder / f"{self.table.name}.json", self.to_json() + "\n")
        write_text(folder / f"{self.table.name}.md", self.to_markdown())

    @property
    def _title(self) -> str:
        return f"{self.table.paper.short}, Table {self.table.number}: published and ours"

    def _tables(self) -> Iterator[documents.Table]:
        """Return a table for each model, or one table for statistics of a dataset."""
        if self.table.is_statistics:
            columns = 4 if self.table.is_comparable else 3
            rows = []
            for value in self.comparisons:
                ours = value.why if value.ours is None else f"{value.ours:,.3f}".rstrip("0").rstrip(".")
                rows.append(
                    (f"{value.column.name}, {value.row.name}", value.printed, ours, _YES_NO[value.equal])[:columns]
                )
            yield simple_table(("", "published", "ours", "equal")[:columns], rows, numbers=True)
            return
        headers = ("", "published", "ours", "interval", "difference", "inside")
        for name, comparisons in groupby(self.comparisons, key=lambda value: value.row.name):
            yield simple_table(headers, [*map(self._cells, comparisons)], title=name, numbers=True)

    def _cells(self, value: ValueComparison) -> tuple[str, ...]:
        if value.ours is None:
            return value.column.name, value.printed, "–", value.why, "", ""
        ours = self._text(value.ours) + (f" ± {self._text(value.deviation)}" if value.deviation is not None else "")
        interval = " – ".join(map(self._text, value.interval)) if value.interval else "none"
        inside = "not comparable" if value.difference is None else _YES_NO[value.inside]
        return value.column.name, value.printed, ours, interval, self._text(value.difference, "+"), inside

    def _text(self, value: float | None, sign: str = "") -> str:
        """Format a value with one decimal more than the table prints."""
        return "" if value is None else f"{value * self.table.unit:{sign}.{self.table.decimals + 1}f}"

    def _entry(self, value: ValueComparison) -> dict[str, Any]:
        row, column = self.table.address(value.row, value.column)
        names = ("published", "ours", "interval", "deviation", "difference", "inside", "equal", "n", "tie_rate")
        return {
            "model": value.row.name,
            "paper": {"table": f"Table {self.table.number}", "row": row, "column": column, "printed": value.printed},
            **{name: getattr(value, name) for name in names},
            "predictions": [dict(run) for run in value.predictions],
            "why_not": value.why or None,
            "published_n": value.column.n,
            "task": value.column.task or None,
            "metric": value.column.metric or None,
            "score": list(value.column.score),
            "average": value.column.average,
        }


def compare(table: PublishedTable, row: PublishedRow, results: Sequence[Result]) -> list[ValueComparison]:
    """Compare the published values of a row with results; results that differ only in the data's seed are averaged."""
    return [
        compare_value(table, row, column, printed, **our_value(column, results)) for column, printed in table.cells(row)
    ]


def compare_value(
    table: PublishedTable,
    row: PublishedRow,
    column: PublishedColumn,
    printed: str,
    *,
    ours: float | None = None,
    interval: tuple[float, float] | None = None,
    is_comparable: bool = True,
    **fields: Any,
) -> ValueComparison:
    """Compare a published value with ours; `is_comparable` is False if ours is of other data, `fields` are the rest."""
    published = number(printed) / table.unit
    margin = 0.5 * 10**-table.decimals / table.unit + _FLOAT_ROUNDING
    if ours is not None and is_comparable and table.is_comparable:
        fields |= {"difference": ours - published, "equal": abs(ours - published) <= margin}
        if interval:
            fields["inside"] = interval[0] - margin <= published <= interval[1] + margin
    return ValueComparison(row, column, printed, published, ours=ours, interval=interval, **fields)


def compare_statistics(
    table: PublishedTable, data_dir: str | Path | None, options: Mapping[str, Any] | None
) -> Reproduction:
    """Compare the printed statistics of a dataset with ours; `data_dir` and `options` as for `examples_of`.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    tasks = dict.fromkeys(column.task for column in table.columns)
    examples = {task: examples_of(task, data_dir, options) for task in tasks}
    comparisons = []
    for row in table.rows:
        category = row.run.settings.get("category")
        for column, printed in table.cells(row):
            examples_of_column = [example for example in examples[column.task] if category in (None, example.category)]
            value = float(STATISTICS[column.score[0]](examples_of_column)) if examples_of_column else None
            why = "" if examples_of_column else f"the data have no {category} part"
            comparisons.append(
                compare_value(table, row, column, printed, ours=value, n=len(examples_of_column), why=why)
            )
    return Reproduction(table, comparisons)


def examples_of(task: str, data_dir: str | Path | None, options: Mapping[str, Any] | None) -> list[Example]:
    """Load the examples of a task, without images.

    Args:
        task: benchmark and task.
        data_dir: the user's copy of the sources, or a folder with one for each benchmark.
        options: fields of the builder's configuration.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    folder = sources_folder(task.partition("/")[0], data_dir)
    check_sources([task], data_dir=folder, options=options)
    [loaded] = load_examples(task, data_dir=folder, options=options, needs_images=False)
    return loaded.examples


def our_value(column: PublishedColumn, results: Sequence[Result]) -> dict[str, Any]:
    """Return the arguments of `compare_value` with our value of a column, or `why` there is no value."""
    is_suite = column.average == SUITE
    if not column.task:
        return {"why": column.reason}
    if not (matching := _results_of(column, results)):
        return {"why": f"no predictions of {'any set of ' * is_suite}{column.task}"}
    if is_suite:
        mean = suite_means(matching, suites_of)[0]
        ours = mean.scores.get(column.score[0], math.nan)
        if math.isnan(ours):
            return {"why": f"the sets of {column.task} that were run do not have the score"}
        files = {result.predictions["sha256"]: result.predictions for result in matching}
        return {"ours": ours, "predictions": [*files.values()], **({"is_comparable": False} if mean.lacking else {})}
    lacking = set(get_task(*column.task.split("/")).configs) - set(matching[0].benchmark.get("configs", ()))
    if lacking and column.average != "category":
        return {"why": f"the predictions lack {', '.join(sorted(lacking))}"}
    *path, name = column.score
    # A part without a number of examples has that of the part around it.
    parts = [reduce(lambda part, key: {"n": part.get("n"), **part.get(key, {})}, path, r.scores) for r in matching]
    values = [category[name] for category in parts if category.get(name) is not None]
    if len(values) < len(parts):
        return {"why": "the predictions have no such examples"}
    # An interval is over images of one draw of the data; several draws have a deviation.
    interval = parts[0].get(f"{name}_interval") if len(parts) == 1 else None
    return {
        "ours": fmean(values),
        "interval": interval and (interval[0], interval[1]),
        "deviation": stdev(values) if len(values) > 1 else None,
        "n": parts[0].get("n"),
        "tie_rate": parts[0].get("tie_rate"),
        "predictions": [result.predictions for result in matching],
    }


def _results_of(column: PublishedColumn, results: Sequence[Result]) -> list[Result]:
    """Return the results of a column's tasks and metric; a task has several if its data have several seeds."""
    return [result for result in results if result.metric == column.metric and _task(result) in column.tasks]


def _task(result: Result) -> str:
    return f"{result.benchmark['name']}/{result.benchmark['task']}"


def remarks(by_row: Mapping[str, Sequence[Result]], comparisons: Sequence[ValueComparison]) -> Iterator[str]:
    """Describe our predictions: other numbers of examples, missing images, ties, precision, activations.

    `by_row` has the results of each row, by the row's name.
    """
    counts = {(value.column.name, value.n, value.column.n) for value in comparisons if value.n and value.column.n}
    for column, n, published in sorted(counts):
        if n != published:
            yield f"{column}: {n:,} examples here, {published:,} in the paper."
    suites = {value.column.task: value.column for value in comparisons if value.column.average == SUITE}
    for name, results in by_row.items():
        for task, column in suites.items():
            for mean in suite_means(_results_of(column, results), suites_of)[:1]:
                if mean.lacking:
                    sets = f"{len(mean.found)} of {len(column.tasks)} sets of {task}"
                    yield f"{name}: mean over {sets}, without {', '.join(mean.lacking)}."
        if facts := list(dict.fromkeys(fact for result in results for fact in _facts(result))):
            yield f"{name}: {'; '.join(facts)}."


def _facts(result: Result) -> Iterator[str]:
    task, run, settings = _task(result), result.run, result.model.get("settings") or {}
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples of {task} lack their image"
    if ties := result.scores.get("tie_rate"):
        yield f"ties decide {100 * ties:.2g} % of {task} and count as {result.options.get('ties')} ({result.metric})"
    if run.get("orders") == 1:
        yield "answers to one order of the captions alone"
    if run.get("truncated_captions"):
        yield f"{run['truncated_captions']:,} captions were truncated"
    if (dtype := result.model.get("dtype")) in ("float16", "bfloat16"):
        yield f"scored in {dtype}"
    if settings.get("activation_mismatch") == "yes":
        yield f"computed with {settings['activation']}, which its weights were not trained with"
