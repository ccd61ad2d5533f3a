"""Steps 1 and 2 of TRICD's annotation: people spot what surprises in images, and others rate what was spotted.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1 and Figures 3 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError, check_known
from ..data.records import read_records
from .desk import StepDesk
from .journal import Entry, Key

SPOTS_FILE, RATINGS_FILE = "SPOTS.jsonl", "RATINGS.jsonl"
KINDS = ("object", "relation")
NOTHING = "nothing"
SPOT_DECISIONS = (*KINDS, NOTHING)
AMBIGUOUS = "ambiguous"
RATINGS = ("0", "1", "2", "3", "4", "5")
RATING_DECISIONS = (*RATINGS, AMBIGUOUS)
# A proposal with a lower mean is discarded; each gets this many ratings, of people who did not spot it.
LEAST_MEAN = 2.5
RATERS = 3
_MOST_SPOTS = 9
_LONGEST = 300


class Picture(NamedTuple):
    """An image in which something may be spotted."""

    id: str
    image: str


class Proposal(NamedTuple):
    """A surprising object or relation of an image, as a caption; `by` is who spotted it, "" for nobody."""

    id: str
    image: str
    text: str
    kind: str
    by: str = ""


def clean_text(text: Any) -> str:
    """A caption that an annotator typed, with its white space normalised; `DataError` if it is empty or too long."""
    cleaned = " ".join(text.split()) if isinstance(text, str) else ""
    if not cleaned or len(cleaned) > _LONGEST:
        raise DataError(f"expected a caption of 1 to {_LONGEST} characters, and got {str(text)[:40]!r}")
    return cleaned


def is_kept(entries: Sequence[Entry]) -> bool:
    """Whether the mean of a proposal's ratings is at least 2.5.

    The paper discards "those with a score lower than 2.5", and asks raters to filter out what is ambiguous or cannot be
    grounded; that decision counts as 0 here.
    """
    return bool(entries) and fmean(0 if e.decision == AMBIGUOUS else int(e.decision) for e in entries) >= LEAST_MEAN


class SpotDesk(StepDesk):
    """The requests of the page on which people list surprising objects and relations; see `Desk`.

    Each image is shown to one annotator at most: what one has decided is done for all, and an image that is on
    somebody's screen is offered to nobody else.
    """

    title, script = "Spot what surprises", "review_spot.js"

    def __init__(self, items: Sequence[Picture], *args: Any) -> None:
        shown = {(item.id, number): item.image for item in items for number in range(_MOST_SPOTS)}
        super().__init__(items, shown, *args)
        self._held: dict[int, str] = {}

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "decision", "text"}``; after "nothing" the next image is shown.

        Raises:
            UnknownNameError, DataError: another decision, no text, or somebody else has decided the image.
        """
        annotator, index, item, decision = self._asked(request, SPOT_DECISIONS)
        spots = self._spots(self._entries(annotator), item.id)
        if any(entry.annotator != annotator for entry in spots):
            raise DataError(f"{spots[0].annotator} has this image; go on with the next")
        if decision == NOTHING and spots:
            raise DataError("something was spotted already; undo it first, or go on with the next")
        texts = [entry.text for entry in spots if entry.decision != NOTHING]
        text = "" if decision == NOTHING else clean_text(request.get("text"))
        if text in texts or len(texts) == _MOST_SPOTS:
            raise DataError("it is in the list already" if text in texts else f"at most {_MOST_SPOTS} for an image")
        self.journal.decide(Entry("", annotator, item.id, decision, text=text, shown=item.image, phrase=len(texts)))
        return self._next(annotator, index) if decision == NOTHING else self._view(annotator, index)

    def results(self) -> list[Proposal]:
        """What was spotted, in the order of the images."""
        entries = self._entries("")
        return [
            Proposal(f"{item.id}/{entry.phrase}", item.image, entry.text, entry.decision, entry.annotator)
            for item in self.items
            for entry in self._spots(entries, item.id)
            if entry.decision != NOTHING
        ]

    def undecided(self) -> int:
        """The number of images that nobody has decided."""
        entries = self._entries("")
        return sum(not self._spots(entries, item.id) for item in self.items)

    def agreement(self) -> list[Part]:
        """How many images were kept; TRICD kept about 5 %."""
        done = len(self.items) - self.undecided()
        kept = len({proposal.image for proposal in self.results()})
        return [f"Something was spotted in {kept:,} of {done:,} images; each was shown to one annotator."]

    def _entries(self, annotator: str) -> dict[Key, Entry]:
        return {key: entry for own in self.journal.standing(self._shown).values() for key, entry in own.items()}

    def _next(self, annotator: str, after: int) -> dict[str, Any]:
        entries = self._entries(annotator)
        order = [*range(after + 1, len(self.items)), *range(min(after + 1, len(self.items)))]
        free = (i for i in order if not self._is_done(entries, i) and self._held.get(i, annotator) == annotator)
        index = next(free, max(after, 0))
        self._held = {i: name for i, name in self._held.items() if name != annotator} | {index: annotator}
        return self._view(annotator, index)

    def _spots(self, entries: Mapping[Key, Entry], id: str) -> list[Entry]:
        return [entries[id, number] for number in range(_MOST_SPOTS) if (id, number) in entries]

    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        return bool(self._spots(entries, self.items[index].id))

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        spots = self._spots(entries, self.items[index].id)
        return {"spots": [{"kind": e.decision, "text": e.text, "by": e.annotator} for e in spots]}


class RatingDesk(StepDesk):
    """The requests of the page on which proposals are rated from 0 to 5; see `Desk`.

    Nobody rates what they spotted themselves.
    """

    title, script = "Rate proposals", "review_rate.js"

    def __init__(self, items: Sequence[Proposal], *args: Any) -> None:
        super().__init__(items, {(item.id, -1): item.text for item in items}, *args)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "decision"}``: "0" to "5" or "ambiguous"; answers with the next proposal."""
        annotator, index, item, decision = self._asked(request, RATING_DECISIONS)
        if item.by == annotator:
            raise DataError("you spotted this yourself, and others rate it")
        self.journal.decide(Entry("", annotator, item.id, decision, shown=item.text))
        return self._next(annotator, index)

    def ratings(self) -> dict[str, list[Entry]]:
        """The ratings of each proposal."""
        found: dict[str, list[Entry]] = {item.id: [] for item in self.items}
        for own in self.journal.standing(self._shown).values():
            for entry in own.values():
                found[entry.id].append(entry)
        return found

    def results(self) -> list[Proposal]:
        """The proposals with a mean of at least 2.5."""
        ratings = self.ratings()
        return [item for item in self.items if is_kept(ratings[item.id])]

    def missing(self, raters: int = RATERS) -> int:
        """The number of ratings that are missing until each proposal has so many."""
        return sum(max(0, raters - len(own)) for own in self.ratings().values())

    def agreement(self) -> list[Part]:
        """How many proposals are kept; TRICD kept half."""
        rated = [own for own in self.ratings().values() if own]
        kept = sum(map(is_kept, rated))
        return [f"{kept:,} of {len(rated):,} rated proposals have a mean of at least {LEAST_MEAN}."]

    def _entries(self, annotator: str) -> dict[Key, Entry]:
        spotted = (item for item in self.items if item.by == annotator)
        skipped = {(item.id, -1): Entry("", annotator, item.id, "", shown=item.text) for item in spotted}
        return skipped | super()._entries(annotator)

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        item = self.items[index]
        entry = entries.get((item.id, -1))
        return {"text": item.text, "kind": item.kind, "decision": entry.decision if entry else ""}


def read_pictures(path: str | Path) -> list[Picture]:
    """The images of a file of JSON lines with `id` and `image`; raises `DataError`."""
    return read_records(path, Picture)


def read_proposals(path: str | Path) -> list[Proposal]:
    """The proposals of a file of JSON lines; raises `DataError`."""
    found = read_records(path, Proposal)
    check_known("kind of proposal", [each.kind for each in found], KINDS)
    return found
