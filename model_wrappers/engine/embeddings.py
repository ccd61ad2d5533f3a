"""Scoring by models that read images and captions separately: dual encoders and text-only baselines."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from ...metrics.common.errors import ModelError
from .arrays import as_column, check_unit_length
from .gpu_decoding import GpuDecoder
from .loader import Loaded
from .plan import ScoringPlan
from .precision import EmbeddingLookups, TwoPrecisions, decide, dots
from .protocol import DualEncoder, TextScorer
from .stages import Item, StageBatch, Stages, Work
from .store import item_key

# In single precision a cosine changes by at most 1e-6 with the batch, so the difference of two by at most 2e-6; twice
# that is re-checked in float64.
NEAR_TIE = 4e-6
_TOKENISED_AT_ONCE = 1024
# 2**22 scores, 32 MB in double precision, are computed at a time.
_BLOCK = 2**22


class Scores(NamedTuple):
    """Scores of pairs (p,), float64; of each retrieval set, float32 (images, texts); and counts for the metadata.

    `text_pairs` has the similarities of the pairs of texts (q,), float64.
    """

    pairs: np.ndarray
    pools: list[np.ndarray]
    facts: dict[str, Any]
    text_pairs: np.ndarray = np.empty(0)

    @classmethod
    def none(cls) -> Self:
        """Return empty scores, for a shard and for absent tasks."""
        return cls(np.empty(0), [], {})


class Encoder:
    """Embeds images and captions of a plan, by their numbers.

    Args:
        model: the model.
        plan: the plan.
        stages: compute what is not stored yet.
        prefix: of the kinds under which the embeddings are stored, such as "float32-".
        texts: the numbers of the captions that are read; all by default.
    """

    def __init__(
        self,
        model: DualEncoder,
        plan: ScoringPlan,
        stages: Stages,
        *,
        prefix: str = "",
        texts: np.ndarray | None = None,
    ) -> None:
        self.model, self._plan, self._stages = model, plan, stages
        self._prefix, self._derived = prefix, False
        self._decoder: GpuDecoder | None = getattr(model, "decoder", None)
        text_numbers = np.arange(len(plan.captions.texts)) if texts is None else texts
        tokens = prepare_texts(model.prepare_captions, [plan.captions.texts[number] for number in text_numbers])
        self.tokens = dict(zip(text_numbers.tolist(), tokens, strict=True))

    def with_model(self, model: DualEncoder, prefix: str) -> Encoder:
        """Return an encoder that computes what the results of this one leave open, with a model of the same tokens."""
        encoder = copy.copy(self)
        encoder.model, encoder._prefix, encoder._derived = model, prefix, True
        return encoder

    def both(self, images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the embeddings (n, d) of images and (m, d) of captions; raises ModelError if their sizes differ."""
        image_embeddings, caption_embeddings = self.images(images), self.captions(captions)
        widths = [rows.shape[1] for rows in (image_embeddings, caption_embeddings) if len(rows)]
        if len({*widths}) > 1:
            raise ModelError(
                f"{self.model.info.name} embeds images in {widths[0]} dimensions and captions in {widths[1]}; "
                "a dual encoder projects both to one number"
            )
        return image_embeddings, caption_embeddings

    def images(self, indices: np.ndarray) -> np.ndarray:
        """Return the embeddings (n, d) of images."""
        return self._see(indices, f"{self._prefix}images", exact=False)

    def captions(self, indices: np.ndarray) -> np.ndarray:
        """Return the embeddings (n, d) of captions."""
        return self._read(indices, f"{self._prefix}captions", exact=False)

    def exact_images(self, indices: np.ndarray) -> np.ndarray:
        """Return embeddings (n, d) computed one at a time in float64; numbers may repeat."""
        distinct, inverse = np.unique(indices, return_inverse=True)
        return self._see(distinct, "float64-images", exact=True)[inverse]

    def exact_captions(self, indices: np.ndarray) -> np.ndarray:
        """Return embeddings (n, d) computed one at a time in float64; numbers may repeat."""
        distinct, inverse = np.unique(indices, return_inverse=True)
        return self._read(distinct, "float64-captions", exact=True)[inverse]

    def _see(self, indices: np.ndarray, kind: str, *, exact: bool) -> np.ndarray:
        model, decoder = self.model, self._decoder

        def load(item: Item) -> Loaded:
            number = int(indices[item[0]])
            file = self._plan.read_image(number, decoder.load) if decoder else None
            return file or load_image(model, self._plan, number)

        def compute(batch: StageBatch) -> Any:
            images = decoder.images(batch.images) if decoder else batch.images
            return model.encode_images(images, exact=exact)

        keys = [item_key(self._plan.images[number]) for number in indices.tolist()]
        derived = self._derived or exact
        check = partial(check_unit_length, self.model.info.name, "images")
        return self._stages.run(Work(kind, keys, compute, load=load, one_by_one=exact, derived=derived, check=check))

    def _read(self, indices: np.ndarray, kind: str, *, exact: bool) -> np.ndarray:
        texts, tokens = self._plan.captions.texts, [self.tokens[number] for number in indices.tolist()]

        def compute(batch: StageBatch) -> Any:
            return self.model.encode_captions([tokens[item[0]] for item in batch.items], exact=exact)

        keys = [item_key(texts[number]) for number in indices.tolist()]
        items, derived = by_length(tokens), self._derived or exact
        check = partial(check_unit_length, self.model.info.name, "captions")
        return self._stages.run(Work(kind, keys, compute, items, one_by_one=exact, derived=derived, check=check))


def score_by_embeddings(model: DualEncoder, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan, and similarities of its texts, as dot products of embeddings."""
    pairs, text_pairs = plan.captions, plan.text_pairs
    encoder = Encoder(model, plan, stages)
    image_numbers = pairs.images()
    images, captions = encoder.both(image_numbers, np.arange(len(pairs.texts)))
    if stages.shard is not None:
        return Scores.none()
    row_of_image = np.zeros(len(plan.images), np.int64)
    row_of_image[image_numbers] = np.arange(len(image_numbers))
    scores = dots(images[row_of_image[pairs.anchor]], captions[pairs.text])
    similarities = dots(captions[text_pairs.anchor], captions[text_pairs.text])
    facts: dict[str, Any] = {f"cached_{kind}": stages.stored[kind] for kind in ("images", "captions")}
    if isinstance(model, TwoPrecisions):
        mixed = EmbeddingLookups(lambda indices: images[row_of_image[indices]], captions.__getitem__)
        single = encoder.with_model(model.precise, "float32-")
        scores, decided = decide(pairs, scores, mixed, EmbeddingLookups(single.images, single.captions))
        facts |= decided
    near, near_texts = pairs.near_ties(scores, NEAR_TIE), text_pairs.near_ties(similarities, NEAR_TIE)
    facts |= recheck(stages, scores, near, lambda: _exact(encoder, pairs.anchor[near], pairs.text[near]))
    sides = text_pairs.anchor[near_texts], text_pairs.text[near_texts]
    facts |= recheck(stages, similarities, near_texts, lambda: _exact_texts(encoder, *sides))
    pools = [
        pool_scores(images[row_of_image[pool.images]], _ensembles(captions[pool.texts], pool.prompts))
        for pool in pairs.pools
    ]
    tokens = encoder.tokens.values()
    return Scores(scores, pools, facts | text_facts(model.max_tokens, tokens, near, near_texts), similarities)


def _exact(encoder: Encoder, images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    return dots(encoder.exact_images(images), encoder.exact_captions(texts))


def _exact_texts(encoder: Encoder, texts: np.ndarray, compared: np.ndarray) -> np.ndarray:
    return dots(*np.split(encoder.exact_captions(np.concatenate([texts, compared])), 2))


def recheck(stages: Stages, scores: np.ndarray, near: np.ndarray, compute: Callable[[], np.ndarray]) -> dict[str, int]:
    """Replace near-ties among scores by their values in float64.

    If the float64 copy of a model fits nowhere, its scores stay, with a message and a count in the metadata.

    Args:
        stages: of the run.
        scores: (n,), float64; is changed.
        near: mask (n,) of the near-ties.
        compute: returns the scores of the near-ties in float64.

    Returns:
        The number of near-ties that were not re-checked, as ``unchecked_near_ties``, if there are any.
    """
    if not near.any():
        return {}
    try:
        scores[near] = compute()
    except ModelError as error:
        stages.progress.say(f"{near.sum():,} near-ties keep their scores, as float64 is not possible here: {error}")
        return {"unchecked_near_ties": int(near.sum())}
    return {}


def score_text_only(model: TextScorer, plan: ScoringPlan, stages: Stages) -> Scores:
    """Return scores of all captions of a plan by a model that is given no image."""
    pairs = plan.captions
    tokens = prepare_texts(model.prepare_captions, pairs.texts)

    def run(indices: np.ndarray, kind: str, *, exact: bool = False) -> np.ndarray:
        ids = [tokens[number] for number in indices.tolist()]

        def compute(batch: StageBatch) -> np.ndarray:
            scores = model.score_captions([ids[item[0]] for item in batch.items], exact=exact)
            return as_column(model.info.name, scores, len(batch.items))

        keys = [item_key(pairs.texts[number]) for number in indices.tolist()]
        return stages.run(Work(kind, keys, compute, by_length(ids), one_by_one=exact, derived=exact))

    def exact_scores() -> np.ndarray:
        distinct, inverse = np.unique(pairs.text[near], return_inverse=True)
        return run(distinct, "float64-captions", exact=True)[inverse, 0]

    rows = run(np.arange(len(tokens)), "captions")
    if stages.shard is not None:
        return Scores.none()
    captions = rows[:, 0]
    scores = captions[pairs.text]
    near = pairs.near_ties(scores, NEAR_TIE, across_images=False)
    facts = recheck(stages, scores, near, exact_scores)
    pools = [
        np.tile(captions[pool.texts].reshape(-1, pool.prompts).mean(axis=1).astype(np.float32), (len(pool.images), 1))
        for pool in pairs.pools
    ]
    return Scores(scores, pools, facts | text_facts(model.max_tokens, tokens, near))


def load_image(model: Any, plan: ScoringPlan, number: int) -> Loaded:
    """Decode image number `number` of a plan and prepare it for a model; raises as `ScoringPlan.open_image`."""
    image = plan.open_image(number)
    return Loaded(model.prepare_image(image), image.size)


def by_length(tokens: Sequence[Sequence[int]]) -> Callable[[np.ndarray], Sequence[Item]]:
    """Return a division into items, for `Work`, that puts texts of similar length together, the longest first.

    So batches have little padding, and a batch that is too large for the memory fails at once.
    """

    def items(missing: np.ndarray) -> Sequence[Item]:
        order = sorted(missing.tolist(), key=lambda position: len(tokens[position]), reverse=True)
        return list(np.array(order, np.int64)[:, None])

    return items


def prepare_texts(prepare: Callable[[Sequence[str]], list[list[int]]], texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each text, tokenized in slices: tokenizers allocate much more for a call than the ids."""
    starts = range(0, len(texts), _TOKENISED_AT_ONCE)
    return [ids for start in starts for ids in prepare(texts[start : start + _TOKENISED_AT_ONCE])]


def text_facts(limit: int, tokens: Any, *near: np.ndarray) -> dict[str, int]:
    """Return the number of truncated texts and of near-ties, for the metadata of the predictions."""
    return {
        "truncated_captions": sum(len(ids) > limit for ids in tokens),
        "rechecked_pairs": sum(int(mask.sum()) for mask in near),
    }


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
