"""CLIP and the models built like it: any `transformers` checkpoint of the types below, from the Hub or a local folder.

CLIP (Radford et al. 2021), MetaCLIP 2 (Chuang et al. 2025), ALIGN (Jia et al. 2021), AltCLIP (Chen et al. 2022) and
Chinese-CLIP (Yang et al. 2022). A score is the cosine of the projected embeddings, as in each model's own ``forward``
before the temperature.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AlignModel, AltCLIPModel, ChineseCLIPModel, CLIPModel, MetaClip2Model

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, DualEncoderMixin, ImageTextModel

_CLASSES: dict[str, Any] = {
    "clip": CLIPModel,
    "metaclip_2": MetaClip2Model,
    "align": AlignModel,
    "altclip": AltCLIPModel,
    "chinese_clip": ChineseCLIPModel,
}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "openai/clip-vit-base-patch32",
    "openai/clip-vit-large-patch14",
    "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
    "facebook/metaclip-2-worldwide-huge-quickgelu",
    "kakaobrain/align-base",
    "BAAI/AltCLIP",
    "OFA-Sys/chinese-clip-vit-base-patch16",
)


class Clip(DualEncoderMixin, ImageTextModel):
    """A `CLIPModel`, or one built like it, as a dual encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config = checkpoint.model.config
        positions, limit = config.text_config.max_position_embeddings, checkpoint.tokenizer.model_max_length
        if config.model_type == "altclip":
            # The positions of RoBERTa start after the id of its padding token.
            positions -= config.text_config.pad_token_id + 1
        if config.model_type == "clip" and limit < positions:
            # Conversions of LongCLIP, with the tokenizer of CLIP.
            warnings.warn(
                f"{checkpoint.info.name} reads {positions} tokens of a caption, but its tokenizer cuts at {limit}: to "
                f"read all, set model_max_length to {positions} in its tokenizer_config.json",
                stacklevel=3,
            )
        super().__init__(checkpoint, min(positions, limit))

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return image embeddings (n, d), not normalised."""
        return model.get_image_features(pixel_values=self.batch_pixels(images, model)).pooler_output

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), not normalised."""
        # Padding on the left would move the first token, at which ALIGN and its like read a caption.
        ids, mask = self.batch_tokens(captions, model)
        return model.get_text_features(input_ids=ids, attention_mask=mask).pooler_output


def load(checkpoint: str, options: LoadOptions) -> Clip:
    """Load a checkpoint of one of the types; raises as `load_checkpoint`, also for a tokenizer that does not fit."""
    loaded = load_checkpoint("clip", checkpoint, options, _CLASSES)
    _refuse_lost_end(checkpoint, loaded.model.config, loaded.tokenizer)
    return Clip(loaded)


def _refuse_lost_end(checkpoint: str, config: Any, tokenizer: Any) -> None:
    """Raise if a model that pools a caption at its end token would look for that token at another position.

    Old configurations of CLIP have 2 for the end token, and then the model pools at the highest id of a caption.
    """
    if config.model_type not in ("clip", "metaclip_2"):
        return
    end, ids = config.text_config.eos_token_id, tokenizer("one")["input_ids"]
    if config.model_type == "clip" and end == 2:
        expected, is_present = "the highest of its vocabulary", ids[-1] == max(tokenizer.get_vocab().values())
    else:
        expected, is_present = str(end), end in ids and ids.index(end) == len(ids) - 1
    if not is_present:
        raise ModelError(
            f"{checkpoint} reads a caption at its end token, by its configuration the id {expected} (text_config."
            f"eos_token_id is {end}), but its tokenizer ends captions with {ids[-1]}: every caption would be read at "
            "another word. Use the tokenizer that the model was trained with, or mend eos_token_id"
        )
