"""Evaluation of predictions through the metrics that they declare, with a tie policy for each metric."""

import numpy as np
import pytest
from report_support import matching, write

from vl_assay import hub_datasets
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, VQARow
from vl_assay.metrics.results.compute import compute
from vl_assay.metrics.results.report import report

BOX, AWAY = [10.0, 10.0, 30.0, 30.0], [50.0, 50.0, 60.0, 60.0]
PHRASE = {"text": "a", "start": 0, "end": 1}


def tied_boxes():
    """A phrase whose best two boxes, a right and a wrong one, share their score; and its distractor, with none."""
    common = {"config": "detection", "category": "x", "pair": "p", "phrases": [PHRASE]}
    first = DetectionRow(
        "0", images=["i"], positive=True, truth=[[BOX]], boxes=[[BOX, AWAY]], scores=[[0.5, 0.5]], **common
    )
    second = DetectionRow("1", images=["j"], positive=False, truth=[[]], boxes=[[]], scores=[[]], **common)
    return [first, second]


DETECTION = {"cpd_ap": {}, "grounding_recall": {"ks": [1]}, "group_recall_at_1": {}}


def test_predictions_are_evaluated_by_the_metrics_that_they_declare(tmp_path):
    rows = matching([[2, 1], [1, 2], [1, 1]], ("on", "next to"))
    path = write(tmp_path / "a.parquet", rows, metrics={"aro_itm": {"task": "relation"}})
    [result] = compute(path)
    assert (result.metric, result.scores["n"], result.left_out) == ("aro_itm", 2, {"symmetric relation": 1})
    assert result.higher_is_better == {"accuracy": True}
    # What the benchmark declares today does not matter to a file that says it itself.
    assert [each.metric for each in hub_datasets.report(path)] == ["aro_itm"]


@pytest.mark.parametrize("declared", [{}, {"brittle": {}}, {"aro_itm": 3}])
def test_declared_metrics_that_are_none_are_refused(tmp_path, declared):
    path = write(tmp_path / "a.parquet", matching([[2, 1]]), metrics=declared)
    with pytest.raises(PredictionsError, match=r"name no metrics|does not exist or has no settings; known: .*aro_itm"):
        compute(path)


@pytest.mark.parametrize(
    ("ties", "policies", "recall"),
    [
        (None, ["wrong", "wrong", "wrong"], 0),
        ("right", ["wrong", "right", "right"], 1),
        ("half", ["wrong", "half", "half"], 1 / 2),
        ("coco", ["coco", "wrong", "wrong"], 0),
    ],
)
def test_each_metric_takes_the_tie_policies_that_it_knows(tmp_path, ties, policies, recall):
    path = write(tmp_path / "a.parquet", tied_boxes(), metrics=DETECTION, task="detection")
    results = compute(path, ties=ties, resamples=100)
    assert [result.options["ties"] for result in results] == policies
    ap, grounding, group = (result.scores for result in results)
    assert (grounding["recall_at_1"], group["recall_at_1"]) == (recall, recall)
    assert ap["ap"] == (1 if ties == "coco" else 1 / 2)  # in the file's order the right box comes first


def test_a_report_gives_each_example_with_what_it_contributes(tmp_path):
    rows = matching([[2, 1], [1, 1], [1, 2]], ("on", "on", "next to"))
    lacking = MatchingRow("3", "itm", "on", [""], [0], None)
    path = write(tmp_path / "a.parquet", [*rows, lacking], metrics={"aro_itm": {"task": "relation"}})
    frame = report(path).per_example().set_index("id")
    assert frame["accuracy"].tolist()[:2] == [1, 0]
    assert np.isnan(frame["accuracy"].tolist()[2:]).all()
    assert frame["tied"].tolist()[:2] == [False, True]
    assert frame["counts"].tolist() == [True, True, False, False]
    assert frame["why"].tolist() == ["", "", "symmetric relation", "missing image"]


def test_boxes_and_answers_have_examples_of_their_own(tmp_path):
    path = write(tmp_path / "a.parquet", tied_boxes(), metrics=DETECTION, task="detection")
    frame = report(path, resamples=100).per_example("group_recall_at_1")
    assert frame[["id", "example", "recall_at_1", "tied"]].values.tolist() == [["0", "phrase 0", 0.0, True]]
    rows = [VQARow(str(n), "vqa", "x", [f"i{n}"], "?", n % 2 == 0, 1.0) for n in range(4)]
    path = write(tmp_path / "b.parquet", rows, metrics={"yes_no_f1": {}}, task="vqa")
    assert report(path).per_example()["accuracy"].tolist() == [1, 0, 1, 0]


def test_tags_have_scores_of_their_own_and_are_in_no_macro_average(tmp_path):
    right, wrong = [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
    rows = [
        MatchingRow(str(n), "c", category, [f"i{n}", f"j{n}"], [0, 1], scores, tags=tags)
        for n, (category, scores, tags) in enumerate([("a", right, ["t"]), ("a", right, []), ("b", wrong, ["t", "a"])])
    ]
    [result] = report([write(tmp_path / "p.parquet", rows, task="groups", metrics={"group_match": {}})])
    scores = {name: part["group_score"] for name, part in result.scores["per_category"].items()}
    assert scores == {"a": 2 / 3, "t": 1 / 2, "b": 0}
    # A tag that is a category's name counts as that category.
    assert result.scores["macro_group_score"] == pytest.approx((2 / 3 + 0) / 2)
    assert dict(result.rare) == {"t": "tags"}
