"""OmDet-Turbo: `transformers` checkpoints of model type ``omdet-turbo``.

The model's input is a task and the classes to find. Each phrase is a single class, with the task "Detect PHRASE.", the
processor's own: with several classes the boxes of one would depend on the others. A box's score for a phrase is the
sigmoid of its logit. As in the processor's post-processing, a box is left out that overlaps one with a higher score by
more than a half.

Released checkpoints look at images through the library timm, which needs torchvision.

Settings: ``context``, the class: ``phrase`` (the default), or ``caption``, the whole caption for each of its phrases;
``max_boxes``, the most boxes of a phrase (100); ``threshold``, the lowest score of a box (0).

Source: OmDet-Turbo (Zhao et al., 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from transformers import OmDetTurboForObjectDetection

from ..metrics.functional.boxes import box_iou
from .engine.protocol import Detections, LoadOptions, PhraseQuery
from .loading.detectors import LIMITS, TextDetector, TextOutput, best_boxes, load_detector, probabilities
from .loading.torch_models import Checkpoint

_CLASSES = {"omdet-turbo": OmDetTurboForObjectDetection}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = ("omlab/omdet-turbo-swin-tiny-hf",)
SETTINGS = {"context": ("phrase", "caption"), **LIMITS}
_OVERLAP = 0.5


class OmDetTurbo(TextDetector):
    """An `OmDetTurboForObjectDetection` as a detector of phrases."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint, checkpoint.model.config.text_config.max_position_embeddings)

    def see(self, images: Sequence[np.ndarray]) -> Sequence[torch.Tensor]:
        """Return the encoder's maps, one for each level."""
        pixels = self.batch_pixels(images, self._model)
        return self._model.encoder(self._model.vision_backbone(pixels), return_dict=True).extracted_states

    def read(self, features: Sequence[torch.Tensor], texts: Sequence[str]) -> Iterator[TextOutput]:
        """Return the boxes for each image and class, and their scores."""
        classes = self.batch_tokens(self.prepare_captions(texts), self._model)
        tasks = self.batch_tokens(self.prepare_captions([f"Detect {text}." for text in texts]), self._model)
        ones = torch.ones(len(texts), dtype=torch.long, device=self.device)
        output = self._model.decoder(
            features, *self._model.get_language_embedding(*classes, *tasks, ones), return_dict=True
        )
        boxes = output.decoder_coords[-1].float().cpu().numpy()
        yield from map(TextOutput, boxes, probabilities(output.decoder_classes[-1][..., 0].float().cpu().numpy()))

    def find(self, query: PhraseQuery, output: TextOutput, size: tuple[int, int]) -> Detections:
        """Return the boxes of a phrase, without those that overlap a better one."""
        centres, halves = output.boxes[:, :2], output.boxes[:, 2:] / 2
        corners = np.concatenate([centres - halves, centres + halves], axis=1)
        box_indices: list[int] = []
        for index in np.argsort(-output.scores, kind="stable"):
            accepted = corners[box_indices]
            if not (box_iou(accepted, np.broadcast_to(corners[index], accepted.shape)) > _OVERLAP).any():
                box_indices.append(index)
        return best_boxes(output.boxes[box_indices], output.scores[box_indices], size, size, self._limits)


def load(checkpoint: str, options: LoadOptions) -> OmDetTurbo:
    """Load a checkpoint; raises as `load_detector`, also without timm if it needs that."""
    return OmDetTurbo(load_detector("omdet_turbo", checkpoint, options, _CLASSES, SETTINGS))
