"""Published values of a table, each with ours: from results of models, or from the rows of a dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ...hub_datasets.core.benchmarks import get_task, suites_of
from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.core.examples import Example, load_examples
from ...hub_datasets.core.network import check_sources
from ...hub_datasets.published.tables import SUITE, Column, Row, Table, number
from ...metrics.evaluation import suite_means
from ...metrics.records.results import Result

Options = Mapping[str, Any] | None
STATISTICS: dict[str, Callable[[Sequence[Example]], float]] = {
    "pairs": len,
    "images": lambda examples: len({image for example in examples for image in example.images}),
    # Strings between single spaces, as TRICD's Table 7 counts words: a trailing space adds an empty one.
    "words": lambda examples: len({word for each in examples for text in each.captions for word in text.split(" ")}),
    "words_per_caption": lambda examples: fmean(len(text.split()) for each in examples for text in each.captions),
    "phrases": lambda examples: len({phrase.text for example in examples for phrase in example.phrases}),
    "phrases_per_image": lambda examples: fmean(len(example.phrases) for example in examples),
    "boxes": lambda examples: sum(len(phrase.boxes) for example in examples for phrase in example.phrases),
    # Phrases of a negative row have no box.
    "boxes_per_phrase": lambda examples: fmean(
        len(phrase.boxes) for example in examples for phrase in example.phrases if phrase.boxes
    ),
}
# Far below half of the last decimal that any table prints.
_FLOAT_ROUNDING = 1e-12


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
        is_comparable: False if the published value is of other data.
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
        """Our value minus the published one; None if one is missing or they are of other data."""
        return self.ours - self.published if self.ours is not None and self.is_comparable else None

    @property
    def equal(self) -> bool | None:
        """True if our value rounds to the published one; None without a difference."""
        return None if self.difference is None else abs(self.difference) <= self.rounding + _FLOAT_ROUNDING

    @property
    def inside(self) -> bool | None:
        """True if a value that rounds to the published one is in our interval; None without interval, or other data."""
        if self.interval is None or not self.is_comparable:
            return None
        margin = self.rounding + _FLOAT_ROUNDING
        return self.interval[0] - margin <= self.published <= self.interval[1] + margin


def compare(table: Table, row: Row, results: Sequence[Result]) -> list[Comparison]:
    """Return the published values of a row, each with ours: their mean if the data have several seeds."""
    return [replace(cell, **_ours(cell.column, results)) for cell in _published(table, row)]


def _published(table: Table, row: Row) -> Iterator[Comparison]:
    rounding = 0.5 * 10**-table.decimals / table.unit
    for column, printed in table.cells(row):
        published = number(printed) / table.unit
        yield Comparison(row, column, printed, published, rounding, is_comparable=table.is_comparable)


def _ours(column: Column, results: Sequence[Result]) -> dict[str, Any]:
    """Return the fields of a `Comparison` with our value of a column, or `why` there is no value."""
    is_suite = column.average == SUITE
    if not column.task:
        return {"why": column.reason}
    if not (own := _results_of(column, results)):
        return {"why": f"no predictions of {'any set of ' * is_suite}{column.task}"}
    if is_suite:
        mean = suite_means(own, suites_of)[0]
        ours = mean.scores.get(column.score[0], math.nan)
        if math.isnan(ours):
            return {"why": f"the sets of {column.task} that were run do not have the score"}
        files = {each.predictions["sha256"]: each.predictions for each in own}
        return {"ours": ours, "predictions": [*files.values()], **({"is_comparable": False} if mean.lacking else {})}
    lacking = set(get_task(*column.task.split("/")).configs) - set(own[0].benchmark.get("configs", ()))
    if lacking and column.average != "category":
        return {"why": f"the predictions lack {', '.join(sorted(lacking))}"}
    *path, name = column.score
    # A part without a number of examples has that of the part around it.
    parts = [reduce(lambda part, key: {"n": part.get("n"), **part.get(key, {})}, path, each.scores) for each in own]
    values = [part[name] for part in parts if part.get(name) is not None]
    if len(values) < len(parts):
        return {"why": "the predictions have no such examples"}
    # An interval is over images, and of one draw of the data; several draws have a deviation.
    interval = parts[0].get(f"{name}_interval") if len(parts) == 1 else None
    return {
        "ours": fmean(values),
        "interval": interval and (interval[0], interval[1]),
        "deviation": stdev(values) if len(values) > 1 else None,
        "n": parts[0].get("n"),
        "tie_rate": parts[0].get("tie_rate"),
        "predictions": [result.predictions for result in own],
    }


def _results_of(column: Column, results: Sequence[Result]) -> list[Result]:
    """Return the results of a column's tasks and metric: several of a task if its data have several seeds."""
    return [each for each in results if each.metric == column.metric and _task(each) in column.tasks]


def _task(result: Result) -> str:
    return f"{result.benchmark['name']}/{result.benchmark['task']}"


def remarks(by_model: Mapping[str, Sequence[Result]], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Describe our predictions: other numbers of examples, missing images, ties, precision, activations."""
    counts = {(one.column.name, one.n, one.column.n) for one in comparisons if one.n and one.column.n}
    for column, n, published in sorted(counts):
        if n != published:
            yield f"{column}: {n:,} examples here, {published:,} in the paper."
    suites = {one.column.task: one.column for one in comparisons if one.column.average == SUITE}
    for name, results in by_model.items():
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


def compare_statistics(
    table: Table, data_dir: str | Path | None, options: Mapping[str, Any] | None
) -> list[Comparison]:
    """Return the printed statistics of a dataset, each with that of our rows; the arguments are those of `examples_of`.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    tasks = dict.fromkeys(column.task for column in table.columns)
    examples = {task: examples_of(task, data_dir, options) for task in tasks}
    comparisons = []
    for row in table.rows:
        category = row.run.settings.get("category")
        for cell in _published(table, row):
            chosen = [each for each in examples[cell.column.task] if category in (None, each.category)]
            value = float(STATISTICS[cell.column.score[0]](chosen)) if chosen else None
            why = "" if chosen else f"the data have no {category} part"
            comparisons.append(replace(cell, ours=value, n=len(chosen), why=why))
    return comparisons


def examples_of(task: str, data_dir: str | Path | None, options: Options) -> list[Example]:
    """Return the examples of a task, without images.

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
