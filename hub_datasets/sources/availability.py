"""Availability of the benchmarks' data: whether each configuration was built, can be downloaded, or needs a copy.

Nothing is downloaded and nothing is built: each builder looks for its source files, offline.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError
from ..core.benchmarks import (
    Benchmark,
    benchmark_names,
    config_names,
    get_benchmark,
    get_builder,
    is_downloaded,
    option_names,
)
from ..core.build import MissingSourceError, download_config, sources_folder
from ..core.repository import card_counts, newest_build, read_build
from .downloads import DownloadError
from .network import is_reachable, without_network

MADE, DOWNLOADED, OWN = "made on the spot", "downloaded", "your own copy"
READY, TO_DOWNLOAD, MISSING, DAMAGED = "ready", "to be downloaded", "missing", "damaged"


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
        problem: the builder's message on what is missing or damaged; for `TO_DOWNLOAD` the address.
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
    """A benchmark in one line: `rows` and the worst `state` of the configurations scored by default.

    `rows` is None if not known; `caution` is empty if the benchmark has no known defects.
    """

    name: str
    summary: str
    rows: int | None
    state: str
    caution: str = ""


def benchmark_lines(*, data_dir: str | Path | None = None) -> Iterator[BenchmarkLine]:
    """Yield each benchmark in one line; without `data_dir` from builds in the cache and declarations, which is fast.

    Raises:
        DataError: `data_dir` is not a folder.
    """
    for name in benchmark_names():
        benchmark = get_benchmark(name)
        configs = list(dict.fromkeys(config for task in benchmark.tasks if task.by_default for config in task.configs))
        if sources_folder(name, data_dir) is None and data_dir is None:
            counts = {config: _built_counts(name, config, benchmark.split_of(config)) for config in configs}
            # Configurations built from the user's copy need that copy again.
            ready = not any(_has_source(benchmark, config) for config in configs)
            ready = ready or (is_downloaded(name) and all(counts.values()))
            state = READY if ready else TO_DOWNLOAD if is_downloaded(name) else MISSING
            released = card_counts(name)
            rows = [
                (counts[config] or released.get((config, benchmark.split_of(config)), (None,)))[0] for config in configs
            ]
        else:
            [listed] = list_benchmarks([name], data_dir=data_dir)
            entries = [config for config in listed.configs if config.name in configs]
            state = max((config.state for config in entries), key=(READY, TO_DOWNLOAD, MISSING, DAMAGED).index)
            rows = [config.rows for config in entries]
        known = [count for count in rows if count is not None]
        total = sum(known) if len(known) == len(rows) else None
        yield BenchmarkLine(name, benchmark.summary, total, state, benchmark.caution)


def list_benchmarks(
    names: Iterable[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[BenchmarkEntry]:
    """Yield each benchmark with the state of its configurations' sources.

    Args:
        names: benchmarks; None for all.
        data_dir: the user's copies of the sources, one folder for all or a folder of its name for each.
        options: fields of the builders' configurations; each is set for the benchmarks that have it.

    Raises:
        UnknownNameError: no such benchmark.
        DataError: `data_dir` is not a folder.
    """
    for name in benchmark_names() if names is None else names:
        benchmark, chosen = get_benchmark(name), _options(name, options)
        configs = (_entry(name, config, sources_folder(name, data_dir), chosen) for config in config_names(name))
        yield BenchmarkEntry(
            name, benchmark.summary, benchmark.split, benchmark.source, tuple(configs), benchmark.caution
        )


def check_sources(
    references: Iterable[str], *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> None:
    """Raise the first of the `source_problems`; takes the same arguments.

    Raises:
        DataError: the sources of every configuration of a reference are missing or damaged, or have to be downloaded
            and cannot be.
    """
    for problem in source_problems(references, data_dir=data_dir, options=options).values():
        raise problem


def source_problems(
    references: Iterable[str], *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> dict[str, DataError]:
    """Return an error for each reference that was not built before and cannot be, without looking for its images.

    Args:
        references, data_dir, options: as for ``examples.load_examples``; unknown names are not checked.
    """
    from huggingface_hub import constants

    errors: dict[str, DataError] = {}
    for reference in references:
        name, _, task_name = reference.partition("/")
        if name not in benchmark_names() or not get_benchmark(name).source:
            continue
        benchmark = get_benchmark(name)
        wanted = dict.fromkeys(config for _, configs in benchmark.select(name, task_name or None) for config in configs)
        if any(newest_build(name, config, benchmark.split_of(config)) for config in wanted):
            continue
        folder, used = sources_folder(name, data_dir), _options(name, options)
        text_alone = _options(name, {**(options or {}), "with_images": False})
        looks = [
            (config, *_look(name, config, folder, text_alone)) for config in wanted if _has_source(benchmark, config)
        ]
        if not looks or len(looks) < len(wanted) or any(state == READY for _, state, _ in looks):
            continue
        config, state, problem = looks[0]
        message = f"{name}/{config}: {problem}"
        if state == TO_DOWNLOAD:
            if not constants.HF_HUB_OFFLINE and is_reachable(problem):
                continue
            lacking = "" if data_dir is None else f", as {data_dir} lacks it"
            message = (
                f"{name}/{config} has to be downloaded{lacking}, and {problem} cannot be reached: connect, or give "
                f"your own copy as --data-dir. Its source: {benchmark.source}"
            )
        # A builder outside the package may have no `layout`.
        layout = getattr(get_builder(name)(dataset_name=name, config_name=config, **used), "layout", "")
        errors[reference] = DataError(
            f"{message}\nExpected in the folder of --data-dir:\n{layout}" if layout else message
        )
    return errors


def _options(name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of a benchmark's builder: those for scoring, and the given ones that it has."""
    known = option_names(name)
    return {**get_benchmark(name).scoring_options, **{key: v for key, v in (options or {}).items() if key in known}}


def _entry(name: str, config: str, data_dir: Path | None, options: Mapping[str, Any]) -> ConfigEntry:
    benchmark = get_benchmark(name)
    tasks = [task for task in benchmark.tasks if config in task.configs]
    split = benchmark.split_of(config)
    counts = _built_counts(name, config, split)
    rows, images = counts or card_counts(name).get((config, split), (None, None))
    origin, state, problem = MADE, READY, ""
    if _has_source(benchmark, config):
        # The origin of the sources if the user has no copy.
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


def _built_counts(name: str, config: str, split: str) -> tuple[int, int] | None:
    """Return the numbers of rows and images of the newest build of a configuration in the cache."""
    folder = newest_build(name, config, split)
    counts = folder and read_build(folder)["configs"][config][split]
    return (counts["rows"], counts["images"]) if counts else None


def _look(name: str, config: str, data_dir: Path | None, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the state of a configuration's sources, and the problem, if any."""
    from datasets import DownloadManager

    with tempfile.TemporaryDirectory() as scratch, without_network():
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
