"""Scoring by models that read images and captions separately: dual encoders and text-only baselines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...metrics.common.errors import ModelError
from .cache import EmbeddingCache
from .chunks import choice_key, chunk_size, cut, cut_by_cost
from .pipeline import Pipeline
from .plan import ScoringPlan
from .precision import Embeddings, TwoPrecisions, decide, dots
from .protocol import DualEncoder, TextScorer

# In single precision a cosine changes by at most 1e-6 with the batch, so the difference of two by at most 2e-6; twice
# that is re-checked in float64.
NEAR_TIE = 4e-6
IMAGES_PER_CHUNK = 128
_CAPTIONS_PER_CHUNK = 512
_RECHECKED_PER_CHUNK = 16
_TOKENISED_AT_ONCE = 1024
# 2**22 scores, 32 MB in double precision, are computed at a time.
_BLOCK = 2**22

# Prepared captions, by the number of the text.
Tokens = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]


class Scores(NamedTuple):
    """Scores of pairs (p,), float64; of each retrieval set, float32 (images, texts); and counts for the metadata.

    `text_pairs` has the similarities of the pairs of texts (q,), float64.
    """

    pairs: np.ndarray
    pools: list[np.ndarray]
    facts: dict[str, Any]
    text_pairs: np.ndarray = np.empty(0)


def score_by_embeddings(model: DualEncoder, plan: ScoringPlan, pipeline: Pipeline, cache: EmbeddingCache) -> Scores:
    """Scores of all captions of a plan, and similarities of its texts, as dot products of embeddings."""
    pairs, text_pairs = plan.captions, plan.text_pairs
    tokens = prepare_texts(model.prepare_captions, pairs.texts)
    wanted = pairs.images()
    images, captions = embed(model, plan, pipeline, cache, wanted, np.arange(len(pairs.texts)), tokens)
    place = np.zeros(len(plan.images), np.int64)
    place[wanted] = np.arange(len(wanted))
    scores = dots(images[place[pairs.anchor]], captions[pairs.text])
    decided: dict[str, Any] = {}
    if isinstance(model, TwoPrecisions):
        mixed = Embeddings(lambda numbers: images[place[numbers]], captions.__getitem__)
        single = _Encoder(model.precise, plan, pipeline, tokens)
        precise = Embeddings(
            lambda numbers: single.see(numbers, f"float32-images-{choice_key(numbers)}"),
            lambda numbers: single.read(numbers, f"float32-captions-{choice_key(numbers)}"),
        )
        scores, decided = decide(pairs, scores, mixed, precise)
    similarities = dots(captions[text_pairs.anchor], captions[text_pairs.text])
    near, near_texts = pairs.near_ties(scores, NEAR_TIE), text_pairs.near_ties(similarities, NEAR_TIE)
    encoder = _Encoder(model, plan, pipeline, tokens)
    if near.any():
        scores[near] = dots(encoder.recheck_images(pairs.anchor[near]), encoder.recheck_captions(pairs.text[near]))
    if near_texts.any():
        sides = encoder.recheck_captions(np.concatenate([text_pairs.anchor[near_texts], text_pairs.text[near_texts]]))
        similarities[near_texts] = dots(*np.split(sides, 2))
    pools = [
        pool_scores(images[place[pool.images]], _ensembles(captions[pool.texts], pool.prompts)) for pool in pairs.pools
    ]
    facts = text_facts(model.max_tokens, tokens, np.concatenate([near, near_texts])) | cache.facts() | decided
    return Scores(scores, pools, facts, similarities)


def embed(
    model: DualEncoder,
    plan: ScoringPlan,
    pipeline: Pipeline,
    cache: EmbeddingCache,
    images: np.ndarray,
    texts: np.ndarray,
    tokens: Tokens,
) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of length 1 of the images and of the texts (of ``plan.captions``) with these numbers, in their order.

    Args:
        model, plan, pipeline, cache: of the run.
        images, texts: distinct numbers, int64.
        tokens: of each text, by its number, its prepared caption.
    """
    encoder = _Encoder(model, plan, pipeline, tokens)
    text_keys = [hashlib.sha256(plan.captions.texts[number].encode()).hexdigest()[:32] for number in texts]
    image_keys = [plan.images[number] for number in images]
    seen = cache.embed("images", image_keys, lambda left, stage: encoder.see(images[left], stage))
    return seen, cache.embed("captions", text_keys, lambda left, stage: encoder.read(texts[left], stage))


class _Encoder(NamedTuple):
    """Embeds images and texts of a plan, by their numbers; near-ties again in float64."""

    model: DualEncoder
    plan: ScoringPlan
    pipeline: Pipeline
    tokens: Tokens

    def see(self, numbers: np.ndarray, stage: str) -> np.ndarray:
        return self.pipeline.run(
            stage,
            cut(len(numbers), math.ceil(chunk_size(len(numbers), 8, IMAGES_PER_CHUNK))),
            lambda place: self._load_image(int(numbers[place])),
            lambda batch: self._one_row_each(batch, self.model.encode_images(batch)),
        )

    def read(self, numbers: np.ndarray, stage: str) -> np.ndarray:
        return _run_by_length(
            self.pipeline,
            stage,
            [self.tokens[number] for number in numbers.tolist()],
            [self.plan.captions.texts[number] for number in numbers],
            lambda batch: self._one_row_each(batch, self.model.encode_captions(batch)),
            shares_prefixes=getattr(self.model, "shares_prefixes", False),
        )

    def recheck_images(self, numbers: np.ndarray) -> np.ndarray:
        return _recheck(
            self.pipeline,
            "images",
            numbers,
            self._load_image,
            lambda batch: self._one_row_each(batch, self.model.encode_images(batch, exact=True)),
        )

    def recheck_captions(self, numbers: np.ndarray) -> np.ndarray:
        return _recheck(
            self.pipeline,
            "captions",
            numbers,
            self.tokens.__getitem__,
            lambda batch: self._one_row_each(batch, self.model.encode_captions(batch, exact=True)),
        )

    def _load_image(self, number: int) -> Any:
        return self.pipeline.decoder.prepare(self.model, self.plan, number).image

    def _one_row_each(self, batch: Sequence[Any], rows: Any) -> np.ndarray:
        rows = rows.cpu().numpy() if hasattr(rows, "cpu") else rows
        if rows.ndim != 2 or len(rows) != len(batch):
            raise ModelError(f"{self.model.info.name} gave embeddings of shape {rows.shape} for {len(batch)} items")
        return rows


def score_text_only(model: TextScorer, plan: ScoringPlan, pipeline: Pipeline) -> Scores:
    """Scores of all captions of a plan by a model that is given no image."""
    pairs = plan.captions
    tokens = prepare_texts(model.prepare_captions, pairs.texts)

    def rows(batch: Sequence[Any], exact: bool = False) -> np.ndarray:
        return as_column(model.info.name, model.score_captions(batch, exact=exact), len(batch))

    captions = _run_by_length(pipeline, "captions", tokens, pairs.texts, rows)[:, 0]
    scores = captions[pairs.text]
    near = pairs.near_ties(scores, NEAR_TIE, across_images=False)
    if near.any():
        exact = _recheck(pipeline, "captions", pairs.text[near], tokens.__getitem__, partial(rows, exact=True))
        scores[near] = exact[:, 0]
    pools = [
        np.tile(captions[pool.texts].reshape(-1, pool.prompts).mean(axis=1).astype(np.float32), (len(pool.images), 1))
        for pool in pairs.pools
    ]
    return Scores(scores, pools, text_facts(model.max_tokens, tokens, near))


def _run_by_length(
    pipeline: Pipeline,
    stage: str,
    tokens: Sequence[Sequence[int]],
    texts: Sequence[str],
    compute: Callable[[list[Any]], np.ndarray],
    *,
    shares_prefixes: bool = False,
) -> np.ndarray:
    """Rows for texts, in their order, computed in batches of similar length, which have little padding.

    With `shares_prefixes` texts that begin alike are in one batch instead, and a text costs its other tokens alone.
    """
    # The text itself makes the order total.
    by_length = sorted(range(len(tokens)), key=lambda i: (tokens[i] if shares_prefixes else len(tokens[i]), texts[i]))
    costs = np.array([len(tokens[number]) for number in by_length])
    if shares_prefixes:
        ordered = [tokens[number] for number in by_length]
        from ..loading.prompts import common_start  # the families import this module

        shared = [min(common_start(*pair), len(pair[1]) - 1) for pair in pairwise(ordered)]
        costs[1:] -= np.array(shared, costs.dtype)  # of a single text there are none
    each = max(costs.mean(), 1.0) if len(costs) else 1.0
    chunks = cut_by_cost(costs, chunk_size(costs.sum(), 32 * each, _CAPTIONS_PER_CHUNK * each))
    found = pipeline.run(stage, chunks, lambda place: tokens[by_length[place]], compute)
    rows = np.empty_like(found)
    rows[by_length] = found
    return rows


def _recheck(
    pipeline: Pipeline,
    what: str,
    numbers: np.ndarray,
    load: Callable[[int], Any],
    compute: Callable[[list[Any]], np.ndarray],
) -> np.ndarray:
    """Rows for items, by their numbers, which may repeat; each is computed once, in a batch of one, in float64."""
    chosen, place = np.unique(numbers, return_inverse=True)
    stage, chunks = f"recheck-{what}-{choice_key(chosen)}", cut(len(chosen), _RECHECKED_PER_CHUNK)
    return pipeline.run(stage, chunks, lambda i: load(int(chosen[i])), compute, batch_size=1)[place]


def prepare_texts(prepare: Callable[[Sequence[str]], list[list[int]]], texts: Sequence[str]) -> list[list[int]]:
    """The token ids of each text, tokenized in slices: tokenizers allocate much more for a call than the ids."""
    return [ids for some in cut(len(texts), _TOKENISED_AT_ONCE) for ids in prepare(texts[some.start : some.stop])]


def text_facts(limit: int, tokens: Sequence[Sequence[int]], near: np.ndarray) -> dict[str, int]:
    """The number of truncated texts and of pairs re-checked in float64, for the metadata of the predictions."""
    return {"truncated_captions": sum(len(ids) > limit for ids in tokens), "rechecked_pairs": int(near.sum())}


def as_column(model: str, scores: Any, count: int) -> np.ndarray:
    """Scores as float64 (n, 1); `ModelError` if their number is not `count`."""
    column = np.asarray(scores.cpu() if hasattr(scores, "cpu") else scores, np.float64)
    if column.shape != (count,):
        raise ModelError(f"{model} gave {column.shape} scores for {count} captions")
    return column[:, None]


def _ensembles(captions: np.ndarray, prompts: int) -> np.ndarray:
    """The mean directions of every so many consecutive embeddings (Radford et al. 2021, section 3.1.4)."""
    if prompts == 1:
        return captions
    return _directions(_directions(captions.astype(np.float64)).reshape(-1, prompts, captions.shape[1]).mean(axis=1))


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1; one of length 0 stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def pool_scores(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    """All dot products (images, captions), computed in float64 block by block and stored in float32."""
    scores = np.empty((len(images), len(captions)), np.float32)
    transposed = captions.T.astype(np.float64)
    for rows in cut(len(images), max(_BLOCK // max(len(captions), 1), 1)):
        scores[rows.start : rows.stop] = images[rows.start : rows.stop].astype(np.float64) @ transposed
    return scores
