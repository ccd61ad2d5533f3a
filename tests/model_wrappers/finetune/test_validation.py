"""Validation during training on benchmarks, the model card, and the command."""

import re
import stat

import pytest
import yaml
from console import invoke
from finetune_support import read_log, train, weights

from vl_assay.hub_datasets import report
from vl_assay.model_wrappers import load_model, predict
from vl_assay.model_wrappers.finetune.train.validation import Evaluation

ACCURACY = "sugarcrepe/add_att/accuracy"


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """The benchmark's options with a small stand-in for SugarCrepe's sources."""
    from sources_sugarcrepe import make_sugarcrepe

    sources = make_sugarcrepe(tmp_path_factory.mktemp("sources") / "coco", 24, 8)
    return {"data_dir": sources, "options": {"verify": False}}


@pytest.fixture(scope="module")
def evaluated(tiny_clip, options, tmp_path_factory):
    """A run with an evaluation."""
    out = tmp_path_factory.mktemp("evaluated") / "out"
    return train(tiny_clip, out, evaluation=Evaluation(("sugarcrepe/add_att",), **options))


def run(model, options, out):
    """The result of a run of the benchmark."""
    [result] = report(predict(str(model), ["sugarcrepe/add_att"], out=out, progress=False, **options))
    return result


def test_each_epoch_is_measured_and_the_model_before(evaluated, tiny_clip, options, tmp_path):
    history = evaluated.history
    assert [entry["epoch"] for entry in history] == [0, 1, 2]
    assert [entry["step"] for entry in history] == [0, 3, 6]
    assert all({*entry["scores"]} == {ACCURACY} for entry in history)
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
    assert f": accuracy {row} % [" in card, "a sentence with the score"
    [way] = re.findall(rf"^\| {ACCURACY} \| (.*) \|$", card, flags=re.M)
    assert way.split(" | ") == [f"{100 * entry['scores'][ACCURACY]:.1f} %" for entry in evaluated.history]
    assert "Hard Positives (Kamath et al., 2024)" in card
    assert "| learning rate | 0.001 |" in card
    assert load_model(str(evaluated.folder)).info.revision == result.model["revision"]


def test_the_command_trains_and_says_how_to_score(tiny_clip, tmp_path):
    out = tmp_path / "toy-hn"
    arguments = ["finetune", str(tiny_clip), "toy_scenes", "--out", str(out), "--recipe", "hn", "--limit", "20"]
    arguments += ["--set", "negatives=scene:swap", "--set", "epochs=1", "--set", "batch_size=10", "--no-evaluation"]
    (tmp_path / "config.yaml").write_text("save_steps: 1\ntracker: [tensorboard]\n")
    result = invoke(*arguments, "--config", tmp_path / "config.yaml")
    assert result.exit_code == 0, result.exception
    assert f"vl-assay run {out}" in result.output.replace("\n", " ")
    card = (out / "README.md").read_text("utf-8")
    assert all(text in card for text in ("| precision | float32 |", "| warmup steps | 1 |", "; read with `limit` 20"))
    assert list((out / "training").rglob("events.out.tfevents.*"))
    assert len(weights(out)) > 10
    assert {stat.S_IMODE(file.stat().st_mode) for file in out.iterdir() if file.is_file()} == {0o644}
    twice = invoke(*arguments, "--set", "epochs=2")
    assert "epochs is given twice, as '1' and '2'" in str(twice.exception)
    assert "--evaluate and --no-evaluation" in str(invoke(*arguments, "--evaluate", "toy_scenes/itm").exception)
    assert "holds a run with another recipe.seed" in str(invoke(*arguments, "--set", "seed=2").exception)
