"""The stages of a run: each computes one kind of result for the items that the store lacks.

A stage reads what is stored, divides the missing items among the ranks, loads them ahead, computes them in batches as
large as the device likes, and stores the results in blocks, so that a killed run loses the last seconds at most.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ...metrics.common.errors import DataError, ModelError, StorageError
from .arrays import as_array, as_numbers, joined
from .distributed import Processes
from .loader import Loaded, Loader
from .progress import Progress
from .shards import Shard
from .store import Store, StoredRows

# A block of results is stored after so many seconds or items.
_SECONDS, _ITEMS = 10.0, 8192
# The description of a stage, by the first word of its kind.
_TITLES = {
    "images": "encoding images",
    "captions": "encoding captions",
    "pairs": "matching images and captions",
    "choices": "choosing among captions",
    "texts": "comparing captions",
    "questions": "answering questions",
    "boxes": "detecting phrases",
    "float32": "deciding in float32",
    "float64": "re-checking near-ties",
}

# The positions among the keys of a stage that one item computes, such as all captions of an image.
Item = np.ndarray


class StageBatch(NamedTuple):
    """Items, and for stages with images the prepared image of each, and its width and height in pixels."""

    items: Sequence[Item]
    images: list[Any]
    sizes: list[tuple[int, int]]

    def part(self, start: int, stop: int) -> StageBatch:
        """Return some of the items."""
        return StageBatch(self.items[start:stop], self.images[start:stop], self.sizes[start:stop])


def each_alone(missing: np.ndarray) -> Sequence[Item]:
    """Make an item of each position."""
    return list(missing[:, None])


class Work(NamedTuple):
    """The work of a stage.

    Attributes:
        kind: of the results, which names the parts in the store; its first word is the stage's title.
        keys: the key of each result.
        compute: returns the results of a batch in the order of its items: an array or tensor (n, width),
            or a list of arrays for ragged results.
        items: divides missing positions, ascending, into items; by default each is one.
        load: loads the image of an item, in another process or thread; None for a stage without images.
        owners: the content key that decides which shard computes a result, for each; by default its own key.
        ragged: whether results differ in length.
        one_by_one: whether batches have one item, as for the re-check in float64.
        derived: whether the items follow from the results of other stages, so that no shard has computed them.
        check: raises ModelError if rows (n, width) are not as the protocol wants them.
    """

    kind: str
    keys: Sequence[bytes]
    compute: Callable[[StageBatch], Any]
    items: Callable[[np.ndarray], Sequence[Item]] = each_alone
    load: Callable[[Item], Loaded] | None = None
    owners: Sequence[bytes] | None = None
    ragged: bool = False
    one_by_one: bool = False
    derived: bool = False
    check: Callable[[np.ndarray], None] | None = None


class Stages:
    """Runs stages, each with a progress bar.

    Args:
        model: its name, for messages.
        store: of the model's results.
        processes: the ranks of the run.
        progress: prints.
        loader: of images.
        batch_size: the number of items in a batch; halved for the rest of the run when memory runs out.
        shard: the part to compute; None for all.
        merged: the number of shards whose results are in the store; 0 if this is no merge.

    Attributes:
        batch_size: the present number of items in a batch.
        seconds: for each stage the seconds in this process, those spent waiting for images, and the number of items
            that it computed.
        stored: for each stage the number of results that were stored before.
    """

    def __init__(
        self,
        model: str,
        store: Store,
        processes: Processes,
        progress: Progress,
        loader: Loader,
        batch_size: int,
        shard: Shard | None = None,
        merged: int = 0,
    ) -> None:
        self._model, self._store, self.processes, self.progress = model, store, processes, progress
        self._loader, self.batch_size = loader, batch_size
        self.shard, self._merged = shard, merged
        self.seconds: dict[str, dict[str, float]] = {}
        self.stored: dict[str, int] = {}

    def run(self, work: Work) -> Any:
        """Return the results of all keys: an array (n, width), or a list of arrays if they are ragged.

        A shard computes and stores its own results; what it returns is not complete and of no use.

        Raises:
            ModelError: the results are not finite, too few or of another width; or memory ran out with one item.
            DataError: results that a shard should have computed are missing.
            StorageError: the store cannot be written, or another rank's results are not visible here.
        """
        start = time.perf_counter()
        rows = StoredRows(len(work.keys), ragged=work.ragged)
        self._store.read(work.kind, work.keys, rows)
        missing = self.processes.from_main(rows.missing)
        self.stored[work.kind] = len(work.keys) - len(missing)
        clock = {"total": 0.0, "waiting": 0.0, "items": 0}
        if len(missing):
            if self._merged and not work.derived:
                self._refuse_missing(work, missing)
            if self.shard is not None:
                missing = missing[self._is_own(work, missing, self.shard)]
            self._compute_missing(work, rows, missing, clock)
        if self.processes.world > 1 and self.shard is None:
            with self.processes.raise_on_all_ranks():
                self._read_results_of_others(work, rows)
        clock["total"] = time.perf_counter() - start
        earlier = self.seconds.get(work.kind, {})
        self.seconds[work.kind] = {name: round(earlier.get(name, 0) + value, 3) for name, value in clock.items()}
        return rows.filled()

    def _compute_missing(self, work: Work, rows: StoredRows, missing: np.ndarray, clock: dict[str, float]) -> None:
        """Compute the rows at these positions, each by one rank."""
        items = work.items(missing)[self.processes.rank :: self.processes.world]
        title = _TITLES.get(work.kind.partition("-")[0], work.kind)
        if stored := self.stored[work.kind]:
            self.progress.say(f"{title}: {stored:,} of {len(work.keys):,} results are stored already")
        with self.processes.raise_on_all_ranks(), self.progress.bar(title, len(items)) as advance:
            self._compute(work, items, rows, clock, advance)

    def _read_results_of_others(self, work: Work, rows: StoredRows) -> None:
        """Fill in what other ranks have computed; raise StorageError if it is not there."""
        self._store.read(work.kind, work.keys, rows)
        if len(rows.missing):
            raise StorageError(
                f"{len(rows.missing):,} results that other processes computed are not in {self._store.folder}: all "
                "processes of a run need one folder for their results, on one machine or a shared disk; machines that "
                "share nothing take --shard"
            )

    def _compute(
        self,
        work: Work,
        items: Sequence[Item],
        rows: StoredRows,
        clock: dict[str, float],
        advance: Callable[[int], None],
    ) -> None:
        block: list[tuple[Sequence[Item], Any]] = []
        count, since = 0, time.perf_counter()
        try:
            for batch in self._batches(work, items, clock):
                block += self._attempt(work, batch)
                count += len(batch.items)
                clock["items"] += len(batch.items)
                advance(len(batch.items))
                if count >= _ITEMS or time.perf_counter() - since > _SECONDS:
                    full, block = block, []
                    self._keep(work, full, rows)
                    count, since = 0, time.perf_counter()
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                self._keep(work, block, rows)
            raise
        self._keep(work, block, rows)

    def _batches(self, work: Work, items: Sequence[Item], clock: dict[str, float]) -> Iterator[StageBatch]:
        size = 1 if work.one_by_one else self.batch_size
        if work.load is None:
            for start in range(0, len(items), size):
                yield StageBatch(items[start : start + size], [], [])
            return
        start, asked = 0, time.perf_counter()
        for images, sizes in self._loader.batches(items, work.load, size):
            clock["waiting"] += time.perf_counter() - asked
            yield StageBatch(items[start : start + len(images)], images, sizes)
            start, asked = start + len(images), time.perf_counter()

    def _attempt(self, work: Work, batch: StageBatch) -> list[tuple[Sequence[Item], Any]]:
        """Return the results of a batch, in parts if it is larger than batches are by now."""
        results, start = [], 0
        while start < len(batch.items):
            size = min(self.batch_size, len(batch.items) - start)
            subset = batch.part(start, start + size)
            result = self._compute_or_halve(work, subset)
            if result is not None:
                results.append((subset.items, result))
                start += size
        return results

    def _compute_or_halve(self, work: Work, batch: StageBatch) -> Any:
        """Return the results of a batch; None, with `batch_size` halved, if memory runs out."""
        problem = ""
        try:
            result = work.compute(batch)
            result = result if work.ragged else as_numbers(self._model, result)
        except (MemoryError, RuntimeError) as error:
            # A model may lack an operation in float64, in which items are computed one by one.
            if not work.one_by_one and not is_out_of_memory(error):
                raise
            problem = str(error) or type(error).__name__
        if not problem:
            return result  # pyright: ignore[reportPossiblyUnboundVariable]
        if work.one_by_one:
            raise ModelError(f"{self._model} failed with one item at a time in the stage {work.kind}: {problem}")
        # One image may still have many texts, which are batched by the batch size.
        if self.batch_size == 1:
            raise ModelError(
                f"{self._model} does not fit into the device's memory even with one item at a time ({problem}); "
                "try --dtype bfloat16, a smaller model or a larger device"
            )
        if "torch" in sys.modules:
            from accelerate.utils.memory import clear_device_cache

            # Outside the handler, whose traceback references the tensors of the failed attempt.
            clear_device_cache(garbage_collection=True)
        self.batch_size = max(1, min(self.batch_size, len(batch.items) if len(batch.items) > 1 else 2**30) // 2)
        self.progress.say(f"out of memory: batches of {self.batch_size} from here on")
        return None

    def _keep(self, work: Work, block: Sequence[tuple[Sequence[Item], Any]], rows: StoredRows) -> None:
        """Fill in and store the results of some batches."""
        if not block:
            return
        positions = np.concatenate([item for items, _ in block for item in items])
        batches = [result for _, result in block]
        if work.ragged:
            results: Any = [as_array(self._model, row) for batch in batches for row in batch]
        else:
            results = as_array(self._model, joined(self._model, batches))
            results = results if results.ndim == 2 else results[:, None]
        if len(results) != len(positions):
            raise ModelError(
                f"{self._model} gave {len(results)} results for {len(positions)} items in the stage {work.kind}"
            )
        finite = [np.isfinite(row).all() for row in results] if work.ragged else np.isfinite(results).all(axis=1)
        if not np.all(finite):
            raise ModelError(
                f"{self._model} gave NaN or infinity in the stage {work.kind}, first for item "
                f"{positions[int(np.argmin(finite))]}; no predictions file was written. Half precision may overflow: "
                "try --dtype float32; else the checkpoint is broken"
            )
        if work.check is not None:
            work.check(results)
        rows.put(positions, results)
        self._add(work.kind, [work.keys[position] for position in positions.tolist()], results)

    def _add(self, kind: str, keys: Sequence[bytes], results: Any) -> None:
        """Store results; if the disk is full, a run of a single process goes on without the store."""
        try:
            self._store.add(kind, keys, results)
        except StorageError as error:
            if self.processes.world > 1 or self.shard is not None:
                raise
            self.progress.say(f"results are not kept from here on: {error}")
            self._store = Store(None)

    def _is_own(self, work: Work, positions: np.ndarray, shard: Shard) -> np.ndarray:
        owners = work.owners or work.keys
        return np.array([shard.has(owners[position]) for position in positions.tolist()], bool)

    def _refuse_missing(self, work: Work, missing: np.ndarray) -> None:
        owners = work.owners or work.keys
        lacking = sorted({Shard.of(owners[position], self._merged).number for position in missing.tolist()})
        raise DataError(
            f"missing: {', '.join(f'shard {number}' for number in lacking)} of {self._merged} "
            f"({len(missing):,} results of the stage {work.kind}). Run these again with the same command, and then "
            "merge again; what is there is kept"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, by Accelerate's own test."""
    if isinstance(error, MemoryError):
        return True
    if "torch" not in sys.modules or not isinstance(error, Exception):
        return False
    from accelerate.utils.memory import should_reduce_batch_size

    return should_reduce_batch_size(error) or isinstance(error, sys.modules["torch"].OutOfMemoryError)
