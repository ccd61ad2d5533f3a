"""BLIP with its retrieval heads: `transformers` checkpoints of `BlipForImageTextRetrieval`, model type ``blip``.

The setting ``head`` chooses the score of an image and a caption:

- ``itm``: log-odds of a match by the image-text matching head, a monotone form of the authors' probability;
- ``itc``: cosine of the contrastive embeddings, a plain dual encoder;
- ``sum``: probability of a match plus that cosine;
- ``aro``: the logit of a match plus that cosine, as the authors of ARO score BLIP (their ``model_zoo/blip_models.py``,
  after BLIP's own retrieval evaluation), with captions that begin with [ENC] and are cut to 35 tokens.

The setting ``first`` is the token that a caption begins with where image and caption are read together: ``cls``, as in
`transformers` and BLIP's ``blip_itm.py``, or ``enc``, as in training (BLIP, section 3.1). The default is ``cls``, and
for ``head=aro`` it is ``enc``.

Source: BLIP (Li et al., ICML 2022), section 3; ARO (Yuksekgonul et al., ICLR 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import BlipForImageTextRetrieval
from transformers.masking_utils import create_bidirectional_mask

from ..metrics.common.errors import ModelError
from .engine.protocol import LoadOptions
from .loading.blip_layers import read_with_images
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import (
    Checkpoint,
    DualEncoderMixin,
    FusedModel,
    ImageStates,
    ImageTextModel,
    head_logits,
    log_odds,
    unit,
)

_CLASSES = {"blip": BlipForImageTextRetrieval}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("Salesforce/blip-itm-base-coco", "Salesforce/blip-itm-base-flickr", "Salesforce/blip-itm-large-coco")
SETTINGS = {"head": ("itm", "itc", "sum", "aro"), "first": ("cls", "enc")}
_ARO_TOKENS = 35


class BlipContrastive(DualEncoderMixin, ImageTextModel):
    """The contrastive head, as a dual encoder."""

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return image embeddings (n, d), not normalised."""
        states = model.vision_model(pixel_values=self.batch_pixels(images, model.vision_model)).last_hidden_state
        return model.vision_proj(states[:, 0])

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), not normalised."""
        return _caption_embeddings(model, *self.batch_tokens(captions, model))


class BlipMatching(FusedModel):
    """The matching head, with or without the contrastive head; the vision tower runs once for an image."""

    def __init__(self, checkpoint: Checkpoint, max_tokens: int, first_token: int | None) -> None:
        super().__init__(checkpoint, max_tokens)
        self._head = checkpoint.info.settings["head"]
        self._first_token = first_token

    def see(self, model: Any, images: Sequence[np.ndarray]) -> ImageStates:
        """Return both towers of the image side."""
        states = model.vision_model(pixel_values=self.batch_pixels(images, model.vision_model)).last_hidden_state
        return ImageStates(states, unit(model.vision_proj(states[:, 0])))

    def fuse(
        self, model: Any, features: ImageStates, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return scores (n,) of the chosen head; see the module."""
        first = ids
        if self._first_token is not None:
            first = torch.cat([torch.full_like(ids[:, :1], self._first_token), ids[:, 1:]], dim=1)
        encoder = model.text_encoder
        hidden = encoder.embeddings(input_ids=first)
        attended = create_bidirectional_mask(config=encoder.config, inputs_embeds=hidden, attention_mask=mask)
        fused = read_with_images(encoder.encoder.layer, hidden, attended, features.states, rows)[:, 0]
        if self._head == "itm":
            return log_odds(model.itm_head, fused)
        cosine = (features.embeddings[rows] * unit(_caption_embeddings(model, ids, mask))).sum(-1)
        if self._head == "sum":
            return log_odds(model.itm_head, fused).sigmoid() + cosine
        return head_logits(model.itm_head, fused)[:, 1] + cosine


def _caption_embeddings(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the output (n, e) of the contrastive head for captions, not normalised."""
    states = model.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    return model.text_proj(states[:, 0])


def load(checkpoint: str, options: LoadOptions) -> BlipContrastive | BlipMatching:
    """Load a BLIP checkpoint with its retrieval heads, which others lack; raises as `load_checkpoint`."""
    is_aro = options.settings.get("head") == "aro"
    known = {**SETTINGS, "first": ("enc", "cls")} if is_aro else SETTINGS
    loaded = load_checkpoint("blip", checkpoint, options, _CLASSES, known)
    settings, text = loaded.info.settings, loaded.model.config.text_config
    longest = text.max_position_embeddings
    if settings["head"] == "itc":
        return BlipContrastive(loaded, longest)
    # [ENC] was added to BERT's vocabulary after [DEC]; the Hub's tokenizers do not know either.
    first = text.bos_token_id + 1 if settings["first"] == "enc" else None
    if first is not None and first >= text.vocab_size:
        raise ModelError(f"this BLIP has no [ENC]: id {first} is beyond its {text.vocab_size} tokens; set first=cls")
    return BlipMatching(loaded, min(longest, _ARO_TOKENS) if is_aro else longest, first)
