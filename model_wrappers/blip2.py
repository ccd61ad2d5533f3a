"""BLIP-2 with its retrieval heads: checkpoints of `Blip2ForImageTextRetrieval`, model type ``blip-2``.

The setting ``head`` chooses the score of an image and a caption:

- ``itm``: log-odds of a match by the image-text matching head, whose logits are averaged over the query tokens; a
  monotone form of the authors' probability;
- ``itc``: the highest cosine of a query token's embedding and the caption's.

The vision tower runs once for an image, and for ``itc`` the Q-Former's queries too. In float16 `transformers` keeps
the Q-Former in float32. Checkpoints that generate text (``blip2-opt``, ``blip2-flan-t5``) lack both heads.

Source: BLIP-2 (Li et al., ICML 2023), section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import Blip2ForImageTextRetrieval

from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, FusedModel, log_odds, unit

_CLASSES = {"blip-2": Blip2ForImageTextRetrieval}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("Salesforce/blip2-itm-vit-g", "Salesforce/blip2-itm-vit-g-coco")
SETTINGS = {"head": ("itm", "itc")}


class Blip2(FusedModel):
    """A `Blip2ForImageTextRetrieval` as a cross-encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.qformer_config.max_position_embeddings)
        self._head = checkpoint.info.settings["head"]

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return states (n, patches, d) of the vision tower; for ``itc`` embeddings (n, queries, d) of length 1."""
        states = model.vision_model(pixel_values=self.batch_pixels(images, model.vision_model)).last_hidden_state
        if self._head == "itm":
            return states
        queries = model.query_tokens.expand(len(states), -1, -1)
        features = model.qformer(query_embeds=queries, encoder_hidden_states=states).last_hidden_state
        return unit(model.vision_projection(features.to(model.vision_projection.weight.dtype)))

    def fuse(
        self, model: Any, seen: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return log-odds of a match, or the highest cosine of a query token, (n,)."""
        features = seen[rows]
        if self._head == "itc":
            embeds = model.embeddings(input_ids=ids)
            read = model.qformer(query_embeds=embeds, query_length=0, attention_mask=mask).last_hidden_state[:, 0]
            caption = unit(model.text_projection(read.to(model.text_projection.weight.dtype)))
            return (features * caption[:, None]).sum(-1).amax(1)
        queries = model.query_tokens.expand(len(ids), -1, -1)
        count = queries.shape[1]
        fused = model.qformer(
            query_embeds=model.embeddings(input_ids=ids, query_embeds=queries),
            query_length=count,
            attention_mask=torch.cat([mask.new_ones(len(ids), count), mask], dim=1),
            encoder_hidden_states=features,
        ).last_hidden_state
        return log_odds(model.itm_head, fused[:, :count]).mean(1)


def load(checkpoint: str, options: LoadOptions) -> Blip2:
    """Load a BLIP-2 checkpoint with its retrieval heads, which one that generates text lacks; see `load_checkpoint`."""
    return Blip2(load_checkpoint("blip2", checkpoint, options, _CLASSES, SETTINGS))
