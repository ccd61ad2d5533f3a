"""Work cut into fixed parts, each finished part on the disk: what makes a run resumable.

The cut depends on the work alone, not on batch size, number of processes or what was already done; so a part's
result is the same whoever computes it and when.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..metrics.errors import StorageError
from ..metrics.storage import write_atomically
from ._processes import Processes

Part = range


class PartStore:
    """A folder with the finished parts of one run, one ``.npy`` file each, named by stage and number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, stage: str, number: int, rows: np.ndarray) -> None:
        """Write a finished part; it is there whole or not at all."""
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        write_atomically(self._path(stage, number), buffer.getvalue())

    def load(self, stage: str, number: int) -> np.ndarray | None:
        """A finished part, or None where there is none that can be read."""
        try:
            return np.load(self._path(stage, number), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None

    def remove(self) -> None:
        """Forget everything: the run is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other runs have unfinished parts beside
            self.folder.parent.rmdir()

    def _path(self, stage: str, number: int) -> Path:
        return self.folder / f"{stage}-{number:06d}.npy"


def cut(count: int, size: int) -> list[Part]:
    """Cut `count` items into parts of `size`, the last one shorter."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def run_parts(
    store: PartStore,
    stage: str,
    parts: Sequence[Part],
    processes: Processes,
    compute: Callable[[Sequence[tuple[int, Part]], Callable[[int, np.ndarray], None]], None],
) -> list[np.ndarray]:
    """Compute the parts that are not there yet, shared among the processes, and return all of them in order.

    Args:
        store: where finished parts are.
        stage: the name of this kind of work.
        parts: all parts of the work.
        processes: the processes of the run; each takes every `world`-th part of those left.
        compute: called once with this process's numbered parts and a function that takes each finished one.

    Raises:
        StorageError: a part that another process finished cannot be seen here.
    """
    processes.wait()
    left = [number for number in range(len(parts)) if store.load(stage, number) is None]
    processes.wait()
    own = left[processes.rank :: processes.world]
    with processes.together():
        if own:
            compute([(number, parts[number]) for number in own], lambda number, rows: store.save(stage, number, rows))
    return [_finished(store, stage, number) for number in range(len(parts))]


def _finished(store: PartStore, stage: str, number: int) -> np.ndarray:
    rows = store.load(stage, number)
    if rows is None:
        raise StorageError(
            f"part {number} of {stage} was finished by another process but is not in {store.folder}: "
            "the output folder must be on a file system that all processes share"
        )
    return rows
