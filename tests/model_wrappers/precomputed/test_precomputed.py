"""The family precomputed: results equal those of the model that made the predictions, and nothing is lost silently."""

from __future__ import annotations

import csv
import functools
import importlib
import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example as for_example
from hypothesis import given, settings
from hypothesis import strategies as st
from support import UNVERIFIED, run_quietly

from vl_assay.hub_datasets import build, load_examples, report
from vl_assay.hub_datasets.core.benchmarks import Task
from vl_assay.hub_datasets.core.examples import MISSING, Example, Phrase, TaskData
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import file_hash, read_predictions, write_predictions
from vl_assay.model_wrappers import LoadOptions, load_model, plan, predict
from vl_assay.model_wrappers.engine.plan import ScoringPlan
from vl_assay.model_wrappers.engine.results import PredictionsSource


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A function that lays out small sources of a benchmark, once."""

    @functools.cache
    def make(name):
        folder = tmp_path_factory.mktemp(name)
        importlib.import_module(f"sources_{name}").make(folder)
        return folder

    return make


@pytest.fixture
def run(sources, tmp_path):
    """A function that scores a model, or a text as file, on a part of a benchmark and returns the predictions' path."""

    def run_on(model, reference, *, out="out", ending=".csv", **settings):
        if isinstance(model, bytes) or not model.startswith("mock:"):
            (tmp_path / f"said{ending}").write_bytes(model if isinstance(model, bytes) else model.encode())
            model = f"precomputed:{tmp_path}/said{ending}"
        folder = sources(reference.partition("/")[0])
        [path] = run_quietly(model, folder, tmp_path / out, reference, settings=settings)
        return path

    return run_on


def table(rows):
    """Records as CSV; values that are not texts or numbers in JSON."""
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(
        {key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items()} for row in rows
    )
    return file.getvalue()


def lines(rows):
    return "\n\n".join(map(json.dumps, rows))


def parquet(rows):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


WRITERS = {".csv": table, ".jsonl": lines, ".parquet": parquet}


def results_of(path):
    """All results without what names the model, the file and the run."""
    return [(result.metric, result.scores) for result in report(path, resamples=100)]


def task_of(reference, sources):
    name = reference.partition("/")[0]
    [task] = load_examples(reference, data_dir=sources(name), options=UNVERIFIED, needs_images=False)
    return task


def swap_obj(sources):
    return [example.id for example in task_of("sugarcrepe/swap_obj", sources).examples]


TASKS = (
    *("sugarcrepe/swap_obj", "cola", "aro/coco_order", "retrieval/coco"),
    *("sugarcrepe_pp/tot", "tricd/val", "tricd/vqa"),
)


def records_of(rows):
    """The records that say what rows of predictions hold."""
    for row in rows:
        if hasattr(row, "score"):
            yield {"id": row.id, "scores": row.score}
        elif hasattr(row, "boxes"):
            yield {"id": row.id, "boxes": row.boxes, "scores": row.scores}
        else:
            yield {"id": row.id, "scores": np.asarray(row.scores).tolist()}


# Each task in one format, and each format for two tasks or more.
@pytest.mark.parametrize(("reference", "ending"), zip(TASKS, [*WRITERS, ".csv", *WRITERS], strict=True))
def test_predictions_come_back_as_they_were_given(reference, ending, run):
    original = run("mock:shuffled", reference)
    rows = read_predictions(original).rows
    again = run(WRITERS[ending]([*records_of(rows)][::-1]), reference, out="again", ending=ending)
    assert [*records_of(read_predictions(again).rows)] == [*records_of(rows)]
    assert results_of(again) == results_of(original)
    if reference == "tricd/vqa":
        said = WRITERS[ending]([{"id": f"tricd/{row.id}", "answer": "Yes." if row.score > 0 else "no"} for row in rows])
        assert results_of(run(said, reference, out="words", ending=ending)) == results_of(original)


@pytest.mark.parametrize("name", [None, True])
def test_an_id_is_text(name, run):
    with pytest.raises(ModelError, match=r"line 1: (it has no id|the id .* is not text)"):
        run(json.dumps({"id": name, "answer": 0}), "sugarcrepe/swap_obj", ending=".jsonl")


def test_without_images_everything_but_their_keys_is_the_same(coco, tmp_path):
    folder = coco(rows=12, images=5)
    repository = build("sugarcrepe", tmp_path / "sc", configs=["swap_obj"], data_dir=folder, options=UNVERIFIED)
    said = tmp_path / "said.csv"
    ids = [example.id for example in load_examples(str(repository))[0].examples]
    said.write_text(table([{"id": i, "scores": [n % 3, 1]} for n, i in enumerate(ids)]), encoding="utf-8")
    [with_images] = predict(f"precomputed:{said}", str(repository), out=tmp_path / "a", progress=False)
    for photograph in (folder / "val2017").iterdir():
        photograph.unlink()
    [without] = run_quietly(f"precomputed:{said}", folder, tmp_path / "b", ["sugarcrepe/swap_obj"])
    ours, theirs = read_predictions(without), read_predictions(with_images)
    assert ours.metadata["benchmark"] == theirs.metadata["benchmark"]
    assert [row.images for row in ours.rows][:2] == [["file:000000000000.jpg"], ["file:000000000001.jpg"]]
    assert all(len(row.images[0]) == 32 for row in theirs.rows)
    assert results_of(without) == results_of(with_images)


def test_the_model_says_which_file_it_is(tmp_path):
    path = tmp_path / "X-VLM 16M.csv"
    path.write_text("id,answer\na,0\n", encoding="utf-8")
    model = load_model(f"precomputed:{path}")
    assert isinstance(model, PredictionsSource)
    assert (model.info.name, model.info.family, model.info.checkpoint) == ("X-VLM 16M", "precomputed", "X-VLM 16M.csv")
    assert model.info.revision == f"sha256:{file_hash(path)}"
    named = load_model(f"precomputed:{path}", LoadOptions(settings={"name": "X-VLM"}))
    assert named.info.name == "X-VLM"
    with pytest.raises(ModelError, match="1 to 200 printable characters"):
        load_model(f"precomputed:{path}", LoadOptions(settings={"name": "a\nb"}))


def test_what_has_no_meaning_for_a_file_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id,answer\na,0\n", encoding="utf-8")
    model = f"precomputed:{tmp_path}/a.csv"
    for options in (LoadOptions(dtype="bfloat16"), LoadOptions(revision="main")):
        with pytest.raises(ModelError, match="leave revision and dtype out"):
            load_model(model, options)
    with pytest.raises(ModelError, match="a has been computed elsewhere: there is nothing to predict"):
        plan(model, "toy_scenes/vqa")
    with pytest.raises(ModelError, match=r"no such file: nowhere\.csv"):
        load_model("precomputed:nowhere.csv")


def test_examples_without_an_answer_are_an_error_or_wrong_and_counted(run, sources):
    ids = swap_obj(sources)
    assert len(ids) == 6
    text = table([{"id": int(i.rpartition("/")[2]), "scores": [2, 1]} for i in ids[2:]])
    with pytest.raises(ModelError, match=r"said.csv: no prediction for 2 of 6 examples: swap_obj/0; swap_obj/1\. -s"):
        run(text, "sugarcrepe/swap_obj")
    path = run(text, "sugarcrepe/swap_obj", allow_missing="true")
    assert read_predictions(path).metadata["run"]["missing_answers"] == 2
    [result] = report(path, resamples=100)
    assert (result.scores["n"], result.scores["accuracy"], result.scores["tie_rate"]) == (6, 4 / 6, 0)
    assert result.missing == 0


def test_a_missing_row_of_a_retrieval_set_helps_nobody(run, sources):
    task = task_of("retrieval/coco", sources)
    pool = list(dict.fromkeys(caption for example in task.examples for caption in example.captions))
    rows = [{"id": e.id, "scores": [-1.0 - (caption not in e.captions) for caption in pool]} for e in task.examples]
    perfect = report(run(lines(rows), "retrieval/coco", ending=".jsonl"), resamples=100)[0].scores
    path = run(lines(rows[1:]), "retrieval/coco", out="b", ending=".jsonl", allow_missing="true")
    assert max(read_predictions(path).rows[0].scores) < -2.0
    lacking = report(path, resamples=100)[0].scores
    for name in ("image_recall_at_1", "text_recall_at_1"):
        assert lacking[name] < perfect[name] == 1


def test_a_file_for_all_examples_is_read_with_a_limit(run, sources, tmp_path):
    rows = [{"id": i, "answer": "A"} for i in swap_obj(sources)]
    run(table(rows), "sugarcrepe/swap_obj")
    options = {"data_dir": sources("sugarcrepe"), "options": {"verify": False}, "progress": False, "limit": 2}
    [path] = predict(f"precomputed:{tmp_path}/said.csv", "sugarcrepe/swap_obj", out=tmp_path / "few", **options)
    found = read_predictions(path)
    assert [row.scores for row in found.rows] == [[[1, 0]]] * 2
    assert found.metadata["run"]["unknown_answers"] == len(rows) - 2
    (tmp_path / "said.csv").write_text(table([*rows[1:], {"id": "swap_obj/x", "answer": "A"}]))
    with pytest.raises(ModelError, match="match no example"):  # one of the two may be misspelt
        predict(f"precomputed:{tmp_path}/said.csv", "sugarcrepe/swap_obj", out=tmp_path / "less", **options)


UNPREDICTED = ("cola", "aro/coco_order", "hard_positives/replace_relations", "sugarcrepe_pp/tot", "tricd/vqa",
              "retrieval/coco")  # fmt: skip


@pytest.mark.parametrize("reference", UNPREDICTED)
def test_what_is_missing_is_wrong_under_every_tie_policy(reference, run, sources):
    has_choices = task_of(reference, sources).task.task_type in ("matching", "vqa")
    records = [{"id": "another", **({"answer": 0} if has_choices else {"scores": [1.0]})}]
    path = run(lines(records), reference, ending=".jsonl", allow_missing="true", allow_unknown="true")
    for ties in ("wrong", "half", "right"):
        for result in report(path, resamples=100, ties=ties):
            names = [name for name in result.table_scores if result.higher_is_better[name]]
            found = {name: result.scores[name] for name in names if not name.endswith(("_at_5", "_at_10"))}
            assert not any(found.values()), (result.metric, ties, found)


def test_records_that_answer_nothing_are_an_error_or_counted(run, sources):
    rows = [{"id": i, "answer": "A"} for i in [*swap_obj(sources), "swap_obj/108", "x"]]
    message = r"2 of its 8 records match no example: line 8: id 'swap_obj/108'; line 9: id 'x'\. -s all.*part of"
    with pytest.raises(ModelError, match=message):
        run(table(rows), "sugarcrepe/swap_obj")
    path = run(table(rows), "sugarcrepe/swap_obj", allow_unknown="true")
    facts = read_predictions(path).metadata["run"]
    assert (facts["answers"], facts["unknown_answers"], facts["no_answer"]) == (8, 2, 0)
    assert report(path, resamples=100)[0].scores["accuracy"] == 1


def test_answers_of_neither_are_counted_and_wrong_whatever_is_right(run, sources):
    ids = swap_obj(sources)
    records = [{"id": i, "answer": "Neither is." if n < 2 else 0} for n, i in enumerate(ids)]
    path = run(lines(records), "sugarcrepe/swap_obj", ending=".jsonl")
    [result] = found = report(path, resamples=100)
    assert (result.scores["accuracy"], result.run["no_answer"]) == (4 / 6, 2)
    assert report(path, resamples=100, ties="half")[0].scores["accuracy"] == 4 / 6
    assert "said: 2 of 6 replies name no choice, and count as wrong." in found.to_markdown()
    other = read_predictions(path)
    write_predictions(path, replace(other, metadata=other.metadata | {"run": {"no_answer": 2}}))
    assert "said: 2 of 6 replies name no choice" in report(path, resamples=100).to_markdown()
    questions = task_of("tricd/vqa", sources).examples
    path = run(lines([{"id": e.id, "answer": "I cannot tell."} for e in questions]), "tricd/vqa", ending=".jsonl")
    [result] = report(path, resamples=100)
    assert (result.scores["accuracy"], result.run["no_answer"]) == (0, len(questions))
    assert report(path, resamples=100, ties="half")[0].scores["accuracy"] == 0


def test_a_detector_may_abstain_by_empty_lists(run, sources):
    examples = task_of("tricd/val", sources).examples
    records = [{"id": e.id, "boxes": [[] for _ in e.phrases], "scores": [[] for _ in e.phrases]} for e in examples]
    records[0]["boxes"][0], records[0]["scores"][0] = [[0, 0, 9, 9]], [1]
    path = run(lines(records), "tricd/val", ending=".jsonl")
    assert read_predictions(path).metadata["run"]["without_boxes"] == len(examples) - 1
    with pytest.raises(ModelError, match=f"no prediction for {len(examples) - 1} of {len(examples)} examples: val/2"):
        run(lines(records[:1]), "tricd/val", out="b", ending=".jsonl")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("0", "A"), ("0", "A")], "1 of its records cannot be used: line 3: duplicate .*, already at line 2"),
        ([("0", "A"), ("1", "7"), ("2", "-1")], "1 of its .*line 3: '7' is not a choice .* index from 0 to 1, a"),
    ],
)
def test_records_that_cannot_be_used_are_named_and_a_right_one_is_shown(rows, message, run, tmp_path):
    right = r'A right one: \{"id": "swap_obj/0", "scores": \[0.3, 0.3\]\}'
    with pytest.raises(ModelError, match=f"said.csv: {message}.*{right}"):
        run(table([{"id": f"swap_obj/{i}", "answer": answer} for i, answer in rows]), "sugarcrepe/swap_obj")
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("id,answer,scores\na,yes,0.3", "a record has an id and scores, answer or boxes.*'id, answer, scores'"),
        ("id,label\na,1", "'id, label'"),
        ('{"id": "a", "scores": null}', "'id, scores'"),
    ],
)
def test_other_columns_are_refused_with_a_right_record(text, shown, tmp_path):
    file = tmp_path / ("a.jsonl" if text[0] == "{" else "a.csv")
    file.write_text(text)
    with pytest.raises(ModelError, match=rf'{shown}; a right record: \{{"id": "swap_obj/13", "scores"'):
        load_model(f"precomputed:{file}")


def plan_of(task_type, *examples, names=()):
    data = TaskData("bench", Task("t", {"sugarcrepe_itm": {}}, ("c",), task_type=task_type), ("c",), "test")
    data.examples += examples
    data.image_names |= dict(names)
    return ScoringPlan([data])


def read(records, work, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(records), encoding="utf-8")
    results, facts = load_model(f"precomputed:{tmp_path}/a.jsonl").results(work)
    return results.rows(0), facts


def test_an_id_that_two_benchmarks_have_is_written_whole(tmp_path):
    work = plan_of("matching", Example("e", "c", "c", ("k",), ("a", "b")))
    [data] = plan_of("matching", Example("e", "c", "c", ("k",), ("a", "b"))).tasks
    data.benchmark = "other"
    work = ScoringPlan([*work.tasks, data])
    rows, _ = read([{"id": "bench/e", "answer": 0}, {"id": "other/e", "answer": 1}], work, tmp_path)
    assert [row.scores for row in rows] == [[[1, 0]]]
    with pytest.raises(ModelError, match=r"line 1: the id 'e' may mean bench/e or other/e; write it whole"):
        read([{"id": "e", "answer": 0}], work, tmp_path)


def test_answers_to_examples_without_image_and_name_stay_out(tmp_path):
    work = plan_of("vqa", Example("e0", "c", "c", ("k",), ("is it",)), Example("e1", "c", "c", (MISSING,), ("is it",)))
    rows, facts = read([{"id": "e0", "answer": "no"}, {"id": "e1", "answer": "no"}], work, tmp_path)
    assert [row.score for row in rows] == [-1, None]
    assert facts == {"answers": 2, "no_answer": 0, "unneeded_answers": 1}


def test_two_examples_that_ask_the_same_of_one_image_have_the_same_boxes(tmp_path):
    asked = {"captions": ("a cat",), "phrases": (Phrase("cat", 2, 5, (), 9),)}
    work = plan_of("detection", *(Example(f"e{n}", "c", "c", ("i",), **asked) for n in (0, 1)))
    drawn = [{"id": f"e{n}", "boxes": [[[0, 0, 1, 1]]], "scores": [[1]]} for n in (0, 1)]
    rows, _ = read(drawn, work, tmp_path)
    assert rows[0].boxes == rows[1].boxes == [[[0, 0, 1, 1]]]
    with pytest.raises(ModelError, match="e1: another example has the same phrase and image, but other boxes"):
        read([drawn[0], drawn[1] | {"scores": [[2]]}], work, tmp_path)


def test_scores_beyond_single_precision_are_no_retrieval_scores(tmp_path):
    work = plan_of("retrieval", Example("e", "c", "c", ("k",), ("a", "b")))
    with pytest.raises(ModelError, match="line 1: its scores do not fit into float32"):
        read([{"id": "e", "scores": [1e39, 1]}], work, tmp_path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
COLUMNS = st.sampled_from(["id", "answer", "scores", "boxes"])


@pytest.fixture(scope="module")
def works(sources):
    names = ("sugarcrepe/swap_obj", "cola", "retrieval/coco", "tricd/val", "tricd/vqa")
    return [ScoringPlan([task_of(name, sources)]) for name in names]


@given(
    records=st.lists(
        st.dictionaries(COLUMNS, VALUES | st.sampled_from(["val/1", "swap_obj/0", "a cat"]), min_size=1), min_size=1
    )
)
@for_example(records=[{"id": "val/1", "boxes": [[]]}])
@settings(max_examples=12)
def test_whatever_stands_in_a_file_it_is_read_or_refused(records, works, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    lenient = {"allow_unknown": "true", "allow_missing": "true"}
    try:
        model = load_model(f"precomputed:{path}", LoadOptions(settings=lenient))
    except ModelError:
        return
    for work in works:
        try:
            if work.tasks[0].task.task_type not in model.task_types:
                continue
            results, facts = model.results(work)
        except ModelError:
            continue
        assert facts["answers"] == len(records)
        assert all(row.problem() is None for row in results.rows(0))
