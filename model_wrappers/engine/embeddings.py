"""Scoring by models that read images and captions separately: dual encoders and text-only baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...metrics.common.errors import ModelError
from .arrays import as_column, check_unit_length
from .gpu_decoding import GpuDecoder
from .loader import Loaded
from .plan import ScoringPlan
from .precision import EmbeddingLookups, TwoPrecisions, decide
from .protocol import DualEncoder, TextScorer
from .stages import EXACT, SINGLE, Item, Stages, Work
from .store import item_key

# In single precision a cosine changes by at most 1e-6 with the batch, so the difference of two by at most 2e-6; twice
# that is re-checked in float64.
NEAR_TIE = 4e-6
_TOKENISED_AT_ONCE = 1024
# 2**22 scores, 32 MB in double precision, are computed at a time.
_BLOCK = 2**22


class Scores(NamedTuple):
    """Scores of pairs (p,), float64; of each retrieval set, float32 (images, texts); and counts for the metadata.

    `text_pairs` has the similarities of the pairs of texts (q,), float64. All are empty by default; a shard returns
    them so.
    """

    pairs: np.ndarray = np.empty(0)
    pools: Sequence[np.ndarray] = ()
    facts: Mapping[str, Any] = MappingProxyType({})
    text_pairs: np.ndarray = np.empty(0)


def lookups(
    model: DualEncoder,
    plan: ScoringPlan,
    stages: Stages,
    tokens: Sequence[Sequence[int]],
    prefix: str = "",
    decoder: GpuDecoder | None = None,
) -> EmbeddingLookups:
    """Return look-ups of embeddings, which compute those that are not stored; numbers may repeat.

    Args:
        model: the model.
        plan: the plan.
        stages: compute what is not stored yet.
        tokens: the token ids of each text of the plan's captions.
        prefix: of the kinds under which the embeddings are stored; `EXACT` computes them one at a time in float64.
        decoder: decodes JPEG files; None for `prepare_image` alone.
    """
    is_exact = prefix == EXACT

    def images(numbers: np.ndarray) -> np.ndarray:
        distinct, inverse = np.unique(numbers, return_inverse=True)

        def load(item: Item) -> Loaded:
            number = int(distinct[item[0]])
            file = decoder and plan.read_image(number, decoder.load)
            return file or plan.load(number, model.prepare_image)

        def compute(_: Any, images: list[Any], __: Any) -> Any:
            return model.encode_images(decoder.images(images) if decoder else images, exact=is_exact)

        keys = [item_key(plan.images[number]) for number in distinct.tolist()]
        check = partial(check_unit_length, model.info.name, "images")
        return stages.run(Work(f"{prefix}images", keys, compute, load=load, check=check))[inverse]

    def texts(numbers: np.ndarray) -> np.ndarray:
        read = partial(model.encode_captions, exact=is_exact)
        check = partial(check_unit_length, model.info.name, "captions")
        return _of_captions(plan, stages, tokens, numbers, f"{prefix}captions", read, check)

    return EmbeddingLookups(images, texts)


def score_by_embeddings(model: DualEncoder, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan, and similarities of its texts, as dot products of embeddings.

    Raises:
        ModelError: image and caption embeddings differ in size.
    """
    pairs, text_pairs = plan.captions, plan.text_pairs
    tokens = prepare_texts(model.prepare_captions, pairs.texts)
    decoder = getattr(model, "decoder", None)
    computed, image_numbers = lookups(model, plan, stages, tokens, decoder=decoder), pairs.images()
    images, captions = computed.images(image_numbers), computed.texts(np.arange(len(pairs.texts)))
    if stages.shard is not None:
        return Scores()
    if len(images) and images.shape[1] != captions.shape[1]:
        raise ModelError(
            f"{model.info.name} embeds images in {images.shape[1]} dimensions and captions in {captions.shape[1]}; "
            "a dual encoder projects both to one number"
        )
    row_of_image = np.zeros(len(plan.images), np.int64)
    row_of_image[image_numbers] = np.arange(len(image_numbers))
    stored = EmbeddingLookups(lambda numbers: images[row_of_image[numbers]], captions.__getitem__)
    scores = stored.score(pairs)
    similarities = EmbeddingLookups(stored.texts, stored.texts).score(text_pairs)
    facts: dict[str, Any] = {f"cached_{kind}": stages.counts[kind][1] for kind in ("images", "captions")}
    if isinstance(model, TwoPrecisions):
        precise = lookups(model.precise, plan, stages, tokens, SINGLE, decoder)
        scores, decided = decide(pairs, scores, stored, precise)
        facts |= decided
    exact = lookups(model, plan, stages, tokens, EXACT, decoder)
    near, near_texts = pairs.near_ties(scores, NEAR_TIE), text_pairs.near_ties(similarities, NEAR_TIE)
    of_pairs = recheck(stages, scores, near, lambda: exact.score(pairs, near))
    of_texts = EmbeddingLookups(exact.texts, exact.texts)
    of_text_pairs = recheck(stages, similarities, near_texts, lambda: of_texts.score(text_pairs, near_texts))
    pools = [
        pool_scores(stored.images(pool.images), _ensembles(captions[pool.texts], pool.prompts)) for pool in pairs.pools
    ]
    return Scores(
        scores, pools, add_counts(facts, of_pairs, of_text_pairs, count_truncated(model, tokens)), similarities
    )


def score_text_only(model: TextScorer, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a model that is given no image."""
    pairs = plan.captions
    tokens = prepare_texts(model.prepare_captions, pairs.texts)

    def run(numbers: np.ndarray, kind: str) -> np.ndarray:
        def read(texts: Sequence[Sequence[int]]) -> np.ndarray:
            return as_column(model.info.name, model.score_captions(texts, exact=kind.startswith(EXACT)), len(texts))

        return _of_captions(plan, stages, tokens, numbers, kind, read)

    rows = run(np.arange(len(tokens)), "captions")
    if stages.shard is not None:
        return Scores()
    captions = rows[:, 0]
    scores = captions[pairs.text]
    near = pairs.near_ties(scores, NEAR_TIE, across_images=False)
    facts = recheck(stages, scores, near, lambda: run(pairs.text[near], f"{EXACT}captions")[:, 0])
    pools = [
        np.tile(captions[pool.texts].reshape(-1, pool.prompts).mean(axis=1).astype(np.float32), (len(pool.images), 1))
        for pool in pairs.pools
    ]
    return Scores(scores, pools, add_counts(facts, count_truncated(model, tokens)))


def _of_captions(
    plan: ScoringPlan,
    stages: Stages,
    tokens: Sequence[Sequence[int]],
    numbers: np.ndarray,
    kind: str,
    read: Callable[[Sequence[Sequence[int]]], Any],
    check: Callable[[np.ndarray], None] | None = None,
) -> np.ndarray:
    """Return the rows (n, width) that `read` gives for texts of the plan's captions, by their numbers (n,).

    Texts of similar length share a batch, the longest first: batches have little padding, and one that is too large for
    the memory fails at once.
    """
    distinct, inverse = np.unique(numbers, return_inverse=True)
    read_tokens = [tokens[number] for number in distinct.tolist()]

    def items(missing: np.ndarray) -> list[Item]:
        order = sorted(missing.tolist(), key=lambda position: len(read_tokens[position]), reverse=True)
        return list(np.array(order, np.int64)[:, None])

    def compute(batch: Sequence[Item], *_: Any) -> Any:
        return read([read_tokens[item[0]] for item in batch])

    keys = [item_key(plan.captions.texts[number]) for number in distinct.tolist()]
    return stages.run(Work(kind, keys, compute, items, check=check))[inverse]


def recheck(stages: Stages, scores: np.ndarray, near: np.ndarray, compute: Callable[[], np.ndarray]) -> dict[str, int]:
    """Replace near-ties among scores by their values in float64.

    If the float64 copy of a model fits nowhere, its scores stay, with a message and a count in the metadata.

    Args:
        stages: of the run.
        scores: (n,), float64; is changed.
        near: mask (n,) of the near-ties.
        compute: returns the scores of the near-ties in float64.

    Returns:
        The number of near-ties, and of those that were not re-checked if there are any (``unchecked_near_ties``).
    """
    facts = {"rechecked_pairs": int(near.sum())}
    try:
        if near.any():
            scores[near] = compute()
    except ModelError as error:
        stages.progress.say(f"{near.sum():,} near-ties keep their scores, as float64 is not possible here: {error}")
        facts["unchecked_near_ties"] = int(near.sum())
    return facts


def prepare_texts(prepare: Callable[[Sequence[str]], list[list[int]]], texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each text, tokenized in slices: tokenizers allocate much more for a call than the ids."""
    starts = range(0, len(texts), _TOKENISED_AT_ONCE)
    return [ids for start in starts for ids in prepare(texts[start : start + _TOKENISED_AT_ONCE])]


def count_truncated(model: Any, tokens: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the number of texts that are longer than a model reads, for the metadata of the predictions."""
    return {"truncated_captions": sum(len(ids) > model.max_tokens for ids in tokens)}


def add_counts(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of the counts of each name, sorted by name, for the metadata."""
    return {name: sum(part.get(name, 0) for part in parts) for name in sorted({*chain(*parts)})}


def _ensembles(captions: np.ndarray, prompts: int) -> np.ndarray:
    """Return the mean direction of every `prompts` consecutive embeddings (Radford et al. 2021, section 3.1.4)."""
    if prompts == 1:
        return captions
    return _directions(_directions(captions.astype(np.float64)).reshape(-1, prompts, captions.shape[1]).mean(axis=1))


def _directions(vectors: np.ndarray) -> np.ndarray:
    """Return vectors scaled to length 1; zero vectors are not changed."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def pool_scores(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    """Return all dot products (images, captions), computed in float64 block by block and stored in float32."""
    scores = np.empty((len(images), len(captions)), np.float32)
    transposed = captions.T.astype(np.float64)
    rows = max(_BLOCK // max(len(captions), 1), 1)
    for start in range(0, len(images), rows):
        scores[start : start + rows] = images[start : start + rows].astype(np.float64) @ transposed
    return scores
