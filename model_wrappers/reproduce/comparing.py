"""Comparing the values of a table with those of results, and statistics of datasets with those of our rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from .report import Comparison

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


def published_cells(table: Table, row: Row) -> Iterator[Comparison]:
    """The published values of a row, without ours."""
    rounding = 0.5 * 10**-table.decimals / table.unit
    for column, printed in table.cells(row):
        published = number(printed) / table.unit
        yield Comparison(row, column, printed, published, rounding, is_comparable=table.is_comparable)


def compare(table: Table, row: Row, results: Sequence[Result]) -> Iterator[Comparison]:
    """The published values of a row that was run, each with ours: over several seeds of the data their mean."""
    for cell in published_cells(table, row):
        yield _with_ours(cell, results)


def _with_ours(cell: Comparison, results: Sequence[Result]) -> Comparison:
    column = cell.column
    if not column.task:
        return replace(cell, why=column.reason)
    if column.average == SUITE:
        return _with_mean(cell, results)
    own = _results_of(column, results)
    if not own:
        return replace(cell, why=f"no predictions of {column.task}")
    lacking = set(get_task(*column.task.split("/")).configs) - set(own[0].benchmark.get("configs", ()))
    if lacking and column.average != "category":
        return replace(cell, why=f"the predictions lack {', '.join(sorted(lacking))}")
    *path, name = column.score
    parts = [_part(result, path) for result in own]
    values = [part[name] for part in parts if part.get(name) is not None]
    if len(values) < len(parts):
        return replace(cell, why="the predictions have no such examples")
    # An interval is over images, and of one draw of the data; several draws have a deviation.
    interval = parts[0].get(f"{name}_interval") if len(parts) == 1 else None
    return replace(
        cell,
        ours=fmean(values),
        interval=interval and (interval[0], interval[1]),
        deviation=stdev(values) if len(values) > 1 else None,
        n=parts[0].get("n"),
        tie_rate=parts[0].get("tie_rate"),
        predictions=[result.predictions for result in own],
    )


def _with_mean(cell: Comparison, results: Sequence[Result]) -> Comparison:
    """A cell with our mean over a suite, which is not comparable if tasks are lacking."""
    own = _results_of(cell.column, results)
    if not own:
        return replace(cell, why=f"no predictions of any set of {cell.column.task}")
    found = suite_means(own, suites_of)[0]
    ours = found.scores.get(cell.column.score[0], math.nan)
    if math.isnan(ours):
        return replace(cell, why=f"the sets of {cell.column.task} that were run do not have the score")
    files = {each.predictions["sha256"]: each.predictions for each in own}
    return replace(
        cell, ours=ours, predictions=[*files.values()], is_comparable=cell.is_comparable and not found.lacking
    )


def _results_of(column: Column, results: Sequence[Result]) -> list[Result]:
    """Return the results of a column's tasks and metric: several of a task if its data have several seeds."""
    return [
        each
        for each in results
        if each.metric == column.metric and f"{each.benchmark['name']}/{each.benchmark['task']}" in column.tasks
    ]


def _part(result: Result, path: Sequence[str]) -> dict[str, Any]:
    """The scores at a path, with the number of examples of the innermost part that has one."""
    part: Any = result.scores
    counted = part.get("n")
    for key in path:
        part = part.get(key, {})
        counted = part.get("n", counted)
    return {**part, "n": counted}


def remarks(by_model: Mapping[str, Sequence[Result]], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Properties of our predictions: other numbers of examples, missing images, ties, precision, activations."""
    counts = {(one.column.name, one.n, one.column.n) for one in comparisons if one.n and one.column.n}
    for column, n, published in sorted(counts):
        if n != published:
            yield f"{column}: {n:,} examples here, {published:,} in the paper."
    suites = {one.column.task: one.column for one in comparisons if one.column.average == SUITE}
    for name, results in by_model.items():
        for task, column in suites.items():
            for mean in suite_means(_results_of(column, results), suites_of)[:1]:
                if mean.lacking:
                    counts = f"{len(mean.found)} of {len(column.tasks)}"
                    yield f"{name}: mean over {counts} sets of {task}, without {', '.join(mean.lacking)}."
        facts = list(dict.fromkeys(fact for result in results for fact in _facts(result)))
        if facts:
            yield f"{name}: {'; '.join(facts)}."


def _facts(result: Result) -> Iterator[str]:
    task, model = f"{result.benchmark['name']}/{result.benchmark['task']}", result.model
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples of {task} lack their image"
    if result.scores.get("tie_rate"):
        share, ties = 100 * result.scores["tie_rate"], result.options.get("ties")
        yield f"ties decide {share:.2g} % of {task} and count as {ties} ({result.metric})"
    if result.run.get("orders") == 1:
        yield "answers to one order of the captions alone"
    if result.run.get("truncated_captions"):
        yield f"{result.run['truncated_captions']:,} captions were truncated"
    if model.get("dtype") in ("float16", "bfloat16"):
        yield f"scored in {model['dtype']}"
    if (model.get("settings") or {}).get("activation_mismatch") == "yes":
        yield f"computed with {model['settings']['activation']}, which its weights were not trained with"


def compare_statistics(
    table: Table, *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> Iterator[Comparison]:
    """The printed statistics of a dataset, each with that of our rows.

    Args:
        table: whose columns all have the average ``"statistic"``.
        data_dir: the user's copy of the sources, or a folder with one for each benchmark.
        options: fields of the builder's configuration.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    tasks = dict.fromkeys(column.task for column in table.columns)
    examples = {task: examples_of(task, data_dir=data_dir, options=options) for task in tasks}
    for row in table.rows:
        category = row.run.settings.get("category")
        for cell in published_cells(table, row):
            chosen = [each for each in examples[cell.column.task] if category in (None, each.category)]
            value = float(STATISTICS[cell.column.score[0]](chosen)) if chosen else None
            yield replace(cell, ours=value, n=len(chosen), why="" if chosen else f"the data have no {category} part")


def examples_of(
    task: str, *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> list[Example]:
    """The examples of a task, without images; the arguments are those of `compare_statistics`.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    folder = sources_folder(task.partition("/")[0], data_dir)
    check_sources([task], data_dir=folder, options=options)
    [found] = load_examples(task, data_dir=folder, options=options, needs_images=False)
    return found.examples
