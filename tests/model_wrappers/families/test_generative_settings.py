"""Generative models: multiple choice, and models larger than a GPU."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from bare_forwards import score

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.protocol import abilities
from vl_assay.model_wrappers.loading.prompts import spellings

CAPTIONS = ["a red cat", "a big dog near two red cats", "dog"]
PAIRS = [(0, 0), (1, 0), (0, 1), (2, 2), (1, 1)]


def load(folder, **settings):
    return load_model(str(folder), LoadOptions(settings=settings))


def bare_choice(folder, image, captions):
    """The mean over both orders of the log-probability of a caption's letter, by bare `transformers`."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    scores = np.zeros(2)
    for order in ((0, 1), (1, 0)):
        options = "\n".join(f"{letter}. {captions[number]}" for letter, number in zip("AB", order, strict=True))
        question = f"Which caption describes this image?\n{options}\nAnswer with the letter of that caption alone."
        inputs = processor(
            images=image.convert("RGB"), text=f"USER: <image>\n{question} ASSISTANT:", return_tensors="pt"
        )
        with torch.inference_mode():
            p = model(**inputs).logits[0, -1].double().softmax(-1)
        letters = [sum(float(p[i]) for i in spellings(processor.tokenizer, letter)) for letter in "AB"]
        for place, number in enumerate(order):
            scores[number] += np.log(letters[place] / sum(letters)) / 2
    return scores


def test_multiple_choice_reads_both_orders_of_two_captions(folders, images):
    model = load(folders["llava"], score="choice")
    assert abilities(model) == ("matching", "vqa")
    features = model.encode_images([model.prepare_image(image) for image in images])
    asked = [CAPTIONS[:2], CAPTIONS[1::-1], CAPTIONS, [*CAPTIONS[1:], CAPTIONS[0]]]
    choices = [model.prepare_choices(captions) for captions in asked]
    one, turned, three, rotated = model.choose(features, [0, 0, 1, 1], choices)
    np.testing.assert_allclose(one, bare_choice(folders["llava"], images[0], CAPTIONS[:2]), atol=1e-5, rtol=0)
    np.testing.assert_allclose(one, turned[::-1], atol=1e-6, rtol=0)
    np.testing.assert_allclose(three, np.roll(rotated, 1), atol=1e-6, rtol=0)
    with pytest.raises(ModelError, match="score=choice needs 2 to 26 captions for an image, got 1"):
        model.prepare_choices(["a cat"])


def test_a_model_over_all_devices_scores_as_one_on_one(folders, images):
    whole, spread = load(folders["llava"]), load(folders["llava"], placement="auto")
    np.testing.assert_allclose(
        score(spread, images, CAPTIONS, PAIRS), score(whole, images, CAPTIONS, PAIRS), atol=1e-6, rtol=0
    )
    assert spread.chosen(True) is spread.module
    assert whole.chosen(True) is not whole.module


def test_a_placement_that_cannot_be_had_says_what_to_do(folders, monkeypatch):
    with pytest.raises(ModelError, match="quantise=4bit needs bitsandbytes: pip install bitsandbytes"):
        load(folders["llava"], quantise="4bit")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ModelError, match="2 were started: start vl-assay without torchrun"):
        load(folders["llava"], placement="auto")


def test_a_type_that_no_family_knows_is_offered_to_those_that_try_any(folders, tmp_path):
    folder = shutil.copytree(folders["llava"], tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "strange"}))
    with pytest.raises(ModelError, match=r"some families try other types: .*vqascore:CHECKPOINT"):
        load_model(str(folder))
