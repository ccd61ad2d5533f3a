"""Scoring by models that read image and text together: image by image, with all the texts that one wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...metrics.common.errors import ModelError
from .chunks import choice_key, cut_by_cost, part_size
from .embeddings import IMAGES_PER_PART, Scores, as_column, prepare_texts, settling_facts
from .pipeline import Pipeline
from .plan import Pairs, ScoringPlan
from .protocol import CrossEncoder, PairScorer, VQAModel

# Scores here are differences of logits, which may be large and near each other: they lose more digits than cosines.
NEAR_TIE_OF_LOGITS = 1e-4
# Of an image with thousands of captions, as in retrieval, so many are scored at a time.
_TEXTS_PER_ITEM = 256
# An image costs about as much as so many of its texts.
_IMAGE_COST = 4


class _Item(NamedTuple):
    """An image, ready for the model, and the texts that are scored with it."""

    image: Any
    texts: list[Any]


def score_by_pairs(model: PairScorer, work: ScoringPlan, stages: Pipeline) -> Scores:
    """Scores of all captions of a work by a model that is shown one image at a time."""

    def compute(batch: Sequence[_Item]) -> np.ndarray:
        scores = [as_column(model.info.name, model.score(item.image, item.texts), len(item.texts)) for item in batch]
        return np.concatenate(scores)

    pairs = work.captions
    found = _run(stages, "pairs", pairs, work.open_image, pairs.texts, compute)
    return Scores(*pairs.split(found), {})


def score_by_crossing(model: CrossEncoder, work: ScoringPlan, stages: Pipeline) -> Scores:
    """Scores of all captions of a work by a model that reads image and caption together; images are encoded once."""
    tokens = prepare_texts(model.prepare_captions, work.captions.texts)

    def near(scores: np.ndarray) -> np.ndarray:
        return work.captions.near_ties(scores, NEAR_TIE_OF_LOGITS)

    return _score_settled(model, work, stages, "pairs", work.captions, tokens, model.match, near)


def score_answers(model: VQAModel, work: ScoringPlan, stages: Pipeline) -> Scores:
    """Scores of all questions of a work: above 0 for yes, below for no."""
    tokens = prepare_texts(model.prepare_questions, work.questions.texts)

    def near(scores: np.ndarray) -> np.ndarray:
        return np.abs(scores) <= NEAR_TIE_OF_LOGITS

    return _score_settled(model, work, stages, "questions", work.questions, tokens, model.answer, near)


def _score_settled(
    model: CrossEncoder | VQAModel,
    work: ScoringPlan,
    stages: Pipeline,
    stage: str,
    pairs: Pairs,
    tokens: Sequence[Sequence[int]],
    judge: Callable[..., np.ndarray],
    undecided: Callable[[np.ndarray], np.ndarray],
) -> Scores:
    def compute(batch: Sequence[_Item], exact: bool = False) -> np.ndarray:
        features = model.encode_images([item.image for item in batch], exact=exact)
        texts = [ids for item in batch for ids in item.texts]
        images = [number for number, item in enumerate(batch) for _ in item.texts]
        scores = np.empty((len(texts), 1))
        # Texts of like length share a batch, whatever image they belong to.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for some in (order[i : i + 4 * stages.batch_size] for i in range(0, len(order), 4 * stages.batch_size)):
            if exact:
                some_scores = [judge(features, [images[i]], [texts[i]], exact=True)[0] for i in some]
            else:
                some_scores = judge(features, [images[i] for i in some], [texts[i] for i in some])
            scores[some] = as_column(model.info.name, some_scores, len(some))
        return scores

    def load(number: int) -> Any:
        return stages.decoder.prepare(model, work, number).image

    found = _run(stages, stage, pairs, load, tokens, compute)
    scores, pools = pairs.split(found)
    near = undecided(scores)
    if near.any():
        chosen = Pairs(pairs.texts, pairs.image[near], pairs.text[near], np.empty((0, 2), np.int64), [])
        settling = f"settling-{stage}-{choice_key(chosen.image, chosen.text)}"
        scores[near] = _run(stages, settling, chosen, load, tokens, partial(compute, exact=True), batch_size=1)
    return Scores(scores, pools, settling_facts(model.max_tokens, tokens, near))


def _run(
    stages: Pipeline,
    stage: str,
    pairs: Pairs,
    load: Callable[[int], Any],
    texts: Sequence[Any],
    compute: Callable[[list[_Item]], np.ndarray],
    *,
    batch_size: int | None = None,
) -> np.ndarray:
    """Scores (p,) of all pairs, in their order and then those of the pools; equal pairs are scored once.

    `compute` gives the scores (n, 1), float64, of the images of a batch with their texts, one after the other.
    """
    if not len(pairs):
        return np.empty(0)
    wanted, place = np.unique(np.stack(pairs.everything()), axis=1, return_inverse=True)
    ends = np.flatnonzero(np.diff(wanted[0], append=-1)) + 1
    items = [
        (start, min(start + _TEXTS_PER_ITEM, end))
        for first, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
        for start in range(first, end, _TEXTS_PER_ITEM)
    ]

    def load_item(number: int) -> _Item:
        start, end = items[number]
        return _Item(load(int(wanted[0, start])), [texts[text] for text in wanted[1, start:end]])

    costs = [_IMAGE_COST + end - start for start, end in items]
    found = stages.run(
        stage,
        cut_by_cost(costs, part_size(sum(costs), 4 * (_IMAGE_COST + 2), IMAGES_PER_PART * (_IMAGE_COST + 2))),
        load_item,
        compute,
        batch_size=batch_size,
    )
    if found.shape != (wanted.shape[1], 1):
        raise ModelError(f"the stage {stage} gave {found.shape} scores for {wanted.shape[1]} pairs")
    return found[place.ravel(), 0]
