"""predictions: rows of every kind come back from their file, or break its schema and are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.records.predictions import Predictions, read_predictions, write_predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, VQARow

METADATA = {"model": {"name": "m"}, "run": {}}


def predictions(benchmark, name, *rows):
    described = {"name": benchmark, "task": name, "rows": len(rows), "missing": []}
    return Predictions(list(rows), METADATA | {"benchmark": described})


def detection_row(name="a", **changes):
    phrases = [{"text": "cat", "start": 0, "end": 3}]
    row = DetectionRow(name, "c", "object", ["i"], True, "p", phrases, [[[0, 0, 4, 4]]], [[[0, 0, 4, 4]]], [[0.9]])
    return dataclasses.replace(row, **changes)


def test_rows_of_every_kind_come_back_from_their_file(tmp_path):
    kinds = {
        "detection": [detection_row(), detection_row("b", images=[""], boxes=None, scores=None)],
        "vqa": [VQARow("a", "c", "x", ["i"], "is it", True, -0.5, tags=["t", "u"], cluster="k")],
        "retrieval": [
            RetrievalRow(f"r{i}", "c", "c", [f"i{i}"], [i], np.array([0.5, 0.25], np.float32)) for i in (0, 1)
        ],
    }
    for kind, rows in kinds.items():
        write_predictions(tmp_path / "s.parquet", predictions("bench", "task", *rows))
        found = read_predictions(tmp_path / "s.parquet")
        assert found.task_type == kind
        for ours, theirs in zip(rows, found.rows, strict=True):
            for name, value in vars(ours).items():
                assert (
                    np.array_equal(value, getattr(theirs, name))
                    if name == "scores" and kind == "retrieval"
                    else value == getattr(theirs, name)
                )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (detection_row(scores=[[]]), "other numbers of boxes than of scores"),
        (detection_row(boxes=[]), "of 0, 1 and 1 of 1 phrases"),
        (detection_row(boxes=[[[4, 0, 0, 4]]]), r"the box \[4, 0, 0, 4\] is not x1, y1"),
        (detection_row(boxes=[[[0, 0, float("nan"), 4]]]), "is not x1, y1"),
        (detection_row(scores=[[float("inf")]]), "NaN, infinite"),
        (detection_row(images=["i", "j"]), "a row of a detection predictions has one"),
        (detection_row(boxes=None), "of 0, 1 and 1 of 1 phrases"),
        (VQARow("a", "c", "x", ["i"], "is it", True, None), "no scores, though no image is missing"),
        (VQARow("a", "c", "x", ["i"], "is it", True, float("nan")), "NaN, infinite"),
        (RetrievalRow("a", "c", "c", ["i"], [2], np.zeros(2, np.float32)), r"right captions \[2\] outside the 2"),
        (RetrievalRow("a", "c", "c", ["i"], [], np.zeros(2, np.float32)), r"right captions \[\] outside"),
        (RetrievalRow("a", "c", "c", ["i"], [0], np.array([0, np.nan], np.float32)), "NaN, infinite"),
    ],
)
def test_rows_that_break_their_schema_are_refused(row, message, tmp_path):
    with pytest.raises(PredictionsError, match=message):
        write_predictions(tmp_path / "s.parquet", predictions("bench", "task", row))


def test_rows_of_a_retrieval_predictions_have_one_width(tmp_path):
    rows = [RetrievalRow(f"r{i}", "c", "c", ["i"], [0], np.zeros(2 + i, np.float32)) for i in (0, 1)]
    with pytest.raises(PredictionsError, match="3 scores, not 2 as those before"):
        write_predictions(tmp_path / "s.parquet", predictions("bench", "task", *rows))


def test_a_caption_counts_with_all_its_images_or_not_at_all(tmp_path):
    def pair(name, number, **changes):
        nothing = {"truth": [[]], "positive": False}
        true = detection_row(f"{name}+", pair=name, images=[f"{name}+"], tags=[])
        return [true, dataclasses.replace(true, id=f"{name}-", images=[f"{name}-"], **nothing, **changes)]

    missing = {"images": [""], "boxes": None, "scores": None}
    rows = [*pair("p", 1), *pair("q", 2)]
    rows[3] = dataclasses.replace(rows[3], **missing)
    path = tmp_path / "s.parquet"
    described = {"name": "toy_scenes", "task": "detection", "rows": 4, "missing": ["q-"]}
    write_predictions(path, Predictions(rows, METADATA | {"benchmark": described}))
    results = report(path, resamples=100)
    assert [result.metric for result in results] == ["cpd_ap", "grounding_recall", "group_recall_at_1"]
    assert {result.missing for result in results} == {2}
    assert (results[0].scores["n"], results[2].scores["n_pairs"]) == (2, 1)


def test_rows_of_several_images_have_their_captions_in_order(tmp_path):
    row = MatchingRow("a", "c", "c", ["i", "j"], [1, 0], [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(PredictionsError, match="of several images each has the caption of its number"):
        write_predictions(tmp_path / "s.parquet", predictions("toy_scenes", "groups", row))
    row = MatchingRow("a", "c", "c", ["i"], [1], [[0.0, 1.0, 0.5]])
    write_predictions(tmp_path / "t.parquet", predictions("toy_scenes", "hard_positives", row))
    with pytest.raises(PredictionsError, match="augmented_accuracy takes the first caption for the right one"):
        report(tmp_path / "t.parquet", resamples=100)


def test_values_that_cannot_be_read_are_an_error_of_the_predictions(tmp_path):
    rows = [RetrievalRow(f"r{i}", "c", "c", [f"i{i}"], [i], np.array([0.5, 0.25], np.float32)) for i in (0, 1)]
    write_predictions(tmp_path / "s.parquet", predictions("bench", "task", *rows))
    table = pq.read_table(tmp_path / "s.parquet")
    place = table.schema.get_field_index("scores")
    holes = pa.array([[0.5, None], [0.25, 0.5]], pa.list_(pa.float32()))
    pq.write_table(table.set_column(place, table.schema.field(place), holes), tmp_path / "t.parquet")
    with pytest.raises(PredictionsError, match="NaN, infinite or missing"):
        read_predictions(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("found", "written", "message"),
    [
        (b'"detection"', b'"smell"', "of the type 'smell'; there are matching, retrieval, detection, vqa"),
        # JSON has no such numbers, and what takes them for some would pass them on to the results.
        (b'"rows": 1', b'"rows": NaN', "has no `vl_assay` metadata"),
        (b'"run": {}', b'"run": {"seconds": -Infinity}', "has no `vl_assay` metadata"),
    ],
)
def test_metadata_of_another_make_are_refused(found, written, message, tmp_path):
    write_predictions(tmp_path / "s.parquet", predictions("bench", "task", detection_row()))
    table = pq.read_table(tmp_path / "s.parquet")
    assert found in table.schema.metadata[b"vl_assay"]
    changed = {b"vl_assay": table.schema.metadata[b"vl_assay"].replace(found, written)}
    pq.write_table(table.replace_schema_metadata(changed), tmp_path / "t.parquet")
    with pytest.raises(PredictionsError, match=message):
        read_predictions(tmp_path / "t.parquet")


def test_a_predictions_of_another_kind_than_its_task_is_not_judged(tmp_path):
    write_predictions(tmp_path / "s.parquet", predictions("toy_scenes", "groups", detection_row()))
    with pytest.raises(PredictionsError, match="of the task type detection, but the task groups of toy_scenes"):
        report(tmp_path / "s.parquet")
