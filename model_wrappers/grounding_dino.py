"""Grounding DINO, MM Grounding DINO and LLMDet: model types ``grounding-dino`` and ``mm-grounding-dino``.

The model reads a text, and gives each of its boxes a logit for each token. A phrase's score for a box is the greatest
sigmoid over the tokens of its span of characters, as MDETR's evaluation on Flickr30k ranks the boxes of phrases
(``PostProcessFlickr``) and as `transformers` scores a box; ``tokens=mean`` is the mean of these sigmoids, as the
authors' own demonstration scores given phrases (Liu et al., 2023; ``token_spans``).

Settings: ``context``, the text that is read: ``caption`` (the default), once for all its phrases, or ``phrase``, each
phrase separately; ``tokens``, ``max`` (the default) or ``mean``; ``max_boxes``, the most boxes of a phrase (100);
``threshold``, the lowest score of a box (0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import GroundingDinoForObjectDetection, MMGroundingDinoForObjectDetection

from .engine.protocol import Detections, LoadOptions, PhraseQuery
from .loading.detectors import LIMITS, NO_BOXES, TextDetector, TextOutput, best_boxes, load_detector, probabilities
from .loading.torch_models import Checkpoint

_CLASSES = {"grounding-dino": GroundingDinoForObjectDetection, "mm-grounding-dino": MMGroundingDinoForObjectDetection}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "IDEA-Research/grounding-dino-tiny",
    "IDEA-Research/grounding-dino-base",
    "openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg",
    "iSEE-Laboratory/llmdet_tiny",
    "iSEE-Laboratory/llmdet_large",
)
SETTINGS = {"context": ("caption", "phrase"), "tokens": ("max", "mean"), **LIMITS}


class GroundingDino(TextDetector):
    """A `GroundingDinoForObjectDetection` or `MMGroundingDinoForObjectDetection` as a detector of phrases."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config = checkpoint.model.config
        super().__init__(checkpoint, min(config.max_text_len, config.text_config.max_position_embeddings))

    def see(self, images: Sequence[np.ndarray]) -> Sequence[torch.Tensor]:
        """Return the pixels: this model fuses image and text from its encoder on."""
        return [self.batch_pixels(images, self._model)]

    def read(self, features: Sequence[torch.Tensor], texts: Sequence[str]) -> Iterator[TextOutput]:
        """Return for each pair of image and text the boxes, and their scores for each token."""
        ids, mask = self.batch_tokens([self._prompt(text)["input_ids"] for text in texts], self._model)
        output = self._model(pixel_values=features[0], input_ids=ids, attention_mask=mask)
        boxes = output.pred_boxes.float().cpu().numpy()
        yield from map(TextOutput, boxes, probabilities(output.logits.float().cpu().numpy()))

    def _prompt(self, text: str) -> Any:
        """Return the tokens of a text with a full stop at its end, as in training: without it, how a text is padded
        would decide which of its tokens see each other."""
        text = text.rstrip()
        return self._tokenizer(text if text.endswith(".") else f"{text}.", return_offsets_mapping=True, verbose=False)

    def find(self, query: PhraseQuery, output: TextOutput, size: tuple[int, int]) -> Detections:
        """Return the boxes of a phrase, none where it stands beyond what the model reads."""
        start, end = self._place(query)
        spans = self._prompt(self._text(query))["offset_mapping"][: self.max_tokens - 1]
        # [CLS] and [SEP] have no characters.
        tokens = [i for i, (first, last) in enumerate(spans) if max(first, start) < min(last, end)]
        if not tokens:
            return NO_BOXES
        token_scores = output.scores[:, tokens]
        pooled = token_scores.max(axis=1) if self.info.settings["tokens"] == "max" else token_scores.mean(axis=1)
        return best_boxes(output.boxes, pooled, size, size, self._limits)


def load(checkpoint: str, options: LoadOptions) -> GroundingDino:
    """Load a Grounding DINO or MM Grounding DINO checkpoint; raises as `load_detector`."""
    return GroundingDino(load_detector("grounding_dino", checkpoint, options, _CLASSES, SETTINGS))
