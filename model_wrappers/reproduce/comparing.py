"""Comparing the values of a table with those of results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...hub_datasets.core.benchmarks import get_task, suites_of
from ...hub_datasets.published.tables import NOTHING, SUITE, Column, Row, Table
from ...metrics.evaluation import SuiteMean, suite_means
from ...metrics.records.results import Result
from .report import Comparison


def published_cells(table: Table, row: Row) -> Iterator[Comparison]:
    """The published values of a row, without ours."""
    for column, printed in zip(table.columns, row.printed, strict=True):
        if printed != NOTHING:
            published = float(printed.partition("±")[0].replace(",", "")) / table.unit
            rounding = 0.5 * 10**-table.decimals / table.unit
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
    own = results_of(column, results)
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
        ours=statistics.fmean(values),
        interval=interval and (interval[0], interval[1]),
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        n=parts[0].get("n"),
        tie_rate=parts[0].get("tie_rate"),
        predictions=[result.predictions for result in own],
    )


def _with_mean(cell: Comparison, results: Sequence[Result]) -> Comparison:
    """A cell with our mean over a suite, which is not comparable if tasks are lacking."""
    found = _suite_mean(cell.column, results)
    if found is None:
        return replace(cell, why=f"no predictions of any set of {cell.column.task}")
    ours = found.scores.get(cell.column.score[0], math.nan)
    if math.isnan(ours):
        return replace(cell, why=f"the sets of {cell.column.task} that were run do not have the score")
    files = {each.predictions["sha256"]: each.predictions for each in _of_suite(cell.column, results)}
    return replace(
        cell, ours=ours, predictions=[*files.values()], is_comparable=cell.is_comparable and not found.lacking
    )


def _suite_mean(column: Column, results: Sequence[Result]) -> SuiteMean | None:
    """The mean of a model over a column's suite; None without results."""
    found = suite_means(_of_suite(column, results), suites_of)
    return found[0] if found else None


def _of_suite(column: Column, results: Sequence[Result]) -> list[Result]:
    return [
        each
        for each in results
        if each.metric == column.metric and f"{each.benchmark['name']}/{each.benchmark['task']}" in column.tasks
    ]


def results_of(column: Column, results: Sequence[Result]) -> list[Result]:
    """The results of a column's task and metric: several where the data have several seeds."""
    wanted = (*column.task.split("/"), column.metric)
    return [each for each in results if (each.benchmark["name"], each.benchmark["task"], each.metric) == wanted]


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
            mean = _suite_mean(column, results)
            if mean is not None and mean.lacking:
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
