"""Requests of the review pages and their answers, plain objects as in JSON: an item, a decision to keep, undo."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from ....metrics.common.errors import DataError, UnknownNameError
from . import boxes as box_items
from . import decisions
from .journal import DecisionJournal, Entry, Key

if TYPE_CHECKING:
    from ..data.candidates import Candidate
    from .pictures import Pictures

_LONGEST_NAME = 40
Segments = list[tuple[str, bool]]


class Desk(ABC):
    """Serves items to annotators, each at their own position.

    A request names the annotator and an item: by `index` to look at it, by `id` to decide on it, so that a page opened
    before the items changed cannot decide on an item that it did not show. An answer is a view of an item: `index`,
    `id`, `done` of `total`, `decided` (this item), `finished` (all items), `has_image`, and the fields of `_content`.

    Args:
        ids: the items, in their order.
        journal: the decisions.
        shown: the texts that are judged, by the journal's keys; decisions on other texts do not count.
        annotators: who may decide; anybody if empty.
    """

    def __init__(
        self, ids: Sequence[str], journal: DecisionJournal, shown: Mapping[Key, str], annotators: Sequence[str] = ()
    ) -> None:
        self.journal, self.annotators = journal, list(annotators)
        self._ids, self._shown = ids, shown
        self._index_of = {id: index for index, id in enumerate(ids)}

    @abstractmethod
    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record a decision, and answer with the view to show next."""

    @abstractmethod
    def image_of(self, index: int) -> str:
        """The image of an item: a path, an address, or "" without one."""

    @abstractmethod
    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        """Whether an annotator with these decisions has decided an item."""

    @abstractmethod
    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        """The fields of a view that depend on the kind of page."""

    def open_item(self, request: dict[str, Any]) -> dict[str, Any]:
        """The item at `index`; without it, the first undecided item behind `after`, or else from the start."""
        annotator, after = self._annotator(request), request.get("after")
        if request.get("index") is not None:
            return self._view(annotator, self.index(request))
        return self._next(annotator, after if isinstance(after, int) else -1)

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take back the annotator's last decision, and answer with its item."""
        annotator = self._annotator(request)
        entry = self.journal.undo(annotator)
        if entry is None:
            raise DataError("there is nothing to undo")
        return self._view(annotator, self._index_of.get(entry.id, 0))

    def _annotator(self, request: dict[str, Any]) -> str:
        """The name in a request; raises `DataError` or `UnknownNameError`."""
        given = request.get("annotator")
        name = given.strip() if isinstance(given, str) else ""
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise DataError(f"expected a name of 1 to {_LONGEST_NAME} printable characters, and got {given!r}")
        if self.annotators and name not in self.annotators:
            raise UnknownNameError("annotator", name, self.annotators)
        return name

    def index(self, request: dict[str, Any]) -> int:
        """The `index` of a request; `DataError` where there is no such item."""
        index = request.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self._ids):
            raise DataError(f"there are items 0 to {len(self._ids) - 1}, and {index!r} came")
        return index

    def _index_of_id(self, request: dict[str, Any]) -> int:
        id = request.get("id")
        if not isinstance(id, str) or id not in self._index_of:
            raise DataError(f"there is no item {id!r}; reload the page")
        return self._index_of[id]

    def _next(self, annotator: str, after: int) -> dict[str, Any]:
        """The next undecided item; where all are decided, the item `after`."""
        entries = self._entries(annotator)
        order = [*range(after + 1, len(self._ids)), *range(min(after + 1, len(self._ids)))]
        undecided = (index for index in order if not self._is_done(entries, index))
        return self._view(annotator, next(undecided, max(after, 0)))

    def _view(self, annotator: str, index: int) -> dict[str, Any]:
        entries = self._entries(annotator)
        done = [self._is_done(entries, each) for each in range(len(self._ids))]
        return {
            "index": index,
            "id": self._ids[index],
            "total": len(done),
            "done": sum(done),
            "decided": done[index],
            "finished": all(done),
            "has_image": bool(self.image_of(index)),
            **self._content(entries, index),
        }

    def _entries(self, annotator: str) -> dict[Key, Entry]:
        return self.journal.standing(self._shown).get(annotator, {})


class ReviewDesk(Desk):
    """The requests of the page on which candidates are judged; see `Desk`."""

    def __init__(
        self, candidates: Sequence[Candidate], journal: DecisionJournal, annotators: Sequence[str] = ()
    ) -> None:
        super().__init__([each.id for each in candidates], journal, decisions.shown_texts(candidates), annotators)
        self._candidates = candidates

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "decision", "text"}``, and answer with the next undecided item.

        Raises:
            UnknownNameError, DataError, StorageError: see `decisions.decide`; or the request is invalid.
        """
        annotator, index = self._annotator(request), self._index_of_id(request)
        decision, text = str(request.get("decision")), str(request.get("text") or "")
        decisions.decide(self.journal, self._candidates[index], annotator, decision, text)
        return self._next(annotator, index)

    def image_of(self, index: int) -> str:
        """See `Desk`."""
        return self._candidates[index].image

    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        return (self._candidates[index].id, -1) in entries

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        """See `Desk`; a corrected candidate is shown with the annotator's own correction."""
        each = self._candidates[index]
        entry = entries.get((each.id, -1))
        text = (entry.text if entry else "") or each.candidate
        caption, candidate = mark_changes(each.caption, text)
        return {
            "caption": caption,
            "candidate": candidate,
            "text": text,
            "kind": each.kind,
            "is_positive": each.is_positive,
            "source": each.source,
            "choices": [*decisions.labels(each).items()],
            "decision": entry.decision if entry else "",
        }


class BoxDesk(Desk):
    """The requests of the page on which boxes are drawn; see `Desk`.

    Args:
        items: the items.
        journal: the boxes.
        pictures: the images, whose sizes clip the boxes.
        annotators: who may draw; anybody if empty.

    Raises:
        DataError: an image is missing.
    """

    def __init__(
        self,
        items: Sequence[box_items.BoxItem],
        journal: DecisionJournal,
        pictures: Pictures,
        annotators: Sequence[str] = (),
    ) -> None:
        super().__init__([item.id for item in items], journal, box_items.shown_texts(items), annotators)
        self._items, self._pictures = items, pictures
        for item in items:
            pictures.path(item.image)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record all boxes of a phrase: ``{"annotator", "id", "phrase", "boxes", "absent"}``; the page stays.

        Boxes are clipped to the image, and dropped where less than a pixel remains. `absent` says that the image does
        not show the phrase.
        """
        annotator, index = self._annotator(request), self._index_of_id(request)
        item, number = self._items[index], request.get("phrase")
        if not isinstance(number, int) or not 0 <= number < len(item.phrases):
            raise DataError(f"item {item.id!r} has {len(item.phrases)} phrases, and phrase {number!r} came")
        size = self._pictures.size(item.image)
        clipped = [box_items.clip(box, *size) for box in request.get("boxes") or ()]
        boxes = tuple(box for box in clipped if box is not None)
        decision = box_items.ABSENT if request.get("absent") and not boxes else box_items.DRAWN
        shown = item.phrases[number].text
        self.journal.decide(Entry("", annotator, item.id, decision, shown=shown, phrase=number, boxes=boxes))
        return self._view(annotator, index)

    def image_of(self, index: int) -> str:
        """See `Desk`."""
        return self._items[index].image

    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        item = self._items[index]
        return all(box_items.is_decided(entries.get((item.id, number))) for number in range(len(item.phrases)))

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        item = self._items[index]
        phrases = []
        for number, phrase in enumerate(item.phrases):
            entry = entries.get((item.id, number))
            drawn = {
                "boxes": entry.boxes if entry else (),
                "absent": entry is not None and entry.decision == box_items.ABSENT,
                "done": box_items.is_decided(entry),
            }
            phrases.append(phrase._asdict() | drawn)
        return {"caption": item.caption, "phrases": phrases}


def mark_changes(caption: str, candidate: str) -> tuple[Segments, Segments]:
    """Both texts in pieces of whole words and signs, each with whether it is in one of the texts only.

    >>> mark_changes("a red cat", "a blue cat")[1]
    [('a ', False), ('blue', True), (' cat', False)]
    """
    one, other = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (caption, candidate))
    matcher = SequenceMatcher(a=one, b=other, autojunk=False)
    parts: tuple[Segments, Segments] = ([], [])
    for change, *spans in matcher.get_opcodes():
        for words, (start, end), segments in zip((one, other), (spans[:2], spans[2:]), parts, strict=True):
            if end > start:
                segments.append(("".join(words[start:end]), change != "equal"))
    return parts
