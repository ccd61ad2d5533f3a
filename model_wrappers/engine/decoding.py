"""Decoding and preparing images, in the calling thread or in worker processes.

Pillow releases the interpreter lock while it decodes, so threads are enough for a CPU. A GPU that takes hundreds of
images a second needs worker processes: each has a copy of the model without its weights, receives the bytes of an image
and returns the prepared image.
"""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, NamedTuple

from ...hub_datasets.core.images import DECODING_ERRORS, decode
from ...metrics.common.errors import ModelError
from .distributed import end_with_parent
from .plan import ScoringPlan


class Prepared(NamedTuple):
    """The model's input for an image, and the width and height of the original image."""

    image: Any
    size: tuple[int, int]


class Decoder:
    """Decodes and prepares images; `workers` is the number of worker processes, 0 for none."""

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def prepare(self, model: Any, plan: ScoringPlan, number: int) -> Prepared:
        """Image number `number` of a plan, prepared by the model; called from several threads.

        Raises:
            DataError: the image cannot be read.
            ModelError: the model cannot be sent to worker processes, or one of them died.
        """
        if not self.workers:
            image = plan.open_image(number)
            return Prepared(model.prepare_image(image), image.size)
        with self._lock:
            pool = self._pool_for(model)
        try:
            prepared = pool.submit(_prepare, plan.image_bytes(number)).result()
        except BrokenProcessPool as error:
            raise ModelError(
                "a process that prepares images died; try fewer, or none (workers: 0 in --config)"
            ) from error
        if isinstance(prepared, BaseException):
            raise plan.unreadable(number, prepared) from prepared
        return prepared

    def close(self) -> None:
        """End the worker processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _pool_for(self, model: Any) -> ProcessPoolExecutor:
        if self._pool is None:
            try:
                content = pickle.dumps(model)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                raise ModelError(
                    f"{model.info.name} cannot be sent to worker processes ({error}); use none (workers: 0)"
                ) from error
            context = get_context("spawn")  # forked processes would share the GPU's state and hang
            self._pool = ProcessPoolExecutor(self.workers, context, initializer=_start, initargs=(content,))
        return self._pool


_model: Any = None


def _start(content: bytes) -> None:
    global _model
    end_with_parent()
    _model = pickle.loads(content)  # pickled by the parent process


def _prepare(content: bytes) -> Prepared | BaseException:
    """The prepared image, or the error in decoding it; errors in the model's own code are raised."""
    try:
        image = decode(content)
    except DECODING_ERRORS as error:
        return error
    return Prepared(_model.prepare_image(image), image.size)
