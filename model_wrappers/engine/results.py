"""From a scoring plan to the rows of predictions, by the protocol that the model implements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from ...hub_datasets.core.examples import MISSING
from ...metrics.common.errors import ModelError
from ...metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, TextSimilarityRow, VQARow
from .detection import detect
from .embeddings import Scores, add_counts, score_by_embeddings, score_text_only
from .pairs import score_answers, score_by_choice, score_by_matching, score_by_pairs, score_text_pairs
from .plan import ScoringPlan, queries_of, scored
from .protocol import (
    ChoiceModel,
    CrossEncoder,
    Detections,
    Detector,
    DualEncoder,
    Model,
    ModelInfo,
    PairScorer,
    PhraseQuery,
    RemoteModel,
    TextPairScorer,
    TextScorer,
    VQAModel,
)
from .remote import ask_remotely
from .stages import Stages


@runtime_checkable
class PredictionsSource(Protocol):
    """Predictions that were computed elsewhere: nothing is scored and no image is read.

    `task_types` are the types of tasks that it has predictions for; see ``hub_datasets.core.benchmarks.TASK_TYPES``.
    """

    info: ModelInfo
    task_types: tuple[str, ...]

    def results(self, plan: ScoringPlan) -> tuple[Results, dict[str, int]]:
        """Return the results for a plan, and counts for the metadata of the predictions."""
        ...


def refuse_computed(model: Any, what: str) -> None:
    """Raise ModelError for predictions that were computed elsewhere: there is `what` of them."""
    if isinstance(model, PredictionsSource):
        raise ModelError(f"{model.info.name} has been computed elsewhere: there is {what}")


@dataclass(frozen=True)
class Results:
    """The scores and boxes for all tasks of a plan, from which predictions are made.

    Args:
        plan: the plan.
        pairs: scores (p,) of the pairs of image and caption.
        text_pairs: similarities (t,) of the pairs of texts.
        pools: scores (images, texts) of each retrieval set.
        answers: scores (q,) of the pairs of image and question.
        boxes: detections by image number and query.
    """

    plan: ScoringPlan
    pairs: np.ndarray
    text_pairs: np.ndarray
    pools: Sequence[np.ndarray]
    answers: np.ndarray
    boxes: dict[tuple[int, PhraseQuery], Detections]

    def rows(self, number: int) -> list[Row]:
        """Return the rows of the predictions for task number `number` of the plan, in the order of its examples."""
        task, values = self.plan.tasks[number], self._values(number)
        task_type, rows = task.task.task_type, []
        for example in task.examples:
            value, facts = None if MISSING in example.images else next(values), example.facts()
            if task_type == "matching":
                row = MatchingRow(**facts, correct=example.correct, scores=value)
            elif task_type == "text_similarity":
                row = TextSimilarityRow(**facts, correct=example.correct, scores=value)
            elif task_type == "vqa":
                row = VQARow(**facts, question=example.captions[0], correct=example.answer, score=value)
            elif task_type == "retrieval":
                correct, scores = value or ([], None)
                row = RetrievalRow(**facts, correct=correct, scores=scores)
            else:
                boxes, scores = value or (None, None)
                row = DetectionRow(
                    **facts,
                    positive=example.positive,
                    pair=example.pair,
                    phrases=[{"text": p.text, "start": p.start, "end": p.end} for p in example.phrases],
                    truth=[[list(box) for box in phrase.boxes] for phrase in example.phrases],
                    boxes=boxes,
                    scores=scores,
                )
            rows.append(row)
        return rows

    def _values(self, number: int) -> Iterator[Any]:
        """Yield the result of each scored example of a task."""
        plan, task = self.plan, self.plan.tasks[number]
        for position in plan.places[number]:
            if task.task.task_type == "matching":
                yield plan.captions.matrix(self.pairs, position).tolist()
            elif task.task.task_type == "text_similarity":
                yield plan.text_pairs.matrix(self.text_pairs, position).tolist()
            elif task.task.task_type == "vqa":
                yield plan.questions.matrix(self.answers, position).item()
            else:
                yield from zip(plan.captions.pools[position].correct, self.pools[position], strict=True)
        if task.task.task_type == "detection":
            for example in scored(task):
                detections = [self.boxes[plan.number(example.images[0]), query] for query in queries_of(example)]
                yield (
                    [detection.boxes.tolist() for detection in detections],
                    [detection.scores.tolist() for detection in detections],
                )


def score_plan(model: Model, plan: ScoringPlan, stages: Stages) -> tuple[Results, dict[str, Any]]:
    """Score everything in a plan; return the results and counts for the metadata of the predictions."""
    if isinstance(model, RemoteModel):
        captions, answers, facts = ask_remotely(model, plan, stages)
        return Results(plan, captions.pairs, captions.text_pairs, captions.pools, answers.pairs, {}), facts
    captions = answers = Scores()
    if isinstance(model, DualEncoder):
        if len(plan.captions) or len(plan.text_pairs):
            captions = score_by_embeddings(model, plan, stages)
    elif len(plan.captions):
        if isinstance(model, CrossEncoder):
            captions = score_by_matching(model, plan, stages)
        elif isinstance(model, ChoiceModel):
            captions = score_by_choice(model, plan, stages)
        elif isinstance(model, TextScorer):
            captions = score_text_only(model, plan, stages)
        else:
            captions = score_by_pairs(cast(PairScorer, model), plan, stages)
    if len(plan.text_pairs) and not isinstance(model, DualEncoder):
        captions = captions._replace(text_pairs=score_text_pairs(cast(TextPairScorer, model), plan, stages))
    if len(plan.questions):
        answers = score_answers(cast(VQAModel, model), plan, stages)
    boxes = detect(cast(Detector, model), plan, stages) if plan.queries else {}
    facts = add_counts({"truncated_captions": 0}, captions.facts, answers.facts)
    return Results(plan, captions.pairs, captions.text_pairs, captions.pools, answers.pairs, boxes), facts
