"""Batches: what each step draws of a training set, and its images and texts prepared in threads ahead of training."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...engine.distributed import available_cpus
from .training_set import Sample, TrainingSet, pick

Tokens = Sequence[int]
# Prepared images kept in memory, so that a small training set is decoded once: float32, 600 MB in all at 224 pixels.
_CACHED_IMAGES = 1000


class Drawn(NamedTuple):
    """A sample in a step, with one of its negatives and one of its positives; None if it has none."""

    image: str
    caption: str
    negative: str | None
    positive: str | None
    id: str


@dataclass(frozen=True)
class TrainingBatch:
    """Prepared examples, row by row; None for an example without a negative or positive."""

    images: Sequence[np.ndarray]
    captions: Sequence[Tokens]
    negatives: Sequence[Tokens | None]
    positives: Sequence[Tokens | None]

    def __len__(self) -> int:
        return len(self.images)


def split(count: int, parts: int) -> list[slice]:
    """Return the slices of `parts` nearly equal parts of `count` items, in order."""
    edges = [count * number // parts for number in range(parts + 1)]
    return [slice(start, end) for start, end in itertools.pairwise(edges)]


def steps_per_epoch(training_set: TrainingSet, batch_size: int) -> int:
    """The number of batches of an epoch: full ones only, as the loss depends on their size; one if none is full."""
    return max(len(training_set.samples) // batch_size, 1)


def draw_epoch(
    training_set: TrainingSet,
    *,
    epoch: int,
    seed: int,
    batch_size: int,
    neighbours: Mapping[str, Sequence[str]] | None = None,
    start: int = 0,
) -> Iterator[list[Drawn]]:
    """The batches of an epoch: the samples in a new order, each with one of its negatives and positives.

    The random choices for a sample depend only on the seed, the epoch and the sample's index, so a run resumes from its
    position.

    Args:
        training_set: the samples.
        epoch: its number, from 0.
        seed: at least 0.
        batch_size: samples in a batch, at least 1; an incomplete last batch is dropped.
        neighbours: for each image the keys of the most similar ones (`mining.mine`). One of these joins each sample,
            with one of its captions and that caption's negative and positive, as in NegCLIP (ARO, section 4). As
            there, an image may join a batch that has it already.
        start: how many batches to skip.

    Yields:
        Batches: first the samples, then their neighbours in the same order, up to twice `batch_size`; an image
        without a neighbour that has a caption adds none.
    """
    samples, near = training_set.samples, neighbours or {}
    order = np.random.default_rng([seed, epoch, 0]).permutation(len(samples))
    # A row for each sample: its negative, its positive, the neighbour, the neighbour's caption, negative and positive.
    chances = np.random.default_rng([seed, epoch, 1]).random((len(samples), 6))
    by_image: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples if near else ():
        by_image[sample.image].append(sample)
    for number in range(start, steps_per_epoch(training_set, batch_size)):
        indices = order[number * batch_size : (number + 1) * batch_size].tolist()
        drawn = [_draw(samples[index], *chances[index, :2].tolist()) for index in indices]
        for index in indices if near else ():
            _, _, image, caption, negative, positive = chances[index].tolist()
            key = pick([key for key in near.get(samples[index].image, ()) if key in by_image], image)
            if key is not None:
                drawn.append(_draw(pick(by_image[key], caption), negative, positive))
        yield drawn


def _draw(sample: Sample, negative: float, positive: float) -> Drawn:
    texts = pick(sample.negatives, negative), pick(sample.positives, positive)
    return Drawn(sample.image, sample.caption, *texts, sample.id)


class BatchLoader:
    """Prepares batches for an encoder in threads.

    Args:
        encoder: has ``prepare_image`` and ``prepare_captions``, see `DualEncoder`.
        training_set: provides the images.
        workers: the number of threads; by default 8, or the number of CPUs where that is smaller.
    """

    def __init__(self, encoder: Any, training_set: TrainingSet, workers: int | None = None) -> None:
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(workers or min(8, available_cpus()))
        self._prepare_image = lru_cache(_CACHED_IMAGES)(lambda key: encoder.prepare_image(training_set.image(key)))

    def prefetch(
        self, draws: Iterable[list[Drawn]], share: Callable[[list[Drawn]], list[Drawn]]
    ) -> Iterator[tuple[list[Drawn], TrainingBatch]]:
        """Yield each draw with this process's share of it as a batch; the next one is prepared meanwhile.

        Raises:
            DataError: an image cannot be read.
        """
        with ThreadPoolExecutor(1) as ahead:
            submitted: Iterator[Any] = ((drawn, ahead.submit(self.load, share(drawn))) for drawn in draws)
            for (drawn, batch), _ in itertools.pairwise(itertools.chain(submitted, [None])):
                yield drawn, batch.result()

    def load(self, drawn: Sequence[Drawn]) -> TrainingBatch:
        """Prepare a batch."""
        images = self._pool.map(self._prepare_image, [sample.image for sample in drawn])
        columns = [[getattr(sample, field) for sample in drawn] for field in ("caption", "negative", "positive")]
        texts = list(dict.fromkeys(text for column in columns for text in column if text is not None))
        tokens = dict(zip(texts, self._encoder.prepare_captions(texts), strict=True))
        captions, negatives, positives = ([tokens.get(text) for text in column] for column in columns)
        return TrainingBatch([*images], [row or () for row in captions], negatives, positives)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)
