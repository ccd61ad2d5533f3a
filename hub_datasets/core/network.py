"""What needs the network is told before any work, and without it nothing waits for retries."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from ...metrics.common.errors import DataError
from .benchmarks import benchmark_names, get_benchmark
from .downloads import NoSourceError
from .listing import READY, TO_DOWNLOAD, BenchmarkEntry, list_benchmarks
from .repository import cache_folder

_SECONDS = 5.0


def is_hub_reachable() -> bool:
    """Whether the Hub can be reached; if not, only what is in its cache is used from now on, without retries."""
    from huggingface_hub import constants

    if not constants.HF_HUB_OFFLINE and not _is_reachable(constants.ENDPOINT):
        constants.HF_HUB_OFFLINE = True
        if "datasets" in sys.modules:  # which has copied the constant
            sys.modules["datasets"].config.HF_HUB_OFFLINE = True
    return not constants.HF_HUB_OFFLINE


def check_sources(
    references: Iterable[str], *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> None:
    """Raise the first of the `source_problems`, whose arguments it has.

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
    entries: dict[str, BenchmarkEntry] = {}
    for reference in references:
        name, _, part = reference.partition("/")
        if name not in benchmark_names() or not get_benchmark(name).source:
            continue
        chosen = {config for _, configs in get_benchmark(name).select(name, part or None) for config in configs}
        folder = cache_folder() / "datasets" / name
        if any(next(folder.glob(f"{config}-*"), None) for config in chosen):
            continue
        if name not in entries:
            without_images = {**(options or {}), "with_images": False}
            [entries[name]] = list_benchmarks([name], data_dir=data_dir, options=without_images)
        problems = {each.name: each for each in entries[name].configs if each.name in chosen and each.state != READY}
        if len(problems) < len(chosen) or not problems:
            continue
        first = next(iter(problems.values()))
        message = f"{name}/{first.name}: {first.problem}"
        if first.state == TO_DOWNLOAD:
            addresses = first.problem.split(NoSourceError.OR)
            if not constants.HF_HUB_OFFLINE and any(map(_is_reachable, addresses)):
                continue
            lacking = "" if data_dir is None else f", as {data_dir} lacks it"
            message = (
                f"{name}/{first.name} has to be downloaded{lacking}, and {first.problem} cannot be reached: connect"
            )
            message += f", or give your own copy as --data-dir. Its source: {entries[name].source}"
        errors[reference] = DataError(message)
    return errors


@cache
def _is_reachable(url: str) -> bool:
    """Whether a connection to the host of an address can be made; true behind a proxy, which alone can tell."""
    parts = urlsplit(url)
    if getproxies() or not parts.hostname:
        return True
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        socket.create_connection((parts.hostname, port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
