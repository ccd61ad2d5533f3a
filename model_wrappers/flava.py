"""FLAVA: `transformers` checkpoints of model type ``flava`` as they come from pre-training.

What the setting ``head`` chooses as the score of an image and a caption:

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

from .engine.protocol import LoadOptions, choose
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import (
    Checkpoint,
    ImageTextModel,
    chosen_rows,
    float64,
    log_odds,
    normalised,
    precise_convolutions,
)

MODEL_TYPES = ("flava",)
CHECKPOINTS = ("facebook/flava-full",)
SETTINGS = {"head": ("contrastive", "itm")}

_TRAINING_HEADS = ("image_codebook.", "mim_head.", "mlm_head.", "mmm_image_head.", "mmm_text_head.")


class _Flava(ImageTextModel):
    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.text_config.max_position_embeddings)


class FlavaContrastive(_Flava):
    """The contrastive head of a `FlavaModel`, as a dual encoder."""

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        return normalised(self.embed_images(images, exact=exact), exact)

    @torch.inference_mode()
    def encode_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> np.ndarray:
        """Embeddings (n, d) of length 1; float32, or float64 where `exact`."""
        return normalised(self.embed_captions(captions, exact=exact), exact)

    def embed_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> torch.Tensor:
        """What the model says of prepared images, (n, d), of any length; with a graph where gradients are wanted."""
        model = self.chosen(exact)
        with precise_convolutions():
            states = model.image_model(pixel_values=self._pixels(images, model.image_model)).last_hidden_state
        # `get_image_features` projects all tokens and returns them all; the embedding is the first.
        return model.image_projection(states[:, 0])

    def embed_captions(self, captions: Sequence[Sequence[int]], *, exact: bool = False) -> torch.Tensor:
        """What the model says of prepared captions, (n, d), of any length; with a graph where gradients are wanted."""
        model = self.chosen(exact)
        ids, mask = self._tokens(captions, model)
        states = model.text_model(input_ids=ids, attention_mask=mask).last_hidden_state
        return model.text_projection(states[:, 0])


class FlavaMatching(_Flava):
    """The matching head of a `FlavaForPreTraining`; images pass the vision tower once."""

    @torch.inference_mode()
    def encode_images(self, images: Sequence[np.ndarray], *, exact: bool = False) -> torch.Tensor:
        """What the multimodal encoder reads of images, (n, patches, d)."""
        flava = self.chosen(exact).flava
        with precise_convolutions():
            seen = _unfinished(flava.image_model, pixel_values=self._pixels(images, flava.image_model))
        return flava.image_to_mm_projection(seen)

    @torch.inference_mode()
    def match(
        self, features: torch.Tensor, images: Sequence[int], captions: Sequence[Sequence[int]], *, exact: bool = False
    ) -> np.ndarray:
        """Scores (n,), float64: log-odds of a match."""
        model = self.chosen(exact)
        ids, mask = self._tokens(captions, model)
        features = features[chosen_rows(images, features)]
        read = model.flava.text_to_mm_projection(
            _unfinished(model.flava.text_model, input_ids=ids, attention_mask=mask)
        )
        encoder = model.flava.multimodal_model
        visible = mask.new_ones(len(ids), features.shape[1] + int(encoder.use_cls_token))
        fused = encoder(torch.cat([features, read], dim=1), attention_mask=torch.cat([visible, mask], dim=1))
        return float64(log_odds(model.itm_head.seq_relationship, model.itm_head.pooler(fused.last_hidden_state)))


def _unfinished(tower: Any, **inputs: torch.Tensor) -> torch.Tensor:
    """A tower's last hidden states before its final layer norm, which is what the multimodal encoder was trained on."""
    return tower(**inputs, output_hidden_states=True).hidden_states[-1]


def load(checkpoint: str, options: LoadOptions) -> FlavaContrastive | FlavaMatching:
    """Load a FLAVA checkpoint.

    Raises:
        ModelError: see `load_checkpoint`; a file of a bare `FlavaModel` lacks the matching head.
        UnknownNameError: a setting or value other than those above.
    """
    settings = choose("flava", options, SETTINGS)
    if settings["head"] == "contrastive":
        unused = (*_TRAINING_HEADS, "itm_head.")
        classes = {"flava": FlavaModel}
        return FlavaContrastive(load_checkpoint("flava", checkpoint, options, classes, settings, unused=unused))
    # The codebook makes targets for training and scores nothing.
    unused, changes = ("image_codebook.",), {"init_codebook": False}
    classes = {"flava": FlavaForPreTraining}
    loaded = load_checkpoint("flava", checkpoint, options, classes, settings, unused=unused, changes=changes)
    return FlavaMatching(loaded)
