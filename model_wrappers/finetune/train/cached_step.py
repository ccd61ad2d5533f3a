"""Cached gradients of a batch too large for memory (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch Size
under Memory Limited Setup", section 3).

A contrastive loss needs the whole batch, so gradients of chunks cannot simply be added. But embeddings are small, so
all chunks are encoded without a graph, the loss gives the gradient of the embeddings, and each chunk is encoded again,
with a graph and the same random numbers, to propagate its embeddings' gradient to the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def cached_backward(
    encode: Callable[[Any], Mapping[str, Tensor]],
    chunks: Sequence[Any],
    loss: Callable[[dict[str, Tensor]], Tensor],
    *,
    block: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Tensor:
    """Add the gradients of a batch's loss to the parameters, with one chunk's activations in memory at a time.

    All embeddings are in memory too, and during the loss its logits, quadratic in the batch.

    Up to rounding, the gradients equal the result of ``loss(join(encode(chunk) for chunk in chunks)).backward()``, even
    with dropout: both passes draw the same random numbers as this plain step, and leave torch's generators in the same
    state. It costs one more forward pass, which a single chunk does not need.

    Args:
        encode: maps a chunk to tensors by name: rows of examples, such as ``images`` and ``captions``, and scalars that
            are the same for all chunks, such as the ``scale``. It must give the same result for the same random
            state; batch normalisation would count a chunk twice.
        chunks: at least one, of any size.
        loss: of the joined embeddings, with `gather_embeddings` if there are several processes, whose gradients the
            caller then averages (`gathering.average_gradients`).
        block: a context in which the chunks are encoded, once forwards and once backwards, whatever their number; in
            it no process waits for another.

    Returns:
        The loss, without a graph.
    """
    is_single = len(chunks) == 1  # which keeps its graph; others are encoded again
    generators: list[Any] = [torch, *([torch.get_device_module()] if torch.accelerator.is_available() else [])]
    states = [generator.get_rng_state() for generator in generators]
    with block(), nullcontext() if is_single else torch.no_grad():
        outputs = [encode(chunk) for chunk in chunks]
    # The embeddings, each ready to hold its gradient.
    parts = [
        {name: tensor.detach().requires_grad_(tensor.is_floating_point()) for name, tensor in output.items()}
        for output in outputs
    ]
    # Autocast caches cast weights; in older versions of torch those of the pass above have no gradient in the next.
    torch.clear_autocast_cache()
    joined = {name: [chunk_outputs[name] for chunk_outputs in parts] for name in parts[0]}
    # Of scalars the last chunk's is taken, whose backward pass comes last.
    value = loss({name: torch.cat(rows) if rows[0].ndim else rows[-1] for name, rows in joined.items()})
    value.backward()
    if not is_single:
        for generator, state in zip(generators, states, strict=True):
            generator.set_rng_state(state)
    with block():
        for chunk, chunk_outputs in zip(chunks, parts, strict=True):
            output = outputs[0] if is_single else encode(chunk)
            # Frozen embeddings have no graph, and those outside the loss no gradient.
            names = [
                name for name, leaf in chunk_outputs.items() if output[name].requires_grad and leaf.grad is not None
            ]
            if names:
                torch.autograd.backward([output[name] for name in names], [chunk_outputs[name].grad for name in names])
    return value.detach()
