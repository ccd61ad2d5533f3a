"""Validation during training: benchmarks, zero-shot classification, early stopping, and the model card."""

from __future__ import annotations

import re
import stat

import datasets
import numpy as np
import pytest
import torch
import yaml
from console import invoke
from finetune_support import COLOURS, furthest, keep_states, make_labelled, read_log, same_bits, short, train, weights
from PIL import Image

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import DataError, ModelError, UnknownNameError, VLAssayError
from vl_assay.model_wrappers import load_model, score
from vl_assay.model_wrappers.engine.distributed import Processes
from vl_assay.model_wrappers.finetune.train.validation import RECOGNITION, Evaluation, Stopping, recognition

ACCURACY = "sugarcrepe/add_att/accuracy"


@pytest.fixture
def labelled(tmp_path):
    """A folder of images by label: plain colours."""
    return make_labelled(tmp_path / "labelled")


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """The benchmark's options with a small stand-in for SugarCrepe's sources."""
    from sources_sugarcrepe import make_sugarcrepe

    sources = make_sugarcrepe(tmp_path_factory.mktemp("sources") / "coco", 24, 8)
    return {"data_dir": sources, "options": {"verify": False}}


@pytest.fixture(scope="module")
def evaluated(tiny_clip, options, tmp_path_factory):
    """A run with an evaluation of everything."""
    place = tmp_path_factory.mktemp("evaluated")
    labelled = make_labelled(place / "labelled")
    return train(tiny_clip, place / "out", evaluation=Evaluation(("sugarcrepe/add_att",), str(labelled), **options))


def run(model, options, out):
    """The result of a run of the benchmark."""
    [result] = report(score(str(model), ["sugarcrepe/add_att"], out=out, progress=False, **options))
    return result


def test_each_epoch_is_measured_and_the_model_before(evaluated, tiny_clip, options, tmp_path):
    history = evaluated.history
    assert [entry["epoch"] for entry in history] == [0, 1, 2]
    assert [entry["step"] for entry in history] == [0, 3, 6]
    assert all({*entry["scores"]} == {ACCURACY, RECOGNITION} for entry in history)
    assert history[0]["scores"][ACCURACY] == run(tiny_clip, options, tmp_path).scores["accuracy"]
    gain = history[-1]["scores"][ACCURACY] - history[0]["scores"][ACCURACY]
    compared = evaluated.comparison.to_pandas()
    [whole] = set(compared[compared["score"] == "accuracy"]["difference"])  # there is one category
    assert whole == pytest.approx(gain)
    assert evaluated.comparison.verdict in (evaluated.folder / "training" / "comparison.md").read_text("utf-8")
    logged = [line for line in read_log(evaluated.folder) if "scores" in line]
    assert [line["scores"] for line in logged] == [entry["scores"] for entry in history]


def test_the_numbers_of_the_card_are_those_of_a_run_of_the_folder(evaluated, options, tmp_path):
    result = run(evaluated.folder, options, tmp_path)
    assert result.scores == evaluated.results[0].scores
    assert result.scores["accuracy"] == evaluated.history[-1]["scores"][ACCURACY]
    card = (evaluated.folder / "README.md").read_text("utf-8")
    metadata = yaml.safe_load(card.split("---")[1])
    [entry] = metadata["model-index"][0]["results"]
    assert {metric["type"]: metric["value"] for metric in entry["metrics"]}["accuracy"] == result.scores["accuracy"]
    [row] = re.findall(r"^\| add_att \| ([\d.]+)", card, flags=re.M)
    assert row == f"{100 * result.scores['accuracy']:.1f}"
    [way] = re.findall(rf"^\| {ACCURACY} \| (.*) \|$", card, flags=re.M)
    assert way.split(" | ") == [f"{100 * entry['scores'][ACCURACY]:.1f} %" for entry in evaluated.history]
    assert "Hard Positives (Kamath et al., 2024)" in card
    assert "| learning rate | 0.001 |" in card
    assert "| seed | 0 |" in card
    assert load_model(str(evaluated.folder)).info.revision == result.model["revision"]


def test_the_folder_loads_with_plain_transformers(evaluated):
    from transformers import AutoModel, AutoProcessor

    model, processor = AutoModel.from_pretrained(evaluated.folder), AutoProcessor.from_pretrained(evaluated.folder)
    image = Image.new("RGB", (32, 32), (220, 30, 30))
    inputs = processor(text=["red left of blue"], images=image, return_tensors="pt")
    with torch.inference_mode():
        outputs = model(**inputs)
    ours = load_model(str(evaluated.folder))
    expected = (
        ours.encode_images([ours.prepare_image(image)])
        @ ours.encode_captions(ours.prepare_captions(["red left of blue"])).T
    )
    assert outputs.logits_per_image.item() == pytest.approx(expected.item() * model.logit_scale.exp().item(), abs=1e-4)


class Colours:
    """An encoder that knows colours: a caption's embedding is that of its last word."""

    def prepare_image(self, image):
        return np.asarray(image.convert("RGB"), np.float32).mean(axis=(0, 1))

    def encode_images(self, images):
        return np.stack(images) / np.linalg.norm(images, axis=1, keepdims=True)

    def prepare_captions(self, captions):
        return [COLOURS[caption.rstrip(".").split()[-1]] for caption in captions]

    def encode_captions(self, captions):
        return self.encode_images(np.array(captions, np.float32))


def test_recognition_is_the_share_of_images_nearest_to_their_own_label(labelled):
    templates = ("a photo of a {}.", "the colour {}", "{x} {} {}")
    assert recognition(Colours(), str(labelled), templates, Processes()) == 1
    # Two of eight under a wrong label.
    (labelled / "red" / "1.png").rename(labelled / "green" / "a.png")
    (labelled / "blue" / "1.png").rename(labelled / "green" / "b.png")
    assert recognition(Colours(), str(labelled), templates, Processes()) == 6 / 8

    class Constant(Colours):
        def encode_images(self, images):
            return np.ones((len(images), 3), np.float32)

    assert recognition(Constant(), str(labelled), ("a {}",), Processes()) == 0


def test_folders_that_are_not_labelled_are_refused(labelled, tmp_path):
    (tmp_path / "one" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match="1 labels and 0 images"):
        recognition(Colours(), str(tmp_path / "one"), ("a {}",), Processes())
    with pytest.raises(DataError, match="there is no folder"):
        recognition(Colours(), str(tmp_path / "none"), ("a {}",), Processes())
    with pytest.raises(VLAssayError, match=r"has no \{\}"):
        recognition(Colours(), str(labelled), ("a photo",), Processes())
    (labelled / "red" / "0.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"red/0\.png of .* cannot be read"):
        recognition(Colours(), str(labelled), ("a {}",), Processes())


def test_a_split_with_hidden_labels_is_not_taken(labelled, monkeypatch):
    def recognised(labels, *pictures):
        """By a dataset of the Hub with these labels in its splits; -1 is hidden, as in ImageNet's test split."""
        rows = {"picture": [{"bytes": each, "path": None} for each in pictures]}
        features = {"picture": datasets.Image(), "label": datasets.ClassLabel(names=["red", "blue"])}
        found = {
            split: datasets.Dataset.from_dict(rows | {"label": each}, features=datasets.Features(features))
            for split, each in labels.items()
        }
        known = {("owner/name", None): datasets.DatasetDict(found)}
        monkeypatch.setattr(datasets, "load_dataset", lambda *reference: known[reference])
        return recognition(Colours(), "hf://datasets/owner/name", ("a {}",), Processes())

    blue, red = ((labelled / name / "0.png").read_bytes() for name in ("blue", "red"))
    labels = {"train": [0, 0], "test": [-1, -1], "validation": [1, 0]}
    assert recognised(labels, blue, red) == 1
    with pytest.raises(DataError, match=r"shows the labels of no split \(test\)"):
        recognised({"test": [-1, -1]}, blue, red)
    with pytest.raises(DataError, match=r"row 1\) of hf://datasets/owner/name cannot be read"):
        recognised(labels, blue, b"no image")


def test_a_folder_with_the_name_of_a_demo_is_measured_itself(tiny_clip, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluation = Evaluation(("sugarcrepe/add_att",), **options)
    outcome = train(tiny_clip, "demo-clip", short(epochs=1), evaluation=evaluation)
    assert outcome.results[0].model["revision"] == load_model(str(tmp_path / "demo-clip")).info.revision
    assert outcome.results[0].scores["accuracy"] == outcome.history[-1]["scores"][ACCURACY]


def entries(*values, name="toy_scenes/itm/accuracy"):
    return [{"epoch": number, "scores": {name: value}} for number, value in enumerate(values, start=1)]


def test_training_stops_when_nothing_better_has_come_for_a_while():
    stopping = Stopping("toy_scenes/itm/accuracy", patience=2)
    assert not stopping.should_stop([])
    assert not stopping.should_stop(entries(0.5, 0.4))
    assert stopping.should_stop(entries(0.5, 0.4, 0.5))  # equal is not better
    assert not stopping.should_stop(entries(0.5, 0.4, 0.6))
    assert stopping.best(entries(0.5, 0.6, 0.6)) == 1
    assert not Stopping().should_stop(entries(0.5, 0.4, 0.3))
    assert stopping.best(entries(float("nan"), 0.4)) == 1  # NaN never wins
    assert Stopping().best(entries(0.5, 0.4)) == 1
    name = "toy_scenes/hard_positives/brittleness"  # lower is better
    assert Stopping(name).best(entries(0.3, 0.1, 0.2, name=name)) == 1


class Scripted(Evaluation):
    """Evaluations that give these values, whatever the model; the first is that of the model before training."""

    def __init__(self, *values):
        super().__init__(recognise="scripted")
        self.left = list(values)

    def measure(self, model, out, processes, *, settings=None):
        return {"toy_scenes/itm/accuracy": self.left.pop(0)}, []


def test_the_weights_of_the_best_epoch_are_kept(tiny_clip, tmp_path):
    stopping = Stopping("toy_scenes/itm/accuracy", patience=2)
    evaluation = Scripted(0.9, 0.5, 0.7, 0.6, 0.7, 0.8)
    out, recipe = tmp_path / "stopped", short(epochs=5)
    outcome = train(tiny_clip, out, recipe, evaluation=evaluation, stopping=stopping)
    assert [entry["scores"]["toy_scenes/itm/accuracy"] for entry in outcome.history] == [0.9, 0.5, 0.7, 0.6, 0.7]
    assert "epoch 2 *" in (out / "README.md").read_text("utf-8")
    # The checkpoints after epochs 1 and 2 of the same run without validation.
    states, best = {}, weights(out)
    train(tiny_clip, tmp_path / "again", recipe, on_step=keep_states(tmp_path / "again", states))
    first, second = ({name: states[step][name] for name in best} for step in (3, 6))
    assert same_bits(second, best)
    assert furthest(first, best) > 1e-4


def test_a_score_that_is_not_measured_is_refused_before_training(tiny_clip, tmp_path):
    with pytest.raises(ModelError, match="needs an evaluation"):
        train(tiny_clip, tmp_path / "out", stopping=Stopping("toy_scenes/itm/accuracy"))
    with pytest.raises(UnknownNameError, match=r"score to stop on 'itm'; known: toy_scenes/itm/accuracy"):
        train(tiny_clip, tmp_path / "o", evaluation=Scripted(0.9), stopping=Stopping("itm"))
    assert not (tmp_path / "o" / "training" / "checkpoints").exists()


def test_the_command_trains_and_says_how_to_score(tiny_clip, labelled, tmp_path):
    out = tmp_path / "toy-hn"
    arguments = ["finetune", str(tiny_clip), "toy_scenes", "--out", str(out), "--recipe", "hn", "--limit", "20"]
    arguments += ["--set", "negatives=scene:swap", "--set", "epochs=1", "--set", "batch_size=10", "--no-evaluation"]
    result = invoke(*arguments, "--recognise", labelled)
    assert result.exit_code == 0, result.exception
    assert "recognition/accuracy" in result.output
    assert f"vl-assay run {out}" in result.output.replace("\n", " ")
    assert len(weights(out)) > 10
    twice = invoke(*arguments, "--set", "epochs=2")
    assert "epochs is given twice, as '1' and '2'" in str(twice.exception)
    assert "--evaluate and --no-evaluation" in str(invoke(*arguments, "--evaluate", "toy_scenes/itm").exception)
    again = invoke(*arguments, "--set", "seed=2", "--recognise", labelled)
    assert "holds a run with another recipe.seed" in str(again.exception)
    assert {stat.S_IMODE(file.stat().st_mode) for file in out.iterdir() if file.is_file()} == {0o644}
