"""Several runs of a model on a task that differ by chance alone: mean, deviation, and the interval of the sample."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import percent, words
from ..contract.aggregate import RESAMPLES, aggregate
from ..contract.spec import Examples
from ..records.results import Result
from ..records.schema import Row
from ..statistics.differences import MOST_WEIGHTED_DRAWS, pooled
from ._compute import cluster_numbers, examples_of
from ._details import interval_cell
from ._tables import Line, lines, variants

# What seeds differ in, among the options with which a benchmark's data were built.
SEED = "seed"

Read = Callable[[Result], tuple[Sequence[Row], Mapping[str, Mapping[str, Any]]]]


@dataclass(frozen=True)
class SeedScore:
    """A score over several seeds.

    Args:
        mean, standard_deviation: of the seeds' values, fractions; the deviation divides by their number less one.
        interval: [low, high] of the mean score, from the sample of examples; None where resamples do not spread.
        values: the score of each seed, in the order of the files.
    """

    mean: float
    standard_deviation: float
    interval: list[float] | None
    values: list[float]


@dataclass(frozen=True)
class SeedLine:
    """A category or an average over several seeds, with its scores by name; `n` counts the examples of all seeds."""

    name: str
    scores: dict[str, SeedScore]
    n: int
    is_average: bool


@dataclass(frozen=True)
class SeedSummary:
    """What a metric gives for a model over several seeds of a benchmark, or several runs.

    Args:
        model: the model's description.
        benchmark, task, metric: what was computed.
        variants: what distinguishes the seeds, such as "seed 1".
        files: name and SHA-256 of each one's file.
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
        """Mean and deviation of each score, with the interval of the sample, for a model that is called so."""
        scores = list(dict.fromkeys(name for line in self.lines for name in line.scores))
        rows = [
            TableRow(
                line.name, (*(_cell(line.scores.get(name)) for name in scores), Cell(f"{line.n:,}")), line.is_average
            )
            for line in self.lines
        ]
        columns = (*(Column(words(name), (INTERVAL,)) for name in scores), Column("n", repeated=True))
        level = self.options.get("confidence")
        sampled = f" Intervals: {100 * level:g} %, bootstrap over the images of all of them." if level else ""
        return Table(
            f"{label} on {self.benchmark} ({self.task}): {self.metric} over {len(self.files)} seeds",
            columns,
            tuple(rows),
            f"Mean ± standard deviation over {len(self.files)} seeds ({'; '.join(self.variants)}).{sampled}",
        )

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def over_seeds(results: Sequence[Result], read: Read) -> list[SeedSummary]:
    """Summarise results that differ in nothing but the seed of their data, or the run.

    The interval is that of the sample: the examples of all seeds are resampled together, and those that share an image
    stay together across seeds. It says how far other examples would change the mean; the deviation says how far other
    seeds would change a single run.

    Args:
        results: scores of any models, tasks and metrics.
        read: reads the predictions of which a result names the file: rows that count, and the metrics' settings.

    Returns:
        One summary for each model, task and metric of which there are several seeds.
    """
    groups: dict[str, dict[str, Result]] = {}
    for result in results:
        # The same run made again on the same data is no further seed.
        run = json.dumps([result.benchmark.get("fingerprint"), result.scores], sort_keys=True)
        groups.setdefault(_identity(result), {}).setdefault(run, result)
    return [_summary(list(group.values()), read) for group in groups.values() if len(group) > 1]


def _identity(result: Result) -> str:
    """All that results of one group have in common."""
    about = [result.model, data_variant(result.benchmark), result.metric, result.options]
    return json.dumps(about, sort_keys=True, default=str)


def data_variant(benchmark: Mapping[str, Any]) -> str:
    """What the data of a task are but for their seed: benchmark, task, configurations, split and builder options."""
    options = benchmark.get("options")
    fixed = {name: value for name, value in options.items() if name != SEED} if isinstance(options, dict) else {}
    about = [benchmark["name"], benchmark["task"], benchmark.get("configs"), benchmark.get("split"), fixed]
    return json.dumps(about, sort_keys=True, default=str)


def _summary(group: list[Result], read: Read) -> SeedSummary:
    first = group[0]
    runs = [read(result) for result in group]
    sample = _pooled([rows for rows, _ in runs], first, [metrics[first.metric] for _, metrics in runs])
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
        lines=_lines(group, lines(whole)),
    )


def _pooled(runs: Sequence[Sequence[Row]], first: Result, settings: Sequence[Mapping[str, Any]]) -> Examples:
    """The examples of all runs as one set; those of one image are one cluster across runs."""
    clusters = np.array(cluster_numbers([row for run in runs for row in run]))
    starts = np.cumsum([0, *map(len, runs)])[:-1].tolist()
    parts, numbers = [], []
    for start, run, chosen in zip(starts, runs, settings, strict=True):
        own = clusters[start : start + len(run)].tolist()
        parts.append(examples_of(run, first.metric, chosen, ties=first.options.get("ties"), clusters=own))
        numbers.append(start + parts[-1].rows)
    rows = np.concatenate(numbers)
    return pooled(parts, clusters[rows], rows)


def _lines(group: Sequence[Result], sample: Sequence[Line]) -> list[SeedLine]:
    """The lines of the pooled sample, with the values of the single seeds."""
    seeds = [{line.name: line for line in lines(result)} for result in group]
    found = []
    for line in sample:
        # A seed of one category has the category's line alone, which is the average too.
        own = [each.get(line.name) or (next(iter(each.values())) if line.is_average else None) for each in seeds]
        there = [each for each in own if each is not None]
        found.append(SeedLine(line.name, _scores(line, there), sum(each.n for each in there), line.is_average))
    return found


def _scores(sample: Line, seeds: Sequence[Line]) -> dict[str, SeedScore]:
    found = {}
    for name, score in sample.scores.items():
        values = [value for line in seeds if (value := line.scores[name].value) is not None]
        if len(values) > 1:
            bounds = None if score.interval is None else list(score.interval)
            found[name] = SeedScore(statistics.fmean(values), statistics.stdev(values), bounds, values)
    return found


def _cell(score: SeedScore | None) -> Cell:
    if score is None:
        return Cell("", ("",))
    return Cell(f"{percent(score.mean)} ± {percent(score.standard_deviation)} %", (interval_cell(score.interval),))
