"""Fine-tuning: every family learns and is saved as it was; how a recipe is run changes nothing else."""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from finetune_support import (
    furthest,
    keep_states,
    make_training_set,
    read_log,
    same_bits,
    short,
    stop_at,
    train,
    train_until,
    weights,
)

from vl_assay.metrics.common import errors
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.batches import BatchLoader, draw_epoch
from vl_assay.model_wrappers.finetune.data.training_set import read_training_set
from vl_assay.model_wrappers.finetune.train import loop
from vl_assay.model_wrappers.finetune.train.checkpoints import write_folder
from vl_assay.model_wrappers.finetune.train.losses import Weights
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES, adapt, get_recipe, read_recipes
from vl_assay.model_wrappers.finetune.train.towers import Towers, trainable
from vl_assay.model_wrappers.finetune.train.training import finetune

KINDS = ("clip", "metaclip_2", "align", "altclip", "chinese_clip", "siglip", "siglip2", "flava")


@pytest.fixture(scope="module")
def folders(tiny_clip, tmp_path_factory):
    """The folder of a tiny checkpoint of each kind."""
    place = tmp_path_factory.mktemp("dual")
    built = {kind: getattr(tiny_models, f"tiny_{kind}")(place / kind) for kind in KINDS if kind != "clip"}
    return {"clip": tiny_clip} | built


def embeddings(model, training_set):
    images = [model.prepare_image(training_set.image(key)) for key in training_set.image_keys[:4]]
    captions = model.prepare_captions([sample.caption for sample in training_set.samples[:4]])
    return model.encode_images(images), model.encode_captions(captions)


@pytest.mark.parametrize("kind", KINDS)
def test_every_dual_encoder_learns_and_is_saved_as_it_was(kind, folders, tmp_path):
    before = load_model(str(folders[kind]))
    outcome = train(folders[kind], tmp_path / "out", short(epochs=3, weight_decay=0.5))
    losses = [line["loss"] for line in read_log(tmp_path / "out")]
    assert len(losses) == 9
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    after = load_model(str(outcome.folder))
    for name in ("family", "parameters", "preprocessing", "settings"):
        assert getattr(after.info, name) == getattr(before.info, name)
    for old, new in zip(*(embeddings(model, make_training_set()) for model in (before, after)), strict=True):
        assert np.abs(old - new).max() > 1e-4
    # Weights on which no embedding depends stay as they were.
    old, new = weights(folders[kind]), weights(tmp_path / "out")
    unused = [name for name in new if "logit_bias" in name or "multimodal" in name or "to_mm" in name]
    assert bool(unused) == (kind in ("siglip", "siglip2", "flava"))
    for name in unused:
        assert torch.equal(new[name], old.get(name, old.get(f"flava.{name}")))


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_for_training_are_those_for_scoring(kind, folders):
    model = trainable(load_model(str(folders[kind])))
    training_set = make_training_set(6)
    towers = Towers(model, negatives=True, positives=False).eval()
    drawn = next(draw_epoch(training_set, epoch=0, seed=0, batch_size=6))
    found = towers(BatchLoader(model, training_set).load(drawn))
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


def test_the_scale_is_clipped_to_a_hundred(tiny_clip):
    encoder = trainable(load_model(str(tiny_clip)))
    towers = Towers(encoder, negatives=False, positives=False)
    with torch.no_grad():
        encoder.module.logit_scale.fill_(np.log(100) + 1)
    towers.clip_scale()
    assert towers.scale().item() == pytest.approx(100)


def test_models_without_gradients_and_revisions_of_folders_are_refused(tiny_clip, tmp_path):
    with pytest.raises(errors.ModelError, match="cannot be fine-tuned"):
        finetune("mock:oracle", make_training_set(), tmp_path / "out", short())
    for model in (str(tiny_clip), "demo-clip"):
        with pytest.raises(errors.ModelError, match="is a folder, which has no revision 'v2'"):
            finetune(model, make_training_set(), tmp_path / "out", short(), revision="v2", progress=False)


def test_the_chunks_in_which_a_batch_is_encoded_do_not_matter(tiny_clip, tmp_path):
    for name, config in {
        "whole": {},
        "chunks": {"micro_batch": 3},
        "again": {"gradient_checkpointing": True, "micro_batch": 5},
    }.items():
        # With a small epsilon Adam makes steps of gradients that are rounding alone, such as those of keys' biases.
        train(tiny_clip, tmp_path / name, short(epsilon=1e-2, learning_rate=1e-2), **config)
    whole = weights(tmp_path / "whole")
    assert furthest(weights(tiny_clip), whole) > 1e-2
    assert furthest(whole, weights(tmp_path / "chunks")) < 1e-5
    assert furthest(whole, weights(tmp_path / "again")) < 1e-5


def test_bfloat16_is_for_arithmetic_and_weights_stay_in_float32(tiny_clip, tmp_path):
    train(tiny_clip, tmp_path / "half", precision="bfloat16")
    train(tiny_clip, tmp_path / "whole")
    half = weights(tmp_path / "half")
    assert {tensor.dtype for tensor in half.values()} == {torch.float32}
    assert 1e-6 < furthest(half, weights(tmp_path / "whole")) < 2e-2


def test_negclip_leaves_out_captions_without_a_negative_and_finds_neighbours_once(tiny_clip, tmp_path):
    training_set, out = make_training_set(30), tmp_path / "out"
    train_until(2, tiny_clip, out, short("negclip", epochs=1), training_set)
    neighbours = out / "training" / "neighbours.json"
    written = neighbours.stat().st_mtime_ns
    train(tiny_clip, out, short("negclip", epochs=1), training_set)
    assert neighbours.stat().st_mtime_ns == written
    train(tiny_clip, tmp_path / "uninterrupted", short("negclip", epochs=1), training_set)
    assert same_bits(weights(out), weights(tmp_path / "uninterrupted"))
    kept = len(training_set.with_negatives().samples)
    assert kept == 24
    card = (out / "README.md").read_text("utf-8")
    assert f"{kept} captions of" in card
    assert "6 without a negative were left out" in card
    log = read_log(out)
    assert len(log) == kept // 8
    assert {*log[0]["losses"]} == {"negclip"}
    assert all(0 <= line["waited"] <= line["seconds"] for line in log)


def test_the_average_of_the_weights_is_saved(tiny_clip, tmp_path):
    states = {}
    train(tiny_clip, tmp_path / "plain", save_steps=1, on_step=keep_states(tmp_path / "plain", states))
    assert list(states) == [1, 2, 3, 4, 5]
    expected = states.pop(1)
    for state in [*states.values(), weights(tmp_path / "plain")]:
        expected = {name: 0.5 * expected[name] + 0.5 * tensor for name, tensor in state.items()}
    train(tiny_clip, tmp_path / "out", short(ema_decay=0.5))
    assert furthest(expected, weights(tmp_path / "out")) < 1e-6


def test_lora_trains_adapters_and_saves_a_plain_model(tiny_clip, tmp_path, monkeypatch):
    pytest.importorskip("peft", reason="LoRA needs peft: pip install 'vl-assay[finetune]'")
    train(tiny_clip, tmp_path / "out", short(lora_rank=2, ema_decay=0.5))
    old, new = weights(tiny_clip), weights(tmp_path / "out")
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert "text_model.encoder.layers.0.mlp.fc1.weight" in changed
    assert {old[name].ndim for name in changed - {"logit_scale"}} == {2}
    assert not any("embedding" in name for name in changed)
    load_model(str(tmp_path / "out"))
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(errors.ModelError, match=r"pip install 'vl-assay\[finetune\]'"):
        train(tiny_clip, tmp_path / "without", short(lora_rank=2))


def test_a_loss_that_is_not_finite_stops_with_the_batch_named(tiny_clip, tmp_path, monkeypatch):
    encoder = type(load_model(str(tiny_clip)))
    training_set, out, prepare = make_training_set(), tmp_path / "out", encoder.prepare_image
    broken = training_set.image(training_set.samples[7].image).tobytes()

    def poisoned(self, image):
        return prepare(self, image) * np.float32(np.nan if image.tobytes() == broken else 1)

    train(tiny_clip, tmp_path / "sound", save_steps=1)
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "prepare_image", poisoned)
        with pytest.raises(
            errors.TrainingError, match=r"the loss is nan at step [123], on the batch of 8 captions sample"
        ) as error:
            train(tiny_clip, out, save_steps=1)
    assert "the embeddings of sample 7 are not finite" in str(error.value)
    stopped = json.loads((out / "training" / "not-finite.json").read_text())
    assert "sample 7" in [each["id"] for each in stopped["batch"]]
    assert len(stopped["batch"]) == 8
    kept = sorted(path.name for path in (out / "training" / "checkpoints").glob("*"))
    assert kept == [f"step-{step:08d}" for step in range(1, stopped["step"])][-2:]
    # With the image repaired the run resumes.
    train(tiny_clip, out, save_steps=1)
    assert same_bits(weights(out), weights(tmp_path / "sound"))


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tiny_clip, tmp_path, monkeypatch):
    total = loop.total

    def spoiled(embeddings, scale, chosen):
        value, parts = total(embeddings, scale, chosen)
        value.register_hook(lambda gradient: gradient * float("inf"))
        return value, parts

    monkeypatch.setattr(loop, "total", spoiled)
    with pytest.raises(errors.TrainingError, match=r"norm of the gradient is (nan|inf) at step 1"):
        train(tiny_clip, tmp_path / "out")


def test_a_folder_of_another_run_or_of_files_is_not_touched(tiny_clip, tmp_path):
    outcome = train(tiny_clip, tmp_path / "out")
    first = weights(outcome.folder)
    with pytest.raises(errors.DataError, match=r"holds a run with another recipe\.learning_rate, see"):
        train(tiny_clip, tmp_path / "out", short(learning_rate=1e-4))
    # A finished run is returned and not trained again.
    assert train(tiny_clip, tmp_path / "out", on_step=stop_at(1)).history == []
    assert same_bits(weights(outcome.folder), first)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(errors.DataError, match="is not empty"):
        train(tiny_clip, tmp_path / "mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(errors.StorageError, match="is no folder to write to"):
        train(tiny_clip, tmp_path / "file")
    (tmp_path / "out" / "model.safetensors").unlink()
    with pytest.raises(errors.DataError, match=r"was finished, but model\.safetensors of its model is gone"):
        train(tiny_clip, tmp_path / "out")


def test_a_run_without_a_step_does_not_hold_its_folder(tiny_clip, tmp_path):
    with pytest.raises(errors.ScoresError, match=r"fewer neighbours \(--set neighbours=0"):
        train(tiny_clip, tmp_path / "out", short("negclip", neighbours=100))
    train(tiny_clip, tmp_path / "out", short("negclip", epochs=1))
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_two_runs_do_not_train_into_one_folder(tiny_clip, tmp_path):
    def again(step, values):
        with pytest.raises(errors.StorageError, match="another run is writing to"):
            train(tiny_clip, tmp_path / "out")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny_clip, tmp_path / "out", on_step=again)
    train(tiny_clip, tmp_path / "out")


def test_a_full_disk_leaves_no_half_of_a_model(tiny_clip, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = load_model(str(tiny_clip))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(errors.StorageError, match=r"cannot write .*best"):
            write_folder(tmp_path / "best", model.save)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def save(folder):
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match=r"^CUDA out of memory$"):
        write_folder(tmp_path / "best", save)
    assert list(tmp_path.iterdir()) == []


def test_the_card_names_the_captions_and_the_settings(tiny_clip, tmp_path):
    training_set = read_training_set("toy_scenes", split="test", limit=8, negatives=["scene:swap"])
    card = train(tiny_clip, tmp_path / "out", short("hn", warmup_steps=50), training_set).folder / "README.md"
    text = card.read_text("utf-8")
    assert "`toy_scenes`: 8 captions" in text
    assert 'read with `split` "test", `limit` 8' in text
    assert "| warmup steps | 1 |" in text


def test_data_without_what_the_recipe_needs_is_refused(tiny_clip, tmp_path):
    bare = make_training_set()
    bare = replace(bare, samples=[sample._replace(negatives=(), positives=()) for sample in bare.samples])
    with pytest.raises(errors.DataError, match=r"none of the 24 captions of squares has a negative.*--set negatives="):
        train(tiny_clip, tmp_path / "out", short("hn"), bare)
    with pytest.raises(errors.DataError, match="has a negative, which coco needs"):
        train(tiny_clip, tmp_path / "out", short("coco", needs_negative=True), bare)
    train(tiny_clip, tmp_path / "plain", short("coco", epochs=1), bare)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"precision": "float16"}, "unknown precision .float16.; known: float32, bfloat16"),
        ({"micro_batch": 0}, "micro_batch is 0"),
        ({"trackers": ("wandb",)}, "unknown tracker"),
        ({"trackers": ("trackio",)}, "pip install trackio"),
    ],
)
def test_a_wrong_config_is_refused_before_anything_is_loaded(config, message, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.VLAssayError, match=message):
        train("no such model", tmp_path / "out", **config)
    assert not (tmp_path / "out").exists()


def test_recipes_are_those_of_the_papers():
    assert {name: tuple(recipe.weights) for name, recipe in RECIPES.items()} == {
        "coco": (1, 0, 0, 0),
        "negclip": (0, 1, 0, 0),
        "hn": (1, 0, 1, 0),
        "hp+hn": (1, 0, 1, 1),
        "swap-only": (1, 0, 1, 1),
        "replace-only": (1, 0, 1, 1),
        "svlc": (0, 1, 1, 0),
        "sugarcrepe-negclip": (0, 1, 0, 0),
    }
    for name, recipe in RECIPES.items():
        assert recipe == get_recipe(name)
        assert recipe.name == name
        if name not in ("svlc", "sugarcrepe-negclip"):  # whose values `test_recipes_as_released` has
            assert (recipe.epochs, recipe.batch_size, recipe.warmup_steps) == (5, 1024, 50)
        assert bool(recipe.negatives) == recipe.uses_negatives
        assert bool(recipe.positives) == recipe.uses_positives
    assert RECIPES["swap-only"].negatives == RECIPES["swap-only"].positives == ("swap",)
    assert RECIPES["replace-only"].negatives == RECIPES["replace-only"].positives == ("replace",)


def test_a_recipe_like_one_that_is_not_there_is_refused_with_those_that_are():
    one = '[coco]\nsource = "ARO"\nepochs = 3\n'
    recipes = read_recipes(f'{one}[own]\nlike = "coco"\nseed = 1')
    assert recipes["own"] == replace(recipes["coco"], name="own", seed=1)
    for like in ("cocoo", "own", ""):
        with pytest.raises(errors.UnknownNameError, match=f"unknown recipe, which own is like, '{like}'.*coco"):
            read_recipes(f'{one}[own]\nlike = "{like}"')


def test_a_recipe_takes_other_values():
    texts = {"epochs": "1", "hard_negative": "0.25", "negatives": "scene:swap, swap", "betas": "0.9,0.999"}
    texts |= {"ema_decay": "0.99", "max_gradient_norm": "none", "needs_negative": "true"}
    recipe = adapt(get_recipe("hp+hn"), texts)
    assert recipe.weights == Weights(1, 0, 0.25, 1)
    assert (recipe.epochs, recipe.negatives, recipe.betas) == (1, ("scene:swap", "swap"), (0.9, 0.999))
    assert (recipe.ema_decay, recipe.max_gradient_norm, recipe.needs_negative) == (0.99, None, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": "1"}, "unknown setting of a recipe 'epoch'; known: .*epochs.*hard_negative"),
        ({"epochs": "one"}, "expected epochs as int, not 'one'"),
        ({"epochs": "0"}, "epochs=0 is out of range; allowed: 1 or more"),
        ({"learning_rate": "nan"}, "learning_rate=nan is out of range; allowed: above 0"),
        ({"ema_decay": "1"}, "ema_decay=1.0 is out of range; allowed: between 0 and 1, or none"),
        ({"betas": "0.9,2"}, "two numbers from 0 to below 1"),
        ({"epsilon": "0"}, "epsilon=0.0 is out of range; allowed: above 0"),
        ({"seed": "-1"}, "seed=-1 is out of range"),
        ({"hard_negative": "nan"}, "finite, and one of them not 0"),
        ({"hard_negative": "0", "contrastive": "0"}, "finite, and one of them not 0"),
        ({"betas": "0.9"}, "expected betas as tuple.*not '0.9'"),
    ],
)
def test_values_that_a_recipe_cannot_have_are_refused(settings, message):
    with pytest.raises(errors.VLAssayError, match=message):
        adapt(get_recipe("hn"), settings)
    with pytest.raises(errors.UnknownNameError, match=r"known: coco, negclip"):
        get_recipe("hnn")
