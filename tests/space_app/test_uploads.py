"""Uploads: good predictions are accepted, bad ones refused with a message, and no file harms the server."""

from __future__ import annotations

import io
import json
import math
import pickle
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sources_vl_checklist
from submission_support import MemoryStorage, changed, parquet

from vl_assay.hub_datasets import get_benchmark, load_examples, report
from vl_assay.hub_datasets.zero_shot import shapes
from vl_assay.metrics.common.errors import PredictionsError, VLAssayError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.pages.cards import examples_html
from vl_assay.space_app.submissions import uploads
from vl_assay.space_app.submissions.sandbox import Sandbox
from vl_assay.space_app.submissions.submissions import OPTIONS, submit
from vl_assay.space_app.submissions.uploads import check_upload, expected, prepare

TASKS = ("paraphrases", "groups", "detection", "vqa", "retrieval")
SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize("task", TASKS)
def test_good_predictions_are_taken_unchanged_whatever_the_order_of_their_rows(task, toy):
    path = toy.path(task, "shuffled")
    predictions, ours = check_upload(changed(path.read_bytes(), rows=list.reverse), path.name), read_predictions(path)
    assert predictions.metadata == ours.metadata
    assert str(predictions.rows[::-1]) == str(ours.rows)


def test_examples_without_their_image_may_be_unscored_where_the_metadata_name_them(toy):
    def lose(rows):
        rows[3] |= {"images": ["", ""], "scores": None}

    ids = [row.id for row in read_predictions(toy.path("groups")).rows]
    named = changed(toy.predictions("groups"), rows=lose, metadata=said("benchmark", missing=[ids[3]]))
    assert sum(not row.is_scored for row in check_upload(named).rows) == 1
    with pytest.raises(PredictionsError, match="name 0 examples without an image, its rows are 1"):
        check_upload(changed(toy.predictions("groups"), rows=lose))


def said(section, **values):
    """Metadata with other values in a section."""
    return lambda metadata: metadata[section].update(values)


def first(**values):
    """Rows whose first has other values."""
    return lambda rows: rows[0].update(values)


def renamed(rows):
    rows[0]["id"] = "stranger"


def doubled(rows):
    rows[0] = dict(rows[1])


def crowded(rows):
    rows[0] |= {"boxes": [[[0.0, 0.0, 1.0, 1.0]] * 101] * len(rows[0]["phrases"])}
    rows[0]["scores"] = [[0.5] * 101] * len(rows[0]["phrases"])


def moved(rows):
    row = next(row for row in rows if any(row["truth"]))
    next(boxes for boxes in row["truth"] if boxes)[0][2] += 1


def widened(rows):
    for row in rows:
        row["scores"] = [[*scores, 0.0] for scores in row["scores"]]


BAD = {
    "another version": ("order", {"metadata": lambda m: m.update(version=2)}, r"mine\.parquet was written by vl-assay"),
    "unknown benchmark": ("order", {"metadata": said("benchmark", name="aro2")}, "unknown benchmark 'aro2'; known"),
    "unknown task": ("order", {"metadata": said("benchmark", task="x")}, "unknown task of toy_scenes 'x'; known: itm"),
    "another kind": ("order", {"metadata": said("benchmark", task="vqa")}, "the task toy_scenes/vqa is of the type"),
    "other configurations": ("order", {"metadata": said("benchmark", configs=["itm"])}, r"configurations \['itm'\]"),
    "no benchmark": ("order", {"metadata": lambda m: m.update(benchmark=[])}, "unknown benchmark 'None'"),
    "other data": ("order", {"metadata": said("benchmark", fingerprint="0")}, "other data or metrics: its fingerprint"),
    "another split": ("order", {"metadata": said("benchmark", split="train")}, "its split is 'train'"),
    "other metrics": ("order", {"metadata": said("benchmark", metrics={})}, r"its metrics is \{\}, .*itm_accuracy.*"),
    "other settings": (
        "retrieval",
        {"metadata": said("benchmark", metrics={"retrieval_recall": {"pool": "shared", "ks": [10]}})},
        r"its metrics is .*'ks': \[10\].*, that of toy_scenes/retrieval on this server .*\[1, 5, 10\]",
    ),
    "a strange example": ("order", {"rows": renamed}, "lacks 1 of the 40 examples.* has 1 unknown .*'stranger'"),
    "an example twice": ("order", {"rows": doubled}, "row 1 .*its id came before"),
    "another category": ("groups", {"rows": first(category="easy")}, "its category is 'easy', in the dataset"),
    "another truth": ("vqa", {"rows": lambda rows: rows[0].update(correct=not rows[0]["correct"])}, "its correct is"),
    "another question": ("vqa", {"rows": first(question=SCRIPT)}, "its question is '<script>"),
    "other true boxes": ("detection", {"rows": moved}, "its truth is"),
    "a distractor": ("detection", {"rows": lambda r: r[0].update(positive=not r[0]["positive"])}, "its positive is"),
    "too many boxes": ("detection", {"rows": crowded}, "more than 100 boxes for a phrase"),
    "other right captions": ("retrieval", {"rows": first(correct=[5])}, r"its correct is \[5\]"),
    "a wider set": (
        "retrieval",
        {"rows": lambda rows: [row["scores"].append(0.0) for row in rows]},
        "scores; the set has",
    ),
    "a caption too many": ("order", {"rows": widened}, "6 scores of an image; it has 5 captions"),
    "NaN": ("vqa", {"rows": first(score=math.nan)}, "NaN, infinite or missing"),
    "infinity": ("order", {"rows": first(scores=[[math.inf, 0.0, 0.0, 0.0, 0.0]])}, "NaN, infinite or missing"),
    "no scores": ("vqa", {"rows": first(score=None)}, "no scores, though no image is missing"),
    "a strange image key": ("vqa", {"rows": first(images=["../x"])}, "the image key '../x'; a key has 32"),
    "a limit": ("order", {"metadata": said("benchmark", limit=9)}, "its limit is 9, that of .* None"),
    "an image too many": ("order", {"rows": first(images=["0" * 32] * 2, correct=[0, 1])}, "1 rows of scores for 2"),
    "an infinite number": ("order", {"metadata": lambda m: json.dumps(m | {"x": 7}).replace(": 7", ": 1e999")}, "inf;"),
    "a huge number": ("order", {"metadata": said("run", seconds=10**400)}, "a number is finite and below"),
    "a line break": ("order", {"metadata": said("model", name="a\nb")}, "a text has at most 1,000 printable"),
    "a right-to-left override": ("order", {"metadata": said("model", name="a\u202eb")}, "printable characters"),
    "a long text": ("order", {"metadata": said("model", family="x" * 201)}, "model.family is .* 200 printable"),
    "no model's name": ("order", {"metadata": said("model", name="  ")}, "model.name in the metadata is empty"),
    "a script as link": ("order", {"metadata": said("model", link="javascript:alert(1)")}, "begins with https://"),
    "odd parameters": ("order", {"metadata": said("model", parameters="many")}, "model.parameters is 'many'"),
    "a deep nest": ("order", {"metadata": said("run", seconds=[[[[[[[[1]]]]]]]])}, "nested more than 8"),
    "a bottomless nest": ("order", {"metadata": lambda m: "[" * 100_000}, "are no JSON object"),
    "no metadata": ("order", {"table": lambda t: t.replace_schema_metadata(None)}, "has no `vl_assay` metadata"),
    "a column too few": ("order", {"table": lambda t: t.drop_columns(["tags"])}, "the columns are"),
    "a column of another type": (
        "order",
        {"table": lambda t: t.set_column(0, "id", pa.array(range(len(t))))},
        "the columns are id: int64",
    ),
    "partial": ("vqa", {"rows": lambda rows: rows.__delitem__(slice(10, None))}, "declares 10 rows .* Score"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_predictions_are_refused_with_a_message_of_their_own(name, toy):
    task, changes, message = BAD[name]
    with pytest.raises(PredictionsError, match=message) as caught:
        check_upload(changed(toy.predictions(task), **changes), "mine.parquet")
    told = str(caught.value)
    assert told.startswith("mine.parquet")
    assert told.isprintable()
    assert "vl-assay-upload" not in told


def test_metadata_that_say_two_things_are_refused(toy):
    good = toy.predictions("vqa")
    text = pq.read_schema(io.BytesIO(good)).metadata[b"vl_assay"]
    assert good.count(text) == 1  # the other is in the schema, in base64
    with pytest.raises(PredictionsError, match="has two different `vl_assay` metadata"):
        check_upload(good.replace(text, text.replace(b"bag-of-words", b"bag_of_words")))


def test_what_is_no_parquet_file_is_refused_before_it_is_opened(toy, monkeypatch):
    good = toy.predictions("order")
    monkeypatch.setattr(Sandbox, "footer", lambda *arguments: pytest.fail("it was opened"))
    csv_file, pickled = b"id,score\na,1\n", pickle.dumps(SCRIPT)
    for content in (b"", b"PAR1PAR1", csv_file, good[:-1], good[1:], pickled, b"PARE" + good[4:]):
        with pytest.raises(PredictionsError, match=r"mine\.parquet is not a Parquet file, or was cut off"):
            check_upload(content, "mine.parquet")
    monkeypatch.setenv("VL_ASSAY_UPLOAD_LIMIT", "1")
    with pytest.raises(PredictionsError, match=r"has 2\.0 MB; a predictions file may have 1 MB"):
        check_upload(bytes(2 << 20))
    monkeypatch.setenv("VL_ASSAY_UPLOAD_LIMIT", "much")
    with pytest.raises(VLAssayError, match="VL_ASSAY_UPLOAD_LIMIT is 'much'; give a whole number from 1"):
        check_upload(good)


def test_names_are_for_messages_only():
    for name, label in (
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.parquet", "a.parquet"),
        ("a\nb\x00.parquet", "a b .parquet"),
        ("", "the predictions file"),
        ("x" * 500, "x" * 78 + " …"),
    ):
        with pytest.raises(PredictionsError, match=f"^{re.escape(label)} is not a Parquet file"):
            check_upload(b"nothing", name)


def test_no_request_of_a_visitor_downloads_or_builds(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path))
    for name, task, config in (("toy_order", "order", "order"), ("sugarcrepe", "itm", "swap_obj")):
        with pytest.raises(PredictionsError, match="was not built here"):
            expected({"task_type": "matching", "benchmark": {"name": name, "task": task, "configs": [config]}})
    assert "has no copy of its data" in examples_html("toy_order")
    assert [*tmp_path.rglob("*")] == []


def test_copies_of_the_sources_are_read_from_the_folder_that_is_set(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    [task] = [task for task in get_benchmark("vl_checklist").tasks if task.by_default]
    benchmark = {"name": "vl_checklist", "task": task.name, "configs": list(task.configs)}
    metadata = {"task_type": task.task_type, "benchmark": benchmark}
    monkeypatch.setenv("VL_ASSAY_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(PredictionsError, match="nowhere"):
        expected(metadata)
    sources = tmp_path / "sources" / "vl_checklist"
    sources.mkdir(parents=True)
    sources_vl_checklist.make(sources)
    monkeypatch.setenv("VL_ASSAY_DATA_DIR", str(tmp_path / "sources"))
    with pytest.raises(PredictionsError, match=r"the data of vl_checklist/itm are not on this server .*was not built"):
        expected(metadata)
    monkeypatch.setattr(uploads, "benchmark_names", lambda: ["vl_checklist"])
    prepare()
    data = expected(metadata)
    [own] = load_examples("vl_checklist/itm", data_dir=sources, needs_images=False)
    assert len(data.examples) > 10
    assert data.fingerprint == own.fingerprint


def test_a_file_of_many_row_groups_or_with_a_huge_footer_is_refused_before_it_is_parsed(toy):
    good = toy.predictions("vqa", "shuffled")
    table = pq.read_table(io.BytesIO(good))
    many = parquet(pa.concat_tables([table] * 13).replace_schema_metadata(table.schema.metadata), row_group_size=1)
    with pytest.raises(PredictionsError, match=r"has 1,040 row groups; expected at most 1,000"):
        check_upload(many)
    footer = int.to_bytes((16 << 20) + 1, 4, "little")
    with pytest.raises(PredictionsError, match=r"has a footer of 16,777,217 bytes; expected at most 16,777,216"):
        check_upload(good[:-8] + footer + b"PAR1")


def test_a_submission_of_zero_shot_classification_is_recomputed_and_stands_on_the_board(tmp_path, monkeypatch):
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shapes, "TEXTURES", shapes.TEXTURES[:1])
    [path] = predict("mock:shuffled", "zero_shot/shapes", out=tmp_path, progress=False)
    load_examples("zero_shot/shapes", needs_images=False)  # as the server prepares them
    storage = MemoryStorage()
    receipt = submit(storage, [path.read_bytes()], {}, "someone")
    assert (receipt.status, receipt.flags) == ("accepted", ())
    [ours], [received] = report(path, **OPTIONS), receipt.results
    assert received.scores == ours.scores
    entries = Catalogue(storage).board.of_model("mock:shuffled")
    shown = {entry.score: entry.value for entry in entries if entry.benchmark == "zero_shot" and not entry.category}
    assert shown == {name: ours.scores[name] for name in ("acc_at_1", "acc_at_5", "macro_acc_at_1", "macro_acc_at_5")}
    for change, message in (
        (lambda rows: rows[0].update(correct=[5]), r"its correct is \[5\]"),
        (lambda rows: [row["scores"].append(0.0) for row in rows], "65 scores; the set has 64"),
    ):
        with pytest.raises(PredictionsError, match=message):
            check_upload(changed(path.read_bytes(), rows=change))
