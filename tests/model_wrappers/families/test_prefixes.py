"""Captions that begin alike, in causal text towers: their common tokens are computed once, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.loading.prefixes import grow

CAPTIONS = [
    "a red cat left of a dog",
    "a red cat left of a box",
    "a red cat",
    "a red cat",
    "dog",
    "a big dog near two red cats and one blue box of the man " * 8,  # longer than is read
    "a red dog left of a cat",
]


def test_every_caption_is_a_path_of_its_tree():
    rng = np.random.default_rng(0)
    captions = [[1, *rng.integers(2, 5, rng.integers(1, 9)).tolist(), 9] for _ in range(60)]
    for length in (12, 40, 10_000):
        trees = grow(captions, pad=0, length=length)
        for caption, row, end in zip(captions, *map(torch.Tensor.tolist, trees.ends), strict=True):
            seen = torch.nonzero(trees.seen[row, 0, end])[:, 0]
            assert trees.ids[row, seen].tolist() == caption
            assert trees.places[row, seen].tolist() == list(range(len(caption)))
        # Each sequence has each beginning once.
        used = trees.ids != 0
        paths = {
            (row, tuple(trees.ids[row, trees.seen[row, 0, at]].tolist())) for row, at in torch.nonzero(used).tolist()
        }
        assert len(paths) == used.sum()
    assert len(trees.ids) == 1


@pytest.mark.parametrize("name", ["clip", "metaclip_2"])
def test_embeddings_are_those_of_each_caption_alone_and_fewer_tokens_are_read(name, folders):
    model = load_model(str(folders[name]))
    assert model.shares_prefixes
    ids = model.prepare_captions(CAPTIONS)
    read = []
    layer = model.module.text_model.encoder.layers[0]
    layer.register_forward_pre_hook(
        lambda _, args, given: read.append((args[0] if args else given["hidden_states"]).shape[:2].numel()),
        with_kwargs=True,
    )
    alone = np.concatenate([model.encode_captions([own]) for own in ids])
    separately = sum(read)
    read.clear()
    together = model.encode_captions(ids)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    assert sum(read) < 0.7 * separately
    exact = model.encode_captions(ids[:2], exact=True)
    assert exact.dtype == torch.float64


def test_a_caption_is_read_at_its_first_end_token(folders):
    model = load_model(str(folders["clip"]))
    [one, other] = model.prepare_captions(["a red cat", "a dog"])
    odd = [[*one, *other[1:]], [*one[:2], one[-1], *one[2:]], one]  # an end token among others
    alone = np.concatenate([model.encode_captions([own]) for own in odd])
    np.testing.assert_allclose(model.encode_captions(odd), alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["siglip", "altclip", "chinese_clip"])
def test_towers_in_which_tokens_see_those_after_them_share_nothing(name, folders):
    assert not load_model(str(folders[name])).shares_prefixes


def test_a_tower_that_is_not_as_it_says_shares_nothing(folders, monkeypatch):
    layers = type(load_model(str(folders["clip"])).module.text_model.encoder)
    forward = layers.forward
    monkeypatch.setattr(layers, "forward", lambda self, *a, **k: forward(self, *a, **{**k, "attention_mask": None}))
    assert not load_model(str(folders["clip"])).shares_prefixes
