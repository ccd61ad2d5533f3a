"""Helpers of detectors: convert a model's boxes and scores to boxes of a phrase in pixels of the original image."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from ...metrics.common.errors import ModelError
from ..engine.arithmetic import full_float32
from ..engine.protocol import Detections, LoadOptions, PhraseQuery, choose
from .checkpoints import load_checkpoint
from .torch_models import Checkpoint, ImageTextModel

# Settings of every detector, for `choose`; 100 boxes are what TRICD's average precision looks at.
LIMITS: Mapping[str, Sequence[str]] = {"max_boxes": ("100", "…"), "threshold": ("0", "…")}


class Limits(NamedTuple):
    """The most boxes of a phrase, and the lowest score of a box, in [0, 1]."""

    max_boxes: int
    threshold: float


def read_limits(settings: Mapping[str, str]) -> Limits:
    """Return the settings `LIMITS` as numbers; `ModelError` if they are not numbers in range."""
    boxes, threshold = settings["max_boxes"], settings["threshold"]
    if not boxes.isdecimal() or int(boxes) < 1:
        raise ModelError(f"max_boxes is {boxes!r}; give a whole number from 1")
    try:
        lowest = float(threshold)
    except ValueError:
        lowest = math.nan
    if not 0 <= lowest <= 1:
        raise ModelError(f"threshold is {threshold!r}; give a number from 0 to 1, such as 0.1")
    return Limits(int(boxes), lowest)


def load_detector(
    family: str,
    checkpoint: str,
    options: LoadOptions,
    classes: Mapping[str, Any],
    settings: Mapping[str, Sequence[str]],
) -> Checkpoint:
    """Return `load_checkpoint(…)` after validation of the limits in the settings (`ModelError` if out of range)."""
    read_limits(choose(family, options, settings))
    return load_checkpoint(family, checkpoint, options, classes, settings)


class PhraseDetector(ImageTextModel):
    """A detector with the settings ``context``, which text represents a phrase, and `LIMITS`."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int) -> None:
        super().__init__(checkpoint, max_tokens)
        self._limits = read_limits(checkpoint.info.settings)

    def _text(self, query: PhraseQuery) -> str:
        return query.caption if self.info.settings["context"] == "caption" else query.text

    def _place(self, query: PhraseQuery) -> tuple[int, int]:
        """Return the start and end of the phrase in its text."""
        return query[1:] if self.info.settings["context"] == "caption" else (0, len(query.text))


class TextOutput(NamedTuple):
    """A detector's output for a text: boxes (n, 4), as fractions of the image, and scores, (n,) or (n, tokens)."""

    boxes: np.ndarray
    scores: np.ndarray


NO_BOXES = Detections(np.empty((0, 4)), np.empty(0))


class TextDetector(PhraseDetector, ABC):
    """A detector that reads a text with the image: what it finds for a phrase depends on the text that is read."""

    @abstractmethod
    def see(self, images: Sequence[np.ndarray]) -> Sequence[torch.Tensor]:
        """Return the features of prepared images of one shape, before any text: tensors with one row for each image."""

    @abstractmethod
    def read(self, features: Sequence[torch.Tensor], texts: Sequence[str]) -> Iterable[TextOutput]:
        """Return the output for each row of `see` with its text."""

    @abstractmethod
    def find(self, query: PhraseQuery, output: TextOutput, size: tuple[int, int]) -> Detections:
        """Return the boxes of a phrase by the output for its text, for an image of that width and height."""

    @torch.inference_mode()
    def detect(
        self, images: Sequence[np.ndarray], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """Return the boxes of each query of each prepared image.

        An image is seen once, and read with each of its texts. Images of one shape go together, as many pairs as there
        are images: padding an image, unlike padding a text, changes what the model sees near the edge.
        """
        distinct_texts = [sorted({self._text(query) for query in row}) for row in queries]
        outputs: dict[tuple[int, str], TextOutput] = {}
        for shape in sorted({image.shape for image in images}):
            indices = [i for i, image in enumerate(images) if image.shape == shape]
            jobs = [(row, text) for row, i in enumerate(indices) for text in distinct_texts[i]]
            with full_float32():
                features = self.see(images if len(indices) == len(images) else [images[i] for i in indices])
                for first in range(0, len(jobs), len(images)):
                    rows, texts = zip(*jobs[first : first + len(images)], strict=True)
                    keys = [(indices[row], text) for row, text in zip(rows, texts, strict=True)]
                    detections = self.read([feature[list(rows)] for feature in features], texts)
                    outputs.update(zip(keys, detections, strict=True))
        return [
            [self.find(query, outputs[i, self._text(query)], sizes[i]) for query in row]
            for i, row in enumerate(queries)
        ]


def probabilities(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the sigmoid of logits, in double precision: in single precision all beyond 17 would tie at 1."""
    return expit(np.asarray(logits, dtype=np.float64))


def best_boxes(
    boxes: NDArray[np.floating],
    scores: NDArray[np.float64],
    frame: tuple[int, int],
    size: tuple[int, int],
    limits: Limits,
) -> Detections:
    """Return the boxes of a phrase, sorted by descending score; ties keep the model's order.

    Args:
        boxes: (n, 4), centre x, centre y, width and height, as shares of `frame`.
        scores: (n,), in [0, 1].
        frame: width and height, in pixels of the image, of what the model saw: more than the image where it was padded.
        size: width and height of the image, to which boxes are clipped.
        limits: how many boxes, and their lowest score.

    Raises:
        ModelError: NaN or infinity among boxes or scores.
    """
    boxes = np.asarray(boxes, dtype=np.float64)
    if not (np.isfinite(scores).all() and np.isfinite(boxes).all()):
        raise ModelError("the model's boxes or scores are not all numbers; load it with dtype float32")
    order = np.argsort(-scores, kind="stable")[: limits.max_boxes]
    order = order[scores[order] >= limits.threshold]
    centres, halves = boxes[order, :2], boxes[order, 2:] / 2
    corners = np.concatenate([centres - halves, centres + halves], axis=1) * np.tile(frame, 2)
    return Detections(np.clip(corners, 0, np.tile(size, 2)), scores[order])
