"""From TRICD's released files to the rows of each configuration.

Each function takes a parsed file and its path, and raises a `DataError` that names the file and the entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...metrics.common.errors import DataError
from ..sources.records import check_rows
from ..sources.source_files import is_file_name

REPOSITORY_URL = "https://github.com/ashkamath/TRICD"
# Pixels: the released numbers carry errors of rounding up to 2e-13.
_TOLERANCE = 1e-6
_IMAGE_FIELDS = {
    "id": int,
    "file_name": str,
    "caption": str,
    "positive": bool,
    "original_id": str,
    "coco_type": str,
    "phrases": dict,
    "height": int,
    "width": int,
}
_BOX_FIELDS = {"id": int, "image_id": int, "phrase_id": int, "bbox": [float]}
_QUESTION_FIELDS = {"image_id": int, "question": str, "question_id": int, "file_name": str}
_ANSWER_FIELDS = {"image_id": int, "answer": int, "answer_id": int, "coco_type": str}
_Row = dict[str, Any]


def _val_rows(data: dict[str, Any], source: str) -> list[_Row]:
    boxes = _boxes(data, source)
    rows, seen = [], set()
    for entry in _entries(data, "images", _IMAGE_FIELDS, source):
        origin = f"{source}, image {entry['id']}"
        phrases = [_phrase(entry, key, spans, boxes, origin) for key, spans in entry["phrases"].items()]
        repeated = seen & {phrase["phrase_id"] for phrase in phrases}
        if repeated:
            raise DataError(f"{origin}: phrase id {min(repeated)} occurs twice. Expected ids of the whole file.")
        seen |= {phrase["phrase_id"] for phrase in phrases}
        rows.append(_val_row(entry, phrases))
    if boxes:
        image_id, phrase_id = min(boxes)
        raise DataError(f"{source}: boxes are of phrase {phrase_id} of image {image_id}, which is not in the file.")
    return rows


def _val_row(entry: _Row, phrases: list[_Row]) -> _Row:
    size = entry["width"], entry["height"]
    return {
        "id": f"val/{entry['id']}",
        "filename": entry["file_name"],
        "caption": entry["caption"],
        "phrases": phrases,
        "positive": entry["positive"],
        "pair_id": f"{entry['original_id'].split('_')[0]}/{entry['caption']}",
        "type": entry["coco_type"],
        "width": entry["width"],
        "height": entry["height"],
        "overruns": any(_overruns(box, size) for phrase in phrases for box in phrase["boxes"]),
    }


def _phrase(entry: _Row, key: str, spans: object, boxes: dict[tuple[int, int], list[Any]], place: str) -> _Row:
    """Return one phrase with its boxes, which are taken out of `boxes`."""
    where = f"{place}, phrase {key}"
    span = spans[0] if isinstance(spans, list) and len(spans) == 1 else None
    numbers = span if isinstance(span, list) and all(type(value) is int for value in span) else []
    start, end = numbers if len(numbers) == 2 else (0, 0)
    inside = 0 <= start < end <= len(entry["caption"])
    if not inside or not key.isdigit():
        raise DataError(
            f"{where}: found {spans!r}. Expected a number as key and one span [[start, end]] in the caption."
        )
    phrase_boxes = boxes.pop((entry["id"], int(key)), [])
    if bool(phrase_boxes) != entry["positive"]:
        expected = "at least one, as the caption is true" if entry["positive"] else "none, as the caption is false"
        raise DataError(f"{where}: found {len(phrase_boxes)} boxes. Expected {expected} of the image.")
    text = entry["caption"][start:end]
    return {"text": text, "start": start, "end": end, "phrase_id": int(key), "boxes": phrase_boxes}


def _boxes(data: dict[str, Any], source: str) -> dict[tuple[int, int], list[Any]]:
    """Return the boxes by (image id, phrase id)."""
    boxes: dict[tuple[int, int], list[Any]] = {}
    for entry in _entries(data, "annotations", _BOX_FIELDS, source):
        box = entry["bbox"]
        if len(box) != 4 or not all(map(math.isfinite, box)) or min(box[2:]) <= 0:
            expected = "Expected [x, y, width, height] in pixels, the last two positive."
            raise DataError(f"{source}, annotation {entry['id']}: found bbox {box!r}. {expected}")
        boxes.setdefault((entry["image_id"], entry["phrase_id"]), []).append(box)
    return boxes


def _overruns(box: list[float], size: tuple[int, int]) -> bool:
    return any(
        start < -_TOLERANCE or start + extent > limit + _TOLERANCE
        for start, extent, limit in zip(box[:2], box[2:], size, strict=True)
    )


def _vqa_rows(data: dict[str, Any], source: str) -> list[_Row]:
    questions = _entries(data, "questions", _QUESTION_FIELDS, source)
    answers = {entry["image_id"]: entry for entry in _entries(data, "annotations", _ANSWER_FIELDS, source)}
    rows = []
    for question in questions:
        answer = answers.get(question["image_id"])
        if answer is None or answer["answer_id"] != question["question_id"] or answer["answer"] not in (0, 1):
            problem = f"Found {answer!r}. Expected the answer of the same number, 0 or 1."
            raise DataError(f"{source}, question {question['question_id']}: no usable answer. {problem}")
        rows.append(
            {
                "id": f"vqa/{question['question_id']}",
                "filename": question["file_name"],
                "question": question["question"],
                "answer": bool(answer["answer"]),
                "type": answer["coco_type"],
            }
        )
    return rows


def _group_rows(data: dict[str, Any], source: str) -> list[_Row]:
    """Return one row for each group: the two positive rows, with the two negative ones as their cross product."""
    groups: dict[str, dict[tuple[str, bool], _Row]] = {}
    sizes: dict[str, int] = {}
    for entry in _entries(data, "images", _IMAGE_FIELDS, source):
        group, _, side = entry["original_id"].partition("_")
        groups.setdefault(group, {})[side, entry["positive"]] = entry
        sizes[group] = sizes.get(group, 0) + 1
    for group, members in groups.items():
        if sizes[group] != 4 or not _is_crossed(members):
            ids = ", ".join(str(entry["id"]) for entry in members.values())
            raise DataError(
                f"{source}, group {group} (images {ids}): not a cross of two images and two captions. Expected four "
                f"rows, original_id {group}_0 and {group}_1, each image with its own caption and with the other's."
            )
    return [
        {
            "id": f"groups/{group}",
            "type": members["0", True]["coco_type"],
            **{f"filename_{side}": members[side, True]["file_name"] for side in "01"},
            **{f"caption_{side}": members[side, True]["caption"] for side in "01"},
        }
        for group, members in groups.items()
    ]


def _is_crossed(members: dict[tuple[str, bool], _Row]) -> bool:
    if set(members) != {("0", True), ("1", True), ("0", False), ("1", False)}:
        return False
    images = all(members[side, True]["file_name"] == members[side, False]["file_name"] for side in "01")
    captions = all(members[a, False]["caption"] == members[b, True]["caption"] for a, b in ("01", "10"))
    return images and captions and len({entry["coco_type"] for entry in members.values()}) == 1


def _entries(data: dict[str, Any], key: str, fields: dict[str, Any], source: str) -> list[_Row]:
    """Return the list under `key`, whose entries must be objects with these fields and distinct ids."""
    entries = data.get(key) if isinstance(data, dict) else None
    if not isinstance(entries, list) or not entries:
        raise DataError(f"{source} has no list {key!r} with entries. Get it again from {REPOSITORY_URL}.")
    ids: set[object] = set()

    def problem(entry: _Row) -> str | None:
        if not is_file_name(entry.get("file_name", "-")):
            return f"file_name {entry['file_name']!r} is not a bare file name"
        identity = entry["id" if "id" in fields else "image_id"]
        if identity in ids:
            return f"id {identity} occurs twice"
        ids.add(identity)
        return None

    return check_rows(((f"{key}[{number}]", entry) for number, entry in enumerate(entries)), fields, source, problem)


ROWS: dict[str, Callable[[dict[str, Any], str], list[_Row]]] = {
    "val": _val_rows,
    "vqa": _vqa_rows,
    "groups": _group_rows,
}
