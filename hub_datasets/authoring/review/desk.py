"""Requests of the review pages and their answers, plain objects as in JSON: an item, a decision to keep, undo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError, UnknownNameError, check_known
from ....metrics.common.wording import mark_changes
from ..data.tables import write_rows
from . import decisions
from .agreement import report
from .journal import DecisionJournal, Entry, Key
from .pictures import Pictures
from .similar import Embedder, SimilarImages, histograms

_LONGEST_NAME = 40
ADDRESSES = ("http://", "https://")


class Desk(ABC):
    """Serves items to annotators, each at their own position.

    A request names the annotator and an item: by `index` to look at it, by `id` to decide on it, so that a page opened
    before the items changed cannot decide on an item that it did not show. An answer is a view of an item: `index`,
    `id`, `done` of `total`, `decided` (this item), `finished` (all items), `has_image`, and the fields of `_content`.

    Args:
        items: what is judged, each with an `id` and an `image`: a path, an address, or "" without one.
        shown: the texts that are judged, by the journal's keys; decisions on other texts do not count.
        journal: the decisions.
        pictures: the images.
        annotators: who may decide; anybody if empty.
        embed: finds similar images.
    """

    title: ClassVar[str]
    script: ClassVar[str]

    def __init__(
        self,
        items: Sequence[Any],
        shown: Mapping[Key, str],
        journal: DecisionJournal,
        pictures: Pictures,
        annotators: Sequence[str] = (),
        embed: Embedder = histograms,
    ) -> None:
        self.items, self.journal, self.pictures, self.annotators = items, journal, pictures, list(annotators)
        self._shown, self._similar = shown, SimilarImages(pictures, embed)
        self._index_of = {item.id: index for index, item in enumerate(items)}

    @abstractmethod
    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record a decision, and answer with the view to show next."""

    @abstractmethod
    def agreement(self) -> list[Part]:
        """The agreement of the annotators so far, and how to read it, as a document."""

    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        """Whether an annotator with these decisions has decided an item; by default, if one is on the whole item."""
        return (self.items[index].id, -1) in entries

    @abstractmethod
    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        """The fields of a view that depend on the kind of page."""

    @abstractmethod
    def _export(self, path: Path) -> str:
        """Export the decisions; the result in a sentence."""

    def export(self, path: str | Path) -> str:
        """Export the decisions to a ``.jsonl`` file; the result in a sentence.

        Raises:
            DataError: another suffix, the path of a journal or of what is reviewed, or a missing image.
            StorageError: a file could not be written.
        """
        self.journal.check_export(Path(path))
        text = self._export(Path(path))
        stale = self.journal.count_stale(self._shown)
        return text + (f"; {stale:,} decisions are on texts that have changed, and do not count" if stale else "")

    def open_item(self, request: dict[str, Any]) -> dict[str, Any]:
        """The item at `index`; without it, the first undecided item behind `after`, or else from the start."""
        annotator, after = self._annotator(request), request.get("after")
        if request.get("index") is not None:
            return self._view(annotator, self._index(request))
        return self._next(annotator, after if isinstance(after, int) else -1)

    def undo(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take back the annotator's last decision, and answer with its item."""
        annotator = self._annotator(request)
        entry = self.journal.undo(annotator)
        if entry is None:
            raise DataError("there is nothing to undo")
        return self._view(annotator, self._index_of.get(entry.id, 0))

    def picture(self, request: dict[str, Any]) -> dict[str, Any]:
        """The image of the item at `index`, as an address for the browser."""
        image = self.items[self._index(request)].image
        return {"src": image if image.startswith(ADDRESSES) else self.pictures.shown(image)}

    def similar(self, request: dict[str, Any]) -> dict[str, Any]:
        """The images most similar to the image `name` of the folder, or to that of the item at `index`."""
        name = request.get("name") or self.items[self._index(request)].image
        if not isinstance(name, str) or name.startswith(ADDRESSES):
            raise DataError(f"only images in {self.pictures.folder} can be compared, and this one is at {name}")
        images = [
            {"name": other, "similarity": similarity, "src": self.pictures.thumbnail(other)}
            for other, similarity in self._similar.nearest(name)
        ]
        return {"name": self.pictures.name(name), "src": self.pictures.thumbnail(name), "images": images}

    def _annotator(self, request: dict[str, Any]) -> str:
        """The name in a request; raises `DataError` or `UnknownNameError`."""
        given = request.get("annotator")
        name = given.strip() if isinstance(given, str) else ""
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise DataError(f"expected a name of 1 to {_LONGEST_NAME} printable characters, and got {given!r}")
        if self.annotators and name not in self.annotators:
            raise UnknownNameError("annotator", name, self.annotators)
        return name

    def _index(self, request: dict[str, Any]) -> int:
        """The `index` of a request; `DataError` where there is no such item."""
        index = request.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self.items):
            raise DataError(f"there are items 0 to {len(self.items) - 1}, and {index!r} came")
        return index

    def _index_of_id(self, request: dict[str, Any]) -> int:
        id = request.get("id")
        if not isinstance(id, str) or id not in self._index_of:
            raise DataError(f"there is no item {id!r}; reload the page")
        return self._index_of[id]

    def _next(self, annotator: str, after: int) -> dict[str, Any]:
        """The next undecided item; where all are decided, the item `after`."""
        entries = self._entries(annotator)
        order = [*range(after + 1, len(self.items)), *range(min(after + 1, len(self.items)))]
        undecided = (index for index in order if not self._is_done(entries, index))
        return self._view(annotator, next(undecided, max(after, 0)))

    def _view(self, annotator: str, index: int) -> dict[str, Any]:
        entries = self._entries(annotator)
        done = [self._is_done(entries, each) for each in range(len(self.items))]
        return {
            "index": index,
            "id": self.items[index].id,
            "total": len(done),
            "done": sum(done),
            "decided": done[index],
            "finished": all(done),
            "has_image": bool(self.items[index].image),
            **self._content(entries, index),
        }

    def _decisions_on(self, id: str) -> list[Entry]:
        """The standing decisions of all annotators on a whole item."""
        return [own[id, -1] for own in self.journal.standing(self._shown).values() if (id, -1) in own]

    def _entries(self, annotator: str) -> dict[Key, Entry]:
        return self.journal.standing(self._shown).get(annotator, {})

    def _asked(self, request: dict[str, Any], known: Collection[str]) -> tuple[str, int, Any, str]:
        """Annotator, index, item and decision of a request; `UnknownNameError` for a decision that is not known."""
        annotator, index = self._annotator(request), self._index_of_id(request)
        decision = str(request.get("decision"))
        check_known("decision", [decision], known)
        return annotator, index, self.items[index], decision


class StepDesk(Desk):
    """A desk whose results are the items of the next step; see `Desk`."""

    @abstractmethod
    def results(self) -> list[Any]:
        """What the decisions so far make of the items, as named tuples."""

    def undecided(self) -> int:
        """The number of items on which nobody has decided."""
        return sum(not self._decisions_on(item.id) for item in self.items)

    def _export(self, path: Path) -> str:
        found = self.results()
        write_rows(found, path)
        return f"{len(found):,} results of {len(self.items):,} items written to {path}"


class ReviewDesk(Desk):
    """The requests of the page on which candidates are judged; see `Desk`."""

    title, script = "Review candidates", "review_review.js"

    def __init__(self, candidates: Sequence[Any], *args: Any) -> None:
        super().__init__(candidates, decisions.shown_texts(candidates), *args)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "decision", "text"}``, and answer with the next undecided item.

        Raises:
            UnknownNameError, DataError, StorageError: see `decisions.decide`; or the request is invalid.
        """
        annotator, index = self._annotator(request), self._index_of_id(request)
        decision, text = str(request.get("decision")), str(request.get("text") or "")
        decisions.decide(self.journal, self.items[index], annotator, decision, text)
        return self._next(annotator, index)

    def agreement(self) -> list[Part]:
        """See `Desk`."""
        return report(self.journal.standing(self._shown))

    def _export(self, path: Path) -> str:
        statuses, pairs, pairs_path = decisions.export(self.items, self.journal, path)
        counts = ", ".join(f"{count:,} {status}" for status, count in statuses.items())
        return f"{counts}; written to {path}, and {pairs:,} kept pairs to {pairs_path}"

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        """See `Desk`; a corrected candidate is shown with the annotator's own correction."""
        each = self.items[index]
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
