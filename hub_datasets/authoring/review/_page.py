"""What both kinds of review page ask of the server; requests and answers are plain objects, as in JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ....metrics.common.errors import DataError, UnknownNameError
from .journal import Entry, Journal, Key

_LONGEST_NAME = 40


class Desk(ABC):
    """The items that annotators go through, each at their own place.

    A request names the annotator and an item: by `index` to look at it, by `id` to decide on it, so that a page which
    was open before the items changed decides on none that it has not shown. An answer is a view of an item: `index`,
    `id`, `done` of `total`, `decided` (this item is), `finished` (all are), and what `content` gives.

    Args:
        ids: the items, in the order in which they are shown.
        journal: where decisions are kept.
        shown: what is judged, by the keys of the journal; decisions on anything else count nowhere.
        annotators: who may judge; anybody where it is empty.
    """

    def __init__(
        self, ids: Sequence[str], journal: Journal, shown: Mapping[Key, str], annotators: Sequence[str] = ()
    ) -> None:
        self.journal, self.annotators = journal, list(annotators)
        self._ids, self._shown = ids, shown
        self._places = {id: index for index, id in enumerate(ids)}

    def open_item(self, request: dict[str, Any]) -> dict[str, Any]:
        """The item at `index`, or without one the next that is not decided, from `after` on and then from the first."""
        annotator = self.annotator(request)
        if request.get("index") is not None:
            return self.view(annotator, self.index(request))
        after = request.get("after")
        return self.next(annotator, after if isinstance(after, int) else -1)

    @abstractmethod
    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep a decision, and answer with what is shown then."""

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take back the annotator's last decision, and answer with the item that it was on."""
        annotator = self.annotator(request)
        entry = self.journal.undo(annotator)
        if entry is None:
            raise DataError("there is nothing to undo")
        return self.view(annotator, self._places.get(entry.id, 0))

    def annotator(self, request: dict[str, Any]) -> str:
        """The name in a request.

        Raises:
            DataError: no name, or one of more than 40 characters or with some that are not printed.
            UnknownNameError: not one of the annotators.
        """
        given = request.get("annotator")
        name = given.strip() if isinstance(given, str) else ""
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise DataError(f"a name has 1 to {_LONGEST_NAME} printed characters, and {given!r} came")
        if self.annotators and name not in self.annotators:
            raise UnknownNameError("annotator", name, self.annotators)
        return name

    def index(self, request: dict[str, Any]) -> int:
        """The number of the item that a request names.

        Raises:
            DataError: there is no such item.
        """
        index = request.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self._ids):
            raise DataError(f"there are items 0 to {len(self._ids) - 1}, and {index!r} came")
        return index

    def place(self, request: dict[str, Any]) -> int:
        """The number of the item whose `id` a request names.

        Raises:
            DataError: there is no such item.
        """
        id = request.get("id")
        if not isinstance(id, str) or id not in self._places:
            raise DataError(f"there is no item {id!r}; reload the page")
        return self._places[id]

    def next(self, annotator: str, after: int) -> dict[str, Any]:
        """The next item that is not decided; where all are, the one after `after`, told as finished."""
        entries = self._entries(annotator)
        order = [*range(after + 1, len(self._ids)), *range(min(after + 1, len(self._ids)))]
        open_ones = (index for index in order if not self.is_done(entries, index))
        return self.view(annotator, next(open_ones, max(after, 0)))

    def view(self, annotator: str, index: int) -> dict[str, Any]:
        """What the page shows of an item."""
        entries = self._entries(annotator)
        done = [self.is_done(entries, each) for each in range(len(self._ids))]
        return {
            "index": index,
            "id": self._ids[index],
            "total": len(done),
            "done": sum(done),
            "decided": done[index],
            "finished": all(done),
            "has_image": bool(self.image_of(index)),
            **self.content(entries, index),
        }

    @abstractmethod
    def image_of(self, index: int) -> str:
        """The image of an item: a path, an address, or "" where there is none."""

    @abstractmethod
    def is_done(self, entries: dict[Key, Entry], index: int) -> bool:
        """Whether an annotator, whose decisions these are, has decided an item."""

    @abstractmethod
    def content(self, entries: dict[Key, Entry], index: int) -> dict[str, Any]:
        """What a view shows of an item itself."""

    def _entries(self, annotator: str) -> dict[Key, Entry]:
        return self.journal.standing(self._shown).get(annotator, {})
