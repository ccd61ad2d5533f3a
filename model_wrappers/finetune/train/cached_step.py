"""Gradients of a batch too large for memory, chunk by chunk (Gao et al., 2021, "Scaling Deep Contrastive Learning Batch
Size under Memory Limited Setup", section 3).

A contrastive loss has to see the whole batch, so gradients of parts cannot simply be added up. But embeddings are
small: all chunks are encoded without a graph, the loss gives the gradient of the embeddings, and each chunk is encoded
a second time, with a graph and the same random numbers, to carry its embeddings' gradient on to the parameters.
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
    no_sync: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Tensor:
    """Add the gradients of a batch's loss to the parameters, with one chunk's activations in memory at a time.

    Beside them there are all embeddings, and while the loss is computed its logits, quadratic in the batch.

    They equal, to rounding, those of ``loss(join(encode(chunk) for chunk in chunks)).backward()``, with dropout too:
    both passes draw the random numbers of that plain step, and leave torch's generators as it would. It costs one more
    forward pass; with a single chunk the plain step is taken.

    Args:
        encode: what a chunk becomes, by name: tensors whose rows are examples, such as ``images`` and ``captions``, and
            scalars that are the same for all chunks, such as the ``scale``, if it is a parameter. It must give the same
            when it is called again after the same random numbers of torch, which nothing else may draw meanwhile;
            batch normalisation would count a chunk twice.
        chunks: at least one, of any size. A chunk can have all kinds of embeddings of some examples, or images only
            and the next one captions only: rows of a name are joined in the order of the chunks.
        loss: the loss of the joined embeddings, with `gather_embeddings` where there are several processes. What
            it depends on beside them gets its gradient here as well, but is not averaged over processes.
        no_sync: with several processes ``model.no_sync``, or FSDP's; gradients are then averaged by the backward pass
            of the last chunk alone. It should use every parameter, the scale included, so give it all kinds.

    Returns:
        The loss, without a graph.
    """
    if len(chunks) == 1:
        value = loss(dict(encode(chunks[0])))
        value.backward()
        return value.detach()
    start = _random_state()
    with torch.no_grad():
        parts = [_leaves(encode(chunk)) for chunk in chunks]
    # Autocast keeps the weights that it has cast; in older torch (its issue 112583) those of the pass above would have
    # no gradient in the next one.
    torch.clear_autocast_cache()
    value = loss(_join(parts))
    value.backward()
    _set_random_state(start)
    for number, (chunk, part) in enumerate(zip(chunks, parts, strict=True), start=1):
        with no_sync() if number < len(chunks) else nullcontext():
            _carry_on(encode(chunk), part)
    return value.detach()


def _leaves(outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, each ready to hold its gradient."""
    return {name: output.detach().requires_grad_(output.is_floating_point()) for name, output in outputs.items()}


def _join(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Rows one after the other; of scalars the last chunk's, whose backward pass comes last."""
    by_name: dict[str, list[Tensor]] = {}
    for part in parts:
        for name, tensor in part.items():
            by_name.setdefault(name, []).append(tensor)
    return {name: torch.cat(tensors) if tensors[0].ndim else tensors[-1] for name, tensors in by_name.items()}


def _carry_on(outputs: Mapping[str, Tensor], leaves: Mapping[str, Tensor]) -> None:
    """From the embeddings' gradients to the parameters'; what is frozen or not in the loss has none."""
    pairs = [(outputs[name], leaf.grad) for name, leaf in leaves.items() if outputs[name].requires_grad]
    pairs = [(output, gradient) for output, gradient in pairs if gradient is not None]
    if pairs:
        torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])


def _random_state() -> list[Tensor]:
    """The states of torch's generators: the CPU's, and that of the accelerator in use if there is one."""
    return [module.get_rng_state() for module in _generators()]


def _set_random_state(states: Sequence[Tensor]) -> None:
    for module, state in zip(_generators(), states, strict=True):
        module.set_rng_state(state)


def _generators() -> list[Any]:
    return [torch, torch.get_device_module()] if torch.accelerator.is_available() else [torch]
