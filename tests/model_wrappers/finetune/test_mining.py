"""The nearest images: equal to brute force, in bounded memory, and never a copy of the image."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.model_wrappers.finetune.data import mining
from vl_assay.model_wrappers.finetune.data.mining import mine, nearest
from vl_assay.model_wrappers.finetune.data.samples import FileImages
from vl_assay.model_wrappers.finetune.data.training_set import Sample, TrainingSet


def check(embeddings, found, k):
    """The rows found are k different others, and as near as the nearest by brute force in double precision."""
    rows = embeddings.astype(np.float64)
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    assert found.shape == (len(rows), k)
    for index, own in enumerate(found.tolist()):
        assert index not in own
        assert len(set(own)) == k
        others = [float(rows[index] @ other) for number, other in enumerate(rows) if number != index]
        np.testing.assert_allclose(rows[own] @ rows[index], sorted(others, reverse=True)[:k], atol=1e-6)


@settings(max_examples=25)
@given(st.data())
def test_neighbours_are_those_of_brute_force_with_ties_too(data):
    n = data.draw(st.integers(2, 20), "n")
    k = data.draw(st.integers(1, n - 1), "k")
    # Few different values, so that many rows are equal, and rows are never 0.
    values = data.draw(st.lists(st.tuples(*[st.integers(1, 3)] * 2), min_size=n, max_size=n), "rows")
    embeddings = np.array(values, np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mining, "_ROWS", data.draw(st.integers(1, n + 2), "rows at once"))
        check(embeddings, nearest(embeddings, k), k)


@pytest.mark.parametrize(
    ("embeddings", "k", "message"),
    [
        (np.ones((3, 2)), 3, "3 neighbours of each of 3 images"),
        (np.ones((3, 2)), 0, "0 neighbours of each of 3 images"),
        (np.array([[1, 1], [0, 0], [1, 2]]), 1, "the embedding of image 1 is 0 or not finite"),
        (np.array([[1, 1], [1, 2], [np.nan, 0]]), 1, "the embedding of image 2 is 0 or not finite"),
    ],
)
def test_embeddings_without_neighbours_are_refused(embeddings, k, message):
    with pytest.raises(ScoresError, match=message):
        nearest(embeddings.astype(np.float32), k)


@pytest.fixture
def greys(tmp_path):
    """Images of one grey each, of which numbers 0 and 3 are copies; image 1 has two captions."""
    levels = [10, 30, 60, 10, 100, 200]
    for number, level in enumerate(levels):
        Image.new("L", (4, 4), level).save(tmp_path / f"{number}.png")
    samples = [Sample(f"{number}.png", f"caption {number}") for number in range(len(levels))]
    return TrainingSet("greys", [*samples, samples[1]._replace(caption="another")], FileImages(tmp_path))


def angles(images):
    """On a circle, so that the nearest grey has the highest cosine."""
    levels = np.array([np.asarray(image, np.float64).mean() for image in images]) / 255
    return np.stack([np.cos(levels), np.sin(levels)], axis=1)


@pytest.mark.parametrize("batch_size", [2, 64])
def test_images_find_their_nearest_and_never_a_copy(greys, batch_size, monkeypatch):
    embedded = []
    monkeypatch.setattr(mining, "_BATCH", batch_size)
    found = mine(greys, lambda images: embedded.append(len(images)) or angles(images), 2, progress=False)
    numbers = {int(key[0]): [int(name[0]) for name in near] for key, near in found.items()}
    assert numbers == {0: [1, 2], 1: [0, 2], 2: [1, 4], 3: [1, 2], 4: [2, 1], 5: [4, 2]}
    assert sum(embedded) == 5
    assert max(embedded) <= batch_size
    assert len(mine(greys, angles, 4, progress=False)) == 6
    with pytest.raises(ScoresError, match="5 neighbours of each of 5 images"):
        mine(greys, angles, 5, progress=False)
