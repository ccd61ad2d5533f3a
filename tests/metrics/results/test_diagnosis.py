"""The diagnosis of detectors: each condition against the metric on predictions that were changed by hand."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from intervals import expanded_tails
from report_support import HERE, detections, matching, write

from vl_assay.hub_datasets import get_benchmark, report
from vl_assay.metrics.records.schema import DetectionRow
from vl_assay.metrics.results.compute import examples_of
from vl_assay.metrics.results.diagnosis import diagnose

[METRICS] = [task.metrics for task in get_benchmark("toy_scenes").tasks if task.task_type == "detection"]
QUICK = {"resamples": 100}


@pytest.fixture
def rows():
    return detections(np.random.default_rng(0), 20)


def ap(rows):
    return float(examples_of(rows, "cpd_ap", METRICS["cpd_ap"]).estimator("ap")()[0])


def measures(diagnosis):
    return {measure.name: measure for measure in (*diagnosis.precision, *diagnosis.recall)}


def emptied(row):
    return dataclasses.replace(row, boxes=[[] for _ in row.phrases], scores=[[] for _ in row.phrases])


def test_removing_the_boxes_of_negative_rows_gives_the_ap_of_positive_rows(rows):
    found = measures(diagnose(rows, METRICS, **QUICK))
    assert found["as predicted"].value == pytest.approx(ap(rows))
    alone = ap([row for row in rows if row.positive])
    removed = ap([row if row.positive else emptied(row) for row in rows])
    assert found["positive rows alone"].value == pytest.approx(alone)
    assert found["no boxes on negative rows (oracle)"].value == pytest.approx(removed)
    assert alone == pytest.approx(removed)
    assert found["positive rows alone"].change == pytest.approx(alone - ap(rows))
    assert "no boxes of absent phrases (oracle)" not in found


def test_an_oracle_of_phrases_removes_boxes_on_positive_rows_too():
    rows = detections(np.random.default_rng(0), 20, absent=True)
    found = diagnose(rows, METRICS, **QUICK)
    kept = [
        dataclasses.replace(
            row,
            boxes=[boxes if truth else [] for boxes, truth in zip(row.boxes, row.truth, strict=True)],
            scores=[scores if truth else [] for scores, truth in zip(row.scores, row.truth, strict=True)],
        )
        for row in rows
    ]
    assert found.has_absent_phrases
    measure = measures(found)["no boxes of absent phrases (oracle)"]
    assert measure.value == pytest.approx(ap(kept))
    assert measure.value > measures(found)["positive rows alone"].value


def test_ranks_within_phrases_forget_the_level_of_each_phrase(rows):
    def ranked(row):
        pool = {
            number: [score for other in rows if other.pair == row.pair for score in other.scores[number]]
            for number in range(len(row.phrases))
        }
        scores = [
            [-1 - sum(other > score for other in pool[number]) for score in found]
            for number, found in enumerate(row.scores)
        ]
        return dataclasses.replace(row, scores=[list(map(float, found)) for found in scores])

    measure = measures(diagnose(rows, METRICS, **QUICK))["calibrated across phrases (ranks)"]
    assert measure.value == pytest.approx(ap([ranked(row) for row in rows]))
    # Levels that differ from phrase to phrase at random cost average precision, and ranks do not see them.
    rng = np.random.default_rng(1)
    levels = {row.pair: rng.normal(0, 5, 2) for row in rows}
    shifted = [
        dataclasses.replace(
            row,
            scores=[
                [score + level for score in found] for found, level in zip(row.scores, levels[row.pair], strict=True)
            ],
        )
        for row in rows
    ]
    found = measures(diagnose(shifted, METRICS, **QUICK))
    assert found["calibrated across phrases (ranks)"].value == pytest.approx(measure.value)
    assert found["as predicted"].value != pytest.approx(ap(rows))


def test_recall_of_the_top_box_is_that_of_the_metrics(rows, tmp_path):
    path = write(tmp_path / "s.parquet", rows, task="detection")
    found = report(path)
    scores = {result.metric: result.scores for result in found}
    alone, pooled = found.diagnoses["a on toy_scenes (detection)"].recall
    assert alone.value == scores["grounding_recall"]["recall_at_1"]
    assert pooled.value == scores["group_recall_at_1"]["recall_at_1"]
    assert alone.interval == pytest.approx(scores["grounding_recall"]["recall_at_1_interval"])
    assert pooled.interval == pytest.approx(scores["group_recall_at_1"]["recall_at_1_interval"])
    assert pooled.change == pytest.approx(pooled.value - alone.value)


def test_the_curve_counts_negative_rows_more_or_less_often(rows):
    found = diagnose(rows, METRICS, **QUICK)
    curve = {point.negatives_per_positive: point.value for point in found.curve}
    assert list(curve) == [0, 0.25, 0.5, 1, 2, 4]
    again = [dataclasses.replace(row, id=f"{row.id}+") for row in rows if not row.positive]
    assert curve[0] == pytest.approx(ap([row for row in rows if row.positive]))
    assert curve[1] == pytest.approx(ap(rows))
    assert curve[2] == pytest.approx(ap([*rows, *again]))
    assert sorted(curve.values(), reverse=True) == list(curve.values())


def test_intervals_and_changes_are_those_of_resampling_whole_pairs(rows):
    found = measures(diagnose(rows, METRICS, **QUICK))
    pairs = sorted(range(20), key=str)  # clusters are drawn in the order of their names
    generator, drawn = np.random.default_rng(0), []
    for _ in range(QUICK["resamples"]):
        numbers = [pairs[place] for place in generator.integers(20, size=20)]
        chosen = [row for pair in numbers for row in (rows[2 * pair], rows[2 * pair + 1])]
        drawn.append((ap(chosen), ap([row for row in chosen if row.positive])))
    every, alone = np.array(drawn).T
    bounds = expanded_tails([2] * 20, 0.95)
    assert found["as predicted"].interval == pytest.approx(np.quantile(every, bounds))
    assert found["positive rows alone"].change_interval == pytest.approx(np.quantile(alone - every, bounds))


def test_a_detector_that_ignores_captions_loses_within_phrases_and_not_across_them():
    phrases = [{"text": "a", "start": 0, "end": 1}]
    rows = [
        DetectionRow(
            f"{pair}{positive}", "d", "d", [f"{pair}{positive}"], positive, str(pair), phrases,
            [[HERE] if positive else []], [[HERE]], [[0.9 if positive or pair % 2 else 0.95]], cluster=str(pair),
        )
        for pair in range(20)
        for positive in (True, False)
    ]  # fmt: skip
    found = measures(diagnose(rows, METRICS, **QUICK))
    assert found["positive rows alone"].value == 1
    assert found["Recall@1, image alone"].value == 1
    # In every second pair the distractor's box is the most confident one, in the others both tie.
    assert found["Group-Recall@1, with its distractors"].value == 0


def test_without_negatives_or_such_a_metric_there_is_no_diagnosis(rows, tmp_path):
    assert diagnose([row for row in rows if row.positive], METRICS) is None
    recall = {name: settings for name, settings in METRICS.items() if name != "cpd_ap"}
    assert diagnose(rows, recall) is None
    only = diagnose(rows, {"cpd_ap": METRICS["cpd_ap"]}, **QUICK)
    assert only.recall == []
    path = write(tmp_path / "s.parquet", matching([[1, 0]] * 4))
    found = report(path, resamples=100)
    assert found.diagnoses == {}
    assert "diagnosis.json" not in [file.name for file in found.write(tmp_path / "report")]


def test_a_report_shows_and_writes_the_diagnosis_of_each_detector(rows, tmp_path, capsys):
    other = detections(np.random.default_rng(1), 20)
    paths = [
        write(tmp_path / f"{model}.parquet", each, task="detection", model=model)
        for model, each in (("a", rows), ("b", other))
    ]
    found = report(paths, resamples=100)
    names = [file.name for file in found.write(tmp_path / "report")]
    assert {"diagnosis.json", "diagnosis.png"} <= set(names)
    document = json.loads((tmp_path / "report" / "diagnosis.json").read_text())
    about = ["a on toy_scenes (detection)", "b on toy_scenes (detection)"]
    assert [each["about"] for each in document["diagnosis"]] == about
    text = (tmp_path / "report" / "report.md").read_text()
    value = found.diagnoses[about[0]].precision[0].value
    assert "### a on toy_scenes (detection): diagnosis of ap" in text
    assert re.search(rf"\| as predicted \| {100 * value:.1f} % \|", text)
    found.print()
    assert "negative rows for each positive row" in capsys.readouterr().out
    [axes] = found.diagnoses[about[0]].plot().axes
    assert axes.lines[0].get_xdata().tolist() == [0, 0.25, 0.5, 1, 2, 4]


def test_without_confidence_there_are_no_intervals(rows):
    found = diagnose(rows, METRICS, confidence=None)
    assert all(measure.interval is None for measure in measures(found).values())
    assert all(point.interval is None for point in found.curve)
