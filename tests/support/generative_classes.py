"""Each image-text-to-text class of `transformers` by a tiny checkpoint: equal to a bare forward pass, or refused."""

from __future__ import annotations

import inspect
import shutil
from typing import NamedTuple

import numpy as np
import torch
import transformers
from PIL import Image
from tiny_models.shrink import Unsupported, tiny
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model

CLASSES = dict(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
CAPTIONS = ("a red cat", 'the "man"', "two big dogs near a {red} box")
PAIRS = ((0, 0), (0, 2), (1, 1), (1, 0), (2, 0))
TOLERANCE = 1e-5
# Their forward pass needs an input that their processors give only when asked.
ASKED = ("cosmos3_edge", "exaone4_5", "hyperclovax_vision_v2", "dots3_note")


class Verdict(NamedTuple):
    """How rows of an image go through the class (`rows`), and the greatest difference of a score to that of a bare
    forward pass (`gap`), which is NaN, with a reason, if the class is refused."""

    model_type: str
    rows: str
    gap: float
    reason: str

    @property
    def is_accepted(self):
        return self.gap <= TOLERANCE


def examine(model_type, folder):
    """Make a tiny checkpoint, load it by its family's name, and compare scores with bare forward passes."""
    rng = np.random.default_rng(0)
    sizes = ((40, 48, 3), (72, 40, 3), (40, 48, 3))
    images = [Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)) for size in sizes]
    try:
        processor = tiny(folder, model_type)
        model = load_model(f"vqascore:{folder}")
        seen = model.encode_images([model.prepare_image(image) for image in images])
        ours = model.match(seen, [i for i, _ in PAIRS], model.prepare_captions([CAPTIONS[c] for _, c in PAIRS]))
        theirs = bare_scores(processor, folder, [(images[i], CAPTIONS[c]) for i, c in PAIRS])
    except (ModelError, Unsupported) as error:
        return Verdict(model_type, "", float("nan"), str(error).replace(str(folder), model_type))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert np.ptp(theirs) > 1e-4, "scores that hardly differ would show little"
    facts = model.info.preprocessing
    is_alone = facts["batches"] == "of one image"
    rows = "alone" if is_alone else "in batches"
    if facts["start_of_prompt"] != "per caption":
        rows = "continued by image" if is_alone else "continued"
    gap = float(np.abs(ours - theirs).max())
    return Verdict(model_type, rows, gap, "" if gap <= TOLERANCE else f"the scores differ by {gap:.1g}")


@torch.inference_mode()
def bare_scores(processor, folder, pairs):
    """The log-odds of "Yes" by the processor and the model of `transformers`, one pair at a time."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    words = [processor.tokenizer(word)["input_ids"] for word in ("Yes", "yes", " Yes", " yes")]
    yes = sorted({ids[0] for ids in words if len(ids) == 1})
    scores = []
    for image, caption in pairs:
        question = f'Does this figure show "{caption}"? Please answer yes or no.'
        if processor.chat_template:
            before, _, after = processor.chat_template.partition("{% if c['type'] == 'image' %}")[2].partition("\n")
            question = f"USER: {before}\n{question} ASSISTANT:"
            assert "{{ c['text'] }}" in after
        logits = model(**inputs_of(processor, model, image, question)).logits[0, -1].double()
        p = logits.softmax(-1)[yes].sum()
        scores.append(float(torch.log(p / (1 - p))))
    return np.array(scores)


def inputs_of(processor, model, image, text):
    """Return the tensors of an image and a prompt that a model's forward pass takes."""
    forward = inspect.signature(model.forward).parameters
    options = {"text": [text], "return_tensors": "pt"}
    if "mm_token_type_ids" in forward and model.config.model_type in ASKED:
        options["return_mm_token_type_ids"] = True
    try:
        given = processor(images=[[image]], **options)
    except (ValueError, TypeError):
        given = processor(images=[image], **options)
    inputs = {key: value for key, value in given.items() if key in forward and key != "labels"}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[processor.tokenizer.bos_token_id]])
    return inputs
