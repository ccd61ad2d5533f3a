"""Boxes that annotators draw for phrases (TRICD, section 4.1.1, step 5): what is asked, what is kept, the export."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.common.errors import DataError
from ....metrics.common.storage import write_text
from ....metrics.functional.boxes import box_iou
from .journal import Entry, Journal, Key
from .pictures import Pictures

JOURNAL_FILE = "BOXES.jsonl"
DRAWN, ABSENT = "boxes", "absent"
DECISIONS = (DRAWN, ABSENT)
Box = tuple[float, ...]


class Phrase(NamedTuple):
    """A phrase of a caption: its text, which are the characters `start` to `end` of the caption."""

    text: str
    start: int
    end: int


class BoxItem(NamedTuple):
    """An image and a caption, for whose phrases boxes are drawn.

    Attributes:
        id, image, caption: see `read_items`.
        phrases: at least one.
        other: further fields of the item, which the export keeps.
    """

    id: str
    image: str
    caption: str
    phrases: tuple[Phrase, ...]
    other: dict[str, Any]


class BoxExport(NamedTuple):
    """What was exported: items whose every phrase is decided, and their boxes.

    Attributes:
        complete, boxes: how many items and boxes were written.
        incomplete: how many items were left out.
        stale: how many decisions are on phrases that are not, or no longer, asked for.
    """

    complete: int
    incomplete: int
    boxes: int
    stale: int


def read_items(path: str | Path) -> list[BoxItem]:
    """Items from JSON lines: ``{"id", "image", "caption", "phrases": [{"text", "start", "end"}, …], …}``.

    Args:
        path: the file. `image` is relative to its folder; `start` and `end` are characters of the caption, the first
            and the one after the last.

    Raises:
        DataError: no such file, no items, an id that comes twice, a field that is missing or of another type, or a
            phrase that is not what its characters say; the message names the line.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as JSON lines: {error}; name a file of items") from error
    items = [_item(line, f"line {number} of {path}") for number, line in enumerate(lines, 1) if line.strip()]
    if not items:
        raise DataError(f"{path} has no items; write a line for each image and caption")
    ids = [item.id for item in items]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise DataError(f"{path}: the id {twice!r} comes more than once; give each item its own")
    return items


def shown_texts(items: Sequence[BoxItem]) -> dict[Key, str]:
    """The text of each phrase under the key that its boxes have in the journal."""
    return {(item.id, number): phrase.text for item in items for number, phrase in enumerate(item.phrases)}


def clip(box: Sequence[float], width: int, height: int) -> Box | None:
    """A box with its corners moved into the image; None where less than a pixel of a side is left.

    Args:
        box: x, y, width, height in pixels of the image, finite; a negative size says that x or y is the other end.
        width, height: the image's size.

    Returns:
        x, y, width, height, in hundredths of a pixel, inside the image.

    Raises:
        DataError: not four finite numbers.
    """
    if len(box) != 4 or not all(isinstance(value, (int, float)) and math.isfinite(value) for value in box):
        raise DataError(f"a box came as {list(box)}; it is x, y, width and height, finite numbers")
    x, y, wide, high = box
    left, right = (min(max(end, 0), width) for end in sorted((x, x + wide)))
    top, bottom = (min(max(end, 0), height) for end in sorted((y, y + high)))
    if right - left < 1 or bottom - top < 1:
        return None
    return tuple(round(float(value), 2) for value in (left, top, right - left, bottom - top))


def is_decided(entry: Entry | None) -> bool:
    """Whether a phrase has boxes, or is said to have none."""
    return entry is not None and (entry.decision == ABSENT or bool(entry.boxes))


def overlap(one: Sequence[Box], other: Sequence[Box]) -> float:
    """How far two sets of boxes of a phrase agree: 1 for the same, 0 where nothing overlaps.

    The sum of the intersections over unions of the best one-to-one matching, over the size of the larger set; two
    empty sets agree.
    """
    from scipy.optimize import linear_sum_assignment

    if not one or not other:
        return float(len(one) == len(other))
    corners = [[_corners(box) for box in boxes] for boxes in (one, other)]
    left, right = np.meshgrid(np.arange(len(one)), np.arange(len(other)), indexing="ij")
    table = box_iou(np.array(corners[0])[left.ravel()], np.array(corners[1])[right.ravel()]).reshape(left.shape)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / max(len(one), len(other)))


def choose(entries: Sequence[Entry]) -> Entry:
    """Of the boxes that several annotators drew for a phrase, those that agree best with the others'.

    The mean `overlap` with the others decides, and between equal ones the first in the order given.
    """
    means = [sum(overlap(entry.boxes, other.boxes) for other in entries if other is not entry) for entry in entries]
    return entries[means.index(max(means))]


def export(items: Sequence[BoxItem], journal: Journal, pictures: Pictures, path: str | Path) -> BoxExport:
    """Write the items whose every phrase somebody has decided, in the layout of detection rows.

    Args:
        items: what was asked.
        journal: what annotators drew.
        pictures: the images, for their sizes.
        path: a ``.jsonl`` file. A line has the fields of the item and, as in ``tricd`` and ``toy_scenes``, `phrases`
            with `text`, `start`, `end`, `phrase_id` (another for each phrase, from 1) and `boxes` (x, y, width,
            height in pixels of the image); `width` and `height` of the image; and `positive`, where the item does not
            say: whether any phrase has boxes. Where several annotators drew, `choose` says whose boxes are written.

    Raises:
        DataError: another suffix, the journal's own path, or an image that is not there.
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
        said = {"positive": any(phrase["boxes"] for phrase in phrases), "width": width, "height": height}
        rows.append(json.dumps(first | said | item.other, ensure_ascii=False) + "\n")
    write_text(path, "".join(rows))
    return BoxExport(len(rows), len(items) - len(rows), boxes, journal.count_stale(shown))


def entries_by_phrase(journal: Journal, shown: Mapping[Key, str]) -> dict[Key, list[Entry]]:
    """The decided entries of each phrase, in the order of the annotators."""
    found: dict[Key, list[Entry]] = {}
    for entries in journal.standing(shown).values():
        for key, entry in entries.items():
            if is_decided(entry):
                found.setdefault(key, []).append(entry)
    return found


def mean_overlap(by_key: Mapping[Key, Sequence[Entry]]) -> float | None:
    """The mean `overlap` of all pairs of annotators who drew for the same phrase; None where there are none."""
    found = [
        overlap(entries[one].boxes, entries[other].boxes)
        for entries in by_key.values()
        for one in range(len(entries))
        for other in range(one)
    ]
    return sum(found) / len(found) if found else None


def describe_overlap(mean: float | None) -> str:
    """What `mean_overlap` says, in a sentence."""
    if mean is None:
        return "No two annotators have drawn for the same phrase, so that there is no agreement to tell."
    return (
        f"The boxes of two annotators for one phrase overlap by {mean:.3f} on average (intersection over union, boxes "
        "matched one to one; 1 is the same). Evaluation at an overlap of 0.95 wants boxes much tighter than at 0.5."
    )


def _item(line: str, place: str) -> BoxItem:
    try:
        row = json.loads(line)
        texts = [row.pop(name) for name in ("id", "image", "caption")]
        phrases = tuple(Phrase(each["text"], each["start"], each["end"]) for each in row.pop("phrases"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{place} is no item ({error!r}); it is an object with id, image, caption and phrases, each of which has "
            "text, start and end"
        ) from error
    if not all(isinstance(text, str) and text for text in texts):
        raise DataError(f"{place}: id, image and caption are texts that are not empty, and {texts} came")
    if not phrases:
        raise DataError(f"{place} has no phrases; list those for which boxes are to be drawn")
    id, image, caption = texts
    for text, start, end in phrases:
        whole = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
        if not whole or caption[start:end] != text:
            raise DataError(
                f"{place}: the phrase {text!r} is not what the characters {start} to {end} of the caption are; count "
                "from 0, the end is the one after the last"
            )
    return BoxItem(id, image, caption, phrases, row)


def _corners(box: Box) -> Box:
    x, y, width, height = box
    return x, y, x + width, y + height
