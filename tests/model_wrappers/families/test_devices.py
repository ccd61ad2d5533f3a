"""Copies to the device, precision and memory of models of torch, as far as a CPU can show them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from bare_forwards import score
from tiny_models import CHECKPOINTS

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.engine.protocol import CrossEncoder, DualEncoder, TextScorer
from vl_assay.model_wrappers.loading import exact

CAPTIONS = ("a red cat", "a big dog near two red cats", "dog")
PAIRS = [(2, 1), (0, 0), (1, 2), (0, 2)]


class Blocks(list):
    """A batch as the loader gives it: the items, and the tensors that hold them."""

    def __init__(self, items, sizes):
        super().__init__(items)
        self.blocks = list(torch.from_numpy(np.stack(items)).split(sizes))


@pytest.mark.parametrize("name", ["clip", "siglip2"])
def test_a_batch_in_blocks_is_seen_as_its_items_are(name, folders, images, monkeypatch):
    model = load_model(str(folders[name]))
    prepared = [model.prepare_image(image.resize((40, 40))) for image in images]
    alone = model.encode_images(prepared)
    blocks = Blocks(prepared, [2, 1])
    monkeypatch.setattr(np, "stack", None)  # nothing is copied together on the CPU
    for one, other in zip(alone, model.encode_images(blocks), strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture
def tf32():
    """TF32 switched on in both ways that torch has; the settings of before are restored."""
    before = torch.backends.fp32_precision, torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    torch.backends.fp32_precision = "tf32"
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    yield
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
    torch.set_float32_matmul_precision(before[1])
    torch.backends.fp32_precision = before[0]


def settings():
    """The present settings of arithmetic."""
    backends, flags = torch.backends, torch.backends.cudnn
    kinds = (backends.cuda.matmul, flags, flags.conv, flags.rnn, backends.mkldnn.matmul, backends.mkldnn.conv)
    return [each.fp32_precision for each in kinds], (flags.benchmark, flags.deterministic)


@pytest.mark.parametrize("name", ["clip", "blip", "gpt2"])
def test_a_model_computes_in_full_float32_whatever_the_user_set(name, folders, images, tf32):
    family = "causal_lm:" if name == "gpt2" else ""
    model = load_model(f"{family}{folders[name]}")
    before, inside = settings(), []
    for module in model.module.modules():
        if not [*module.children()]:
            module.register_forward_pre_hook(lambda *_: inside.append(settings()))
    for _ in range(2):
        score(model, images, CAPTIONS, PAIRS)
        assert settings() == before
    assert len(inside) > 20
    assert all(kinds == ["ieee"] * 6 and own == (True, True) for kinds, own in inside)


def test_a_copy_that_does_not_fit_on_the_gpu_is_made_on_the_cpu(monkeypatch):
    weight = SimpleNamespace(device=torch.device("cuda"), numel=lambda: 10, is_floating_point=lambda: True)
    model = SimpleNamespace(parameters=lambda: iter([weight]), buffers=lambda: iter(()))
    monkeypatch.setattr(exact, "_copy", lambda model, device: device.type)
    for free, expected in ((1 << 20, "cpu"), (1 << 40, "cuda")):
        monkeypatch.setattr(exact, "_free_memory", lambda device, free=free: free)
        assert exact.exact_copy(model, "m") == expected


def test_a_copy_that_fails_is_an_error_with_its_size(folders, monkeypatch):
    def fail(*args, **kwargs):
        raise torch.OutOfMemoryError("out of memory")

    model = load_model(str(folders["clip"]))
    monkeypatch.setattr(exact.copy, "deepcopy", fail)
    with pytest.raises(ModelError, match=r"no float64 copy of .* on cpu, which needs 0\.0 GB \(out of memory\)"):
        model.chosen(True)


ON_DEVICE = ("clip", "siglip", "tipsv2", "flava", "blip", "blip2", "bridgetower", "xvlm", "vera", "gpt2")


@pytest.mark.parametrize(("name", "exact"), [*((name, False) for name in ON_DEVICE), ("clip", True), ("blip", True)])
def test_inputs_go_to_the_model_s_device_and_results_stay_there(name, exact, folders, images, monkeypatch):
    """The device "meta" computes shapes: it refuses tensors of the CPU, and no code can wait for a result."""
    tiny = CHECKPOINTS[name]
    model = load_model(f"{tiny.family}:{folders[name] / tiny.file}")
    model.module.to("meta")
    is_true = torch.Tensor.__bool__  # transformers itself waits for the GPU to know whether a mask masks anything
    monkeypatch.setattr(torch.Tensor, "__bool__", lambda tensor: not tensor.is_meta and is_true(tensor))
    tokens = model.prepare_captions(CAPTIONS)
    if isinstance(model, TextScorer):
        results = [model.score_captions(tokens, exact=exact)]
    else:
        features = model.encode_images([model.prepare_image(image) for image in images], exact=exact)
        if isinstance(model, CrossEncoder):
            results = [model.match(features, [0, 1, 2], tokens, exact=exact)]
        else:
            results = [features, model.encode_captions(tokens, exact=exact)]
    assert all(rows.is_meta and len(rows) == 3 for rows in results)
    is_double = exact or not isinstance(model, DualEncoder)
    assert {rows.dtype for rows in results} == {torch.float64 if is_double else torch.float32}
