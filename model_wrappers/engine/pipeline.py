"""The stages of a run: items are prefetched in threads, computed in batches and stored in chunks."""

from __future__ import annotations

import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from ...metrics.common.errors import ModelError
from .chunks import Chunk, ChunkStore, Claims, Save, cut, run_chunks, run_part
from .decoding import Decoder
from .distributed import Processes
from .progress import Progress
from .protocol import RemoteModel
from .shards import Part

_DECODING_THREADS = 4
# More items than two chunks have.
_ALL = 1 << 30
# What a stage does, by the first word of its name.
_TITLES = {
    "images": "encoding images",
    "captions": "encoding captions",
    "pairs": "matching images and captions",
    "texts": "comparing captions",
    "questions": "answering questions",
    "boxes": "detecting phrases",
    "float32": "deciding in float32",
    "recheck": "re-checking near-ties",
}

Item = TypeVar("Item")


class Pipeline:
    """Runs stages: in chunks, resumable, shared among processes, each with a progress bar.

    Attributes:
        batch_size: number of items in a batch; halved for the rest of the run when the device runs out of memory.
        decoder: prepares images.
        chunks: for each stage the number of its chunks.
        seconds: for each stage the seconds in this process, those of them spent waiting for items, and the number of
            items.
    """

    def __init__(
        self,
        model: str,
        store: ChunkStore,
        processes: Processes,
        progress: Progress,
        batch_size: int = 32,
        workers: int = 0,
        part: Part | None = None,
    ) -> None:
        self._model = model
        self._store = store
        self._processes = processes
        self._progress = progress
        self.batch_size = batch_size
        self.decoder = Decoder(workers)
        self._part = part
        self.chunks: dict[str, int] = {}
        self.seconds: dict[str, dict[str, float]] = {}

    @property
    def is_part(self) -> bool:
        """Whether this is a part of a run, which knows the results of its own chunks alone."""
        return self._part is not None

    def run(
        self,
        name: str,
        chunks: Sequence[Chunk],
        load: Callable[[int], Item],
        compute: Callable[[list[Item]], np.ndarray],
        *,
        batch_size: int | None = None,
        rows: int | None = None,
        remote: RemoteModel | None = None,
    ) -> np.ndarray:
        """The rows that `compute` returns for the items of all chunks, in order.

        A part of a run computes and stores its own chunks alone and returns zeros, of which nothing is kept. Near-ties
        are known, and re-checked, when all parts are merged.

        Args:
            name: the name of the stage, for the progress bar and the files of the chunks.
            chunks: ranges of item numbers.
            load: makes an item from its number; called ahead of time, in threads.
            compute: returns the rows of a batch of items, all of the same chunk.
            batch_size: replaces the batch size of the pipeline.
            rows: the number of all rows, if it is known and not one for each item; 0 if it is not known.
            remote: the model that `load` asks, in its number of threads and without waiting for slow answers.

        Raises:
            ModelError: `compute` returned NaN or infinity; such a chunk is not stored.
        """
        clock = {"total": 0.0, "waiting": 0.0, "items": 0}

        def compute_own(own: Claims, left: int, save: Save) -> None:
            title = _title(name)
            if left < len(chunks) and self._part is None:
                self._progress.say(f"{title}: resuming; some of the {len(chunks)} chunks are finished")
            items_left = sum(map(len, chunks)) * left // max(len(chunks), 1) // self._processes.world
            threads = max(_DECODING_THREADS, 2 * self.decoder.workers)
            window = max(2 * (batch_size or self.batch_size), threads)
            stop = None
            if remote is not None:
                threads, window, stop = remote.threads, _ALL, remote.stop
            ahead = _ahead(load, own, window, threads, clock, stop)
            with self._progress.bar(title, items_left) as advance, ahead as loaded:
                for number, chunk, items in loaded:
                    save(number, self._compute_chunk(name, chunk, items, compute, advance, batch_size))
                    clock["items"] += len(chunk)

        if self._part is not None:
            if not name.startswith("recheck"):
                self.chunks[name] = len(chunks)
                run_part(self._store, name, chunks, self._processes, compute_own, self._part.claims(name, len(chunks)))
            return np.zeros((sum(map(len, chunks)) if rows is None else rows, 1))
        start = time.perf_counter()
        finished = run_chunks(self._store, name, chunks, self._processes, compute_own)
        clock["total"] = time.perf_counter() - start
        self.seconds[name] = {key: round(value, 3) for key, value in clock.items()}
        return np.concatenate(finished) if finished else np.empty((0, 0))

    def _compute_chunk(
        self,
        name: str,
        chunk: Chunk,
        items: Iterator[Item],
        compute: Callable[[list[Item]], np.ndarray],
        advance: Callable[[int], None],
        batch_size: int | None,
    ) -> np.ndarray:
        rows = []
        for batch in cut(len(chunk), batch_size or self.batch_size):
            rows.append(self._compute_batch(list(islice(items, len(batch))), compute, batch_size is None))
            advance(len(batch))
            if not np.isfinite(rows[-1]).all():
                raise ModelError(
                    f"{self._model} gave NaN or infinity in the stage {name}, first among its items "
                    f"{chunk[batch[0]]} to {chunk[batch[-1]]}; no predictions file was written. Half precision may "
                    "overflow: try --dtype float32; else the checkpoint is broken"
                )
        return np.concatenate(rows)

    def _compute_batch(
        self, batch: list[Any], compute: Callable[[list[Any]], np.ndarray], may_shrink: bool
    ) -> np.ndarray:
        """The rows of a batch; when the device runs out of memory, in smaller batches from then on."""
        try:
            return compute(batch)
        except (MemoryError, RuntimeError) as error:
            signs = ("out of memory", "can't allocate memory")
            if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in signs):
                raise
            # A single image may still have many texts, which are batched by the batch size.
            if not may_shrink or (len(batch) == 1 and self.batch_size == 1):
                raise ModelError(
                    f"{self._model} does not fit into the device's memory even with one item at a time ({error}); "
                    "try --dtype bfloat16, a smaller model or a larger device"
                ) from None
        # Outside the handler, whose traceback references the tensors of the failed attempt.
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
        half = (len(batch) + 1) // 2
        self.batch_size = min(self.batch_size, half) if len(batch) > 1 else self.batch_size // 2
        self._progress.say(f"out of memory: batches of {self.batch_size} from here on")
        if len(batch) == 1:
            return self._compute_batch(batch, compute, True)
        return np.concatenate(
            [self._compute_batch(batch[:half], compute, True), self._compute_batch(batch[half:], compute, True)]
        )


def _title(stage: str) -> str:
    """A stage in words: ``"recheck-images-1a2b"`` is "re-checking near-ties: images"."""
    first, *more = stage.split("-")
    words = _TITLES.get(first, first)
    return f"{words}: {more[0]}" if first == "recheck" and more else words


@contextmanager
def _ahead(
    load: Callable[[int], Item],
    claims: Claims,
    window: int,
    threads: int,
    clock: dict[str, float],
    stop: Callable[[], None] | None = None,
) -> Iterator[Iterator[tuple[int, Chunk, Iterator[Item]]]]:
    """The chunks with their items, at most `window` of which are prefetched in threads.

    Only the next chunk is claimed ahead, so that other processes find work to the end. The items of a chunk must be
    consumed before the next chunk is requested; the time spent waiting for them is added to the clock. After an error
    `stop` is called, and items that are being loaded are awaited.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Item]] = deque()
        claimed: deque[tuple[int, Chunk]] = deque()  # the chunk in use, and perhaps the next
        unsubmitted: Iterator[int] = iter(())  # items of the last of them

        def fill() -> None:
            nonlocal unsubmitted
            while len(waiting) < window:
                item = next(unsubmitted, None)
                if item is not None:
                    waiting.append(pool.submit(load, item))
                    continue
                following = next(claims, None) if len(claimed) < 2 else None
                if following is None:
                    return
                claimed.append(following)
                unsubmitted = iter(following[1])

        def items(chunk: Chunk) -> Iterator[Item]:
            for _ in chunk:
                start = time.perf_counter()
                fill()
                item = waiting.popleft().result()
                clock["waiting"] += time.perf_counter() - start
                yield item

        def chunks() -> Iterator[tuple[int, Chunk, Iterator[Item]]]:
            fill()
            while claimed:
                number, chunk = claimed[0]
                yield number, chunk, items(chunk)
                claimed.popleft()
                fill()

        try:
            yield chunks()
        except BaseException:
            if stop is not None:
                stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
