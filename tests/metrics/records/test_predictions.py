"""Predictions: rows of every type come back from their file, and what breaks its schema is refused."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import report_support

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.records.predictions import prediction_files, read_predictions
from vl_assay.metrics.records.schema import (
    DetectionRow,
    MatchingRow,
    RetrievalRow,
    TextSimilarityRow,
    VQARow,
    caption_key,
)

NOT_FINITE = "a score is NaN, infinite or missing"


def write(path, *rows, benchmark="bench", task="task"):
    return report_support.write(path, list(rows), benchmark, task, "m", run={"code": "0.1.9"})


def detection_row(name="a", **changes):
    phrases = [{"text": "cat", "start": 0, "end": 3}]
    row = DetectionRow(name, "c", "object", ["i"], True, "p", phrases, [[[0, 0, 4, 4]]], [[[0, 0, 4, 4]]], [[0.9]])
    return dataclasses.replace(row, **changes)


def matching_row(scores, images=("i",), correct=(0,), name="a", category="c"):
    return MatchingRow(name, "c", category, list(images), list(correct), scores)


def retrieval_row(scores, correct=(0,), name="a"):
    return RetrievalRow(name, "c", "c", ["i"], list(correct), np.array(scores, np.float32))


def vqa_row(score):
    return VQARow("a", "c", "x", ["i"], "is it", True, score, tags=["t", "u"], cluster="k", caption_key="0" * 12)


def similarity_row(scores, images=(), correct=(0,)):
    return TextSimilarityRow("a", "c", "c", list(images), list(correct), scores, cluster="photograph")


ROWS = {
    "text_similarity": [similarity_row([[0.5, 0.25, 0.125]])],
    "matching": [matching_row([[0.5, 0.1]]), matching_row(None, images=[""], name="b")],
    "detection": [detection_row(), detection_row("b", images=[""], boxes=None, scores=None)],
    "vqa": [vqa_row(-0.5)],
    "retrieval": [retrieval_row([0.5, 0.25]), retrieval_row([1, 0.25], [1], "b")],
}


def same(ours, theirs):
    return all(np.array_equal(value, getattr(theirs, name)) for name, value in vars(ours).items())


@pytest.mark.parametrize("task_type", ROWS)
def test_rows_of_every_type_come_back_from_their_file(task_type, tmp_path):
    rows = ROWS[task_type]
    write(tmp_path / "s.parquet", *rows)
    found = read_predictions(tmp_path / "s.parquet")
    assert (found.task_type, found.model, found.benchmark, found.task) == (task_type, "m", "bench", "task")
    assert all(map(same, rows, found.rows))


def test_captions_that_differ_in_typing_have_one_key():
    assert caption_key(" A dog,  by a cat. ") == caption_key("a dog by a cat") != caption_key("a cat by a dog")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (matching_row([[0.1, float("nan")]]), NOT_FINITE),
        (matching_row([[0.1, 0.2]], correct=[2]), r"correct caption \[2\] outside the 2 captions"),
        (matching_row([[0.1, 0.2], [0.1, 0.2]]), "2 rows of scores for 1 images"),
        (matching_row([[0.1, 0.2], [0.1, 0.2]], "ij"), "2 images but 1 correct captions"),
        (matching_row([[0.1, 0.2], [0.1]], "ij", [0, 1]), "rows of scores of different lengths"),
        (matching_row([[0.0, 1.0], [1.0, 0.0]], "ij", [1, 0]), "of several images, image i must have caption i"),
        (matching_row(None), "no scores, though no image is missing"),
        (matching_row([], [], []), "no images"),
        (matching_row([[0.1, 0.2]], correct=[None]), "a value is missing in correct"),
        (matching_row([[0.1, 0.2]], [""]), "scores, though an image is missing"),
        (matching_row([[0.1, 0.2]], category="c\n| forged"), "control characters in its id, config"),
        (matching_row([[0.1, 0.2]], name="first"), "its id came before"),
        (dataclasses.replace(matching_row([[0.1, 0.2]]), caption_key=None), "a value is missing in caption_key"),
        (detection_row(scores=[[]]), "a phrase with different numbers of boxes and scores"),
        (detection_row(boxes=[]), "of 0, 1 and 1 of 1 phrases"),
        (detection_row(boxes=[[[4, 0, 0, 4]]]), r"the box \[4, 0, 0, 4\] is not x1, y1"),
        (detection_row(boxes=[[[0, 0, float("nan"), 4]]]), "is not x1, y1"),
        (detection_row(scores=[[float("inf")]]), NOT_FINITE),
        (detection_row(images=["i", "j"]), "2 images; a row of detection has one"),
        (similarity_row([[0.1, 0.2]], correct=[2]), "correct pair 2 outside the 2 pairs"),
        (similarity_row([[0.1, float("nan")]]), NOT_FINITE),
        (similarity_row([[0.1], [0.2]]), "2 lists of scores and 1 correct pairs"),
        (similarity_row([[0.1]], images="i"), "1 images; a row of text_similarity has none"),
        (vqa_row(float("nan")), NOT_FINITE),
        (retrieval_row([0, 0], []), r"correct captions \[\] outside"),
        (retrieval_row([0, np.nan]), NOT_FINITE),
        (retrieval_row([0, 0, 0]), "3 scores; the rows before have 2"),
    ],
)
def test_rows_that_break_their_schema_are_named(row, message, tmp_path):
    first = dataclasses.replace(ROWS[row.task_type][0], id="first")
    with pytest.raises(PredictionsError, match=rf"row 1 \(id '{row.id}'\): .*{message}"):
        write(tmp_path / "s.parquet", first, row)
    assert not (tmp_path / "s.parquet").exists()


def test_a_caption_counts_with_all_its_images_or_not_at_all(tmp_path):
    def pair(name, **changes):
        true = detection_row(f"{name}+", pair=name, images=[f"{name}+"], tags=[])
        return [
            true,
            dataclasses.replace(true, id=f"{name}-", images=[f"{name}-"], truth=[[]], positive=False, **changes),
        ]

    rows = [*pair("p"), *pair("q")]
    rows[3] = dataclasses.replace(rows[3], images=[""], boxes=None, scores=None)
    write(tmp_path / "s.parquet", *rows, benchmark="toy_scenes", task="detection")
    results = report(tmp_path / "s.parquet", resamples=100)
    assert [result.metric for result in results] == ["cpd_ap", "grounding_recall", "group_recall_at_1"]
    assert {result.missing for result in results} == {2}
    assert (results[0].scores["n"], results[2].scores["n_pairs"]) == (2, 1)


@pytest.mark.parametrize(
    ("found", "written", "message"),
    [
        (b'"detection"', b'"smell"', "the task type 'smell'; expected one of matching, text_similarity"),
        # JSON has no such numbers, but Python's reader accepts them.
        (b'"rows": 1', b'"rows": NaN', "has no `vl_assay` metadata"),
        (b'"0.1.9"', b"-Infinity", "has no `vl_assay` metadata"),
        (b'"version": 3', b'"version": 2', r"t\.parquet was written by vl-assay 0\.1\.9 with the schema 'vl-assay/pre"),
        (b'"vl-assay/predictions"', b'"vl-assay/sheet"', "with the schema 'vl-assay/sheet', version 3; expected"),
        (b'"rows": 1', b'"rows": 2', "has 1 rows, its metadata say 2"),
        (b'"name": "m"', b'"name": "two\\nlines"', r"model\.name must be 1 to 200 printable characters"),
    ],
)
def test_metadata_that_break_the_schema_are_refused(found, written, message, tmp_path):
    write(tmp_path / "s.parquet", detection_row())
    table = pq.read_table(tmp_path / "s.parquet")
    assert found in table.schema.metadata[b"vl_assay"]
    changed = {b"vl_assay": table.schema.metadata[b"vl_assay"].replace(found, written)}
    pq.write_table(table.replace_schema_metadata(changed), tmp_path / "t.parquet")
    with pytest.raises(PredictionsError, match=message):
        read_predictions(tmp_path / "t.parquet")


def test_a_folder_may_have_a_colon_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("mock:oracle", "a.parquet")
    write(path, matching_row([[1.0, 0.0]]))
    assert prediction_files(path.parent) == [path]
    assert read_predictions(path).rows == [matching_row([[1.0, 0.0]])]


def test_other_files_are_not_taken_for_predictions(tmp_path):
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "plain.parquet")
    with pytest.raises(PredictionsError, match="no predictions file: it has no `vl_assay` metadata"):
        read_predictions(tmp_path / "plain.parquet")
    write(tmp_path / "s.parquet", *ROWS["retrieval"])
    table = pq.read_table(tmp_path / "s.parquet")
    index = table.schema.get_field_index("scores")
    pq.write_table(table.drop_columns(["scores"]), tmp_path / "lacking.parquet")
    with pytest.raises(PredictionsError, match="the columns are"):
        read_predictions(tmp_path / "lacking.parquet")
    holes = pa.array([[0.5, None], [0.25, 0.5]], pa.list_(pa.float32()))
    pq.write_table(table.set_column(index, table.schema.field(index), holes), tmp_path / "t.parquet")
    with pytest.raises(PredictionsError, match=NOT_FINITE):
        read_predictions(tmp_path / "t.parquet")


def test_predictions_of_another_type_than_their_task_or_metric_are_not_evaluated(tmp_path):
    write(tmp_path / "s.parquet", detection_row(), benchmark="toy_scenes", task="groups")
    with pytest.raises(PredictionsError, match=r"group_match is for the task type .*; it cannot evaluate"):
        report(tmp_path / "s.parquet")
    second = matching_row([[0.0, 1.0, 0.5]], correct=[1])
    write(tmp_path / "t.parquet", second, benchmark="toy_scenes", task="hard_positives")
    with pytest.raises(PredictionsError, match="augmented_accuracy expects the first caption to be the right one"):
        report(tmp_path / "t.parquet", resamples=100)
