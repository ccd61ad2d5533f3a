"""Results and reports: right numbers in every format, and everything needed to compute them again."""

import dataclasses
import json
import re
import sys

import pytest
from console import invoke
from PIL import Image
from report_support import write

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import PredictionsError, ScoresError, UnknownNameError
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.metrics.records.predictions import file_hash
from vl_assay.metrics.records.schema import MatchingRow as Row
from vl_assay.metrics.records.schema import VQARow
from vl_assay.metrics.results.compute import check_options, metric_inputs
from vl_assay.metrics.results.tables import to_markdown

MODEL = {"name": "some/model_1 & co", "family": "clip"}


def write_predictions_of(path, *rows, **model):
    return write(path, list(rows), "sugarcrepe", model="", about=MODEL | model)


def row(name, category, scores, image="i"):
    return Row(name, category, category, [image], [0], None if scores is None else [scores])


# swap_obj: right, wrong → 1/2; add_att: right, tie, right → 2/3, a tie in 1 of 3; one row without its image.
ROWS = [
    row("a", "swap_obj", [0.9, 0.1], "x"),
    row("b", "swap_obj", [0.1, 0.9], "y"),
    row("c", "add_att", [0.9, 0.1], "x"),
    row("d", "add_att", [0.5, 0.5], "y"),
    row("f", "add_att", [0.7, 0.2], "z"),
    row("e", "add_att", None, ""),
]


@pytest.fixture
def predictions(tmp_path):
    return write_predictions_of(tmp_path / "sugarcrepe.itm.parquet", *ROWS)


def test_a_task_whose_images_are_all_missing_is_named_and_the_others_are_reported(predictions, tmp_path):
    gone = write_predictions_of(tmp_path / "gone.parquet", *(row(name, "swap_obj", None, "") for name in "ab"))
    sentence = "all of its 2 examples lack their image"
    found = report([gone, predictions], resamples=100)
    assert [result.scores["n"] for result in found] == [5]
    assert found.notes == [f"{gone} holds no scores: {sentence}"]
    found.write(tmp_path / "out", figures=["html"])
    assert sentence in (tmp_path / "out" / "report.md").read_text()
    assert sentence in (tmp_path / "out" / "profile.html").read_text()
    assert found.per_example()["why"].tolist().count("missing image") == 3
    printed = invoke("report", str(gone), str(predictions))
    assert printed.exit_code == 0
    assert sentence in " ".join(printed.output.split())
    with pytest.raises(PredictionsError, match=sentence):
        report([gone])


def test_results_name_the_file_the_metric_and_the_options_that_give_them_again(predictions, tmp_path):
    [result] = report([predictions], resamples=500)
    assert result.predictions["sha256"] == file_hash(predictions)
    [recomputed] = report([tmp_path / result.predictions["file"]], **result.options)
    assert recomputed == result


def test_a_report_has_the_same_numbers_in_every_format(predictions, tmp_path):
    folder = tmp_path / "report"
    files = report([predictions]).write(folder)
    assert [file.name for file in files] == ["results.json", "report.md", "report.tex", "profile.png", "profile.html"]
    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in files)
    markdown, latex = (folder / name for name in ("report.md", "report.tex"))
    assert "| add_att | 66.7 % | " in markdown.read_text()
    assert "| 33.3 % | 3 |" in markdown.read_text()
    assert r"some/model\_1 \& co & 50.0 & 66.7 & 60.0 & 58.3 \\" in latex.read_text()
    assert "1 of 6 examples lack their image and are in no score" in markdown.read_text()
    with Image.open(folder / "profile.png") as image:
        assert min(image.size) > 300
    page = (folder / "profile.html").read_text()
    assert "swap_obj" in page
    assert not re.search(r"<script|http", page)
    document = json.loads((folder / "results.json").read_text())
    assert (document["schema"], document["version"]) == ("vl-assay/results", 4)


def test_without_the_plots_libraries_plots_of_an_earlier_report_go(predictions, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    folder = tmp_path / "report"
    folder.mkdir()
    for name in ("profile.pdf", "profile.png", "notes.txt"):
        (folder / name).write_text("")
    files = report([predictions], resamples=100).write(folder)
    assert [file.name for file in files] == ["results.json", "report.md", "report.tex", "profile.html"]
    assert {file.name for file in folder.iterdir()} == {file.name for file in files} | {"notes.txt"}


def test_options_that_no_metric_knows_are_refused(predictions):
    with pytest.raises(UnknownNameError, match="unknown tie policy 'maybe'; known: wrong, half, right"):
        report([predictions], ties="maybe")
    check_options(ties="coco")
    with pytest.raises(ScoresError, match="confidence"):
        report([predictions], confidence=95)
    with pytest.raises(UnknownNameError, match="unknown option of evaluation 'resample'; known: ties, confidence"):
        report([predictions], resample=5)


def test_an_answer_between_yes_and_no_is_wrong_whatever_is_right():
    rows = [
        VQARow(f"{score}{correct}", "c", "c", ["i"], "is it?", correct, score)
        for score in (-0.5, 0.0, 0.5)
        for correct in (True, False)
    ]
    (said, right), _ = metric_inputs(rows, get_spec("yes_no_f1"), "yes_no_f1")
    assert right == [True, False] * 3
    assert said == [False, False, False, True, True, True]


def test_a_score_that_is_not_there_stays_empty_in_the_tables(predictions, tmp_path):
    found = report([predictions], resamples=100)
    scores = {**found[0].scores, "macro_accuracy": None, "macro_accuracy_interval": None}
    scores["per_category"] = {name: {**part, "tie_rate": None} for name, part in scores["per_category"].items()}
    without = dataclasses.replace(found, results=[dataclasses.replace(found[0], scores=scores)])
    assert "| macro average |  |  |  | 5 |" in to_markdown(without.results)
    without.write(tmp_path / "report")
    page = (tmp_path / "report" / "profile.html").read_text()
    [macro] = re.findall(r"<b>macro average</b>(.*?)</div></div>", page)
    assert ('class="bar"' in macro, "<span>–</span>" in macro) == (False, True)
