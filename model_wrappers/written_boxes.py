"""Boxes that generative models of `transformers` write as text: PaliGemma, Florence-2 and Qwen-VL.

Chosen by name, as in ``written_boxes:google/paligemma2-3b-mix-448``; `vqascore` asks the same checkpoints questions.
Each phrase is a separate request, and decoding is greedy. A model that was trained with a fixed wording of the request
gets that wording (PaliGemma, Florence-2). The formats of boxes, by model type:

- ``paligemma``: "detect PHRASE"; ``<loc…>`` for y1, x1, y2, x2 in 1,024 parts of the image's height and width;
- ``florence2``: its task of open-vocabulary detection; ``<loc_…>`` for x1, y1, x2, y2, the middle of 1,000 parts;
- ``qwen2_vl``: ``(x1,y1),(x2,y2)`` in 1,000 parts; ``qwen3_vl``: ``"bbox_2d": [x1, y1, x2, y2]`` in 1,000 parts;
  ``qwen2_5_vl``: the same in pixels of the image as the model sees it.

These models give no confidences, which are needed to rank detections. The setting ``confidence`` replaces them:

- ``probability`` (the default): the geometric mean of the probabilities of the tokens that wrote the four numbers;
- ``none``: 1 for every box. Then the boxes of an image keep the order in which they were written, and boxes of two
  images are tied, which never counts as right: Group-Recall@1 is right only where the other image has no box.

Incomplete boxes, and boxes without an area within the image, are left out; a phrase may have no box. An answer ends
after `MOST_TOKENS` tokens. ``max_boxes`` and ``threshold`` are as for other detectors. The model processes the image
again for each phrase.

Source: Florence-2's processor in `transformers`; PaliGemma (Beyer et al., 2024); Qwen2-VL (Wang et al., 2024);
Qwen2.5-VL (Bai et al., 2025); the examples of Qwen3-VL. No released checkpoint was run.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, LogitsProcessorList

from .engine.arithmetic import full_float32
from .engine.protocol import Detections, LoadOptions, ModelInfo, PhraseQuery, choose
from .loading.checkpoints import CheckpointFiles, image_preprocessing
from .loading.detectors import LIMITS, best_boxes, read_limits
from .loading.generative import Forward, PromptRow, decoder_start
from .loading.image_prompts import ImagePrompts, Prepared, load_processor
from .loading.prompts import ChatPrompt
from .loading.torch_models import TorchModel

MOST_TOKENS = 512
_MOST_CHARACTERS = 64 * MOST_TOKENS


class Format(NamedTuple):
    """The prompt and the notation with which a model writes boxes.

    Attributes:
        template: the request, where ``{}`` stands for the phrase.
        pattern: one box, with a group for each of its four numbers.
        order: which of them are x1, y1, x2 and y2.
        parts: the number of parts of the width and of the height that numbers count; 0 for pixels.
        shift: what is added to each number.
    """

    template: str
    pattern: re.Pattern[str]
    order: tuple[int, int, int, int] = (0, 1, 2, 3)
    parts: int = 1000
    shift: float = 0


_NUMBER = r"\s{0,4}(-?\d{1,6}(?:\.\d{1,6})?)\s{0,4}"
_JSON = re.compile(r'"bbox_2d"\s{0,4}:\s{0,4}\[' + ",".join([_NUMBER] * 4) + r"\]")
_REQUEST = 'Locate every instance of "{}" in the image.'
_IN_JSON = f'{_REQUEST} Report bounding box coordinates in JSON format, "bbox_2d" for each box.'
FORMATS = {
    "paligemma": Format("detect {}", re.compile(r"<loc(\d{4})>" * 4), (1, 0, 3, 2), 1024),
    "florence2": Format("Locate {} in the image.", re.compile(r"<loc_(\d{1,3})>" * 4), shift=0.5),
    "qwen2_vl": Format(_REQUEST, re.compile(r"\((\d{1,4}),\s?(\d{1,4})\),\s?\((\d{1,4}),\s?(\d{1,4})\)")),
    "qwen2_5_vl": Format(_IN_JSON, _JSON, parts=0),
    "qwen3_vl": Format(_IN_JSON, _JSON),
}
# vqascore claims the same model types, so this family has to be named.
MODEL_TYPES: tuple[str, ...] = ()
CHECKPOINTS = ("google/paligemma2-3b-mix-448", "florence-community/Florence-2-large-ft", "Qwen/Qwen2.5-VL-3B-Instruct")
SETTINGS = {"confidence": ("probability", "none"), **LIMITS}


class WrittenBox(NamedTuple):
    """The numbers x1, y1, x2, y2 of a box as they were written, and the characters of the answer from first to last."""

    numbers: list[float]
    start: int
    end: int


def read_boxes(answer: str, form: Format) -> list[WrittenBox]:
    """Return the boxes in an answer, in their order, reading only its first 32,768 characters."""
    boxes = []
    for match in form.pattern.finditer(answer[:_MOST_CHARACTERS]):
        numbers = [float(match[1 + position]) + form.shift for position in form.order]
        boxes.append(WrittenBox(numbers, match.start(1), match.end(4)))
    return boxes


class WrittenBoxes(TorchModel):
    """A generative model as a detector of phrases."""

    def __init__(
        self, model: Any, processor: Any, prompts: ImagePrompts, prompt: ChatPrompt, form: Format, info: ModelInfo
    ) -> None:
        super().__init__(model, info)
        self._tokenizer, self._patch = processor.tokenizer, getattr(processor.image_processor, "patch_size", 1)
        self._prompts, self._prompt, self._form = prompts, prompt, form
        self._forward = Forward(model, 0, batches=False)
        self._limits = read_limits(info.settings)

    def prepare_image(self, image: Image.Image) -> Prepared:
        """Return the processor's inputs for the image, and the tokens that it inserts into a prompt."""
        return self._prompts.prepare(image)

    @torch.inference_mode()
    def detect(
        self, images: Sequence[Prepared], sizes: Sequence[tuple[int, int]], queries: Sequence[Sequence[PhraseQuery]]
    ) -> list[list[Detections]]:
        """Return the boxes of each query of each prepared image; each phrase is asked once per image."""
        detections = []
        for image, size, row in zip(images, sizes, queries, strict=True):
            boxes_of_phrase = {
                phrase: self._boxes(image, size, phrase) for phrase in dict.fromkeys(query.text for query in row)
            }
            detections.append([boxes_of_phrase[query.text] for query in row])
        return detections

    def _boxes(self, image: Prepared, size: tuple[int, int], phrase: str) -> Detections:
        text, ends, logs = self.write(image, phrase)
        parts = (self._form.parts,) * 2
        if not self._form.parts:
            parts = tuple(int(side) * self._patch for side in image.inputs["image_grid_thw"][0, :0:-1])
        boxes, scores = [], []
        for written in read_boxes(text, self._form):
            corners = np.clip(np.array(written.numbers) / np.tile(parts, 2), 0, 1)
            if (corners[:2] < corners[2:]).all():
                boxes.append([*(corners[:2] + corners[2:]) / 2, *(corners[2:] - corners[:2])])
                first, last = np.searchsorted(ends, [written.start + 1, written.end])
                is_ranked = self.info.settings["confidence"] == "probability"
                scores.append(np.exp(np.mean(logs[first : last + 1])) if is_ranked else 1.0)
        return best_boxes(np.reshape(boxes, (-1, 4)), np.array(scores, np.float64), size, size, self._limits)

    def write(self, image: Prepared, phrase: str) -> tuple[str, list[int], list[float]]:
        """Return the answer for a phrase, and for each of its tokens the end of its characters and its log-probability.

        Raises:
            ModelError: the phrase holds the token that stands for an image.
        """
        ids = self._prompts.checked(self._prompt.tokens(phrase), phrase)
        row = PromptRow(self._forward.see(self._model, image), *self._prompts.with_image(image, ids), [])
        # The checkpoint's other generation settings hold, such as tokens that it never writes.
        settings = copy.deepcopy(self._model.generation_config)
        changes = {"max_new_tokens": MOST_TOKENS, "temperature": None, "top_p": None, "top_k": None}
        settings.update(do_sample=False, num_beams=1, **changes)
        logs: list[float] = []

        def note(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            logs.append(float(scores[0].float().log_softmax(-1).max()))
            return scores

        inputs = self._forward.inputs(self._model, [row], [row.prompt])
        with full_float32():
            written = self._model.generate(
                **inputs, generation_config=settings, logits_processor=LogitsProcessorList([note])
            )[0]
        pieces = [self._tokenizer.decode([token]) for token in written[len(written) - len(logs) :].tolist()]
        return "".join(pieces), np.cumsum([len(piece) for piece in pieces]).tolist(), logs


def load(checkpoint: str, options: LoadOptions) -> WrittenBoxes:
    """Load a checkpoint of a type in `FORMATS`.

    Raises:
        ModelError: not found, of another type, damaged, or a setting out of range.
        UnknownNameError: an unknown setting.
    """
    settings = choose("written_boxes", options, SETTINGS)
    read_limits(settings)
    files = CheckpointFiles("written_boxes", checkpoint, options)
    config = files.config(tuple(FORMATS), "models that write boxes")
    form = FORMATS[config.model_type]
    model = files.model(AutoModelForImageTextToText)
    processor = load_processor(files, config)
    prompt = ChatPrompt(processor, form.template, checkpoint, keeps_end=bool(decoder_start(model)))
    prompts = ImagePrompts(processor, prompt, checkpoint, model)
    preprocessing = image_preprocessing(processor.image_processor) | {"prompt": prompt.text}
    return WrittenBoxes(model, processor, prompts, prompt, form, files.info(model, settings, preprocessing))
