"""Recipes that are frozen keep one negative and one positive of each caption for the whole run."""

from __future__ import annotations

import json
from collections import Counter

from finetune_support import make_training_set, same_bits, short, train, train_until, weights

from vl_assay.model_wrappers.finetune.data.batches import draw_epoch
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES, adapt


def texts(training_set, epoch, seed=0):
    """What an epoch draws of each sample: negative and positive by id."""
    batches = draw_epoch(training_set, epoch=epoch, seed=seed, batch_size=8)
    return {each.id: (each.negative, each.positive) for batch in batches for each in batch}


def test_every_epoch_of_a_frozen_set_has_the_same_texts_and_other_seeds_have_others():
    free = make_training_set(24)
    by_seed = [free.frozen(seed) for seed in range(4)]
    for frozen in by_seed:
        assert texts(frozen, epoch=0) == texts(frozen, epoch=1) == texts(frozen, epoch=5)
        for old, new in zip(free.samples, frozen.samples, strict=True):
            assert (len(new.negatives), len(new.positives)) == (bool(old.negatives), bool(old.positives))
            assert set(new.negatives) <= set(old.negatives)
    assert texts(free, epoch=0) != texts(free, epoch=1)
    assert len({frozen.fingerprint for frozen in by_seed}) == 4
    assert free.frozen(3).fingerprint == by_seed[3].fingerprint


def test_all_negatives_are_kept_equally_often():
    free = make_training_set(24)
    first = {sample.id: sample.negatives[0] for sample in free.samples if sample.negatives}
    kept = Counter(
        each.negatives[0] == first[each.id]
        for seed in range(50)
        for each in free.frozen(seed).samples
        if each.negatives
    )
    # 20 samples with two negatives, 50 times: 500 each, with a standard deviation of sqrt(1000 / 4) = 16.
    assert abs(kept[True] - 500) < 64


def test_a_run_freezes_by_its_recipe_and_resumes_with_the_same_bits(tiny_clip, tmp_path):
    train(tiny_clip, tmp_path / "by-recipe", short(frozen=True))
    train(tiny_clip, tmp_path / "by-hand", short(frozen=False), make_training_set().frozen(0))
    train(tiny_clip, tmp_path / "free", short(frozen=False))
    assert same_bits(weights(tmp_path / "by-recipe"), weights(tmp_path / "by-hand"))
    assert not same_bits(weights(tmp_path / "by-recipe"), weights(tmp_path / "free"))
    train_until(4, tiny_clip, tmp_path / "stopped", short(frozen=True), save_steps=1)
    train(tiny_clip, tmp_path / "stopped", short(frozen=True), save_steps=1)
    assert same_bits(weights(tmp_path / "by-recipe"), weights(tmp_path / "stopped"))
    run = json.loads((tmp_path / "by-recipe" / "training" / "run.json").read_text())
    assert run["recipe"]["frozen"] is True


def test_the_recipes_of_hard_positives_are_frozen_unless_told_otherwise():
    assert {name for name, recipe in RECIPES.items() if recipe.frozen} >= {"hn", "hp+hn", "swap-only", "replace-only"}
    assert not RECIPES["negclip"].frozen  # ARO, appendix C.1: sampled at each epoch
    assert adapt(RECIPES["hn"], {"frozen": "false"}).frozen is False
