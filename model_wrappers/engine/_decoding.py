"""Images opened and made ready for a model: in the calling thread, or in worker processes beside it.

Pillow decodes without holding the interpreter, so threads serve a CPU well. A GPU that takes hundreds of images a
second wants more than one interpreter can prepare: then each worker process has a copy of the model without its
weights, gets an image's file and returns what the model wants of it.
"""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, NamedTuple

from ...metrics.common.errors import ModelError
from .distributed import end_with_parent
from .plan import DECODING_ERRORS, ScoringPlan, decode


class Prepared(NamedTuple):
    """An image as the model wants it, and its width and height as it was."""

    image: Any
    size: tuple[int, int]


class Decoder:
    """Makes images ready.

    Args:
        workers: how many processes; 0 for none.
    """

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def prepare(self, model: Any, work: ScoringPlan, number: int) -> Prepared:
        """Image number `number` of a work, prepared by the model; called from several threads.

        Raises:
            DataError: it cannot be read.
            ModelError: the model cannot be sent to worker processes, or one of them died.
        """
        if not self.workers:
            image = work.open_image(number)
            return Prepared(model.prepare_image(image), image.size)
        with self._lock:
            pool = self._pool_for(model)
        try:
            prepared = pool.submit(_prepare, work.image_bytes(number)).result()
        except BrokenProcessPool as error:
            raise ModelError("a process that prepares images died; try fewer, or none: --workers 0") from error
        if isinstance(prepared, BaseException):
            raise work.unreadable(number, prepared) from prepared
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
                    f"{model.info.name} cannot be sent to worker processes ({error}); use none: --workers 0"
                ) from error
            context = get_context("spawn")  # forked processes would share the GPU's state and hang
            self._pool = ProcessPoolExecutor(self.workers, context, initializer=_start, initargs=(content,))
        return self._pool


_model: Any = None


def _start(content: bytes) -> None:
    global _model
    end_with_parent()
    _model = pickle.loads(content)  # our own, from the process that started this one


def _prepare(content: bytes) -> Prepared | BaseException:
    """The prepared image; what keeps it from being decoded is returned, unlike what a model's own code raises."""
    try:
        image = decode(content)
    except DECODING_ERRORS as error:
        return error
    return Prepared(_model.prepare_image(image), image.size)
