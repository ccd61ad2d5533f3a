"""Helpers of the benchmarks: offline mode, timers, options, a temporary folder and goals."""

from __future__ import annotations

import argparse
import operator
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before the Hugging Face libraries are imported, which read it then.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


def seconds_of(work: Callable[[], object]) -> float:
    """The wall-clock time of a run, in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def least_in_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The least of the seconds that each way returns; they take turns, so that a slower machine slows all alike."""
    taken = [{name: way() for name, way in ways.items()} for _ in range(rounds)]
    return {name: min(seconds[name] for seconds in taken) for name in ways}


def read_options(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """The command line, with an option for each default, of its type; `Path` itself stands for a required path."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is Path:
            parser.add_argument(option, type=Path, required=True)
        elif default is False:
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=type(default), default=default)
    return parser.parse_args()


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder for the time of a run, with a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VL_ASSAY_CACHE"] = str(Path(folder) / "cache")
        yield Path(folder)


def check_goals(title: str, goals: list[tuple[str, float, str, float]]) -> int:
    """Print a table of (what, measured, sign, goal); the exit status."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "measured", "goal", title=title)
    for name, value, sign, goal in goals:
        table.add_row(name, f"{value:.2g}" if value < 0.01 else f"{value:.2f}", f"{sign} {goal:g}")
    Console(width=120).print(table)
    met = {">=": operator.ge, "<=": operator.le, "<": operator.lt}
    return 0 if all(met[sign](value, goal) for _, value, sign, goal in goals) else 1
