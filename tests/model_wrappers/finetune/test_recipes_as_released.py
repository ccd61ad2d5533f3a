"""Recipes as released: SVLC's and SugarCrepe's settings, random starts, and training on refined negatives."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from finetune_support import Squares, furthest, make_training_set, same_bits, short, stop_at, train, weights

from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.batches import BatchLoader, draw_epoch
from vl_assay.model_wrappers.finetune.data.refining import refined
from vl_assay.model_wrappers.finetune.data.training_set import Sample, TrainingSet
from vl_assay.model_wrappers.finetune.train.model_card import model_card
from vl_assay.model_wrappers.finetune.train.recipes import adapt, get_recipe
from vl_assay.model_wrappers.finetune.train.towers import Towers, restarted, trainable
from vl_assay.model_wrappers.finetune.train.validation import Evaluation

SCRATCH = {"random_start": True, "neighbours": 0, "negatives": ()}


def test_svlc_has_the_values_of_its_code_and_negatives_among_the_contrastive_columns():
    recipe = get_recipe("svlc")
    assert tuple(recipe.weights) == (0, 1, 1, 0)  # contrastive, negclip, hard_negative, hard_positive
    assert (recipe.learning_rate, recipe.weight_decay, recipe.warmup_steps, recipe.batch_size) == (
        5e-6,
        0.1,
        10_000,
        128,
    )
    assert (recipe.epochs, recipe.betas, recipe.epsilon) == (5, (0.9, 0.98), 1e-6)
    assert (recipe.lora, recipe.lora_rank, recipe.frozen) == ("svlc", 4, False)


def test_sugarcrepe_s_negclip_has_the_values_of_its_appendix():
    recipe = get_recipe("sugarcrepe-negclip")
    assert (recipe.learning_rate, recipe.weight_decay, recipe.warmup_steps, recipe.batch_size) == (1e-4, 0.1, 1000, 256)
    assert (recipe.epochs, recipe.neighbours, recipe.frozen) == (30, 0, True)
    for kind in ("replace", "swap", "negate"):
        assert adapt(recipe, {"negatives": kind, "random_start": "true"}).negatives == (kind,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lora": "dac"}, "allowed: one of linear, svlc"),
        (
            {"random_start": "true", "lora_rank": "2"},
            "random_start=True is out of range; allowed: false where adapters",
        ),
        ({"refined": "true"}, "refined=True is out of range; allowed: true only with frozen"),
    ],
)
def test_settings_that_contradict_are_refused(settings, message):
    with pytest.raises(VLAssayError, match=message):
        adapt(get_recipe("negclip"), settings)


def test_a_random_start_depends_on_the_seed_and_resumes_with_the_same_bits(tiny_clip, tmp_path):
    recipe = short("sugarcrepe-negclip", **SCRATCH)
    train(tiny_clip, tmp_path / "whole", recipe)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_clip, tmp_path / "stopped", recipe, save_steps=1, on_step=stop_at(4))
    train(tiny_clip, tmp_path / "stopped", recipe, save_steps=1)
    assert same_bits(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))
    encoder = trainable(load_model(str(tiny_clip)))
    first, again, other = (restarted(encoder, seed).module.state_dict() for seed in (0, 0, 1))
    assert same_bits(first, again)
    name = "vision_model.encoder.layers.0.mlp.fc1.weight"
    assert not torch.equal(first[name], other[name])
    # Six steps of Adam, of 1e-3 at most, from the weights that the seed draws, and not from the checkpoint's.
    trained = weights(tmp_path / "whole")[name]
    assert (trained - first[name]).abs().max() < 0.01
    assert (trained - weights(tiny_clip)[name]).abs().max() > 0.1
    assert "The architecture of `" in (tmp_path / "whole" / "README.md").read_text("utf-8")


def test_random_weights_have_no_base_model(tiny_clip, tmp_path):
    train(tiny_clip, tmp_path / "out", short("coco", epochs=1))
    facts = json.loads((tmp_path / "out" / "training" / "run.json").read_text())
    facts["model"]["checkpoint"] = "openai/clip-vit-base-patch32"
    for random_start in (False, True):
        facts["recipe"]["random_start"] = random_start
        card = model_card(tmp_path / "out", facts, {}, [], None, Evaluation(), [])
        assert ("base_model: openai/clip-vit-base-patch32" in card) is not random_start


def test_batch_normalisation_is_trained_from_random_weights_alone_and_counts_a_batch_once(tmp_path):
    folder = tiny_models.tiny_align(tmp_path / "align")
    training_set = make_training_set(16)

    def statistics(trains_norms, chunks):
        encoder = trainable(load_model(str(folder)))
        towers = Towers(encoder, negatives=False, positives=False, trains_norms=trains_norms).train()
        batch = BatchLoader(encoder, training_set).load(next(draw_epoch(training_set, epoch=0, seed=0, batch_size=8)))
        for part in batch.chunks(chunks):
            with torch.no_grad():
                towers(part)
            towers(part)["images"].sum().backward()
        return {name: value.clone() for name, value in encoder.module.named_buffers() if "running_mean" in name}

    start = {name: value for name, value in load_model(str(folder)).module.named_buffers() if "running_mean" in name}
    assert start
    assert same_bits(statistics(False, 1), start)
    once = statistics(True, 1)
    assert furthest(once, start) > 1e-4
    encoder = trainable(load_model(str(folder)))
    towers = Towers(encoder, negatives=False, positives=False, trains_norms=True).train()
    towers(BatchLoader(encoder, training_set).load(next(draw_epoch(training_set, epoch=0, seed=0, batch_size=8))))
    plain = {name: value for name, value in encoder.module.named_buffers() if "running_mean" in name}
    assert furthest(once, plain) < 1e-6  # the pass without gradients left no trace


def make_leaky(count=120):
    """Captions of ordinary words, half of whose negatives have a word that no caption has."""
    rng = np.random.default_rng(0)
    colours = ("red", "blue", "green", "black")
    samples = []
    for number in range(count):
        left, right = rng.choice(colours, 2, replace=False).tolist()
        wrong = f"a zyx square left of a {right} one" if number % 2 else f"a {right} square left of a {left} one"
        caption = f"a {left} square left of a {right} one"
        samples.append(Sample(f"{left}-{right}-{number}", caption, (wrong,), (), str(number)))
    return TrainingSet("leaky", samples, Squares())


def test_negatives_that_a_blind_scorer_can_tell_are_left_out_and_their_captions_stay():
    leaky = make_leaky()
    found = refined(leaky, seed=1)
    kept = [bool(sample.negatives) for sample in found.samples]
    assert [sample.caption for sample in found.samples] == [sample.caption for sample in leaky.samples]
    assert found.refined == found.summary()["refined"] == kept.count(False)
    assert not any(kept[1::2])  # each of them is told by its rare word, and nothing balances it
    assert sum(kept) > 0
    assert refined(leaky, seed=1).fingerprint == found.fingerprint


def test_a_run_on_refined_negatives_says_so(tiny_clip, tmp_path):
    recipe = short("sugarcrepe-negclip", refined=True, epochs=1, batch_size=16)
    train(tiny_clip, tmp_path / "out", recipe, make_leaky())
    train(tiny_clip, tmp_path / "by-hand", replace(recipe, refined=False), refined(make_leaky().frozen(0), 0))
    assert same_bits(weights(tmp_path / "out"), weights(tmp_path / "by-hand"))
    assert "negatives were left out by adversarial refinement" in (tmp_path / "out" / "README.md").read_text("utf-8")
