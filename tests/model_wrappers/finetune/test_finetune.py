"""Fine-tuning: every family learns, is saved as what it was, and how a recipe is run changes nothing else."""

from __future__ import annotations

import errno
import json
import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from finetune_support import furthest, make_training_set, same_bits, short, weights

from vl_assay.metrics.common.errors import (
    DataError,
    ModelError,
    ScoresError,
    StorageError,
    TrainingError,
    UnknownNameError,
    VLAssayError,
)
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.batches import Preparation
from vl_assay.model_wrappers.finetune.data.data import read_training_set
from vl_assay.model_wrappers.finetune.train import run as _run
from vl_assay.model_wrappers.finetune.train.checkpoints import write_folder
from vl_assay.model_wrappers.finetune.train.logging import Log, read_log
from vl_assay.model_wrappers.finetune.train.losses import Weights
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES, adapt, get_recipe
from vl_assay.model_wrappers.finetune.train.towers import Towers, trainable
from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune

KINDS = ("clip", "metaclip_2", "align", "altclip", "chinese_clip", "siglip", "siglip2", "flava")


@pytest.fixture(scope="module")
def folders(tiny_clip, tmp_path_factory):
    """The folder of a tiny checkpoint of each kind."""
    place = tmp_path_factory.mktemp("dual")
    built = {kind: getattr(tiny_models, f"tiny_{kind}")(place / kind) for kind in KINDS if kind != "clip"}
    return {"clip": tiny_clip} | built


def train(folder, out, recipe=None, training_set=None, **running):
    data = training_set or make_training_set()
    return finetune(str(folder), data, out, recipe or short(), running=TrainingConfig(**running), progress=False)


def embeddings(model, training_set):
    images = [model.prepare_image(training_set.image(key)) for key in training_set.image_keys[:4]]
    captions = model.prepare_captions([sample.caption for sample in training_set.samples[:4]])
    return model.encode_images(images), model.encode_captions(captions)


@pytest.mark.parametrize("kind", KINDS)
def test_every_dual_encoder_learns_and_is_saved_as_what_it_was(kind, folders, tmp_path):
    before = load_model(str(folders[kind]))
    outcome = train(folders[kind], tmp_path / "out", short(epochs=3))
    losses = [line["loss"] for line in read_log(tmp_path / "out" / "training" / "log.jsonl")]
    assert len(losses) == 9
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    after = load_model(str(outcome.folder))
    assert (after.info.family, after.info.parameters) == (before.info.family, before.info.parameters)
    assert after.info.preprocessing == before.info.preprocessing
    assert after.info.settings == before.info.settings
    for old, new in zip(*(embeddings(model, make_training_set()) for model in (before, after)), strict=True):
        assert np.abs(old - new).max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_for_training_are_those_for_scoring(kind, folders):
    model = trainable(load_model(str(folders[kind])))
    training_set = make_training_set(6)
    towers = Towers(model, negatives=True, positives=False).eval()
    drawn = next(_run.epoch(training_set, epoch=0, seed=0, batch_size=6))
    found = towers(Preparation(model, training_set).now(drawn))
    images = [model.prepare_image(training_set.image(each.image)) for each in drawn]
    np.testing.assert_allclose(found["images"].detach(), model.encode_images(images), atol=1e-5)
    texts = model.prepare_captions([each.caption for each in drawn])
    np.testing.assert_allclose(found["captions"].detach(), model.encode_captions(texts), atol=1e-5)
    assert found["has_negative"].tolist() == [each.negative is not None for each in drawn]
    assert not found["has_negative"].all()
    for each, row in zip(drawn, found["negatives"].detach(), strict=True):
        if each.negative is not None:
            expected = model.encode_captions(model.prepare_captions([each.negative]))[0]
            np.testing.assert_allclose(row, expected, atol=1e-5)
    assert "positives" not in found
    found["images"].sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in towers.parameters())


def test_captions_of_like_length_are_encoded_together(tiny_clip, monkeypatch):
    model = trainable(load_model(str(tiny_clip)))
    embed, seen = model.embed_captions, []
    monkeypatch.setattr(model, "embed_captions", lambda texts: seen.append([*map(len, texts)]) or embed(texts))
    training_set = read_training_set("toy_scenes", limit=32)
    drawn = next(_run.epoch(training_set, epoch=0, seed=0, batch_size=32))
    Towers(model, negatives=False, positives=False)(Preparation(model, training_set).now(drawn))
    assert [len(group) for group in seen] == [8, 8, 8, 8]
    lengths = [length for group in seen for length in group]
    assert lengths == sorted(lengths)
    assert len({*lengths}) > 4


def test_models_that_give_no_gradients_are_refused(tmp_path):
    with pytest.raises(ModelError, match="cannot be fine-tuned"):
        finetune("mock:oracle", make_training_set(), tmp_path / "out", short())


@pytest.mark.parametrize("kind", ["siglip", "flava"])
def test_what_no_embedding_depends_on_stays_as_it_was(kind, folders, tmp_path):
    train(folders[kind], tmp_path / "out", short(weight_decay=0.5))
    old, new = weights(folders[kind]), weights(tmp_path / "out")
    unused = [name for name in new if "logit_bias" in name or "multimodal" in name or "to_mm" in name]
    assert unused
    for name in unused:
        assert torch.equal(new[name], old.get(name, old.get(f"flava.{name}")))


def test_the_parts_in_which_a_batch_is_encoded_do_not_matter(tiny_clip, tmp_path):
    for name, running in {
        "whole": {},
        "parts": {"micro_batch": 3},
        "again": {"gradient_checkpointing": True, "micro_batch": 5},
    }.items():
        # With a small epsilon Adam makes steps of gradients that are rounding alone, such as those of keys' biases.
        train(tiny_clip, tmp_path / name, short(epsilon=1e-2, learning_rate=1e-2), **running)
    whole = weights(tmp_path / "whole")
    assert furthest(weights(tiny_clip), whole) > 1e-2
    assert furthest(whole, weights(tmp_path / "parts")) < 1e-5
    assert furthest(whole, weights(tmp_path / "again")) < 1e-5


def test_bfloat16_is_for_arithmetic_and_weights_stay_in_float32(tiny_clip, tmp_path):
    train(tiny_clip, tmp_path / "half", precision="bfloat16")
    train(tiny_clip, tmp_path / "whole")
    half = weights(tmp_path / "half")
    assert {tensor.dtype for tensor in half.values()} == {torch.float32}
    assert 1e-6 < furthest(half, weights(tmp_path / "whole")) < 2e-2


def test_negclip_leaves_out_captions_without_a_negative_and_draws_neighbours(tiny_clip, tmp_path):
    training_set = make_training_set(30)
    outcome = train(tiny_clip, tmp_path / "out", short("negclip", epochs=1), training_set)
    kept = len(training_set.with_negatives().samples)
    assert kept == 24
    card = (outcome.folder / "README.md").read_text("utf-8")
    assert f"{kept} captions of" in card
    assert "6 without a negative were left out" in card
    log = read_log(outcome.folder / "training" / "log.jsonl")
    assert len(log) == kept // 8
    assert {*log[0]["losses"]} == {"negclip"}
    assert all(0 <= line["waited"] <= line["seconds"] for line in log)


def test_neighbours_are_found_once_for_a_run_however_often_it_is_interrupted(tiny_clip, tmp_path, monkeypatch):
    mined, mine, write = [], _run.mine, Log.write

    def stop(self, step, values):
        write(self, step, values)
        if step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(_run, "mine", lambda *a, **k: mined.append(1) or mine(*a, **k))
    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            train(tiny_clip, tmp_path / "out", short("negclip"))
    train(tiny_clip, tmp_path / "out", short("negclip"))
    train(tiny_clip, tmp_path / "undisturbed", short("negclip"))
    assert len(mined) == 2
    assert same_bits(weights(tmp_path / "out"), weights(tmp_path / "undisturbed"))


def test_the_average_of_the_weights_is_what_is_saved(tiny_clip, tmp_path, monkeypatch):
    seen = []
    update = _run.AveragedModel.update_parameters

    def record(self, model):
        seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        update(self, model)

    monkeypatch.setattr(_run.AveragedModel, "update_parameters", record)
    train(tiny_clip, tmp_path / "out", short(ema_decay=0.5))
    expected = seen[0]
    for step in seen[1:]:
        expected = {name: 0.5 * expected[name] + 0.5 * step[name] for name in step}
    assert len(seen) == 6
    assert furthest({name: expected[name] for name in weights(tmp_path / "out")}, weights(tmp_path / "out")) < 1e-6


def test_lora_trains_adapters_and_saves_a_plain_model(tiny_clip, tmp_path):
    pytest.importorskip("peft", reason="LoRA needs peft: pip install 'vl-assay[finetune]'")
    train(tiny_clip, tmp_path / "out", short(lora_rank=2, ema_decay=0.5))
    old, new = weights(tiny_clip), weights(tmp_path / "out")
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert "text_model.encoder.layers.0.mlp.fc1.weight" in changed
    assert {old[name].ndim for name in changed - {"logit_scale"}} == {2}
    assert not any("embedding" in name for name in changed)
    load_model(str(tmp_path / "out"))


def test_lora_without_its_library_says_how_to_get_it(tiny_clip, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModelError, match=r"pip install 'vl-assay\[finetune\]'"):
        train(tiny_clip, tmp_path / "out", short(lora_rank=2))


def test_the_scale_stays_below_a_hundred(tiny_clip, tmp_path):
    from transformers import CLIPModel

    model = CLIPModel.from_pretrained(tiny_clip)
    with torch.no_grad():
        model.logit_scale.fill_(np.log(99.999))
    encoder = load_model(str(tiny_clip)).holding(model, None)
    towers = Towers(encoder, negatives=False, positives=False)
    with torch.no_grad():
        model.logit_scale.add_(1)
    towers.clip_scale()
    assert towers.scale().item() == pytest.approx(100)


def test_a_loss_that_is_no_number_stops_with_the_batch_named(tiny_clip, tmp_path, monkeypatch):
    prepare = Preparation._image
    training_set = make_training_set()
    broken = training_set.samples[7].image

    def poisoned(self, key):
        return prepare(self, key) * np.float32(np.nan if key == broken else 1)

    train(tiny_clip, tmp_path / "sound", save_steps=1)
    monkeypatch.setattr(Preparation, "_image", poisoned)
    with pytest.raises(
        TrainingError, match=r"the loss is nan at step [123], on the batch of 8 captions sample"
    ) as error:
        train(tiny_clip, tmp_path / "out", save_steps=1)
    assert "not finite are the embeddings of sample 7" in str(error.value)
    stopped = json.loads((tmp_path / "out" / "training" / "not-finite.json").read_text())
    assert "sample 7" in [each["id"] for each in stopped["batch"]]
    assert len(stopped["batch"]) == 8
    kept = sorted(path.name for path in (tmp_path / "out" / "training" / "checkpoints").glob("*"))
    assert kept == [f"step-{step:08d}" for step in range(1, stopped["step"])][-2:]
    # With the image mended the run goes on, to where it would have come.
    monkeypatch.setattr(Preparation, "_image", prepare)
    train(tiny_clip, tmp_path / "out", save_steps=1)
    assert same_bits(weights(tmp_path / "out"), weights(tmp_path / "sound"))


def test_a_gradient_that_is_no_number_never_reaches_the_weights(tiny_clip, tmp_path, monkeypatch):
    real = _run.total

    def spoiled(embeddings, scale, chosen):
        value, parts = real(embeddings, scale, chosen)
        value.register_hook(lambda gradient: gradient * float("inf"))
        return value, parts

    monkeypatch.setattr(_run, "total", spoiled)
    with pytest.raises(TrainingError, match=r"norm of the gradient is (nan|inf) at step 1"):
        train(tiny_clip, tmp_path / "out")


def test_a_folder_of_another_run_is_not_touched(tiny_clip, tmp_path, monkeypatch):
    outcome = train(tiny_clip, tmp_path / "out")
    first = weights(outcome.folder)
    with pytest.raises(DataError, match=r"holds a run with another recipe\.learning_rate, as"):
        train(tiny_clip, tmp_path / "out", short(learning_rate=1e-4))
    monkeypatch.setattr(_run.Run, "train", lambda self: pytest.fail("a finished run is trained again"))
    assert train(tiny_clip, tmp_path / "out").history == []
    assert same_bits(weights(outcome.folder), first)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty"):
        train(tiny_clip, tmp_path / "mine")


def test_a_full_disk_at_the_end_is_one_error_and_the_run_can_end_later(tiny_clip, tmp_path, monkeypatch):
    copy = shutil.copy2

    def full(source, target):
        if Path(source).name == "config.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        return copy(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy2", full)
        with pytest.raises(StorageError, match=r"cannot write .*No space left"):
            train(tiny_clip, tmp_path / "out")
    train(tiny_clip, tmp_path / "out")
    train(tiny_clip, tmp_path / "undisturbed")
    assert same_bits(weights(tmp_path / "out"), weights(tmp_path / "undisturbed"))


def test_a_half_of_a_model_is_not_left(tiny_clip, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = load_model(str(tiny_clip))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"cannot write .*best"):
            write_folder(tmp_path / "best", model.save)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_other_mistakes_while_saving_are_not_told_as_a_full_disk(tmp_path):
    def save(folder):
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match=r"^CUDA out of memory$"):
        write_folder(tmp_path / "best", save)


def test_a_run_that_came_nowhere_does_not_hold_its_folder(tiny_clip, tmp_path):
    with pytest.raises(ScoresError, match=r"fewer neighbours \(--set neighbours=0"):
        train(tiny_clip, tmp_path / "out", short("negclip", neighbours=100))
    train(tiny_clip, tmp_path / "out", short("negclip", epochs=1))
    train(tiny_clip, tmp_path / "undisturbed", short("negclip", epochs=1))
    assert same_bits(weights(tmp_path / "out"), weights(tmp_path / "undisturbed"))


def test_a_folder_has_no_revision(tiny_clip, tmp_path):
    for model in (str(tiny_clip), "demo-clip"):
        with pytest.raises(ModelError, match="is a folder, which has no revision 'v2'"):
            finetune(model, make_training_set(), tmp_path / "out", short(), revision="v2", progress=False)


def test_two_runs_do_not_train_into_one_folder(tiny_clip, tmp_path, monkeypatch):
    def again(self):
        with pytest.raises(StorageError, match="another run is writing to"):
            train(tiny_clip, tmp_path / "out")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_run.Run, "train", again)
        with pytest.raises(KeyboardInterrupt):
            train(tiny_clip, tmp_path / "out")
    train(tiny_clip, tmp_path / "out")


def test_a_finished_run_whose_model_is_gone_says_so(tiny_clip, tmp_path):
    train(tiny_clip, tmp_path / "out", short(epochs=1))
    (tmp_path / "out" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"was finished, and model\.safetensors of its model is gone"):
        train(tiny_clip, tmp_path / "out", short(epochs=1))
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="is a file"):
        train(tiny_clip, tmp_path / "file")


def test_the_card_says_which_captions_were_drawn(tiny_clip, tmp_path):
    training_set = read_training_set("toy_scenes", split="test", limit=8, negatives=["scene:swap"])
    card = train(tiny_clip, tmp_path / "out", short("hn", warmup_steps=50), training_set).folder / "README.md"
    text = card.read_text("utf-8")
    assert "`toy_scenes`: 8 captions" in text
    assert 'drawn with `split` "test", `limit` 8' in text
    assert "| warmup steps | 1 |" in text


def test_data_without_what_the_recipe_needs_is_refused(tiny_clip, tmp_path):
    bare = make_training_set()
    bare = replace(bare, samples=[sample._replace(negatives=(), positives=()) for sample in bare.samples])
    with pytest.raises(DataError, match=r"none of the 24 captions of squares has a negative.*--set negatives="):
        train(tiny_clip, tmp_path / "out", short("hn"), bare)
    train(tiny_clip, tmp_path / "plain", short("coco", epochs=1), bare)


@pytest.mark.parametrize(
    ("running", "message"),
    [
        ({"precision": "float16"}, "must be one of float32, bfloat16"),
        ({"micro_batch": 0}, "micro_batch is 0"),
        ({"trackers": ("wandb",)}, "unknown tracker"),
        ({"trackers": ("trackio",)}, "pip install trackio"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_loaded(running, message, tmp_path, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VLAssayError, match=message):
        train("no such model", tmp_path / "out", **running)
    assert not (tmp_path / "out").exists()


def test_recipes_are_those_of_the_papers():
    assert {name: tuple(recipe.weights) for name, recipe in RECIPES.items()} == {
        "coco": (1, 0, 0, 0),
        "negclip": (0, 1, 0, 0),
        "hn": (1, 0, 1, 0),
        "hp+hn": (1, 0, 1, 1),
        "swap-only": (1, 0, 1, 1),
        "replace-only": (1, 0, 1, 1),
    }
    for name, recipe in RECIPES.items():
        assert recipe == get_recipe(name)
        assert (recipe.name, recipe.epochs, recipe.batch_size, recipe.warmup_steps) == (name, 5, 1024, 50)
        assert bool(recipe.negatives) == recipe.uses_negatives
        assert bool(recipe.positives) == recipe.uses_positives
        assert recipe.source
        assert recipe.gaps
    assert RECIPES["swap-only"].negatives == RECIPES["swap-only"].positives == ("swap",)
    assert RECIPES["replace-only"].negatives == RECIPES["replace-only"].positives == ("replace",)


def test_a_recipe_takes_other_numbers():
    recipe = adapt(
        get_recipe("hp+hn"),
        {
            "epochs": "1",
            "hard_negative": "0.25",
            "negatives": "scene:swap, swap",
            "betas": "0.9,0.999",
            "ema_decay": "0.99",
            "max_gradient_norm": "none",
            "needs_negative": "true",
        },
    )
    assert recipe.weights == Weights(1, 0, 0.25, 1)
    assert (recipe.epochs, recipe.negatives, recipe.betas) == (1, ("scene:swap", "swap"), (0.9, 0.999))
    assert (recipe.ema_decay, recipe.max_gradient_norm, recipe.needs_negative) == (0.99, None, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": "1"}, "unknown setting of a recipe 'epoch'; known: .*epochs.*hard_negative"),
        ({"epochs": "one"}, "epochs='one' is no int"),
        ({"epochs": "0"}, "epochs=0 cannot be; allowed: 1 or more"),
        ({"learning_rate": "nan"}, "learning_rate=nan cannot be; allowed: above 0"),
        ({"ema_decay": "1"}, "ema_decay=1.0 cannot be; allowed: between 0 and 1, or none"),
        ({"betas": "0.9,2"}, "two numbers from 0 to below 1"),
        ({"epsilon": "0"}, "epsilon=0.0 cannot be; allowed: above 0"),
        ({"seed": "-1"}, "seed=-1 cannot be"),
        ({"hard_negative": "nan"}, "finite, and one of them not 0"),
        ({"hard_negative": "0", "contrastive": "0"}, "finite, and one of them not 0"),
        ({"betas": "0.9"}, "betas='0.9' is no tuple"),
    ],
)
def test_numbers_that_a_recipe_cannot_have_are_refused(settings, message):
    with pytest.raises(VLAssayError, match=message):
        adapt(get_recipe("hn"), settings)
    with pytest.raises(UnknownNameError, match=r"known: coco, negclip"):
        get_recipe("hnn")
