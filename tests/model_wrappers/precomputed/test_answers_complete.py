"""Answers from a file: nothing is dropped unsaid, whatever stands in it."""

from __future__ import annotations

import contextlib
import json

import answers_support
import pytest
from answers_support import lines, swap_obj, table, task_of
from hypothesis import example as for_example
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.core.benchmarks import Task
from vl_assay.hub_datasets.core.examples import MISSING, Example, Phrase, TaskData
from vl_assay.metrics.common.errors import ModelError
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import LoadOptions, load_model
from vl_assay.model_wrappers.engine.plan import ScoringPlan
from vl_assay.model_wrappers.precomputed.files import Record, read_records

run, sources = answers_support.run, answers_support.sources  # fixtures


def test_examples_without_an_answer_are_an_error_or_wrong_and_counted(run, sources):
    ids = swap_obj(sources)
    assert len(ids) == 6
    text = table([{"id": i, "scores": [2, 1]} for i in ids[2:]])
    with pytest.raises(ModelError, match=r"said.csv: no answer to 2 of 6 examples: swap_obj/0; swap_obj/1\. allow_mis"):
        run(text, "sugarcrepe/swap_obj")
    path = run(text, "sugarcrepe/swap_obj", allow_missing="true")
    assert read_predictions(path).metadata["run"]["missing_answers"] == 2
    [result] = report(path, resamples=100)
    assert (result.scores["n"], result.scores["accuracy"], result.scores["tie_rate"]) == (6, 4 / 6, 2 / 6)
    assert result.missing == 0


def test_a_missing_row_of_a_retrieval_set_helps_nobody(run, sources):
    task = task_of("retrieval/coco", sources)
    pool = list(dict.fromkeys(caption for example in task.examples for caption in example.captions))
    rows = [{"id": e.id, "scores": [-1.0 - (caption not in e.captions) for caption in pool]} for e in task.examples]
    perfect = report(run(lines(rows), "retrieval/coco", ending=".jsonl"), resamples=100)[0].scores
    path = run(lines(rows[1:]), "retrieval/coco", out="b", ending=".jsonl", allow_missing="true")
    assert set(read_predictions(path).rows[0].scores) == {-2.0}
    lacking = report(path, resamples=100)[0].scores
    for name in ("image_recall_at_1", "text_recall_at_1"):
        assert lacking[name] < perfect[name] == 1


def test_a_pair_that_is_missing_makes_its_example_missing(run, sources):
    task = task_of("sugarcrepe/swap_obj", sources)
    rows = [{"id": e.id, "caption": caption, "score": 1} for e in task.examples for caption in e.captions]
    with pytest.raises(ModelError, match="no answer to 1 of 6 examples: swap_obj/5"):
        run(table(rows[:-1]), "sugarcrepe/swap_obj")


def test_records_that_answer_nothing_are_an_error_or_counted(run, sources):
    rows = [{"id": i, "answer": "A"} for i in [*swap_obj(sources), "swap_obj/108", "x"]]
    message = (
        r"nothing that was asked is answered by 2 of its 8 records: line 8: id 'swap_obj/108'; line 9: id 'x'\. all"
    )
    with pytest.raises(ModelError, match=message):
        run(table(rows), "sugarcrepe/swap_obj")
    path = run(table(rows), "sugarcrepe/swap_obj", allow_unknown="true")
    facts = read_predictions(path).metadata["run"]
    assert (facts["answers"], facts["unknown_answers"], facts["no_answer"]) == (8, 2, 0)
    assert report(path, resamples=100)[0].scores["accuracy"] == 1


def test_answers_of_neither_are_counted_and_wrong_whatever_is_right(run, sources):
    ids = swap_obj(sources)
    path = run(
        lines([{"id": i, "answer": "Neither is." if n < 2 else 0} for n, i in enumerate(ids)]),
        "sugarcrepe/swap_obj",
        ending=".jsonl",
    )
    [result] = report(path, resamples=100)
    assert (result.scores["accuracy"], result.run["no_answer"]) == (4 / 6, 2)
    questions = task_of("tricd/vqa", sources).examples
    path = run(lines([{"id": e.id, "answer": "I cannot tell."} for e in questions]), "tricd/vqa", ending=".jsonl")
    [result] = report(path, resamples=100)
    assert (result.scores["accuracy"], result.run["no_answer"]) == (0, len(questions))


def test_a_detector_may_abstain_but_not_from_everything(run, sources):
    [one, *rest] = task_of("tricd/val", sources).examples
    record = {"id": one.id, "phrase": one.phrases[0].text, "boxes": [[0, 0, 9, 9]], "score": 1}
    path = run(json.dumps([record]), "tricd/val", ending=".json")
    assert read_predictions(path).metadata["run"]["without_boxes"] == len(rest)
    other = {"id": "vqa/1", "phrase": "dog", "boxes": [[0, 0, 9, 9]], "score": 1}
    message = f"no answer to {len(rest) + 1} of {len(rest) + 1} examples: val/1; val/2; val/3 …"
    with pytest.raises(ModelError, match=message):
        run(json.dumps([other]), "tricd/val", out="b", ending=".json", allow_unknown="true")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("0", "A"), ("swap_obj/0", "A")], "1 of its records cannot be used: line 3: swap_obj/0 has .* at line 2"),
        (
            [("0", "A"), ("1", "7"), ("2", "C")],
            "2 of its records cannot be used: line 3: '7' is none.*line 4: 'C' is none",
        ),
        (
            [("0", "0"), ("1", "2")],
            r"1 of its .* '2' is none of the 2 captions: .* 0 \(set by count_from\) to 1 or letters",
        ),
    ],
)
def test_records_that_cannot_be_used_are_named_by_their_line(rows, message, run):
    with pytest.raises(ModelError, match=f"said.csv: {message}"):
        run(table([{"id": i, "answer": answer} for i, answer in rows]), "sugarcrepe/swap_obj")


def test_records_of_two_kinds_or_of_none_are_refused(run, sources):
    ids = swap_obj(sources)
    mixed = [{"id": ids[0], "answer": 0}, {"id": ids[1], "scores": [1, 0]}]
    with pytest.raises(ModelError, match="line 3: it says scores, those before answer"):
        run(lines(mixed), "sugarcrepe/swap_obj", ending=".jsonl")
    # The right answers beside the model's score would be taken for the model's.
    for columns in ("id,answer,score\na,yes,0.3", "id,label\na,1", "id,scores,score\na,1,1"):
        with pytest.raises(ModelError, match=r"line 2: a record has one of answer, scores.*columns are 'id, "):
            run(columns, "sugarcrepe/swap_obj")


def test_answers_to_other_captions_are_noticed(run, sources):
    task = task_of("sugarcrepe/swap_obj", sources)
    rows = [{"id": e.id, "caption": task.examples[n - 1].captions[0], "answer": 0} for n, e in enumerate(task.examples)]
    with pytest.raises(
        ModelError, match=r"6 of its records cannot.*none of those of swap_obj/0; is it another example\?"
    ):
        run(lines(rows), "sugarcrepe/swap_obj", ending=".jsonl")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"image": "nowhere.jpg", "caption": "x", "score": 1}, "line 1: image 'nowhere.jpg'"),
        ({"image": "000000000000.jpg", "caption": "x", "score": 1}, "line 1: caption 'x'"),
        ({"id": "swap_obj/0", "caption": ["x"], "score": 1}, "line 1: caption"),
        (
            {"id": "swap_obj/0", "image": 1, "caption": "x", "score": 1},
            "the image 1 is none of swap_obj/0, which has 0",
        ),
        ({"caption": "x", "score": 1}, "line 1: image 'None'"),
    ],
)
def test_pairs_of_nothing_are_refused(record, message, run):
    with pytest.raises(ModelError, match=message):
        run(json.dumps(record), "sugarcrepe/swap_obj", ending=".jsonl")


def test_a_pair_that_comes_twice_is_refused(run, sources):
    [first, *_] = task_of("sugarcrepe/swap_obj", sources).examples
    record = {"image": "000000000000.jpg", "caption": first.captions[0], "score": 1}
    with pytest.raises(ModelError, match=r"line 3: this pair of image and caption came before; where images share a"):
        run(lines([record, record]), "sugarcrepe/swap_obj", ending=".jsonl")
    with pytest.raises(ModelError, match=r"line 3: all records have an id, or none"):
        run(lines([record, {"id": "0", **record}]), "sugarcrepe/swap_obj", ending=".jsonl")


def work_of(task_type, *examples, names=()):
    data = TaskData("bench", Task("t", ("c",), ("image",), ("caption",), {}, task_type=task_type), ("c",), "test")
    data.examples += examples
    data.image_names |= dict(names)
    return ScoringPlan([data])


def read(records, work, tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(records), encoding="utf-8")
    results, facts = load_model(f"precomputed:{tmp_path}/a.jsonl").results(work)
    return results.rows(0), facts


def test_where_images_share_a_name_the_example_must_be_named(tmp_path):
    examples = [Example(f"e{n}", "c", "c", (f"k{n}",), ("a", "b")) for n in (0, 1)]
    work = work_of("matching", *examples, names={"k0": "x.jpg", "k1": "x.jpg"})
    pairs = [{"image": "x.jpg", "caption": caption, "score": 1} for caption in "ab"]
    with pytest.raises(ModelError, match=r"line 1: 2 images have the name 'x.jpg'; say by id which example is meant"):
        read(pairs, work, tmp_path)
    rows, _ = read([pair | {"id": e.id, "score": n} for n, e in enumerate(examples) for pair in pairs], work, tmp_path)
    assert [row.scores for row in rows] == [[[0, 0]], [[1, 1]]]


def test_answers_to_examples_without_image_and_name_stay_out(tmp_path):
    work = work_of("vqa", Example("e0", "c", "c", ("k",), ("is it",)), Example("e1", "c", "c", (MISSING,), ("is it",)))
    rows, facts = read([{"id": "e0", "answer": "no"}, {"id": "e1", "answer": "no"}], work, tmp_path)
    assert [row.score for row in rows] == [-1, None]
    assert facts == {"answers": 2, "no_answer": 0, "unneeded_answers": 1}


def test_two_examples_that_ask_the_same_of_one_image_have_the_same_boxes(tmp_path):
    asked = {"captions": ("a cat",), "phrases": (Phrase("cat", 2, 5, (), 9),)}
    work = work_of("detection", *(Example(f"e{n}", "c", "c", ("i",), **asked) for n in (0, 1)))
    drawn = [{"id": f"e{n}", "phrase": "cat", "bbox": [0, 0, 1, 1], "score": 1} for n in (0, 1)]
    rows, _ = read(drawn, work, tmp_path)
    assert rows[0].boxes == rows[1].boxes == [[[0, 0, 1, 1]]]
    with pytest.raises(ModelError, match="e1: another example asks the same of the same image, and has other boxes"):
        read([drawn[0], drawn[1] | {"score": 2}], work, tmp_path)


def test_scores_beyond_single_precision_are_no_retrieval_scores(tmp_path):
    work = work_of("retrieval", Example("e", "c", "c", ("k",), ("a", "b")))
    with pytest.raises(ModelError, match="line 1: its scores do not fit single precision"):
        read([{"id": "e", "scores": [1e39, 1]}], work, tmp_path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
COLUMNS = st.sampled_from(
    ["id", "image_id", "image", "caption", "answer", "score", "scores", "score_0", "score_1", "bbox", "boxes", "phrase",
     "phrase_id", "phrase_ids", "category_id"]
)  # fmt: skip


@pytest.fixture(scope="module")
def works(sources):
    names = ("sugarcrepe/swap_obj", "cola", "retrieval/coco", "tricd/val", "tricd/vqa")
    return [ScoringPlan([task_of(name, sources)]) for name in names]


@given(
    records=st.lists(st.dictionaries(COLUMNS, VALUES | st.sampled_from(["0", "1", "a cat"]), min_size=1), min_size=1)
)
@for_example(records=[{"id": "1", "boxes": [[]]}])
def test_whatever_stands_in_a_file_it_is_read_or_refused(records, works, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzz.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    settings = {"allow_unknown": "true", "allow_missing": "true"}
    try:
        model = load_model(f"precomputed:{path}", LoadOptions(settings=settings))
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


@given(text=st.text(max_size=60), ending=st.sampled_from([".csv", ".jsonl", ".json", ".tsv", ""]))
def test_any_text_is_read_or_refused(text, ending, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"text{ending}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ModelError):
        assert all(isinstance(record, Record) for record in read_records(path))
