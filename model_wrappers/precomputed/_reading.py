"""From the records of a file of answers to the scores that a work wants, with nothing dropped unsaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ...hub_datasets.core.examples import Example, TaskData
from ...metrics.common.errors import ModelError
from ..engine.plan import ScoringPlan, queries_of, scored
from ..engine.protocol import Detections, PhraseQuery
from ..engine.rows import Results
from .files import Record, number, read_records, shown, whole_number
from .values import boxes, choices, matrix, yes_or_no

# What a record may say, by the columns that tell. A score beside a caption is that of the pair.
_MARKS = {"boxes": ("bbox", "boxes"), "answer": ("answer",), "scores": ("scores", "score_0"), "score": ("score",)}
_NAMED = 3

# An example across the tasks of a run: its benchmark and its id.
_Key = tuple[str, str]
# An image of one example, or an image wherever it is shown.
_Place = tuple[_Key, int] | str


class _Unknown(Exception):
    """A record that answers nothing that was asked."""


def form_of(fields: Mapping[str, Any]) -> str:
    """What a record says: boxes, answer, scores, pair or score; ValueError where that is not clear."""
    found = {form for form, marks in _MARKS.items() if any(mark in fields for mark in marks)}
    if "boxes" in found:
        found -= {"scores", "score"}
    if len(found) != 1:
        raise ValueError(
            f"a record has one of answer, scores, score_0 and so on, score, and bbox or boxes; its columns are "
            f"{shown(', '.join(fields))}"
        )
    form = found.pop()
    return "pair" if form == "score" and "caption" in fields else form


class _Examples:
    """The examples of a work by what files call them."""

    def __init__(self, work: ScoringPlan) -> None:
        self._whole: dict[str, dict[_Key, None]] = {}
        self._short: dict[str, dict[_Key, None]] = {}
        for task in work.tasks:
            for example in task.examples:
                key = task.benchmark, example.id
                for name in (example.id, "/".join(key)):
                    self._whole.setdefault(name, {})[key] = None
                self._short.setdefault(example.id.removeprefix(f"{example.config}/"), {})[key] = None

    def find(self, fields: dict[str, Any]) -> _Key:
        """The example that a record is about."""
        name = fields.get("image_id", fields.get("id"))
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ValueError("it has no id" if name is None else f"the id {shown(name)} is no text")
        keys = list(self._whole.get(str(name)) or self._short.get(str(name)) or ())
        if not keys:
            raise _Unknown(f"id {shown(name)}")
        if len(keys) > 1:
            meant = " or ".join("/".join(key) for key in keys[:_NAMED])
            raise ValueError(f"the id {shown(name)} may mean {meant}{_more(keys)}; write it whole")
        return keys[0]


class _Pairs:
    """Scores of single pairs, by the example and image, or by the image alone, and the caption."""

    def __init__(self, work: ScoringPlan, index: _Examples) -> None:
        self._index = index
        self._asked: dict[_Place, list[Collection[str]]] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._images: dict[_Key, list[str]] = {}
        self._given: dict[tuple[_Place, str], float] = {}
        self._by_id: bool | None = None
        for task, examples, texts in _asked(work):
            for example in examples:
                key = task.benchmark, example.id
                self._images[key] = [task.image_names[image] for image in example.images]
                for count, image in enumerate(example.images):
                    self._names.setdefault(task.image_names[image], {})[image] = None
                    for place in (image, (key, count)):
                        self._asked.setdefault(place, []).append(texts or example.captions)

    def add(self, fields: dict[str, Any]) -> None:
        """Take in a record."""
        by_id = "id" in fields or "image_id" in fields
        if self._by_id not in (None, by_id):
            raise ValueError("all records have an id, or none; the first one has other columns")
        self._by_id = by_id
        place, caption = self._place_by_id(fields) if by_id else self._place(fields), fields["caption"]
        if not any(caption in texts for texts in self._asked[place]):
            raise _Unknown(f"caption {shown(caption)}")
        if (place, caption) in self._given:
            also = "" if by_id else "; where images share a name, say by id which is meant"
            raise ValueError(f"this pair of image and caption came before{also}")
        self._given[place, caption] = number(fields["score"])

    def matrix(self, key: _Key, example: Example, texts: Collection[str]) -> np.ndarray | None:
        """Scores (images, texts) of an example, None where one is missing."""
        places: list[_Place] = [(key, n) for n in range(len(example.images))] if self._by_id else list(example.images)
        found = [[self._given.get((place, text)) for text in texts] for place in places]
        return None if any(score is None for row in found for score in row) else np.array(found, np.float64)

    def _place(self, fields: dict[str, Any]) -> _Place:
        name = _base_name(fields.get("image"))
        images = list(self._names.get(name, ()))
        if not images:
            raise _Unknown(f"image {shown(name)}")
        if len(images) > 1:
            raise ValueError(f"{len(images)} images have the name {shown(name)}; say by id which example is meant")
        return images[0]

    def _place_by_id(self, fields: dict[str, Any]) -> _Place:
        key = self._index.find(fields)
        names, image = self._images.get(key, []), fields.get("image")
        if not names:
            raise _Unknown(f"id {shown(key[1])}, whose image is missing")
        if image in (None, "") and len(names) == 1:
            return key, 0
        place = whole_number(image)
        if place is None and _base_name(image) in names:
            place = names.index(_base_name(image))
        if place is None or place >= len(names):
            raise ValueError(f"the image {shown(image)} is none of {key[1]}, which has {', '.join(names)}, from 0")
        return key, place


class Reading:
    """A file that is being read for a work."""

    def __init__(self, path: Path, form: str, settings: dict[str, str], work: ScoringPlan) -> None:
        self._path, self._form, self._settings, self._work = path, form, settings, work
        self._facts = Counter({"answers": 0})
        self._problems: list[str] = []
        self._unknown: list[str] = []
        self._missing: list[str] = []
        self._records: dict[_Key, list[Record]] = {}
        self._examples = _Examples(work)
        self._pairs = _Pairs(work, self._examples) if form == "pair" else None

    def results(self) -> tuple[Results, dict[str, int]]:
        """What the file says, and facts for the predictions; ModelError where it says too little or too much."""
        for record in read_records(self._path):
            self._facts["answers"] += 1
            try:
                self._add(record)
            except _Unknown as unknown:
                self._unknown.append(f"{record.place}: {unknown}")
            except ValueError as error:
                self._problems.append(f"{record.place}: {error}")
        unusable = "{} of its records cannot be used"
        self._refuse(self._problems, unusable)
        results = self._say()
        self._refuse(self._problems, unusable)
        wanted = {(task.benchmark, example.id) for task in self._work.tasks for example in scored(task)}
        if unneeded := sum(len(records) for key, records in self._records.items() if key not in wanted):
            self._facts["unneeded_answers"] = unneeded  # their images are missing
        self._refuse(
            self._unknown,
            f"nothing that was asked is answered by {{}} of its {self._facts['answers']:,} records",
            "allow_unknown",
            "leaves them out. Do they belong to another benchmark, or to a part that was not named?",
        )
        self._refuse(
            self._missing,
            f"no answer to {{}} of {sum(len(scored(task)) for task in self._work.tasks):,} examples",
            "allow_missing",
            "counts them as wrong. To judge a part alone, name it: BENCHMARK/PART",
        )
        return results, dict(self._facts)

    def _add(self, record: Record) -> None:
        form = form_of(record.fields)
        if form != self._form:
            raise ValueError(f"it says {form}, those before {self._form}; a file has records of one kind")
        if self._pairs is not None:
            self._pairs.add(record.fields)
            return
        key = self._examples.find(record.fields)
        records = self._records.setdefault(key, [])
        if records and self._form != "boxes":
            raise ValueError(f"{key[1]} has an answer already, at {records[0].place}")
        records.append(record)

    def _say(self) -> Results:
        """What was said of every example, in the order of the work."""
        pairs, answers = [np.empty(0)], [np.empty(0)]
        pools: list[np.ndarray] = []
        found: dict[tuple[int, PhraseQuery], Detections] = {}
        for task, examples, texts in _asked(self._work):
            task_type = task.task.task_type
            if task_type == "detection":
                self._draw(task, examples, found)
                continue
            said = [self._matrix(task, example, texts or example.captions) for example in examples]
            if task_type == "matching":
                shapes = [(len(example.images), len(example.captions)) for example in examples]
                pairs += [
                    np.zeros(shape).ravel() if each is None else each.ravel()
                    for each, shape in zip(said, shapes, strict=True)
                ]
            elif task_type == "vqa":
                answers += [np.zeros(1) if each is None else each.ravel() for each in said]
            elif said:
                pools.append(_pool(said, len(texts or ())))
        return Results(self._work, np.concatenate(pairs), pools, np.concatenate(answers), found)

    def _matrix(self, task: TaskData, example: Example, texts: Collection[str]) -> np.ndarray | None:
        """Scores (images, texts), None where there are none, or none that can be used."""
        key = task.benchmark, example.id
        records = self._records.get(key, ())
        try:
            if self._pairs is not None:
                said = self._pairs.matrix(key, example, texts)
            else:
                said = self._value(records[0].fields, task.task.task_type, example, texts) if records else None
            if (
                said is not None
                and task.task.task_type == "retrieval"
                and np.abs(said).max() > np.finfo(np.float32).max
            ):
                raise ValueError("its scores do not fit single precision, as retrieval predictions have")
        except ValueError as error:
            self._problems.append(f"{records[0].place if records else example.id}: {error}")
            return None
        if said is None:
            self._missing.append(example.id)
        return said

    def _value(self, fields: Mapping[str, Any], task_type: str, example: Example, texts: Collection[str]) -> np.ndarray:
        caption = fields.get("caption", example.captions[0])
        if task_type == "matching" and caption not in example.captions:
            raise ValueError(f"its caption {shown(caption)} is none of those of {example.id}; is it another example?")
        if self._form == "scores":
            return matrix(fields, len(example.images), len(texts))
        if task_type == "matching":
            said = choices(fields["answer"], example, int(self._settings["count_from"]))
            said = np.zeros((len(example.images), len(texts))) if said is None else said
        elif self._form == "score":
            said = np.array([[number(number(fields["score"]) - number(self._settings["threshold"]))]])
        else:
            said = np.array([[yes_or_no(fields["answer"])]])
        self._facts["no_answer"] += not said.any()
        return said

    def _draw(self, task: TaskData, examples: list[Example], found: dict[tuple[int, PhraseQuery], Detections]) -> None:
        """Add the boxes of each phrase of each example."""
        records = [self._records.get((task.benchmark, example.id), []) for example in examples]
        if not any(records):
            self._missing += [example.id for example in examples]
        for example, each in zip(examples, records, strict=True):
            try:
                drawn = boxes(each, example)
            except ValueError as error:
                self._problems.append(str(error))
                continue
            self._facts["without_boxes"] += not any(len(one.boxes) for one in drawn)
            for query, one in zip(queries_of(example), drawn, strict=True):
                place = self._work.number(example.images[0]), query
                if not all(map(np.array_equal, found.setdefault(place, one), one)):
                    self._problems.append(
                        f"{example.id}: another example asks the same of the same image, and has other boxes"
                    )

    def _refuse(self, found: list[str], what: str, setting: str = "", cure: str = "") -> None:
        """Raise where something was found, unless a setting allows it."""
        if setting and self._settings[setting] == "true":
            self._facts[f"{setting.removeprefix('allow_')}_answers"] += len(found)
        elif found:
            cure = f". {setting}=true {cure}" if setting else ""
            named = "; ".join(found[:_NAMED])
            raise ModelError(f"{self._path.name}: {what.format(f'{len(found):,}')}: {named}{_more(found)}{cure}")


def _asked(work: ScoringPlan) -> Iterator[tuple[TaskData, list[Example], dict[str, None] | None]]:
    """Each task with its examples that are scored and, where it is a retrieval set, all texts in order."""
    for task, places in zip(work.tasks, work.places, strict=True):
        examples, texts = scored(task), None
        if task.task.task_type == "retrieval" and examples:
            [place] = places
            texts = dict.fromkeys(work.captions.texts[text] for text in work.captions.pools[place].texts)
        yield task, examples, texts


def _pool(said: list[np.ndarray | None], width: int) -> np.ndarray:
    """The rows of a retrieval set; one that is missing ties with itself and wins over nothing of others."""
    lowest = min((float(row.min()) for row in said if row is not None), default=0.0)
    return np.concatenate([np.full((1, width), lowest) if row is None else row for row in said]).astype(np.float32)


def _base_name(image: Any) -> str:
    return PurePosixPath(str(image).replace("\\", "/")).name


def _more(found: list[Any]) -> str:
    return " …" if len(found) > _NAMED else ""
