"""ViLT fine-tuned for retrieval: checkpoints of `ViltForImageAndTextRetrieval`, model type ``vilt``.

The score is the logit of the ranking head. Only the patch embeddings are computed without the caption. All patches are
read, in order; `transformers` shuffles them with the global random state and drops some beyond ``max_image_length``.

Source: ViLT (Kim et al., ICML 2021), section 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence
from transformers import ViltForImageAndTextRetrieval

from ..metrics.common.errors import DataError
from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, FusedModel, head_logits

_CLASSES = {"vilt": ViltForImageAndTextRetrieval}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("dandelin/vilt-b32-finetuned-coco", "dandelin/vilt-b32-finetuned-flickr30k")


class Patches(NamedTuple):
    """Patch embeddings (n, patches, d), padded to the longest image, and their attention mask, (n, patches)."""

    states: torch.Tensor
    mask: torch.Tensor


class Vilt(FusedModel):
    """A `ViltForImageAndTextRetrieval` as a cross-encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.max_position_embeddings)

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Return pixel values (3, height, width), float32; the aspect ratio is kept, so heights and widths differ.

        Raises:
            DataError: an image so elongated that its shorter side would be resized to 0 pixels.
        """
        try:
            return super().prepare_image(image)
        except ValueError as error:
            raise DataError(
                f"ViLT cannot resize an image of {image.width} x {image.height} pixels ({error}); pad it to a shape "
                "of at most 1:15"
            ) from error

    def see(self, model: Any, images: Sequence[np.ndarray]) -> Patches:
        """Return patch embeddings of each image."""
        embeddings = model.vilt.embeddings
        states = [_patches(embeddings, self.batch_pixels([image], embeddings)) for image in images]
        mask = [torch.ones(len(rows), dtype=torch.long, device=rows.device) for rows in states]
        return Patches(pad_sequence(states, batch_first=True), pad_sequence(mask, batch_first=True))

    def fuse(
        self, model: Any, features: Patches, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return logits of the ranking head, (n,)."""
        pooled = model.vilt(
            input_ids=ids, attention_mask=mask, image_embeds=features.states[rows], pixel_mask=features.mask[rows]
        ).pooler_output
        return head_logits(model.rank_output, pooled)[:, 0]


def _patches(embeddings: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Return the embeddings (1 + patches, d) of one image, the patches in order."""
    mask = torch.ones_like(pixels[:, 0], dtype=torch.long)
    with torch.random.fork_rng(devices=()):  # the order of the patches is drawn on the CPU
        states, _, (positions, (_, width)) = embeddings.visual_embed(pixels, mask, max_image_length=-1)
    order = (width * positions[0, :, 0] + positions[0, :, 1]).argsort()
    return torch.cat([states[0, :1], states[0, 1:][order]])


def load(checkpoint: str, options: LoadOptions) -> Vilt:
    """Load a ViLT fine-tuned for retrieval; others lack the ranking head. Raises as `load_checkpoint`."""
    return Vilt(load_checkpoint("vilt", checkpoint, options, _CLASSES))
