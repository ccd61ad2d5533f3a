"""Sweeps: the best model on validation data is kept, test splits cannot decide, and interrupted sweeps resume."""

from __future__ import annotations

import json

import pytest
import sources_retrieval
from console import invoke
from finetune_support import make_labelled, make_training_set, same_bits, short, stop_at, weights

from vl_assay.metrics.common.errors import DataError, TrainingError, UnknownNameError, VLAssayError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.finetune.train.sweep import VALIDATION, sweep
from vl_assay.model_wrappers.finetune.train.training import Evaluation, Stopping, TrainingConfig
from vl_assay.model_wrappers.finetune.train.validation import RECOGNITION

RECALLS = [f"{VALIDATION}/{side}_recall_at_1" for side in ("text", "image")]
RATES = {"learning_rate": ["1e-6", "1e-2"]}


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("karpathy")
    return Evaluation((VALIDATION,), data_dir=folder, options=sources_retrieval.make(folder))


@pytest.fixture
def squares(tmp_path):
    """A table of captions of plain colours, and a folder of images by label."""
    images = sorted(make_labelled(tmp_path / "labelled").glob("*/*.png"))
    rows = ["caption,image", *(f"a {file.parent.name} square,{file.relative_to(tmp_path)}" for file in images)]
    (tmp_path / "squares.csv").write_text("\n".join(rows))
    return tmp_path


def run(model, out, evaluation, values=RATES, **options):
    config = {name: options.pop(name) for name in ("on_step", "precision", "stopping") if name in options}
    config = TrainingConfig(evaluation=evaluation, save_steps=1, **config)
    training_set = make_training_set(16)
    recipe = short("coco", epochs=1, warmup_steps=options.pop("warmup_steps", 1))
    return sweep(str(model), training_set, out, recipe, values, config=config, progress=False, **options)


def test_the_best_by_retrieval_on_validation_is_kept_and_an_interrupted_sweep_resumes(tiny_clip, evaluation, tmp_path):
    whole = run(tiny_clip, tmp_path / "whole", evaluation)
    rates = RATES["learning_rate"]
    assert [row["values"]["learning_rate"] for row in whole.rows] == rates
    for row in whole.rows:
        assert list(row["scores"]) == RECALLS
        assert row["mean"] == pytest.approx((row["scores"][RECALLS[0]] + row["scores"][RECALLS[1]]) / 2)
    best = max(range(2), key=lambda number: whole.rows[number]["mean"])
    assert whole.folder == tmp_path / "whole" / f"learning_rate={rates[best]}"
    load_model(str(whole.folder))
    kept = [folder.name for folder in (tmp_path / "whole").glob("*") if (folder / "model.safetensors").exists()]
    assert kept == [whole.folder.name]
    assert len(list((tmp_path / "whole").glob("*/training/log.jsonl"))) == 2
    shown = (tmp_path / "whole" / "sweep.md").read_text("utf-8")
    assert f"learning_rate={rates[best]} *" in shown

    def stop(step, values):  # in the second run, whose rate is 1e-2
        if values["learning_rate"] > 1e-3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny_clip, tmp_path / "stopped", evaluation, on_step=stop)
    assert not (tmp_path / "stopped" / "sweep.json").exists()
    resumed = run(tiny_clip, tmp_path / "stopped", evaluation)
    assert resumed.rows == whole.rows
    assert same_bits(weights(resumed.folder), weights(whole.folder))
    # A finished sweep is not trained again, and another one does not take its folder.
    again = run(tiny_clip, tmp_path / "whole", evaluation, on_step=stop_at(1))
    assert (again.folder, again.rows, again.outcome) == (whole.folder, whole.rows, None)
    with pytest.raises(DataError, match="holds a sweep with another values"):
        run(tiny_clip, tmp_path / "whole", evaluation, {"learning_rate": ["1e-6", "1e-5"]})
    with pytest.raises(DataError, match="holds a sweep with another source"):
        run(tiny_clip, tmp_path / "whole", evaluation, limit=8)
    with pytest.raises(DataError, match="holds a sweep with another precision"):
        run(tiny_clip, tmp_path / "whole", evaluation, precision="bfloat16")


def test_a_score_that_is_nan_cannot_win(tiny_clip, tmp_path):
    class First(Evaluation):
        def measure(self, model, out, processes, **settings):
            return {RECOGNITION: float("nan") if "1e-6" in str(out) else 0.5}, []

    found = run(tiny_clip, tmp_path, First(recognise="squares"), select=[RECOGNITION])
    assert found.folder.name == "learning_rate=1e-2"


def test_a_run_that_diverges_is_named_and_cannot_win(tiny_clip, evaluation, tmp_path):
    found = run(tiny_clip, tmp_path / "out", evaluation, {"learning_rate": ["1e30", "1e-4"]}, warmup_steps=0)
    assert found.rows[0]["scores"] is None
    assert "is nan" in found.rows[0]["problem"]
    assert found.folder.name == "learning_rate=1e-4"
    assert "not finite" in (tmp_path / "out" / "sweep.md").read_text("utf-8")
    with pytest.raises(TrainingError, match="no run of the sweep came to its end"):
        run(tiny_clip, tmp_path / "none", evaluation, {"learning_rate": ["1e30", "1e31"]}, warmup_steps=0)


@pytest.mark.parametrize(
    ("benchmarks", "select", "message"),
    [
        (("toy_scenes/itm",), (), r"evaluate on retrieval/coco_validation, or name the scores"),
        (("toy_scenes/itm",), ("toy_scenes/itm/accuracy",), "is of the test split, on which models are compared"),
        (("retrieval/coco",), ("retrieval/coco/text_recall_at_1",), "is of the test split"),
        ((VALIDATION,), ("recognition/accuracy",), "is not measured; name labelled images with --recognise"),
    ],
)
def test_models_are_chosen_on_validation_data_alone(benchmarks, select, message, tmp_path):
    with pytest.raises(VLAssayError, match=message):
        run("demo-clip", tmp_path / "out", Evaluation(benchmarks), select=select)
    assert not (tmp_path / "out").exists()


def test_early_stopping_in_a_sweep_uses_no_test_split_either(tmp_path):
    evaluation = Evaluation((VALIDATION, "toy_scenes/itm"))
    with pytest.raises(VLAssayError, match="toy_scenes/itm/accuracy is of the test split"):
        run("demo-clip", tmp_path / "out", evaluation, stopping=Stopping("toy_scenes/itm/accuracy"))


def test_sweeps_that_make_no_sense_are_refused_before_anything_is_loaded(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown benchmark to select by 'tricd'"):
        run("demo-clip", tmp_path, Evaluation((VALIDATION,)), select=["tricd/cpd/ap"])
    with pytest.raises(UnknownNameError, match="unknown score of retrieval/coco_validation 'recall'"):
        run("demo-clip", tmp_path, Evaluation((VALIDATION,)), select=[f"{VALIDATION}/recall"])
    with pytest.raises(VLAssayError, match="needs two values or more"):
        run("demo-clip", tmp_path, Evaluation((VALIDATION,)), {"learning_rate": ["1e-5"]})
    with pytest.raises(UnknownNameError, match="unknown setting of a recipe 'rate'"):
        run("demo-clip", tmp_path, Evaluation((VALIDATION,)), {"rate": ["1", "2"]})


def test_the_command_prints_the_scores_of_all_runs_and_names_the_best(tiny_clip, squares):
    arguments = [str(tiny_clip), str(squares / "squares.csv"), "--out", str(squares / "out"), "--recipe", "coco"]
    arguments += [
        "--set",
        "epochs=1",
        "--set",
        "batch_size=8",
        "--sweep",
        "learning_rate=1e-3, 1e-4",
        "--no-evaluation",
    ]
    result = invoke(
        "finetune", *arguments, "--recognise", str(squares / "labelled"), "--select", "recognition/accuracy"
    )
    assert result.exit_code == 0, result.output
    document = json.loads((squares / "out" / "sweep.json").read_text())
    assert document["best"] in result.output.replace("\n", "")
    assert [row["values"] for row in document["rows"]] == [{"learning_rate": "1e-3"}, {"learning_rate": "1e-4"}]
    assert invoke("finetune", *arguments).exit_code != 0  # without --select nothing decides
    result = invoke("finetune", *arguments[:6], "--select", "recognition/accuracy")
    assert "--select is for --sweep" in str(result.exception)
