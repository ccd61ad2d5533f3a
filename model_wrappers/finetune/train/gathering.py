"""Gather the embeddings of a batch from several processes, with gradients.

Every process computes the loss of the whole batch. In the backward pass a row's gradient is summed over the losses of
all W processes, which makes it W times as large as in one process. `average_gradients` then averages the parameters'
gradients over the processes, which gives the gradients of one process with the whole batch. A parameter that enters the
loss directly, such as the scale, has the same full gradient in each process, and so in the average. Without
`DistributedDataParallel`, a checkpoint has the same names of weights for any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, distributed
from torch.nn import functional

from .losses import BatchEmbeddings


def gather_embeddings(embeddings: BatchEmbeddings, counts: Sequence[int]) -> BatchEmbeddings:
    """Return the embeddings of the whole batch, in the order of ranks.

    Args:
        embeddings: of this process's share of the batch. Every process has the same tensors: a mask is None in all
            of them or in none.
        counts: the number of rows in each process, which may be 0.
    """
    if len(counts) == 1:
        return embeddings
    from torch.distributed.nn.functional import all_gather

    present = {name: tensor for name, tensor in embeddings._asdict().items() if tensor is not None}
    columns = [tensor if tensor.ndim > 1 else tensor[:, None].to(embeddings.images) for tensor in present.values()]
    rows = torch.cat(columns, dim=1)
    # Collectives need equal shapes: rows are padded to the largest number, and the padding is removed.
    padded = functional.pad(rows, (0, 0, 0, max(counts) - len(rows)))
    gathered = torch.cat([process_rows[:count] for process_rows, count in zip(all_gather(padded), counts, strict=True)])
    parts = dict(zip(present, gathered.split([column.shape[1] for column in columns], dim=1), strict=True))
    masks = {name: parts[name].squeeze(1) > 0 for name in parts if name.startswith("has_")}
    return BatchEmbeddings(**parts | masks)


def average_gradients(parameters: Iterable[Tensor], world: int) -> None:
    """Replace gradients by their mean over all processes; every process has gradients of the same parameters.

    Args:
        parameters: in the same order in every process; those without a gradient are left out.
        world: the number of processes.
    """
    if world == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for gradient in gradients:
        distributed.all_reduce(gradient)
        gradient /= world
