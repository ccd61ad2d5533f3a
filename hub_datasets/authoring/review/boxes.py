"""Boxes that annotators draw for phrases (TRICD, section 4.1.1, step 5): items, the desk, agreement and export."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ....metrics.functional.boxes import box_iou
from ..data.tables import read_rows
from .desk import Desk
from .journal import Entry, Key

JOURNAL_FILE = "BOXES.jsonl"
DRAWN, ABSENT = "boxes", "absent"
DECISIONS = (DRAWN, ABSENT)
Box = tuple[float, ...]


class Phrase(NamedTuple):
    """A phrase of a caption: the characters from `start` up to, not including, `end`."""

    text: str
    start: int
    end: int


class BoxItem(NamedTuple):
    """An image and a caption for whose phrases boxes are drawn.

    Attributes:
        id, image, caption: see `read_items`.
        phrases: at least one phrase.
        other: further fields of the item, copied to the export.
    """

    id: str
    image: str
    caption: str
    phrases: tuple[Phrase, ...]
    other: dict[str, Any]


def read_items(path: str | Path) -> list[BoxItem]:
    """Items from JSON lines: ``{"id", "image", "caption", "phrases": [{"text", "start", "end"}, …], …}``.

    Args:
        path: the file. `image` is relative to its folder; `start` and `end` index the caption as in Python.

    Raises:
        DataError: no such file, no items, a repeated id, a missing field or one of another type, or a phrase that
            differs from its characters; the message names the row.
    """
    path = Path(path)
    items = [_item(dict(row), f"row {key} of {path}") for key, row in read_rows(path)]
    if not items:
        raise DataError(f"{path} has no items; write a line for each image and caption")
    id, count = Counter(item.id for item in items).most_common(1)[0]
    if count > 1:
        raise DataError(f"{path}: the id {id!r} comes more than once; give each item its own")
    return items


def clip(box: Sequence[float], width: int, height: int) -> Box | None:
    """Clip a box to the image; None where a side becomes shorter than a pixel.

    Args:
        box: x, y, width, height in pixels of the image, finite; with a negative size, x or y is the other end.
        width, height: the image's size.

    Returns:
        x, y, width, height, rounded to hundredths of a pixel.

    Raises:
        DataError: not four finite numbers.
    """
    if len(box) != 4 or not all(isinstance(value, (int, float)) and math.isfinite(value) for value in box):
        raise DataError(f"expected a box as finite x, y, width and height, and got {list(box)}")
    x, y, wide, high = box
    left, right = (min(max(end, 0), width) for end in sorted((x, x + wide)))
    top, bottom = (min(max(end, 0), height) for end in sorted((y, y + high)))
    if right - left < 1 or bottom - top < 1:
        return None
    return tuple(round(float(value), 2) for value in (left, top, right - left, bottom - top))


def is_decided(entry: Entry | None) -> bool:
    """Whether a phrase has boxes, or was marked as not in the image."""
    return entry is not None and (entry.decision == ABSENT or bool(entry.boxes))


def overlap(one: Sequence[Box], other: Sequence[Box]) -> float:
    """Agreement of two sets of boxes, in [0, 1].

    The sum of the intersections over unions in the best one-to-one matching, divided by the size of the larger set; 1
    for two empty sets.
    """
    from scipy.optimize import linear_sum_assignment

    if not one or not other:
        return float(len(one) == len(other))
    corners = [[_corners(box) for box in boxes] for boxes in (one, other)]
    left, right = np.meshgrid(np.arange(len(one)), np.arange(len(other)), indexing="ij")
    table = box_iou(np.array(corners[0])[left.ravel()], np.array(corners[1])[right.ravel()]).reshape(left.shape)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / max(len(one), len(other)))


def choose(entries: Sequence[Entry]) -> Entry:
    """The boxes of a phrase with the highest mean `overlap` with those of the other annotators; of equals the first."""
    means = [sum(overlap(entry.boxes, other.boxes) for other in entries if other is not entry) for entry in entries]
    return entries[means.index(max(means))]


class BoxDesk(Desk):
    """The requests of the page on which boxes are drawn; see `Desk`.

    Raises:
        DataError: an image is missing.
    """

    title, script = "Draw boxes", "review_boxes.js"

    def __init__(self, items: Sequence[Any], *args: Any) -> None:
        shown = {(item.id, number): phrase.text for item in items for number, phrase in enumerate(item.phrases)}
        super().__init__(items, shown, *args)
        for item in items:
            self.pictures.path(item.image)

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Record all boxes of a phrase: ``{"annotator", "id", "phrase", "boxes", "absent"}``; the page stays.

        Boxes are clipped to the image, and dropped where less than a pixel remains. `absent` says that the image does
        not show the phrase.
        """
        annotator, index = self._annotator(request), self._index_of_id(request)
        item, number = self.items[index], request.get("phrase")
        if not isinstance(number, int) or not 0 <= number < len(item.phrases):
            raise DataError(f"item {item.id!r} has {len(item.phrases)} phrases, and phrase {number!r} came")
        size = self.pictures.size(item.image)
        clipped = [clip(box, *size) for box in request.get("boxes") or ()]
        boxes = tuple(box for box in clipped if box is not None)
        decision = ABSENT if request.get("absent") and not boxes else DRAWN
        shown = item.phrases[number].text
        self.journal.decide(Entry("", annotator, item.id, decision, shown=shown, phrase=number, boxes=boxes))
        return self._view(annotator, index)

    def agreement(self) -> list[Part]:
        """The mean `overlap` over all pairs of annotators of the same phrase, in a sentence."""
        pairs = [pair for entries in self._by_phrase().values() for pair in combinations(entries, 2)]
        if not pairs:
            return ["No two annotators have drawn for the same phrase, so there is no agreement to report."]
        mean = sum(overlap(one.boxes, other.boxes) for one, other in pairs) / len(pairs)
        return [
            f"The boxes of two annotators for one phrase overlap by {mean:.3f} on average (intersection over union, "
            "boxes matched one to one; 1 means equal). Evaluation at an overlap of 0.95 needs much tighter boxes than "
            "at 0.5."
        ]

    def _export(self, path: Path) -> str:
        """Write the items with every phrase decided, in the layout of detection rows.

        A line has the fields of the item and, as in ``tricd`` and ``toy_scenes``, `phrases` with `text`, `start`,
        `end`, `phrase_id` (from 1, unique in the file) and `boxes` (x, y, width, height in pixels of the image);
        `width` and `height` of the image; and `positive`, unless the item has it: whether any phrase has boxes.
        """
        by_phrase = self._by_phrase()
        rows, boxes, phrase_id = [], 0, 0
        for item in self.items:
            phrases = []
            for number, phrase in enumerate(item.phrases):
                phrase_id += 1
                if (item.id, number) in by_phrase:
                    drawn = choose(by_phrase[item.id, number]).boxes
                    phrases.append({**phrase._asdict(), "phrase_id": phrase_id, "boxes": [list(box) for box in drawn]})
            if len(phrases) < len(item.phrases):
                continue
            boxes += sum(len(phrase["boxes"]) for phrase in phrases)
            width, height = self.pictures.size(item.image)
            first = {"id": item.id, "image": item.image, "caption": item.caption, "phrases": phrases}
            computed = {"positive": any(phrase["boxes"] for phrase in phrases), "width": width, "height": height}
            rows.append(json.dumps(first | computed | item.other, ensure_ascii=False) + "\n")
        write_text(path, "".join(rows))
        left_out = len(self.items) - len(rows)
        rest = f"; {left_out:,} left out, as not every phrase is decided" if left_out else ""
        return f"{len(rows):,} items with {boxes:,} boxes written to {path}{rest}"

    def _by_phrase(self) -> dict[Key, list[Entry]]:
        """The decided entries of each phrase, in the order of the annotators."""
        found: dict[Key, list[Entry]] = {}
        for entries in self.journal.standing(self._shown).values():
            for key, entry in entries.items():
                if is_decided(entry):
                    found.setdefault(key, []).append(entry)
        return found

    def _is_done(self, entries: Mapping[Key, Entry], index: int) -> bool:
        item = self.items[index]
        return all(is_decided(entries.get((item.id, number))) for number in range(len(item.phrases)))

    def _content(self, entries: Mapping[Key, Entry], index: int) -> dict[str, Any]:
        item = self.items[index]
        phrases = []
        for number, phrase in enumerate(item.phrases):
            entry = entries.get((item.id, number))
            drawn = {
                "boxes": entry.boxes if entry else (),
                "absent": entry is not None and entry.decision == ABSENT,
                "done": is_decided(entry),
            }
            phrases.append(phrase._asdict() | drawn)
        return {"caption": item.caption, "phrases": phrases}


def _item(row: dict[str, Any], place: str) -> BoxItem:
    try:
        texts = [row.pop(name) for name in ("id", "image", "caption")]
        phrases = tuple(Phrase(each["text"], each["start"], each["end"]) for each in row.pop("phrases"))
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{place} is not an item ({error!r}); expected an object with id, image, caption and phrases, each with "
            "text, start and end"
        ) from error
    if not all(isinstance(text, str) and text for text in texts):
        raise DataError(f"{place}: expected texts that are not empty as id, image and caption, and got {texts}")
    if not phrases:
        raise DataError(f"{place} has no phrases; list those to draw boxes for")
    id, image, caption = texts
    for text, start, end in phrases:
        whole = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
        if not whole or caption[start:end] != text:
            raise DataError(
                f"{place}: the phrase {text!r} is not what the characters {start} to {end} of the caption are; count "
                "from 0, with the end excluded"
            )
    return BoxItem(id, image, caption, phrases, row)


def _corners(box: Box) -> Box:
    x, y, width, height = box
    return x, y, x + width, y + height
