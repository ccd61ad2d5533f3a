"""Copies of models that compute in float64, for the re-check of near-ties, in the memory that is free.

A copy in float64 takes four times the memory of weights in bfloat16. If that is not free, the copy shares the model's
weights, and each weight is converted when an operation uses it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ...metrics.common.errors import ModelError

# Of the memory that is free, in bytes, so much is left for the computation.
_MARGIN = 1 << 30
# Operations that read some entries of a tensor, or its shape: their results are converted, not the tensor.
_PARTIAL = ("__get__", "__getitem__", "embedding", "size", "dim", "numel")

# For type checkers an attribute of the class is that of its instances.
_TENSOR: Any = Tensor


def exact_copy(model: Any, name: str) -> Any:
    """Return a copy of a model that computes in float64, on the model's device or, for Apple's GPUs, on the CPU.

    Args:
        model: a module on one device, which is not changed.
        name: of the model, for messages.

    Raises:
        ModelError: the copy cannot be made.
    """
    device = next(model.parameters()).device
    device = torch.device("cpu") if device.type == "mps" else device  # Apple's GPUs have no float64
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    needed = sum(8 * tensor.numel() for tensor in tensors.values() if tensor.is_floating_point())
    shares = needed + _MARGIN > free_memory(device)
    try:
        try:
            return _copy(model, device, shares)
        except (MemoryError, torch.OutOfMemoryError):
            return _copy(model, device, shares=True)
    except (RuntimeError, MemoryError, TypeError) as error:
        raise ModelError(
            f"no float64 copy of {name} can be made on {device}, which needs {needed / 1e9:.1f} GB ({error}); close "
            "scores cannot be re-checked"
        ) from error


def free_memory(device: torch.device) -> int:
    """Return how many bytes are free on a device: those that torch holds unused count; 0 if it is not known."""
    if device.type == "cpu":
        import psutil

        return int(psutil.virtual_memory().available)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    return 0


def _copy(model: Any, device: torch.device, shares: bool) -> Any:
    """Return a deep copy in which parameters are in float64, or, with `shares`, are converted where they are used."""

    def converted(tensor: Tensor) -> Tensor:
        return tensor.detach().to(device, torch.float64 if tensor.is_floating_point() else None)

    copies: dict[int, Any] = {id(weight_or_buffer): converted(weight_or_buffer) for weight_or_buffer in model.buffers()}
    for weight_or_buffer in model.parameters():
        if shares and weight_or_buffer.is_floating_point():
            copies[id(weight_or_buffer)] = Shared(weight_or_buffer, device)
        else:
            copies[id(weight_or_buffer)] = torch.nn.Parameter(converted(weight_or_buffer), requires_grad=False)
    return copy.deepcopy(model, copies)


class Shared(Tensor):
    """A weight that shares the memory of a model's and gives each operation a float64 copy on the device `target`.

    Its attributes ``dtype`` and ``device`` describe the copy, so that inputs are converted to them.
    """

    target: torch.device

    def __new__(cls, weight: Tensor, target: torch.device) -> Shared:
        """Share the memory of `weight`."""
        shared = weight.detach().as_subclass(cls)
        shared.target = target
        return shared

    def __hash__(self) -> int:
        """Return a hash for sets of tensors; the default hash would be computed from a copy."""
        return id(self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operation with float64 copies in place of these weights."""
        if func == _TENSOR.dtype.__get__:
            return torch.float64
        if func == _TENSOR.device.__get__:
            return args[0].target
        is_partial = getattr(func, "__name__", "") in _PARTIAL

        def opened(weight: Shared) -> Tensor:
            return weight.as_subclass(Tensor).to(weight.target, None if is_partial else torch.float64)

        def converted(result: Tensor) -> Tensor:
            return result.double() if is_partial and result.is_floating_point() else result

        with torch._C.DisableTorchFunctionSubclass():
            args, kwargs = tree_map_only(Shared, opened, (args, kwargs or {}))
            return tree_map_only(Tensor, converted, func(*args, **kwargs))
