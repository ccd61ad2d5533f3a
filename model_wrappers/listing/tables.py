"""Tables of the command `list`: benchmarks with the state of their sources, and metrics."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...hub_datasets.core.benchmarks import benchmark_names, get_benchmark
from ...hub_datasets.sources.availability import DAMAGED, MISSING, BenchmarkEntry, BenchmarkLine
from ...metrics.common.errors import check_known
from ...metrics.modules.discovery import metric_folder, metric_names

# Columns of a terminal that a table of one line per benchmark fills at most.
_WIDEST = 112


@dataclass(frozen=True)
class MetricEntry:
    """A metric: its name, what it measures in a sentence, and the benchmarks that it evaluates."""

    name: str
    summary: str
    benchmarks: tuple[str, ...]


def list_metrics() -> list[MetricEntry]:
    """Return a summary of each metric, and the benchmarks that it evaluates; imports no metric."""
    used: dict[str, list[str]] = {name: [] for name in metric_names()}
    for benchmark in benchmark_names():
        metrics = dict.fromkeys(metric for task in get_benchmark(benchmark).tasks for metric in task.metrics)
        check_known(f"metric of {benchmark}", metrics, used)
        for metric in metrics:
            used[metric].append(benchmark)
    return [
        # The first line of the docstring, read without importing the module.
        MetricEntry(name, docstring.partition("\n")[0], tuple(benchmarks))
        for name, benchmarks in used.items()
        for docstring in [ast.get_docstring(ast.parse((metric_folder(name) / f"{name}.py").read_text("utf-8"))) or ""]
    ]


def line_table(lines: Iterable[BenchmarkLine], width: int) -> Any:
    """Return a rich table of benchmarks, one line each, at most `width` columns wide."""
    table = _lines("Benchmarks", ("benchmark", "what it tests"), width)
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("sources", no_wrap=True)
    for line in lines:
        state = "needs --data-dir" if line.state == MISSING else line.state
        table.add_row(line.name, line.summary, "–" if line.rows is None else f"{line.rows:,}", state)
    return table


def metric_lines(entries: Iterable[MetricEntry], width: int) -> Any:
    """Return a rich table of metrics, one line each, at most `width` columns wide."""
    table = _lines("Metrics", ("metric", "what it measures"), width)
    for entry in entries:
        table.add_row(entry.name, entry.summary.partition(": ")[2] or entry.summary)
    return table


def _lines(title: str, columns: tuple[str, str], width: int) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", width=min(width, _WIDEST), box=None, header_style="bold")
    table.add_column(columns[0], no_wrap=True)
    table.add_column(columns[1], no_wrap=True, ratio=1)
    return table


def benchmark_table(entry: BenchmarkEntry) -> Any:
    """Return a rich table of the configurations of one benchmark."""
    from rich.table import Table

    table = Table()
    table.add_column("configuration", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("images", justify="right", no_wrap=True)
    table.add_column("metrics", overflow="fold", min_width=16)
    table.add_column("sources", no_wrap=True)
    for config in entry.configs:
        rows, images = ("–" if n is None else f"{n:,}" for n in (config.rows, config.images))
        state = f"{config.state}, built" if config.built else config.state
        table.add_row(config.name, rows, images, ", ".join(config.metrics) or "–", state)
    return table


def origin_line(entry: BenchmarkEntry) -> str:
    """Return the origin of a benchmark's sources, on one line."""
    origins = ", ".join(dict.fromkeys(config.origin for config in entry.configs))
    return entry.source if entry.source.startswith(origins) else ": ".join(filter(None, (origins, entry.source)))


def problem_lines(entry: BenchmarkEntry) -> list[str]:
    """Return what is missing or damaged: a line for each message, after the configurations that it is about.

    Messages that differ only in the configuration's name count as one.
    """
    messages: dict[str, str] = {}
    about: dict[str, list[str]] = {}
    for config in entry.configs:
        if config.state in (MISSING, DAMAGED):
            message = f"{config.state}: {config.problem.removeprefix(f'{config.name}: ')}"
            same = (key for key, known in messages.items() if known == message)
            alike = next(same, message.replace(config.name, ""))
            messages.setdefault(alike, message)
            about.setdefault(alike, []).append(config.name)
    return [
        messages[alike] if len(configs) == len(entry.configs) else f"{', '.join(configs)} – {messages[alike]}"
        for alike, configs in about.items()
    ]


def metric_table(entries: Iterable[MetricEntry]) -> Any:
    """Return a rich table of metrics."""
    from rich.table import Table

    table = Table(title="Metrics", title_justify="left")
    table.add_column("metric", no_wrap=True)
    table.add_column("what it measures")
    table.add_column("benchmarks", overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, ", ".join(entry.benchmarks) or "–")
    return table


def as_json(entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Return entries as JSON objects, field by field."""
    return [dataclasses.asdict(entry) for entry in entries]
