"""Several runs of a model on a task that differ by chance only: mean, deviation, and the interval of the sample."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import percent, words
from ..estimation.aggregate import RESAMPLES, aggregate
from ..estimation.differences import MOST_WEIGHTED_DRAWS
from ..records.results import Result
from ..records.schema import Row
from .compute import cluster_numbers, pooled_examples
from .scores import ScoreRow, by_category, interval_cell, score_rows, task_of, variants

# The option in which the data of several seeds differ.
SEED = "seed"

# Reads the scored rows behind a result, and the metrics of its predictions with their settings.
Read = Callable[[Result], tuple[Sequence[Row], Mapping[str, Mapping[str, Any]]]]


@dataclass(frozen=True)
class SeedScore:
    """A score over several seeds.

    Args:
        mean, standard_deviation: of the seeds' values, fractions; the deviation divides by their number less one.
        interval: [low, high] of the mean, over the pooled examples; None if resamples do not spread.
        values: the score of each seed, in the order of the files.
    """

    mean: float
    standard_deviation: float
    interval: list[float] | None
    values: list[float]


@dataclass(frozen=True)
class SeedLine:
    """A category or an average over several seeds; `n` counts the examples of all seeds."""

    name: str
    scores: dict[str, SeedScore]
    n: int
    is_average: bool


@dataclass(frozen=True)
class SeedSummary:
    """The scores of a model by one metric over several seeds of a benchmark, or several runs.

    Args:
        model: the model's description.
        benchmark, task, metric: what was computed.
        variants: a label for each seed, such as "seed 1".
        files: name and SHA-256 of each file of predictions.
        options: the metric's options, with level, resamples and seed of the interval.
        lines: categories, then averages.
    """

    model: dict[str, Any]
    benchmark: str
    task: str
    metric: str
    variants: list[str]
    files: list[dict[str, str]]
    options: dict[str, Any]
    lines: list[SeedLine]

    def table(self, label: str) -> Table:
        """Return mean and deviation of each score with the interval of the sample; `label` names the model."""
        scores = list(dict.fromkeys(score for line in self.lines for score in line.scores))
        rows = []
        for line in self.lines:
            cells = [_cell(line.scores.get(score)) for score in scores]
            rows.append(TableRow(line.name, (*cells, Cell(f"{line.n:,}")), line.is_average))
        note = f"Mean ± standard deviation over {len(self.files)} seeds ({'; '.join(self.variants)})."
        if level := self.options.get("confidence"):
            note += f" Intervals: {100 * level:g} %, bootstrap over the images of all of them."
        title = f"{label} on {self.benchmark} ({self.task}): {self.metric} over {len(self.files)} seeds"
        columns = (*(Column(words(score), (INTERVAL,)) for score in scores), Column("n", repeated=True))
        return Table(title, columns, tuple(rows), note)


def over_seeds(results: Sequence[Result], read: Read) -> list[SeedSummary]:
    """Summarise results that differ only in the seed of their data, or in the run.

    The interval is over the sample: the examples of all seeds are resampled together, and those that share an image
    are one cluster across seeds. It shows how far other examples would change the mean; the deviation shows how far
    another seed would change a single run.

    Args:
        results: scores of any models, tasks and metrics.
        read: reads the predictions of a result.

    Returns:
        One summary for each model, task and metric with several seeds.
    """
    groups: dict[str, dict[str, Result]] = {}
    for result in results:
        # An identical run on the same data does not count as another seed.
        run = json.dumps([result.benchmark.get("fingerprint"), result.scores], sort_keys=True)
        facts = [result.model, data_variant(result.benchmark), result.metric, result.options]
        groups.setdefault(json.dumps(facts, sort_keys=True, default=str), {}).setdefault(run, result)
    return [_summary(list(group.values()), read) for group in groups.values() if len(group) > 1]


def data_variant(benchmark: Mapping[str, Any]) -> str:
    """Return what identifies the data of a task, except their seed: benchmark, task, configurations, split, options."""
    options = benchmark.get("options")
    fixed = {name: value for name, value in options.items() if name != SEED} if isinstance(options, dict) else {}
    facts = [benchmark["name"], benchmark["task"], benchmark.get("configs"), benchmark.get("split"), fixed]
    return json.dumps(facts, sort_keys=True, default=str)


def _summary(group: list[Result], read: Read) -> SeedSummary:
    first = group[0]
    runs = [read(result) for result in group]
    clusters = np.array(cluster_numbers([row for rows, _ in runs for row in rows]))
    settings = [metrics[first.metric] for _, metrics in runs]
    sample = pooled_examples([[rows] for rows, _ in runs], clusters, first.metric, settings, first.options.get("ties"))
    options = {name: value for name, value in first.options.items() if name in ("confidence", "resamples", "seed")}
    if any(estimator.with_interval for estimator in sample.estimators):
        options["resamples"] = min(options.get("resamples", RESAMPLES), MOST_WEIGHTED_DRAWS)
    whole = replace(first, scores=aggregate(sample, **options), rare=dict(sample.rare))
    seeds = [by_category(score_rows(result)) for result in group]
    benchmark, task = task_of(first)
    return SeedSummary(
        model=first.model,
        benchmark=benchmark,
        task=task,
        metric=first.metric,
        variants=variants(group),
        files=[result.predictions for result in group],
        options={**first.options, **options},
        lines=[_line(rows, seeds) for rows in by_category(score_rows(whole)).values()],
    )


def _line(sample: dict[str, ScoreRow], seeds: Sequence[dict[str, dict[str, ScoreRow]]]) -> SeedLine:
    """Combine a category of the pooled sample with the scores of the single seeds in that category."""
    first = next(iter(sample.values()))
    # A seed of one category has the category's rows alone, which are the average too.
    of_seeds = [seed.get(first.category) or (next(iter(seed.values())) if first.is_average else None) for seed in seeds]
    known = [rows for rows in of_seeds if rows is not None]
    scores = {}
    for score, row in sample.items():
        values = [value for rows in known if (value := rows[score].value) is not None]
        if len(values) > 1:
            bounds = None if row.interval is None else list(row.interval)
            scores[score] = SeedScore(statistics.fmean(values), statistics.stdev(values), bounds, values)
    n = sum(next(iter(rows.values())).n for rows in known)
    return SeedLine(first.category, scores, n, first.is_average)


def _cell(score: SeedScore | None) -> Cell:
    if score is None:
        return Cell("", ("",))
    return Cell(f"{percent(score.mean)} ± {percent(score.standard_deviation)} %", (interval_cell(score.interval),))
