"""Gather a batch from several processes, with gradients.

Every process computes the loss of the whole batch. In the backward pass a row's gradient is summed over all processes'
losses: with W processes of the same loss, W times its gradient in one process. `DistributedDataParallel` and FSDP then
average the parameters' gradients over the W processes, which gives those of one process with the whole batch. A
parameter that enters the loss otherwise, such as the scale, has the same full gradient in each process, and so in
their average.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.autograd.function import once_differentiable

from ....metrics.common.errors import VLAssayError
from .losses import Embeddings


def gather(rows: Tensor) -> Tensor:
    """The rows of all processes, by rank; with one process the same tensor.

    Args:
        rows: (n, d), any number of rows in each process, 0 too; d and the dtype are the same in all.

    Returns:
        (sum of all n, d), in every process. Its gradient goes back to the process of the row, summed over processes.

    Raises:
        VLAssayError: d differs between processes. All of them raise it, so that none waits.
    """
    if _is_alone():
        return rows
    shape = torch.tensor(rows.shape, device=rows.device)
    shapes = [torch.empty_like(shape) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, shape)
    counts, widths = zip(*(shape.tolist() for shape in shapes), strict=True)
    if len(set(widths)) > 1:
        raise VLAssayError(
            f"the processes have rows of unequal length {widths}; each must have the same kinds of embeddings in a "
            "step, with a mask where examples have no negative or positive"
        )
    return _Gather.apply(rows, counts)  # pyright: ignore[reportReturnType]


def gather_embeddings(embeddings: Embeddings) -> Embeddings:
    """The embeddings of the whole batch, with one gather for all tensors of `Embeddings`.

    Each process must have the same tensors with the same widths; a mask must be None in all processes or in none.

    Raises:
        VLAssayError: the tensors differ.
    """
    if _is_alone():
        return embeddings
    present = {name: tensor for name, tensor in embeddings._asdict().items() if tensor is not None}
    columns = [tensor if tensor.ndim > 1 else tensor[:, None].to(embeddings.images) for tensor in present.values()]
    whole = gather(torch.cat(columns, dim=1)).split([column.shape[1] for column in columns], dim=1)
    parts = dict(zip(present, whole, strict=True))
    masks = {name: parts[name].squeeze(1) > 0 for name in parts if name.startswith("has_")}
    return Embeddings(**parts | masks)


def _is_alone() -> bool:
    return not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1


class _Gather(torch.autograd.Function):
    """Collectives need equal shapes: rows are padded to the largest number, and the padding is removed."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: tuple[int, ...]) -> Tensor:
        ctx.counts = counts
        padded = rows.new_zeros(max(counts), rows.shape[1])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        summed = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(summed)
        return summed.split(ctx.counts)[dist.get_rank()], None
