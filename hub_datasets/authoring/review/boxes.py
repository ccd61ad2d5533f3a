"""The page on which annotators draw the boxes of phrases: its items, the choice among drawn boxes, and agreement.

Each phrase is an item of its own, shown in its caption, as in TRICD's annotation (section 4.1.1, step 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError
from ....metrics.functional.boxes import box_iou
from ..data.tables import check_rows, read_rows
from .journal import Decision
from .page import Option, ReviewPage, ReviewQuestion, Shown, Standing, decisions_on
from .pictures import Pictures

DRAWN, ABSENT = "boxes", "absent"
Box = Sequence[float]


class PhraseItem(NamedTuple):
    """A phrase of a caption for which boxes are drawn.

    Attributes:
        id: the caption's, ``#`` and the number of the phrase.
        phrase: its `text`, `start` and `end`: the characters of the caption from `start` up to, not including, `end`.
        row: the fields of the caption's row: `id`, `image`, `caption`, `phrases`, and others, copied to the export.
    """

    id: str
    phrase: Mapping[str, Any]
    row: Mapping[str, Any]


def read_phrases(path: str | Path) -> list[PhraseItem]:
    """Read items from JSON lines: ``{"id", "image", "caption", "phrases": [{"text", "start", "end"}, …], …}``.

    Args:
        path: the file. `image` is relative to its folder; `start` and `end` index the caption as in Python.

    Raises:
        DataError: no such file, no items, a repeated id, a missing field or one of another type, or a phrase that
            differs from its characters; the message names the row.
    """
    path = Path(path)
    rows = read_rows(path)
    for key, row in rows:
        _check_row(row, f"row {key} of {path}")
    check_rows(str(path), [[str(row["id"]), str(row["caption"])] for _, row in rows])
    return [
        PhraseItem(f"{row['id']}#{number}", {name: phrase[name] for name in ("text", "start", "end")}, row)
        for _, row in rows
        for number, phrase in enumerate(row["phrases"])
    ]


def overlap(one: Sequence[Box], other: Sequence[Box]) -> float:
    """Return the agreement of two sets of boxes, in [0, 1].

    The sum of the intersections over unions in the best one-to-one matching, divided by the size of the larger set; 1
    for two empty sets.
    """
    from scipy.optimize import linear_sum_assignment

    if not one or not other:
        return float(len(one) == len(other))
    corners = [[(x, y, x + width, y + height) for x, y, width, height in boxes] for boxes in (one, other)]
    left, right = np.meshgrid(np.arange(len(one)), np.arange(len(other)), indexing="ij")
    table = box_iou(np.array(corners[0])[left.ravel()], np.array(corners[1])[right.ravel()]).reshape(left.shape)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / max(len(one), len(other)))


def choose_boxes(drawn: Sequence[Sequence[Box]]) -> Sequence[Box]:
    """Return the boxes with the highest mean `overlap` with those of the other annotators; of equals the first."""
    sums = [
        sum(overlap(boxes, boxes_of_other) for n, boxes_of_other in enumerate(drawn) if n != row)
        for row, boxes in enumerate(drawn)
    ]
    return drawn[sums.index(max(sums))]


def detection_rows(items: Sequence[PhraseItem], standing: Standing, pictures: Pictures) -> list[dict[str, Any]]:
    """Return the captions whose phrases are all decided, in the layout of detection rows.

    A row has the fields of the item and, as in ``tricd`` and ``toy_scenes``, `phrases` with `text`, `start`, `end`,
    `phrase_id` (from 1, unique in the file) and `boxes` (x, y, width, height in pixels of the image); `width` and
    `height` of the image; and `positive`, unless the item has it: whether any phrase has boxes.
    """
    rows, phrase_id = [], 0
    for _, of_caption in groupby(items, key=lambda item: item.row["id"]):
        phrases, group = [], list(of_caption)
        for item in group:
            phrase_id += 1
            if decisions := decisions_on(item.id, standing):
                boxes = [list(box) for box in choose_boxes([_boxes(decision) for decision in decisions])]
                phrases.append({**item.phrase, "phrase_id": phrase_id, "boxes": boxes})
        if len(phrases) == len(group):
            row = group[0].row
            width, height = pictures.size(row["image"])
            first = {"id": row["id"], "image": row["image"], "caption": row["caption"], "phrases": phrases}
            computed = {"positive": any(phrase["boxes"] for phrase in phrases), "width": width, "height": height}
            rows.append(first | computed | {name: value for name, value in row.items() if name not in first})
    return rows


def _boxes(decision: Decision) -> Sequence[Box]:
    return decision.answer("boxes") or []


def _report(items: Sequence[PhraseItem], standing: Standing) -> list[Part]:
    drawn = [[_boxes(decision) for decision in decisions_on(item.id, standing)] for item in items]
    overlaps = [overlap(first, second) for boxes in drawn for first, second in combinations(boxes, 2)]
    if not overlaps:
        return ["No two annotators have drawn for the same phrase, so there is no agreement to report."]
    return [
        f"The boxes of two annotators for one phrase overlap by {sum(overlaps) / len(overlaps):.3f} on average "
        "(intersection over union, boxes matched one to one; 1 means equal). Evaluation at an overlap of 0.95 needs "
        "much tighter boxes than at 0.5."
    ]


def _show(item: PhraseItem) -> Shown:
    caption, start, end = item.row["caption"], item.phrase["start"], item.phrase["end"]
    marked = [(caption[:start], ""), (item.phrase["text"], "new"), (caption[end:], "")]
    return Shown((("Caption, with the phrase to draw boxes for", marked),), (item.row["image"],))


def _check_row(row: Mapping[str, Any], row_name: str) -> None:
    try:
        texts = [row[name] for name in ("id", "image", "caption")]
        phrases = [(phrase["text"], phrase["start"], phrase["end"]) for phrase in row["phrases"]]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{row_name} is not an item ({error!r}); expected an object with id, image, caption and phrases, each with "
            "text, start and end"
        ) from error
    if not all(isinstance(text, str) and text for text in texts):
        raise DataError(f"{row_name}: expected texts that are not empty as id, image and caption, and got {texts}")
    if not phrases:
        raise DataError(f"{row_name} has no phrases; list those to draw boxes for")
    for text, start, end in phrases:
        is_span = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
        if not is_span or texts[2][start:end] != text:
            raise DataError(
                f"{row_name}: the phrase {text!r} differs from the characters {start} to {end} of the caption; count "
                "from "
                "0, with the end excluded"
            )


PAGE = ReviewPage(
    title="Draw boxes",
    read=read_phrases,
    show=_show,
    questions=lambda item: (
        ReviewQuestion(
            "decision",
            f"Draw a box around each instance of “{item.phrase['text']}”",
            (Option(DRAWN, "Save the boxes", "Enter"), Option(ABSENT, "Not in the image", "a")),
        ),
        ReviewQuestion("boxes", "Boxes", kind="boxes", needed_for=(DRAWN,)),
    ),
    results=detection_rows,
    report=_report,
    per_item=3,
    needs_images=True,
)
