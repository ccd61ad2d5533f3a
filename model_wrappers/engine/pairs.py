"""Scoring by models that read image and text together: image by image, each with all its texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...metrics.common.errors import ModelError
from .cache import EmbeddingCache
from .chunks import choice_key, chunk_size, cut, cut_by_cost
from .embeddings import IMAGES_PER_CHUNK, Scores, as_column, prepare_texts, text_facts
from .pipeline import Pipeline
from .plan import Pairs, ScoringPlan
from .protocol import ChoiceModel, CrossEncoder, PairScorer, Reranker, TextPairScorer, VQAModel
from .reranking import matched_pairs, shortlists

# Scores are differences of logits here, which may be large and close together, so rounding costs more digits than in
# cosines.
NEAR_TIE_OF_LOGITS = 1e-4
# The texts of one image are split into items of this size, since retrieval has thousands.
_TEXTS_PER_ITEM = 256
# Cost of encoding an image, in texts.
IMAGE_COST = 4


class _Item(NamedTuple):
    """An image, ready for the model, or another anchor, and the texts that are scored with it."""

    image: Any
    texts: list[Any]


def score_by_pairs(model: PairScorer, plan: ScoringPlan, pipeline: Pipeline) -> Scores:
    """Scores of all captions of a plan by a `PairScorer`."""
    pairs = plan.captions
    found = _run(pipeline, "pairs", pairs, plan.open_image, pairs.texts, _one_by_one(model.info.name, model.score))
    return Scores(*pairs.split(found), {})


def score_text_pairs(model: TextPairScorer, plan: ScoringPlan, pipeline: Pipeline) -> np.ndarray:
    """Similarities (q,) of all pairs of texts of a plan by a `TextPairScorer`."""
    pairs, compute = plan.text_pairs, _one_by_one(model.info.name, model.score_texts)
    return _run(pipeline, "texts", pairs, pairs.texts.__getitem__, pairs.texts, compute)


def _one_by_one(model: str, score: Callable[[Any, list[Any]], Any]) -> Callable[[Sequence[_Item]], np.ndarray]:
    """Scores (n, 1) of the texts of a batch of items by a function of an anchor and its texts."""
    return lambda batch: np.concatenate(
        [as_column(model, score(item.image, item.texts), len(item.texts)) for item in batch]
    )


def score_by_matching(model: CrossEncoder, plan: ScoringPlan, pipeline: Pipeline, cache: EmbeddingCache) -> Scores:
    """Scores of all captions of a plan by a `CrossEncoder`; of large retrieval sets see `reranking`."""
    pairs = plan.captions
    tokens = prepare_texts(model.prepare_captions, pairs.texts)
    is_reranker = isinstance(model, Reranker)
    lists = shortlists(model, plan, pipeline, cache) if is_reranker else [None] * len(pairs.pools)
    wanted = matched_pairs(pairs, lists)
    near = partial(wanted.near_ties, margin=NEAR_TIE_OF_LOGITS)
    found = _score_and_recheck(model, plan, pipeline, "pairs", wanted, tokens, model.match, near)
    sizes = [len(pairs.anchor), *(len(each.images) for each in lists if each is not None)]
    scores, *matched = np.split(found.pairs, np.cumsum(sizes)[:-1])
    own, whole = iter(matched), iter(found.pools)
    pools = [next(whole) if each is None else each.ranked(next(own)) for each in lists]
    facts = {"reranked_pairs": sum(sizes[1:])} if len(sizes) > 1 else {}
    return Scores(scores, pools, found.facts | facts)


def score_by_choice(model: ChoiceModel, plan: ScoringPlan, pipeline: Pipeline) -> Scores:
    """Scores of all captions of a plan by a `ChoiceModel`, which reads those of an example and image at once."""
    pairs = plan.captions
    asked = pairs.by_example()

    def load(image: int, texts: Sequence[int]) -> _Item:
        choices = model.prepare_choices([pairs.texts[text] for text in texts])
        return _Item(pipeline.decoder.prepare(model, plan, image).image, choices)

    def compute(batch: Sequence[_Item], exact: bool = False) -> np.ndarray:
        features = model.encode_images([item.image for item in batch], exact=exact)
        widest = max(len(item.texts) for item in batch)
        found = []
        for some in cut(len(batch), max(1, 4 * pipeline.batch_size // widest)):
            found += model.choose(features, some, [batch[i].texts for i in some], exact=exact)
        return np.concatenate(found)[:, None]

    def run(stage: str, wanted: Sequence[tuple[int, tuple[int, ...]]], **options: Any) -> dict[Any, np.ndarray]:
        chunks = cut(len(wanted), int(chunk_size(len(wanted), 4, IMAGES_PER_CHUNK)))
        ends = np.cumsum([len(texts) for _, texts in wanted])
        found = pipeline.run(stage, chunks, lambda number: load(*wanted[number]), rows=int(ends[-1]), **options)
        return dict(zip(wanted, np.split(found[:, 0], ends[:-1]), strict=True))

    known = run("pairs", list(dict.fromkeys(item for _, item in asked)), compute=compute)
    scores = np.concatenate([known[item] for _, item in asked])
    near = pairs.near_ties(scores, NEAR_TIE_OF_LOGITS)
    left = list(dict.fromkeys(item for row, item in asked if near[row].any()))
    if left:
        stage = f"recheck-pairs-{choice_key(np.flatnonzero(near))}"
        known |= run(stage, left, compute=partial(compute, exact=True), batch_size=1)
        scores = np.concatenate([known[item] for _, item in asked])
    return Scores(scores, [], {"rechecked_pairs": int(near.sum())})


def score_answers(model: VQAModel, plan: ScoringPlan, pipeline: Pipeline) -> Scores:
    """Scores of all questions of a plan: above 0 for yes, below 0 for no."""
    tokens = prepare_texts(model.prepare_questions, plan.questions.texts)

    def near(scores: np.ndarray) -> np.ndarray:
        return np.abs(scores) <= NEAR_TIE_OF_LOGITS

    return _score_and_recheck(model, plan, pipeline, "questions", plan.questions, tokens, model.answer, near)


def _score_and_recheck(
    model: CrossEncoder | VQAModel,
    plan: ScoringPlan,
    pipeline: Pipeline,
    stage: str,
    pairs: Pairs,
    tokens: Sequence[Sequence[int]],
    score: Callable[..., np.ndarray],
    near_ties: Callable[[np.ndarray], np.ndarray],
) -> Scores:
    def compute(batch: Sequence[_Item], exact: bool = False) -> np.ndarray:
        features = model.encode_images([item.image for item in batch], exact=exact)
        texts = [ids for item in batch for ids in item.texts]
        images = [number for number, item in enumerate(batch) for _ in item.texts]
        scores = np.empty((len(texts), 1))
        # Texts of similar length share a batch, also across images.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        size = 1 if exact else 4 * pipeline.batch_size
        for some in (order[start : start + size] for start in range(0, len(order), size)):
            found = score(features, [images[i] for i in some], [texts[i] for i in some], exact=exact)
            scores[some] = as_column(model.info.name, found, len(some))
        return scores

    def load(number: int) -> Any:
        return pipeline.decoder.prepare(model, plan, number).image

    found = _run(pipeline, stage, pairs, load, tokens, compute)
    scores, pools = pairs.split(found)
    near = near_ties(scores)
    if near.any():
        chosen = Pairs(pairs.texts, pairs.anchor[near], pairs.text[near], np.empty((0, 2), np.int64), [])
        recheck = f"recheck-{stage}-{choice_key(chosen.anchor, chosen.text)}"
        scores[near] = _run(pipeline, recheck, chosen, load, tokens, partial(compute, exact=True), batch_size=1)
    return Scores(scores, pools, text_facts(model.max_tokens, tokens, near))


def _run(
    pipeline: Pipeline,
    stage: str,
    pairs: Pairs,
    load: Callable[[int], Any],
    texts: Sequence[Any],
    compute: Callable[[list[_Item]], np.ndarray],
    *,
    batch_size: int | None = None,
) -> np.ndarray:
    """Scores (p,) of all pairs, in their order, followed by those of the pools; equal pairs are scored once.

    `compute` returns the scores (n, 1), float64, of the texts of a batch of items, one after the other.
    """
    if not len(pairs):
        return np.empty(0)
    items, place = pairs.items(_TEXTS_PER_ITEM)

    def load_item(number: int) -> _Item:
        anchor, own = items[number]
        return _Item(load(anchor), [texts[text] for text in own])

    count = sum(len(own) for _, own in items)
    costs = [IMAGE_COST + len(own) for _, own in items]
    found = pipeline.run(
        stage,
        cut_by_cost(costs, chunk_size(sum(costs), 4 * (IMAGE_COST + 2), IMAGES_PER_CHUNK * (IMAGE_COST + 2))),
        load_item,
        compute,
        batch_size=batch_size,
        rows=count,
    )
    if found.shape != (count, 1):
        raise ModelError(f"the stage {stage} gave {found.shape} scores for {count} pairs")
    return found[place, 0]
