"""FLAVA: `transformers` checkpoints of model type ``flava`` as they come from pre-training.

The setting ``head`` chooses the score of an image and a caption:

- ``contrastive``: cosine of the projected first tokens, a plain dual encoder; the authors of ARO use it for retrieval;
- ``itm``: log-odds of a match by the image-text matching head over the multimodal encoder's first token, a monotone
  form of the probability that the authors of ARO use for their four benchmarks.

Source: FLAVA (Singh et al., CVPR 2022), section 3; ARO (Yuksekgonul et al., ICLR 2023), ``model_zoo/flava.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import FlavaForPreTraining, FlavaModel

from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import DualEncoderMixin, FusedModel, ImageTextModel, log_odds

MODEL_TYPES = ("flava",)
CHECKPOINTS = ("facebook/flava-full",)
SETTINGS = {"head": ("contrastive", "itm")}

_CODEBOOK = ("image_codebook.",)
_HEADS = ("itm_head.", "mim_head.", "mlm_head.", "mmm_image_head.", "mmm_text_head.")


class FlavaContrastive(DualEncoderMixin, ImageTextModel):
    """The contrastive head of a `FlavaModel`, as a dual encoder."""

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return image embeddings (n, d), not normalised."""
        states = model.image_model(pixel_values=self.batch_pixels(images, model.image_model)).last_hidden_state
        # `get_image_features` projects all tokens and returns them all; the embedding is the first.
        return model.image_projection(states[:, 0])

    def read(self, model: Any, captions: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return caption embeddings (n, d), not normalised."""
        ids, mask = self.batch_tokens(captions, model)
        states = model.text_model(input_ids=ids, attention_mask=mask).last_hidden_state
        return model.text_projection(states[:, 0])


class FlavaMatching(FusedModel):
    """The matching head of a `FlavaForPreTraining`; the vision tower runs once for an image."""

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return the input of the multimodal encoder, (n, patches, d)."""
        tower = model.flava.image_model
        return model.flava.image_to_mm_projection(_unfinished(tower, pixel_values=self.batch_pixels(images, tower)))

    def fuse(
        self, model: Any, features: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return log-odds of a match, (n,)."""
        flava, head = model.flava, model.itm_head
        read = flava.text_to_mm_projection(_unfinished(flava.text_model, input_ids=ids, attention_mask=mask))
        visible = mask.new_ones(len(ids), features.shape[1] + int(flava.multimodal_model.use_cls_token))
        fused = flava.multimodal_model(
            torch.cat([features[rows], read], dim=1), attention_mask=torch.cat([visible, mask], dim=1)
        )
        return log_odds(head.seq_relationship, head.pooler(fused.last_hidden_state))


def _unfinished(tower: Any, **inputs: torch.Tensor) -> torch.Tensor:
    """Return a tower's last hidden states before its final layer norm: the multimodal encoder was trained on these."""
    return tower(**inputs, output_hidden_states=True).hidden_states[-1]


def load(checkpoint: str, options: LoadOptions) -> FlavaContrastive | FlavaMatching:
    """Load a FLAVA checkpoint; the file of a bare `FlavaModel` lacks the matching head. Raises as `load_checkpoint`."""
    family: Any
    if options.settings.get("head") == "itm":
        # The codebook makes targets for training and scores nothing.
        family, model_class, unused, changes = FlavaMatching, FlavaForPreTraining, _CODEBOOK, {"init_codebook": False}
    else:
        family, model_class, unused, changes = FlavaContrastive, FlavaModel, (*_CODEBOOK, *_HEADS), None
    classes = {"flava": model_class}
    loaded = load_checkpoint("flava", checkpoint, options, classes, SETTINGS, unused=unused, changes=changes)
    return family(loaded, loaded.model.config.text_config.max_position_embeddings)
