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
from ._compute import cluster_numbers, pooled_examples
from ._tables import Line, interval_cell, lines, variants

# The option in which the data of several seeds differ.
SEED = "seed"

# From a result to the scored rows of its predictions, and the metrics with their settings.
Read = Callable[[Result], tuple[Sequence[Row], Mapping[str, Mapping[str, Any]]]]


@dataclass(frozen=True)
class SeedScore:
    """A score over several seeds.

    Args:
        mean, standard_deviation: of the seeds' values, fractions; the deviation divides by their number less one.
        interval: [low, high] of the mean, over the pooled examples; None where resamples do not spread.
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
        variants: what distinguishes the seeds, such as "seed 1".
        files: name and SHA-256 of each file of predictions.
        options: those of the metric, with level, resamples and seed of the interval.
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
        """Mean and deviation of each score with the interval of the sample; `label` names the model."""
        scores = list(dict.fromkeys(name for line in self.lines for name in line.scores))
        rows = []
        for line in self.lines:
            found = {
                name: Cell(
                    f"{percent(each.mean)} ± {percent(each.standard_deviation)} %", (interval_cell(each.interval),)
                )
                for name, each in line.scores.items()
            }
            cells = [found.get(name, Cell("", ("",))) for name in scores]
            rows.append(TableRow(line.name, (*cells, Cell(f"{line.n:,}")), line.is_average))
        level = self.options.get("confidence")
        note = f"Mean ± standard deviation over {len(self.files)} seeds ({'; '.join(self.variants)})."
        if level:
            note += f" Intervals: {100 * level:g} %, bootstrap over the images of all of them."
        return Table(
            f"{label} on {self.benchmark} ({self.task}): {self.metric} over {len(self.files)} seeds",
            (*(Column(words(name), (INTERVAL,)) for name in scores), Column("n", repeated=True)),
            tuple(rows),
            note,
        )


def over_seeds(results: Sequence[Result], read: Read) -> list[SeedSummary]:
    """Summarise results that differ only in the seed of their data, or in the run.

    The interval is over the sample: the examples of all seeds are resampled together, and those that share an image
    are one cluster across seeds. It shows how far other examples would change the mean; the deviation shows how far
    another seed would change a single run.

    Args:
        results: scores of any models, tasks and metrics.
        read: reads the predictions of a result: the scored rows, and the metrics with their settings.

    Returns:
        One summary for each model, task and metric with several seeds.
    """
    groups: dict[str, dict[str, Result]] = {}
    for result in results:
        # An identical run on the same data does not count as another seed.
        run = json.dumps([result.benchmark.get("fingerprint"), result.scores], sort_keys=True)
        about = [result.model, data_variant(result.benchmark), result.metric, result.options]
        groups.setdefault(json.dumps(about, sort_keys=True, default=str), {}).setdefault(run, result)
    return [_summary(list(group.values()), read) for group in groups.values() if len(group) > 1]


def data_variant(benchmark: Mapping[str, Any]) -> str:
    """Return what identifies the data of a task, except their seed: benchmark, task, configurations, split, options."""
    options = benchmark.get("options")
    fixed = {name: value for name, value in options.items() if name != SEED} if isinstance(options, dict) else {}
    about = [benchmark["name"], benchmark["task"], benchmark.get("configs"), benchmark.get("split"), fixed]
    return json.dumps(about, sort_keys=True, default=str)


def _summary(group: list[Result], read: Read) -> SeedSummary:
    first = group[0]
    runs = [read(result) for result in group]
    clusters = np.array(cluster_numbers([row for rows, _ in runs for row in rows]))
    settings = [metrics[first.metric] for _, metrics in runs]
    ties = first.options.get("ties")
    sample = pooled_examples([[rows] for rows, _ in runs], clusters, first.metric, settings, ties)
    options = {name: value for name, value in first.options.items() if name in ("confidence", "resamples", "seed")}
    if any(each.with_interval for each in sample.estimators):
        options["resamples"] = min(options.get("resamples", RESAMPLES), MOST_WEIGHTED_DRAWS)
    whole = replace(first, scores=aggregate(sample, **options), rare=dict(sample.rare))
    return SeedSummary(
        model=first.model,
        benchmark=first.benchmark["name"],
        task=first.benchmark["task"],
        metric=first.metric,
        variants=variants(group),
        files=[result.predictions for result in group],
        options={**first.options, **options},
        lines=[_line(line, [{each.name: each for each in lines(result)} for result in group]) for line in lines(whole)],
    )


def _line(sample: Line, seeds: Sequence[Mapping[str, Line]]) -> SeedLine:
    """A line of the pooled sample, with the values of the single seeds from their lines by name."""
    # A seed of one category has the category's line alone, which is the average too.
    own = [each.get(sample.name) or (next(iter(each.values())) if sample.is_average else None) for each in seeds]
    there = [each for each in own if each is not None]
    scores = {}
    for name, score in sample.scores.items():
        values = [value for line in there if (value := line.scores[name].value) is not None]
        if len(values) > 1:
            bounds = None if score.interval is None else list(score.interval)
            scores[name] = SeedScore(statistics.fmean(values), statistics.stdev(values), bounds, values)
    return SeedLine(sample.name, scores, sum(each.n for each in there), sample.is_average)
