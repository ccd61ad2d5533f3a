"""ViLT fine-tuned for retrieval: checkpoints of `ViltForImageAndTextRetrieval`, model type ``vilt``.

The score is the logit of the ranking head. All but the patch embeddings needs the caption. All patches are read, in
order; `transformers` shuffles them with the global random state, and where ``max_image_length`` is set leaves some out.

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
from .engine.protocol import LoadOptions, choose
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, ImageTextModel, chosen_rows, float64, head_logits, precise_convolutions

_CLASSES = {"vilt": ViltForImageAndTextRetrieval}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("dandelin/vilt-b32-finetuned-coco", "dandelin/vilt-b32-finetuned-flickr30k")


class Patches(NamedTuple):
    """Patch embeddings (n, patches, d) of images of unlike sizes, and which of them there are, (n, patches)."""

    states: torch.Tensor
    mask: torch.Tensor


class Vilt(ImageTextModel):
    """A `ViltForImageAndTextRetrieval` as a cross-encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.max_position_embeddings)

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Pixel values (3, height, width), float32; the shape of the image is kept, so heights and widths differ.

        Raises:
            DataError: an image so long and thin that ViLT's resizing leaves nothing of its shorter side.
        """
        try:
            return super().prepare_image(image)
        except ValueError as error:
            raise DataError(
                f"ViLT cannot resize an image of {image.width} x {image.height} pixels ({error}); pad it to a shape "
                "of at most 1:15"
            ) from error

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> Patches:
        """Patch embeddings, padded to the longest."""
        embeddings = self.chosen(exact).vilt.embeddings
        with precise_convolutions():
            states = [_patches(embeddings, self._pixels([image], embeddings)) for image in images]
        mask = [torch.ones(len(rows), dtype=torch.long, device=rows.device) for rows in states]
        return Patches(pad_sequence(states, batch_first=True), pad_sequence(mask, batch_first=True))

    @torch.inference_mode()
    def match(
        self, features: Patches, images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Scores (n,), float64: logits of the ranking head."""
        model = self.chosen(exact)
        ids, mask = self._tokens(captions, model)
        rows = chosen_rows(images, features.states)
        patches = features.mask[rows]
        longest = int(patches.sum(1).max()) if len(rows) else 0
        pooled = model.vilt(
            input_ids=ids,
            attention_mask=mask,
            image_embeds=features.states[rows, :longest],
            pixel_mask=patches[:, :longest],
        ).pooler_output
        return float64(head_logits(model.rank_output, pooled)[:, 0])


def _patches(embeddings: Any, pixels: torch.Tensor) -> torch.Tensor:
    """The embeddings (patches + 1, d) of one image: ``ViltEmbeddings.visual_embed`` with its patches in order."""
    patches = embeddings.patch_embeddings(pixels)
    side = embeddings.config.image_size // embeddings.config.patch_size
    positions = embeddings.position_embeddings[:, 1:].transpose(1, 2).unflatten(2, (side, side))
    positions = interpolate(positions, size=patches.shape[2:], mode="bilinear", align_corners=True)
    first = embeddings.cls_token + embeddings.position_embeddings[:, :1]
    return torch.cat([first, (patches + positions).flatten(2).transpose(1, 2)], dim=1)[0]


def load(checkpoint: str, options: LoadOptions) -> Vilt:
    """Load a ViLT checkpoint fine-tuned for retrieval.

    Raises:
        ModelError: see `load_checkpoint`; a ViLT for questions or masked words lacks the ranking head.
        UnknownNameError: a setting; there are none.
    """
    return Vilt(load_checkpoint("vilt", checkpoint, options, _CLASSES, choose("vilt", options, {})))
