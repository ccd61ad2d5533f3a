"""Steps 3 and 4 of TRICD's annotation: a second image and caption for each, and a last check of both directions.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1 and Figures 3, 4 and 12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError
from ..data.records import read_records
from ..text.phrases import differing_parts
from .desk import StepDesk
from .journal import Entry, Key
from .proposals import Proposal, clean_text

CROSSED_FILE, CHECKED_FILE = "CROSSED.jsonl", "CHECKED.jsonl"
PAIR, NONE = "pair", "none"
CROSS_DECISIONS = (PAIR, NONE)
KEEP, DROP = "keep", "drop"
CHECK_DECISIONS = (KEEP, DROP)


class Group(NamedTuple):
    """Two images and two captions, each true of its own image and not of the other."""

    id: str
    kind: str
    image_0: str
    caption_0: str
    image_1: str
    caption_1: str

    @property
    def image(self) -> str:
        """The first image."""
        return self.image_0


def check_group(group: Group) -> None:
    """Raise `DataError` if images or captions are equal, or relations differ in more than one part.

    Of relations "only one of the subject, verb, or object differs" (section 4.1.1, step 3).
    """
    if group.image_0 == group.image_1:
        raise DataError("both images are the same; choose another")
    if group.caption_0.lower() == group.caption_1.lower():
        raise DataError("both captions are the same; write one that is not true of the first image")
    if group.kind == "relation" and (number := differing_parts(group.caption_0, group.caption_1)) > 1:
        raise DataError(
            f"the captions differ in {number} parts; of a relation change only the subject, the verb or the object"
        )


class _TwoImages(StepDesk):
    def picture(self, request: dict[str, Any]) -> dict[str, Any]:
        """The image `name` of the folder, or that of the item at `index`."""
        name = request.get("name")
        return {"src": self.pictures.shown(name)} if isinstance(name, str) and name else super().picture(request)


class CrossDesk(_TwoImages):
    """The requests of the page on which a second image and its caption are found; see `Desk`.

    The page offers the images nearest to the first by an image-only model (`similar`).
    """

    title, script = "Find a contrasting image", "review_cross.js"

    def __init__(self, items: Sequence[Proposal], *args: Any) -> None:
        super().__init__(items, {(item.id, -1): item.text for item in items}, *args)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "decision", "name", "text", "first_absent", "second_absent"}``.

        A pair needs an image `name` of the folder, a caption `text` of it, and both statements of the annotator: that
        the first caption is not true of the second image, and the second not of the first. The decision "none" says
        that no image of the folder fits.

        Raises:
            UnknownNameError, DataError: see `check_group`; or a statement, the image or the caption is missing.
        """
        annotator, index, item, decision = self._asked(request, CROSS_DECISIONS)
        found = ""
        if decision == PAIR:
            name = request.get("name")
            if not isinstance(name, str) or not name:
                raise DataError("choose a second image first")
            if not (request.get("first_absent") is True and request.get("second_absent") is True):
                raise DataError("say that neither caption is true of the other image; if one is, choose another image")
            group = self._group(item, {"name": self.pictures.name(name), "text": clean_text(request.get("text"))})
            check_group(group)
            found = json.dumps({"name": group.image_1, "text": group.caption_1}, ensure_ascii=False)
        self.journal.decide(Entry("", annotator, item.id, decision, text=found, shown=item.text))
        return self._next(annotator, index)

    def results(self) -> list[Group]:
        """The pair that was found first for each proposal."""
        found = []
        for item in self.items:
            pairs = [entry for entry in self._decisions_on(item.id) if entry.decision == PAIR]
            if pairs:
                found.append(self._group(item, json.loads(min(pairs, key=lambda entry: entry.time).text)))
        return found

    def agreement(self) -> list[Part]:
        """For how many proposals a second image was found."""
        done = len(self.items) - self.undecided()
        return [f"A second image and caption were found for {len(self.results()):,} of {done:,} proposals."]

    def _group(self, item: Proposal, found: Mapping[str, str]) -> Group:
        return Group(item.id, item.kind, self.pictures.name(item.image), item.text, found["name"], found["text"])

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        item = self.items[index]
        entry = entries.get((item.id, -1))
        found = json.loads(entry.text) if entry and entry.text else {"name": "", "text": ""}
        return {"text": item.text, "kind": item.kind, "decision": entry.decision if entry else "", "found": found}


class CheckDesk(_TwoImages):
    """The requests of the page on which both directions of a group are checked a last time; see `Desk`."""

    title, script = "Check both directions", "review_check.js"

    def __init__(self, items: Sequence[Group], *args: Any) -> None:
        super().__init__(items, {(item.id, -1): _shown(item) for item in items}, *args)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record ``{"annotator", "id", "decision", "captions"}``: keep, with both captions as corrected, or drop."""
        annotator, index, item, decision = self._asked(request, CHECK_DECISIONS)
        text = ""
        if decision == KEEP:
            given = request.get("captions")
            if not isinstance(given, list) or len(given) != 2:
                raise DataError(f"expected two captions, and got {given!r}")
            captions = [clean_text(each) for each in given]
            check_group(item._replace(caption_0=captions[0], caption_1=captions[1]))
            text = json.dumps(captions, ensure_ascii=False)
        self.journal.decide(Entry("", annotator, item.id, decision, text=text, shown=_shown(item)))
        return self._next(annotator, index)

    def results(self) -> list[Group]:
        """The groups that more than half of their annotators keep, with the captions of the first of these."""
        found = []
        for item in self.items:
            entries = self._decisions_on(item.id)
            kept = sorted((entry for entry in entries if entry.decision == KEEP), key=lambda entry: entry.time)
            if 2 * len(kept) > len(entries):
                caption_0, caption_1 = json.loads(kept[0].text)
                found.append(item._replace(caption_0=caption_0, caption_1=caption_1))
        return found

    def agreement(self) -> list[Part]:
        """How many groups are kept."""
        return [f"{len(self.results()):,} of {len(self.items) - self.undecided():,} checked groups are kept."]

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        item = self.items[index]
        entry = entries.get((item.id, -1))
        captions = json.loads(entry.text) if entry and entry.text else [item.caption_0, item.caption_1]
        return {
            "kind": item.kind,
            "captions": captions,
            "second": item.image_1,
            "decision": entry.decision if entry else "",
        }


def read_groups(path: str | Path) -> list[Group]:
    """The groups of a file of JSON lines; raises `DataError`."""
    return read_records(path, Group)


def _shown(group: Group) -> str:
    return json.dumps([group.image_0, group.caption_0, group.image_1, group.caption_1], ensure_ascii=False)
