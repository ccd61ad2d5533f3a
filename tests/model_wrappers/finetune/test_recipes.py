"""Recipes: their values are those of the papers and releases, other values are checked, and random starts."""

import json

import pytest
import tiny_models
import torch
from finetune_support import make_training_set, same_bits, short, train, train_until, weights

from vl_assay.metrics.common.errors import UnknownNameError, VLAssayError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.data.batches import BatchLoader, draw_epoch
from vl_assay.model_wrappers.finetune.train.losses import LossWeights
from vl_assay.model_wrappers.finetune.train.model_card import model_card
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES, adapt, get_recipe
from vl_assay.model_wrappers.finetune.train.towers import Towers, restarted, trainable


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
    schedules = {  # learning rate, weight decay, warm-up, batch, epochs
        "svlc": (5e-6, 0.1, 10_000, 128, 5),
        "sugarcrepe-negclip": (1e-4, 0.1, 1000, 256, 30),
    }
    for name, recipe in RECIPES.items():
        assert recipe == get_recipe(name)
        assert recipe.name == name
        schedule = (recipe.learning_rate, recipe.weight_decay, recipe.warmup_steps, recipe.batch_size, recipe.epochs)
        assert schedule == schedules.get(name, (1e-5, 0.2, 50, 1024, 5))
        assert (recipe.betas, recipe.epsilon) == ((0.9, 0.98), 1e-6)
        assert bool(recipe.negatives) == recipe.uses_negatives
        assert bool(recipe.positives) == recipe.uses_positives
        assert recipe.lora_rank == (4 if name == "svlc" else 0)
        assert recipe.neighbours == (3 if name == "negclip" else 0)
        # ARO, appendix C.1, samples at each epoch; Hard Positives, section 5.1, generates one for each caption.
        assert recipe.frozen == (name not in ("coco", "negclip", "svlc"))
    assert RECIPES["swap-only"].negatives == RECIPES["swap-only"].positives == ("swap",)
    assert RECIPES["replace-only"].negatives == RECIPES["replace-only"].positives == ("replace",)
    with pytest.raises(UnknownNameError, match=r"known: coco, negclip"):
        get_recipe("hnn")


def test_a_recipe_takes_other_values():
    texts = {"epochs": "1", "hard_negative": "0.25", "negatives": "scene:swap, swap", "betas": "0.9,0.999"}
    texts |= {"max_gradient_norm": "none", "needs_negative": "true"}
    recipe = adapt(get_recipe("hp+hn"), texts)
    assert recipe.weights == LossWeights(1, 0, 0.25, 1)
    assert (recipe.epochs, recipe.negatives, recipe.betas) == (1, ("scene:swap", "swap"), (0.9, 0.999))
    assert (recipe.max_gradient_norm, recipe.needs_negative) == (None, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": "1"}, "unknown setting of a recipe 'epoch'; known: .*epochs.*hard_negative"),
        ({"epochs": "one"}, "expected epochs as int, not 'one'"),
        ({"epochs": "0"}, "epochs=0 is out of range; allowed: 1 or more"),
        ({"learning_rate": "nan"}, "learning_rate=nan is out of range; allowed: above 0"),
        ({"betas": "0.9,2"}, "two numbers from 0 to below 1"),
        ({"hard_negative": "0", "contrastive": "0"}, "finite, and one of them not 0"),
        ({"betas": "0.9"}, "expected betas as tuple.*not '0.9'"),
        ({"random_start": "true", "lora_rank": "2"}, "random_start=True is out of range; allowed: false where adapt"),
    ],
)
def test_values_that_a_recipe_cannot_have_are_refused(settings, message):
    with pytest.raises(VLAssayError, match=message):
        adapt(get_recipe("hn"), settings)


def test_a_random_start_depends_on_the_seed_and_resumes_with_the_same_bits(tiny_clip, tmp_path):
    recipe = short("sugarcrepe-negclip", random_start=True)
    train(tiny_clip, tmp_path / "whole", recipe)
    train_until(4, tiny_clip, tmp_path / "stopped", recipe, save_steps=1)
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
    # A card names the base model, unless the weights are not its own.
    facts = json.loads((tmp_path / "whole" / "training" / "run.json").read_text())
    facts["model"]["checkpoint"] = "openai/clip-vit-base-patch32"
    for random_start in (False, True):
        facts["recipe"]["random_start"] = random_start
        card = model_card(tmp_path / "whole", facts, {}, [], [])
        assert ("base_model: openai/clip-vit-base-patch32" in card) is not random_start
        assert ("The architecture of `" in card) is random_start


def test_batch_normalisation_is_trained_from_random_weights_alone(tmp_path):
    folder, training_set = tiny_models.tiny_align(tmp_path / "align"), make_training_set(16)
    for trains_norms in (False, True):
        encoder = trainable(load_model(str(folder)))
        start = {name: value.clone() for name, value in encoder.module.named_buffers() if "running_mean" in name}
        towers = Towers(encoder, negatives=False, positives=False, trains_norms=trains_norms).train()
        towers(BatchLoader(encoder, training_set).load(next(draw_epoch(training_set, epoch=0, seed=0, batch_size=8))))
        trained = {name: value for name, value in encoder.module.named_buffers() if name in start}
        assert start
        assert same_bits(trained, start) is not trains_norms
