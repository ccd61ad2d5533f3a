"""What there is and what is at hand: benchmarks with their sizes, sources and what these lack here, and metrics.

Nothing is downloaded and nothing is built: a builder is only asked for its splits, which is when it looks for its
sources, with a download manager that refuses.
"""

from __future__ import annotations

import ast
import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...metrics.common.errors import DataError, UnknownNameError
from ...metrics.modules.discovery import metric_names
from .benchmarks import benchmark_names, config_names, get_benchmark, get_builder, option_names
from .build import BUILD_FILE, card_counts, is_missing, read_build, sources_folder
from .examples import cache_folder

MADE, DOWNLOADED, OWN = "made on the spot", "downloaded", "your own copy"
READY, TO_DOWNLOAD, MISSING, DAMAGED = "ready", "to be downloaded", "missing", "damaged"


@dataclass(frozen=True)
class ConfigEntry:
    """One configuration of a benchmark's dataset.

    Args:
        name: its name.
        tasks: the benchmark's tasks that score it.
        metrics: the metrics that judge these.
        by_default: whether it is scored when only the benchmark is named.
        rows: rows of the split that is scored: of the newest build in the cache, else as the card says, else None.
        images: different images of that split, likewise.
        built: whether `rows` and `images` are of a build in the cache.
        origin: `MADE`, `DOWNLOADED` (from `source` where the user has no copy) or `OWN`.
        state: of its sources here: `READY`, `TO_DOWNLOAD`, `MISSING` or `DAMAGED`.
        problem: what is missing or damaged and what to do, in the builder's words; the address for `TO_DOWNLOAD`.
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
    """A benchmark: its name, the split that is scored, where its sources are to be had, and its configurations."""

    name: str
    split: str
    source: str
    configs: tuple[ConfigEntry, ...]


@dataclass(frozen=True)
class MetricEntry:
    """A metric: its name, what it measures in a sentence, and the benchmarks that it judges."""

    name: str
    summary: str
    benchmarks: tuple[str, ...]


def list_benchmarks(
    names: Iterable[str] | None = None,
    *,
    data_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[BenchmarkEntry]:
    """What each benchmark consists of, and whether it could be built here and now.

    Args:
        names: benchmarks; None for all.
        data_dir: the user's own copies of the sources, one folder for all or a folder of its name for each.
        options: fields of the builders' configurations; each is set where a benchmark has it.

    Raises:
        UnknownNameError: no such benchmark.
        DataError: `data_dir` is not a folder.
    """
    for name in benchmark_names() if names is None else names:
        benchmark = get_benchmark(name)
        known = option_names(name)
        chosen = {**benchmark.scoring_options, **{key: v for key, v in (options or {}).items() if key in known}}
        configs = (_entry(name, config, sources_folder(name, data_dir), chosen) for config in config_names(name))
        yield BenchmarkEntry(name, benchmark.split, benchmark.source, tuple(configs))


def list_metrics() -> list[MetricEntry]:
    """What each metric measures and which benchmarks it judges; imports no metric."""
    judged: dict[str, list[str]] = {name: [] for name in metric_names()}
    for benchmark in benchmark_names():
        for metric in dict.fromkeys(m for task in get_benchmark(benchmark).tasks for m in task.metrics):
            if metric not in judged:
                raise UnknownNameError(f"metric of {benchmark}", metric, judged)
            judged[metric].append(benchmark)
    folder = Path(__file__).parents[2] / "metrics"
    return [
        MetricEntry(name, _first_line(folder / name / f"{name}.py"), tuple(benchmarks))
        for name, benchmarks in judged.items()
    ]


def benchmark_table(entry: BenchmarkEntry) -> Any:
    """A rich table of the configurations of one benchmark."""
    from rich.table import Table

    table = Table()
    table.add_column("configuration", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("images", justify="right", no_wrap=True)
    table.add_column("judged by", overflow="fold", min_width=16)
    table.add_column("sources", no_wrap=True)
    for config in entry.configs:
        rows, images = ("–" if n is None else f"{n:,}" for n in (config.rows, config.images))
        state = f"{config.state}, built" if config.built else config.state
        table.add_row(config.name, rows, images, ", ".join(config.metrics) or "–", state)
    return table


def origin_line(entry: BenchmarkEntry) -> str:
    """Where a benchmark's sources come from, in a line."""
    origins = ", ".join(dict.fromkeys(config.origin for config in entry.configs))
    return entry.source if entry.source.startswith(origins) else ": ".join(filter(None, (origins, entry.source)))


def problem_lines(entry: BenchmarkEntry) -> list[str]:
    """What is missing or damaged: a line for each message, the configurations that it is about in front.

    Messages that differ in nothing but the configuration's own name count as one.
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
    table.add_column("judges", overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, ", ".join(entry.benchmarks) or "–")
    return table


def as_json(entries: Iterable[Any]) -> list[dict[str, Any]]:
    """Entries as JSON objects, field by field."""
    return [dataclasses.asdict(entry) for entry in entries]


def _entry(name: str, config: str, data_dir: Path | None, options: Mapping[str, Any]) -> ConfigEntry:
    benchmark = get_benchmark(name)
    tasks = [task for task in benchmark.tasks if config in task.configs]
    counts = _built_counts(name, config, benchmark.split)
    rows, images = counts or card_counts(name).get((config, benchmark.split), (None, None))
    origin, state, problem = MADE, READY, ""
    if benchmark.source:
        # Without a copy of the user's: where the sources would come from.
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


def _built_counts(name: str, config: str, split: str) -> tuple[int, int] | None:
    """Rows and images of the newest build of a configuration in the cache."""
    builds = (cache_folder() / "datasets" / name).glob(f"{config}-*/{BUILD_FILE}")
    for path in sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            counts = read_build(path.parent)["configs"][config][split]
            return counts["rows"], counts["images"]
        except (DataError, KeyError):  # of another version, or of another configuration whose name begins alike
            continue
    return None


class _WouldDownloadError(BaseException):
    """What a builder gets instead of a download; no `Exception`, or builders would take it for a failed one."""


class _Cached:
    """A download manager that gives what `build` has downloaded before, and refuses all else."""

    is_streaming = False
    manual_dir = None

    def __init__(self) -> None:
        from datasets import DownloadConfig

        self.download_config = DownloadConfig()

    def download(self, urls: Any) -> Any:
        from datasets.utils.py_utils import map_nested

        return map_nested(lambda url: _cached_file(str(url)), urls, map_tuple=True)

    def extract(self, paths: Any) -> Any:
        from datasets.config import EXTRACTED_DATASETS_DIR
        from datasets.utils.py_utils import map_nested

        return map_nested(
            lambda path: _cached_file(str(Path(path).absolute()), EXTRACTED_DATASETS_DIR), paths, map_tuple=True
        )

    def download_and_extract(self, urls: Any) -> Any:
        return self.extract(self.download(urls))

    def iter_files(self, paths: Any) -> Any:
        return _refuse(str(paths))

    iter_archive = iter_files


def _cached_file(source: str, folder: str = "") -> str:
    """Where `datasets` keeps what it made of an address or a file; refused where that is not there."""
    from datasets.config import DOWNLOADED_DATASETS_PATH
    from datasets.utils.file_utils import hash_url_to_filename

    path = Path(DOWNLOADED_DATASETS_PATH) / folder / hash_url_to_filename(source)
    return str(path) if path.exists() else _refuse(source)


def _refuse(what: str) -> Any:
    raise _WouldDownloadError(what)


def _look(name: str, config: str, data_dir: Path | None, options: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a configuration's sources, and what is the matter with them."""
    with tempfile.TemporaryDirectory() as scratch, _offline():
        try:
            builder = get_builder(name)(
                cache_dir=scratch,
                dataset_name=name,
                config_name=config,
                data_dir=None if data_dir is None else str(data_dir),
                **options,
            )
            builder._split_generators(_Cached())
        except _WouldDownloadError as refused:
            return TO_DOWNLOAD, str(refused)
        except ConnectionError as error:  # of a builder that asks the Hub by itself
            return TO_DOWNLOAD, str(error)
        except Exception as error:
            return (MISSING if is_missing(error) else DAMAGED), str(error) or type(error).__name__
    return READY, ""


@contextmanager
def _offline() -> Iterator[None]:
    """Refuse what a builder might ask of the Hub by itself, past the download manager."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _first_line(path: Path) -> str:
    """The first line of a module's docstring, read without importing the module."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]
