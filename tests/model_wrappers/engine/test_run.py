"""`run` in Python: an object to look into, a folder that grows, and seeds of the data."""

from __future__ import annotations

import json

import pytest

from vl_assay.hub_datasets import Example, TaskData, get_benchmark
from vl_assay.hub_datasets.core.blind import blind_levels
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict, run

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that has grown: answers first, then groups."""
    out = tmp_path_factory.mktemp("grown")
    for task in ("vqa", "groups"):
        run("mock:bag-of-words", f"toy_scenes/{task}", out=out, **QUIET)
    return out


def test_a_second_run_into_a_folder_keeps_what_is_there_and_reports_all_of_it(folder):
    files = ["toy_scenes.groups.parquet", "toy_scenes.vqa.parquet"]
    assert sorted(path.name for path in folder.glob("*.parquet")) == files
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))["results"]
    assert sorted({result["predictions"]["file"] for result in results}) == files
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "toy_scenes (vqa)" in markdown
    assert "toy_scenes (groups)" in markdown
    (folder / "other.parquet").write_bytes(b"")  # what is no file of predictions is told of, not passed over
    with pytest.raises(Exception, match=r"other\.parquet is not a readable Parquet file"):
        run("mock:bag-of-words", "toy_scenes/vqa", out=folder, **QUIET)
    (folder / "other.parquet").unlink()


def test_what_run_returns_can_be_looked_into(folder):
    report = run("mock:bag-of-words", "toy_scenes/vqa", out=folder, **QUIET)
    assert "mock:bag-of-words on toy_scenes (vqa): yes_no_f1" in repr(report)
    assert "<table" in report._repr_html_()
    assert {path.name for path in report.written} >= {"results.json", "report.md", "report.tex"}
    assert all(path.exists() for path in report.written)
    examples = report.per_example("yes_no_f1")
    assert examples["accuracy"].mean() == pytest.approx(report[0].scores["accuracy"])
    assert all(len(captions) == 1 and captions[0] for captions in examples["captions"])


def test_predictions_say_how_they_are_to_be_evaluated_and_what_is_reached_without_seeing(folder):
    described = read_predictions(folder / "toy_scenes.vqa.parquet").metadata
    assert described["benchmark"]["metrics"] == {"yes_no_f1": {}}
    assert described["benchmark"]["options"] == {"seed": 0, "train_scenes": 0}
    # Always yes, on as many questions of each kind: F1 of yes 2/3, of no 0.
    assert described["benchmark"]["blind"]["yes_no_f1"]["macro_f1"] == pytest.approx(1 / 3)
    assert described["model"]["is_baseline"]


def test_seeds_have_files_of_their_own_and_a_mean_with_its_deviation(tmp_path):
    files = predict("mock:constant", "toy_scenes/vqa", out=tmp_path, seeds=[0, 1], **QUIET)
    assert [path.name for path in files] == ["toy_scenes.vqa.seed-0.parquet", "toy_scenes.vqa.seed-1.parquet"]
    assert [read_predictions(path).metadata["benchmark"]["options"]["seed"] for path in files] == [0, 1]
    assert len(files.to_pandas()) == sum(len(read_predictions(path).rows) for path in files)
    report = run("mock:constant", "toy_scenes/vqa", out=tmp_path, seeds=[0, 1], **QUIET)
    assert len(report) == 2
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "seed 0" in text
    assert "±" in text
    with pytest.raises(DataError, match="tricd has no seed to choose; give seeds for benchmarks that are drawn at ran"):
        predict("mock:constant", "tricd", out=tmp_path, seeds=[0], **QUIET)


def test_a_task_whose_score_is_undefined_without_images_has_no_blind_level():
    [task] = [task for task in get_benchmark("toy_scenes").tasks if task.name == "vqa"]
    examples = [Example(str(n), "vqa", "x", ("i",), ("Is it red?",), answer=True) for n in range(3)]
    assert blind_levels(TaskData("toy_scenes", task, task.configs, "test", examples=examples)) == {}
    examples += [Example(str(n), "vqa", "x", ("i",), ("Is it red?",), answer=False) for n in range(3, 6)]
    levels = blind_levels(TaskData("toy_scenes", task, task.configs, "test", examples=examples))
    assert levels["yes_no_f1"]["accuracy"] == 1 / 2
