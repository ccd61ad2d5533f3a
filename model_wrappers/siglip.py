"""SigLIP and SigLIP 2: `transformers` checkpoints of type ``siglip`` (fixed resolution) and ``siglip2`` (NaFlex).

SigLIP (Zhai et al. 2023) and SigLIP 2 (Tschannen et al. 2025). A score is the cosine of the embeddings; the models'
logit is that cosine times a positive scale plus a bias, and its sigmoid rises with it, so no decision depends on them.

Captions are padded to the model's full length (64) without a mask and pooled at the last position, as in training.

The setting ``lower_case`` (``auto``, ``yes`` or ``no``) lower-cases captions before tokenization.
``auto`` means yes for SigLIP 2, which was trained with lower case (section 2 of its paper) while the tokenizer of its
fixed-resolution checkpoints keeps capitals, and leaves SigLIP to its own tokenizer. An end token that the tokenizer
does not add is added here, as in training; the settings in the predictions record that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import Siglip2Model, SiglipModel

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, DualEncoderMixin, ImageTextModel, on_device, pad_to, to_device

_CLASSES: dict[str, Any] = {"siglip": SiglipModel, "siglip2": Siglip2Model}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "google/siglip-base-patch16-224",
    "google/siglip-so400m-patch14-384",
    "google/siglip2-base-patch16-224",
    "google/siglip2-base-patch16-naflex",
)
SETTINGS = {"lower_case": ("auto", "yes", "no")}


class Siglip(DualEncoderMixin, ImageTextModel):
    """A `SiglipModel` or `Siglip2Model` as a dual encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.text_config.max_position_embeddings)

    def prepare_image(self, image: Image.Image) -> np.ndarray:
        """Return pixel values (3, height, width), float32, as the checkpoint's image processor makes them.

        For NaFlex its patches (1 + n, values); the first row starts with the numbers of patches down and across.
        """
        prepared = self._image_processor(image.convert("RGB"), return_tensors="np")
        pixels = prepared["pixel_values"][0]
        if "spatial_shapes" not in prepared:
            return pixels
        first = np.zeros_like(pixels[:1])
        first[0, :2] = prepared["spatial_shapes"][0]
        return np.concatenate([first, pixels])

    def prepare_captions(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each caption, with the end token and no padding."""
        lower = self.info.settings["lower_case"] == "yes"
        rows = super().prepare_captions([caption.lower() if lower else caption for caption in captions])
        end = [self._tokenizer.eos_token_id] if self.info.preprocessing["end_token"] == "added" else []
        return [[*ids, *end] for ids in rows]

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return image embeddings (n, d), not normalised."""
        pixels = on_device(images, model.device, torch.float32)
        inputs = {"pixel_values": pixels.to(model.dtype)}
        if model.config.model_type == "siglip2":
            shapes, patches = pixels[:, 0, :2].long(), pixels[:, 1:]
            positions = torch.arange(patches.shape[1], device=model.device)
            inputs = {
                "pixel_values": patches.to(model.dtype),
                "pixel_attention_mask": (positions < shapes.prod(dim=1, keepdim=True)).int(),
                "spatial_shapes": shapes,
            }
        return model.get_image_features(**inputs).pooler_output

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), not normalised."""
        rows = pad_to(captions, self._tokenizer.pad_token_id, self.max_tokens)
        return model.get_text_features(input_ids=to_device(rows, model.device)).pooler_output


def load(checkpoint: str, options: LoadOptions) -> Siglip:
    """Load a checkpoint; raises as `load_checkpoint`, also for a tokenizer without a padding or end token."""
    loaded = load_checkpoint("siglip", checkpoint, options, _CLASSES, SETTINGS)
    tokenizer, settings = loaded.tokenizer, loaded.info.settings
    for name in ("pad_token_id", "eos_token_id"):
        if getattr(tokenizer, name) is None:
            raise ModelError(f"the tokenizer of {checkpoint} has no {name}, which every caption of SigLIP needs")
    lower = settings["lower_case"]
    if lower == "auto":
        second = isinstance(loaded.model, Siglip2Model) or type(tokenizer).__name__.startswith(("Gemma", "Siglip2"))
        lower = "yes" if second else "no"
    ends = tokenizer("one")["input_ids"][-1] == tokenizer.eos_token_id
    preprocessing = {**loaded.info.preprocessing, "end_token": "by the tokenizer" if ends else "added"}
    info = replace(loaded.info, settings={**settings, "lower_case": lower}, preprocessing=preprocessing)
    return Siglip(loaded._replace(info=info))
