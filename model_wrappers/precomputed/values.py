"""What a record of a file of answers says of an example, as numbers; ValueError says what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...hub_datasets.core.examples import Example
from ..engine.protocol import Detections
from .files import Record, listed, number, shown, whole_number

_YES, _NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0")
_SENTENCE = re.compile(r"\W*(yes|no)\s*(?:[^\w\s].*)?", re.DOTALL)
_CHOICE = re.compile(r"(?:(?:answer|caption|choice|option|output)\b)?[\W_]*(\d{1,9}|[a-z])[\W_]*", re.IGNORECASE)
_AS_RELEASED = "multiple_choice_answer"
_BOX = {"bbox": "x, y, width, height with no negative size", "boxes": "x1, y1, x2, y2 with x1 <= x2 and y1 <= y2"}


def matrix(fields: Mapping[str, Any], rows: int, columns: int) -> np.ndarray:
    """Scores (rows, columns), images × captions, from `scores` or the columns `score_0`, `score_1` …"""
    if "scores" in fields:
        found = listed(fields["scores"])
        found = found if found and all(isinstance(row, list) for row in found) else [found]
    else:
        found = [_numbered(fields)]
    widths = {len(row) for row in found}
    if len(found) != rows or widths != {columns}:
        came = " or ".join(map(str, sorted(widths)))
        raise ValueError(f"{len(found)} × {came} scores, images × captions; the example has {rows} × {columns}")
    return np.array([[number(value) for value in row] for row in found])


def choices(answer: Any, example: Example, first: int) -> np.ndarray | None:
    """A matrix with 1 for the chosen caption of each image and 0 for the others; None where nothing was chosen.

    Args:
        answer: a number, letter or text of a caption; one for each image where there are several.
        example: what was asked.
        first: the number of the first caption.
    """
    said = [answer] if len(example.images) == 1 else listed(answer)
    if len(said) != len(example.images):
        raise ValueError(f"{len(said)} answers for {len(example.images)} images")
    chosen = [_choice(each, example.captions, first) for each in said]
    if not all(chosen):
        return None
    return np.array([[float(place in right) for place in range(len(example.captions))] for right in chosen])


def yes_or_no(answer: Any) -> float:
    """1 for yes, -1 for no, 0 for what is neither."""
    text = str(answer).strip().casefold() if isinstance(answer, str | int | float) else ""
    sentence = _SENTENCE.fullmatch(text)
    word = sentence[1] if sentence else text
    return float(word in _YES) - float(word in _NO)


def boxes(records: Sequence[Record], example: Example) -> list[Detections]:
    """What was found for each phrase of an example, the surest box first; ValueError names the record."""
    found: list[list[list[float]]] = [[] for _ in example.phrases]
    for record in records:
        try:
            for phrase, box in _drawn(record.fields, example):
                found[phrase].append(box)
        except ValueError as error:
            raise ValueError(f"{record.place}: {error}") from None
    tables = [np.array(sorted(each, key=lambda box: -box[4])).reshape(-1, 5) for each in found]
    return [Detections(table[:, :4], table[:, 4]) for table in tables]


def _numbered(fields: Mapping[str, Any]) -> list[Any]:
    values = []
    while (value := fields.get(f"score_{len(values)}")) not in (None, ""):
        values.append(value)
    names = {name for name, value in fields.items() if re.fullmatch(r"score_\d+", name) and value not in (None, "")}
    if len(names) != len(values):
        raise ValueError(f"score_{len(values)} is missing among {', '.join(sorted(names))}")
    return values


def _choice(answer: Any, captions: Sequence[str], first: int) -> list[int]:
    """The places of the chosen caption, several where captions are the same; none where it is none of them."""
    if isinstance(answer, Mapping) and _AS_RELEASED in answer:
        answer = answer[_AS_RELEASED]
    if answer is None:
        return []
    if isinstance(answer, str):
        text = answer.strip()
        same = [place for place, caption in enumerate(captions) if caption.strip() == text]
        said = None if same else _CHOICE.fullmatch(text)
        if said is None:
            return same
        place = int(said[1]) - first if said[1].isdecimal() else ord(said[1].lower()) - ord("a")
    else:
        whole = whole_number(answer)
        if whole is None:
            raise ValueError(f"{shown(answer)} is no choice: write a number, a letter or the caption")
        place = whole - first
    if not 0 <= place < len(captions):
        last = chr(ord("A") + len(captions) - 1)
        numbers = f"numbers from {first} (set by count_from) to {first + len(captions) - 1} or letters from A to {last}"
        raise ValueError(f"{shown(answer)} is none of the {len(captions)} captions: they have {numbers}")
    return [place]


def _drawn(fields: Mapping[str, Any], example: Example) -> Iterator[tuple[int, list[float]]]:
    """The place of each box's phrase, and x1, y1, x2, y2 and the score."""
    kind = "bbox" if "bbox" in fields else "boxes"
    drawn = listed(fields[kind])
    if kind == "bbox" or (drawn and not isinstance(drawn[0], list)):
        drawn = [drawn]
    sure = listed(fields["scores"]) if "scores" in fields else [fields.get("score")] * min(len(drawn), 1)
    if "phrase_ids" in fields:
        phrases = [_numbered_phrase(each, example) for each in listed(fields["phrase_ids"])]
    else:
        phrases = [_phrase(fields, example)] * len(drawn) if drawn else []
    if not len(drawn) == len(sure) == len(phrases):
        raise ValueError(f"{len(drawn)} boxes, {len(sure)} scores and {len(phrases)} phrases; each box has one of each")
    for phrase, box, score in zip(phrases, drawn, sure, strict=True):
        yield phrase, [*_corners(box, kind), number(score)]


def _corners(box: Any, kind: str) -> list[float]:
    values = [number(value) for value in listed(box)]
    if len(values) == 4:
        x1, y1, x2, y2 = values
        if kind == "bbox":
            x2, y2 = number(x1 + x2), number(y1 + y2)
        if x1 <= x2 and y1 <= y2:
            return [x1, y1, x2, y2]
    raise ValueError(f"the box {shown(box)} is not {_BOX[kind]}")


def _phrase(fields: Mapping[str, Any], example: Example) -> int:
    if "phrase" in fields:
        name = fields["phrase"]
        places = [place for place, phrase in enumerate(example.phrases) if phrase.text == name]
        if len(places) > 1:
            raise ValueError(f"the phrase {shown(name)} is {len(places)} times in the caption; tell which by phrase_id")
        if not places:
            known = ", ".join(repr(phrase.text) for phrase in example.phrases)
            raise ValueError(f"{shown(name)} is no phrase of {example.id}, which has {known}")
        return places[0]
    for column in ("phrase_id", "category_id"):
        if column in fields:
            return _numbered_phrase(fields[column], example)
    raise ValueError("it does not say its phrase: phrase, phrase_id or category_id")


def _numbered_phrase(value: Any, example: Example) -> int:
    numbers = [place if phrase.number is None else phrase.number for place, phrase in enumerate(example.phrases)]
    whole = whole_number(value)
    if whole not in numbers:
        raise ValueError(f"{shown(value)} is no phrase of {example.id}, which has {', '.join(map(str, numbers))}")
    return numbers.index(whole)
