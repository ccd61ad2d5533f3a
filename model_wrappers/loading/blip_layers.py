"""The cross-attention of captions to images, in layers like BLIP's, which X-VLM has too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

Reader = Callable[[Iterable[Any], Tensor, Tensor | None, Tensor, Tensor], Tensor]


def image_reader(settings: Mapping[str, str]) -> Reader:
    """Return the function that reads captions with their images, compiled with the setting ``compile``.

    It is the forward of the layers, except that the keys and values of an image, most of the work of a pair, are
    computed once for all its captions, for which `transformers` has no method. Its arguments:

    - layers: of a `BlipTextModel` with cross-attention;
    - hidden: states (n, tokens, d) of the captions before the first layer;
    - mask: of `create_bidirectional_mask` for the captions;
    - states: (images, patches, e);
    - rows: (n,), int64: the image of each caption.

    It returns the hidden states (n, tokens, d) after the last layer.
    """
    read_layer = torch.compile(_read_layer, dynamic=True) if "compile" in settings else _read_layer

    def read(layers: Iterable[Any], hidden: Tensor, mask: Tensor | None, states: Tensor, rows: Tensor) -> Tensor:
        for layer in layers:
            hidden = read_layer(layer, hidden, mask, states, rows)
        return hidden

    return read


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
