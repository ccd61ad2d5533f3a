"""Work cut into fixed parts, each finished part on the disk: what makes a run resumable and shareable.

The cut depends on the work alone, not on batch size, number of processes or what was already done; so a part's
result is the same whoever computes it and when. Processes take the next part that nobody has taken: none waits long
for a slower one, and one that dies loses no more than the part in its hands.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ...metrics.common.errors import StorageError
from ...metrics.common.storage import write_atomically
from .distributed import Processes

Part = range
# A part by its number, and what takes its finished rows.
Claims = Iterator[tuple[int, Part]]
Save = Callable[[int, np.ndarray], None]


class ChunkStore:
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

    def claim(self, stage: str, number: int, session: str) -> bool:
        """Take a part for this process; False where another process of the same session has it."""
        path = self._path(stage, number).with_suffix(f".{session}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error

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


def part_size(total: float, least: float, most: float) -> float:
    """How much of some work goes into a part: an amount that leaves sixteen parts to share, within bounds."""
    return min(max(total / 16, least), most)


def cut_by_cost(costs: Sequence[float] | np.ndarray, limit: float) -> list[Part]:
    """Cut items into parts that cost about the same: a part ends before it would cost more than `limit`.

    An item that costs more by itself is a part of its own.
    """
    parts, start, spent = [], 0, 0.0
    for number, cost in enumerate(costs):
        if number > start and spent + cost > limit:
            parts.append(range(start, number))
            start, spent = number, 0.0
        spent += cost
    return [*parts, range(start, len(costs))] if len(costs) else []


def choice_key(*choices: np.ndarray) -> str:
    """A short name for a choice of items: parts of another choice must not be taken for parts of this one."""
    return hashlib.sha256(b"/".join(np.ascontiguousarray(choice).tobytes() for choice in choices)).hexdigest()[:8]


def run_parts(
    store: ChunkStore,
    stage: str,
    parts: Sequence[Part],
    processes: Processes,
    compute: Callable[[Claims, int, Save], None],
) -> list[np.ndarray]:
    """Compute the parts that are not there yet, shared among the processes, and return all of them in order.

    Args:
        store: where finished parts are.
        stage: the name of this kind of work.
        parts: all parts of the work.
        processes: the processes of the run.
        compute: called once with this process's numbered parts, which it takes one by one, the number of parts that
            are left to all processes, and a function that takes each finished one.

    Raises:
        StorageError: a part that another process finished cannot be seen here.
    """
    session = processes.share_token()
    left = [number for number in range(len(parts)) if store.load(stage, number) is None]
    processes.wait()

    def claims() -> Claims:
        # Each begins elsewhere, so that they seldom reach for the same part.
        start = len(left) * processes.rank // processes.world
        for number in [*left[start:], *left[:start]]:
            if processes.world == 1 or store.claim(stage, number, session):
                yield number, parts[number]

    with processes.raise_on_all_ranks():
        compute(claims(), len(left), lambda number, rows: store.save(stage, number, rows))
    return [_finished(store, stage, number) for number in range(len(parts))]


def _finished(store: ChunkStore, stage: str, number: int) -> np.ndarray:
    rows = store.load(stage, number)
    if rows is None:
        raise StorageError(
            f"part {number} of {stage} was finished by another process but is not in {store.folder}: "
            "the output folder must be on a file system that all processes share, and only one run at a time may use it"
        )
    return rows
