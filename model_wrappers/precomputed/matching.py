"""Match the records of a file with the examples of a plan, and check their values."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...hub_datasets.core.examples import Example, TaskData
from ...hub_datasets.reports.predictions_template import blank, retrieval_captions
from ...metrics.common.errors import ModelError
from ..engine.plan import ScoringPlan, queries_of, scored
from ..engine.protocol import Detections, PhraseQuery
from ..engine.results import Results
from ..serving.replies import chosen_captions, yes_or_no
from .records import AnswerRecord, read_records, shown

# The columns of predictions, and the types of tasks that they are for.
COLUMNS = {
    "boxes": ("detection",),
    "answer": ("matching", "vqa"),
    "scores": ("matching", "retrieval", "text_similarity", "vqa"),
}
_NAMED = 3  # problems in a message


def number(value: Any) -> float:
    """Return a finite number, given as such or as text; `ValueError` otherwise."""
    try:
        # Python parses "1_0" as ten.
        parsed = math.nan if isinstance(value, bool) or "_" in str(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        parsed = math.nan
    if not math.isfinite(parsed):
        raise ValueError(f"{shown(value)} is not a finite number")
    return parsed


def listed(value: Any) -> list[Any]:
    """Return a list, given as such or as JSON; `ValueError` otherwise."""
    parsed = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
    if not isinstance(parsed, list):
        raise ValueError(f"{shown(value)} is not a list in JSON")
    return parsed


def scores_of(value: Any, rows: int, columns: int) -> np.ndarray:
    """Return scores (rows, columns): a list of lists, a list if there is one row, or a number if there is one score."""
    if rows == columns == 1 and not (isinstance(value, list) or str(value).lstrip().startswith("[")):
        value = [value]
    table = listed(value)
    table = table if table and all(isinstance(row, list) for row in table) else [table]
    widths = {len(row) for row in table}
    if len(table) != rows or widths != {columns}:
        came = " or ".join(map(str, sorted(widths)))
        raise ValueError(f"{len(table)} × {came} scores; the example has {rows} × {columns}")
    return np.array([[number(score) for score in row] for row in table])


def choices(answer: Any, example: Example) -> np.ndarray:
    """Return a matrix (images, captions): 1 for the chosen caption of each image, else 0; NaN if nothing is chosen.

    An answer is an index from 0, or a reply as `chosen_captions` reads it.
    """
    answers = [answer] if len(example.images) == 1 else listed(answer)
    if len(answers) != len(example.images):
        raise ValueError(f"{len(answers)} answers for {len(example.images)} images")
    rows_of_choices = [_choice(reply, example.captions) for reply in answers]
    captions = range(len(example.captions))
    return np.array([[float(index in row) if row else np.nan for index in captions] for row in rows_of_choices])


def boxes_of(fields: Mapping[str, Any], example: Example) -> list[Detections]:
    """Return the detections of each phrase by descending score, from lists of ``boxes`` and ``scores`` by phrase."""
    boxes, scores = listed(fields["boxes"]), listed(fields.get("scores"))
    if not len(boxes) == len(scores) == len(example.phrases):
        raise ValueError(f"boxes of {len(boxes)} and scores of {len(scores)} phrases; it has {len(example.phrases)}")
    detections = []
    for of_phrase, their_scores in zip(map(listed, boxes), map(listed, scores), strict=True):
        if len(of_phrase) != len(their_scores):
            raise ValueError(f"{len(of_phrase)} boxes and {len(their_scores)} scores of a phrase")
        rows = [[*_corners(box), number(score)] for box, score in zip(of_phrase, their_scores, strict=True)]
        table = np.array(sorted(rows, key=lambda row: -row[4])).reshape(-1, 5)
        detections.append(Detections(table[:, :4], table[:, 4]))
    return detections


def _choice(answer: Any, captions: Sequence[str]) -> list[int]:
    if isinstance(answer, str) and not (answer.isascii() and answer.isdigit()):
        return chosen_captions(answer, captions)
    if answer is None:
        return []
    index = int(answer) if isinstance(answer, str) and len(answer) < 10 else answer
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(captions):
        raise ValueError(
            f"{shown(answer)} is not a choice among {len(captions)} captions: give an index from 0 to "
            f"{len(captions) - 1}, a letter from A, or the caption"
        )
    return [index]


def _corners(box: Any) -> list[float]:
    values = [number(value) for value in listed(box)]
    if len(values) == 4 and values[0] <= values[2] and values[1] <= values[3]:
        return values
    raise ValueError(f"the box {shown(box)} is not x1, y1, x2, y2 with x1 <= x2 and y1 <= y2")


def match_records(path: Path, settings: Mapping[str, str], plan: ScoringPlan) -> tuple[Results, dict[str, int]]:
    """Match the records of a file with a plan; return the results in the plan's order, and counts for the metadata.

    An example without a prediction, or whose answer chooses nothing, has scores that are wrong under every tie policy.
    So the mean over several orders of the captions is a tie if one of two answers was right, and its accuracy with ties
    as half is the mean of the orders' accuracies.

    Raises:
        ModelError: missing, unknown or invalid records; the message shows a right line.
    """
    reading = _Reading(plan)
    for record in read_records(path):
        reading.add(record)
    results, facts, missing = reading.results(), reading.facts, reading.missing
    examples = {(task.benchmark, example.id) for task in plan.tasks for example in scored(task)}
    is_partial = any(task.is_partial for task in plan.tasks)  # by --limit, while a file may be of all examples
    right = f"A right one{' with --limit' * is_partial}: {_right_line(plan)}"
    _refuse(path, reading.problems, "{} of its records cannot be used", right)
    if unneeded := len(reading.records.keys() - examples):
        facts["unneeded_answers"] = unneeded  # for examples whose image is missing
    if settings["allow_unknown"] == "true" or (is_partial and not missing):
        facts["unknown_answers"] += len(reading.unknown)
    else:
        cure = f"-s allow_unknown=true ignores them, as for a part of a benchmark. {right}"
        _refuse(path, reading.unknown, f"{{}} of its {facts['answers']:,} records match no example", cure)
    if settings["allow_missing"] == "true":
        facts["missing_answers"] += len(missing)
    else:
        cure = "-s allow_missing=true counts them as wrong. To evaluate one part, name it: BENCHMARK/PART"
        count = sum(len(scored(task)) for task in plan.tasks)
        _refuse(path, missing, f"no prediction for {{}} of {count:,} examples", cure)
    return results, dict(facts)


class _Reading:
    """The records of a file by example, with counts, and with the records and examples that do not match."""

    def __init__(self, plan: ScoringPlan) -> None:
        self.facts = Counter({"answers": 0})
        self.problems: list[str] = []
        self.unknown: list[str] = []
        self.missing: list[str] = []
        self.records: dict[tuple[str, str], AnswerRecord] = {}
        self._plan = plan
        # The examples by id, which several benchmarks may share, and by benchmark and id.
        self._keys: dict[str, dict[tuple[str, str], None]] = {}
        for task in plan.tasks:
            for example in task.examples:
                for name in {example.id, f"{task.benchmark}/{example.id}", example.id.rpartition("/")[2]}:
                    self._keys.setdefault(name, {})[task.benchmark, example.id] = None

    def add(self, record: AnswerRecord) -> None:
        """Add a record."""
        self.facts["answers"] += 1
        name = record.fields.get("id")
        name = str(name) if type(name) is int else name
        keys = [*self._keys.get(name, ())] if isinstance(name, str) else []
        problem = ""
        if not isinstance(name, str):
            problem = "it has no id" if name is None else f"the id {shown(name)} is not text"
        elif len(keys) > 1:
            problem = f"the id {shown(name)} may mean {' or '.join(map('/'.join, keys[:_NAMED]))}; write it whole"
        elif not keys:
            self.unknown.append(f"{record.place}: id {shown(name)}")
        elif (first := self.records.setdefault(keys[0], record)) is not record:
            problem = f"duplicate prediction for {name}, already at {first.place}"
        if problem:
            self.problems.append(f"{record.place}: {problem}")

    def results(self) -> Results:
        """Return the scores and boxes of every example, in the order of the plan."""
        arrays = {task_type: [np.empty(0)] for task_type in ("matching", "text_similarity", "vqa")}
        pools: list[np.ndarray] = []
        boxes: dict[tuple[int, PhraseQuery], Detections] = {}
        for task in self._plan.tasks:
            examples, task_type = scored(task), task.task.task_type
            captions = len(retrieval_captions(task)) if task_type == "retrieval" else 0
            shapes = [_shape(task_type, example, captions) for example in examples]
            values = [self._value(task, example, shape) for example, shape in zip(examples, shapes, strict=True)]
            if task_type == "detection":
                for example, detections in zip(examples, values, strict=True):
                    self._add_boxes(example, detections or [], boxes)
            elif task_type == "retrieval" and examples:
                pools.append(_pool(task, examples, values))
            elif task_type != "retrieval":
                filled = [
                    np.zeros(shape) if value is None else value for value, shape in zip(values, shapes, strict=True)
                ]
                arrays[task_type] += [row.ravel() for row in filled]
        pairs, text_pairs, answers = (np.concatenate(parts) for parts in arrays.values())
        return Results(self._plan, pairs, text_pairs, pools, answers, boxes)

    def _value(self, task: TaskData, example: Example, shape: tuple[int, int]) -> Any:
        """Return an example's scores of that shape, or the detections of its phrases; None if missing or invalid."""
        record, task_type = self.records.get((task.benchmark, example.id)), task.task.task_type
        if record is None:
            self.missing.append(example.id)
            if task_type == "detection":
                return [Detections(np.empty((0, 4)), np.empty(0))] * len(example.phrases)
            return None if task_type == "retrieval" else _wrong_scores(task, example, shape)
        try:
            column, fields = column_of(record.fields), record.fields
            if task_type not in COLUMNS[column]:
                raise ValueError(f"{column} came for {task_type}")
            if column == "boxes":
                detections = boxes_of(fields, example)
                self.facts["without_boxes"] += not any(len(phrase_detections.boxes) for phrase_detections in detections)
                return detections
            if column == "scores":
                scores = scores_of(fields["scores"], *shape)
                if task_type == "retrieval" and np.abs(scores).max() > np.finfo(np.float32).max:
                    raise ValueError("its scores do not fit into float32, the type of retrieval predictions")
                return scores
            answer = fields["answer"]
            scores = np.array([[yes_or_no(answer) or np.nan]]) if task_type == "vqa" else choices(answer, example)
        except ValueError as error:
            self.problems.append(f"{record.place}: {error}")
            return None
        is_empty = np.isnan(scores)
        self.facts["no_answer"] += bool(is_empty.any())
        return np.where(is_empty, _wrong_scores(task, example, shape), scores)

    def _add_boxes(
        self, example: Example, detections: Sequence[Detections], boxes: dict[tuple[int, PhraseQuery], Detections]
    ) -> None:
        for query, phrase_detections in zip(queries_of(example), detections, strict=False):
            key = self._plan.number(example.images[0]), query
            if not all(map(np.array_equal, boxes.setdefault(key, phrase_detections), phrase_detections)):
                self.problems.append(f"{example.id}: another example has the same phrase and image, but other boxes")


def _wrong_scores(task: TaskData, example: Example, shape: tuple[int, int]) -> np.ndarray:
    """Return scores of that shape, (images, captions), that are wrong under every tie policy: 0 for what is right."""
    if task.task.task_type == "vqa":
        return np.array([[-1.0 if example.answer else 1.0]])
    scores = 1 - np.eye(*shape)
    if shape[0] == 1:  # captions to choose from, of which the first are right
        scores[0, : task.task.positives] = 0
    return scores


def _pool(task: TaskData, examples: Sequence[Example], rows: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return the scores (images, captions) of a retrieval set.

    A missing row is below all others, so that it beats none, and lowest for its own captions, so that it finds none.
    """
    present = [row.astype(np.float32) for row in rows if row is not None]
    below = np.nextafter(min((row.min() for row in present), default=np.float32(0)), np.float32(-np.inf))
    columns = {caption: column for column, caption in enumerate(retrieval_captions(task))}
    pool = np.full((len(rows), len(columns)), below, np.float32)
    for number, (example, row) in enumerate(zip(examples, rows, strict=True)):
        example_columns = [columns[caption] for caption in example.captions]
        pool[number] = pool[number] if row is None else row
        if row is None:
            pool[number, example_columns] = np.nextafter(below, np.float32(-np.inf))
    return pool


def _right_line(plan: ScoringPlan) -> str:
    """Return a record of the first example of the plan, with made-up predictions."""
    task = plan.tasks[0]
    example = next(iter(scored(task)), task.examples[0])
    predictions = blank(task, example)
    if task.task.task_type == "detection":
        predictions = {"boxes": [[[0, 0, 9, 9]]] * len(example.phrases), "scores": [[None]] * len(example.phrases)}
    return json.dumps({"id": example.id, **predictions}, ensure_ascii=False).replace("null", "0.3")


def _refuse(path: Path, problems: Sequence[str], subject: str, cure: str) -> None:
    """Raise if there are problems; `subject` has a place for their number."""
    if problems:
        listed = "; ".join(problems[:_NAMED]) + (" … " if len(problems) > _NAMED else ". ")
        raise ModelError(f"{path.name}: {subject.format(f'{len(problems):,}')}: {listed}{cure}")


def column_of(fields: Mapping[str, Any]) -> str:
    """Return which prediction a record has: boxes, scores or answer; `ValueError` if none, or several."""
    columns = [name for name in ("boxes", "scores", "answer") if fields.get(name) is not None]
    if columns in (["boxes"], ["boxes", "scores"]):
        return "boxes"
    if not columns and "answer" in fields:
        return "answer"  # null: no answer was given
    if len(columns) != 1:
        raise ValueError(
            f"a record has an id and scores, answer or boxes with scores, not null; its columns are "
            f"{shown(', '.join(fields))}"
        )
    return columns[0]


def _shape(task_type: str, example: Example, captions: int) -> tuple[int, int]:
    """Return the shape of an example's scores; `captions` has the captions of a retrieval set."""
    pairs = math.comb(len(example.captions), 2)
    shapes = {"retrieval": (1, captions), "text_similarity": (1, pairs), "vqa": (1, 1)}
    return shapes.get(task_type, (len(example.images), len(example.captions)))
