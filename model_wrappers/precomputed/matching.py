"""Match the records of a file with the examples of a plan, and check their values."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...hub_datasets.core.examples import Example, TaskData
from ...hub_datasets.core.predictions_template import blank, retrieval_captions
from ...metrics.common.errors import ModelError
from ..engine.plan import ScoringPlan, queries_of, scored
from ..engine.protocol import Detections, PhraseQuery
from ..engine.results import Results
from ..serving.replies import chosen_captions, yes_or_no
from .records import Record, read_records, shown

# Messages name so many problems.
_NAMED = 3

# An example across the tasks of a run: its benchmark and its id.
_Key = tuple[str, str]


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
    """Return a matrix (images, captions): 1 for the chosen caption of each image, else 0.

    All are 0 if an image has no choice. An answer is an index from 0, or a reply as `chosen_captions` reads it.
    """
    answers = [answer] if len(example.images) == 1 else listed(answer)
    if len(answers) != len(example.images):
        raise ValueError(f"{len(answers)} answers for {len(example.images)} images")
    chosen = [_choice(reply, example.captions) for reply in answers]
    return np.array([[float(all(chosen) and index in row) for index in range(len(example.captions))] for row in chosen])


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


class Reading:
    """One pass over a file that matches its records with a plan.

    With `is_order` the file has the answers to one of several orders of the captions, and an answer that chooses no
    caption is a vote for all wrong ones: so the mean over orders is a tie if one answer was right, and its accuracy
    with ties as half is the mean of the orders' accuracies.
    """

    def __init__(self, path: Path, settings: dict[str, str], plan: ScoringPlan, *, is_order: bool = False) -> None:
        self._path, self._settings, self._plan, self._is_order = path, settings, plan, is_order
        self._facts = Counter({"answers": 0})
        self._problems: list[str] = []
        self._unknown: list[str] = []
        self._missing: list[str] = []
        self._records: dict[_Key, Record] = {}
        self._keys: dict[str, list[_Key]] = {}
        for task in plan.tasks:
            for example in task.examples:
                key = task.benchmark, example.id
                for name in {example.id, "/".join(key)}:
                    if key not in self._keys.setdefault(name, []):
                        self._keys[name].append(key)

    def results(self) -> tuple[Results, dict[str, int]]:
        """Return the results, and counts for the metadata.

        Raises:
            ModelError: missing, unknown or invalid records; the message shows a right line.
        """
        for record in read_records(self._path):
            self._facts["answers"] += 1
            try:
                self._add(record)
            except ValueError as error:
                self._problems.append(f"{record.place}: {error}")
        results = self._results()
        self._refuse(self._problems, "{} of its records cannot be used", cure=f"A right one: {self._right_line()}")
        wanted = {(task.benchmark, example.id) for task in self._plan.tasks for example in scored(task)}
        if unneeded := len(self._records.keys() - wanted):
            self._facts["unneeded_answers"] = unneeded  # for examples whose image is missing
        self._refuse(
            self._unknown,
            f"{{}} of its {self._facts['answers']:,} records match no example",
            "allow_unknown",
            "-s allow_unknown=true ignores them, as for a part of a benchmark or with --limit. A right one: "
            + self._right_line(),
        )
        self._refuse(
            self._missing,
            f"no prediction for {{}} of {sum(len(scored(task)) for task in self._plan.tasks):,} examples",
            "allow_missing",
            "-s allow_missing=true counts them as wrong. To evaluate one part, name it: BENCHMARK/PART",
        )
        return results, dict(self._facts)

    def _add(self, record: Record) -> None:
        name = record.fields.get("id")
        if not isinstance(name, str):
            raise ValueError("it has no id" if name is None else f"the id {shown(name)} is not text")
        keys = self._keys.get(name, [])
        if len(keys) > 1:
            raise ValueError(
                f"the id {shown(name)} may mean {' or '.join(map('/'.join, keys[:_NAMED]))}; write it whole"
            )
        if not keys:
            self._unknown.append(f"{record.place}: id {shown(name)}")
        elif keys[0] in self._records:
            raise ValueError(f"duplicate prediction for {name}, already at {self._records[keys[0]].place}")
        else:
            self._records[keys[0]] = record

    def _results(self) -> Results:
        """Return the scores and boxes of every example, in the order of the plan."""
        pairs, text_pairs, answers = [np.empty(0)], [np.empty(0)], [np.empty(0)]
        by_type = {"matching": pairs, "text_similarity": text_pairs, "vqa": answers}
        pools: list[np.ndarray] = []
        boxes: dict[tuple[int, PhraseQuery], Detections] = {}
        for task in self._plan.tasks:
            examples, task_type = scored(task), task.task.task_type
            if task_type == "detection":
                self._add_boxes(task, examples, boxes)
                continue
            texts = retrieval_captions(task) if task_type == "retrieval" else ()
            scores = [self._scores(task, example, texts) for example in examples]
            if task_type == "retrieval":
                pools += [_pool(scores, len(texts))] if scores else []
                continue
            for example, matrix in zip(examples, scores, strict=True):
                filled = np.zeros(_shape(task_type, example, texts)) if matrix is None else matrix
                by_type[task_type].append(filled.ravel())
        arrays = [np.concatenate(parts) for parts in (pairs, text_pairs, answers)]
        return Results(self._plan, arrays[0], arrays[1], pools, arrays[2], boxes)

    def _scores(self, task: TaskData, example: Example, texts: Collection[str]) -> np.ndarray | None:
        """Return the scores (images, captions) of an example; None if they are missing or invalid."""
        record = self._records.get((task.benchmark, example.id))
        if record is None:
            self._missing.append(example.id)
            return None
        try:
            return self._value(record.fields, task.task.task_type, example, texts)
        except ValueError as error:
            self._problems.append(f"{record.place}: {error}")
            return None

    def _value(self, fields: Mapping[str, Any], task_type: str, example: Example, texts: Collection[str]) -> np.ndarray:
        if column_of(fields) == "scores":
            scores = scores_of(fields["scores"], *_shape(task_type, example, texts))
            if task_type == "retrieval" and np.abs(scores).max() > np.finfo(np.float32).max:
                raise ValueError("its scores do not fit into float32, the type of retrieval predictions")
            return scores
        if column_of(fields) != "answer" or task_type not in ("matching", "vqa"):
            raise ValueError(f"{column_of(fields)} came for {task_type}")
        scores = np.array([[yes_or_no(fields["answer"])]]) if task_type == "vqa" else choices(fields["answer"], example)
        self._facts["no_answer"] += not scores.any()
        return scores if scores.any() or not self._is_order else 1 - np.eye(*scores.shape)

    def _add_boxes(
        self, task: TaskData, examples: list[Example], boxes: dict[tuple[int, PhraseQuery], Detections]
    ) -> None:
        """Add the boxes of each phrase of each example; an example without a record is missing."""
        for example in examples:
            record = self._records.get((task.benchmark, example.id))
            detections = [Detections(np.empty((0, 4)), np.empty(0)) for _ in example.phrases]
            if record is None:
                self._missing.append(example.id)
            else:
                try:
                    if column_of(record.fields) != "boxes":
                        raise ValueError(f"{column_of(record.fields)} came for detection")
                    detections = boxes_of(record.fields, example)
                except ValueError as error:
                    self._problems.append(f"{record.place}: {error}")
                    continue
                self._facts["without_boxes"] += not any(len(one.boxes) for one in detections)
            for query, one in zip(queries_of(example), detections, strict=True):
                place = self._plan.number(example.images[0]), query
                if not all(map(np.array_equal, boxes.setdefault(place, one), one)):
                    self._problems.append(
                        f"{example.id}: another example has the same phrase and image, but other boxes"
                    )

    def _right_line(self) -> str:
        """Return a record of the first example of the plan, with made-up predictions."""
        task = self._plan.tasks[0]
        example = next(iter(scored(task)), task.examples[0])
        predictions = blank(task, example)
        if task.task.task_type == "detection":
            predictions = {"boxes": [[[0, 0, 9, 9]]] * len(example.phrases), "scores": [[None]] * len(example.phrases)}
        return json.dumps({"id": example.id, **predictions}, ensure_ascii=False).replace("null", "0.3")

    def _refuse(self, found: list[str], what: str, setting: str = "", cure: str = "") -> None:
        """Raise if there is a problem, unless a setting allows it."""
        if setting and self._settings[setting] == "true":
            self._facts[f"{setting.removeprefix('allow_')}_answers"] += len(found)
        elif found:
            named = "; ".join(found[:_NAMED]) + (" … " if len(found) > _NAMED else ". ")
            raise ModelError(f"{self._path.name}: {what.format(f'{len(found):,}')}: {named}{cure}")


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


def _shape(task_type: str, example: Example, texts: Collection[str]) -> tuple[int, int]:
    """Return the shape of an example's scores."""
    pairs = math.comb(len(example.captions), 2)
    shapes = {"retrieval": (1, len(texts)), "text_similarity": (1, pairs), "vqa": (1, 1)}
    return shapes.get(task_type, (len(example.images), len(example.captions)))


def _pool(scores: list[np.ndarray | None], width: int) -> np.ndarray:
    """Return the rows of a retrieval set; a missing row gets the lowest score of all, so that it beats no other row."""
    lowest = min((float(row.min()) for row in scores if row is not None), default=0.0)
    return np.concatenate([np.full((1, width), lowest) if row is None else row for row in scores]).astype(np.float32)
