"""Files of weights in the forms in which trainings saved them: what is read, changed, said and refused."""

from __future__ import annotations

import argparse
import math
import zipfile

import numpy as np
import pytest
import torch
from damage import Evil
from safetensors.torch import save_file

from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers.loading.weight_files import Weights, mean_with, merge_lora, read_weights

STATE = {
    "visual.conv1.weight": torch.arange(12.0).reshape(3, 1, 2, 2),
    "transformer.resblocks.0.mlp.c_fc.weight": torch.eye(3),
    "positional_embedding": torch.arange(8.0).reshape(4, 2),
    "logit_scale": torch.tensor(4.6),
}


def saved(folder, content, name="weights.pt"):
    torch.save(content, folder / name)
    return folder / name


def same(found, expected):
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        ({"epoch": 5, "state_dict": STATE, "optimizer": {"lr": 0.1}}, ()),
        ({"state_dict": {f"module.{name}": tensor for name, tensor in STATE.items()}}, ()),
        ({"model": STATE, "config": {"width": 3}}, ("taken from the entry model",)),
        (
            {"state_dict": STATE, "step": np.int64(3), "f": np.float32(1)},
            ("numbers and arguments of the training left out",),
        ),
        (
            {"model": STATE, "args": argparse.Namespace(lr=np.float64(1e-5), name="negclip")},
            ("numbers and arguments of the training left out", "taken from the entry model"),
        ),
        (
            STATE
            | {
                "vocab_size": torch.tensor(49408),
                "teacher.visual.proj": torch.ones(2),
                "model_teacher.ln.bias": torch.ones(2),
            },
            ("2 tensors of model_teacher, teacher left out",),
        ),
    ],
)
def test_the_model_s_tensors_are_found_and_changes_are_told(content, changes, tmp_path):
    weights = read_weights(saved(tmp_path, content))
    assert same(weights.state, STATE)
    assert weights.changes == changes


def test_numbers_of_an_older_numpy_are_read_too(tmp_path):
    file = saved(tmp_path, {"state_dict": STATE, "loss": np.float64(0.5)})
    older = tmp_path / "older.pt"
    with zipfile.ZipFile(file) as new, zipfile.ZipFile(older, "w", zipfile.ZIP_STORED) as old:
        for name in new.namelist():
            content = new.read(name)
            if name.endswith("data.pkl"):
                assert b"numpy._core.multiarray" in content
                content = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            old.writestr(name, content)
    assert same(read_weights(older).state, STATE)


def test_safetensors_are_read(tmp_path):
    save_file(STATE, tmp_path / "weights.safetensors")
    assert same(read_weights(tmp_path / "weights.safetensors").state, STATE)


def test_a_missing_scale_is_added(tmp_path):
    without = {name: tensor for name, tensor in STATE.items() if name != "logit_scale"}
    weights = read_weights(saved(tmp_path, without))
    assert float(weights.state["logit_scale"]) == pytest.approx(math.log(1 / 0.07))
    assert weights.changes == ("logit_scale added, which no score depends on",)


def test_adapters_are_merged_as_computed_by_hand(tmp_path):
    # Alpha 1, rank 2. Linear: B·A = [[1, 2, 0], [0, 1, 1], [2, 5, 1]], halved. Convolution of 2 × 2 kernels from 1 to 3
    # channels: A is (2 · 2, 1 · 2) and B (3 · 2, 2 · 2), so that each entry of B·A is 4.
    linear = {"A": [[1.0, 2, 0], [0, 1, 1]], "B": [[1.0, 0], [0, 1], [2, 1]]}
    convolution = {"A": torch.ones(4, 2), "B": torch.ones(6, 4)}
    content = dict(STATE)
    for stem, pair in (("transformer.resblocks.0.mlp.c_fc", linear), ("visual.conv1", convolution)):
        content |= {f"module.{stem}.lora_{each}": torch.as_tensor(pair[each]) for each in "AB"}
    weights = read_weights(saved(tmp_path, {"state_dict": content}))
    assert weights.changes == ("2 adapters merged: weight + B·A / rank",)
    expected = torch.tensor([[1.5, 1, 0], [0, 1.5, 0.5], [1, 2.5, 1.5]])
    assert torch.equal(weights.state["transformer.resblocks.0.mlp.c_fc.weight"], expected)
    assert torch.equal(weights.state["visual.conv1.weight"], STATE["visual.conv1.weight"] + 4 / 2)
    assert weights.state.keys() == STATE.keys()


def test_adapters_of_a_joint_projection_are_merged_and_those_that_do_not_fit_refused():
    stem, down, up = "attn.in_proj_weight", torch.tensor([[1.0, 2]]), torch.ones(6, 1)
    state = {stem: torch.zeros(6, 2), f"{stem}_lora_A": down, f"{stem}_lora_B": up}
    assert torch.equal(merge_lora(state)[stem], torch.tensor([[1.0, 2]] * 6))  # rank 1
    with pytest.raises(ModelError, match=r"in_proj_weight_lora_A has no .*_lora_B; the file is not complete"):
        merge_lora({stem: state[stem], f"{stem}_lora_A": down})
    with pytest.raises(ModelError, match="the adapters belong to another model"):
        merge_lora(state | {f"{stem}_lora_B": torch.ones(5, 1)})


def test_a_mean_with_weights_of_another_model_is_refused():
    """test_open_clip.py has a mean computed by hand."""
    for base in (STATE | {"positional_embedding": torch.ones(3, 2)}, STATE | {"other": torch.ones(1)}):
        with pytest.raises(
            ModelError, match=r"no mean with ViT-B-32/openai, which differs in (positional_embedding|other)"
        ):
            mean_with(Weights(STATE), base, 0.4, "ViT-B-32/openai")


def test_other_pickles_are_refused_by_name_and_run_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content in ({"state_dict": STATE, "hook": Evil()}, {"loss": np.float64(1), "hook": Evil()}):
        with pytest.raises(ModelError, match=r"names .*pathlib\.Path\.touch|names .*getattr.*only tensors, plain"):
            read_weights(saved(tmp_path, content))
    assert not (tmp_path / "unpickled").exists()
    with pytest.raises(ModelError, match=r"holds no weights by name but entries epoch, names"):
        read_weights(saved(tmp_path, {"epoch": 3, "names": ["a"]}))


@pytest.mark.filterwarnings("ignore:.*TorchScript:UserWarning", "ignore:.*torch.jit:DeprecationWarning")
def test_a_torchscript_archive_is_refused_with_where_the_weights_are(tmp_path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(tmp_path / "ViT-B-32.pt")
    with pytest.raises(ModelError, match=r"is a TorchScript archive, .*open_clip:MODEL-quickgelu/openai"):
        read_weights(tmp_path / "ViT-B-32.pt")


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_a_damaged_file_is_told(name, tmp_path):
    file = tmp_path / "weights.pt"
    saved(tmp_path, STATE)
    (tmp_path / name).write_bytes(file.read_bytes()[:500])
    with pytest.raises(ModelError, match=rf"{name} is not a file of weights, or a damaged one \(.*download it again"):
        read_weights(tmp_path / name)
