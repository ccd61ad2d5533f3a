"""Means over named groups of tasks (suites), such as the mean over the sets of VTAB."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..common.documents import Table, simple_table
from ..common.formatting import words
from ..records.results import Result
from .scores import model_labels, percent_cell, task_of

# Finds the suites of a benchmark: the tasks of each by its name.
Suites = Callable[[str], Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class SuiteMean:
    """The unweighted mean of each score over the tasks of a suite that a model was run on.

    Attributes:
        model, benchmark, name, metric: the model, the suite and the metric.
        scores: the means by score, fractions; NaN if a task's score is.
        counts: by score, the number of tasks that have it: accuracy at 5 needs more than five classes.
        found, lacking: the tasks with results, and the others.
    """

    model: str
    benchmark: str
    name: str
    metric: str
    scores: Mapping[str, float]
    counts: Mapping[str, int]
    found: tuple[str, ...]
    lacking: tuple[str, ...]


def suite_means(results: Sequence[Result], suites: Suites) -> list[SuiteMean]:
    """Return the means of each model, suite and metric.

    Several results of a task, such as with different prompts, are averaged first.
    """
    groups: dict[tuple[str, str, str, str], dict[str, list[Result]]] = {}
    for result, model in zip(results, model_labels(results), strict=True):
        benchmark, task = task_of(result)
        for name, tasks in suites(benchmark).items():
            if task in tasks:
                by_task = groups.setdefault((model, benchmark, name, result.metric), {})
                by_task.setdefault(task, []).append(result)
    means = []
    for (model, benchmark, name, metric), by_task in groups.items():
        values: dict[str, list[float]] = {}
        for of_task in by_task.values():
            for score in of_task[0].table_scores:
                if score in of_task[0].scores:
                    # None, of an undefined score, becomes NaN.
                    of_results = np.array([result.scores.get(score) for result in of_task], dtype=np.float64)
                    values.setdefault(score, []).append(statistics.fmean(of_results.tolist()))
        tasks = suites(benchmark)[name]
        means.append(
            SuiteMean(
                *(model, benchmark, name, metric),
                scores={score: statistics.fmean(of_score) for score, of_score in values.items()},
                counts={score: len(of_score) for score, of_score in values.items()},
                found=tuple(task for task in tasks if task in by_task),
                lacking=tuple(task for task in tasks if task not in by_task),
            )
        )
    return means


def suite_tables(means: Sequence[SuiteMean]) -> list[Table]:
    """Return a table for each suite and metric, with a row for each model."""
    suites: dict[tuple[str, str, str], list[SuiteMean]] = {}
    for mean in means:
        suites.setdefault((mean.name, mean.benchmark, mean.metric), []).append(mean)
    tables = []
    for (name, benchmark, metric), models in suites.items():
        scores = list(dict.fromkeys(score for mean in models for score in mean.scores))
        rows, facts = [], ["Unweighted."]
        for mean in models:
            cells = (percent_cell(mean.scores.get(score)) or "–" for score in scores)
            rows.append([mean.model, *cells, f"{len(mean.found)} of {len(mean.found) + len(mean.lacking)}"])
            facts += [f"{mean.model} lacks {', '.join(mean.lacking)}."] if mean.lacking else []
            for score, count in mean.counts.items():
                if count < len(mean.found):
                    facts.append(f"{words(score)} of {mean.model} is over the {count} that have it.")
        title = f"Mean over the tasks {name} of {benchmark}: {metric}"
        headings = ("", *map(words, scores), "tasks")
        tables.append(simple_table(headings, rows, title=title, note=" ".join(facts), numbers=True))
    return tables
