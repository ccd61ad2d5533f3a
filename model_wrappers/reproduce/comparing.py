"""Comparing the values of a table with those of results."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...hub_datasets.core.benchmarks import get_task
from ...hub_datasets.published.tables import NOTHING, Column, Row, Table
from ...metrics.common.formatting import percent
from ...metrics.evaluation import Report
from ...metrics.records.results import Result
from .report import Comparison


def published_cells(table: Table, row: Row) -> Iterator[Comparison]:
    """The published values of a row, without ours."""
    for column, printed in zip(table.columns, row.printed, strict=True):
        if printed != NOTHING:
            value = float(printed.partition("±")[0].replace(",", "")) / table.unit
            rounding = 0.5 * 10**-table.decimals / table.unit
            yield Comparison(row, column, printed, value, rounding, not_comparable=table.not_comparable)


def compare(table: Table, row: Row, report: Report) -> Iterator[Comparison]:
    """The published values of a row that was run, each with ours."""
    for cell in published_cells(table, row):
        yield _with_ours(cell, report)


def _with_ours(cell: Comparison, report: Report) -> Comparison:
    column = cell.column
    if not column.task:
        return replace(cell, why=column.reason)
    results = _results_of(column, report)
    if not results:
        return replace(cell, why=f"no predictions of {column.task}")
    lacking = set(get_task(*column.task.split("/")).configs) - set(results[0].benchmark.get("configs", ()))
    if lacking and column.average != "category":
        return replace(cell, why=f"the predictions lack {', '.join(sorted(lacking))}")
    *path, name = column.score
    parts = [_part(result, path) for result in results]
    values = [part[name] for part in parts if part.get(name) is not None]
    if len(values) < len(parts):
        return replace(cell, why="the predictions have no such examples")
    interval = parts[0].get(f"{name}_interval") if len(parts) == 1 else _interval_over_seeds(column, report)
    return replace(
        cell,
        ours=statistics.fmean(values),
        interval=interval and (interval[0], interval[1]),
        deviation=statistics.stdev(values) if len(values) > 1 else None,
        n=parts[0].get("n"),
        tie_rate=parts[0].get("tie_rate"),
        predictions=[result.predictions for result in results],
    )


def value_of(column: Column, report: Report) -> float | None:
    """Our value of a column, over seeds the mean; None without one."""
    *path, name = column.score
    values = [_part(result, path).get(name) for result in _results_of(column, report)]
    return statistics.fmean(values) if values and None not in values else None


def _results_of(column: Column, report: Report) -> list[Result]:
    """The results of a column's task and metric: several where the data have several seeds."""
    asked = (*column.task.split("/"), column.metric)
    return [each for each in report if (each.benchmark["name"], each.benchmark["task"], each.metric) == asked]


def _part(result: Result, path: Sequence[str]) -> dict[str, Any]:
    """The scores at a path, with the number of examples of the innermost part that has one."""
    part: Any = result.scores
    counted = part.get("n")
    for key in path:
        part = part.get(key, {})
        counted = part.get("n", counted)
    return {"n": counted, **part}


def _interval_over_seeds(column: Column, report: Report) -> list[float] | None:
    """The interval of an average over all examples; None of other scores."""
    for summary in report.seeds:
        if f"{summary.benchmark}/{summary.task}" == column.task and summary.metric == column.metric:
            [*path, name] = column.score
            line = next((line for line in summary.lines if line.is_average), summary.lines[0])
            return line.scores[name].interval if name in line.scores and not path else None
    return None


def remarks(by_row: Mapping[str, Sequence[Result]], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Properties of our predictions: other numbers of examples, missing images, ties, precision, activations."""
    counts = {(one.column.name, one.n, one.column.n) for one in comparisons if one.n and one.column.n}
    for column, n, published in sorted(counts):
        if n != published:
            yield f"{column}: {n:,} examples here, {published:,} in the paper."
    for name, results in by_row.items():
        facts = list(dict.fromkeys(fact for result in results for fact in _facts(result)))
        if facts:
            yield f"{name}: {'; '.join(facts)}."


def order_names(model: Mapping[str, Any]) -> list[str]:
    """The orders of captions in which answers were given, as predictions of a folder name them; empty for a model."""
    return list(filter(None, (model.get("settings") or {}).get("orders", "").split(", ")))


def _facts(result: Result) -> Iterator[str]:
    task, model = f"{result.benchmark['name']}/{result.benchmark['task']}", result.model
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples of {task} lack their image"
    names = order_names(model)
    if len(names) > 1 and result.options.get("ties") == "half":
        yield f"the average over {' and '.join(names)}: an example counts one half where the answers disagree"
    elif len(names) == 1:
        yield f"the answers of one order of the captions, {names[0]}, where the paper averages both orders"
    if result.scores.get("tie_rate") and not (len(names) > 1 and result.options.get("ties") == "half"):
        share, ties = 100 * result.scores["tie_rate"], result.options.get("ties")
        yield f"ties decide {share:.2g} % of {task} and count as {ties} ({result.metric})"
    yield from _unknown_answers(result, max(len(names), 1))
    if result.run.get("truncated_captions"):
        yield f"{result.run['truncated_captions']:,} captions were truncated"
    if model.get("dtype") in ("float16", "bfloat16"):
        yield f"scored in {model['dtype']}"
    if (model.get("settings") or {}).get("activation_mismatch") == "yes":
        yield f"computed with {model['settings']['activation']}, which its weights were not trained with"


def _unknown_answers(result: Result, orders: int) -> Iterator[str]:
    """What the accuracy would be with released answers to examples that the data lack."""
    parts = result.scores.get("per_category", {})
    accuracies = {name: part.get(result.main_score) for name, part in parts.items()}
    changed = {}
    for name, part in parts.items():
        answers = result.run.get(f"unknown_answers_{name}", 0)
        if answers and accuracies[name] is not None:
            right = accuracies[name] * part["n"] * orders + result.run.get(f"unknown_right_{name}", 0)
            changed[name] = right / (part["n"] * orders + answers)
            yield (
                f"with the released answers to what the data lack ({answers} of {name}), {name} would be "
                f"{percent(changed[name], 2)} %, and the mean over categories "
                f"{percent(statistics.fmean((accuracies | changed).values()), 2)} %"
            )
