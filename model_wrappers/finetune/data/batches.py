"""From what was drawn to what the towers take: images opened and prepared in threads, ahead of the training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ...engine.distributed import available_cpus
from ..train.towers import Batch, Tokens, Trainable
from .data import Drawn, TrainingSet

# Prepared images that are kept, so that a small training set is decoded once: float32, 600 kB each at 224 pixels.
_KEPT_BYTES = 5 * 10**8


class Preparation:
    """Makes batches for an encoder.

    Args:
        encoder: whose preparation it is.
        training_set: where the images are.
        workers: how many threads; by default 8, or one for each CPU where there are fewer.
    """

    def __init__(self, encoder: Trainable, training_set: TrainingSet, workers: int | None = None) -> None:
        self._encoder = encoder
        self._training_set = training_set
        self._pool = ThreadPoolExecutor(workers or min(8, available_cpus()))
        self._kept: dict[str, np.ndarray] = {}
        self._room = _KEPT_BYTES
        self._lock = threading.Lock()

    def ahead(
        self, draws: Iterable[list[Drawn]], share: Callable[[list[Drawn]], list[Drawn]]
    ) -> Iterator[tuple[list[Drawn], Batch]]:
        """What was drawn for each batch, and this process's share of it; the next one is prepared meanwhile.

        Raises:
            DataError: an image cannot be read.
        """
        before: tuple[list[Drawn], _Parts] | None = None
        for drawn in draws:
            after = drawn, self._start(share(drawn))
            if before is not None:
                yield before[0], before[1].collect()
            before = after
        if before is not None:
            yield before[0], before[1].collect()

    def now(self, drawn: Sequence[Drawn]) -> Batch:
        """A batch, waited for."""
        return self._start(drawn).collect()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def _start(self, drawn: Sequence[Drawn]) -> _Parts:
        images = [self._pool.submit(self._image, each.image) for each in drawn]
        return _Parts(images, self._pool.submit(self._texts, drawn))

    def _image(self, key: str) -> np.ndarray:
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        prepared = self._encoder.prepare_image(self._training_set.image(key))
        with self._lock:
            if key not in self._kept and prepared.nbytes <= self._room:
                self._kept[key] = prepared
                self._room -= prepared.nbytes
        return prepared

    def _texts(self, drawn: Sequence[Drawn]) -> list[list[Tokens | None]]:
        """Tokens of captions, negatives and positives; all of them in one call of the tokenizer."""
        columns = [[getattr(each, kind) for each in drawn] for kind in ("caption", "negative", "positive")]
        texts = list(dict.fromkeys(text for column in columns for text in column if text is not None))
        tokens: dict[str | None, Tokens | None] = {None: None}
        tokens.update(zip(texts, self._encoder.prepare_captions(texts), strict=True))
        return [[tokens[text] for text in column] for column in columns]


class _Parts(NamedTuple):
    """A batch on its way."""

    images: list[Future[np.ndarray]]
    texts: Future[list[list[Tokens | None]]]

    def collect(self) -> Batch:
        captions, negatives, positives = self.texts.result()
        return Batch([image.result() for image in self.images], [row or () for row in captions], negatives, positives)
