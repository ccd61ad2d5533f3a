"""Cached gradients: those of the plain step, to rounding, with the activations of one chunk."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from vl_assay.model_wrappers.finetune.train.cached_step import cached_backward
from vl_assay.model_wrappers.finetune.train.losses import BatchEmbeddings, LossWeights, total

KINDS = ("images", "captions", "negatives", "positives")
EVERY = LossWeights(contrastive=1, negclip=0.5, hard_negative=0.75, hard_positive=0.25)


class Towers(nn.Module):
    """Two small towers with dropout and the scale, in float64; a batch is inputs by kind and masks."""

    def __init__(self, width=16):
        super().__init__()
        for name in ("image", "text"):
            layers = [nn.Linear(6, width), nn.GELU(), nn.Dropout(0.3), nn.Linear(width, width), nn.GELU()]
            self.add_module(name, nn.Sequential(*layers, nn.Linear(width, 4)))
        self.log_scale = nn.Parameter(torch.tensor(1.0))
        self.double()

    def forward(self, batch):
        found = {"scale": self.log_scale.exp()}
        for name, inputs in batch.items():
            if name in KINDS:
                tower = self.image if name == "images" else self.text
                found[name] = functional.normalize(tower(inputs), dim=1)
            else:
                found[name] = inputs
        return found


def make_towers(**options):
    torch.manual_seed(0)
    return Towers(**options)


def make_inputs(rows):
    generator = torch.Generator().manual_seed(1)
    inputs = {kind: torch.randn(rows, 6, generator=generator, dtype=torch.float64) for kind in KINDS}
    return inputs | {"has_negative": torch.arange(rows) % 3 != 0, "has_positive": torch.arange(rows) % 4 != 1}


def by_rows(inputs, *sizes):
    """Chunks that have all kinds of some rows."""
    parts = {kind: rows.split(sizes) for kind, rows in inputs.items()}
    return [{kind: rows[number] for kind, rows in parts.items()} for number in range(len(sizes))]


def loss(outputs, weights=EVERY):
    scale = outputs.pop("scale")
    return total(BatchEmbeddings(**outputs), scale, weights)[0]


def plain_backward(encode, chunks, loss):
    """The definition: all chunks with a graph, joined, and backwards at once."""
    parts = [encode(chunk) for chunk in chunks]
    joined = {name: [part[name] for part in parts] for name in parts[0]}
    value = loss({name: torch.cat(rows) if name != "scale" else rows[0] for name, rows in joined.items()})
    value.backward()
    return value.detach()


def step(backward, towers, chunks, seed=0, **options):
    """The loss, the gradients by parameter, and the random number that comes next."""
    torch.manual_seed(seed)
    towers.zero_grad()
    value = backward(towers, chunks, options.pop("loss", loss), **options)
    gradients = {name: None if p.grad is None else p.grad.clone() for name, p in towers.named_parameters()}
    return value, gradients, torch.rand(1)


@pytest.mark.parametrize("sizes", [(7, 1, 0, 4), (12,)])
def test_equals_the_plain_step_with_dropout(sizes):
    towers, chunks = make_towers(), by_rows(make_inputs(12), *sizes)
    value, gradients, following = step(cached_backward, towers, chunks)
    expected_value, expected, expected_following = step(plain_backward, towers, chunks)
    torch.testing.assert_close(value, expected_value, rtol=1e-13, atol=0)
    torch.testing.assert_close(gradients, expected, rtol=1e-11, atol=1e-14)
    assert torch.equal(following, expected_following)
    assert not value.requires_grad
    assert all(gradient.any() for gradient in gradients.values())
    _, other_masks, _ = step(cached_backward, towers, chunks, seed=1)
    assert not torch.allclose(other_masks["text.0.weight"], expected["text.0.weight"], rtol=1e-2)


def test_a_frozen_tower_and_embeddings_outside_the_loss_have_no_gradient():
    towers, chunks = make_towers(), by_rows(make_inputs(8), 4, 4)
    towers.image.requires_grad_(False)
    towers.log_scale.requires_grad_(False)

    def only_pairs(outputs):
        return loss({name: outputs[name] for name in ("images", "captions", "scale")}, LossWeights())

    _, gradients, _ = step(cached_backward, towers, chunks, loss=only_pairs)
    _, expected, _ = step(plain_backward, towers, chunks, loss=only_pairs)
    assert {name for name, gradient in gradients.items() if gradient is None} == {
        name for name in gradients if not name.startswith("text")
    }
    torch.testing.assert_close(gradients, expected, rtol=1e-11, atol=1e-14)


def peak(backward, rows, size):
    """The most bytes that autograd kept in a step, the parameters aside."""
    towers, sizes = make_towers(width=256), [0, 0]  # now, and at most
    own = {parameter.untyped_storage().data_ptr() for parameter in towers.parameters()}

    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # with its graph it would be part of a ring and outlive it
            sizes[0] += tensor.nbytes
            sizes[1] = max(sizes)

        def __del__(self):
            sizes[0] -= self.tensor.nbytes

    def keep(tensor):
        return tensor if tensor.untyped_storage().data_ptr() in own else Kept(tensor)

    def take(kept):
        return kept.tensor if isinstance(kept, Kept) else kept

    with torch.autograd.graph.saved_tensors_hooks(keep, take):
        step(backward, towers, by_rows(make_inputs(rows), *[size] * (rows // size)))
    assert sizes[0] == 0
    return sizes[1]


def test_memory_is_that_of_one_chunk_whatever_the_batch():
    one = peak(plain_backward, 4, 4)
    assert peak(plain_backward, 32, 4) > 7 * one
    assert peak(cached_backward, 32, 4) == peak(cached_backward, 16, 4) <= one
