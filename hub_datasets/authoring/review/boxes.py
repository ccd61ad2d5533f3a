"""The page on which annotators draw the boxes of phrases: its items, the choice among drawn boxes, and agreement.

Each phrase is a separate item, shown in its caption, as in TRICD's annotation (section 4.1.1, step 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError
from ....metrics.functional.boxes import box_iou
from ..data.tables import read_records
from .journal import Decision
from .page import Judged, Option, ReviewPage, ReviewQuestion, Shown
from .pictures import Pictures

DRAWN, ABSENT = "boxes", "absent"
Box = Sequence[float]


class _CaptionRow(NamedTuple):
    id: str
    image: str
    caption: str
    phrases: list[dict[str, Any]]


class PhraseItem(NamedTuple):
    """A phrase for which boxes are drawn: the characters of a caption from `start` up to, not including, `end`."""

    id: str
    caption_id: str
    image: str
    caption: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """Return the phrase."""
        return self.caption[self.start : self.end]


def read_phrases(path: str | Path) -> list[PhraseItem]:
    """Read items from JSON lines: ``{"id", "image", "caption", "phrases": [{"text", "start", "end"}, …]}``.

    Args:
        path: the file. `image` is relative to its folder; `start` and `end` index the caption as in Python.

    Raises:
        DataError: no such file, no items, a repeated id, a missing field or one of another type, or a phrase that
            differs from its characters; the message names the row.
    """
    items = []
    for number, row in enumerate(read_records(path, _CaptionRow)):
        name = f"row {number} of {path}"
        if not all(row):
            raise DataError(f"{name}: expected an id, image, caption and phrases that are not empty, and got {row}")
        for index, phrase in enumerate(row.phrases):
            if not isinstance(phrase, dict):
                raise DataError(f"{name}: the phrase {phrase!r} is no object with text, start and end")
            start, end = phrase.get("start"), phrase.get("end")
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < end:
                item = PhraseItem(f"{row.id}#{index}", row.id, row.image, row.caption, start, end)
                if item.text == phrase.get("text"):
                    items.append(item)
                    continue
            raise DataError(
                f"{name}: the phrase {phrase.get('text')!r} differs from the characters {start} to {end} of the "
                "caption; count from 0, with the end excluded"
            )
    if not items:
        raise DataError(f"{path} has no items; list captions with the phrases to draw boxes for")
    return items


def overlap(one: Sequence[Box], other: Sequence[Box]) -> float:
    """Return the agreement of two sets of boxes, in [0, 1].

    The sum of the intersections over unions in the best one-to-one matching, divided by the size of the larger set; 1
    for two empty sets.
    """
    from scipy.optimize import linear_sum_assignment

    if not one or not other:
        return float(len(one) == len(other))
    corners = [[(x, y, x + width, y + height) for x, y, width, height in boxes] for boxes in (one, other)]
    left, right = np.indices((len(one), len(other)))
    table = box_iou(np.array(corners[0])[left.ravel()], np.array(corners[1])[right.ravel()]).reshape(left.shape)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / max(len(one), len(other)))


def choose_boxes(drawn: Sequence[Sequence[Box]]) -> Sequence[Box]:
    """Return the annotator's boxes with the highest mean `overlap` with the other annotators'; the first if tied."""
    # The overlap with oneself is 1 for all.
    return max(drawn, key=lambda boxes: sum(overlap(boxes, of_other) for of_other in drawn))


def detection_rows(judged: Sequence[Judged], pictures: Pictures) -> list[dict[str, Any]]:
    """Return the captions whose phrases are all decided, in the layout of detection rows.

    A row has `id`, `image` and `caption` and, as in ``tricd`` and ``toy_scenes``, `phrases` with `text`, `start`,
    `end`, `phrase_id` (from 1, unique in the file) and `boxes` (x, y, width, height in pixels of the image); `width`
    and `height` of the image; and `positive`: whether any phrase has boxes.
    """
    rows = []
    for (id, image, caption), group in groupby(enumerate(judged, 1), key=lambda entry: entry[1][0][1:4]):
        numbered = list(group)
        if not all(decisions for _, (_, decisions) in numbered):
            continue
        phrases = [
            {"text": item.text, "start": item.start, "end": item.end, "phrase_id": number}
            | {"boxes": [list(box) for box in choose_boxes([_boxes(decision) for decision in decisions])]}
            for number, (item, decisions) in numbered
        ]
        width, height = pictures.size(image)
        row = {"id": id, "image": image, "caption": caption, "phrases": phrases}
        rows.append(row | {"positive": any(phrase["boxes"] for phrase in phrases), "width": width, "height": height})
    return rows


def _boxes(decision: Decision) -> Sequence[Box]:
    return decision.answer("boxes") or []


def _report(judged: Sequence[Judged]) -> list[Part]:
    drawn = [[_boxes(decision) for decision in decisions] for _, decisions in judged]
    overlaps = [overlap(first, second) for boxes in drawn for first, second in combinations(boxes, 2)]
    if not overlaps:
        return ["No two annotators have drawn for the same phrase, so there is no agreement to report."]
    return [
        f"The boxes of two annotators for one phrase overlap by {sum(overlaps) / len(overlaps):.3f} on average "
        "(intersection over union, boxes matched one to one; 1 means equal). Evaluation at an overlap of 0.95 needs "
        "much tighter boxes than at 0.5."
    ]


def _show(item: PhraseItem) -> Shown:
    marked = [(item.caption[: item.start], ""), (item.text, "new"), (item.caption[item.end :], "")]
    return Shown((("Caption, with the phrase to draw boxes for", marked),), (item.image,))


PAGE = ReviewPage(
    title="Draw boxes",
    instructions="Draw a box around each instance of the phrase, as tight as you can, or say that there is none.",
    read=read_phrases,
    show=_show,
    questions=lambda item: (
        ReviewQuestion(
            "decision",
            f"Draw a box around each instance of “{item.text}”",
            (Option(DRAWN, "Save the boxes", "Enter"), Option(ABSENT, "Not in the image", "a")),
        ),
        ReviewQuestion("boxes", "Boxes", kind="boxes", needed_for=(DRAWN,)),
    ),
    results=detection_rows,
    report=_report,
)
