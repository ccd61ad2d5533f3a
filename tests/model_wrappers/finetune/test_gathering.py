"""The gathered loss of several gloo processes, unequal parts included, is that of one process on the whole batch.

The processes are started once; each does everything and writes down its results.
"""

from datetime import timedelta
from multiprocessing import set_forkserver_preload

import pytest
import torch
from test_cached_step import EVERY, by_rows, make_inputs, make_towers
from torch import distributed as dist
from torch import multiprocessing

from vl_assay.model_wrappers.finetune.train.cached_step import cached_backward
from vl_assay.model_wrappers.finetune.train.gathering import average_gradients, gather_embeddings
from vl_assay.model_wrappers.finetune.train.losses import BatchEmbeddings, LossWeights, total

PARTS = [(0, 9), (2, 6, 1)]
WEIGHTS = {"clip": LossWeights(), "every": EVERY}
CASES = [(parts, name, is_cached) for parts in PARTS for name in WEIGHTS for is_cached in (False, True)]


def gathered_loss(name, counts):
    """The loss of the embeddings of all processes."""

    def loss(outputs):
        scale = outputs.pop("scale")
        return total(gather_embeddings(BatchEmbeddings(**outputs), counts), scale, WEIGHTS[name])[0]

    return loss


def whole_batch(name):
    """Loss and gradients of one process with the whole batch."""
    towers = make_towers().eval()
    value = gathered_loss(name, [9])(towers(make_inputs(9)))
    value.backward()
    return value.item(), {key: parameter.grad for key, parameter in towers.named_parameters()}


def step_together(rank, parts, name, is_cached):
    """Loss and gradients of this process with its part, after averaging."""
    model = make_towers().eval()
    rows = by_rows(make_inputs(9), *parts)[rank]
    loss = gathered_loss(name, parts)
    if is_cached:
        sizes = [2] * (parts[rank] // 2) + [parts[rank] % 2]
        value = cached_backward(model, by_rows(rows, *sizes), loss)
    else:
        value = loss(model(rows))
        value.backward()
    average_gradients(model.parameters(), len(parts))
    return value.item(), {key: parameter.grad for key, parameter in model.named_parameters()}


def work(rank, folder):
    torch.set_num_threads(1)
    results = {}
    for world in (2, 3):
        if rank < world:
            dist.init_process_group("gloo", f"file://{folder}/{world}", timedelta(seconds=60), world, rank)
            for case in CASES:
                if len(case[0]) == world:
                    results[case] = step_together(rank, *case)
            dist.destroy_process_group()
    torch.save(results, f"{folder}/{rank}.pt")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of three processes; the third has a part where there are three."""
    folder = tmp_path_factory.mktemp("gloo")
    # The imports take seconds: once, in the server that the processes are forked from.
    set_forkserver_preload(["torch.distributed.nn.functional"])
    multiprocessing.start_processes(work, (str(folder),), nprocs=3, start_method="forkserver")
    return [torch.load(folder / f"{rank}.pt") for rank in range(3)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loss_and_averaged_gradients_are_those_of_one_process(results, case):
    parts, name, _ = case
    expected_value, expected = whole_batch(name)
    for rank in range(len(parts)):
        value, gradients = results[rank][case]
        assert value == pytest.approx(expected_value, rel=1e-13)
        torch.testing.assert_close(gradients, expected, rtol=1e-11, atol=1e-14)
    assert all(gradient.any() for gradient in expected.values())
