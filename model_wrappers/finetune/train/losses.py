"""The losses of NegCLIP and of fine-tuning on hard negatives and hard positives, as pure functions of embeddings.

All take embeddings of unit length, a row for each example, and the scale (the inverse temperature, not its logarithm),
and return a scalar in nats to minimise. Logits are computed in float32 at least, under autocast too: a logit near 100
has steps of 0.5 in bfloat16. Losses are of the whole batch: with several processes gather the rows first
(`gather_embeddings`).

Sources: ARO is Yuksekgonul et al. (2023), section 4; *Hard Positives* is Kamath et al. (2024), section 5.1, 5.3 and
appendix D.1. The latter follows SVLC (Doveh et al., 2023, "Teaching Structured Vision & Language Concepts to Vision &
Language Models") and gives no formulas; where it leaves something open the loss follows SVLC's released code
(SivanDoveh/TSVLC at 19168b3, ``src/open_clip/loss.py``), and the docstring says so.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ....metrics.common.errors import ScoresError


class Embeddings(NamedTuple):
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


class Weights(NamedTuple):
    """Weights of the losses in their sum, any number; a loss of weight 0 is not computed.

    CLIP is the default, NegCLIP is ``Weights(contrastive=0, negclip=1)``, HN ``Weights(hard_negative=1)`` and HP+HN
    ``Weights(hard_negative=1, hard_positive=1)``, where *Hard Positives* 5.3 varies ``hard_negative`` from 0 to 1.
    """

    contrastive: float = 1.0
    negclip: float = 0.0
    hard_negative: float = 0.0
    hard_positive: float = 0.0


def contrastive(images: Tensor, captions: Tensor, scale: Tensor | float, negatives: Tensor | None = None) -> Tensor:
    """CLIP's symmetric cross-entropy, or with negatives NegCLIP's (ARO, section 4).

    The mean of two cross-entropies: of each image over all captions, and of each caption over all images. Negative
    captions are further columns of the first only, as no image is theirs.

    Args:
        images: (n, d), n at least 1.
        captions: (n, d), row by row those of the images.
        scale: the inverse temperature.
        negatives: (m, d), any number of captions that are true of no image; each counts for every image.

    Raises:
        ScoresError: shapes that do not match.
    """
    _check(images, captions=captions)
    if negatives is None:
        negatives = captions[:0]
    elif negatives.ndim != 2 or negatives.shape[1] != images.shape[1]:
        raise ScoresError(f"negatives must be (m, {images.shape[1]}), as wide as the images; got {_shape(negatives)}")
    n = len(images)
    logits = _logits(images, torch.cat([captions, negatives]), scale)
    target = torch.arange(n, device=logits.device)
    return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits[:, :n].T, target)) / 2


def hard_negative(
    images: Tensor, captions: Tensor, negatives: Tensor, scale: Tensor | float, present: Tensor | None = None
) -> Tensor:
    """The hard-negative loss: each image's cross-entropy over its own caption and its own negative.

    "A hard negative loss on each image with its original and negative captions" (*Hard Positives*, D.1). The mean is
    over the examples that have a negative, as in SVLC's code, and 0 with a gradient of 0 where none has.

    Args:
        images: (n, d), n at least 1.
        captions: (n, d), the images' own.
        negatives: (n, d), a negative of each caption.
        scale: the inverse temperature.
        present: bool (n,), which examples have a negative; None for all.

    Raises:
        ScoresError: shapes that do not match.
    """
    _check(images, present, captions=captions, negatives=negatives)
    images, captions, negatives = _chosen(present, images, captions, negatives)
    dtype = _precise(images)
    gaps = scale * (images.to(dtype) * (captions.to(dtype) - negatives.to(dtype))).sum(dim=1)
    return -functional.logsigmoid(gaps).sum() / max(len(gaps), 1)


def hard_positive(
    images: Tensor, captions: Tensor, positives: Tensor, scale: Tensor | float, present: Tensor | None = None
) -> Tensor:
    """The hard-positive loss, SVLC's analogy loss: cross-entropies of images and captions over the positives.

    "A hard positive loss (called an analogy loss in SVLC) on each image with its original and positive captions" (*Hard
    Positives*, D.1). The paper gives no formula; this one is the default of SVLC's code: the mean of two
    cross-entropies over the batch's positives, of each image and of each original caption, in these directions only.
    It differs in two points: the batch is that of all processes, where SVLC's code uses each one's own; and examples
    without a positive, which SVLC does not have, count neither as row nor as column, so that the loss is 0 with a
    gradient of 0 where none has one.

    Args:
        images: (n, d), n at least 1.
        captions: (n, d), the images' own.
        positives: (n, d), a hard positive of each caption.
        scale: the inverse temperature, of both cross-entropies.
        present: bool (n,), which examples have a positive; None for all.

    Raises:
        ScoresError: shapes that do not match.
    """
    _check(images, present, captions=captions, positives=positives)
    images, captions, positives = _chosen(present, images, captions, positives)
    target = torch.arange(len(positives), device=positives.device)
    summed = [
        functional.cross_entropy(_logits(anchors, positives, scale), target, reduction="sum")
        for anchors in (images, captions)
    ]
    return (summed[0] + summed[1]) / 2 / max(len(positives), 1)


def total(
    embeddings: Embeddings, scale: Tensor | float, weights: Weights | None = None
) -> tuple[Tensor, dict[str, float]]:
    """The weighted sum of the losses, and each loss by name before its weight.

    The sum of *Hard Positives* has CLIP's contrastive loss ("a contrastive loss across the batch, as in CLIP", D.1),
    without negatives among its columns. SVLC's code has them by default, which is ``Weights(contrastive=0, negclip=1,
    hard_negative=…)``.

    Args:
        embeddings: of the whole batch.
        scale: the inverse temperature.
        weights: of the losses; None for CLIP's alone.

    Raises:
        ScoresError: all weights are 0, embeddings that a loss needs are None, or shapes do not match.
    """
    images, captions, negatives, positives, has_negative, has_positive = embeddings
    weights = weights or Weights()
    parts: dict[str, Tensor] = {}
    if weights.contrastive != 0:
        parts["contrastive"] = contrastive(images, captions, scale)
    if weights.negclip != 0:
        negatives = _needed(negatives, "negclip", "negatives")
        _check(images, has_negative, negatives=negatives)
        parts["negclip"] = contrastive(images, captions, scale, *_chosen(has_negative, negatives))
    if weights.hard_negative != 0:
        negatives = _needed(negatives, "hard_negative", "negatives")
        parts["hard_negative"] = hard_negative(images, captions, negatives, scale, has_negative)
    if weights.hard_positive != 0:
        positives = _needed(positives, "hard_positive", "positives")
        parts["hard_positive"] = hard_positive(images, captions, positives, scale, has_positive)
    if not parts:
        raise ScoresError("all weights are 0; give one loss another weight")
    loss = torch.stack([getattr(weights, name) * part for name, part in parts.items()]).sum()
    values = torch.stack([part.detach() for part in parts.values()]).tolist()
    return loss, dict(zip(parts, values, strict=True))


def _precise(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _logits(rows: Tensor, columns: Tensor, scale: Tensor | float) -> Tensor:
    """Scaled similarities (rows, columns)."""
    with torch.autocast(rows.device.type, enabled=False):
        return scale * (rows.to(_precise(rows)) @ columns.to(_precise(rows)).T)


def _chosen(present: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The rows that are present, selected before any arithmetic: a NaN in another row would reach the gradient."""
    return tensors if present is None else tuple(tensor[present] for tensor in tensors)


def _needed(tensor: Tensor | None, loss: str, name: str) -> Tensor:
    if tensor is None:
        raise ScoresError(f"the loss {loss} has a weight, but the batch has no {name}; add them, or give it weight 0")
    return tensor


def _check(images: Tensor, present: Tensor | None = None, **others: Tensor) -> None:
    """Check that the other tensors have the images' shape, and the mask a bool for each image."""
    if images.ndim != 2 or not len(images):
        raise ScoresError(f"images must be (n, d) with n at least 1; got {_shape(images)}")
    for name, tensor in others.items():
        if tensor.shape != images.shape:
            raise ScoresError(f"{name} must have the images' shape {_shape(images)}; got {_shape(tensor)}")
    if present is not None and (present.dtype != torch.bool or present.shape != images.shape[:1]):
        raise ScoresError(f"the mask must be bool ({len(images)},); got {present.dtype} {_shape(present)}")


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
