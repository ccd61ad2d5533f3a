"""One stage of a run after another: items loaded ahead in threads, computed in batches, kept in parts."""

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
from ._decoding import Decoder
from .chunks import ChunkStore, Claims, Part, Save, cut, run_parts
from .distributed import Processes
from .progress import Progress

_DECODING_THREADS = 4

Item = TypeVar("Item")


class Pipeline:
    """Runs stages of work for a scorer: in parts, resumable, shared among processes, with a progress bar each.

    Attributes:
        batch_size: how many items a scorer takes at once. Where the device's memory does not hold that many, batches
            are halved from then on.
        decoder: makes images ready.
        seconds: how long this process spent in each stage, and of that waiting for items to be loaded; and how many
            items it went through.
    """

    def __init__(
        self,
        model: str,
        store: ChunkStore,
        processes: Processes,
        progress: Progress,
        batch_size: int = 32,
        workers: int = 0,
    ) -> None:
        self._model = model
        self._store = store
        self._processes = processes
        self._progress = progress
        self.batch_size = batch_size
        self.decoder = Decoder(workers)
        self.seconds: dict[str, dict[str, float]] = {}

    def run(
        self,
        name: str,
        parts: Sequence[Part],
        load: Callable[[int], Item],
        compute: Callable[[list[Item]], np.ndarray],
        *,
        batch_size: int | None = None,
    ) -> np.ndarray:
        """The rows that `compute` gives for all items of all parts, in order.

        Args:
            name: of the stage, for the progress bar and the files of the parts.
            parts: ranges of item numbers.
            load: makes an item from its number; called ahead of time, in threads.
            compute: rows for a batch of items; a batch never reaches over the end of a part.
            batch_size: items in a batch; by default that of the stages.

        Raises:
            ModelError: `compute` gave NaN or infinity; such a part is not kept.
        """
        clock = {"total": 0.0, "waiting": 0.0, "items": 0}

        def compute_parts(own: Claims, left: int, save: Save) -> None:
            if left < len(parts):
                self._progress.say(f"{name}: going on; some of the {len(parts)} parts were finished before")
            items_left = sum(map(len, parts)) * left // max(len(parts), 1) // self._processes.world
            threads = max(_DECODING_THREADS, 2 * self.decoder.workers)
            window = max(2 * (batch_size or self.batch_size), threads)
            with self._progress.bar(name, items_left) as advance, _ahead(load, own, window, threads) as loaded:
                for number, part, items in loaded:
                    timed = _timed(items, clock)
                    save(number, self._compute_part(name, part, timed, compute, advance, batch_size))
                    clock["items"] += len(part)

        start = time.perf_counter()
        finished = run_parts(self._store, name, parts, self._processes, compute_parts)
        clock["total"] = time.perf_counter() - start
        self.seconds[name] = {key: round(value, 3) for key, value in clock.items()}
        return np.concatenate(finished) if finished else np.empty((0, 0))

    def _compute_part(
        self,
        name: str,
        part: Part,
        items: Iterator[Item],
        compute: Callable[[list[Item]], np.ndarray],
        advance: Callable[[int], None],
        batch_size: int | None,
    ) -> np.ndarray:
        rows = []
        for batch in cut(len(part), batch_size or self.batch_size):
            rows.append(self._compute_batch(list(islice(items, len(batch))), compute, batch_size is None))
            advance(len(batch))
            if not np.isfinite(rows[-1]).all():
                raise ModelError(
                    f"{self._model} gave NaN or infinity in the stage {name}, first among its items "
                    f"{part[batch[0]]} to {part[batch[-1]]}; no predictions file was written. Half precision may "
                    "overflow: try --dtype float32; else the checkpoint is broken"
                )
        return np.concatenate(rows)

    def _compute_batch(
        self, batch: list[Any], compute: Callable[[list[Any]], np.ndarray], may_shrink: bool
    ) -> np.ndarray:
        """The rows of a batch, in smaller batches from here on where the device's memory does not hold it."""
        try:
            return compute(batch)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # A single image may still have many texts, which a scorer takes by the batch size.
            if not may_shrink or (len(batch) == 1 and self.batch_size == 1):
                raise ModelError(
                    f"{self._model} does not fit into the device's memory even with one item at a time ({error}); "
                    "try --dtype bfloat16, a smaller model or a larger device"
                ) from None
        # Outside the handler, whose traceback holds on to the tensors of the failed attempt.
        free_memory()
        half = (len(batch) + 1) // 2
        self.batch_size = min(self.batch_size, half) if len(batch) > 1 else self.batch_size // 2
        self._progress.say(f"out of memory: batches of {self.batch_size} from here on")
        if len(batch) == 1:
            return self._compute_batch(batch, compute, True)
        return np.concatenate(
            [self._compute_batch(batch[:half], compute, True), self._compute_batch(batch[half:], compute, True)]
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device, or the machine, has no memory left."""
    return isinstance(error, MemoryError) or "out of memory" in str(error) or "can't allocate memory" in str(error)


def free_memory() -> None:
    """Give back what torch keeps in reserve."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def _ahead(
    load: Callable[[int], Item], claims: Claims, window: int, threads: int
) -> Iterator[Iterator[tuple[int, Part, Iterator[Item]]]]:
    """The parts with their items, loaded in threads, at most `window` of them ahead of their use.

    No part is claimed but the next one, so that other processes find work to the end. The items of a part must be used
    up before the next part is asked for.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Item]] = deque()
        claimed: deque[tuple[int, Part]] = deque()  # the part in use, and perhaps the next
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

        def items(part: Part) -> Iterator[Item]:
            for _ in part:
                fill()
                yield waiting.popleft().result()

        def parts() -> Iterator[tuple[int, Part, Iterator[Item]]]:
            fill()
            while claimed:
                number, part = claimed[0]
                yield number, part, items(part)
                claimed.popleft()
                fill()

        try:
            yield parts()
        finally:
            pool.shutdown(cancel_futures=True)


def _timed(items: Iterator[Item], clock: dict[str, float]) -> Iterator[Item]:
    """The same items; adds to the clock how long they let one wait."""
    while True:
        start = time.perf_counter()
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            clock["waiting"] += time.perf_counter() - start
        yield item
