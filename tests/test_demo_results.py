"""The figures that the README and the cards of the demo models print are those of a run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from console import blocks, invoke

from vl_assay.hub_datasets import report
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.records.results import read_results
from vl_assay.model_wrappers import predict
from vl_assay.space_app.board.launch import RESULTS, shipped_results

ROOT = Path(__file__).parents[1]


def shipped(task):
    """The path of the predictions of demo-clip on a part of toy_scenes, which ship with the leaderboard."""
    return RESULTS.with_name(f"demo-clip.toy_scenes.{task}.parquet")


@pytest.fixture(scope="module")
def demo_report():
    """The report on what `vl-assay run` predicts."""
    return report([shipped(task) for task in ("itm", "hard_positives", "order", "groups")])


def test_demo_clip_gives_the_scores_that_ship(tmp_path):
    [file] = predict("demo-clip", "toy_scenes/order", out=tmp_path, limit=40, cache=False, progress=False)
    ours, theirs = read_predictions(file).rows, read_predictions(shipped("order")).rows[:40]
    assert [row.id for row in ours] == [row.id for row in theirs]
    np.testing.assert_allclose([row.scores for row in ours], [row.scores for row in theirs], atol=4e-6)


@pytest.mark.slow
def test_the_output_in_the_readme_is_that_of_a_run(tmp_path):
    result = invoke("run", folder=tmp_path)
    assert result.exit_code == 0
    assert in_readme() in " ".join(result.output.split())


def in_readme():
    [shown] = [block for block in blocks(ROOT / "README.md", "text") if "demo-clip" in block]
    return " ".join(shown.split())


def test_the_scores_in_the_readme_are_those_of_the_shipped_predictions(demo_report):
    results = {(result.benchmark["task"], name): result for result in demo_report for name in result.table_scores}
    rows = re.findall(r"│ (\w+) │ ([\w ]+?)(?: ↓)? │ ([\d.]+) % │ ([\d.]+) – ([\d.]+) │", in_readme())
    assert len(rows) == 5
    for task, score, *numbers in rows:
        name = score.replace(" ", "_")
        scores = results[task, name].scores
        expected = [100 * value for value in (scores[name], *scores[f"{name}_interval"])]
        assert numbers == [f"{value:.1f}" for value in expected]


def without_blind(markdown):
    """The rows of the tables of a document without the columns of blind levels, which a run measures anew."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    rows, kept = [], []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        cells = line.split("|")
        if below.startswith("|---"):  # the headings of a table
            kept = [index for index, cell in enumerate(cells) if cell.strip() != "blind"]
        rows.append([cells[index] for index in kept])
    return rows


def test_the_profile_on_the_demo_card_is_the_one_that_the_report_writes(demo_report):
    card = (ROOT / "model_wrappers" / "demo_clip" / "README.md").read_text(encoding="utf-8")
    shown = card.split("<!-- profile -->")[1].split("<!-- /profile -->")[0]
    details = demo_report.to_markdown().partition("### demo-clip on")[2]  # below the tables with models as rows
    assert without_blind(shown) == without_blind(details)


DETECTOR_SCORES = {
    "grounding recall@1": ("grounding_recall", "recall_at_1"),
    "grounding recall@5": ("grounding_recall", "recall_at_5"),
    "grounding recall@10": ("grounding_recall", "recall_at_10"),
    "group recall@1": ("group_recall_at_1", "recall_at_1"),
    "CPD AP": ("cpd_ap", "ap"),
    "CPD AP on positive rows alone": ("cpd_ap", "ap_positives"),
}


def detector_card():
    """The score and its interval, in percent, by the names on the detector's card."""
    card = (ROOT / "model_wrappers" / "demo_owlvit" / "README.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| ([\w@ ]+) \| (\d.*) \|$", card, flags=re.M))
    assert list(shown) == list(DETECTOR_SCORES)
    return {name: [float(number) for number in re.findall(r"[\d.]+", text)] for name, text in shown.items()}


def detector_scores(results):
    """The same of results."""
    scores = {result.metric: result.scores for result in results}
    return {
        name: [100 * value for value in (scores[metric][score], *scores[metric][f"{score}_interval"])]
        for name, (metric, score) in DETECTOR_SCORES.items()
    }


@pytest.mark.slow
def test_the_scores_on_the_detectors_card_are_those_of_its_run(tmp_path):
    assert invoke("run", "demo-owlvit", folder=tmp_path).exit_code == 0
    results = read_results(tmp_path / "vl-assay-results" / "demo-owlvit" / "results.json")
    found = detector_scores(results)
    assert detector_card() == {name: [float(f"{value:.1f}") for value in values] for name, values in found.items()}


def test_the_scores_on_the_detectors_card_are_those_of_its_shipped_predictions():
    found = detector_scores(result for result in shipped_results() if "owlvit" in result.model["name"])
    for name, shown in detector_card().items():
        # The shipped predictions have ten boxes for each phrase, which moves the average precision a little.
        assert shown == pytest.approx(found[name], abs=0.15 if "AP" in name else 0.051), name
