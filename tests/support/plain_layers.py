"""Layers written down with torch alone, by the names of their tensors: for the references of the released models."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import gelu, layer_norm, linear


def lin(t, at, x):
    """A linear layer."""
    return linear(x, t[f"{at}.weight"], t[f"{at}.bias"])


def ln(t, at, x, eps):
    """Layer normalisation."""
    return layer_norm(x, x.shape[-1:], t[f"{at}.weight"], t[f"{at}.bias"], eps)


def bert_layer(t, at, x, states=None, eps=1e-12):
    """BERT's layer on the states x (n, d) of one text; with states of an image these are attended to as well."""
    x = _attend(t, f"{at}.attention", x, x, eps)
    if states is not None:
        x = _attend(t, f"{at}.crossattention", x, states, eps)
    hidden = gelu(lin(t, f"{at}.intermediate.dense", x))
    return ln(t, f"{at}.output.LayerNorm", lin(t, f"{at}.output.dense", hidden) + x, eps)


def bert_embeddings(t, at, ids, first=0, eps=1e-12):
    """The states (n, d) of token ids before the first layer; positions count from `first`."""
    x = t[f"{at}.word_embeddings.weight"][ids] + t[f"{at}.token_type_embeddings.weight"][0]
    return ln(t, f"{at}.LayerNorm", x + t[f"{at}.position_embeddings.weight"][first : first + len(ids)], eps)


def _attend(t, at, x, others, eps):
    q = lin(t, f"{at}.self.query", x).unflatten(-1, (-1, 64)).transpose(0, 1)
    k, v = (lin(t, f"{at}.self.{part}", others).unflatten(-1, (-1, 64)).transpose(0, 1) for part in ("key", "value"))
    mixed = (q @ k.transpose(1, 2) / 8).softmax(-1) @ v
    return ln(t, f"{at}.output.LayerNorm", lin(t, f"{at}.output.dense", mixed.transpose(0, 1).flatten(1)) + x, eps)


def pixels(image, size, resample, mean, std):
    """An image (1, 3, height, width), float32, scaled to `size` (width, height)."""
    scaled = np.asarray(image.convert("RGB").resize(size, resample), np.float32) / 255
    return torch.from_numpy((scaled - np.float32(mean)) / np.float32(std)).permute(2, 0, 1)[None]


def linear_shapes(at, inputs, outputs):
    """The shapes of a linear layer's tensors by name."""
    return {f"{at}.weight": (outputs, inputs), f"{at}.bias": (outputs,)}


def norm_shapes(at, width):
    """The shapes of a layer normalisation's tensors by name."""
    return {f"{at}.weight": (width,), f"{at}.bias": (width,)}


def bert_shapes(at, words, hidden, layers, positions, types, fused=(), across=0):
    """The shapes of BERT's tensors by name; the layers `fused` also attend to states of length `across`."""
    place = f"{at}.embeddings"
    found = {f"{place}.word_embeddings.weight": (words, hidden), f"{place}.position_ids": (1, positions)}
    found |= {f"{place}.position_embeddings.weight": (positions, hidden)}
    found |= {f"{place}.token_type_embeddings.weight": (types, hidden)} | norm_shapes(f"{place}.LayerNorm", hidden)
    for layer in range(layers):
        place = f"{at}.encoder.layer.{layer}"
        for kind, keys in (("attention", hidden), ("crossattention", across)):
            if kind == "attention" or layer in fused:
                found |= linear_shapes(f"{place}.{kind}.self.query", hidden, hidden)
                found |= linear_shapes(f"{place}.{kind}.self.key", keys, hidden)
                found |= linear_shapes(f"{place}.{kind}.self.value", keys, hidden)
                found |= linear_shapes(f"{place}.{kind}.output.dense", hidden, hidden)
                found |= norm_shapes(f"{place}.{kind}.output.LayerNorm", hidden)
        found |= linear_shapes(f"{place}.intermediate.dense", hidden, 4 * hidden)
        found |= linear_shapes(f"{place}.output.dense", 4 * hidden, hidden)
        found |= norm_shapes(f"{place}.output.LayerNorm", hidden)
    return found
