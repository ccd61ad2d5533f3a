"""The stages of a run: each computes one kind of result for the items that the store lacks.

A stage reads what is stored, divides the missing items among the ranks, loads them ahead, computes them in batches as
large as the device likes, and stores the results in blocks, so that a killed run loses the last seconds at most.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
# Kinds of results that are computed one at a time in float64 begin with the first prefix. Shards compute
# neither: which items need them depends on the results of all shards.
EXACT, SINGLE = "float64-", "float32-"
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
# Items, the prepared image of each, and its width and height in pixels; the latter two are empty without images.
Batch = tuple[Sequence[Item], list[Any], list[tuple[int, int]]]


def each_alone(missing: np.ndarray) -> Sequence[Item]:
    """Make an item of each position."""
    return list(missing[:, None])


class Work(NamedTuple):
    """The work of a stage.

    Attributes:
        kind: of the results, which names the parts in the store; its first word is the stage's title.
        keys: the key of each result.
        compute: returns the results of a batch, given as a `Batch`, in the order of its items: an array or tensor
            (n, width), or a list of arrays for ragged results.
        items: divides missing positions, ascending, into items; by default each is one.
        load: loads the image of an item, in another process or thread; None for a stage without images.
        owners: the content key that decides which shard computes a result, for each; by default its own key.
        ragged: whether results differ in length.
        check: raises ModelError if rows (n, width) are not as the protocol wants them.
    """

    kind: str
    keys: Sequence[bytes]
    compute: Callable[..., Any]
    items: Callable[[np.ndarray], Sequence[Item]] = each_alone
    load: Callable[[Item], Loaded] | None = None
    owners: Sequence[bytes] | None = None
    ragged: bool = False
    check: Callable[[np.ndarray], None] | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether batches have one item, for the re-check in float64."""
        return self.kind.startswith(EXACT)

    def owned_by(self, positions: np.ndarray, count: int) -> list[Shard]:
        """Return for each position the shard, of `count`, that computes its result."""
        owners = self.owners or self.keys
        return [Shard.of(owners[position], count) for position in positions.tolist()]


@dataclass
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
        seconds: for each stage the seconds in this process, those spent waiting for images, and the number of items
            that it computed.
        counts: for each stage the number of results, and how many of them were stored before.
    """

    model: str
    store: Store
    processes: Processes
    progress: Progress
    loader: Loader
    batch_size: int
    shard: Shard | None = None
    merged: int = 0
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def run(self, work: Work) -> Any:
        """Return the results of all keys: an array (n, width), or a list of arrays if they are ragged.

        A shard computes and stores its own results; what it returns is not complete and of no use.

        Raises:
            ModelError: the results are not finite, too few or of another width; or memory ran out with one item.
            DataError: results that a shard should have computed are missing.
            StorageError: the store cannot be written, or another rank's results are not visible here.
        """
        start = time.perf_counter()
        clock = self.seconds.setdefault(work.kind, {"total": 0.0, "waiting": 0.0, "items": 0})
        rows = StoredRows(len(work.keys), ragged=work.ragged)
        self.store.read(work.kind, work.keys, rows)
        missing = self.processes.from_main(rows.missing)
        self.counts[work.kind] = len(work.keys), len(work.keys) - len(missing)
        if self.merged and not work.kind.startswith((EXACT, SINGLE)):
            self._refuse_missing(work, missing)
        if self.shard is not None:
            mine = [shard == self.shard for shard in work.owned_by(missing, self.shard.count)]
            missing = missing[np.array(mine, bool)]
        if len(missing):
            self._compute(work, work.items(missing)[self.processes.rank :: self.processes.world], rows, clock)
        if self.processes.world > 1 and self.shard is None:
            with self.processes.raise_on_all_ranks():
                self._read_results_of_others(work, rows)
        clock["total"] += time.perf_counter() - start
        clock.update({name: round(value, 3) for name, value in clock.items()})
        return rows.filled()

    def _refuse_missing(self, work: Work, missing: np.ndarray) -> None:
        if lacking := sorted({shard.number for shard in work.owned_by(missing, self.merged)}):
            raise DataError(
                f"missing: {', '.join(f'shard {number}' for number in lacking)} of {self.merged} "
                f"({len(missing):,} results of the stage {work.kind}). Run these again with the same command, and "
                "then merge again; what is there is kept"
            )

    def _read_results_of_others(self, work: Work, rows: StoredRows) -> None:
        """Fill in what other ranks have computed; raise StorageError if it is not there."""
        self.store.read(work.kind, work.keys, rows)
        if len(rows.missing):
            raise StorageError(
                f"{len(rows.missing):,} results that other processes computed are not in {self.store.folder}: all "
                "processes of a run need one folder for their results, on one machine or a shared disk; machines that "
                "share nothing take --shard"
            )

    def _compute(self, work: Work, items: Sequence[Item], rows: StoredRows, clock: dict[str, float]) -> None:
        """Compute and store the rows of items; what was computed before an error is stored too."""
        title = _TITLES.get(work.kind.partition("-")[0], work.kind)
        if stored := self.counts[work.kind][1]:
            self.progress.say(f"{title}: {stored:,} of {len(work.keys):,} results are stored already")
        block: list[tuple[Sequence[Item], Any]] = []
        count, since = 0, time.perf_counter()
        with self.processes.raise_on_all_ranks(), self.progress.bar(title, len(items)) as advance:
            try:
                for batch in self._batches(work, items, clock):
                    for part, results in self._attempts(work, *batch):
                        block.append((part, results))
                        count += len(part)
                        clock["items"] += len(part)
                        advance(len(part))
                    if count >= _ITEMS or time.perf_counter() - since > _SECONDS:
                        full, block = block, []
                        self._keep(work, full, rows)
                        count, since = 0, time.perf_counter()
            except BaseException:
                with suppress(Exception):  # the first error is the one to report
                    self._keep(work, block, rows)
                raise
            self._keep(work, block, rows)

    def _batches(self, work: Work, items: Sequence[Item], clock: dict[str, float]) -> Iterator[Batch]:
        size = 1 if work.is_exact else self.batch_size
        if work.load is None:
            for start in range(0, len(items), size):
                yield items[start : start + size], [], []
            return
        start, asked = 0, time.perf_counter()
        for images, sizes in self.loader.batches(items, work.load, size):
            clock["waiting"] += time.perf_counter() - asked
            yield items[start : start + len(images)], images, sizes
            start, asked = start + len(images), time.perf_counter()

    def _attempts(
        self, work: Work, items: Sequence[Item], images: list[Any], sizes: list[tuple[int, int]]
    ) -> Iterator[tuple[Sequence[Item], Any]]:
        """Yield the items of a batch with their results, in parts if it is larger than batches are by now."""
        start = 0
        while start < len(items):
            part = slice(start, start + self.batch_size)
            # A whole batch keeps its form, in which it is copied to the device; see `loader.Stacked`.
            part_images = images if len(items) <= self.batch_size else images[part]
            results = self._compute_or_halve(work, (items[part], part_images, sizes[part]))
            if results is not None:
                yield items[part], results
                start = part.stop

    def _compute_or_halve(self, work: Work, batch: Batch) -> Any:
        """Return the results of a batch; None, with `batch_size` halved, if memory runs out."""
        try:
            result = work.compute(*batch)
            return result if work.ragged else as_numbers(self.model, result)
        except (MemoryError, RuntimeError) as error:
            # A model may lack an operation in float64, in which items are computed one by one.
            if not work.is_exact and not is_out_of_memory(error):
                raise
            problem = str(error) or type(error).__name__
        if work.is_exact:
            raise ModelError(f"{self.model} failed with one item at a time in the stage {work.kind}: {problem}")
        # One image may still have many texts, which are batched by the batch size.
        if self.batch_size == 1:
            raise ModelError(
                f"{self.model} does not fit into the device's memory even with one item at a time ({problem}); "
                "try --dtype bfloat16, a smaller model or a larger device"
            )
        if "torch" in sys.modules:
            from accelerate.utils.memory import clear_device_cache

            # Outside the handler, whose traceback references the tensors of the failed attempt.
            clear_device_cache(garbage_collection=True)
        size = len(batch[0])
        self.batch_size = (min(self.batch_size, size) if size > 1 else self.batch_size) // 2
        self.progress.say(f"out of memory: batches of {self.batch_size} from here on")
        return None

    def _keep(self, work: Work, block: Sequence[tuple[Sequence[Item], Any]], rows: StoredRows) -> None:
        """Fill in and store the results of some batches."""
        if not block:
            return
        positions = np.concatenate([item for items, _ in block for item in items])
        batches = [result for _, result in block]
        if work.ragged:
            results: Any = [as_array(self.model, row) for batch in batches for row in batch]
        else:
            results = as_array(self.model, joined(self.model, batches))
            results = results if results.ndim == 2 else results[:, None]
        if len(results) != len(positions):
            raise ModelError(
                f"{self.model} gave {len(results)} results for {len(positions)} items in the stage {work.kind}"
            )
        finite = [np.isfinite(row).all() for row in results] if work.ragged else np.isfinite(results).all(axis=1)
        if not np.all(finite):
            raise ModelError(
                f"{self.model} gave NaN or infinity in the stage {work.kind}, first for item "
                f"{positions[int(np.argmin(finite))]}; no predictions file was written. Half precision may overflow: "
                "try --dtype float32; else the checkpoint is broken"
            )
        if work.check is not None:
            work.check(results)
        rows.put(positions, results)
        try:
            self.store.add(work.kind, [work.keys[position] for position in positions.tolist()], results)
        except StorageError as error:  # a full disk: a run of a single process goes on without the store
            if self.processes.world > 1 or self.shard is not None:
                raise
            self.progress.say(f"results are not kept from here on: {error}")
            self.store = Store(None)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, by Accelerate's own test."""
    if isinstance(error, MemoryError):
        return True
    if "torch" not in sys.modules or not isinstance(error, Exception):
        return False
    from accelerate.utils.memory import should_reduce_batch_size

    return should_reduce_batch_size(error) or isinstance(error, sys.modules["torch"].OutOfMemoryError)
