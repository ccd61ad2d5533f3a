"""The gathered loss of 2 and 3 gloo processes, unequal parts included, is the single process's on the whole batch.

The processes are started once; each does all that is asked and writes down what it found.
"""

from __future__ import annotations

from datetime import timedelta
from multiprocessing import set_forkserver_preload

import pytest
import torch
from test_cached_step import EVERY, by_rows, make_inputs, make_towers
from torch import distributed as dist
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel

from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.model_wrappers.finetune.train.cached_step import cached_backward
from vl_assay.model_wrappers.finetune.train.gathering import gather, gather_embeddings
from vl_assay.model_wrappers.finetune.train.losses import Embeddings, Weights, total

PARTS = {2: [(5, 4), (1, 8), (0, 9)], 3: [(3, 3, 3), (2, 6, 1), (4, 0, 5)]}
WEIGHTS = {
    "clip": Weights(),
    "negclip": Weights(contrastive=0, negclip=1),
    "hp+hn": Weights(hard_negative=0.5, hard_positive=1),
    "every": EVERY,
}
CASES = [(parts, name) for shares in PARTS.values() for parts in shares for name in WEIGHTS]
IDS = [f"{'+'.join(map(str, parts))}-{name}" for parts, name in CASES]


def gathered_loss(name):
    """The loss of what the towers give, of all processes' rows."""

    def loss(outputs):
        scale = outputs.pop("scale")
        return total(gather_embeddings(Embeddings(**outputs)), scale, WEIGHTS[name])[0]

    return loss


def whole_batch(name):
    """Loss and gradients of one process with the whole batch."""
    towers = make_towers().eval()
    value = gathered_loss(name)(towers(make_inputs(9)))
    value.backward()
    return value.item(), {key: parameter.grad for key, parameter in towers.named_parameters()}


def step_together(rank, parts, name, cached):
    """The same of this process with its part, after DDP's averaging."""
    model = DistributedDataParallel(make_towers().eval())
    rows = by_rows(make_inputs(9), *parts)[rank]
    if cached:
        sizes = [2] * (parts[rank] // 2) + [parts[rank] % 2]
        value = cached_backward(model, by_rows(rows, *sizes), gathered_loss(name), no_sync=model.no_sync)
    else:
        value = gathered_loss(name)(model(rows))
        value.backward()
    return value.item(), {key: parameter.grad for key, parameter in model.module.named_parameters()}


def gather_with_own_loss(rank):
    """Rank r brings r rows; its losses are r + 1 times the sum of all squares, and the sum of all with its own."""
    rows = torch.arange(2.0 * rank).reshape(rank, 2).add(10 * rank).requires_grad_()
    whole = gather(rows)
    [of_squares] = torch.autograd.grad((rank + 1) * whole.square().sum(), rows, retain_graph=True)
    own = torch.zeros_like(whole).detach().requires_grad_()
    of_sum, of_own = torch.autograd.grad((5 * (whole + own)).sum(), (rows, own))
    return rows.detach(), whole.detach(), of_squares, of_sum, of_own


def gather_unequal_rows(rank):
    rows = torch.ones(2, 3)
    try:
        gather_embeddings(Embeddings(rows, rows, rows if rank == 0 else None))
    except VLAssayError as error:
        return str(error)


def work(rank, folder):
    torch.set_num_threads(1)
    found = {}
    for world in PARTS:
        if rank < world:
            meeting = f"file://{folder}/meeting-{world}"
            dist.init_process_group("gloo", meeting, timedelta(seconds=60), world, rank)
            for parts in PARTS[world]:
                for name in WEIGHTS:
                    for cached in (False, True):
                        found[parts, name, cached] = step_together(rank, parts, name, cached)
            found[world, "own loss"] = gather_with_own_loss(rank)
            found[world, "unequal rows"] = gather_unequal_rows(rank)
            dist.destroy_process_group()
    torch.save(found, f"{folder}/{rank}.pt")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of three processes found; the third has a part where there are three."""
    folder = tmp_path_factory.mktemp("gloo")
    # What DDP imports takes seconds: once, in the server that the processes are forked from.
    set_forkserver_preload(["torch.nn.parallel", "torch._dynamo"])
    multiprocessing.start_processes(work, (str(folder),), nprocs=3, start_method="forkserver")
    return [torch.load(folder / f"{rank}.pt") for rank in range(3)]


@pytest.mark.parametrize("cached", [False, True], ids=["plain", "cached"])
@pytest.mark.parametrize(("parts", "name"), CASES, ids=IDS)
def test_loss_and_averaged_gradients_are_those_of_one_process(found, parts, name, cached):
    expected_value, expected = whole_batch(name)
    for rank in range(len(parts)):
        value, gradients = found[rank][parts, name, cached]
        assert value == pytest.approx(expected_value, rel=1e-13)
        torch.testing.assert_close(gradients, expected, rtol=1e-11, atol=1e-14)
    assert all(gradient.any() for gradient in expected.values())


@pytest.mark.parametrize("world", PARTS)
def test_rows_come_in_the_order_of_ranks_and_their_gradients_go_back_summed(found, world):
    results = [found[rank][world, "own loss"] for rank in range(world)]
    everything = torch.cat([rows for rows, *_ in results])
    for rank, (rows, whole, of_squares, of_sum, of_own) in enumerate(results):
        assert len(rows) == rank
        assert torch.equal(whole, everything)
        # Two losses are 1 and 2 times the sum of squares, three also 3 times: 3 · 2x and 6 · 2x.
        assert torch.equal(of_squares, {2: 3, 3: 6}[world] * 2 * rows)
        assert torch.equal(of_sum, torch.full_like(rows, 5 * world))
        assert torch.equal(of_own, torch.full_like(whole, 5))  # what others gave has not got into its gradient


@pytest.mark.parametrize("world", PARTS)
def test_rows_of_unequal_length_are_refused_by_every_process(found, world):
    widths = {2: r"\(9, 6\)", 3: r"\(9, 6, 6\)"}[world]
    for rank in range(world):
        with pytest.raises(VLAssayError, match=f"rows of unequal length {widths}; each must have the same kinds"):
            raise VLAssayError(found[rank][world, "unequal rows"])


def test_alone_nothing_is_gathered():
    rows = torch.ones(2, 3, requires_grad=True)
    embeddings = Embeddings(rows, rows)
    assert gather(rows) is rows
    assert gather_embeddings(embeddings) is embeddings
