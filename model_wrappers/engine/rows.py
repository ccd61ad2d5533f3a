"""From a work to the rows of predictions: each type of task by the protocol that the model follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from ...hub_datasets.core.examples import MISSING, Example, TaskData
from ...metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, VQARow
from .cache import EmbeddingCache
from .detection import detect
from .embeddings import Scores, score_blindly, score_by_embeddings
from .pairs import score_answers, score_by_crossing, score_by_pairs
from .pipeline import Pipeline
from .plan import ScoringPlan, queries_of
from .protocol import (
    CrossEncoder,
    Detections,
    Detector,
    DualEncoder,
    Model,
    PairScorer,
    PhraseQuery,
    TextScorer,
    VQAModel,
)


class Results:
    """What a model said of all tasks of a work; predictions are made of it.

    Args:
        work: the work.
        pairs: scores (p,) of its captions' pairs; and
        pools: of its retrieval sets, (images, texts) each.
        answers: scores (q,) of its questions' pairs.
        boxes: what was found, by image number and query.
    """

    def __init__(
        self,
        work: ScoringPlan,
        pairs: np.ndarray,
        pools: list[np.ndarray],
        answers: np.ndarray,
        boxes: dict[tuple[int, PhraseQuery], Detections],
    ) -> None:
        self._work = work
        self._pairs = pairs
        self._pools = pools
        self._answers = answers
        self._boxes = boxes

    def rows(self, number: int) -> list[Row]:
        """The rows of a task's predictions, by its number in the work, in the order of its examples."""
        task, places = self._work.tasks[number], iter(self._work.places[number])
        task_type = task.task.task_type
        if task_type == "retrieval":
            return self._retrieval_rows(task, next(places, None))
        rows: list[Row] = []
        for example in task.examples:
            is_scored = MISSING not in example.images
            if task_type == "detection":
                rows.append(self._detection_row(example, is_scored))
                continue
            place = next(places) if is_scored else None
            rows.append((self._matching_row if task_type == "matching" else self._answer_row)(example, place))
        return rows

    def _matching_row(self, example: Example, place: int | None) -> Row:
        scores = None if place is None else self._work.captions.matrix(self._pairs, place).tolist()
        return MatchingRow(**example.facts(), correct=list(range(len(example.images))), scores=scores)

    def _answer_row(self, example: Example, place: int | None) -> Row:
        score = None if place is None else self._work.questions.matrix(self._answers, place).item()
        return VQARow(**example.facts(), question=example.captions[0], correct=example.answer, score=score)

    def _retrieval_rows(self, task: TaskData, place: int | None) -> list[Row]:
        said: Iterator[tuple[list[int], np.ndarray]] = iter(())
        if place is not None:
            said = zip(self._work.captions.pools[place].correct, self._pools[place], strict=True)
        rows: list[Row] = []
        for example in task.examples:
            correct, scores = ([], None) if MISSING in example.images else next(said)
            rows.append(RetrievalRow(**example.facts(), correct=correct, scores=scores))
        return rows

    def _detection_row(self, example: Example, is_scored: bool) -> Row:
        boxes = scores = None
        if is_scored:
            number = self._work.number(example.images[0])
            found = [self._boxes[number, query] for query in queries_of(example)]
            boxes, scores = ([getattr(one, name).tolist() for one in found] for name in ("boxes", "scores"))
        return DetectionRow(
            **example.facts(),
            positive=example.positive,
            pair=example.pair,
            phrases=[{"text": phrase.text, "start": phrase.start, "end": phrase.end} for phrase in example.phrases],
            truth=[[list(box) for box in phrase.boxes] for phrase in example.phrases],
            boxes=boxes,
            scores=scores,
        )


def score_work(
    model: Model, work: ScoringPlan, stages: Pipeline, cache: EmbeddingCache
) -> tuple[Results, dict[str, int]]:
    """What a model says of everything that a work wants, and facts for the predictions."""
    captions = answers = Scores(np.empty(0), [], {})
    if len(work.captions):
        if isinstance(model, DualEncoder):
            captions = score_by_embeddings(model, work, stages, cache)
        elif isinstance(model, CrossEncoder):
            captions = score_by_crossing(model, work, stages)
        elif isinstance(model, TextScorer):
            captions = score_blindly(model, work, stages)
        else:
            captions = score_by_pairs(cast(PairScorer, model), work, stages)
    if len(work.questions):
        answers = score_answers(cast(VQAModel, model), work, stages)
    boxes = detect(cast(Detector, model), work, stages) if work.queries else {}
    facts = {"truncated_captions": 0}
    for name in sorted({*captions.facts, *answers.facts}):
        facts[name] = captions.facts.get(name, 0) + answers.facts.get(name, 0)
    return Results(work, captions.pairs, captions.pools, answers.pairs, boxes), facts
