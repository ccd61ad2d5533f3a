"""`--dtype auto`: the decisions of float32, for which most is computed in bfloat16 alone."""

from __future__ import annotations

import numpy as np
import pytest

from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.results.tables import to_markdown
from vl_assay.model_wrappers import predict
from vl_assay.model_wrappers.engine.plan import Pairs
from vl_assay.model_wrappers.engine.precision import EmbeddingLookups, decide, dots


def embeddings(rng, count):
    rows = rng.normal(size=(count, 16))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def signs(pairs, scores):
    """The signs of the differences that decide, example by example."""
    matrices = [pairs.matrix(scores, number) for number in range(len(pairs.shapes))]
    return [np.sign(np.diff(matrix, axis=axis)).tolist() for matrix in matrices for axis in (0, 1)]


def test_every_decision_is_that_of_float32_and_few_are_computed_again():
    rng = np.random.default_rng(0)
    shapes = np.array([*[(1, 2)] * 5, (2, 2)] * 500)
    images, texts = embeddings(rng, shapes[:, 0].sum()), embeddings(rng, shapes[:, 1].sum())
    # The captions of an example are alike, in some the same; an image's rounding reaches the difference of others more.
    first = np.repeat(np.cumsum(shapes[:, 1]) - shapes[:, 1], shapes[:, 1])
    apart = np.repeat(rng.choice([0, 0.1, 0.3, 1], len(shapes), p=[0.04, 0.32, 0.32, 0.32]), shapes[:, 1])
    numbers = np.where(apart == 0, first, np.arange(len(texts)))
    texts = (texts[first] + apart[:, None] * texts)[numbers]
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    rough_images = images + rng.normal(scale=1e-3, size=images.shape)
    rough_texts = (texts + rng.normal(scale=1e-3, size=texts.shape))[numbers]
    starts = np.cumsum(shapes, axis=0) - shapes
    grid = [
        (start[0] + i, start[1] + j)
        for start, (rows, columns) in zip(starts, shapes, strict=True)
        for i in range(rows)
        for j in range(columns)
    ]
    anchor, text = np.array(grid).T
    pairs = Pairs([str(number) for number in range(len(texts))], anchor, text, shapes, [])
    read = []

    def read_precisely(numbers):
        read.append(len(set(numbers.tolist())))
        return texts[numbers]

    rough, true = dots(rough_images[anchor], rough_texts[text]), dots(images[anchor], texts[text])
    mixed = EmbeddingLookups(rough_images.__getitem__, rough_texts.__getitem__)
    found = decide(pairs, rough, mixed, EmbeddingLookups(images.__getitem__, read_precisely))
    assert signs(pairs, rough) != signs(pairs, true)
    assert signs(pairs, found.scores) == signs(pairs, true)
    assert sum(read) < 0.35 * len(texts)
    assert found.facts["scores_with_float32_captions"] > found.facts["scores_with_float32_images"] > 0
    assert 0.0005 < found.facts["bfloat16_bound"] < 0.05


@pytest.mark.parametrize("rounded", ["images", "texts"])
def test_examples_whose_captions_are_far_apart_may_be_off_by_more_than_those_that_are_closest_to_a_tie(rounded):
    rng = np.random.default_rng(1)
    images, texts = embeddings(rng, 3000), embeddings(rng, 6000).reshape(3000, 2, 16)
    apart = np.resize([0.02, 1], 3000)[:, None]
    texts[:, 1] = texts[:, 0] + apart * texts[:, 1]
    rough_images, rough_texts = images, texts
    if rounded == "images":
        rough_images = images + rng.normal(scale=1e-2, size=images.shape)
    else:
        rough_texts = texts + apart[:, None] * rng.normal(scale=1e-2, size=texts.shape)
    flat, rough_flat = texts.reshape(6000, 16), rough_texts.reshape(6000, 16)
    anchor, text = np.repeat(np.arange(3000), 2), np.arange(6000)
    pairs = Pairs([str(number) for number in text], anchor, text, np.tile([1, 2], (3000, 1)), [])
    rough, true = dots(rough_images[anchor], rough_flat), dots(images[anchor], flat)
    mixed, precise = (
        EmbeddingLookups(one.__getitem__, two.__getitem__) for one, two in ((rough_images, rough_flat), (images, flat))
    )
    assert signs(pairs, rough) != signs(pairs, true)
    assert signs(pairs, decide(pairs, rough, mixed, precise).scores) == signs(pairs, true)


def test_a_run_decides_as_in_float32_and_says_what_it_computed_again(tiny_clip, toy, tmp_path):
    files = {
        dtype: predict(str(tiny_clip), "toy_scenes/itm", out=tmp_path / dtype, dtype=dtype, progress=False)
        for dtype in ("auto", "float32", "bfloat16")
    }
    auto, whole = files["auto"], files["float32"]
    ours, theirs, rough = (read_predictions(file) for [file] in files.values())
    decisions = [[np.argmax(row.scores) for row in found.rows] for found in (ours, theirs, rough)]
    assert decisions[0] == decisions[1] != decisions[2]
    assert ours.metadata["model"]["dtype"] == "auto"
    assert ours.metadata["run"]["examples_in_sample"] > 0
    bound = ours.metadata["run"]["bfloat16_bound"]
    assert f"what that may turn, up to {bound:.2g} apart, is decided in float32" in to_markdown(auto.report())
    assert "bfloat16" not in to_markdown(whole.report())


@pytest.mark.parametrize(
    ("model", "benchmark", "message"),
    [
        ("mock:bag-of-words", "toy_scenes/itm", "take float32, bfloat16 or float16"),
        ("demo-clip", "toy_scenes/retrieval", "decides the examples of matching tasks"),
    ],
)
def test_what_it_cannot_decide_is_refused(model, benchmark, message, toy, tmp_path):
    with pytest.raises(ModelError, match=message):
        predict(model, benchmark, out=tmp_path / "out", dtype="auto", progress=False)
