"""The figures that the README and the cards of the demo models print are those of a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from console import blocks, invoke

from vl_assay.metrics.records.results import read_results
from vl_assay.space_app.board.launch import shipped_results

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def demo_output(tmp_path_factory):
    """What `vl-assay run` prints, and the folder where it ran."""
    folder = tmp_path_factory.mktemp("demo")
    result = invoke("run", folder=folder)
    assert result.exit_code == 0
    return result.output, folder


def test_the_output_in_the_readme_is_the_real_one(demo_output):
    output, _ = demo_output
    [shown] = [block for block in blocks(ROOT / "README.md", "text") if "demo-clip" in block]
    assert " ".join(shown.split()) in " ".join(output.split())


def test_the_first_screen_is_short_and_ends_with_the_next_commands(demo_output):
    lines = demo_output[0].partition("evaluating\n")[2].splitlines()
    assert len(lines) <= 40
    assert any(line.startswith("all tables: vl-assay report ") for line in lines)
    assert any(line.startswith("its errors: vl-assay errors ") for line in lines)


def test_the_profile_on_the_demo_card_is_the_one_that_the_report_writes(demo_output):
    card = (ROOT / "model_wrappers" / "demo_clip" / "README.md").read_text(encoding="utf-8")
    shown = card.split("<!-- profile -->")[1].split("<!-- /profile -->")[0]
    written = (demo_output[1] / "vl-assay-results" / "demo-clip" / "report.md").read_text(encoding="utf-8")
    details = written.partition("### demo-clip on")[2]  # below the tables with models as rows
    table = [line for line in details.splitlines() if line.startswith("|")]
    assert [line for line in shown.splitlines() if line.startswith("|")] == table


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
    """The same of results, and the scores by metric."""
    scores = {result.metric: result.scores for result in results}
    names = {name: (scores[metric], score) for name, (metric, score) in DETECTOR_SCORES.items()}
    return {
        name: [100 * value for value in (each[score], *each[f"{score}_interval"])]
        for name, (each, score) in names.items()
    }, scores


@pytest.mark.slow
def test_the_scores_on_the_detectors_card_are_those_of_its_run(tmp_path):
    assert invoke("run", "demo-owlvit", folder=tmp_path).exit_code == 0
    results = read_results(tmp_path / "vl-assay-results" / "demo-owlvit" / "results.json")
    found, _ = detector_scores(results)
    assert detector_card() == {name: [float(f"{value:.1f}") for value in values] for name, values in found.items()}


def test_the_scores_on_the_detectors_card_are_those_of_its_shipped_predictions():
    found, scores = detector_scores(result for result in shipped_results() if "owlvit" in result.model["name"])
    for name, shown in detector_card().items():
        # The shipped predictions have ten boxes for each phrase, which moves the average precision a little.
        assert shown == pytest.approx(found[name], abs=0.15 if "AP" in name else 0.051), name
    # What the demo is there to show: it finds the phrases, and does not read the captions.
    assert scores["grounding_recall"]["recall_at_1"] >= 0.7
    assert scores["cpd_ap"]["ap"] < scores["grounding_recall"]["recall_at_1"] - 0.2


def test_the_demo_profile_is_as_promised(demo_output):
    from vl_assay.hub_datasets import report

    [result] = report([demo_output[1] / "vl-assay-results" / "demo-clip" / "toy_scenes.itm.parquet"])
    accuracy = {name: scores["accuracy"] for name, scores in result.scores["per_category"].items()}
    assert accuracy["replace_obj"] >= 0.9
    assert accuracy["replace_att"] >= 0.9
    assert sum(value <= 0.75 for name, value in accuracy.items() if name not in ("replace_obj", "replace_att")) >= 2
