"""The outcomes of several models on the examples of one task: right, tied or wrong, margin and confidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...common.errors import check_known
from ...estimation.aggregate import option_names
from ...estimation.spec import Examples, MetricSpec
from ...functional.boxes import box_iou
from ...modules.discovery import get_spec
from ...records.predictions import Predictions
from ...records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, VQARow
from ..compute import Metrics, cluster_numbers, examples_of, scored_rows
from ..pairs import example_ids
from ..scores import partial_sentence

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Which examples, and in words.
ANY, ALL, DISAGREE, NONE, EVERY = "any", "all", "disagree", "none", "every"
FILTERS = {
    ANY: "some model errs",
    ALL: "all models err",
    DISAGREE: "models disagree",
    NONE: "no model errs",
    EVERY: "all examples",
}
_IOU = 0.5
_LEAST_SEVERITY = 0.001
_MOST_DISTRACTORS = 3


class TopBox(NamedTuple):
    """The most confident box of a phrase on one image; `is_right` if it overlaps a true box by half or more."""

    box: list[float]
    score: float
    is_right: bool


class Thumbnail(NamedTuple):
    """A small version of an image: its address, and width and height of the image itself in pixels."""

    address: str
    width: int
    height: int


@dataclass(frozen=True)
class ExampleData:
    """Captions, images and labels of a task's examples; any of them may be missing.

    Args:
        captions: the captions of each row, or its question, by the row's id.
        images: the keys of each row's images, by its id.
        thumbnails: makes small images, by their keys; it may leave out some.
        note: why something is missing.
    """

    captions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    thumbnails: Callable[[Collection[str]], Mapping[str, Thumbnail]] = lambda keys: {}
    note: str = ""


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of one model: arrays of shape (n,), NaN for examples without predictions.

    Args:
        label: the model.
        rows: its rows by their ids.
        losses: the difference of each example's score from the best value, in [0, 1]; above 0 is an error.
        tied: whether a tie decides the example.
        margins: by how much the worst positive outscores the best negative, on the model's own scale.
        confidence: the share of the model's decisions that are less confident, in [0, 1): by the absolute margin, for
            boxes by the score of the most confident one. Scores of models have no common unit, but ranks compare.
    """

    label: str
    rows: dict[str, Row]
    losses: Floats
    tied: Flags
    margins: Floats
    confidence: Floats

    @property
    def errs(self) -> Flags:
        """The mask of the examples on which the model errs, by the tie policy of the metric."""
        return self.losses > 0

    @cached_property
    def severity(self) -> Floats:
        """The confidence with a sign: positive for errors, negative for all other outcomes; NaN without prediction."""
        sizes = self.confidence + _LEAST_SEVERITY
        return np.where(np.isnan(self.losses), np.nan, np.where(self.errs, sizes, -sizes))

    def outcome(self, number: int) -> str:
        """``"right"``, ``"wrong"``, ``"tie"``, ``"no answer"``, or ``""`` without prediction."""
        if np.isnan(self.losses[number]):
            return ""
        if self.tied[number] and not self.margins[number]:
            return "tie"
        wrong = "wrong" if self.margins[number] or np.isnan(self.margins[number]) else "no answer"
        return wrong if self.losses[number] else "right"


@dataclass(frozen=True)
class TaskErrors:
    """The errors of one or more models on the same examples.

    Args:
        where: the task in words.
        benchmark, task: what they were evaluated on.
        metric, score: the score that decides on errors, a mean over examples.
        keys: for each example the id of its row, and its part of the row, such as a phrase; else "".
        rows: for each example its row, as the first model has it.
        models: one for each model.
        clusters: of shape (n,): equal for examples that are not independent.
        data: captions and images.
        left_out: why examples count in no score, and how many.
        partial: a sentence if the predictions are of a part of the task; else "".
    """

    where: str
    benchmark: str
    task: str
    metric: str
    score: str
    keys: list[tuple[str, str]]
    rows: list[Row]
    models: list[Outcomes]
    clusters: NDArray[np.intp]
    data: ExampleData = field(default_factory=ExampleData)
    left_out: Mapping[str, int] = field(default_factory=dict)
    partial: str = ""

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def labels(self) -> list[str]:
        """The models' labels."""
        return [model.label for model in self.models]

    @cached_property
    def letters(self) -> list[str]:
        """A short name for each model: a letter, or nothing for a single one."""
        if len(self.models) == 1:
            return [""]
        return [ascii_uppercase[n] if n < len(ascii_uppercase) else str(n + 1) for n in range(len(self.models))]

    @cached_property
    def positive_captions(self) -> int:
        """Return the number of captions of a row, from the first, that are true of its image."""
        return get_spec(self.metric).positive_captions

    @cached_property
    def categories(self) -> list[tuple[str, ...]]:
        """The category of each example, and its tags."""
        return [tuple(dict.fromkeys([row.category, *row.tags])) for row in self.rows]

    @cached_property
    def category_names(self) -> list[str]:
        """All categories and tags, in the order of first appearance."""
        return list(dict.fromkeys(name for names in self.categories for name in names))

    @cached_property
    def pool(self) -> dict[int, str]:
        """The captions of a retrieval set, by their column."""
        rows = {row.id: row for model in self.models for row in model.rows.values() if isinstance(row, RetrievalRow)}
        return {
            column: caption
            for row in rows.values()
            for column, caption in zip(row.correct, self.data.captions.get(row.id, ()), strict=False)
        }

    def distractors_of(self, row: Row) -> list[DetectionRow]:
        """Return a row's first distractor rows (same caption, other images); empty if their boxes are not counted."""
        if not isinstance(row, DetectionRow) or not _pools_pairs(get_spec(self.metric)):
            return []
        return self._distractors.get(row.pair, [])[:_MOST_DISTRACTORS]

    @cached_property
    def _distractors(self) -> dict[str, list[DetectionRow]]:
        first = {row.id: row for model in reversed(self.models) for row in model.rows.values()}
        # In the order of the models, with the row of the first model that has it.
        return _negatives_by_pair(first[id] for id in dict.fromkeys(id for model in self.models for id in model.rows))

    def image_keys(self, row: Row) -> list[str]:
        """Return the keys of a row's images, followed by the keys of its distractors' images."""
        keys = []
        for image_row in (row, *self.distractors_of(row)):
            keys += self.data.images.get(image_row.id, image_row.images)
        return keys

    def select(self, who: str | int = ANY, category: str = "") -> NDArray[np.intp]:
        """Return the indices of the selected examples, the most confident errors first.

        Args:
            who: one of `FILTERS`, or the number of a model: the examples on which it errs.
            category: a category or tag; all by default.

        Raises:
            UnknownNameError: no such filter, model or category.
        """
        ranking_models = self.models
        errs = np.stack([model.errs for model in self.models])
        scored = ~np.isnan(np.stack([model.losses for model in self.models]))
        if isinstance(who, int):
            check_known("model", [str(who)], [str(number) for number in range(len(self.models))])
            ranking_models = [self.models[who]]
            mask = errs[who]
        else:
            check_known("filter", [who], FILTERS)
            rights = ~errs & scored
            mask = {
                ANY: errs.any(axis=0),
                ALL: errs.all(axis=0),
                DISAGREE: errs.any(axis=0) & rights.any(axis=0),
                NONE: ~errs.any(axis=0),
                EVERY: np.ones(len(self), dtype=bool),
            }[who]
        if category:
            check_known("category", [category], self.category_names)
            mask = mask & np.array([category in names for names in self.categories], dtype=bool)
        indices = np.flatnonzero(mask)
        severity = np.stack([np.nan_to_num(model.severity, nan=-2) for model in ranking_models]).max(axis=0)
        return indices[np.argsort(-severity[indices], kind="stable")]

    def restricted(self, categories: Collection[str]) -> TaskErrors:
        """Keep the examples of some categories or tags and the models that have them; confidence is not ranked anew."""
        indices = [index for index, names in enumerate(self.categories) if not set(categories).isdisjoint(names)]
        models = [
            replace(
                model, **{name: getattr(model, name)[indices] for name in ("losses", "tied", "margins", "confidence")}
            )
            for model in self.models
            if not np.isnan(model.losses[indices]).all()
        ]
        keys, rows = [self.keys[index] for index in indices], [self.rows[index] for index in indices]
        return replace(self, keys=keys, rows=rows, models=models, clusters=self.clusters[indices])


def task_errors(
    where: str,
    files: Mapping[str, Predictions],
    metrics: Metrics,
    *,
    ties: str | None = None,
    data: ExampleData | None = None,
) -> TaskErrors | None:
    """Collect the outcomes of several models on one task.

    Args:
        where: the task in words.
        files: predictions of the same examples by the model's label.
        metrics: the metrics that evaluate them, with their settings; the first with a mean over examples decides on
            errors, for boxes one that also counts boxes on distractors.
        ties: the tie policy; by default the policy of the metric's paper.
        data: captions and images.

    Returns:
        The outcomes of all examples; None if no file has a score, or no metric a mean over examples.
    """
    scored = {label: scored_rows(file.rows) for label, file in files.items()}
    scored = {label: rows for label, rows in scored.items() if rows}
    choice = _metric(next(iter(scored.values())), metrics, ties) if scored else None
    if choice is None:
        return None
    name, score, first_examples = choice
    first = next(iter(scored))
    by_model: dict[str, Examples] = {}
    keys: dict[tuple[str, str], Row] = {}
    for label, own_rows in scored.items():
        every = first_examples if label == first else examples_of(own_rows, name, metrics[name], ties=ties)
        by_model[label] = examples = every.of_score(score)
        for key, row in zip(example_ids(own_rows, examples), examples.rows.tolist(), strict=True):
            keys.setdefault(key, own_rows[row])
    left_out = dict(Counter(first_examples.left_out.values()))
    rows = list(keys.values())
    index = {key: position for position, key in enumerate(keys)}
    spec = get_spec(name)
    models = [_outcomes(label, scored[label], examples, index, spec, score) for label, examples in by_model.items()]
    missing = sum(len(file.rows) for file in files.values()) - sum(map(len, scored.values()))
    return TaskErrors(
        where=where,
        benchmark=files[first].benchmark,
        task=files[first].task,
        metric=name,
        score=score,
        keys=list(keys),
        rows=rows,
        models=models,
        clusters=np.array(cluster_numbers(rows)),
        data=data or ExampleData(),
        left_out=left_out | ({"no predictions, as an image was missing": missing} if missing else {}),
        partial=partial_sentence(file.metadata["benchmark"] for file in files.values()),
    )


def top_boxes(row: DetectionRow, positive: DetectionRow, number: int) -> list[TopBox]:
    """Return the boxes on an image for a phrase of the positive row, most confident first; empty without the phrase."""
    true_phrase = positive.phrases[number]
    spans = [(phrase["start"], phrase["end"]) for phrase in row.phrases]
    if row.boxes is None or row.scores is None or (true_phrase["start"], true_phrase["end"]) not in spans:
        return []
    index = number if row is positive else spans.index((true_phrase["start"], true_phrase["end"]))
    truth = row.truth[index] if row.positive else []
    boxes, scores = row.boxes[index], row.scores[index]
    rights = [False] * len(boxes)
    if boxes and truth:
        pairs = np.repeat(boxes, len(truth), axis=0), np.tile(truth, (len(boxes), 1))
        rights = [bool(overlaps.any()) for overlaps in box_iou(*pairs).reshape(len(boxes), -1) >= _IOU]
    return sorted(map(TopBox, boxes, scores, rights), key=lambda box: -box.score)


def phrase_numbers(row: DetectionRow, part: str) -> list[int]:
    """Return the phrases that an example is about: the phrase that its part names by number, or all of the row."""
    number = part.rpartition(" ")[2]
    known = number.isdigit() and int(number) < len(row.phrases)
    return [int(number)] if known else list(range(len(row.phrases)))


def _metric(rows: Sequence[Row], metrics: Metrics, ties: str | None) -> tuple[str, str, Examples] | None:
    """Return the metric and the score that decide on errors, and the examples of these rows."""
    for name in sorted(metrics, key=lambda name: not _pools_pairs(get_spec(name))):
        spec = get_spec(name)
        examples = examples_of(rows, name, metrics[name], ties=ties)
        for score in sorted(spec.scores, key=lambda score: not score.is_of(spec.main_score)):
            name_of_score = next((candidate for candidate in examples.values if score.is_of(candidate)), None)
            if name_of_score is not None:
                return name, name_of_score, examples
    return None


def _pools_pairs(spec: MetricSpec) -> bool:
    return "pair_ids" in option_names(spec.per_example)


def _negatives_by_pair(rows: Iterable[Row]) -> dict[str, list[DetectionRow]]:
    """Return the rows whose caption is false of the image, by their pair."""
    negatives: dict[str, list[DetectionRow]] = {}
    for row in rows:
        if isinstance(row, DetectionRow) and not row.positive:
            negatives.setdefault(row.pair, []).append(row)
    return negatives


def _outcomes(
    label: str,
    rows: Sequence[Row],
    examples: Examples,
    index: Mapping[tuple[str, str], int],
    spec: MetricSpec,
    score: str,
) -> Outcomes:
    values = examples.values[score]
    by_pair = _negatives_by_pair(rows) if _pools_pairs(spec) else {}
    losses, margins, sizes = np.full((3, len(index)), np.nan)
    tied = np.zeros(len(index), dtype=bool)
    ids = example_ids(rows, examples)
    positions = [index[id] for id in ids]
    losses[positions] = 1 - values if spec.is_higher_better(score) else values
    tied[positions] = examples.tied
    decided = [
        _decision(rows[row], part, spec, by_pair) for (_, part), row in zip(ids, examples.rows.tolist(), strict=True)
    ]
    margins[positions], sizes[positions] = np.array(decided).T
    confidence = np.full(len(index), np.nan)
    confidence[positions] = _ranks(np.nan_to_num(sizes[positions], nan=-np.inf))
    return Outcomes(label, {row.id: row for row in rows}, losses, tied, margins, confidence)


def _ranks(values: Floats) -> Floats:
    """Return the share of values below each value, in [0, 1)."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return ((counts.cumsum() - counts) / len(values))[inverse]


def _decision(
    row: Row, part: str, spec: MetricSpec, distractors: Mapping[str, Sequence[DetectionRow]]
) -> tuple[float, float]:
    """Return the margin of a decision, and the size that ranks decisions; NaN if unknown."""
    if isinstance(row, DetectionRow):
        return _phrase_decision(row, part, distractors.get(row.pair, ()))
    if isinstance(row, VQARow):
        margin = (row.score or 0.0) * (1 if row.correct else -1)
    elif isinstance(row, RetrievalRow):
        assert row.scores is not None
        negatives = np.delete(row.scores, row.correct)
        margin = float(row.scores[row.correct].max() - negatives.max(initial=-np.inf))
    else:
        assert isinstance(row, MatchingRow)
        margin = matching_margin(row, spec.positive_captions)
    return margin, abs(margin)


def _phrase_decision(row: DetectionRow, part: str, distractors: Sequence[DetectionRow]) -> tuple[float, float]:
    """Return the smallest margin of right over wrong boxes over the phrases, and the most confident box's score."""
    margins, tops = [], []
    for number in phrase_numbers(row, part):
        boxes = [box for image_row in (row, *distractors) for box in top_boxes(image_row, row, number)]
        rights = [box.score for box in boxes if box.is_right]
        wrongs = [box.score for box in boxes if not box.is_right]
        tops += [*rights, *wrongs]
        margins.append(max(rights) - max(wrongs) if rights and wrongs else np.nan)
    return min(margins, default=np.nan), max(tops, default=np.nan)


def matching_margin(row: MatchingRow, positives: int) -> float:
    """Return the worst positive caption's score minus the best negative's; the first `positives` captions are true."""
    table = row.scores or []
    if len(table) > 1 and len(table[0]) == 2 * len(table):
        half = len(table)  # answers to questions: those right of each image, then the others
        gaps = [(table[i][j] - table[i][half + j]) * (1 if i == j else -1) for i in range(half) for j in range(half)]
        return min(gaps)
    if row.options is None:  # each image against the other captions, and each caption against the other images
        pairs = [(i, j) for i in range(len(table)) for j in range(len(table)) if i != j]
        return min(min(table[i][i], table[j][j]) - table[i][j] for i, j in pairs)
    scores, right = row.options
    rights = [right] if positives == 1 else range(positives)
    return min(scores[n] for n in rights) - max(scores[n] for n in range(len(scores)) if n not in rights)
