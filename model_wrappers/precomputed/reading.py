"""Reading predictions of any system from CSV, JSON lines or JSON, and matching them with the examples of a plan.

The file's suffix determines its format (.csv, .tsv, .jsonl, .ndjson, .json), else its first character. JSON may be a
list of records or an object of records by id. CSV and JSON lines are read line by line, JSON as a whole; in JSON
lines those that begin with # are comments. A folder has such a file for each configuration; one with only folders in it
has such a folder for each order of the captions. Logs of other tools: `logs`.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TextIO

import numpy as np

from ...hub_datasets.core.examples import Example, TaskData
from ...metrics.common.errors import ModelError
from ..engine.plan import ScoringPlan, queries_of, scored
from ..engine.protocol import Detections, PhraseQuery
from ..engine.results import Results
from .logs import Joined, inspect_answer, is_inspect_log, lm_eval_answer, read_eval_file

_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".eval")
# Characters of a line, and of a JSON file, which takes ten times as much memory.
_LINE_LIMIT = 2**26
_JSON_LIMIT = 2**28
_YES, _NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0")
_SENTENCE = re.compile(r"\W*(yes|no)\s*(?:[^\w\s].*)?", re.DOTALL)
_CHOICE = re.compile(r"(?:(?:answer|caption|choice|option|output)\b)?[\W_]*(\d{1,9}|[a-z])[\W_]*", re.IGNORECASE)
_AS_RELEASED = "multiple_choice_answer"
_BOX = {"bbox": "x, y, width, height with no negative size", "boxes": "x1, y1, x2, y2 with x1 <= x2 and y1 <= y2"}
# The forms of a record, by the columns that identify them. A score with a caption is that of a pair.
_MARKS = {
    "boxes": ("bbox", "boxes"),
    "answer": ("answer",),
    "scores": ("scores", "score_0"),
    "similarities": ("similarities",),
    "score": ("score",),
}
# Messages name so many problems.
_NAMED = 3

# An example across the tasks of a run: its benchmark and its id.
_Key = tuple[str, str]
# An image of one example, or an image wherever it occurs.
_Place = tuple[_Key, int] | str


class Record(NamedTuple):
    """A record of a file and its place, such as ``"line 3"``; values of CSV are strings."""

    place: str
    fields: dict[str, Any]


def orders_of(path: Path) -> list[Path]:
    """Where the answers to each order of the captions are: the folders of a folder, or the path itself."""
    return (path.is_dir() and not _files_of(path) and sorted(part for part in path.iterdir() if _files_of(part))) or [
        path
    ]


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file in order, or of the files of a folder, in the order of their names.

    A file of a folder is named after its configuration, alone or behind a hyphen: in ``gpt4v-swap_obj.json`` the id
    ``13`` means ``swap_obj/13``.

    Raises:
        ModelError: no such file, a malformed or a too large one; the message names the place.
    """
    if path.is_dir():
        if not (files := _files_of(path)):
            raise ModelError(f"{path} has no file of predictions; they end in {', '.join(_SUFFIXES)}")
        for file in files:
            config = file.stem.rpartition("-")[2]
            for place, fields in read_records(file):
                given = {"id": f"{config}/{fields['id']}"} if "id" in fields else {}
                yield Record(f"{file.name}, {place}", fields | given)
        return
    if not path.is_file():
        raise ModelError(f"no such file: {path}")
    try:
        yield from (Record(*each) for each in _fields(path))
    except (ValueError, OSError, RecursionError, csv.Error) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else error
        raise ModelError(f"{path.name} cannot be read: {reason}") from error


def _fields(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a file with their places; those of logs as records of answers."""
    if path.suffix.lower() == ".eval":
        yield from _answers(read_eval_file(path))
        return
    joined = Joined()
    with path.open(encoding="utf-8-sig", newline="") as file:
        for place, fields in _entries(file, path.suffix.lower()):
            if not isinstance(fields, dict):
                raise ValueError(f"{place}: {shown(fields)} is not a record, an object with names and values")
            try:
                answer = lm_eval_answer(fields)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            yield from [(place, fields)] if answer is None else joined.add(place, answer)
    yield from joined.rest()


def _answers(samples: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of samples of inspect_ai that have a score."""
    joined = Joined()
    for place, sample in samples:
        try:
            record = inspect_answer(sample)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        if record is not None:
            yield from joined.add(place, record)
    yield from joined.rest()


def number(value: Any) -> float:
    """A finite number, or a string with one; else `ValueError`."""
    try:
        # Python parses "1_0" as ten.
        found = math.nan if isinstance(value, bool) or "_" in str(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{shown(value)} is not a finite number")
    return found


def whole_number(value: Any) -> int | None:
    """A non-negative integer, or a string with one; None for anything else."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def listed(value: Any) -> list[Any]:
    """A list, or a string with one in JSON; else `ValueError`."""
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, list):
        raise ValueError(f"{shown(value)} is not a list in JSON")
    return found


def shown(value: Any) -> str:
    """A value for a message, truncated to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _files_of(path: Path) -> list[Path]:
    """The files of predictions directly in a folder, by name; none if it is no folder."""
    return sorted(each for each in path.glob("*") if each.suffix.lower() in _SUFFIXES and each.is_file())


def _entries(file: TextIO, suffix: str) -> Iterator[tuple[str, Any]]:
    """The records of a file with their places, not yet checked to be objects."""
    if suffix not in _SUFFIXES:
        suffix = ".json" if file.read(1000).lstrip().startswith(("[", "{")) else ".csv"
        file.seek(0)
    if suffix in (".jsonl", ".ndjson"):
        return _json_lines(file)
    return _json(file) if suffix == ".json" else _table(file, "\t" if suffix == ".tsv" else ",")


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LINE_LIMIT):
        if len(line) == _LINE_LIMIT:
            raise ValueError(f"a line is longer than {_LINE_LIMIT:,} characters")
        yield line


def _table(file: TextIO, delimiter: str) -> Iterator[tuple[str, Any]]:
    reader = csv.reader(_lines(file), delimiter=delimiter, strict=True)
    names = [name.strip() for name in next(reader, [])]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"its first line must name the columns, each once; it is {shown(names)}")
    try:
        for cells in filter(None, reader):
            place = f"line {reader.line_num}"
            if len(cells) != len(names):
                raise ValueError(f"{place} has {len(cells)} cells, not {len(names)} as the first line")
            yield place, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}; long cells are for JSON lines") from error


def _json_lines(file: TextIO) -> Iterator[tuple[str, Any]]:
    for count, line in enumerate(_lines(file), 1):
        if line.strip() and not line.startswith("#"):
            try:
                yield f"line {count}", json.loads(line, object_pairs_hook=_unique)
            except ValueError as error:
                raise ValueError(f"line {count}: {error}") from error


def _json(file: TextIO) -> Iterator[tuple[str, Any]]:
    text = file.read(_JSON_LIMIT)
    if len(text) == _JSON_LIMIT:
        raise ValueError(f"it is larger than {_JSON_LIMIT:,} characters; write JSON lines (.jsonl), a record a line")
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        file.seek(0)
        yield from _json_lines(file)
        return
    if isinstance(content, list):
        yield from ((f"entry {count}", record) for count, record in enumerate(content, 1))
    elif isinstance(content, dict) and is_inspect_log(content):
        yield from _answers((f"sample {count}", sample) for count, sample in enumerate(content["samples"], 1))
    elif isinstance(content, dict):
        # Beside records a number is a summary, as "accuracy" in a file of GPT-4V's answers.
        has_records = any(isinstance(value, dict) for value in content.values())
        for key, value in content.items():
            if has_records and isinstance(value, float):
                continue
            yield f"key {shown(key)}", {"id": key} | (value if isinstance(value, dict) else {"answer": value})
    else:
        raise ValueError("it must be a list of records, or an object of them by id")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The parser silently keeps the last of two equal keys.
    record = dict(pairs)
    if len(record) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(name)} is there twice")
    return record


def matrix(fields: Mapping[str, Any], rows: int, columns: int) -> np.ndarray:
    """Scores (rows, columns), images × captions, from `scores` or the columns `score_0`, `score_1` …"""
    if "scores" in fields:
        found = listed(fields["scores"])
        found = found if found and all(isinstance(row, list) for row in found) else [found]
    else:
        columned = {name: value for name, value in fields.items() if re.fullmatch(r"score_\d+", name)}
        given = {name for name, value in columned.items() if value not in (None, "")}
        for place in range(len(given)):
            if f"score_{place}" not in given:
                raise ValueError(f"score_{place} is missing among {', '.join(sorted(given))}")
        found = [[columned[f"score_{place}"] for place in range(len(given))]]
    widths = {len(row) for row in found}
    if len(found) != rows or widths != {columns}:
        came = " or ".join(map(str, sorted(widths)))
        raise ValueError(f"{len(found)} × {came} scores, images × captions; the example has {rows} × {columns}")
    return np.array([[number(value) for value in row] for row in found])


def similarities(value: Any, captions: Sequence[str]) -> np.ndarray:
    """The similarities (1, pairs) of all pairs of some captions."""
    found, pairs = listed(value), math.comb(len(captions), 2)
    if len(found) != pairs:
        raise ValueError(f"{len(found)} similarities; the {len(captions)} captions of the example form {pairs} pairs")
    return np.array([[number(each) for each in found]])


def choices(answer: Any, example: Example, first: int) -> np.ndarray:
    """A matrix (images, captions): 1 for the chosen caption of each image, else 0; 0 if one image has no choice.

    Args:
        answer: a number, letter or text of a caption; for several images a list with one for each.
        example: the example.
        first: the number of the first caption.
    """
    answers = [answer] if len(example.images) == 1 else listed(answer)
    if len(answers) != len(example.images):
        raise ValueError(f"{len(answers)} answers for {len(example.images)} images")
    chosen = [_choice(each, example.captions, first) for each in answers]
    return np.array(
        [[float(all(chosen) and place in right) for place in range(len(example.captions))] for right in chosen]
    )


def yes_or_no(answer: Any) -> float:
    """1 for yes, -1 for no, 0 for anything else."""
    text = str(answer).strip().casefold() if isinstance(answer, str | int | float) else ""
    sentence = _SENTENCE.fullmatch(text)
    word = sentence[1] if sentence else text
    return float(word in _YES) - float(word in _NO)


def boxes(records: Sequence[Record], example: Example) -> list[Detections]:
    """The detections of each phrase of an example by descending score; `ValueError` names the record."""
    found: list[list[list[float]]] = [[] for _ in example.phrases]
    for record in records:
        try:
            for phrase, box in _boxes_of(record.fields, example):
                found[phrase].append(box)
        except ValueError as error:
            raise ValueError(f"{record.place}: {error}") from None
    tables = [np.array(sorted(each, key=lambda box: -box[4])).reshape(-1, 5) for each in found]
    return [Detections(table[:, :4], table[:, 4]) for table in tables]


def _choice(answer: Any, captions: Sequence[str], first: int) -> list[int]:
    """The indices of the chosen caption, several if captions are equal; empty if it is none of them."""
    if isinstance(answer, Mapping) and _AS_RELEASED in answer:
        answer = answer[_AS_RELEASED]
    if answer is None:
        return []
    if isinstance(answer, str):
        text = answer.strip()
        same = [place for place, caption in enumerate(captions) if caption.strip() == text]
        match = None if same else _CHOICE.fullmatch(text)
        if match is None:
            return same
        place = int(match[1]) - first if match[1].isdecimal() else ord(match[1].lower()) - ord("a")
    else:
        whole = whole_number(answer)
        if whole is None:
            raise ValueError(f"{shown(answer)} is not a choice: expected a number, a letter or the caption")
        place = whole - first
    if not 0 <= place < len(captions):
        last = chr(ord("A") + len(captions) - 1)
        numbers = f"numbers from {first} (set by count_from) to {first + len(captions) - 1} or letters from A to {last}"
        raise ValueError(f"{shown(answer)} is none of the {len(captions)} captions: they have {numbers}")
    return [place]


def _boxes_of(fields: Mapping[str, Any], example: Example) -> Iterator[tuple[int, list[float]]]:
    """For each box the index of its phrase, and x1, y1, x2, y2, score."""
    kind = "bbox" if "bbox" in fields else "boxes"
    found = listed(fields[kind])
    if kind == "bbox" or (found and not isinstance(found[0], list)):
        found = [found]
    scores = listed(fields["scores"]) if "scores" in fields else [fields.get("score")] * min(len(found), 1)
    phrases = _phrases(fields, example, len(found))
    if not len(found) == len(scores) == len(phrases):
        raise ValueError(
            f"{len(found)} boxes, {len(scores)} scores and {len(phrases)} phrases; each box has one of each"
        )
    for phrase, box, score in zip(phrases, found, scores, strict=True):
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


def _phrases(fields: Mapping[str, Any], example: Example, count: int) -> list[int]:
    """The index of the phrase of each of `count` boxes."""
    column = next((name for name in ("phrase_ids", "phrase", "phrase_id", "category_id") if name in fields), None)
    if column is None:
        if count:
            raise ValueError("it does not say its phrase: phrase, phrase_id or category_id")
        return []
    if column == "phrase":
        known: list[Any] = [phrase.text for phrase in example.phrases]
    else:
        known = [place if phrase.number is None else phrase.number for place, phrase in enumerate(example.phrases)]
    places = []
    for value in listed(fields[column]) if column == "phrase_ids" else [fields[column]] * count:
        name = value if column == "phrase" else whole_number(value)
        if name not in known:
            raise ValueError(f"{shown(value)} is not a phrase of {example.id}, which has {', '.join(map(repr, known))}")
        if column == "phrase" and known.count(name) > 1:
            times = known.count(name)
            raise ValueError(f"the phrase {shown(name)} is {times} times in the caption; tell which by phrase_id")
        places.append(known.index(name))
    return places


class _Unknown(Exception):
    """A record that matches no example."""


def form_of(fields: Mapping[str, Any]) -> str:
    """The form of a record: boxes, answer, scores, pair or score; `ValueError` if it is ambiguous."""
    found = {form for form, marks in _MARKS.items() if any(mark in fields for mark in marks)}
    if "boxes" in found:
        found -= {"scores", "score"}
    if len(found) != 1:
        raise ValueError(
            f"a record has one of answer, scores, score_0 and so on, score, similarities, and bbox or boxes; its "
            f"columns are {shown(', '.join(fields))}"
        )
    form = found.pop()
    return "pair" if form == "score" and "caption" in fields else form


class _Examples:
    """The examples of a plan by the ids that files may use."""

    def __init__(self, plan: ScoringPlan) -> None:
        whole: dict[str, dict[_Key, None]] = {}
        short: dict[str, dict[_Key, None]] = {}
        for task in plan.tasks:
            for example in task.examples:
                key = task.benchmark, example.id
                for name in (example.id, "/".join(key)):
                    whole.setdefault(name, {})[key] = None
                short.setdefault(example.id.removeprefix(f"{example.config}/"), {})[key] = None
        self._keys = {name: list(keys) for name, keys in (short | whole).items()}

    def find(self, fields: dict[str, Any]) -> _Key:
        """The example that a record belongs to."""
        name = fields.get("image_id", fields.get("id"))
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ValueError("it has no id" if name is None else f"the id {shown(name)} is not a string or integer")
        keys = self._keys.get(str(name), [])
        if not keys:
            raise _Unknown(f"id {shown(name)}")
        if len(keys) > 1:
            meant = " or ".join("/".join(key) for key in keys[:_NAMED])
            raise ValueError(f"the id {shown(name)} may mean {meant}{_more(keys)}; write it whole")
        return keys[0]


class _Pairs:
    """Scores of single pairs, by caption and either example and image or the image alone."""

    def __init__(self, plan: ScoringPlan, index: _Examples) -> None:
        self._index = index
        self._texts: dict[_Place, list[Collection[str]]] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._images: dict[_Key, list[str]] = {}
        self._given: dict[tuple[_Place, str], float] = {}
        self._by_id: bool | None = None
        for task, examples, texts in tasks_of(plan):
            for example in examples:
                key = task.benchmark, example.id
                self._images[key] = [task.image_names[image] for image in example.images]
                for count, image in enumerate(example.images):
                    self._names.setdefault(task.image_names[image], {})[image] = None
                    for place in (image, (key, count)):
                        self._texts.setdefault(place, []).append(texts or example.captions)

    def add(self, fields: dict[str, Any]) -> None:
        """Add the pair of a record."""
        by_id = "id" in fields or "image_id" in fields
        if self._by_id not in (None, by_id):
            raise ValueError("all records have an id, or none; the first one has other columns")
        self._by_id = by_id
        place, caption = self._place(fields), fields["caption"]
        if not any(caption in texts for texts in self._texts[place]):
            raise _Unknown(f"caption {shown(caption)}")
        if (place, caption) in self._given:
            also = "" if by_id else "; where images share a name, say by id which is meant"
            raise ValueError(f"duplicate pair of image and caption{also}")
        self._given[place, caption] = number(fields["score"])

    def matrix(self, key: _Key, example: Example, texts: Collection[str]) -> np.ndarray | None:
        """Scores (images, texts) of an example, None if one is missing."""
        places: list[_Place] = [(key, n) for n in range(len(example.images))] if self._by_id else list(example.images)
        found = [[self._given.get((place, text)) for text in texts] for place in places]
        return None if any(score is None for row in found for score in row) else np.array(found, np.float64)

    def _place(self, fields: dict[str, Any]) -> _Place:
        image = fields.get("image")
        base = PurePosixPath(str(image).replace("\\", "/")).name
        if not self._by_id:
            images = list(self._names.get(base, ()))
            if not images:
                raise _Unknown(f"image {shown(base)}")
            if len(images) > 1:
                raise ValueError(f"{len(images)} images have the name {shown(base)}; say by id which example is meant")
            return images[0]
        key = self._index.find(fields)
        names = self._images.get(key, [])
        if not names:
            raise _Unknown(f"id {shown(key[1])}, whose image is missing")
        if image in (None, "") and len(names) == 1:
            return key, 0
        place = whole_number(image)
        if place is None and base in names:
            place = names.index(base)
        if place is None or place >= len(names):
            raise ValueError(f"the image {shown(image)} is none of {key[1]}, which has {', '.join(names)}, from 0")
        return key, place


class Reading:
    """Reads a file or folder and matches its records with a plan.

    With `is_order` it has the answers to one of several orders of the captions, and an answer that chooses no caption
    is a vote for all wrong ones: so the mean over orders is a tie if one answer was right, and its accuracy with ties
    as half is the mean of the orders' accuracies.
    """

    def __init__(
        self, path: Path, form: str, settings: dict[str, str], plan: ScoringPlan, *, is_order: bool = False
    ) -> None:
        self._path, self._form, self._settings, self._plan = path, form, settings, plan
        self._is_order = is_order
        self._facts = Counter({"answers": 0})
        self._problems: list[str] = []
        self._unknown: list[str] = []
        self._missing: list[str] = []
        self._records: dict[_Key, list[Record]] = {}
        self._examples = _Examples(plan)
        self._pairs = _Pairs(plan, self._examples) if form == "pair" else None

    def results(self) -> tuple[Results, dict[str, int]]:
        """The results, and counts for the metadata; `ModelError` for missing, unknown or invalid records."""
        for record in read_records(self._path):
            self._facts["answers"] += 1
            try:
                self._add(record)
            except _Unknown as unknown:
                self._unknown.append(f"{record.place}: {unknown}")
            except ValueError as error:
                self._problems.append(f"{record.place}: {error}")
        results = self._results()
        self._refuse(self._problems, "{} of its records cannot be used")
        wanted = {(task.benchmark, example.id) for task in self._plan.tasks for example in scored(task)}
        if unneeded := sum(len(records) for key, records in self._records.items() if key not in wanted):
            self._facts["unneeded_answers"] = unneeded  # for examples whose image is missing
        self._refuse(
            self._unknown,
            f"{{}} of its {self._facts['answers']:,} records match no example",
            "allow_unknown",
            "ignores them. Do they belong to another benchmark, or to a part that was not named?",
        )
        self._refuse(
            self._missing,
            f"no prediction for {{}} of {sum(len(scored(task)) for task in self._plan.tasks):,} examples",
            "allow_missing",
            "counts them as wrong. To evaluate one part, name it: BENCHMARK/PART",
        )
        return results, dict(self._facts)

    def _add(self, record: Record) -> None:
        form = form_of(record.fields)
        if form != self._form:
            raise ValueError(f"its form is {form}, of earlier records {self._form}; a file has records of one form")
        if self._pairs is not None:
            self._pairs.add(record.fields)
            return
        key = self._examples.find(record.fields)
        records = self._records.setdefault(key, [])
        if records and self._form != "boxes":
            raise ValueError(f"duplicate prediction for {key[1]}, already at {records[0].place}")
        records.append(record)

    def _results(self) -> Results:
        """The scores and boxes of every example, in the order of the plan."""
        pairs, text_pairs, answers = [np.empty(0)], [np.empty(0)], [np.empty(0)]
        by_type = {"matching": pairs, "text_similarity": text_pairs, "vqa": answers}
        pools: list[np.ndarray] = []
        found: dict[tuple[int, PhraseQuery], Detections] = {}
        for task, examples, texts in tasks_of(self._plan):
            if task.task.task_type == "detection":
                self._add_boxes(task, examples, found)
                continue
            scores = [self._matrix(task, example, texts or example.captions) for example in examples]
            if task.task.task_type == "retrieval":
                pools += [_pool(scores, len(texts or ()))] if scores else []
                continue
            for example, each in zip(examples, scores, strict=True):
                filled = np.zeros(_shape(task, example)) if each is None else each
                by_type[task.task.task_type].append(filled.ravel())
        scores, compared, said = (np.concatenate(each) for each in (pairs, text_pairs, answers))
        return Results(self._plan, scores, compared, pools, said, found)

    def _matrix(self, task: TaskData, example: Example, texts: Collection[str]) -> np.ndarray | None:
        """Scores (images, texts), None if they are missing or invalid."""
        key, task_type = (task.benchmark, example.id), task.task.task_type
        records = self._records.get(key, ())
        scores = None
        try:
            if self._pairs is not None:
                scores = self._pairs.matrix(key, example, texts)
            elif records:
                scores = self._value(records[0].fields, task_type, example, texts)
            if scores is not None and task_type == "retrieval" and np.abs(scores).max() > np.finfo(np.float32).max:
                raise ValueError("its scores do not fit into float32, the type of retrieval predictions")
        except ValueError as error:
            self._problems.append(f"{records[0].place if records else example.id}: {error}")
            return None
        if scores is None:
            self._missing.append(example.id)
        return scores

    def _value(self, fields: Mapping[str, Any], task_type: str, example: Example, texts: Collection[str]) -> np.ndarray:
        if self._form == "similarities":
            return similarities(fields["similarities"], example.captions)
        caption = fields.get("caption", example.captions[0])
        if task_type == "matching" and caption not in example.captions:
            raise ValueError(f"its caption {shown(caption)} is none of those of {example.id}; is it another example?")
        if self._form == "scores":
            return matrix(fields, len(example.images), len(texts))
        if task_type == "matching":
            scores = choices(fields["answer"], example, int(self._settings["count_from"]))
        elif self._form == "score":
            scores = np.array([[number(number(fields["score"]) - number(self._settings["threshold"]))]])
        else:
            scores = np.array([[yes_or_no(fields["answer"])]])
        self._facts["no_answer"] += not scores.any()
        return scores if scores.any() or not self._is_order else 1 - np.eye(*scores.shape)

    def _add_boxes(
        self, task: TaskData, examples: list[Example], found: dict[tuple[int, PhraseQuery], Detections]
    ) -> None:
        """Add the boxes of each phrase of each example."""
        records = [self._records.get((task.benchmark, example.id), []) for example in examples]
        if not any(records):
            self._missing += [example.id for example in examples]
        for example, each in zip(examples, records, strict=True):
            try:
                detections = boxes(each, example)
            except ValueError as error:
                self._problems.append(str(error))
                continue
            self._facts["without_boxes"] += not any(len(one.boxes) for one in detections)
            for query, one in zip(queries_of(example), detections, strict=True):
                place = self._plan.number(example.images[0]), query
                if not all(map(np.array_equal, found.setdefault(place, one), one)):
                    problem = f"{example.id}: another example has the same phrase and image, but other boxes"
                    self._problems.append(problem)

    def _refuse(self, found: list[str], what: str, setting: str = "", cure: str = "") -> None:
        """Raise if there is a problem, unless a setting allows it."""
        if setting and self._settings[setting] == "true":
            self._facts[f"{setting.removeprefix('allow_')}_answers"] += len(found)
        elif found:
            cure = f". {setting}=true {cure}" if setting else ""
            named = "; ".join(found[:_NAMED])
            raise ModelError(f"{self._path.name}: {what.format(f'{len(found):,}')}: {named}{_more(found)}{cure}")


def _shape(task: TaskData, example: Example) -> tuple[int, int]:
    """The shape of an example's scores."""
    if task.task.task_type == "text_similarity":
        return 1, math.comb(len(example.captions), 2)
    return len(example.images), len(example.captions)


def tasks_of(plan: ScoringPlan) -> Iterator[tuple[TaskData, list[Example], dict[str, None] | None]]:
    """Each task with its scored examples and, for a retrieval set, all its texts in order."""
    for task, places in zip(plan.tasks, plan.places, strict=True):
        examples, texts = scored(task), None
        if task.task.task_type == "retrieval" and examples:
            [place] = places
            named = task.candidates or (plan.captions.texts[text] for text in plan.captions.pools[place].texts)
            texts = dict.fromkeys(named)
        yield task, examples, texts


def _pool(scores: list[np.ndarray | None], width: int) -> np.ndarray:
    """The rows of a retrieval set; a missing row gets the lowest score of all, so that it beats no other."""
    lowest = min((float(row.min()) for row in scores if row is not None), default=0.0)
    return np.concatenate([np.full((1, width), lowest) if row is None else row for row in scores]).astype(np.float32)


def _more(found: list[Any]) -> str:
    return " …" if len(found) > _NAMED else ""
