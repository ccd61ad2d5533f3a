"""TIPSv2 (Cao et al. 2026): `transformers` checkpoints of type ``tipsv2``. A score is the cosine of the embeddings.

Captions are lower-cased by the tokenizer, have no end token and are pooled by their mean; images become squares, not
normalised. `transformers` prepares them with torchvision only; here Pillow does it, as for all families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL.Image import Resampling
from transformers import Tipsv2Model
from transformers.image_processing_backends import PilBackend

from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, DualEncoderMixin, ImageTextModel, pad_right

MODEL_TYPES = ("tipsv2",)
CHECKPOINTS = ("google/tipsv2-b14", "google/tipsv2-l14", "google/tipsv2-so400m14")


class Tipsv2ImageProcessorPil(PilBackend):
    """`Tipsv2ImageProcessor` for Pillow, under the name by which `transformers` saves it without its ending."""

    resample = Resampling.BILINEAR
    size = {"height": 448, "width": 448}  # noqa: RUF012, as its base class declares it
    do_resize = True
    do_rescale = True
    do_normalize = False
    do_convert_rgb = True


class Tipsv2(DualEncoderMixin, ImageTextModel):
    """A `Tipsv2Model` as a dual encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        positions = checkpoint.model.config.text_config.max_position_embeddings
        super().__init__(checkpoint, min(positions, checkpoint.tokenizer.model_max_length))

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return image embeddings (n, d), not normalised: the class token."""
        return model.get_image_features(pixel_values=self.batch_pixels(images, model)).pooler_output

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), not normalised: the mean over the first `max_tokens` tokens."""
        cut = [ids[: self.max_tokens] for ids in captions]
        ids, mask = pad_right(cut, self._tokenizer.pad_token_id, model.device)
        return model.get_text_features(input_ids=ids, attention_mask=mask).pooler_output


def load(checkpoint: str, options: LoadOptions) -> Tipsv2:
    """Load a checkpoint; raises as `load_checkpoint`."""
    classes = {"tipsv2": Tipsv2Model}
    return Tipsv2(load_checkpoint("tipsv2", checkpoint, options, classes, processor_class=Tipsv2ImageProcessorPil))
