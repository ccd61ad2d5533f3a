"""The losses of NegCLIP and of fine-tuning on hard negatives and hard positives, as pure functions of embeddings.

All losses take embeddings of unit length and the scale (the inverse temperature, not its logarithm), and return a
scalar in nats to minimise. Logits are computed in float32 at least, under autocast too: a logit near 100 has steps of
0.5 in bfloat16. Losses cover the whole batch: with several processes gather the rows first (`gather_embeddings`).

Sources: ARO is Yuksekgonul et al. (2023), section 4; *Hard Positives* is Kamath et al. (2024), section 5.1, 5.3 and
appendix D.1. The latter follows SVLC (Doveh et al., 2023, "Teaching Structured Vision & Language Concepts to Vision &
Language Models") and gives no formulas; details that it leaves open follow SVLC's released code (SivanDoveh/TSVLC at
19168b3, ``src/open_clip/loss.py``), and the docstrings name them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class BatchEmbeddings(NamedTuple):
    """Unit embeddings (n, d) of a batch of n examples, and masks of the examples that have a negative or a positive.

    Rows of ``negatives`` where ``has_negative`` (n,) is False are ignored; likewise for positives. Without a mask every
    example has one; None for embeddings that the losses do not need.
    """

    images: Tensor
    captions: Tensor
    negatives: Tensor | None = None
    positives: Tensor | None = None
    has_negative: Tensor | None = None
    has_positive: Tensor | None = None


class LossWeights(NamedTuple):
    """Weights of the losses in their sum, any number; a loss of weight 0 is not computed.

    CLIP is the default, NegCLIP is ``LossWeights(contrastive=0, negclip=1)``, HN ``LossWeights(hard_negative=1)`` and
    HP+HN ``LossWeights(hard_negative=1, hard_positive=1)``, where *Hard Positives* 5.3 varies ``hard_negative`` from 0
    to 1.
    """

    contrastive: float = 1.0
    negclip: float = 0.0
    hard_negative: float = 0.0
    hard_positive: float = 0.0


def contrastive(batch: BatchEmbeddings, scale: Tensor | float) -> Tensor:
    """CLIP's: the mean of the cross-entropies of each image over all captions, and of each caption over all images."""
    return _symmetric(batch, batch.captions[:0], scale)


def negclip(batch: BatchEmbeddings, scale: Tensor | float) -> Tensor:
    """Compute NegCLIP's loss (ARO, section 4): CLIP's loss, with all negatives as further columns for each image.

    Negatives are not part of the captions' cross-entropy, because no image belongs to them.
    """
    return _symmetric(batch, _present(batch, "negatives")[2], scale)


def hard_negative(batch: BatchEmbeddings, scale: Tensor | float) -> Tensor:
    """Compute the hard-negative loss: each image's cross-entropy over its own caption and its own negative.

    "A hard negative loss on each image with its original and negative captions" (*Hard Positives*, D.1). The mean is
    over the examples that have a negative, as in SVLC's code, and 0 with a gradient of 0 where none has.
    """
    images, captions, negatives = _present(batch, "negatives")
    dtype = _precise(images)
    gaps = scale * (images.to(dtype) * (captions.to(dtype) - negatives.to(dtype))).sum(dim=1)
    return -functional.logsigmoid(gaps).sum() / max(len(gaps), 1)


def hard_positive(batch: BatchEmbeddings, scale: Tensor | float) -> Tensor:
    """Compute the hard-positive loss, SVLC's analogy loss: cross-entropies of images and captions over the positives.

    "A hard positive loss (called an analogy loss in SVLC) on each image with its original and positive captions" (*Hard
    Positives*, D.1). The paper gives no formula; this one is the default of SVLC's code: the mean of two
    cross-entropies over the batch's positives, of each image and of each original caption, in these directions only,
    both scaled. It differs in two points: the batch spans all processes, where SVLC's code uses each process's own;
    and examples without a positive, which SVLC does not have, count neither as row nor as column, so that the loss is 0
    with a gradient of 0 where none has one.
    """
    images, captions, positives = _present(batch, "positives")
    target = torch.arange(len(positives), device=positives.device)
    summed = [
        functional.cross_entropy(_logits(anchors, positives, scale), target, reduction="sum")
        for anchors in (images, captions)
    ]
    return (summed[0] + summed[1]) / 2 / max(len(positives), 1)


_LOSSES: Mapping[str, Callable[[BatchEmbeddings, Tensor | float], Tensor]] = {
    "contrastive": contrastive,
    "negclip": negclip,
    "hard_negative": hard_negative,
    "hard_positive": hard_positive,
}


def total(embeddings: BatchEmbeddings, scale: Tensor | float, weights: LossWeights) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted sum of the losses, and each unweighted loss by name.

    The sum of *Hard Positives* has CLIP's contrastive loss ("a contrastive loss across the batch, as in CLIP", D.1),
    without negatives among its columns. SVLC's code has them by default, which is ``LossWeights(contrastive=0,
    negclip=1, hard_negative=…)``.

    Args:
        embeddings: the embeddings of the whole batch, with those that the losses need.
        scale: the inverse temperature.
        weights: the weights of the losses, of which one at least is not 0.
    """
    parts = {name: loss(embeddings, scale) for name, loss in _LOSSES.items() if getattr(weights, name)}
    value = torch.stack([getattr(weights, name) * part for name, part in parts.items()]).sum()
    values = torch.stack([part.detach() for part in parts.values()]).tolist()
    return value, dict(zip(parts, values, strict=True))


def _symmetric(batch: BatchEmbeddings, negatives: Tensor, scale: Tensor | float) -> Tensor:
    """Return the mean of both cross-entropies, with negatives (m, d) as further columns for the images."""
    n = len(batch.images)
    logits = _logits(batch.images, torch.cat([batch.captions, negatives]), scale)
    target = torch.arange(n, device=logits.device)
    return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits[:, :n].T, target)) / 2


def _precise(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _logits(rows: Tensor, columns: Tensor, scale: Tensor | float) -> Tensor:
    """Return scaled similarities (rows, columns)."""
    with torch.autocast(rows.device.type, enabled=False):
        return scale * (rows.to(_precise(rows)) @ columns.to(_precise(rows)).T)


def _present(batch: BatchEmbeddings, kind: str) -> list[Tensor]:
    """Return images, captions and embeddings of the kind, for the examples that have it.

    Rows are selected before any arithmetic, because a NaN in another row would reach the gradient.
    """
    mask = getattr(batch, f"has_{kind[:-1]}")
    return [rows if mask is None else rows[mask] for rows in (batch.images, batch.captions, getattr(batch, kind))]
