"""Detectors: boxes and scores as transformers would have them, one image and one phrase at a time."""

from __future__ import annotations

import json
import shutil
from functools import cache

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.protocol import PhraseQuery
from vl_assay.model_wrappers.loading.detectors import Limits, best_boxes, probabilities

OWLS, DINOS = ("owlvit", "owlv2"), ("grounding-dino", "mm-grounding-dino")
CAPTION = "a big red cat left of a dog"
OTHER = "the small cats"
# Lists of unlike lengths for images of unlike shapes.
QUERIES = [
    [PhraseQuery(CAPTION, 0, 13), PhraseQuery(CAPTION, 22, 27)],
    [PhraseQuery(OTHER, 0, 14)],
    [PhraseQuery(CAPTION, 22, 27), PhraseQuery(OTHER, 10, 14)],
]
SIZES = [(120, 80), (80, 120), (120, 80)]


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8) for width, height in SIZES]
    return [Image.fromarray(pixels).resize(size) for pixels, size in zip(noise, SIZES, strict=True)]


def load(folder, **settings):
    return load_model(str(folder), LoadOptions(settings=settings))


def detect(model, images, queries):
    return model.detect([model.prepare_image(i) for i in images], [i.size for i in images], queries)


@cache
def bare(folder, prefix, processor):
    """The model and the processor as `transformers` has them, the latter with images in Pillow."""
    model = getattr(transformers, f"{prefix}ForObjectDetection").from_pretrained(folder, dtype=torch.float32).eval()
    images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    return model, getattr(transformers, processor)(images, transformers.AutoTokenizer.from_pretrained(folder))


def bare_owl(folder, kind, image, text):
    """The boxes and scores of one text by transformers' own forward pass and post-processing, the surest first."""
    model, processor = bare(folder, {"owlvit": "OwlViT", "owlv2": "Owlv2"}[kind], "OwlViTProcessor")
    inputs = processor(images=image, text=[[text]], return_tensors="pt", padding=True, truncation=True, max_length=12)
    with torch.inference_mode():
        outputs = model(**inputs)
    # At threshold -1 every box is above it.
    [result] = processor.post_process_grounded_object_detection(
        outputs, threshold=-1, target_sizes=[image.size[::-1]], text_labels=[[text]]
    )
    return ordered(result["boxes"].numpy(), result["scores"].numpy(), image.size)


def bare_dino(folder, kind, image, text, tokens, pool="max"):
    """As `bare_owl`, for the tokens of a phrase in a text, by their numbers."""
    prefix = {"grounding-dino": "GroundingDino", "mm-grounding-dino": "MMGroundingDino"}[kind]
    model, processor = bare(folder, prefix, "GroundingDinoProcessor")
    inputs = processor(images=image, text=text, return_tensors="pt", truncation=True, max_length=24)
    with torch.inference_mode():
        outputs = model(**inputs)
    [result] = processor.post_process_grounded_object_detection(
        outputs, inputs.input_ids, threshold=-1, target_sizes=[image.size[::-1]]
    )
    scores = outputs.logits[0, :, tokens].sigmoid().numpy()
    return ordered(result["boxes"].numpy(), getattr(scores, pool)(1), image.size)


def bare_omdet(model, folder, image, text):
    """As `bare_owl`, by a module of transformers, and the number of boxes left out for one that they overlap.

    The processor, whose own post-processing does that, needs torchvision.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    images = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    options = {"padding": "max_length", "truncation": True, "max_length": 16, "return_tensors": "pt"}
    classes, tasks = tokenizer([text], **options), tokenizer([f"Detect {text}."], **options)
    inputs = {f"{name}_{key}": each[key] for name, each in (("classes", classes), ("tasks", tasks)) for key in each}
    with torch.inference_mode():
        output = model(**images(image, return_tensors="pt"), **inputs, classes_structure=torch.tensor([1]))
    x, y, w, h = output.decoder_coord_logits[0].numpy().T
    boxes = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1) * [*image.size, *image.size]
    scores = output.decoder_class_logits[0, :, 0].sigmoid().numpy()
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[i], boxes[j]) <= 0.5 for j in kept):
            kept.append(i)
    return ordered(boxes[kept], scores[kept], image.size), len(scores) - len(kept)


def overlap(one, other):
    width, height = (max(0, min(one[i + 2], other[i + 2]) - max(one[i], other[i])) for i in (0, 1))
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return width * height / (areas - width * height)


def ordered(boxes, scores, size):
    """Clipped to the image, the surest first."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    width, height = size
    boxes = np.stack([boxes[:, i].clip(0, limit) for i, limit in enumerate((width, height, width, height))], axis=1)
    return boxes[order], scores[order]


def assert_same(found, expected, scores=1e-5, pixels=1e-2):
    assert found.boxes.dtype == found.scores.dtype == np.float64
    np.testing.assert_allclose(found.scores, expected[1], atol=scores)
    np.testing.assert_allclose(found.boxes, expected[0], atol=pixels)


# [CLS] a big red cat left of a dog . [SEP], and [CLS] the small cat ##s . [SEP]
SPANS = {(0, 13): [1, 2, 3, 4], (22, 27): [7, 8], (0, 14): [1, 2, 3, 4], (10, 14): [3, 4]}


@pytest.mark.parametrize("kind", [*OWLS, *DINOS])
def test_boxes_and_scores_equal_a_bare_forward_of_one_text_at_a_time(kind, folders, images):
    found = detect(load(folders[kind]), images, QUERIES)
    for image, row, queries in zip(images, found, QUERIES, strict=True):
        for one, query in zip(row, queries, strict=True):
            if kind in OWLS:
                expected = bare_owl(folders[kind], kind, image, query.text)
            else:
                tokens = SPANS[query.start, query.end]
                expected = bare_dino(folders[kind], kind, image, f"{query.caption}.", tokens)
            assert one.boxes.shape == (36 if kind in OWLS else 20, 4)
            assert_same(one, expected)


def test_omdet_finds_each_phrase_alone_and_leaves_out_what_overlaps_a_better_box(folders, images):
    model, left_out = load(folders["omdet-turbo"]), 0
    with torch.no_grad():
        model.module.decoder.decoder_bbox_head[-1].layers[-1].bias[2:] += 3  # large boxes
    found = detect(model, images, QUERIES)
    for image, row, queries in zip(images, found, QUERIES, strict=True):
        for one, query in zip(row, queries, strict=True):
            expected, without = bare_omdet(model.module, folders["omdet-turbo"], image, query.text)
            assert_same(one, expected)
            left_out += without
    assert left_out > 0, "boxes that overlap are among them"


def test_owl_can_be_asked_for_whole_captions(folders, images):
    [[one, other]] = detect(load(folders["owlvit"], context="caption"), images[:1], QUERIES[:1])
    expected = bare_owl(folders["owlvit"], "owlvit", images[0], CAPTION)
    assert_same(one, expected)
    assert_same(other, expected)


def test_dino_can_be_asked_for_phrases_alone_and_for_the_mean_of_their_tokens(folders, images):
    kind = "grounding-dino"
    [[one, other]] = detect(load(folders[kind], context="phrase", tokens="mean"), images[:1], QUERIES[:1])
    assert_same(one, bare_dino(folders[kind], kind, images[0], "a big red cat.", [1, 2, 3, 4], "mean"))
    assert_same(other, bare_dino(folders[kind], kind, images[0], "a dog.", [1, 2], "mean"))


def test_dino_tells_equal_words_apart_by_their_place(folders, images):
    caption = "a cat left of a cat"
    [[first, second]] = detect(
        load(folders["grounding-dino"]), images[:1], [[PhraseQuery(caption, 0, 5), PhraseQuery(caption, 14, 19)]]
    )
    assert_same(first, bare_dino(folders["grounding-dino"], "grounding-dino", images[0], f"{caption}.", [1, 2]))
    assert_same(second, bare_dino(folders["grounding-dino"], "grounding-dino", images[0], f"{caption}.", [5, 6]))
    assert not np.allclose(first.scores, second.scores)


def test_dino_reads_one_full_stop_at_the_end_and_no_white_space_after_it(folders, images):
    model = load(folders["grounding-dino"])
    [[plain, stopped, spaced]] = detect(
        model, images[:1], [[PhraseQuery("a cat", 0, 5), PhraseQuery("a cat.", 0, 5), PhraseQuery("a cat. \n", 0, 5)]]
    )
    assert (plain.scores == stopped.scores).all()
    assert (plain.scores == spaced.scores).all()


def test_a_long_phrase_is_cut_as_the_tokenizer_would(folders, images):
    text, model = "a red box " * 20, load(folders["owlvit"])
    assert len(model.prepare_captions([text])[0]) > model.max_tokens == 12
    [[found]] = detect(model, images[:1], [[PhraseQuery(text, 0, len(text))]])
    assert_same(found, bare_owl(folders["owlvit"], "owlvit", images[0], text))


def test_a_phrase_beyond_what_dino_reads_has_no_boxes(folders, images):
    text = "a red box left of " * 6
    model = load(folders["grounding-dino"])
    assert model.max_tokens == 24
    [[read, unread]] = detect(
        model, images[:1], [[PhraseQuery(text, 0, 9), PhraseQuery(text, len(text) - 9, len(text) - 1)]]
    )
    assert_same(read, bare_dino(folders["grounding-dino"], "grounding-dino", images[0], f"{text}.", [1, 2, 3]))
    assert unread.boxes.shape == (0, 4)
    assert unread.scores.shape == (0,)


def test_owlv2_boxes_are_put_back_from_the_padded_square(folders, images):
    # With all weights of the last layer 0 each patch draws its own cell, up to a corner that is its centre.
    model = load(folders["owlv2"])
    with torch.no_grad():
        model.module.box_head.dense2.weight.zero_()
        model.module.box_head.dense2.bias.zero_()
    [[found]] = detect(model, images[:1], [[PhraseQuery("a cat", 0, 5)]])
    # 6 × 6 cells of 20 pixels over the square of 120; the image is its upper 80.
    sides = np.unique(np.round(found.boxes[:, 3]).astype(int))
    assert sides.tolist() == [30, 50, 70, 80]
    assert np.unique(np.round(found.boxes[:, 2]).astype(int)).tolist() == [30, 50, 70, 90, 110, 120]


def test_settings_limit_the_boxes_and_become_part_of_the_name(folders, images):
    kind = "grounding-dino"
    [[everything]] = detect(load(folders[kind]), images[:1], [QUERIES[0][:1]])
    few = load(folders[kind], max_boxes="3")
    [[found]] = detect(few, images[:1], [QUERIES[0][:1]])
    assert (found.boxes == everything.boxes[:3]).all()
    assert few.info.name == f"{kind} (max_boxes=3)"
    threshold = float(everything.scores[4])
    [[sure]] = detect(load(folders[kind], threshold=repr(threshold)), images[:1], [QUERIES[0][:1]])
    assert (sure.scores == everything.scores[:5]).all()
    [[nothing]] = detect(load(folders[kind], threshold="1"), images[:1], [QUERIES[0][:1]])
    assert nothing.boxes.shape == (0, 4)


def test_limits_out_of_range_are_refused_before_weights_load(folders, tmp_path):
    folder = shutil.copytree(folders["owlvit"], tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    for bad in ("0", "many", "1.5"):
        with pytest.raises(ModelError, match=r"max_boxes is .*whole number from 1"):
            load(folder, max_boxes=bad)
    for bad in ("nan", "2", "-0.1", "low"):
        with pytest.raises(ModelError, match=r"threshold is .*from 0 to 1"):
            load(folder, threshold=bad)


def test_an_image_processor_that_crops_is_refused(folders, tmp_path):
    folder = tmp_path / "crops"
    shutil.copytree(folders["owlvit"], folder)
    file = folder / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"do_center_crop": True}))
    with pytest.raises(ModelError, match=r"crops images"):
        load_model(str(folder))


def test_equally_sure_boxes_keep_the_order_of_the_model_and_nan_is_refused():
    boxes = np.array([[0.5, 0.5, 0.2, 0.4], [0.5, 0.5, 1.0, 1.0], [0.9, 0.9, 0.4, 0.4]])
    found = best_boxes(boxes, np.array([0.5, 0.9, 0.5]), (100, 50), (100, 50), Limits(100, 0.0))
    # Centre 90, 45, half a side 20, 10: from 70, 35 to 110, 55, clipped to 100, 50.
    np.testing.assert_allclose(found.boxes, [[0, 0, 100, 50], [40, 15, 60, 35], [70, 35, 100, 50]])
    assert found.scores.tolist() == [0.9, 0.5, 0.5]
    for bad in (np.array([0.5, np.nan, 0.5]), np.array([0.5, 0.5, 0.5])):
        with pytest.raises(ModelError, match="not all numbers"):
            best_boxes(boxes * (np.nan if np.isfinite(bad).all() else 1), bad, (9, 9), (9, 9), Limits(100, 0.0))


def test_scores_that_single_precision_would_tie_stay_apart():
    logits = np.array([18.0, 19.0], dtype=np.float32)
    assert len(set(probabilities(logits).tolist())) == 2
