"""What is to be scored: every image and caption of a run once, and the pairs that examples want of them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from ..hub_datasets.examples import MISSING, Example, TaskData
from ..metrics.errors import DataError


class Work:
    """The different images and captions of some tasks, and all pairs of them that an example wants.

    Attributes:
        tasks: the tasks, as given.
        images: content keys, each once, in order of first use; examples with a missing image are left out.
        captions: captions, each once, in order of first use.
        pair_image: for each pair the index into `images`, int (p,).
        pair_caption: for each pair the index into `captions`, int (p,).
        shapes: for each example that is scored (images, captions), int (e, 2); its pairs follow one another.
    """

    def __init__(self, tasks: list[TaskData]) -> None:
        self.tasks = tasks
        self._sources: dict[str, TaskData] = {}
        images: dict[str, int] = {}
        captions: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []
        shapes: list[tuple[int, int]] = []
        for task in tasks:
            _refuse_repeated_ids(task)
            for example in scored(task):
                for key in example.images:
                    images.setdefault(key, len(images))
                    self._sources.setdefault(key, task)
                for caption in example.captions:
                    captions.setdefault(caption, len(captions))
                pairs += [(images[key], captions[caption]) for key in example.images for caption in example.captions]
                shapes.append((len(example.images), len(example.captions)))
        self.images = list(images)
        self.captions = list(captions)
        self.pair_image, self.pair_caption = np.array(pairs, np.int64).reshape(-1, 2).T
        self.shapes = np.array(shapes, np.int64).reshape(-1, 2)

    @property
    def examples(self) -> int:
        """How many examples there are, with those that lack an image."""
        return sum(len(task.examples) for task in self.tasks)

    def summary(self) -> str:
        """What is to be done, in a line."""
        written = sum(len(example.captions) for task in self.tasks for example in task.examples)
        missing = sum(len(task.missing) for task in self.tasks)
        text = (
            f"{self.examples:,} examples: {len(self.images):,} images and {len(self.captions):,} captions to encode "
            f"(of {self.examples:,} and {written:,}, each different one once)"
        )
        if missing:
            names = [name for task in self.tasks for name in task.missing]
            text += f"; {missing:,} examples lack their image: {', '.join(names[:3])}{' …' if missing > 3 else ''}"
        return text

    def fingerprint(self) -> str:
        """SHA-256 over all images, captions and pairs, in order."""
        digest = hashlib.sha256(json.dumps([self.images, self.captions]).encode())
        for array in (self.pair_image, self.pair_caption, self.shapes):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def open_image(self, index: int) -> Image.Image:
        """Decode image number `index`.

        Raises:
            DataError: it cannot be read; the message names the file and the examples that want it.
        """
        key = self.images[index]
        task = self._sources[key]
        try:
            image = Image.open(io.BytesIO(task.image_bytes(key)))
            image.load()
            return image
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            users = [example.id for example in task.examples if key in example.images]
            raise DataError(
                f"the image {task.image_names[key]} of {task.benchmark} cannot be read ({error}); it belongs to "
                f"{', '.join(users[:3])}{' …' if len(users) > 3 else ''}. Put an intact file in its place, build the "
                "dataset again if you built it yourself, and run again"
            ) from error

    def matrices(self, scores: np.ndarray) -> Iterator[list[list[float]]]:
        """The scores (p,) of all pairs as one matrix, images × captions, for each scored example."""
        start = 0
        for rows, columns in self.shapes:
            yield scores[start : start + rows * columns].reshape(rows, columns).tolist()
            start += rows * columns

    def near_ties(self, scores: np.ndarray, margin: float) -> np.ndarray:
        """Which pairs belong to an example two of whose scores are within `margin`, bool (p,).

        Compared are the captions of one image and the images of one caption, as the metrics do.
        """
        sizes = self.shapes.prod(axis=1)
        starts = np.cumsum(sizes) - sizes
        near = np.zeros(len(scores), bool)
        for rows, columns in np.unique(self.shapes, axis=0):
            of_shape = np.flatnonzero((self.shapes == (rows, columns)).all(axis=1))
            places = starts[of_shape, None] + np.arange(rows * columns)
            matrices = scores[places].reshape(-1, rows, columns)
            close = np.zeros(len(of_shape), bool)
            for axis in (1, 2):
                if matrices.shape[axis] > 1:
                    gaps = np.diff(np.sort(matrices, axis=axis), axis=axis)
                    close |= gaps.reshape(len(of_shape), -1).min(axis=1) <= margin
            near[places[close].ravel()] = True
        return near


def _refuse_repeated_ids(task: TaskData) -> None:
    seen: set[str] = set()
    for example in task.examples:
        if example.id in seen:
            raise DataError(f"{task.benchmark}: the id {example.id!r} is there twice; every example needs its own")
        seen.add(example.id)


def scored(task: TaskData) -> list[Example]:
    """The examples of a task that have all their images."""
    return [example for example in task.examples if MISSING not in example.images]


def run_key(model_info: dict[str, Any], libraries: dict[str, str], work: Work) -> str:
    """A name for the unfinished parts of a run: the same model, libraries and work give the same."""
    content = json.dumps([model_info, libraries, work.fingerprint()], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
