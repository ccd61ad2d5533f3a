"""Means over tasks that have a name, such as that over the sets of VTAB, and which of the tasks they lack."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..common.documents import Table, simple_table
from ..common.formatting import words
from ..records.results import Result
from ._tables import model_labels, percent_cell

# From a benchmark to its suites: the tasks of each by its name.
Suites = Callable[[str], Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class SuiteMean:
    """The unweighted mean of each score over the tasks of a suite that a model was run on.

    Attributes:
        model, benchmark, name, metric: whose mean it is, and of what.
        scores: the means by score, fractions; NaN where a task's is.
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
    """The means of each model, suite and metric; several results of a task, such as of other prompts, are averaged."""
    groups: dict[tuple[str, str, str, str], dict[str, list[Result]]] = {}
    for result, model in zip(results, model_labels(results), strict=True):
        benchmark, task = result.benchmark["name"], result.benchmark["task"]
        for name, tasks in suites(benchmark).items():
            if task in tasks:
                by_task = groups.setdefault((model, benchmark, name, result.metric), {})
                by_task.setdefault(task, []).append(result)
    means = []
    for (model, benchmark, name, metric), by_task in groups.items():
        tasks = suites(benchmark)[name]
        values: dict[str, list[float]] = {}
        for own in by_task.values():
            for score in own[0].table_scores:
                if score in own[0].scores:
                    # None, of an undefined score, becomes NaN.
                    known = np.array([each.scores.get(score) for each in own], dtype=np.float64)
                    values.setdefault(score, []).append(statistics.fmean(known.tolist()))
        scores = {score: statistics.fmean(each) for score, each in values.items()}
        counts = {score: len(each) for score, each in values.items()}
        found, lacking = (tuple(task for task in tasks if (task in by_task) == has) for has in (True, False))
        means.append(SuiteMean(model, benchmark, name, metric, scores, counts, found, lacking))
    return means


def suite_tables(means: Sequence[SuiteMean]) -> list[Table]:
    """A table for each suite and metric, with a row for each model."""
    grouped: dict[tuple[str, str, str], list[SuiteMean]] = {}
    for mean in means:
        grouped.setdefault((mean.benchmark, mean.name, mean.metric), []).append(mean)
    tables = []
    for (benchmark, name, metric), own in grouped.items():
        scores = list(dict.fromkeys(score for mean in own for score in mean.scores))
        rows = []
        for mean in own:
            cells = (percent_cell(mean.scores.get(score)) or "–" for score in scores)
            rows.append([mean.model, *cells, f"{len(mean.found)} of {len(mean.found) + len(mean.lacking)}"])
        facts = [f"{mean.model} lacks {', '.join(mean.lacking)}" for mean in own if mean.lacking]
        facts += [
            f"{words(score)} of {mean.model} is over the {count} that have it"
            for mean in own
            for score, count in mean.counts.items()
            if count < len(mean.found)
        ]
        note = " ".join(f"{fact}." for fact in ("Unweighted", *facts))
        title = f"Mean over the tasks {name} of {benchmark}: {metric}"
        tables.append(simple_table(("", *map(words, scores), "tasks"), rows, title=title, note=note, numbers=True))
    return tables
