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
from torch.nn.functional import interpolate
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
        """Pixel values (3, height, width), float32; the aspect ratio is kept, so heights and widths differ.

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
        """Patch embeddings of each image."""
        embeddings = model.vilt.embeddings
        states = [_patches(embeddings, self.batch_pixels([image], embeddings)) for image in images]
        mask = [torch.ones(len(rows), dtype=torch.long, device=rows.device) for rows in states]
        return Patches(pad_sequence(states, batch_first=True), pad_sequence(mask, batch_first=True))

    def fuse(
        self, model: Any, seen: Patches, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits of the ranking head, (n,)."""
        patches = seen.mask[rows]
        longest = int(patches.sum(1).max()) if len(rows) else 0
        pooled = model.vilt(
            input_ids=ids,
            attention_mask=mask,
            image_embeds=seen.states[rows, :longest],
            pixel_mask=patches[:, :longest],
        ).pooler_output
        return head_logits(model.rank_output, pooled)[:, 0]


def _patches(embeddings: Any, pixels: torch.Tensor) -> torch.Tensor:
    """The embeddings (patches + 1, d) of one image: ``ViltEmbeddings.visual_embed`` with its patches in order."""
    patches = embeddings.patch_embeddings(pixels)
    side = embeddings.config.image_size // embeddings.config.patch_size
    positions = embeddings.position_embeddings[:, 1:].transpose(1, 2).unflatten(2, (side, side))
    positions = interpolate(positions, size=patches.shape[2:], mode="bilinear", align_corners=True)
    first = embeddings.cls_token + embeddings.position_embeddings[:, :1]
    return torch.cat([first, (patches + positions).flatten(2).transpose(1, 2)], dim=1)[0]


def load(checkpoint: str, options: LoadOptions) -> Vilt:
    """Load a ViLT fine-tuned for retrieval; others lack the ranking head. Raises as `load_checkpoint`."""
    return Vilt(load_checkpoint("vilt", checkpoint, options, _CLASSES))
