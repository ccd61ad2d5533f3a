"""Shared by the tests of fine-tuning: a small training set in memory, a short recipe, stopped runs, weights."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vl_assay.metrics.common.errors import DataError
from vl_assay.model_wrappers.finetune.data.samples import ImageOpener
from vl_assay.model_wrappers.finetune.data.training_set import Sample, TrainingSet
from vl_assay.model_wrappers.finetune.train.recipes import RECIPES
from vl_assay.model_wrappers.finetune.train.training import TrainingConfig, finetune

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220), "green": (30, 200, 30), "black": (10, 10, 10)}


class Squares(ImageOpener):
    """Pictures of two halves in the colours that their key names, such as ``"red-blue-0"``."""

    broken = None

    def read(self, key):
        if key == self.broken:
            raise DataError(f"the image {key} is broken")
        left, right, number = key.split("-")
        pixels = np.zeros((32, 32, 3), np.uint8)
        pixels[:, :16], pixels[:, 16:] = COLOURS[left], COLOURS[right]
        pixels[: 1 + int(number) % 8] = 128
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        return file.getvalue()


def make_training_set(count=24):
    """Captions of pairs of colours; every fifth has no negative, every third no positive."""
    pairs = [(left, right) for left in COLOURS for right in COLOURS if left != right]
    samples = []
    for number in range(count):
        left, right = pairs[number % len(pairs)]
        negatives = () if number % 5 == 4 else (f"{right} left of {left}", f"{left} left of {left}")
        positives = () if number % 3 == 2 else (f"{right} right of {left}",)
        key = f"{left}-{right}-{number // len(pairs)}"
        samples.append(Sample(key, f"{left} left of {right}", negatives, positives, f"sample {number}"))
    return TrainingSet("squares", samples, Squares())


def short(name="hp+hn", **changes):
    """A recipe that takes a second: 2 epochs of 3 batches."""
    changes = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "warmup_steps": 1} | changes
    return replace(RECIPES[name], **changes)


def train(model, out, recipe=None, training_set=None, evaluation=None, on_step=None, **config):
    """Fine-tune quietly; further arguments are those of the config."""
    data = make_training_set() if training_set is None else training_set
    how = {"config": TrainingConfig(**config), "evaluation": evaluation, "on_step": on_step, "progress": False}
    return finetune(str(model), data, out, recipe or short(), **how)


def stop_at(last):
    """An `on_step` that stops the run after a step as Ctrl-C would, before any checkpoint of that step."""

    def on_step(step, values):
        if step == last:
            raise KeyboardInterrupt

    return on_step


def train_until(step, model, out, recipe=None, training_set=None, **config):
    """A run that is stopped after a step."""
    with pytest.raises(KeyboardInterrupt):
        train(model, out, recipe, training_set, on_step=stop_at(step), **config)


def read_log(folder):
    """The lines of the log of a model folder."""
    return [json.loads(line) for line in (folder / "training" / "log.jsonl").read_text("utf-8").splitlines()]


def weights(folder):
    """The tensors of a model folder."""
    from safetensors.torch import load_file

    [file] = folder.glob("*.safetensors")
    return load_file(file)


def same_bits(ours, theirs):
    """Whether two sets of weights are the same, bit for bit."""
    import torch

    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def furthest(ours, theirs):
    """The largest difference between two sets of weights."""
    assert ours.keys() == theirs.keys()
    return max((ours[name] - theirs[name]).abs().max().item() for name in ours)
