"""Boxes that annotators draw for phrases (TRICD, section 4.1.1, step 5): items, agreement and export."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ....metrics.functional.boxes import box_iou
from ..data.tables import read_rows
from .journal import DecisionJournal, Entry, Key
from .pictures import Pictures

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


class BoxExport(NamedTuple):
    """Numbers of an export.

    Attributes:
        complete, boxes: items with every phrase decided, and their boxes: these were written.
        incomplete: other items.
        stale: decisions on phrases that have changed since.
    """

    complete: int
    incomplete: int
    boxes: int
    stale: int


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


def shown_texts(items: Sequence[BoxItem]) -> dict[Key, str]:
    """The text of each phrase by its key in the journal."""
    return {(item.id, number): phrase.text for item in items for number, phrase in enumerate(item.phrases)}


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


def export(items: Sequence[BoxItem], journal: DecisionJournal, pictures: Pictures, path: str | Path) -> BoxExport:
    """Write the items with every phrase decided, in the layout of detection rows.

    Args:
        items: the items.
        journal: the annotators' boxes; where several annotators drew, `choose` selects.
        pictures: the images, for their sizes.
        path: a ``.jsonl`` file. A line has the fields of the item and, as in ``tricd`` and ``toy_scenes``, `phrases`
            with `text`, `start`, `end`, `phrase_id` (from 1, unique in the file) and `boxes` (x, y, width, height in
            pixels of the image); `width` and `height` of the image; and `positive`, unless the item has it: whether
            any phrase has boxes.

    Raises:
        DataError: another suffix, the journal's own path, or a missing image.
        StorageError: the file could not be written.
    """
    path = Path(path)
    journal.check_export(path)
    shown = shown_texts(items)
    by_key = entries_by_phrase(journal, shown)
    rows, boxes, phrase_id = [], 0, 0
    for item in items:
        phrases = []
        for number, phrase in enumerate(item.phrases):
            phrase_id += 1
            if (item.id, number) in by_key:
                drawn = choose(by_key[item.id, number]).boxes
                phrases.append({**phrase._asdict(), "phrase_id": phrase_id, "boxes": [list(box) for box in drawn]})
        if len(phrases) < len(item.phrases):
            continue
        boxes += sum(len(phrase["boxes"]) for phrase in phrases)
        width, height = pictures.size(item.image)
        first = {"id": item.id, "image": item.image, "caption": item.caption, "phrases": phrases}
        computed = {"positive": any(phrase["boxes"] for phrase in phrases), "width": width, "height": height}
        rows.append(json.dumps(first | computed | item.other, ensure_ascii=False) + "\n")
    write_text(path, "".join(rows))
    return BoxExport(len(rows), len(items) - len(rows), boxes, journal.count_stale(shown))


def entries_by_phrase(journal: DecisionJournal, shown: Mapping[Key, str]) -> dict[Key, list[Entry]]:
    """The decided entries of each phrase, in the order of the annotators."""
    found: dict[Key, list[Entry]] = {}
    for entries in journal.standing(shown).values():
        for key, entry in entries.items():
            if is_decided(entry):
                found.setdefault(key, []).append(entry)
    return found


def mean_overlap(by_key: Mapping[Key, Sequence[Entry]]) -> float | None:
    """The mean `overlap` over all pairs of annotators of the same phrase; None without such pairs."""
    found = [overlap(one.boxes, other.boxes) for entries in by_key.values() for one, other in combinations(entries, 2)]
    return sum(found) / len(found) if found else None


def describe_overlap(mean: float | None) -> str:
    """`mean_overlap` in a sentence."""
    if mean is None:
        return "No two annotators have drawn for the same phrase, so there is no agreement to report."
    return (
        f"The boxes of two annotators for one phrase overlap by {mean:.3f} on average (intersection over union, boxes "
        "matched one to one; 1 means equal). Evaluation at an overlap of 0.95 needs much tighter boxes than at 0.5."
    )


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
