"""From a scoring plan to the rows of predictions, by the protocol that the model implements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast, runtime_checkable

import numpy as np

from ...hub_datasets.core.examples import MISSING, Example, TaskData
from ...metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, VQARow
from .cache import EmbeddingCache
from .detection import detect
from .embeddings import Scores, score_by_embeddings, score_text_only
from .pairs import score_answers, score_by_matching, score_by_pairs
from .pipeline import Pipeline
from .plan import ScoringPlan, queries_of
from .protocol import (
    CrossEncoder,
    Detections,
    Detector,
    DualEncoder,
    Model,
    ModelInfo,
    PairScorer,
    PhraseQuery,
    TextScorer,
    VQAModel,
)


@runtime_checkable
class PredictionsSource(Protocol):
    """Predictions that were computed elsewhere: nothing is scored and no image is read.

    `task_types` are the types of tasks that it has predictions for; see ``hub_datasets.core.benchmarks.TASK_TYPES``.
    """

    info: ModelInfo
    task_types: tuple[str, ...]

    def results(self, plan: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """The results for everything in a plan, and counts for the metadata of the predictions."""
        ...


class Results:
    """The scores and boxes for all tasks of a plan, from which predictions are made.

    Args:
        plan: the plan.
        pairs: scores (p,) of the pairs of image and caption.
        pools: scores (images, texts) of each retrieval set.
        answers: scores (q,) of the pairs of image and question.
        boxes: detections by image number and query.
    """

    def __init__(
        self,
        plan: ScoringPlan,
        pairs: np.ndarray,
        pools: list[np.ndarray],
        answers: np.ndarray,
        boxes: dict[tuple[int, PhraseQuery], Detections],
    ) -> None:
        self._plan = plan
        self._pairs = pairs
        self._pools = pools
        self._answers = answers
        self._boxes = boxes

    def rows(self, number: int) -> list[Row]:
        """The rows of the predictions for task number `number` of the plan, in the order of its examples."""
        task, places = self._plan.tasks[number], iter(self._plan.places[number])
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
        scores = None if place is None else self._plan.captions.matrix(self._pairs, place).tolist()
        return MatchingRow(**example.facts(), correct=list(range(len(example.images))), scores=scores)

    def _answer_row(self, example: Example, place: int | None) -> Row:
        score = None if place is None else self._plan.questions.matrix(self._answers, place).item()
        return VQARow(**example.facts(), question=example.captions[0], correct=example.answer, score=score)

    def _retrieval_rows(self, task: TaskData, place: int | None) -> list[Row]:
        scored: Iterator[tuple[list[int], np.ndarray]] = iter(())
        if place is not None:
            scored = zip(self._plan.captions.pools[place].correct, self._pools[place], strict=True)
        rows: list[Row] = []
        for example in task.examples:
            correct, scores = ([], None) if MISSING in example.images else next(scored)
            rows.append(RetrievalRow(**example.facts(), correct=correct, scores=scores))
        return rows

    def _detection_row(self, example: Example, is_scored: bool) -> Row:
        boxes = scores = None
        if is_scored:
            number = self._plan.number(example.images[0])
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


def score_plan(
    model: Model, plan: ScoringPlan, pipeline: Pipeline, cache: EmbeddingCache
) -> tuple[Results, dict[str, int]]:
    """Score everything in a plan; returns the results and counts for the metadata of the predictions."""
    captions = answers = Scores(np.empty(0), [], {})
    if len(plan.captions):
        if isinstance(model, DualEncoder):
            captions = score_by_embeddings(model, plan, pipeline, cache)
        elif isinstance(model, CrossEncoder):
            captions = score_by_matching(model, plan, pipeline)
        elif isinstance(model, TextScorer):
            captions = score_text_only(model, plan, pipeline)
        else:
            captions = score_by_pairs(cast(PairScorer, model), plan, pipeline)
    if len(plan.questions):
        answers = score_answers(cast(VQAModel, model), plan, pipeline)
    boxes = detect(cast(Detector, model), plan, pipeline) if plan.queries else {}
    facts = {"truncated_captions": 0}
    for name in sorted({*captions.facts, *answers.facts}):
        facts[name] = captions.facts.get(name, 0) + answers.facts.get(name, 0)
    return Results(plan, captions.pairs, captions.pools, answers.pairs, boxes), facts
