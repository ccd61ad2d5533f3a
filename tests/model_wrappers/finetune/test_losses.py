"""The fine-tuning losses against their definitions, one exponential at a time, values and gradients alike."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from vl_assay.model_wrappers.finetune.train import losses
from vl_assay.model_wrappers.finetune.train.losses import BatchEmbeddings, LossWeights, total

EVERY = LossWeights(contrastive=0.7, negclip=1.3, hard_negative=0.5, hard_positive=-0.25)
EXACT = {"rtol": 1e-11, "atol": 1e-11}


def make_batch(seed, n, d=3, has_negative=None, has_positive=None):
    """Unit embeddings in float64 that want a gradient; a mask is a list of bools or None."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(4, n, d, generator=generator, dtype=torch.float64)
    tensors = [functional.normalize(part, dim=1).requires_grad_() for part in rows]
    return BatchEmbeddings(*tensors, *(None if m is None else torch.tensor(m) for m in (has_negative, has_positive)))


@st.composite
def batches(draw):
    n = draw(st.integers(1, 5))
    masks = [draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2)]
    return make_batch(draw(st.integers(0, 2**20)), n, draw(st.integers(2, 4)), *masks)


weights_of_all = st.tuples(*[st.floats(-2, 2)] * 4).map(lambda w: LossWeights(*w)).filter(any)
scales = st.floats(0, 20)


def cross_entropy_by_hand(anchor, options, right, scale):
    """Minus the logarithm of the right option's share of the exponentials."""
    powers = [torch.exp(scale * sum(a * b for a, b in zip(anchor, option, strict=True))) for option in options]
    return -torch.log(powers[right] / sum(powers))


def mean(values):
    return sum(values) / len(values) if values else torch.zeros((), dtype=torch.float64)


def by_hand(batch, scale):
    """The definitions of all four, in loops over single examples."""
    images, captions, negatives, positives, *masks = batch
    n = range(len(images))
    negative_rows, positive_rows = ([i for i in n if mask is None or mask[i]] for mask in masks)

    def symmetric(further):
        rows = mean([cross_entropy_by_hand(images[i], [*captions, *further], i, scale) for i in n])
        columns = mean([cross_entropy_by_hand(captions[i], images, i, scale) for i in n])
        return (rows + columns) / 2

    there = [positives[i] for i in positive_rows]
    analogy = [
        (cross_entropy_by_hand(images[i], there, j, scale) + cross_entropy_by_hand(captions[i], there, j, scale)) / 2
        for j, i in enumerate(positive_rows)
    ]
    return {
        "contrastive": symmetric([]),
        "negclip": symmetric([negatives[i] for i in negative_rows]),
        "hard_negative": mean(
            [cross_entropy_by_hand(images[i], [captions[i], negatives[i]], 0, scale) for i in negative_rows]
        ),
        "hard_positive": mean(analogy),
    }


def gradients(value, batch, scale):
    """Of the embeddings and the scale; None counts as zero."""
    wanted = [*batch[:4], scale]
    found = torch.autograd.grad(value, wanted, allow_unused=True) if value.requires_grad else [None] * 5
    return [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]


@settings(max_examples=25)
@given(batch=batches(), scale=scales, weights=weights_of_all)
def test_values_and_gradients_are_those_of_the_definitions(batch, scale, weights):
    scale = torch.tensor(scale, dtype=torch.float64, requires_grad=True)
    value, parts = total(batch, scale, weights)
    expected = by_hand(batch, scale)
    by_weight = sum(getattr(weights, name) * part for name, part in expected.items())
    torch.testing.assert_close(value, by_weight, **EXACT)
    assert parts == {name: pytest.approx(expected[name].item(), abs=1e-11) for name in parts}
    assert set(parts) == {name for name, weight in weights._asdict().items() if weight != 0}
    assert value.requires_grad
    pairs = zip(gradients(value, batch, scale), gradients(by_weight, batch, scale), strict=True)
    assert all(torch.allclose(found, by_loops, **EXACT) for found, by_loops in pairs)


def test_values_by_arithmetic():
    axes = torch.eye(3, dtype=torch.float64)
    images = captions = axes[:2]
    # Own caption e, the other 1: -log(e / (e + 1)) = log(1 + 1/e), both ways.
    alone = math.log(1 + math.exp(-1))
    assert losses.contrastive(BatchEmbeddings(images, captions), 1.0).item() == pytest.approx(alone)
    # Two further captions at right angles to all: image -> caption log(1 + 3/e); caption -> image as before.
    negatives = axes[[2, 2]]
    expected = (math.log(1 + 3 * math.exp(-1)) + alone) / 2
    assert losses.negclip(BatchEmbeddings(images, captions, negatives), 1.0).item() == pytest.approx(expected)
    # Own caption 1, own negative 0, scale 2: log(1 + exp(-2)); the other image has none.
    batch = BatchEmbeddings(images, captions, negatives, positives=negatives, has_negative=torch.tensor([True, False]))
    assert losses.hard_negative(batch, 2.0).item() == pytest.approx(math.log(1 + math.exp(-2)))
    # Positives at right angles to all: each of two is as likely, for images and for captions.
    assert losses.hard_positive(batch, 9.0).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("kind", ["images", "captions", "negatives", "positives"])
@given(seed=st.integers(0, 99), row=st.integers(0, 3), column=st.integers(0, 2))
def test_a_nan_is_not_hidden(kind, seed, row, column):
    batch = make_batch(seed, 4)
    broken = getattr(batch, kind).detach().clone()
    broken[row, column] = math.nan
    value, parts = total(batch._replace(**{kind: broken}), 10.0, EVERY)
    sees = {"negatives": {"negclip", "hard_negative"}, "positives": {"hard_positive"}}.get(
        kind, set(LossWeights._fields)
    )
    assert math.isnan(value.item())
    assert {name for name, part in parts.items() if math.isnan(part)} == sees


def test_rows_that_are_absent_may_hold_anything_and_reach_no_gradient():
    batch = make_batch(5, 4, has_negative=[True, False, True, True], has_positive=[False, True, True, True])
    expected, _ = total(batch, 4.0, EVERY)
    wanted = torch.autograd.grad(expected, batch[:4])
    negatives, positives = (tensor.detach().clone() for tensor in (batch.negatives, batch.positives))
    negatives[1], positives[0] = math.nan, math.inf
    broken = batch._replace(negatives=negatives.requires_grad_(), positives=positives.requires_grad_())
    value, _ = total(broken, 4.0, EVERY)
    assert value.item() == expected.item()
    found = torch.autograd.grad(value, broken[:4])
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_logits_keep_their_digits_under_autocast_and_in_half_precision():
    batch = make_batch(6, 5, d=16)
    single = BatchEmbeddings(*(tensor.detach().float() for tensor in batch[:4]))
    exact, _ = total(single, 100.0, EVERY)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded, _ = total(single, 100.0, EVERY)
    assert rounded.dtype == torch.float32
    assert rounded.item() == exact.item()
    half = BatchEmbeddings(*(tensor.bfloat16() for tensor in single[:4]))
    widened = BatchEmbeddings(*(tensor.float() for tensor in half[:4]))
    assert total(half, 100.0, EVERY)[0].item() == total(widened, 100.0, EVERY)[0].item()
