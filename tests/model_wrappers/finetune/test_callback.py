"""`CompositionalityCallback` in a real training by transformers' `Trainer`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPModel, Trainer, TrainingArguments

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import CompositionalityCallback, load_model, predict

SCORE = "eval_toy_scenes/itm/accuracy"


@pytest.fixture
def make_trainer(tiny_clip, tmp_path):
    """Return a function that makes a trainer of a tiny CLIP on noise."""
    encoder = load_model(str(tiny_clip))
    pixels = torch.from_numpy(np.random.default_rng(0).normal(size=(4, *encoder.prepare_image(image()).shape)))
    ids, mask = encoder.batch_tokens(
        encoder.prepare_captions(["a red circle", "a cat", "two dogs", "grass"]), encoder.module
    )

    def rows():
        return [
            {"pixel_values": pixels[i].float(), "input_ids": ids[i], "attention_mask": mask[i], "return_loss": True}
            for i in range(4)
        ]

    def make(**arguments):
        given = {"output_dir": str(tmp_path / "out"), "max_steps": 4, "per_device_train_batch_size": 4}
        given |= {"use_cpu": True, "logging_steps": 1, "save_strategy": "no", "learning_rate": 1e-2, "report_to": []}
        model = CLIPModel.from_pretrained(tiny_clip)
        return Trainer(model, TrainingArguments(**given | arguments), collator, rows(), rows())

    return make


def image():
    return Image.new("RGB", (40, 30), "red")


def collator(rows):
    return {key: torch.stack([row[key] for row in rows]) for key in rows[0] if key != "return_loss"} | {
        "return_loss": True
    }


def test_scores_are_logged_every_few_steps_and_are_those_of_the_weights_at_that_step(
    make_trainer, toy, tiny_clip, tmp_path
):
    trainer = make_trainer()
    trainer.add_callback(CompositionalityCallback(trainer, str(tiny_clip), ["toy_scenes/itm"], every=2))
    trainer.train()
    logged = {line["step"]: line[SCORE] for line in trainer.state.log_history if SCORE in line}
    assert [*logged] == [2, 4]
    assert trainer.model.training
    encoder = load_model(str(tiny_clip))
    trained = encoder.holding(trainer.model.eval(), encoder.info)
    [result, *_] = report(predict(trained, "toy_scenes/itm", out=tmp_path / "whole", progress=False), parts=False)
    assert logged[4] == result.scores["accuracy"]


def test_without_steps_it_measures_with_each_evaluation_whose_best_model_it_can_choose(make_trainer, toy, tiny_clip):
    trainer = make_trainer(
        eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2, metric_for_best_model=SCORE,
        load_best_model_at_end=True,
    )  # fmt: skip
    trainer.add_callback(CompositionalityCallback(trainer, load_model(str(tiny_clip)), ["toy_scenes/itm"]))
    trainer.train()
    scores = [line[SCORE] for line in trainer.state.log_history if SCORE in line]
    assert len(scores) == 2
    assert trainer.state.best_metric == max(scores)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"every": 0}, "1 or more"), ({"model": "mock:oracle"}, "no dual encoder")]
)
def test_what_cannot_be_measured_is_refused(arguments, message, make_trainer, tiny_clip):
    with pytest.raises(ModelError, match=message):
        CompositionalityCallback(make_trainer(), **({"model": str(tiny_clip)} | arguments))
