"""Open metrics and benchmarks by their bare names, offline and from any folder."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...metrics.common.errors import check_known
from ...metrics.modules.discovery import install_metric, metric_names
from ..core.benchmarks import benchmark_names, code_hash, config_names, get_benchmark, get_builder
from ..core.build import MissingSourceError, builder_errors, sources_folder


def install(names: Iterable[str] | None = None, *, data_dir: str | Path | None = None) -> Iterator[str]:
    """Fill the caches in which `evaluate` and `datasets` look for bare names.

    Args:
        names: metrics and benchmarks; None for all metrics and all benchmarks without sources.
        data_dir: the user's copy of the benchmarks' sources.

    Yields:
        For each metric and configuration, the call that opens it; and a line with the configurations of a benchmark
        that are left out because their sources are missing.

    Raises:
        UnknownNameError: a name that is neither a metric nor a benchmark.
        DataError: sources are damaged, or missing for all configurations of a benchmark.
    """
    if names is None:
        names = [*metric_names(), *(name for name in benchmark_names() if not get_benchmark(name).source)]
    for name in names:
        check_known("metric or benchmark", [name], [*metric_names(), *benchmark_names()])
        if name in metric_names():
            install_metric(name)
            yield f'evaluate.load("{name}")'
        else:
            yield from _install_benchmark(name, sources_folder(name, data_dir))


def _install_benchmark(name: str, sources: Path | None) -> Iterator[str]:
    """Install the configurations whose sources are available; if no configuration is, raise the first error."""
    missing: dict[str, MissingSourceError] = {}
    configs = config_names(name)
    for config in configs:
        builder = get_builder(name)(dataset_name=name, config_name=config, hash=code_hash(name))
        # Set afterwards: otherwise the configuration would get a name that a bare call does not find. On a copy, since
        # all builders of that name share the class's configuration.
        builder.config = copy.copy(builder.config)
        builder.config.data_dir = None if sources is None else str(sources)
        try:
            with builder_errors(f"{name}/{config}"):
                builder.download_and_prepare(download_mode=None if sources is None else "force_redownload")
        except MissingSourceError as error:
            missing[config] = error
            continue
        yield f'load_dataset("{name}", "{config}")'
    if len(missing) == len(configs):
        raise next(iter(missing.values()))
    for error in missing.values():
        yield f"left out: {str(error).splitlines()[0]}"
