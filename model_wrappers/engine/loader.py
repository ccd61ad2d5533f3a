"""Loading of images ahead of the model: in forked workers of torch's `DataLoader`, or in threads.

Forked workers share the memory of this process, so nothing is pickled to start them, and they start in a tenth of a
second. Threads take their place where processes cannot be forked and where little is to be decoded: Pillow releases the
interpreter lock while it decodes.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...metrics.common.errors import ModelError, VLAssayError
from .distributed import available_cpus

T = TypeVar("T")
R = TypeVar("R")
# Images, as a list or a tensor, and the width and height of each.
_Images = tuple[Any, list[tuple[int, int]]]

# Seconds of decoding below which no processes are started.
_WORTHWHILE = 1.0
# Images whose decoding is timed, at the start of a stage.
_TIMED = 2
# The most images that a worker decodes for one transfer, and the transfers that each prepares ahead.
_BLOCK, _AHEAD = 32, 4


class Loaded(NamedTuple):
    """A prepared image, and the width and height of the original."""

    image: Any
    size: tuple[int, int]


class Stacked(list[Any]):
    """Arrays of one shape, with the same as CPU tensors (k, …) one after the other: what a device takes."""

    def __init__(self, blocks: Sequence[Any]) -> None:
        super().__init__(row for block in blocks for row in block.numpy())
        self.blocks = list(blocks)


class Loader:
    """Loads items ahead, in batches.

    Args:
        workers: the number of processes; None for as many as the CPUs allow beside a GPU, if the items take longer than
            `_WORTHWHILE`, and none beside a model on the CPU, which needs the CPUs itself.
        on_gpu: whether the model is on a CUDA device.
    """

    def __init__(self, workers: int | None = 0, *, on_gpu: bool = False) -> None:
        self._workers, self._on_gpu = workers, on_gpu

    def batches(self, items: Sequence[Any], load: Callable[[Any], Loaded], size: int) -> Iterator[_Images]:
        """Yield the images, and their sizes in pixels, of every `size` items, in order.

        Args:
            items: the items.
            load: loads an item.
            size: the number of items in a batch.

        Raises:
            VLAssayError: as `load`.
            ModelError: a worker died.
        """
        if workers := self._workers_for(items, load):
            loaded = self._in_workers(items, load, workers, size)
        else:
            threads = max(4, available_cpus())
            one_by_one = in_threads(items, load, threads=threads, ahead=2 * size)
            loaded = (([item.image], [item.size]) for item in one_by_one)
        images: list[Any] = []
        sizes: list[tuple[int, int]] = []
        for block, block_sizes in loaded:
            images.append(block)
            sizes += [(width, height) for width, height in block_sizes]
            if len(sizes) >= size:
                yield _joined(images), sizes
                images, sizes = [], []
        if sizes:
            yield _joined(images), sizes

    def _workers_for(self, items: Sequence[Any], load: Callable[[Any], Loaded]) -> int:
        workers = self._workers
        if workers is None:
            workers = available_cpus() - 1 if self._on_gpu else 0
            if workers > 0:
                start, timed = time.perf_counter(), items[:_TIMED]
                for item in timed:
                    load(item)
                if (time.perf_counter() - start) / max(len(timed), 1) * len(items) < _WORTHWHILE:
                    return 0
        can_fork = "fork" in multiprocessing.get_all_start_methods()
        return min(workers, len(items)) if can_fork else 0

    def _in_workers(
        self, items: Sequence[Any], load: Callable[[Any], Loaded], workers: int, size: int
    ) -> Iterator[_Images]:
        from torch.utils.data import DataLoader

        def load_block(block: Sequence[int]) -> Any:
            """Return a block of images and their sizes; an error as a value, since torch would raise another for it."""
            try:
                return _packed([load(items[index]) for index in block])
            except VLAssayError as error:
                return error

        # A batch consists of whole blocks, and every worker has some of them.
        length = max(1, min(_BLOCK, size, len(items) // (_AHEAD * workers)))
        blocks = [
            range(start, min(start + length, first + size, len(items)))
            for first in range(0, len(items), size)
            for start in range(first, min(first + size, len(items)), length)
        ]
        iterator: Any = None
        try:
            with _quietly():
                loader = DataLoader(
                    blocks,  # pyright: ignore[reportArgumentType]  # a map from index to block
                    batch_size=None,
                    num_workers=workers,
                    collate_fn=load_block,
                    pin_memory=self._on_gpu,
                    prefetch_factor=_AHEAD,
                    multiprocessing_context="fork",
                )
                iterator = iter(loader)
            for packed in iterator:
                if isinstance(packed, VLAssayError):
                    raise packed
                yield packed
        except RuntimeError as error:
            if "DataLoader worker" not in str(error) or ("killed" not in str(error) and "exited" not in str(error)):
                raise
            raise ModelError(
                f"a process that prepares images died ({error}); try fewer, or none (workers: 0 in --config)"
            ) from error
        finally:
            # The traceback of an error keeps the iterator. If the garbage collector freed it, torch would wait five
            # seconds for each worker, and torch has no public method that ends them earlier.
            end_workers = getattr(iterator, "_shutdown_workers", None)
            if end_workers is not None:
                end_workers()


def in_threads(
    items: Sequence[T], load: Callable[[T], R], *, threads: int, ahead: int, on_error: Callable[[], None] = lambda: None
) -> Iterator[R]:
    """Yield what `load` returns for each item, in order.

    Args:
        items: the items.
        load: is called in threads.
        threads: their number.
        ahead: the number of items that are loaded before they are asked for.
        on_error: is called after an error, before the threads are waited for.
    """
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for index in range(len(items) + ahead):
                if index < len(items):
                    waiting.append(pool.submit(load, items[index]))
                if index >= ahead and waiting:
                    yield waiting.popleft().result()
        except BaseException:
            on_error()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _packed(loaded: list[Loaded]) -> _Images:
    """Return a block of items as a worker sends it: arrays of one shape as a tensor, which travels in shared memory."""
    import torch

    images, sizes = [item.image for item in loaded], [item.size for item in loaded]
    is_batch = all(isinstance(image, np.ndarray) and image.dtype.kind in "fiu" for image in images)
    if is_batch and len({(image.shape, image.dtype) for image in images}) == 1:
        return torch.from_numpy(np.stack(images)), sizes
    return images, sizes


def _joined(blocks: Sequence[Any]) -> list[Any]:
    """Return the images of blocks as one list."""
    if all(hasattr(block, "numpy") for block in blocks) and len({block.shape[1:] for block in blocks}) == 1:
        return Stacked(blocks)
    return [image for block in blocks for image in (block.numpy() if hasattr(block, "numpy") else block)]


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep torch from warning about more workers than CPUs, and tokenizers about processes that are forked."""
    name = "TOKENIZERS_PARALLELISM"
    was = os.environ.get(name)
    os.environ[name] = was or "false"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
            yield
    finally:
        if was is None:
            del os.environ[name]
