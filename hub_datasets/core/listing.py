"""The benchmarks with their sizes and the state of their sources, and the metrics.

Nothing is downloaded and nothing is built: each builder looks for its source files, offline.
"""

from __future__ import annotations

import ast
import dataclasses
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError, check_known
from ...metrics.modules.discovery import metric_names
from .benchmarks import (
    Benchmark,
    benchmark_names,
    config_names,
    get_benchmark,
    get_builder,
    is_downloaded,
    option_names,
)
from .repository import BUILD_FILE, cache_folder, card_counts, read_build

MADE, DOWNLOADED, OWN = "made on the spot", "downloaded", "your own copy"
READY, TO_DOWNLOAD, MISSING, DAMAGED = "ready", "to be downloaded", "missing", "damaged"
# Columns of a terminal that a table of one line per benchmark fills at most.
_WIDEST = 112


@dataclass(frozen=True)
class ConfigEntry:
    """One configuration of a benchmark's dataset.

    Args:
        name: its name.
        tasks: the benchmark's tasks that score it.
        metrics: the metrics that evaluate these.
        by_default: whether it is scored when only the benchmark is named.
        rows: rows of the scored split in the newest build in the cache, else in the card, else None.
        images: distinct images of that split, likewise.
        built: whether `rows` and `images` are of a build in the cache.
        origin: `MADE`, `DOWNLOADED` (if the user has no copy) or `OWN`.
        state: of its sources: `READY`, `TO_DOWNLOAD`, `MISSING` or `DAMAGED`.
        problem: the builder's message on what is missing or damaged; for `TO_DOWNLOAD` the address, or those of all
            sources, joined by `NoSourceError.OR`.
    """

    name: str
    tasks: tuple[str, ...]
    metrics: tuple[str, ...]
    by_default: bool
    rows: int | None
    images: int | None
    built: bool
    origin: str
    state: str
    problem: str


@dataclass(frozen=True)
class BenchmarkEntry:
    """A benchmark: its name, what it tests, the scored split, its sources, its configurations, and its caution."""

    name: str
    summary: str
    split: str
    source: str
    configs: tuple[ConfigEntry, ...]
    caution: str = ""


class BenchmarkLine(NamedTuple):
    """A benchmark in one line: `rows` and the worst `state` are those of the configurations scored by default.

    `rows` is None if not known; `caution` is empty if nothing speaks against its scores.
    """

    name: str
    summary: str
    rows: int | None
    state: str
    caution: str = ""


@dataclass(frozen=True)
class MetricEntry:
    """A metric: its name, what it measures in a sentence, and the benchmarks that it evaluates."""

    name: str
    summary: str
    benchmarks: tuple[str, ...]


def benchmark_lines(*, data_dir: str | Path | None = None) -> Iterator[BenchmarkLine]:
    """Every benchmark in one line; without `data_dir` from builds in the cache and what builders declare, at once.

    Raises:
        DataError: `data_dir` is not a folder.
    """
    from .build import sources_folder

    for name in benchmark_names():
        benchmark = get_benchmark(name)
        configs = list(dict.fromkeys(config for task in benchmark.tasks if task.by_default for config in task.configs))
        if sources_folder(name, data_dir) is None and data_dir is None:
            counts = {config: _built_counts(name, config, benchmark.split_of(config)) for config in configs}
            # What was built from the user's own copy needs that copy again.
            ready = not any(_has_source(benchmark, config) for config in configs)
            ready = ready or (is_downloaded(name) and all(counts.values()))
            state = READY if ready else TO_DOWNLOAD if is_downloaded(name) else MISSING
            released = card_counts(name)
            rows = [(counts[each] or released.get((each, benchmark.split_of(each)), (None,)))[0] for each in configs]
        else:
            [found] = list_benchmarks([name], data_dir=data_dir)
            chosen = [config for config in found.configs if config.name in configs]
            state = max((config.state for config in chosen), key=(READY, TO_DOWNLOAD, MISSING, DAMAGED).index)
            rows = [config.rows for config in chosen]
        known = [count for count in rows if count is not None]
        total = sum(known) if len(known) == len(rows) else None
        yield BenchmarkLine(name, benchmark.summary, total, state, benchmark.caution)


def list_benchmarks(
    names: Iterable[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[BenchmarkEntry]:
    """The configurations of each benchmark, and whether they can be built.

    Args:
        names: benchmarks; None for all.
        data_dir: the user's own copies of the sources, one folder for all or a folder of its name for each.
        options: fields of the builders' configurations; each is set where a benchmark has it.

    Raises:
        UnknownNameError: no such benchmark.
        DataError: `data_dir` is not a folder.
    """
    from .build import sources_folder

    for name in benchmark_names() if names is None else names:
        benchmark = get_benchmark(name)
        known = option_names(name)
        chosen = {**benchmark.scoring_options, **{key: v for key, v in (options or {}).items() if key in known}}
        configs = (_entry(name, config, sources_folder(name, data_dir), chosen) for config in config_names(name))
        yield BenchmarkEntry(
            name, benchmark.summary, benchmark.split, benchmark.source, tuple(configs), benchmark.caution
        )


def list_metrics() -> list[MetricEntry]:
    """Return a summary of each metric, and the benchmarks that it evaluates; imports no metric."""
    used: dict[str, list[str]] = {name: [] for name in metric_names()}
    for benchmark in benchmark_names():
        metrics = dict.fromkeys(metric for task in get_benchmark(benchmark).tasks for metric in task.metrics)
        check_known(f"metric of {benchmark}", metrics, used)
        for metric in metrics:
            used[metric].append(benchmark)
    folder = Path(__file__).parents[2] / "metrics"
    return [
        # The first line of the docstring, read without importing the module.
        MetricEntry(name, docstring.partition("\n")[0], tuple(benchmarks))
        for name, benchmarks in used.items()
        for docstring in [ast.get_docstring(ast.parse((folder / name / f"{name}.py").read_text("utf-8"))) or ""]
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
    """A rich table of the configurations of one benchmark."""
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
    """A rich table of metrics."""
    from rich.table import Table

    table = Table(title="Metrics", title_justify="left")
    table.add_column("metric", no_wrap=True)
    table.add_column("what it measures")
    table.add_column("benchmarks", overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, ", ".join(entry.benchmarks) or "–")
    return table


def as_json(entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Entries as JSON objects, field by field."""
    return [dataclasses.asdict(entry) for entry in entries]


def _entry(name: str, config: str, data_dir: Path | None, options: Mapping[str, Any]) -> ConfigEntry:
    benchmark = get_benchmark(name)
    tasks = [task for task in benchmark.tasks if config in task.configs]
    split = benchmark.split_of(config)
    counts = _built_counts(name, config, split)
    rows, images = counts or card_counts(name).get((config, split), (None, None))
    origin, state, problem = MADE, READY, ""
    if _has_source(benchmark, config):
        # Without the user's own copy: where the sources would come from.
        state, problem = _look(name, config, None, options)
        origin = OWN if state == MISSING else DOWNLOADED
        if data_dir is not None:
            state, problem = _look(name, config, data_dir, options)
    return ConfigEntry(
        name=config,
        tasks=tuple(task.name for task in tasks),
        metrics=tuple(dict.fromkeys(metric for task in tasks for metric in task.metrics)),
        by_default=any(task.by_default for task in tasks),
        rows=rows,
        images=images,
        built=counts is not None,
        origin=origin,
        state=state,
        problem=problem,
    )


def _has_source(benchmark: Benchmark, config: str) -> bool:
    return bool(benchmark.source) and config not in benchmark.generated


def newest_build(name: str, config: str, split: str) -> Path | None:
    """Return the newest build of a configuration's split in the cache, with whatever options; None without one."""
    builds = (cache_folder() / "datasets" / name).glob(f"{config}-*/{BUILD_FILE}")
    for path in sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True):
        # Another version, or another configuration whose name begins alike.
        with suppress(DataError, KeyError):
            read_build(path.parent)["configs"][config][split]
            return path.parent
    return None


def _built_counts(name: str, config: str, split: str) -> tuple[int, int] | None:
    """Return the numbers of rows and images of the newest build of a configuration in the cache."""
    folder = newest_build(name, config, split)
    counts = folder and read_build(folder)["configs"][config][split]
    return (counts["rows"], counts["images"]) if counts else None


def _look(name: str, config: str, data_dir: Path | None, options: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a configuration's sources, and what is wrong with them."""
    from datasets import DownloadManager

    from .build import download_config
    from .downloads import DownloadError, MissingSourceError

    with tempfile.TemporaryDirectory() as scratch, without_network(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # offline, a source that is kept follows those that are not
        try:
            builder = get_builder(name)(
                cache_dir=scratch,
                dataset_name=name,
                config_name=config,
                data_dir=None if data_dir is None else str(data_dir),
                **options,
            )
            builder._split_generators(DownloadManager(download_config=download_config()))
        except DownloadError as error:
            return TO_DOWNLOAD, error.url
        except MissingSourceError as error:
            return MISSING, str(error)
        except Exception as error:
            return DAMAGED, str(error) or type(error).__name__
    return READY, ""


@contextmanager
def without_network() -> Iterator[None]:
    """Let the Hugging Face libraries use their caches alone, and builders refuse downloads."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
