import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vl_assay.metrics.common.errors import DataError, ModelError, ScoresError, UnknownNameError
from vl_assay.model_wrappers.finetune.data import mining
from vl_assay.model_wrappers.finetune.data.data import Sample, TrainingSet
from vl_assay.model_wrappers.finetune.data.mining import mine, nearest
from vl_assay.model_wrappers.finetune.data.reading import FileImages


class _FlatIndex:
    """What faiss.IndexFlatIP does, in NumPy."""

    def __init__(self, width):
        self.rows = np.zeros((0, width), np.float32)

    def add(self, rows):
        self.rows = np.concatenate([self.rows, rows])

    def search(self, queries, count):
        similar = queries @ self.rows.T
        order = np.argsort(-similar, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(similar, order, axis=1), order


@pytest.fixture(params=["torch", "faiss", "stand-in for faiss"])
def backend(request, monkeypatch):
    """Each library, where it is installed."""
    if request.param == "faiss":
        pytest.importorskip("faiss")
    if request.param == "stand-in for faiss":
        stand_in = types.ModuleType("faiss")
        stand_in.IndexFlatIP = _FlatIndex  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setitem(sys.modules, "faiss", stand_in)
        monkeypatch.setattr(mining, "find_spec", lambda name: stand_in)
        return "faiss"
    return request.param


def brute_force(embeddings, k):
    """The cosines of the k nearest other rows, one row after the other, in double precision."""
    rows = embeddings.astype(np.float64)
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    values = []
    for place, row in enumerate(rows):
        others = [float(row @ other) for number, other in enumerate(rows) if number != place]
        values.append(sorted(others, reverse=True)[:k])
    return np.array(values), rows


def check(embeddings, found, k):
    """The rows found are k different others, and as near as the nearest."""
    values, rows = brute_force(embeddings, k)
    assert found.shape == (len(embeddings), k)
    for place, own in enumerate(found.tolist()):
        assert place not in own
        assert len(set(own)) == k
    similar = np.einsum("nd,nkd->nk", rows, rows[found])
    np.testing.assert_allclose(similar, values, atol=1e-6)


@pytest.mark.parametrize("chunk", [1, 7, 50, 64])
def test_neighbours_are_those_of_brute_force(backend, chunk):
    embeddings = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    found = nearest(embeddings, 3, chunk=chunk, backend=backend)
    check(embeddings, found, 3)
    similar = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    similar = similar @ similar.T
    np.fill_diagonal(similar, -2)
    np.testing.assert_array_equal(found, np.argsort(-similar, axis=1)[:, :3])


@settings(max_examples=40)
@given(st.data())
def test_neighbours_are_right_with_ties_too(data):
    n = data.draw(st.integers(2, 20), "n")
    k = data.draw(st.integers(1, n - 1), "k")
    # Few different values, so that many rows are equal, and rows are never 0.
    values = data.draw(st.lists(st.tuples(*[st.integers(1, 3)] * 2), min_size=n, max_size=n), "rows")
    chunk = data.draw(st.integers(1, n + 2), "chunk")
    embeddings = np.array(values, np.float32)
    check(embeddings, nearest(embeddings, k, chunk=chunk, backend="torch"), k)


def test_a_row_is_not_its_own_neighbour_among_equal_ones(backend):
    embeddings = np.ones((9, 4), np.float32)
    check(embeddings, nearest(embeddings, 3, chunk=4, backend=backend), 3)


def test_lengths_do_not_matter_and_memory_maps_do(backend, tmp_path):
    embeddings = np.random.default_rng(1).normal(size=(30, 5)).astype(np.float32)
    scaled = embeddings * np.random.default_rng(2).uniform(0.1, 10, size=(30, 1)).astype(np.float32)
    np.save(tmp_path / "e.npy", scaled)
    mapped = np.load(tmp_path / "e.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        nearest(mapped, 2, chunk=8, backend=backend), nearest(embeddings, 2, chunk=8, backend=backend)
    )


def test_no_tensor_is_larger_than_a_square_of_a_chunk():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for each in out if isinstance(out, (tuple, list)) else [out]:
                self.largest = max(self.largest, each.numel() if hasattr(each, "numel") else 0)
            return out

    embeddings = np.random.default_rng(0).normal(size=(700, 4)).astype(np.float32)
    with Sizes() as sizes:
        nearest(embeddings, 3, chunk=20, backend="torch")
    assert 0 < sizes.largest <= 20 * 20


@pytest.mark.parametrize(
    ("embeddings", "k", "message"),
    [
        (np.ones((3, 2)), 3, "3 neighbours of each of 3 images"),
        (np.ones((3, 2)), 0, "0 neighbours of each of 3 images"),
        (np.ones(3), 1, r"embeddings must have the shape \(n, d\); got \(3,\)"),
        (np.array([[1, 1], [0, 0], [1, 2]]), 1, "the embedding of image 1 is 0 or not finite"),
        (np.array([[1, 1], [1, 2], [np.nan, 0]]), 1, "the embedding of image 2 is 0 or not finite"),
        (np.array([[np.inf, 1], [1, 2], [2, 0]]), 1, "the embedding of image 0 is 0 or not finite"),
    ],
)
def test_embeddings_that_have_no_neighbours_are_refused(embeddings, k, message):
    with pytest.raises(ScoresError, match=message):
        nearest(embeddings.astype(np.float32), k, backend="torch")


def test_the_backend_is_what_is_asked_for(monkeypatch):
    with pytest.raises(UnknownNameError, match="unknown backend 'annoy'; known: auto, faiss, torch"):
        nearest(np.eye(3, dtype=np.float32), 1, backend="annoy")
    monkeypatch.setattr(mining, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="faiss is not installed; run 'pip install faiss-cpu'"):
        nearest(np.eye(3, dtype=np.float32), 1, backend="faiss")
    assert nearest(np.eye(3, dtype=np.float32), 1).shape == (3, 1)


def test_faiss_is_taken_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(mining, "find_spec", lambda name: object())
    monkeypatch.setattr(mining, "_by_faiss", lambda *given: "by faiss")
    assert nearest(np.eye(3, dtype=np.float32), 1) == "by faiss"


@pytest.fixture
def greys(tmp_path):
    """Images of one grey each, of which numbers 0 and 3 are copies; image 1 has two captions."""
    levels = [10, 30, 60, 10, 100, 200]
    for number, level in enumerate(levels):
        Image.new("L", (4, 4), level).save(tmp_path / f"{number}.png")
    samples = [Sample(str(tmp_path / f"{number}.png"), f"caption {number}") for number in range(len(levels))]
    return TrainingSet("greys", [*samples, samples[1]._replace(caption="another")], FileImages())


def angles(images):
    """On a circle, so that the nearest grey has the highest cosine."""
    levels = np.array([np.asarray(image, np.float64).mean() for image in images]) / 255
    return np.stack([np.cos(levels), np.sin(levels)], axis=1)


def numbers(keys):
    return [int(key.rpartition("/")[2].removesuffix(".png")) for key in keys]


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_images_find_their_nearest_and_never_a_copy(greys, batch_size):
    embedded = []
    found = mine(
        greys, lambda images: embedded.append(len(images)) or angles(images), 2, batch_size=batch_size, progress=False
    )
    assert [numbers(near) for near in found.values()] == [[1, 2], [0, 2], [1, 4], [1, 2], [2, 1], [4, 2]]
    assert list(found) == greys.image_keys
    assert sum(embedded) == 5
    assert max(embedded) <= batch_size


def test_there_must_be_enough_different_images(greys):
    assert len(mine(greys, angles, 4, progress=False)) == 6
    with pytest.raises(ScoresError, match="5 neighbours of each of 5 images"):
        mine(greys, angles, 5, progress=False)


def test_what_goes_wrong_with_images_and_embeddings_is_said(greys, tmp_path):
    with pytest.raises(ScoresError, match=r"6 images were embedded with the shape \(1, 2\)|5 images were embedded"):
        mine(greys, lambda images: angles(images[:1]), 2, progress=False)
    (tmp_path / "4.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"the image .*4\.png of greys cannot be decoded"):
        mine(greys, angles, 2, progress=False)
