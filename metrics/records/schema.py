"""The rows of predictions: the scores of one example, one class for each task type.

Every row starts with

| column   | type         | meaning |
|---|---|---|
| id       | string       | the example's id in the dataset, unique |
| config   | string       | the dataset's configuration |
| category | string       | what the example tests |
| tags     | list<string> | further labels, which may overlap; may be empty |
| cluster  | string       | equal in rows that are not independent although they show different images; else null |
| images   | list<string> | content key of each image (SHA-256 of its file, 32 hex digits); "" if missing |
|          |              | ("file:" and its name if it was not read, as for precomputed predictions) |
| caption_key | string    | key of its first caption or question, see `caption_key` |

followed by the columns of its task type. Predictions are null if and only if an image is missing.

| task type | column   | type                       | meaning |
|---|---|---|---|
| matching  | correct  | list<int32>                | for each image, the index of its correct caption; of several |
|           |          |                            | images with fewer captions, for the first of them: [0] for one |
|           | scores   | list<list<double>>         | images × captions, higher is a better match |
| text_     | correct  | list<int32>                | the index of the pair of captions that mean the same |
| similarity| scores   | list<list<double>>         | one list: how similar the captions of each pair are, in the |
|           |          |                            | order (0, 1), (0, 2), …, (1, 2), …; these rows have no images |
| retrieval | correct  | list<int32>                | the columns of the correct captions of its only image |
|           | scores   | list<float>                | the image with every caption of the set, higher is better |
| detection | positive | bool                       | whether the caption is true of the image |
|           | pair     | string                     | equal for a caption's positive image and its distractors |
|           | phrases  | list<struct>               | `text`, `start` and `end` of each phrase in the caption |
|           | truth    | list<list<list<double>>>   | for each phrase its ground-truth boxes |
|           | boxes    | list<list<list<double>>>   | for each phrase the predicted boxes |
|           | scores   | list<list<double>>         | for each phrase the confidence of each of them |
| vqa       | question | string                     | the question |
|           | correct  | bool                       | whether "yes" is the correct answer |
|           | score    | double                     | above 0 for "yes", below for "no"; 0 is no answer and wrong |

Boxes are x1, y1, x2, y2 in pixels of the whole image. Retrieval keeps scores in single precision: COCO has 125 million
of them.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ..common.wording import words

_FLOATS = pa.list_(pa.float64())
_BOXES = pa.list_(pa.list_(_FLOATS))
_PHRASE = pa.struct([("text", pa.string()), ("start", pa.int32()), ("end", pa.int32())])


def _schema(**own: pa.DataType) -> pa.Schema:
    common = {"id": pa.string(), "config": pa.string(), "category": pa.string(), "images": pa.list_(pa.string())}
    predicted = ("scores", "score", "boxes")
    return pa.schema(
        [
            *(pa.field(name, kind, nullable=False) for name, kind in common.items()),
            *(pa.field(name, kind, nullable=name in predicted) for name, kind in own.items()),
            pa.field("tags", pa.list_(pa.string()), nullable=False),
            pa.field("cluster", pa.string()),
            pa.field("caption_key", pa.string()),
        ]
    )


def caption_key(caption: str) -> str:
    """Return 12 hex digits of the SHA-256 of a caption's lower-case words; punctuation and case do not change it."""
    return hashlib.sha256(" ".join(words(caption)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Row(ABC):
    """The columns that all task types share; see the module's docstring."""

    task_type: ClassVar[str]
    columns: ClassVar[pa.Schema]
    has_images: ClassVar[bool] = True

    id: str
    config: str
    category: str
    images: list[str]
    tags: list[str] = field(default_factory=list, kw_only=True)
    cluster: str | None = field(default=None, kw_only=True)
    caption_key: str = field(default="", kw_only=True)

    @property
    def is_scored(self) -> bool:
        """Return whether the example has predictions."""
        return getattr(self, "scores", None) is not None

    def problem(self) -> str | None:
        """Return the rule of the schema that the row breaks; None if it is valid."""
        for name in (*_required(type(self)), "caption_key"):
            value = getattr(self, name)
            if value is None or (isinstance(value, list) and None in value):
                return f"a value is missing in {name}"
        texts = [self.id, self.config, self.category, *self.tags, self.cluster or "", self.caption_key]
        if not all(text.isprintable() for text in texts):
            return "control characters in its id, config, category, tags, cluster or caption_key"
        if bool(self.images) != self.has_images:
            return "no images" if self.has_images else f"{len(self.images)} images; a row of {self.task_type} has none"
        if not self.is_scored:
            return None if "" in self.images else "no scores, though no image is missing"
        return "scores, though an image is missing" if "" in self.images else self._problem()

    @abstractmethod
    def _problem(self) -> str | None:
        """Return the rule that the scores of a scored row break; None if they are valid."""


@cache
def _required(row_class: type[Row]) -> list[str]:
    """Return the columns of a row type that contain no nulls."""
    return [column.name for column in row_class.columns if not column.nullable]


@dataclass(frozen=True)
class MatchingRow(Row):
    """Images × captions, all scored against all; or several images with one caption, which is correct for the first."""

    task_type = "matching"
    columns = _schema(correct=pa.list_(pa.int32()), scores=pa.list_(_FLOATS))

    correct: list[int]
    scores: list[list[float]] | None

    @property
    def options(self) -> tuple[list[float], int] | None:
        """Return the candidates' scores and the correct index; None for several images with several captions.

        A row chooses from the captions of its only image, or from the images of its only caption.
        """
        scores = self.scores or []
        if len(scores) == 1:
            return scores[0], self.correct[0]
        return ([score for [score] in scores], 0) if scores and len(scores[0]) == 1 else None

    def problem(self) -> str | None:
        """Validate as for every row, and require a correct caption per image, or a single caption for all images."""
        several = self.correct != [0] or any(len(row or ()) != 1 for row in self.scores or ())
        if self.correct is not None and self.images is not None and several and len(self.correct) != len(self.images):
            return f"{len(self.images)} images but {len(self.correct)} correct captions"
        return super().problem()

    def _problem(self) -> str | None:
        scores = self.scores or []
        if len(scores) != len(self.images):
            return f"{len(scores)} rows of scores for {len(self.images)} images"
        if None in scores:
            return "a value is missing in scores"
        widths = {len(row) for row in scores}
        if len(widths) != 1 or widths < {1}:
            return f"rows of scores of different lengths {sorted(widths)}"
        if len(self.images) > 1 and self.correct != list(range(len(self.correct))):
            return f"correct captions {self.correct}; of several images, image i must have caption i"
        if not all(0 <= index < len(scores[0]) for index in self.correct):
            return f"correct caption {self.correct} outside the {len(scores[0])} captions"
        return _not_finite(score for row in scores for score in row)


@dataclass(frozen=True)
class TextSimilarityRow(MatchingRow):
    """Pairs of captions; the captions of one pair mean the same. Models choose a pair as they choose a caption."""

    task_type = "text_similarity"
    has_images = False

    def problem(self) -> str | None:
        """Validate as for every row."""
        return Row.problem(self)

    def _problem(self) -> str | None:
        lists = self.scores or []
        if len(lists) != 1 or len(self.correct) != 1:
            return f"{len(lists)} lists of scores and {len(self.correct)} correct pairs; a row has one of each"
        scores = lists[0] or []
        if not 0 <= self.correct[0] < len(scores):
            return f"correct pair {self.correct[0]} outside the {len(scores)} pairs"
        return _not_finite(scores)


@dataclass(frozen=True)
class RetrievalRow(Row):
    """One image with all captions of a set."""

    task_type = "retrieval"
    columns = _schema(correct=pa.list_(pa.int32()), scores=pa.list_(pa.float32()))

    correct: list[int]
    scores: np.ndarray | None

    def _problem(self) -> str | None:
        assert self.scores is not None
        if len(self.images) != 1:
            return f"{len(self.images)} images; a row of retrieval has one"
        if not self.correct or not all(0 <= index < len(self.scores) for index in self.correct):
            return f"correct captions {self.correct} outside the {len(self.scores)} captions"
        return None if np.isfinite(self.scores).all() else _NOT_FINITE


@dataclass(frozen=True)
class DetectionRow(Row):
    """The phrases of a caption on one image."""

    task_type = "detection"
    columns = _schema(
        positive=pa.bool_(),
        pair=pa.string(),
        phrases=pa.list_(_PHRASE),
        truth=_BOXES,
        boxes=_BOXES,
        scores=pa.list_(_FLOATS),
    )

    positive: bool
    pair: str
    phrases: list[dict[str, Any]]
    truth: list[list[list[float]]]
    boxes: list[list[list[float]]] | None
    scores: list[list[float]] | None

    def _problem(self) -> str | None:
        boxes, scores, count = self.boxes or [], self.scores or [], len(self.phrases)
        for phrase in self.phrases:
            if None in phrase.values() or not 0 <= phrase["start"] <= phrase["end"]:
                return f"the phrase {phrase} has no text, or ends before it starts"
        if len(self.images) != 1:
            return f"{len(self.images)} images; a row of detection has one"
        if not len(boxes) == len(scores) == len(self.truth) == count:
            sizes = f"{len(boxes)}, {len(scores)} and {len(self.truth)}"
            return f"boxes, scores and ground truth of {sizes} of {count} phrases"
        if (
            None in boxes
            or None in scores
            or [len(phrase_boxes) for phrase_boxes in boxes] != [len(sure) for sure in scores]
        ):
            return "a phrase with different numbers of boxes and scores"
        for box in (box for side in (boxes, self.truth) for phrase_boxes in side for box in phrase_boxes):
            if box is None or len(box) != 4 or _not_finite(box) or box[0] > box[2] or box[1] > box[3]:
                return f"the box {box} is not x1, y1, x2, y2 with x1 <= x2 and y1 <= y2"
        return _not_finite(score for phrase_scores in scores for score in phrase_scores)


@dataclass(frozen=True)
class VQARow(Row):
    """A yes-or-no question about one image."""

    task_type = "vqa"
    columns = _schema(question=pa.string(), correct=pa.bool_(), score=pa.float64())

    question: str
    correct: bool
    score: float | None

    @property
    def is_scored(self) -> bool:
        """Return whether the model was asked; a score of 0 means that it gave no answer."""
        return self.score is not None

    def _problem(self) -> str | None:
        if len(self.images) != 1:
            return f"{len(self.images)} images; a row of vqa has one"
        return _not_finite([self.score])


ROWS: dict[str, type[Row]] = {
    row.task_type: row for row in (MatchingRow, TextSimilarityRow, RetrievalRow, DetectionRow, VQARow)
}

_NOT_FINITE = "a score is NaN, infinite or missing; every score must be a finite number"


def _not_finite(scores: Any) -> str | None:
    return None if all(score is not None and math.isfinite(score) for score in scores) else _NOT_FINITE
