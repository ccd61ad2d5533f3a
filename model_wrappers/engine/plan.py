"""The scoring plan of a run: deduplicates images and texts across tasks."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
from PIL import Image

from ...hub_datasets.core.examples import MISSING, Example, TaskData
from ...hub_datasets.core.images import DECODING_ERRORS, decode
from ...metrics.common.errors import DataError
from .loader import Loaded
from .protocol import PhraseQuery

T = TypeVar("T")


class RetrievalSet(NamedTuple):
    """A retrieval set: the cross product of images (i,) and texts (t,), by number, both int64.

    `correct` lists for each image the indices of its correct captions. A caption is scored by the mean embedding of
    `prompts` consecutive texts.
    """

    images: np.ndarray
    texts: np.ndarray
    correct: list[list[int]]
    prompts: int = 1


@dataclass
class Pairs:
    """Pairs of an anchor and a text: captions to match, questions to answer, or texts to compare.

    Attributes:
        texts: the distinct texts, in order of first use.
        anchor, text: the numbers of both sides of each pair, int64 (p,); an anchor is an image, or another text.
        shapes: how an example's pairs, which are consecutive, form a matrix: images and texts, int64 (e, 2).
        starts: the index of the first pair of each example, int64 (e,).
        pools: retrieval sets, in addition to the pairs.
    """

    texts: list[str]
    anchor: np.ndarray
    text: np.ndarray
    shapes: np.ndarray
    pools: list[RetrievalSet]

    def __post_init__(self) -> None:
        sizes = self.shapes.prod(axis=1)
        self.starts = np.cumsum(sizes) - sizes

    def __len__(self) -> int:
        """Return the number of scores of the pairs and the pools."""
        return len(self.anchor) + sum(len(pool.images) * len(pool.texts) for pool in self.pools)

    def images(self) -> np.ndarray:
        """Return the sorted numbers of all images in a pair or pool."""
        return np.unique(np.concatenate([self.anchor, *(pool.images for pool in self.pools)]))

    def everything(self) -> tuple[np.ndarray, np.ndarray]:
        """Return image and text numbers of all pairs, then of the pools, pool by pool in row-major order."""
        images = [self.anchor, *(np.repeat(pool.images, len(pool.texts)) for pool in self.pools)]
        texts = [self.text, *(np.tile(pool.texts, len(pool.images)) for pool in self.pools)]
        return np.concatenate(images), np.concatenate(texts)

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct pairs of `everything`, (2, d), sorted; and for each of its pairs the index among them."""
        pairs, inverse = np.unique(np.stack(self.everything()), axis=1, return_inverse=True)
        return pairs, inverse.ravel()

    def split(self, scores: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Split scores of `everything` into pair scores (p,) and a float32 matrix (images, captions) for each pool."""
        sizes = [len(self.anchor), *(len(pool.images) * len(pool.texts) for pool in self.pools)]
        pairs, *pools = np.split(scores, np.cumsum(sizes)[:-1])
        shaped = [
            pool_scores.reshape(len(pool.images), -1, pool.prompts)
            for pool_scores, pool in zip(pools, self.pools, strict=True)
        ]
        return pairs, [pool_scores.mean(axis=2).astype(np.float32) for pool_scores in shaped]

    def matrix(self, scores: np.ndarray, example: int) -> np.ndarray:
        """Return the scores (images, texts) of one example, from the scores of the pairs (p,)."""
        rows, columns = self.shapes[example]
        start = self.starts[example]
        return scores[start : start + rows * columns].reshape(rows, columns)

    def subset(self, which: np.ndarray) -> Pairs:
        """Return the pairs that a mask or indices select, without examples and retrieval sets."""
        return Pairs(self.texts, self.anchor[which], self.text[which], np.empty((0, 2), np.int64), [])

    def by_example(self) -> list[tuple[range, tuple[int, tuple[int, ...]]]]:
        """Return for each image of each example the range of its pairs, and the image with the numbers of its texts."""
        rows = [
            range(start + row * columns, start + (row + 1) * columns)
            for start, (images, columns) in zip(self.starts.tolist(), self.shapes.tolist(), strict=True)
            for row in range(images)
        ]
        return [(row, (int(self.anchor[row[0]]), tuple(self.text[row].tolist()))) for row in rows]

    def of_examples(self, examples: np.ndarray) -> np.ndarray:
        """Return the indices of the pairs of these examples, in order."""
        sizes = self.shapes.prod(axis=1)
        return np.concatenate([int(self.starts[i]) + np.arange(int(sizes[i])) for i in examples])

    def differences(self, scores: np.ndarray) -> list[np.ndarray]:
        """Return score differences between every two texts of an image, and every two images of a text.

        All examples must have one shape.
        """
        [shape] = np.unique(self.shapes, axis=0)
        matrices = scores.reshape(-1, *shape)
        differences = []
        for axis in (2, 1):
            first, second = np.triu_indices(matrices.shape[axis], 1)
            if len(first):
                differences.append((matrices.take(first, axis) - matrices.take(second, axis)).ravel())
        return differences or [np.empty(0)]

    def near_ties(self, scores: np.ndarray, margin: float | np.ndarray, *, across_images: bool = True) -> np.ndarray:
        """Return a mask (p,) of the pairs of examples with two scores within `margin`, one number or (e,).

        As in the metrics, the texts of one image are compared and, with `across_images`, the images of one text. The
        margin is relative for scores above 1, as rounding is. Pools are ignored: in 10^8 scores some are always close.
        """
        near, margins = np.zeros(len(scores), bool), np.broadcast_to(margin, len(self.shapes))
        for rows, columns in np.unique(self.shapes, axis=0):
            of_shape = np.flatnonzero((self.shapes == (rows, columns)).all(axis=1))
            indices = self.starts[of_shape, None] + np.arange(rows * columns)
            matrices = scores[indices].reshape(-1, rows, columns)
            close = np.zeros(len(of_shape), bool)
            limits = margins[of_shape] * np.maximum(np.abs(matrices).max(axis=(1, 2)), 1)
            for axis in (1, 2) if across_images else (2,):
                if matrices.shape[axis] > 1:
                    gaps = np.diff(np.sort(matrices, axis=axis), axis=axis)
                    close |= gaps.reshape(len(of_shape), -1).min(axis=1) <= limits
            near[indices[close].ravel()] = True
        return near


def by_anchor(anchors: np.ndarray, positions: np.ndarray, most: int) -> list[np.ndarray]:
    """Put positions of sorted anchors (n,) together if their anchors are equal, at most `most` in a group."""
    groups = np.split(positions, np.flatnonzero(np.diff(anchors[positions])) + 1)
    return [group[start : start + most] for group in groups for start in range(0, len(group), most)]


class ScoringPlan:
    """The distinct images and texts of some tasks, and the pairs, pools and phrase queries to score.

    Examples with a missing image are left out.

    Attributes:
        tasks: the tasks, as given.
        images: distinct content keys, in order of first use.
        captions: the pairs of matching tasks, and the pools of retrieval tasks.
        text_pairs: the pairs of text similarity tasks, of the texts of `captions`.
        questions: the pairs of vqa tasks.
        places: for each task the range of its examples in these pairs; for a retrieval task the range of its pools.
        queries: for each image number its distinct phrase queries, for detection tasks.
    """

    def __init__(self, tasks: list[TaskData]) -> None:
        self.tasks = tasks
        self._numbers: dict[str, int] = {}
        self._sources: dict[str, TaskData] = {}
        self.queries: dict[int, dict[PhraseQuery, int]] = {}
        self.places: list[range] = []
        captions, questions = _Collector(), _Collector()
        text_pairs = _Collector(captions)
        collectors = {"vqa": questions, "text_similarity": text_pairs}
        for task in tasks:
            repeated = [name for name, count in Counter(example.id for example in task.examples).items() if count > 1]
            if repeated:
                raise DataError(f"{task.benchmark}: duplicate id {repeated[0]!r}")
            examples = scored(task)
            image_numbers = [[self._number(key, task) for key in example.images] for example in examples]
            task_type = task.task.task_type
            collector = collectors.get(task_type, captions)
            filled = collector.pools if task_type == "retrieval" else collector.shapes
            first = len(filled)
            if task_type == "retrieval" and examples:
                captions.add_pool([row[0] for row in image_numbers], examples, task.candidates)
            for row, example in zip(image_numbers, examples, strict=True):
                if task_type == "detection":
                    asked = self.queries.setdefault(row[0], {})
                    for query in queries_of(example):
                        asked.setdefault(query, len(asked))
                elif task_type == "text_similarity":
                    text_pairs.add_text_pairs(example.captions)
                elif task_type != "retrieval":
                    collector.add(row, example.captions)
            self.places.append(range(first, len(filled)))
        self.images = list(self._numbers)
        self.captions, self.questions, self.text_pairs = captions.pairs(), questions.pairs(), text_pairs.pairs()

    def _number(self, key: str, task: TaskData) -> int:
        self._sources.setdefault(key, task)
        return self._numbers.setdefault(key, len(self._numbers))

    def number(self, key: str) -> int:
        """Return the number of the image with a content key."""
        return self._numbers[key]

    def summary(self) -> str:
        """Describe the size of the plan in one line."""
        examples = sum(len(task.examples) for task in self.tasks)
        shown = sum(len(example.images) for task in self.tasks for example in task.examples)
        written = sum(len(example.captions) for task in self.tasks for example in task.examples)
        items = {"images": len(self.images), "captions": len(self.captions.texts)}
        items |= {"questions": len(self.questions.texts), "phrases": sum(map(len, self.queries.values()))}
        counts = " and ".join(f"{count:,} {name}" for name, count in items.items() if count)
        text = f"{examples:,} examples: {counts} to encode (deduplicated from {shown:,} and {written:,})"
        missing = [name for task in self.tasks for name in task.missing]
        if missing:
            names = f"{', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"
            text += f"; {len(missing):,} examples without their image: {names}"
        return text

    def fingerprint(self) -> str:
        """Return a SHA-256 over all images, texts, pairs, pools and queries, in order."""
        queries = [[number, list(asked)] for number, asked in self.queries.items()]
        prompts = [pool.prompts for pool in self.captions.pools]
        content = [self.images, self.captions.texts, self.questions.texts, queries, prompts]
        digest = hashlib.sha256(json.dumps(content).encode())
        for pairs in (self.captions, self.questions, self.text_pairs):
            arrays = [pairs.anchor, pairs.text, pairs.shapes]
            for array in (*arrays, *(side for pool in pairs.pools for side in (pool.images, pool.texts))):
                digest.update(np.ascontiguousarray(array).tobytes() + b"/")
        return digest.hexdigest()

    def load(self, number: int, prepare: Callable[[Image.Image], Any]) -> Loaded:
        """Decode image number `number` and prepare it for a model; raises as `read_image`."""
        image = self.read_image(number, decode)
        return Loaded(prepare(image), image.size)

    def read_image(self, number: int, read: Callable[[bytes], T]) -> T:
        """Return the result of `read` for the file of image number `number`.

        Raises:
            DataError: it cannot be decoded; the message names the file and its examples.
        """
        key = self.images[number]
        task = self._sources[key]
        try:
            return read(task.image_bytes(key))
        except DECODING_ERRORS as error:
            users = [example.id for example in task.examples if key in example.images]
            raise DataError(
                f"the image {task.image_names[key]} of {task.benchmark} cannot be read ({error}); it belongs to "
                f"{', '.join(users[:3])}{' …' if len(users) > 3 else ''}. Put an intact file in its place, build the "
                "dataset again if you built it yourself, and run again"
            ) from error


class _Collector:
    """Collects pairs and pools, and deduplicates their texts; two collectors may share their texts."""

    def __init__(self, previous: _Collector | None = None) -> None:
        self._texts: dict[str, int] = {} if previous is None else previous._texts
        self._pairs: list[tuple[int, int]] = []
        self.shapes: list[tuple[int, int]] = []
        self.pools: list[RetrievalSet] = []

    def add(self, images: Sequence[int], texts: Sequence[str]) -> None:
        text_numbers = [self._texts.setdefault(text, len(self._texts)) for text in texts]
        self._pairs += [(image, text) for image in images for text in text_numbers]
        self.shapes.append((len(images), len(texts)))

    def add_text_pairs(self, texts: Sequence[str]) -> None:
        text_numbers = [self._texts.setdefault(text, len(self._texts)) for text in texts]
        self._pairs += combinations(text_numbers, 2)
        self.shapes.append((1, math.comb(len(texts), 2)))

    def add_pool(
        self, images: Sequence[int], examples: Sequence[Example], candidates: Mapping[str, Sequence[str]]
    ) -> None:
        if candidates:
            index = {name: index_of_text for index_of_text, name in enumerate(candidates)}
            prompts = [text for texts in candidates.values() for text in texts]
            texts = np.array([self._texts.setdefault(text, len(self._texts)) for text in prompts])
            correct = [[index[example.captions[0]]] for example in examples]
            self.pools.append(RetrievalSet(np.array(images), texts, correct, len(prompts) // len(candidates)))
            return
        # A caption of two images is one caption, correct for both.
        positions: dict[str, int] = {}
        correct = [
            list(dict.fromkeys(positions.setdefault(text, len(positions)) for text in example.captions))
            for example in examples
        ]
        # An image in two rows has the same correct captions in both.
        right: dict[int, list[int]] = {}
        for image, image_correct in zip(images, correct, strict=True):
            right[image] = list(dict.fromkeys([*right.get(image, ()), *image_correct]))
        correct = [right[image] for image in images]
        texts = [self._texts.setdefault(text, len(self._texts)) for text in positions]
        self.pools.append(RetrievalSet(np.array(images), np.array(texts), correct))

    def pairs(self) -> Pairs:
        anchor, text = np.array(self._pairs, np.int64).reshape(-1, 2).T
        return Pairs(list(self._texts), anchor, text, np.array(self.shapes, np.int64).reshape(-1, 2), self.pools)


def queries_of(example: Example) -> list[PhraseQuery]:
    """Return the phrase queries of an example."""
    return [PhraseQuery(example.captions[0], phrase.start, phrase.end) for phrase in example.phrases]


def scored(task: TaskData) -> list[Example]:
    """Return the examples of a task that have all their images."""
    return [example for example in task.examples if MISSING not in example.images]
