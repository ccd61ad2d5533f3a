"""Boxes that generative models write: what is read, where it lies, and how sure it is."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_models.shrink import tiny

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model, written_boxes
from vl_assay.model_wrappers.engine.protocol import PhraseQuery
from vl_assay.model_wrappers.written_boxes import FORMATS, read_boxes

SIZE = (120, 80)
QUERY = PhraseQuery("a big red cat", 2, 13)
BOX = (12.0, 20.0, 60.0, 40.0)  # a tenth to a half of the width, a quarter to a half of the height
ANSWERS = {
    "paligemma": "<loc0256><loc0102><loc0512><loc0512> big red cat ; <loc0000>",
    "florence2": "big red cat<loc_100><loc_250><loc_499><loc_499>",
    "qwen2_vl": "<|box_start|>(100,250),(500,500)<|box_end|>",
    "qwen2_5_vl": '```json\n[{"bbox_2d": [12, 20, 60, 40], "label": "cat"}, {"bbox_2d": [1, 2',  # of 120 by 80
    "qwen3_vl": '[{"bbox_2d": [100, 250, 500, 500], "label": "cat"}]',
}


def image():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8))


def load(folder, **settings):
    return load_model(f"written_boxes:{folder}", LoadOptions(settings=settings))


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("qwen3_vl", '"bbox_2d": [NaN, 1, 2, 3] "bbox_2d": [1e999, 1, 2, 3] "bbox_2d": [1, 2, 3]'),
        ("qwen3_vl", "[" * 100_000 + '"bbox_2d":' * 100_000),
        ("qwen3_vl", " " * 40_000 + '"bbox_2d": [1, 2, 3, 4]'),  # beyond what an answer can have
        ("paligemma", "<loc12345><loc0001><loc0002><loc0003>" + "<loc" * 100_000),
        ("florence2", "<loc_1><loc_2><loc_3>"),
        ("qwen2_vl", "(" * 200_000 + "1,2),(3"),
    ],
)
def test_what_is_no_whole_box_is_not_read(form, answer):
    assert read_boxes(answer, FORMATS[form]) == []


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A function that returns the folder and the processor of a model type's tiny checkpoint, built once."""

    @cache
    def build(model_type):
        folder = tmp_path_factory.mktemp(model_type)
        return folder, tiny(folder, model_type)

    return build


@pytest.mark.parametrize("model_type", FORMATS)
def test_an_answer_is_that_of_generate_and_boxes_lie_where_they_are_written(model_type, checkpoint, monkeypatch):
    monkeypatch.setattr(written_boxes, "MOST_TOKENS", 8)
    folder, processor = checkpoint(model_type)
    model = load(folder)
    prepared = model.prepare_image(image())
    text, ends, logs = model.write(prepared, QUERY.text)
    bare = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    prompt = model.info.preprocessing["prompt"].replace("{}", QUERY.text)
    given = processor(images=[[image()]], text=[prompt], return_tensors="pt")
    known = {key: value for key, value in given.items() if key != "labels"}
    with torch.inference_mode():
        written = bare.generate(**known, do_sample=False, max_new_tokens=8)[0]
    expected = written[len(written) - len(logs) :]
    assert text == "".join(processor.tokenizer.decode([token]) for token in expected)
    assert len(ends) == len(logs) > 1
    assert max(logs) <= 0
    detections = model.detect([prepared], [SIZE], [[QUERY]])[0][0]  # whatever a random model writes
    assert len(detections.boxes) == len(detections.scores)

    answer = ANSWERS[model_type]
    start = read_boxes(answer, FORMATS[model_type])[0].start
    monkeypatch.setattr(model, "write", lambda *_: (answer, [start, len(answer)], [-9.0, np.log(0.25)]))
    if model_type == "qwen2_5_vl":
        assert processor.image_processor.patch_size == 8
        assert prepared.inputs["image_grid_thw"].shape == (1, 3)
        prepared.inputs["image_grid_thw"] = np.array([[1, 10, 15]])
    found = model.detect([prepared], [SIZE], [[QUERY, QUERY]])[0]
    assert [len(own.boxes) for own in found] == [1, 1]
    assert found[0].boxes[0] == pytest.approx(BOX, abs=0.15)
    assert found[0].scores[0] == pytest.approx(0.25)


def test_without_confidences_boxes_are_tied_in_their_order_and_those_without_area_are_left_out(checkpoint, monkeypatch):
    model = load(checkpoint("florence2")[0], confidence="none", max_boxes="2")
    boxes = ("<loc_500><loc_500><loc_600><loc_600>", "<loc_9><loc_9><loc_9><loc_9>", "<loc_0><loc_0><loc_999><loc_999>")
    text = "".join(boxes)
    monkeypatch.setattr(model, "write", lambda *_: (text, [len(text)], [-1.0]))
    found = model.detect([model.prepare_image(image())], [SIZE], [[QUERY]])[0][0]
    assert found.scores.tolist() == [1, 1]
    assert found.boxes[0] == pytest.approx([60.06, 40.04, 72.06, 48.04])
    assert found.boxes[1] == pytest.approx([0.06, 0.04, 119.94, 79.96])
    assert model.info.settings["confidence"] == "none"


def test_a_phrase_with_the_image_token_and_a_model_that_writes_no_boxes_are_refused(checkpoint, folders):
    model = load(checkpoint("paligemma")[0])
    with pytest.raises(ModelError, match="holds the token that stands for an image"):
        model.write(model.prepare_image(image()), "a <image>")
    with pytest.raises(ModelError, match="its family is vqascore"):
        load(folders["llava"])
