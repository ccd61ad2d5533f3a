"""Large retrieval sets of models that read image and caption together: only what embeddings rank first is matched.

As the authors of ALBEF, BLIP and X-VLM evaluate retrieval, and ARO after them: the contrastive head of the same
checkpoint ranks all captions of an image and all images of a caption, and the fused score orders the first k of them.
A pair is matched here if it is among the first k on either side, since one matrix of scores serves both directions;
every other pair ranks behind all of these, by its cosine. Where k is not less than the images or the captions, all
pairs are matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...metrics.common.errors import ModelError
from .embeddings import Encoder, pool_scores
from .plan import Pairs, RetrievalSet, ScoringPlan
from .protocol import Reranker
from .stages import Stages


class Shortlist(NamedTuple):
    """The pairs of a retrieval set to match: their places (n,) in its matrix of cosines (images, captions)."""

    cosines: np.ndarray
    images: np.ndarray
    captions: np.ndarray

    def ranked(self, matched: np.ndarray) -> np.ndarray:
        """Return scores (images, captions), float32: matched pairs (n,) rank first, then all others by cosine."""
        # Cosines lie in [-1, 1].
        scores = self.cosines.astype(np.float64) + (matched.min() - 3)
        scores[self.images, self.captions] = matched
        return scores.astype(np.float32)


def shortlists(model: Reranker, plan: ScoringPlan, stages: Stages) -> list[Shortlist | None]:
    """Return for each retrieval set of a plan the pairs to match, or None for all.

    Raises:
        ModelError: the run is a shard, which does not know the cosines of the others.
    """
    pools = plan.captions.pools
    large = [pool for pool in pools if _is_large(pool, model.candidates)]
    if not large:
        return [None] * len(pools)
    if stages.shard is not None:
        raise ModelError(
            f"{model.info.name} ranks retrieval in two stages, which shards and the engine ray cannot share; run it in "
            "one place, or set candidates=all"
        )
    images = np.unique(np.concatenate([pool.images for pool in large]))
    texts = np.unique(np.concatenate([pool.texts for pool in large]))
    encoder = Encoder(model.first_stage, plan, stages, prefix="first-", texts=texts)
    image_embeddings, caption_embeddings = encoder.both(images, texts)

    def shortlist(pool: RetrievalSet) -> Shortlist:
        cosines = pool_scores(
            image_embeddings[np.searchsorted(images, pool.images)],
            caption_embeddings[np.searchsorted(texts, pool.texts)],
        )
        return Shortlist(cosines, *np.nonzero(_first(cosines, model.candidates)))

    return [shortlist(pool) if _is_large(pool, model.candidates) else None for pool in pools]


def matched_pairs(pairs: Pairs, lists: Sequence[Shortlist | None]) -> Pairs:
    """Return the pairs, followed by the pairs of the shortlists, with the retrieval sets that have no shortlist."""
    reranked = [(pool, shortlist) for pool, shortlist in zip(pairs.pools, lists, strict=True) if shortlist is not None]
    anchor = [pairs.anchor, *(pool.images[shortlist.images] for pool, shortlist in reranked)]
    text = [pairs.text, *(pool.texts[shortlist.captions] for pool, shortlist in reranked)]
    complete = [pool for pool, shortlist in zip(pairs.pools, lists, strict=True) if shortlist is None]
    return Pairs(pairs.texts, np.concatenate(anchor), np.concatenate(text), pairs.shapes, complete)


def _is_large(pool: RetrievalSet, candidates: int) -> bool:
    # A caption that is a mean of prompts has no fused score.
    return 0 < candidates < min(len(pool.images), len(pool.texts)) and pool.prompts == 1


def _first(scores: np.ndarray, count: int) -> np.ndarray:
    """Return a mask of the `count` highest scores of each row and of each column; ties are broken arbitrarily."""
    mask = np.zeros(scores.shape, bool)
    np.put_along_axis(mask, np.argpartition(-scores, count, axis=1)[:, :count], True, axis=1)
    np.put_along_axis(mask, np.argpartition(-scores, count, axis=0)[:count], True, axis=0)
    return mask
