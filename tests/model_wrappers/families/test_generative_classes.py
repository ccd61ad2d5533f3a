"""Image-text-to-text classes of `transformers`, by tiny checkpoints of each: the log-odds of "Yes" and the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from generative_classes import CLASSES, examine
from PIL import Image
from tiny_models.shrink import tiny

from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.families import families_of
from vl_assay.model_wrappers.vqascore import MODEL_TYPES

PAGE = (Path(__file__).parents[3] / "docs" / "generative.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\S+)` \| `(\w+)` \| (yes|no) \|", PAGE, re.MULTILINE)
# One for each way in which images come into prompts and models, and how their rows go through the model; qwen2_vl, with
# as many tokens as the size of the image asks for, is in test_generative.py.
QUICK = {
    "blip-2": "in batches",  # queries, no chat template
    "florence2": "in batches",  # an encoder and a decoder
    "gemma3": "continued",  # token types
    "git": "in batches",  # the image before the tokens
    "hunyuan_vl": "continued by image",  # two images of one shape change each other's logits
    "mllama": "continued",  # cross-attention
    "paligemma": "in batches",  # a line break after the prompt
    "qwen3_vl": "continued",  # features for several layers
}


@pytest.mark.parametrize("model_type", QUICK)
def test_scores_in_a_batch_equal_bare_forward_passes(model_type, tmp_path):
    verdict = examine(model_type, tmp_path / "tiny")
    assert verdict.is_accepted, verdict
    assert verdict.rows == QUICK[model_type]


@pytest.mark.parametrize("model_type", ["florence2", "paligemma"])
def test_a_caption_follows_the_whole_prompt_also_in_a_decoder_of_its_own(model_type, tmp_path):
    processor = tiny(tmp_path, model_type)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8))
    model = load_model(str(tmp_path), LoadOptions(settings={"score": "caption"}))
    captions = ["a red cat", "two big dogs near"]
    ours = model.match(model.encode_images([model.prepare_image(image)]), [0, 0], model.prepare_captions(captions))
    bare = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path).eval()
    given = processor(images=[image], text=["Describe this image in one sentence."], return_tensors="pt")
    for caption, score in zip(captions, ours, strict=True):
        ids = processor.tokenizer(caption, return_tensors="pt")["input_ids"]
        inputs = {"pixel_values": given["pixel_values"], "input_ids": given["input_ids"]}
        if model_type == "florence2":
            inputs["decoder_input_ids"] = torch.cat([torch.tensor([[processor.tokenizer.bos_token_id]]), ids], 1)
        else:
            inputs["input_ids"] = torch.cat([given["input_ids"], ids], 1)
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        with torch.inference_mode():
            logs = bare(**inputs).logits[0, -1 - ids.shape[1] : -1].double().log_softmax(-1)
        assert score == pytest.approx(float(logs.gather(1, ids[0][:, None]).mean()), abs=1e-5)


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("instructblip", "its images depend on the prompt"),
        ("pix2struct", "the model reads no prompt"),
        ("diffusion_gemma", "other logits for prompts in a batch than for one alone"),
    ],
)
def test_a_class_that_cannot_be_scored_is_refused_with_the_reason(model_type, reason, tmp_path):
    assert reason in examine(model_type, tmp_path / "tiny").reason


def test_the_page_has_each_class_and_those_accepted_are_found_by_their_type():
    accepted = [model_type for model_type, _, verdict in ROWS if verdict == "yes"]
    assert f"{len(accepted)} of {len(ROWS)} model types are accepted" in PAGE
    assert len(accepted) >= 75
    # Types of other families are theirs; these need the family's name.
    assert {name for name in accepted if families_of(name) == ["vqascore"]} == set(MODEL_TYPES)
    if transformers.__version__.startswith("5.24."):
        assert {model_type: name for model_type, name, _ in ROWS} == CLASSES


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [model_type for model_type, _, verdict in ROWS if verdict == "yes"])
def test_every_class_that_the_page_calls_accepted_is(model_type, tmp_path):
    try:
        verdict = examine(model_type, tmp_path / "tiny")
    except ImportError as error:  # some processors need torchvision, that of SmolVLM num2words
        pytest.skip(" ".join(str(error).split())[:100])
    assert verdict.is_accepted, verdict
