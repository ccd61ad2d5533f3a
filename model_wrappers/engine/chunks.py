"""Fixed chunks of work, each stored on the disk when it is finished, so that a run can be resumed and shared.

The chunks depend on the scoring plan alone, not on batch size, number of processes or finished chunks, so the result of
a chunk is the same whichever process computes it. Work is scheduled dynamically across processes: each claims the next
free chunk, and one that dies loses no more than the chunk that it computes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path

import numpy as np

from ...metrics.common.errors import StorageError
from ...metrics.common.storage import read_sealed, write_sealed
from .distributed import Processes

Chunk = range
# Numbered chunks to compute, and the function that stores the rows of one.
Claims = Iterator[tuple[int, Chunk]]
Save = Callable[[int, np.ndarray], None]


class ChunkStore:
    """A folder with the finished chunks of one run, one sealed ``.npy`` file each, named by stage and number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, stage: str, number: int, rows: np.ndarray) -> None:
        """Write a finished chunk, atomically."""
        buffer = io.BytesIO()
        np.save(buffer, rows, allow_pickle=False)
        write_sealed(self._path(stage, number), buffer.getvalue())

    def load(self, stage: str, number: int) -> np.ndarray | None:
        """A finished chunk, or None if there is none or it is not as it was written, so that it is computed again."""
        try:
            return np.load(io.BytesIO(read_sealed(self._path(stage, number))), allow_pickle=False)
        except (OSError, ValueError):
            return None

    def copy(self, stage: str, number: int, other: ChunkStore) -> bool:
        """Copy a finished chunk to another store; False if there is none or it is damaged."""
        try:
            content = read_sealed(self._path(stage, number))
        except (OSError, ValueError):
            return False
        write_sealed(other._path(stage, number), content)
        return True

    def claim(self, stage: str, number: int, session: str) -> bool:
        """Claim a chunk for this process; False if another process of the same session has claimed it."""
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
        """Delete all chunks, when the run is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other runs have unfinished chunks
            self.folder.parent.rmdir()

    def _path(self, stage: str, number: int) -> Path:
        return self.folder / f"{stage}-{number:06d}.npy"


def cut(count: int, size: int) -> list[Chunk]:
    """Split `count` items into chunks of `size`, the last one shorter."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def chunk_size(total: float, least: float, most: float) -> float:
    """The size of a chunk: a sixteenth of the total, within bounds."""
    return min(max(total / 16, least), most)


def cut_by_cost(costs: Sequence[float] | np.ndarray, limit: float) -> list[Chunk]:
    """Split items into chunks that cost at most `limit`; an item that costs more is a chunk by itself."""
    chunks, start, spent = [], 0, 0.0
    for number, cost in enumerate(costs):
        if number > start and spent + cost > limit:
            chunks.append(range(start, number))
            start, spent = number, 0.0
        spent += cost
    return [*chunks, range(start, len(costs))] if len(costs) else []


def choice_key(*choices: np.ndarray) -> str:
    """A short hash of selected items, which keeps chunks of different selections apart."""
    return hashlib.sha256(b"/".join(np.ascontiguousarray(choice).tobytes() for choice in choices)).hexdigest()[:8]


def run_chunks(
    store: ChunkStore,
    stage: str,
    chunks: Sequence[Chunk],
    processes: Processes,
    compute: Callable[[Claims, int, Save], None],
) -> list[np.ndarray]:
    """Compute the unfinished chunks, shared among the processes, and return the rows of all chunks in order.

    Args:
        store: the finished chunks.
        stage: the name of the stage.
        chunks: all chunks.
        processes: the processes of the run.
        compute: called once with an iterator over the numbered chunks of this process, which claims each as it is
            requested, the number of unfinished chunks of all processes, and a function that stores a finished one.

    Raises:
        StorageError: a chunk that another process finished is not visible here.
    """
    session = processes.share_token()
    left = [number for number in range(len(chunks)) if store.load(stage, number) is None]
    processes.wait()

    def claims() -> Claims:
        # Each starts elsewhere, so that two seldom try to claim the same chunk.
        start = 0 if processes.together else len(left) * processes.rank // processes.world
        for number in [*left[start:], *left[:start]]:
            if processes.world == 1 or processes.together or store.claim(stage, number, session):
                yield number, chunks[number]

    def save(number: int, rows: np.ndarray) -> None:
        if processes.is_main or not processes.together:
            store.save(stage, number, rows)

    with processes.raise_on_all_ranks():
        compute(claims(), len(left), save)
    finished = []
    for number in range(len(chunks)):
        rows = store.load(stage, number)
        if rows is None:
            raise StorageError(
                f"chunk {number} of {stage} was finished by another process but is not in {store.folder}: the output "
                "folder must be on a file system that all processes share, and only one run at a time may use it"
            )
        finished.append(rows)
    return finished


def run_part(
    store: ChunkStore,
    stage: str,
    chunks: Sequence[Chunk],
    processes: Processes,
    compute: Callable[[Claims, int, Save], None],
    numbers: Iterable[int],
) -> None:
    """Compute the unfinished chunks among those with these numbers, which are asked for one by one.

    The processes of a part take every n-th of them; arguments as of `run_chunks`.
    """
    own = itertools.islice(numbers, processes.rank, None, processes.world)
    left = ((number, chunks[number]) for number in own if store.load(stage, number) is None)
    most = len(numbers) if isinstance(numbers, Sized) else len(chunks)
    with processes.raise_on_all_ranks():
        compute(left, most, lambda number, rows: store.save(stage, number, rows))
