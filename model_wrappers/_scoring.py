"""The two ways of scoring pairs, by a dual encoder or by a model that sees both, stage by stage."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from ..metrics.errors import ModelError
from ._parts import Part, PartStore, cut, run_parts
from ._processes import Processes
from ._progress import Progress
from ._protocol import DualEncoder, PairScorer
from ._work import Work

# In single precision a cosine moves by at most 1e-6 with the batch, so the difference of two by at most 2e-6;
# whatever lies within twice that is settled.
NEAR_TIE = 4e-6
_IMAGES_PER_PART = 128
_CAPTIONS_PER_PART = 512
_SETTLED_PER_PART = 16
_DECODING_THREADS = 4

Item = TypeVar("Item")


class Stages:
    """Runs stages of work for a scorer: in parts, resumable, shared among processes, with a progress bar each."""

    def __init__(self, model: str, store: PartStore, processes: Processes, progress: Progress) -> None:
        self._model = model
        self._store = store
        self._processes = processes
        self._progress = progress

    def run(
        self,
        name: str,
        parts: Sequence[Part],
        load: Callable[[int], Item],
        compute: Callable[[list[Item]], np.ndarray],
        *,
        batch_size: int,
    ) -> np.ndarray:
        """The rows that `compute` gives for all items of all parts, in order.

        Args:
            name: of the stage, for the progress bar and the files of the parts.
            parts: ranges of item numbers.
            load: makes an item from its number; called ahead of time, in threads.
            compute: rows for a batch of items; a batch never reaches over the end of a part.
            batch_size: items in a batch.

        Raises:
            ModelError: `compute` gave NaN or infinity; such a part is not kept.
        """

        def compute_parts(own: Sequence[tuple[int, Part]], save: Callable[[int, np.ndarray], None]) -> None:
            numbers = [number for _, part in own for number in part]
            if len(own) * self._processes.world < len(parts):
                self._progress.say(f"{name}: going on; some of the {len(parts)} parts were finished before")
            with (
                self._progress.bar(name, len(numbers)) as advance,
                _ahead(load, numbers, 2 * batch_size) as items,
            ):
                for number, part in own:
                    rows = []
                    for batch in cut(len(part), batch_size):
                        rows.append(compute(list(islice(items, len(batch)))))
                        advance(len(batch))
                        if not np.isfinite(rows[-1]).all():
                            raise ModelError(
                                f"{self._model} gave NaN or infinity in the stage {name}, first among its items "
                                f"{part[batch[0]]} to {part[batch[-1]]}; no sheet was written. Half precision may "
                                "overflow: try --dtype float32; else the checkpoint is broken"
                            )
                    save(number, np.concatenate(rows))

        finished = run_parts(self._store, name, parts, self._processes, compute_parts)
        return np.concatenate(finished) if finished else np.empty((0, 0))


def score_by_embeddings(
    model: DualEncoder, work: Work, stages: Stages, batch_size: int
) -> tuple[np.ndarray, dict[str, int]]:
    """Scores (p,) of all pairs of a work as dot products of embeddings, and facts for the sheet."""
    tokens = model.prepare_captions(work.captions)
    # Batches of like length waste little on padding; the caption itself makes the order total.
    by_length = sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), work.captions[i]))

    images = stages.run(
        "images",
        cut(len(work.images), _IMAGES_PER_PART),
        lambda number: model.prepare_image(work.open_image(number)),
        lambda batch: _one_row_each(model, batch, model.encode_images(batch)),
        batch_size=batch_size,
    )
    sorted_captions = stages.run(
        "captions",
        cut(len(by_length), _CAPTIONS_PER_PART),
        lambda number: tokens[by_length[number]],
        lambda batch: _one_row_each(model, batch, model.encode_captions(batch)),
        batch_size=batch_size,
    )
    captions = np.empty_like(sorted_captions)
    captions[by_length] = sorted_captions
    scores = _dot(images[work.pair_image], captions[work.pair_caption])

    near = work.near_ties(scores, NEAR_TIE)
    if near.any():
        scores[near] = _settle(model, work, stages, tokens, near)
    truncated = sum(len(ids) > model.max_tokens for ids in tokens)
    return scores, {"truncated_captions": truncated, "settled_pairs": int(near.sum())}


def _settle(
    model: DualEncoder, work: Work, stages: Stages, tokens: Sequence[Sequence[int]], near: np.ndarray
) -> np.ndarray:
    """Scores of the pairs chosen by `near`, every image and caption alone and in double precision."""
    images, image_place = np.unique(work.pair_image[near], return_inverse=True)
    captions, caption_place = np.unique(work.pair_caption[near], return_inverse=True)
    # Which pairs are near depends on the last digits of the scores; parts of another choice must not be taken.
    choice = hashlib.sha256(images.tobytes() + b"/" + captions.tobytes()).hexdigest()[:8]
    exact_images = stages.run(
        f"settling-images-{choice}",
        cut(len(images), _SETTLED_PER_PART),
        lambda number: model.prepare_image(work.open_image(int(images[number]))),
        lambda batch: model.encode_images(batch, exact=True),
        batch_size=1,
    )
    exact_captions = stages.run(
        f"settling-captions-{choice}",
        cut(len(captions), _SETTLED_PER_PART),
        lambda number: tokens[int(captions[number])],
        lambda batch: model.encode_captions(batch, exact=True),
        batch_size=1,
    )
    return _dot(exact_images[image_place], exact_captions[caption_place])


def score_by_pairs(model: PairScorer, work: Work, stages: Stages) -> tuple[np.ndarray, dict[str, int]]:
    """Scores (p,) of all pairs of a work by a model that sees image and caption together."""
    pairs, place = np.unique(np.stack([work.pair_image, work.pair_caption]), axis=1, return_inverse=True)
    bounds = np.searchsorted(pairs[0], np.arange(len(work.images) + 1))

    def load(number: int) -> tuple[Any, list[str]]:
        wanted = pairs[1, bounds[number] : bounds[number + 1]]
        return work.open_image(number), [work.captions[i] for i in wanted]

    def compute(batch: list[tuple[Any, list[str]]]) -> np.ndarray:
        scores = [np.asarray(model.score(image, captions), np.float64) for image, captions in batch]
        for given, (_, captions) in zip(scores, batch, strict=True):
            if given.shape != (len(captions),):
                raise ModelError(
                    f"{model.info.name} gave {given.shape} scores for {len(captions)} captions of an image"
                )
        return np.concatenate(scores)

    scores = stages.run("pairs", cut(len(work.images), _IMAGES_PER_PART), load, compute, batch_size=8)
    return scores[place.ravel()], {}


def _one_row_each(model: DualEncoder, batch: Sequence[Any], rows: np.ndarray) -> np.ndarray:
    if rows.ndim != 2 or len(rows) != len(batch):
        raise ModelError(f"{model.info.name} gave embeddings of shape {rows.shape} for {len(batch)} items")
    return rows


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64))


@contextmanager
def _ahead(load: Callable[[int], Item], numbers: Sequence[int], window: int) -> Iterator[Iterator[Item]]:
    """The items of `numbers` in order, loaded in threads, at most `window` of them ahead of their use."""
    with ThreadPoolExecutor(_DECODING_THREADS) as pool:

        def items() -> Iterator[Item]:
            waiting: deque[Future[Item]] = deque()
            for number in numbers:
                waiting.append(pool.submit(load, number))
                if len(waiting) >= window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        try:
            yield items()
        finally:
            pool.shutdown(cancel_futures=True)
