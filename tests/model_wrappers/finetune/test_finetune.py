"""Fine-tuning: every family learns and is saved as it was; how a recipe is run changes nothing else."""

import json
import resource
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from finetune_support import (
    furthest,
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
from vl_assay.model_wrappers.finetune.train import loop
from vl_assay.model_wrappers.finetune.train.checkpoints import write_files
from vl_assay.model_wrappers.finetune.train.towers import Towers, trainable
from vl_assay.model_wrappers.finetune.train.training import finetune

KINDS = ("clip", "align", "altclip", "siglip2", "flava")


@pytest.fixture(scope="module")
def folders(tiny_clip, tmp_path_factory):
    """The folder of a tiny checkpoint of each kind."""
    place = tmp_path_factory.mktemp("dual")
    built = {kind: getattr(tiny_models, f"tiny_{kind}")(place / kind) for kind in KINDS if kind != "clip"}
    return {"clip": tiny_clip} | built


def embeddings(model, training_set):
    images = [model.prepare_image(training_set.image(key)) for key in training_set.image_keys[:4]]
    captions = model.prepare_captions([sample.caption for sample in training_set.samples[:4]])
    return model.encode_images(images).numpy(), model.encode_captions(captions).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_every_dual_encoder_learns_and_is_saved_as_it_was(kind, folders, tmp_path):
    before = load_model(str(folders[kind]))
    outcome = train(folders[kind], tmp_path / "out", short(weight_decay=0.5))
    losses = [line["loss"] for line in read_log(outcome.folder)]
    assert len(losses) == 6
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    after = load_model(str(outcome.folder))
    for name in ("family", "parameters", "preprocessing", "settings"):
        assert getattr(after.info, name) == getattr(before.info, name)
    for old, new in zip(*(embeddings(model, make_training_set()) for model in (before, after)), strict=True):
        assert np.abs(old - new).max() > 1e-4
    # Weights on which no embedding depends stay as they were.
    old, new = weights(folders[kind]), weights(tmp_path / "out")
    unused = [name for name in new if "logit_bias" in name or "multimodal" in name or "to_mm" in name]
    assert bool(unused) == (kind in ("siglip2", "flava"))
    for name in unused:
        assert torch.equal(new[name], old.get(name, old.get(f"flava.{name}")))


@pytest.mark.parametrize("kind", ["clip", "flava"])
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


def test_models_without_gradients_and_revisions_of_folders_are_refused(tiny_clip, tmp_path):
    with pytest.raises(errors.ModelError, match="cannot be fine-tuned"):
        finetune("mock:oracle", make_training_set(), tmp_path / "out", short())
    for model in (str(tiny_clip), "demo-clip"):
        with pytest.raises(errors.ModelError, match="is a folder, which has no revision 'v2'"):
            finetune(model, make_training_set(), tmp_path / "out", short(), revision="v2", progress=False)


@pytest.mark.parametrize(
    ("place", "name", "message"),
    [(loop, "total", "CUDA out of memory. Tried"), (Towers, "forward", "DefaultCPUAllocator: can't allocate memory")],
)
def test_a_full_memory_is_an_error_with_the_remedy(place, name, message, tiny_clip, tmp_path, monkeypatch):
    work, calls = getattr(place, name), []

    def full(*args):
        calls.append(args)
        if place is Towers and len(calls) == 1:  # finds the weights that are used
            return work(*args)
        raise RuntimeError(message)

    monkeypatch.setattr(place, name, full)
    with pytest.raises(errors.TrainingError, match=r"with a batch of 8 captions; .*--set batch_size="):
        train(tiny_clip, tmp_path / "out")


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
    kept = len(training_set.with_negatives().samples)
    assert kept == 24
    card = (out / "README.md").read_text("utf-8")
    assert f"{kept} captions of" in card
    assert "6 without a negative were left out" in card
    log = read_log(out)
    assert len(log) == kept // 8
    assert {*log[0]["losses"]} == {"negclip"}
    assert all(0 <= line["waited"] <= line["seconds"] for line in log)


def test_a_loss_that_is_not_finite_stops_with_the_caption_named(tiny_clip, tmp_path, monkeypatch):
    encoder = type(load_model(str(tiny_clip)))
    training_set, out, prepare = make_training_set(), tmp_path / "out", encoder.prepare_image
    broken = training_set.image(training_set.samples[7].image).tobytes()

    def poisoned(self, image):
        return prepare(self, image) * np.float32(np.nan if image.tobytes() == broken else 1)

    with monkeypatch.context() as patch:
        patch.setattr(encoder, "prepare_image", poisoned)
        message = r"the loss is nan at step [123], in a batch of 8 captions\. .*images sample 7, or use a lower"
        with pytest.raises(errors.TrainingError, match=message):
            train(tiny_clip, out, save_steps=1)
    train(tiny_clip, out, save_steps=1)  # with the image repaired the run resumes


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

    def again(step, values):
        with pytest.raises(errors.StorageError, match="another run is writing to"):
            train(tiny_clip, tmp_path / "held")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny_clip, tmp_path / "held", on_step=again)


def test_a_full_disk_leaves_no_half_of_a_model(tiny_clip, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    model = load_model(str(tiny_clip))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(errors.StorageError, match="cannot write"):
            write_files(tmp_path, model.save)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def save(folder):
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match=r"^CUDA out of memory$"):
        write_files(tmp_path, save)
    assert list(tmp_path.iterdir()) == []


def test_a_frozen_recipe_keeps_one_negative_and_one_positive_of_each_caption(tiny_clip, tmp_path):
    train_until(1, tiny_clip, tmp_path / "out", short("hp+hn"))
    facts = json.loads((tmp_path / "out" / "training" / "run.json").read_text("utf-8"))
    assert facts["data"]["fingerprint"] == make_training_set().frozen(seed=0).fingerprint


def test_data_without_what_the_recipe_needs_is_refused(tiny_clip, tmp_path):
    bare = make_training_set()
    bare = replace(bare, samples=[sample._replace(negatives=(), positives=()) for sample in bare.samples])
    with pytest.raises(errors.DataError, match=r"none of the 24 captions of squares has a negative.*--set negatives="):
        train(tiny_clip, tmp_path / "out", short("hn"), bare)
    with pytest.raises(errors.DataError, match="has a negative, which coco needs"):
        train(tiny_clip, tmp_path / "out", short("coco", needs_negative=True), bare)


def test_a_wrong_config_is_refused_before_anything_is_loaded(tmp_path):
    with pytest.raises(errors.UnknownNameError, match=r"unknown precision .float16.; known: float32, bfloat16"):
        train("no such model", tmp_path / "out", precision="float16")
    with pytest.raises(errors.UnknownNameError, match="unknown installed tracker 'nowhere'"):
        train("no such model", tmp_path / "out", tracker=["nowhere"])
    assert not (tmp_path / "out").exists()
