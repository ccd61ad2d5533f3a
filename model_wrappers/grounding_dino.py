"""Grounding DINO and MM Grounding DINO: checkpoints of model types ``grounding-dino`` and ``mm-grounding-dino``.

The model reads a text, and gives each of its boxes a logit for each token. A phrase's score for a box is the greatest
sigmoid over the tokens of its span of characters, as MDETR's evaluation on Flickr30k ranks the boxes of phrases
(``PostProcessFlickr``) and as `transformers` scores a box; ``tokens=mean`` is the mean of these sigmoids, as the
authors' own demonstration scores given phrases (Liu et al., 2023; ``token_spans``).

Settings: ``context``, the text that is read: ``caption`` (the default), once for all its phrases, or ``phrase``, each
phrase alone; ``tokens``, ``max`` (the default) or ``mean``; ``max_boxes``, the most boxes of a phrase (100);
``threshold``, the lowest score of a box (0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import GroundingDinoForObjectDetection, MMGroundingDinoForObjectDetection

from .engine.protocol import Detections, LoadOptions, PhraseQuery
from .loading.detectors import LIMITS, PhraseDetector, best_boxes, load_detector, probabilities
from .loading.torch_models import Checkpoint, cut_tokens, precise_convolutions

_CLASSES = {
    "grounding-dino": GroundingDinoForObjectDetection,
    "mm-grounding-dino": MMGroundingDinoForObjectDetection,
}
MODEL_TYPES = tuple(_CLASSES)
CHECKPOINTS = (
    "IDEA-Research/grounding-dino-tiny",
    "IDEA-Research/grounding-dino-base",
    "openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg",
)
SETTINGS = {"context": ("caption", "phrase"), "tokens": ("max", "mean"), **LIMITS}


class _Prompt(NamedTuple):
    """A text as the model reads it, and where each token stands in it."""

    ids: list[int]
    spans: list[tuple[int, int]]


class GroundingDino(PhraseDetector):
    """A `GroundingDinoForObjectDetection` or `MMGroundingDinoForObjectDetection` as a detector of phrases."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config = checkpoint.model.config
        super().__init__(checkpoint, min(config.max_text_len, config.text_config.max_position_embeddings))

    @torch.inference_mode()
    def detect(
        self, images: Sequence[np.ndarray], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """The boxes of each query of each prepared image.

        One forward pass reads an image with each of its texts. Passes of images of one shape go together, as many as
        there are images: padding an image, unlike padding a text, changes what the model sees near the edge.
        """
        wanted = [{self._text(query) for query in row} for row in queries]
        prompts = {text: self._prompt(text) for text in sorted(set().union(*wanted))}
        outputs = {}
        for shape in sorted({image.shape for image in images}):
            jobs = [(i, t) for i, texts in enumerate(wanted) if images[i].shape == shape for t in sorted(texts)]
            for first in range(0, len(jobs), len(images)):
                part = jobs[first : first + len(images)]
                batch = self._forward([images[i] for i, _ in part], [prompts[text] for _, text in part])
                outputs.update(zip(part, batch, strict=True))
        return [
            [self._found(query, prompts[self._text(query)], outputs[i, self._text(query)], sizes[i]) for query in row]
            for i, row in enumerate(queries)
        ]

    def _prompt(self, text: str) -> _Prompt:
        """The text with a full stop at its end, which the model was trained with: without it, how a text is padded
        would decide which of its tokens see each other."""
        text = text.rstrip()
        tokens = self._tokenizer(text if text.endswith(".") else f"{text}.", return_offsets_mapping=True, verbose=False)
        spans = [(int(first), int(last)) for first, last in tokens["offset_mapping"]]
        return _Prompt(cut_tokens(tokens["input_ids"], self.max_tokens), spans[: self.max_tokens - 1])

    def _forward(
        self, images: Sequence[np.ndarray], prompts: Sequence[_Prompt]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each pair of image and text: boxes (n, 4), and their scores for each token, (n, tokens)."""
        pixels = self.batch_pixels(images, self._model)
        ids, mask = self.batch_tokens([prompt.ids for prompt in prompts], self._model)
        with precise_convolutions():
            output = self._model(pixel_values=pixels, input_ids=ids, attention_mask=mask)
        boxes = output.pred_boxes.float().cpu().numpy()
        yield from zip(boxes, probabilities(output.logits.float().cpu().numpy()), strict=True)

    def _found(
        self, query: PhraseQuery, prompt: _Prompt, output: tuple[np.ndarray, np.ndarray], size: tuple[int, int]
    ) -> Detections:
        boxes, scores = output
        whole = self.info.settings["context"] == "caption"
        start, end = (query.start, query.end) if whole else (0, len(query.text))
        # [CLS] and [SEP] have no characters.
        tokens = [i for i, (first, last) in enumerate(prompt.spans) if max(first, start) < min(last, end)]
        if not tokens:
            # The phrase stands beyond what the model reads.
            return Detections(np.empty((0, 4)), np.empty(0))
        chosen = scores[:, tokens]
        pooled = chosen.max(axis=1) if self.info.settings["tokens"] == "max" else chosen.mean(axis=1)
        return best_boxes(boxes, pooled, size, size, self._limits)


def load(checkpoint: str, options: LoadOptions) -> GroundingDino:
    """Load a Grounding DINO or MM Grounding DINO checkpoint; raises as `load_detector`."""
    return GroundingDino(load_detector("grounding_dino", checkpoint, options, _CLASSES, SETTINGS))
