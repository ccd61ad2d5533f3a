"""Requests of a review page and their answers, plain objects as in JSON: an item, a decision, undo, images."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError, UnknownNameError, check_known
from ..data.made import image_file, relative_image
from ..data.tables import write_rows
from .journal import Answers, Decision, DecisionJournal
from .page import Judged, ReviewPage, ReviewQuestion, Shown
from .pictures import Pictures

_LONGEST_NAME = 40
_LONGEST_TEXT = 2_000


class Desk:
    """Serves the items of a page to annotators, each at their own position.

    A request names the annotator and an item: by `index` to look at it, by `id` to decide on it, so that a page opened
    before the items changed cannot decide on an item that it did not show.

    Args:
        page: the declaration.
        items: the items, each with an `id`.
        journal: the decisions.
        pictures: the images.
        annotators: who decides, each on every item; anybody if empty.

    Raises:
        DataError: a decision in the journal is not an answer to the page's questions; or an image is needed and
            missing.
    """

    def __init__(
        self,
        page: ReviewPage,
        items: Sequence[Any],
        journal: DecisionJournal,
        pictures: Pictures,
        annotators: Sequence[str] = (),
    ) -> None:
        self.page, self.items, self.journal, self.pictures = page, items, journal, pictures
        self.annotators = list(annotators)
        self._index_of = {item.id: index for index, item in enumerate(items)}
        self._shown = {item.id: _content_hash(page.show(item)) for item in items}
        for item in items if page.needs_images else ():
            for image in page.show(item).images:
                pictures.path(image)
        for name, decisions in self.standing().items():
            for id, decision in decisions.items():
                try:
                    self._choices(items[self._index_of[id]], decision.answers)
                except (DataError, UnknownNameError) as error:
                    message = f"{journal.path}: the decision of {name!r} on {id!r} is invalid: {error}"
                    raise DataError(message) from error

    def standing(self) -> dict[str, dict[str, Decision]]:
        """Return the decisions that count, by annotator and item: on texts and images that have not changed since."""
        current = {
            name: {id: decision for id, decision in decisions.items() if self._shown.get(id) == decision.shown}
            for name, decisions in self.journal.standing().items()
        }
        return {name: decisions for name, decisions in current.items() if decisions}

    def judged(self) -> list[Judged]:
        """Return the items with the decisions that count."""
        standing = self.standing().values()
        return [(item, [decided[item.id] for decided in standing if item.id in decided]) for item in self.items]

    def missing(self) -> int:
        """Return how many decisions are missing: of each annotator on each item, or, if none is named, of anybody."""
        standing = self.standing()
        if not self.annotators:
            return sum(not decisions for _, decisions in self.judged())
        return sum(item.id not in standing.get(name, ()) for name in self.annotators for item in self.items)

    def results(self) -> Sequence[Any]:
        """Return the rows of the results."""
        return self.page.results(self.judged(), self.pictures)

    def report(self) -> list[Part]:
        """Return who decided how much, what comes of it, and how far the annotators agree, as a document."""
        standing, judged = self.standing(), self.judged()
        people = ", ".join(f"{name} ({len(decided):,})" for name, decided in standing.items()) or "nobody yet"
        decided = sum(bool(decisions) for _, decisions in judged)
        stale = sum(map(len, self.journal.standing().values())) - sum(map(len, standing.values()))
        note = f" {stale:,} decisions do not count, as texts or images have changed." if stale else ""
        return [
            f"Decisions by annotator: {people}",
            f"{decided:,} of {len(self.items):,} items are decided.{note}",
            *self.page.report(judged),
        ]

    def write(self, path: Path) -> None:
        """Write the results as JSON lines, with images relative to the folder of the file; raises `StorageError`."""
        rows = [row if isinstance(row, dict) else row._asdict() for row in self.results()]
        for row in rows:
            for name in {"image", "second_image"} & row.keys():
                row[name] = relative_image(image_file(row[name], self.pictures.folder), path.parent)
        write_rows(rows, path)

    def open_item(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the item at `index`; without it, the first open item behind `after`, or else from the start."""
        annotator, index, after = self._annotator(request), request.get("index"), request.get("after")
        if index is None:
            return self._next(annotator, after if isinstance(after, int) else -1)
        if not isinstance(index, int) or not 0 <= index < len(self.items):
            raise DataError(f"there are items 0 to {len(self.items) - 1}, not {index!r}")
        return self._view(annotator, index)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "answers"}`` and return the next open item.

        Raises:
            UnknownNameError: an answer is not an option of its question.
            DataError: an answer is missing or invalid.
            StorageError: it could not be written.
        """
        annotator, id = self._annotator(request), request.get("id")
        if not isinstance(id, str) or id not in self._index_of:
            raise DataError(f"there is no item {id!r}; reload the page")
        item = self.items[self._index_of[id]]
        answers: Any = request.get("answers")
        choices = self._choices(item, answers)
        for question in self.page.questions(item):
            if {*choices.values()} & {*question.needed_for}:
                choices[question.name] = self._field(item, question, answers.get(question.name))
        self.page.check(item, choices)
        self.journal.record(annotator, id, self._shown[id], choices)
        return self._next(annotator, self._index_of[id])

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take back the annotator's last decision and return its item."""
        annotator = self._annotator(request)
        decision = self.journal.undo(annotator)
        if decision is None:
            raise DataError("there is nothing to undo")
        return self._view(annotator, self._index_of.get(decision.id, 0))

    def picture(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the image `name` of the folder as a ``data:`` address."""
        return {"src": self.pictures.shown(str(request.get("name")))}

    def _annotator(self, request: dict[str, Any]) -> str:
        text = request.get("annotator")
        name = text.strip() if isinstance(text, str) else ""
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise DataError(f"expected a name of 1 to {_LONGEST_NAME} printable characters, and got {text!r}")
        if self.annotators:
            check_known("annotator", [name], self.annotators)
        return name

    def _choices(self, item: Any, answers: Any) -> Answers:
        """Return the chosen options; raise `DataError` or `UnknownNameError`."""
        if not isinstance(answers, dict):
            raise DataError(f"expected an object of answers, and got {answers!r}")
        choices = {}
        for question in self.page.questions(item):
            if question.options:
                choices[question.name] = str(answers.get(question.name))
                values = [option.value for option in question.options]
                check_known(f"answer to {question.name!r}", [choices[question.name]], values)
        return choices

    def _field(self, item: Any, question: ReviewQuestion, value: Any) -> Any:
        if question.kind == "boxes":
            size = self.pictures.size(self.page.show(item).images[0])
            boxes = [clipped for box in value or () if (clipped := clip(box, *size))]
            if not boxes:
                raise DataError("draw a box first; it needs a width and a height of at least a pixel")
            return boxes
        text = " ".join(value.split()) if isinstance(value, str) else ""
        if not 0 < len(text) <= _LONGEST_TEXT:
            received = f"{len(text):,} characters" if text else "none"
            raise DataError(
                f"{question.title}: expected a text of up to {_LONGEST_TEXT:,} characters, and got {received}"
            )
        return text

    def _next(self, annotator: str, after: int) -> dict[str, Any]:
        """Return the first item behind `after`, or else from the start, that the annotator has not decided."""
        decided = self.standing().get(annotator, {})
        for index in (*range(after + 1, len(self.items)), *range(min(after + 1, len(self.items)))):
            if self.items[index].id not in decided:
                return self._view(annotator, index)
        return self._view(annotator, max(after, 0))

    def _view(self, annotator: str, index: int) -> dict[str, Any]:
        item, decided = self.items[index], self.standing().get(annotator, {})
        shown, answers = self.page.show(item), (decided[item.id].answers or {}) if item.id in decided else {}
        questions = [
            asdict(question) | {"value": answers.get(question.name, question.start)}
            for question in self.page.questions(item)
        ]
        return {
            "index": index,
            "id": item.id,
            "total": len(self.items),
            "done": len(decided),
            "decided": item.id in decided,
            "finished": len(decided) == len(self.items),
            "texts": shown.texts,
            "images": shown.images,
            "questions": questions,
        }


def clip(box: Sequence[float], width: int, height: int) -> tuple[float, ...] | None:
    """Clip a box to the image; return None if a side becomes shorter than a pixel.

    Args:
        box: x, y, width, height in pixels of the image, finite; with a negative size, x or y is the other end.
        width, height: the image's size.

    Returns:
        x, y, width, height, rounded to hundredths of a pixel.

    Raises:
        DataError: not four finite numbers.
    """
    is_list = isinstance(box, list | tuple)
    if not is_list or len(box) != 4 or not all(isinstance(n, int | float) and math.isfinite(n) for n in box):
        raise DataError(f"expected a box as finite x, y, width and height, and got {box!r}")
    x, y, wide, high = box
    left, right = (min(max(end, 0), width) for end in sorted((x, x + wide)))
    top, bottom = (min(max(end, 0), height) for end in sorted((y, y + high)))
    if right - left < 1 or bottom - top < 1:
        return None
    return tuple(round(float(value), 2) for value in (left, top, right - left, bottom - top))


def _content_hash(shown: Shown) -> str:
    content = json.dumps([[segments for _, segments in shown.texts], shown.images])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
