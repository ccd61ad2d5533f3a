"""LoRA: which layers are adapted in which library, and that a plain model is saved."""

import copy
import sys

import pytest
import torch
from finetune_support import same_bits, short, train, train_until, weights
from torch import nn

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.train.lora import add_lora, merged

RECIPE = short("svlc", learning_rate=1e-2, lora_rank=2)


def test_adapters_are_trained_in_the_layers_of_svlc_and_a_plain_model_is_saved(tiny_clip, tmp_path):
    train(tiny_clip, tmp_path / "out", RECIPE)
    before, after = weights(tiny_clip), weights(tmp_path / "out")
    assert before.keys() == after.keys()
    changed = {name.removesuffix(".weight") for name in before if not torch.equal(before[name], after[name])}
    layers = {name.rpartition(".")[2] for name in changed}
    # All but the scale, biases, norms, other embeddings and projections, as in the authors' code.
    assert layers == {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "patch_embedding"}
    differences = (after[f"{name}.weight"] - before[f"{name}.weight"] for name in changed if "patch" not in name)
    assert all(torch.linalg.matrix_rank(difference, rtol=1e-3) <= 2 for difference in differences)
    load_model(str(tmp_path / "out"))
    train_until(4, tiny_clip, tmp_path / "stopped", RECIPE, save_steps=1)
    train(tiny_clip, tmp_path / "stopped", RECIPE, save_steps=1)
    assert same_bits(weights(tmp_path / "stopped"), after)


class Block(nn.Module):
    """A layer in the layout of open_clip: a joint projection of attention, and an MLP."""

    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.c_fc = nn.Linear(8, 12)

    def forward(self, x):
        return self.c_fc(self.attn(x, x, x, need_weights=False)[0])


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 4, 4, bias=False)
        self.resblocks = nn.ModuleList([Block()])
        self.pool = nn.MultiheadAttention(12, 2, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, pixels):
        states = self.resblocks[0](self.conv1(pixels).flatten(2).transpose(1, 2))
        return self.head(self.pool(states, states, states, need_weights=False)[0])


class Encoder:
    """The part of an encoder that `add_lora` uses."""

    def __init__(self, module):
        self.module, self.info = module, load_model("demo-clip").info


def test_a_joint_projection_of_attention_has_one_adapter_of_alpha_1():
    torch.manual_seed(0)
    tower, pixels = Tower(), torch.randn(2, 3, 8, 8)
    before, expected = copy.deepcopy(tower.state_dict()), tower(pixels)
    adapted = add_lora(Encoder(tower), 4)
    assert torch.allclose(tower(pixels), expected, atol=1e-6)  # B is 0 at the beginning
    parameters = {name: parameter for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert parameters
    assert all("lora_" in name for name in parameters)
    assert not any(".pool." in name or ".head." in name for name in parameters)
    with torch.no_grad():
        for name, parameter in parameters.items():
            if "lora_B" in name:
                parameter.normal_()
    plain = merged(adapted)
    assert plain.state_dict().keys() == before.keys()
    assert torch.allclose(plain(pixels), tower(pixels), atol=1e-5)
    assert not torch.allclose(plain(pixels), expected, atol=1e-2)
    # By hand: alpha 1, rank 4.
    stem = "base_model.model.resblocks.0.attn.lora"
    down, up = (parameters[f"{stem}_{side}.default.weight"].detach() for side in "AB")
    name = "resblocks.0.attn.in_proj_weight"
    assert torch.allclose(plain.state_dict()[name], before[name] + up @ down / 4, atol=1e-6)


def test_a_model_without_such_layers_and_a_missing_library_are_named(monkeypatch):
    with pytest.raises(ModelError, match=r"no layers that LoRA can adapt.*lora_rank=0"):
        add_lora(Encoder(nn.Sequential(nn.Linear(3, 3))), 4)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModelError, match=r"pip install 'vl-assay\[finetune\]'"):
        add_lora(Encoder(Tower()), 4)
