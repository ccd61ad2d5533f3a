"""The cross-attention of captions to images, in layers like BLIP's, which X-VLM has too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def read_with_images(
    layers: Iterable[Any], hidden: Tensor, mask: Tensor | None, states: Tensor, rows: Tensor
) -> Tensor:
    """Return the hidden states (n, tokens, d) of captions after the last layer.

    It is the forward of the layers, except that the keys and values of an image, most of the work of a pair, are
    computed once for all its captions, for which `transformers` has no method.

    Args:
        layers: of a `BlipTextModel` with cross-attention.
        hidden: states (n, tokens, d) of the captions before the first layer.
        mask: of `create_bidirectional_mask` for the captions.
        states: (images, patches, e).
        rows: (n,), int64: the image of each caption.
    """
    for layer in layers:
        hidden = _read_layer(layer, hidden, mask, states, rows)
    return hidden


def _read_layer(layer: Any, hidden: Tensor, mask: Tensor | None, states: Tensor, rows: Tensor) -> Tensor:
    hidden, _ = layer.attention(hidden, attention_mask=mask)
    across = layer.crossattention.self
    query, key, value = (
        states_of_head.unflatten(-1, (across.num_attention_heads, -1)).transpose(1, 2)
        for states_of_head in (across.query(hidden), across.key(states), across.value(states))
    )
    context = scaled_dot_product_attention(query, key[rows], value[rows])
    hidden = layer.crossattention.output(context.transpose(1, 2).flatten(2), hidden)
    return layer.feed_forward_chunk(hidden)
