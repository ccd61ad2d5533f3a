"""Copies of models that compute in float64, for the re-check of near-ties."""

from __future__ import annotations

import copy
from typing import Any

import torch

from ...metrics.common.errors import ModelError

# The part of a GPU's free memory, in bytes, that is left for the computation.
_MARGIN = 1 << 30


def exact_copy(model: Any, name: str) -> Any:
    """Return a copy of a model in float64, on the model's device or, if that has no room or no float64, on the CPU.

    Args:
        model: a module on one device, which is not changed.
        name: of the model, for messages.

    Raises:
        ModelError: the copy cannot be made.
    """
    device = next(model.parameters()).device
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    needed = sum(8 * tensor.numel() for tensor in tensors.values() if tensor.is_floating_point())
    # Apple's GPUs have no float64.
    if device.type == "mps" or (device.type == "cuda" and needed + _MARGIN > _free_memory(device)):
        device = torch.device("cpu")
    try:
        return _copy(model, device)
    except (RuntimeError, MemoryError, TypeError) as error:
        raise ModelError(
            f"no float64 copy of {name} can be made on {device}, which needs {needed / 1e9:.1f} GB ({error}); close "
            "scores cannot be re-checked"
        ) from error


def _free_memory(device: torch.device) -> int:
    """Return the free bytes of a GPU, with those that torch holds unused."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _copy(model: Any, device: torch.device) -> Any:
    """Return a deep copy whose tensors are converted one by one, so that no second copy in the old type is made."""

    def converted(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(device, torch.float64 if tensor.is_floating_point() else None)

    copies: dict[int, Any] = {id(buffer): converted(buffer) for buffer in model.buffers()}
    for weight in model.parameters():
        copies[id(weight)] = torch.nn.Parameter(converted(weight), requires_grad=False)
    return copy.deepcopy(model, copies)
