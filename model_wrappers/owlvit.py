"""OWL-ViT and OWLv2: `transformers` checkpoints of model types ``owlvit`` and ``owlv2``.

Each phrase is a separate text query, as in the authors' open-vocabulary detection (Minderer et al., 2022 and 2023):
every patch of the image predicts one box, and its score for a phrase is the sigmoid of the phrase's own logit. So a
phrase ranks all patches, independently of the other phrases; the model's objectness is not used. TRICD evaluates
OWL-ViT in this way.

Settings: ``context``, the text of a query: ``phrase`` (the default), or ``caption``, the whole caption for each of its
phrases; ``max_boxes``, the most boxes of a phrase (100); ``threshold``, the lowest score of a box (0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import Owlv2ForObjectDetection, OwlViTForObjectDetection

from ..metrics.common.errors import ModelError
from .engine.arithmetic import full_float32
from .engine.protocol import Detections, LoadOptions, PhraseQuery
from .loading.detectors import LIMITS, PhraseDetector, best_boxes, load_detector, probabilities
from .loading.torch_models import Checkpoint

_CLASSES = {"owlvit": OwlViTForObjectDetection, "owlv2": Owlv2ForObjectDetection}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "google/owlvit-base-patch32",
    "google/owlvit-large-patch14",
    "google/owlv2-base-patch16-ensemble",
    "google/owlv2-large-patch14-ensemble",
)
SETTINGS = {"context": ("phrase", "caption"), **LIMITS}


class OwlVit(PhraseDetector):
    """An `OwlViTForObjectDetection` or `Owlv2ForObjectDetection` as a detector of phrases."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.text_config.max_position_embeddings)

    @torch.inference_mode()
    @full_float32()
    def detect(
        self, images: Sequence[np.ndarray], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """Return the boxes of each query of each prepared image; an image or a text passes its tower once."""
        asked = [[self._text(query) for query in row] for row in queries]
        texts = list(dict.fromkeys(text for row in asked for text in row))
        embeddings = dict(zip(texts, self._embed(texts), strict=True))
        pixels = self.batch_pixels(images, self._model)
        grid, _ = self._model.image_embedder(pixel_values=pixels)
        patches = grid.flatten(1, 2)
        boxes = self._model.box_predictor(patches, grid).float().cpu().numpy()
        detections = []
        for i, row in enumerate(asked):
            # Image by image: lists of queries have any length, and none needs to be padded.
            queries_of_image = torch.stack([embeddings[text] for text in row])[None]
            logits, _ = self._model.class_predictor(patches[i : i + 1], queries_of_image)
            scores = probabilities(logits[0].float().cpu().numpy())
            # OWLv2 sees the image in the upper left corner of a square; OWL-ViT stretches it to one.
            frame = (max(sizes[i]), max(sizes[i])) if self._model.config.model_type == "owlv2" else sizes[i]
            detections.append([best_boxes(boxes[i], column, frame, sizes[i], self._limits) for column in scores.T])
        return detections

    def _embed(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the embeddings (n, d) of texts, of length 1."""
        ids, mask = self.batch_tokens(self.prepare_captions(texts), self._model)
        output = self._model.base_model.get_text_features(input_ids=ids, attention_mask=mask)
        return output.pooler_output / output.pooler_output.norm(dim=-1, keepdim=True)


def load(checkpoint: str, options: LoadOptions) -> OwlVit:
    """Load a checkpoint; raises as `load_detector`, also for an image processor that crops."""
    loaded = load_detector("owlvit", checkpoint, options, _CLASSES, SETTINGS)
    if getattr(loaded.image_processor, "do_center_crop", None):
        raise ModelError(f"the image processor of {checkpoint} crops images: boxes could not be put back in place")
    return OwlVit(loaded)
