"""The gathered loss of several gloo processes, unequal parts included, is that of one process on the whole batch.

The processes are started once; each does everything and writes down its results.
"""

from datetime import timedelta
from multiprocessing import set_forkserver_preload

import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.nn import functional

from vl_assay.model_wrappers.finetune.train.gathering import average_gradients, gather_embeddings
from vl_assay.model_wrappers.finetune.train.losses import BatchEmbeddings, LossWeights, total

ROWS, KINDS = 9, ("images", "captions", "negatives", "positives")
PARTS = [(ROWS,), (0, 9), (2, 6, 1)]
EVERY = LossWeights(contrastive=1, negclip=0.5, hard_negative=0.75, hard_positive=0.25)


def step(rank, parts):
    """Loss and averaged gradients of a process with its part of the rows, in float64."""
    torch.manual_seed(0)
    towers = nn.ModuleDict({"images": nn.Linear(6, 4), "texts": nn.Linear(6, 4)}).double()
    towers.register_parameter("log_scale", nn.Parameter(torch.tensor(1.0, dtype=torch.float64)))
    rows = slice(sum(parts[:rank]), sum(parts[: rank + 1]))
    inputs = torch.randn(len(KINDS), ROWS, 6, dtype=torch.float64)[:, rows]
    embedded = [
        functional.normalize(towers["images" if kind == "images" else "texts"](own), dim=1)
        for kind, own in zip(KINDS, inputs, strict=True)
    ]
    masks = torch.arange(ROWS)[rows] % 3 != 0, torch.arange(ROWS)[rows] % 4 != 1
    gathered = gather_embeddings(BatchEmbeddings(*embedded, *masks), parts)
    value, _ = total(gathered, towers.log_scale.exp(), EVERY)
    value.backward()
    average_gradients(towers.parameters(), len(parts))
    return value.item(), {name: parameter.grad for name, parameter in towers.named_parameters()}


def work(rank, folder):
    torch.set_num_threads(1)
    results = {}
    for parts in PARTS[1:]:
        world = len(parts)
        if rank < world:
            dist.init_process_group("gloo", f"file://{folder}/{world}", timedelta(seconds=60), world, rank)
            results[parts] = step(rank, parts)
            dist.destroy_process_group()
    torch.save(results, f"{folder}/{rank}.pt")


def test_loss_and_averaged_gradients_are_those_of_one_process(tmp_path):
    # The imports take seconds: once, in the server that the processes are forked from.
    set_forkserver_preload(["torch.distributed.nn.functional"])
    multiprocessing.start_processes(work, (str(tmp_path),), nprocs=3, start_method="forkserver")
    expected_value, expected = step(0, PARTS[0])
    assert all(gradient.any() for gradient in expected.values())
    for rank in range(3):
        for value, gradients in torch.load(tmp_path / f"{rank}.pt").values():
            assert value == pytest.approx(expected_value, rel=1e-13)
            torch.testing.assert_close(gradients, expected, rtol=1e-11, atol=1e-14)
