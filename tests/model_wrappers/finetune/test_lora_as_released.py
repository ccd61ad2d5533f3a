"""LoRA as in SVLC and DAC: which weights it adapts, how it is saved, loaded back and merged, and that runs resume."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tiny_models
import torch
from finetune_support import furthest, make_labelled, make_training_set, same_bits, short, stop_at, train, weights
from safetensors.torch import load_file
from torch import nn

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model, score
from vl_assay.model_wrappers.finetune.train.lora import add_lora, merged, save_adapters
from vl_assay.model_wrappers.finetune.train.training import Evaluation
from vl_assay.model_wrappers.loading.lora import merge_lora
from vl_assay.model_wrappers.loading.weight_files import read_weights

QKV = ("query", "key", "value")
RECIPE = short("svlc", epochs=2, learning_rate=1e-2, lora_rank=2, batch_size=8, warmup_steps=1)


@pytest.fixture(scope="module")
def trained(tiny_clip, tmp_path_factory):
    """A model folder of a run."""
    out = tmp_path_factory.mktemp("svlc") / "out"
    train(tiny_clip, out, RECIPE, make_set())
    return out


def make_set():
    """Captions of pairs of colours with their negatives."""
    return make_training_set(16)


def test_the_weights_before_with_the_saved_adapters_are_the_saved_model(tiny_clip, trained, tmp_path):
    before, after = weights(tiny_clip), load_file(trained / "model.safetensors")
    adapters = load_file(trained / "adapters.safetensors")
    assert furthest(merge_lora(before, adapters), after) < 1e-6
    changed = {name.removesuffix(".weight") for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name.removesuffix(".lora_A") for name in adapters if name.endswith("lora_A")}
    layers = {name.rpartition(".")[2] for name in changed}
    assert layers == {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "patch_embedding"}
    assert torch.equal(before["logit_scale"], after["logit_scale"])  # frozen, as in the authors' code
    files = score(str(trained), ["toy_scenes/itm"], out=tmp_path, limit=4, progress=False)
    assert len(files) == 1
    card = (trained / "README.md").read_text("utf-8")
    assert "| lora | svlc |" in card
    finished = json.loads((trained / "training" / "finished.json").read_text())
    assert "adapters.safetensors" in finished["files"]


def test_queries_keys_and_values_share_one_matrix_as_their_joint_projection_does(trained):
    adapters = load_file(trained / "adapters.safetensors")
    stem = "text_model.encoder.layers.0.self_attn."
    shared = [adapters[f"{stem}{name}_proj.lora_A"] for name in "qkv"]
    assert torch.equal(shared[0], shared[1])
    assert torch.equal(shared[0], shared[2])
    assert not torch.equal(adapters[f"{stem}q_proj.lora_B"], adapters[f"{stem}k_proj.lora_B"])
    # A convolution with 8 × 8 kernels, of 3 to 32 channels: 8 times the rank.
    patch = "vision_model.embeddings.patch_embedding."
    assert adapters[f"{patch}lora_A"].shape == (16, 24)
    assert adapters[f"{patch}lora_B"].shape[1] == 16


def test_the_three_projections_share_it_by_other_names_too(tmp_path):
    encoder = load_model(str(tiny_models.tiny_align(tmp_path)))
    save_adapters(add_lora(encoder, 2, "svlc"), tmp_path)
    adapters = load_file(tmp_path / "adapters.safetensors")
    first, *others = (adapters[f"text_model.encoder.layer.0.attention.self.{name}.lora_A"] for name in QKV)
    assert all(torch.equal(first, other) for other in others)
    assert first.abs().max() > 0


def test_a_stopped_run_ends_with_the_same_bits(tiny_clip, trained, tmp_path):
    # Measured after each epoch, which merges a copy of the adapters.
    evaluation = Evaluation((), str(make_labelled(tmp_path / "labelled")))
    with pytest.raises(KeyboardInterrupt):
        train(tiny_clip, tmp_path / "out", RECIPE, make_set(), save_steps=1, evaluation=evaluation, on_step=stop_at(3))
    train(tiny_clip, tmp_path / "out", RECIPE, make_set(), save_steps=1, evaluation=evaluation)
    assert same_bits(load_file(tmp_path / "out" / "model.safetensors"), load_file(trained / "model.safetensors"))
    names = "adapters.safetensors"
    assert same_bits(load_file(tmp_path / "out" / names), load_file(trained / names))


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
    """What `add_lora` needs of an encoder."""

    info = None

    def __init__(self):
        torch.manual_seed(0)
        self.module = Tower()


def test_a_released_checkpoint_s_names_are_merged_as_they_are_computed(tmp_path):
    encoder, pixels = Encoder(), torch.randn(2, 3, 8, 8)
    before = {name: tensor.clone() for name, tensor in encoder.module.state_dict().items()}
    expected = encoder.module(pixels)
    module = add_lora(encoder, 4, "svlc")
    assert torch.allclose(module(pixels), expected, atol=1e-6)  # B is 0 at the beginning
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    plain = merged(module)
    assert plain.state_dict().keys() == before.keys()
    assert torch.allclose(plain(pixels), module(pixels), atol=1e-5)
    assert not torch.allclose(plain(pixels), expected, atol=1e-2)
    save_adapters(module, tmp_path)
    adapters = load_file(tmp_path / "adapters.safetensors")
    # The names in the files that SVLC and DAC released.
    stem = "resblocks.0.attn."
    assert {f"{stem}in_proj_weight_lora_A", f"{stem}out_proj.lora_B", "conv1.lora_A"} <= adapters.keys()
    assert not any(name.startswith(("head", "pool")) for name in adapters)
    torch.save(
        {"epoch": 5, "state_dict": {f"module.{k}": v for k, v in {**before, **adapters}.items()}}, tmp_path / "f"
    )
    assert furthest(read_weights(tmp_path / "f").state, plain.state_dict()) < 1e-6
    # By hand: alpha 1, rank 4.
    down, up = (adapters[f"{stem}in_proj_weight_lora_{each}"] for each in "AB")
    by_hand = before[f"{stem}in_proj_weight"].numpy() + up.numpy() @ down.numpy() / 4
    np.testing.assert_allclose(plain.state_dict()[f"{stem}in_proj_weight"].numpy(), by_hand, atol=1e-6)


def test_adapters_of_another_model_or_without_a_half_are_refused(trained, tiny_clip):
    before, adapters = weights(tiny_clip), load_file(trained / "adapters.safetensors")
    name = "text_model.encoder.layers.0.mlp.fc1."
    with pytest.raises(ModelError, match=r"fc1.lora_A has no .*fc1.lora_B; the file is not complete"):
        merge_lora(before, {f"{name}lora_A": adapters[f"{name}lora_A"]})
    with pytest.raises(ModelError, match="the adapters belong to another model"):
        merge_lora(before, {f"{name}lora_A": torch.zeros(2, 3), f"{name}lora_B": torch.zeros(5, 2)})


def test_a_model_without_such_layers_is_refused():
    encoder = Encoder()
    encoder.module, encoder.info = nn.Sequential(nn.Linear(3, 3)), load_model("demo-clip").info
    with pytest.raises(ModelError, match="no transformer whose layers SVLC's adapters fit"):
        add_lora(encoder, 4, "svlc")
