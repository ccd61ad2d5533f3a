"""The cross-attention of captions to images, in layers as BLIP's, which X-VLM's are too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention


def read_with_images(
    layers: Iterable[Any], hidden: torch.Tensor, mask: torch.Tensor | None, states: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    """Hidden states (n, tokens, d) of captions that attend to their images.

    This is the layers' own forward, except that the keys and values of an image, most of the work of a pair, are
    computed once for all its captions in the batch.

    Args:
        layers: of a `BlipTextModel` with cross-attention.
        hidden: states (n, tokens, d) of the captions before the first layer.
        mask: of `create_bidirectional_mask` for the captions.
        states: (images, patches, e).
        rows: (n,), int64, on the CPU: the image of each caption.
    """
    used, place = torch.unique(rows, return_inverse=True)
    states = states[used]
    for layer in layers:
        hidden, _ = layer.attention(hidden, attention_mask=mask)
        across = layer.crossattention.self
        query, key, value = (
            made.unflatten(-1, (across.num_attention_heads, -1)).transpose(1, 2)
            for made in (across.query(hidden), across.key(states), across.value(states))
        )
        context = scaled_dot_product_attention(query, key[place], value[place])
        hidden = layer.crossattention.output(context.transpose(1, 2).flatten(2), hidden)
        hidden = layer.feed_forward_chunk(hidden)
    return hidden
