"""BridgeTower with its matching head: `BridgeTowerForImageAndTextRetrieval`, model type ``bridgetower``.

The score is the log-odds of a match, a monotone form of the authors' probability. The vision tower never sees the
caption, so it runs once for an image; the cross-modal layers run for each pair.

Source: BridgeTower (Xu et al., AAAI 2023), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import BridgeTowerForImageAndTextRetrieval
from transformers.masking_utils import create_bidirectional_mask

from .engine.protocol import LoadOptions
from .loading.checkpoints import load_checkpoint
from .loading.torch_models import Checkpoint, FusedModel, log_odds

_CLASSES = {"bridgetower": BridgeTowerForImageAndTextRetrieval}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("BridgeTower/bridgetower-base-itm-mlm", "BridgeTower/bridgetower-large-itm-mlm")


class BridgeTower(FusedModel):
    """A `BridgeTowerForImageAndTextRetrieval` as a cross-encoder."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        text = checkpoint.model.config.text_config
        # The positions of RoBERTa start after the id of its padding token.
        super().__init__(checkpoint, text.max_position_embeddings - text.pad_token_id - 1)

    def see(self, model: Any, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return the input of each cross-modal layer from the vision tower, (n, layers, patches, d)."""
        tower = model.bridgetower
        visual = tower.vision_model.visual
        blocks = visual.transformer.resblocks[: len(tower.text_model.encoder.layer)]
        states = visual.forward_pre(self.batch_pixels(images, visual))
        bridges = []
        for number, block in enumerate(blocks, start=tower.config.num_hidden_layers - len(blocks)):
            states = block(states)
            if number >= 0:
                bridged = _numbered(tower.cross_modal_image_transform, number)(visual.forward_post(states))
                bridges.append(bridged + tower.token_type_embeddings.weight[1])
        return torch.stack(bridges, dim=1)

    def fuse(
        self, model: Any, features: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Return log-odds of a match, (n,)."""
        layers = [features[rows, number] for number in range(features.shape[1])]
        return log_odds(model.itm_score.fc, _joined(model.bridgetower, layers, ids, mask))


def _numbered(transform: Any, number: int) -> Any:
    """Return the transform before a cross-modal layer: one for each, or the same for all."""
    return transform[number] if isinstance(transform, torch.nn.ModuleList) else transform


def _joined(tower: Any, features: Sequence[torch.Tensor], ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the pooled output (n, 2 d) of `BridgeTowerModel.forward`, given what the vision tower computed."""
    words = tower.text_model.embeddings(input_ids=ids)
    visible = create_bidirectional_mask(config=tower.config, inputs_embeds=words[:, :1], attention_mask=mask)
    layers = tower.text_model.encoder.layer
    before = len(layers) - len(features) + 1  # the first cross-modal layer
    for layer in layers[:before]:
        words = layer(words, visible)
    kind = tower.token_type_embeddings.weight[0]
    transforms = tower.cross_modal_text_transform
    text = tower.cross_modal_text_layernorm(_numbered(transforms, 0)(words) + kind)
    image = tower.cross_modal_image_layernorm(features[0])
    for number in range(len(features)):
        if number:
            words = layers[before + number - 1](words, visible)
            bridged = _numbered(transforms, number)(words) + kind
            text = tower.cross_modal_text_link_tower[number - 1](bridged, text, visible)
            image = tower.cross_modal_image_link_tower[number - 1](features[number], image, None)
        text, image = (
            tower.cross_modal_text_layers[number](text, image, attention_mask=visible)[0],
            tower.cross_modal_image_layers[number](image, text, encoder_attention_mask=visible)[0],
        )
    return tower.get_cls_features(text, image)


def load(checkpoint: str, options: LoadOptions) -> BridgeTower:
    """Load a BridgeTower checkpoint with its matching head, which some lack; raises as `load_checkpoint`."""
    return BridgeTower(load_checkpoint("bridgetower", checkpoint, options, _CLASSES, unused=("mlm_score.",)))
