"""Reading files of predictions: what is read, what is refused, and what each value means."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.hub_datasets.core.examples import Example, Phrase
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.precomputed.reading import Record, boxes, choices, matrix, read_records, yes_or_no


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        (".csv", "", "its first line must name the columns"),
        (".csv", "id,answer\n\n", "has no records"),
        (".csv", "id,id\na,b", "must name the columns, each once"),
        (".csv", "id,answer\na,b\nc", "line 3 has 1 cells, not 2"),
        (".csv", "id,answer\na,b\nc,d,e", "line 3 has 3 cells, not 2"),
        (".csv", 'id,answer\na,"b', "line 2: unexpected end of data"),
        (".csv", f"id,answer\na,{'b' * 200_000}", "line 2: field larger.*long cells are for JSON lines"),
        (".jsonl", '{"id": 1, "answer": 0}\n{"id"', "line 2: Expecting"),
        (".jsonl", '{"id": 1, "answer": 0}\n[1]', r"line 2: \[1\] is not a record"),
        (".jsonl", '{"id": 1, "answer": 0}\n{"id": 1, "id": 2, "answer": 0}', "line 2: the key 'id' is there twice"),
        (".json", '{"1": {"answer": 0}, "1": {"answer": 1}}', "the key '1' is there twice"),
        (".json", '[{"id": 1, "answer": 0}, 7]', "entry 2: 7 is not a record"),
        (".json", "7", "must be a list of records, or an object of them by id"),
        (".json", "id,answer", "Expecting value"),
        (".json", "[" * 100_000, "too deeply nested"),
        (".jsonl", '{"id": ' + "[" * 100_000, "too deeply nested"),
        (".jsonl", '{"id": 1, "answer": ' + "9" * 5000 + "}", "line 1: Exceeds the limit"),
        (".json", "[]", "has no records"),
    ],
)  # fmt: skip
def test_files_that_are_not_what_they_say_are_refused(ending, text, message, tmp_path):
    (tmp_path / f"a{ending}").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=rf"a\{ending}.*{message}"):
        _ = load_model(f"precomputed:{tmp_path}/a{ending}"), list(read_records(tmp_path / f"a{ending}"))


def test_other_encodings_folders_and_endless_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("id,answer\nä,0".encode("latin-1"))
    with pytest.raises(ModelError, match=r"a\.csv cannot be read: 'utf-8' codec"):
        load_model(f"precomputed:{tmp_path}/a.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"empty has no files with answers \(\.json, "):
        load_model(f"precomputed:{tmp_path}/empty")
    for name in (f"{tmp_path}/none.csv", "/dev/zero"):
        with pytest.raises(ModelError, match=r"no such file|there is no file"):
            load_model(f"precomputed:{name}")


def test_lines_and_files_too_long_are_refused(tmp_path, monkeypatch):
    for limit in ("_LINE_LIMIT", "_JSON_LIMIT"):
        monkeypatch.setattr(f"vl_assay.model_wrappers.precomputed.reading.{limit}", 100)
    for ending, message in (
        (".csv", "a line is longer"),
        (".jsonl", "a line is longer"),
        (".json", "larger than 100 ch"),
    ):
        (tmp_path / f"a{ending}").write_text(f'{{"id": "{"x" * 200}"}}', encoding="utf-8")
        with pytest.raises(ModelError, match=message):
            list(read_records(tmp_path / f"a{ending}"))


def test_what_spreadsheets_and_other_systems_write_is_read(tmp_path):
    expected = [{"id": "a", "answer": "yes, \nit is"}]
    for name, text in {
        "bom.csv": '\ufeffid,answer\r\na,"yes, \nit is"\r\n\r\n',
        "tabs.tsv": 'id\tanswer\na\t"yes, \nit is"\n',
        "lines.json": '{"id": "a", "answer": "yes, \\nit is"}\n{"id": "a", "answer": "yes, \\nit is"}',
        "bom.json": '\ufeff  [{"id": "a", "answer": "yes, \\nit is"}]',
        "content.out": 'id , answer\na,"yes, \nit is"',
        "keyed.out": '\n{"a": {"answer": "yes, \\nit is"}}',
        "bare.json": '{"a": "yes, \\nit is"}',
    }.items():
        (tmp_path / name).write_bytes(text.encode())
        records = [record.fields for record in read_records(tmp_path / name)]
        assert records == expected * (2 if name == "lines.json" else 1), name


@given(text=st.text(max_size=60), ending=st.sampled_from([".csv", ".jsonl", ".json", ".tsv", ""]))
def test_any_text_is_read_or_refused(text, ending, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"text{ending}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ModelError):
        assert all(isinstance(record, Record) for record in read_records(path))


TEXTS = ("red cat", "blue cat", "cat")
ONE = Example("e", "c", "c", ("i",), TEXTS)
TWO = Example("e", "c", "c", ("i", "j"), TEXTS[:2])


@pytest.mark.parametrize(
    ("answer", "first", "chosen"),
    [
        (0, 0, 0), (2, 0, 2), (1, 1, 0), ("1", 0, 1), ("1", 1, 0), ("(2)", 1, 1), ("Output (2).", 1, 1),
        ("A", 0, 0), ("b", 1, 1), ("Answer: C", 0, 2), ("Caption 1", 1, 0), (" red cat ", 0, 0), ("cat", 0, 2),
        ({"free_form_answer": "(2)", "multiple_choice_answer": "blue cat"}, 0, 1),
        ("", 0, None), (None, 0, None), ("Neither caption is right.", 0, None), ("(2) a cat", 1, None),
        ("RED CAT", 0, None), ("A cat", 0, None), ({"multiple_choice_answer": ""}, 0, None),
    ],
)  # fmt: skip
def test_a_choice_is_a_number_a_letter_or_the_caption(answer, first, chosen):
    assert choices(answer, ONE, first).tolist() == [[float(place == chosen) for place in range(3)]]


def test_a_choice_for_each_of_several_images():
    assert choices(["blue cat", 0], TWO, 0).tolist() == [[0, 1], [1, 0]]
    assert choices('["A", "B"]', TWO, 0).tolist() == [[1, 0], [0, 1]]
    assert not choices([0, None], TWO, 0).any()
    for answer, message in ((0, "0 is not a list"), ([0], "1 answers for 2 images")):
        with pytest.raises(ValueError, match=message):
            choices(answer, TWO, 0)


def test_captions_that_are_the_same_are_chosen_together():
    twins = Example("e", "c", "c", ("i",), ("a cat", "a cat", "a dog"))
    assert choices("a cat", twins, 0).tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("answer", [3, "3", "D", -1, 0.5, True, [0], {}])
def test_what_can_be_no_choice_is_refused(answer):
    with pytest.raises(ValueError, match=r"none of the 3 captions.*from A to C|is not a choice"):
        choices(answer, ONE, 0)


@pytest.mark.parametrize("answer", [0, "0", "(0)"])
def test_a_number_below_the_first_is_refused(answer):
    with pytest.raises(ValueError, match=r"numbers from 1 \(set by count_from\) to 3"):
        choices(answer, ONE, 1)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("yes", 1), ("Yes.", 1), (" YES, there are zebras.", 1), ("Yes - two of them", 1), (True, 1), (1, 1), ("1", 1),
        ("true", 1), ("no", -1), ("No!", -1), ("No: there is a cat.\nA dog too.", -1), (False, -1), ("0", -1), (0, -1),
        ("False", -1), ("", 0), (None, 0), ("not sure", 0), ("no answer", 0), ("I say yes", 0), ("yesterday", 0),
        ("none", 0), (2, 0), (["yes"], 0), ("yes and no", 0),
    ],
)  # fmt: skip
def test_a_yes_is_a_yes_and_anything_unclear_is_neither(answer, value):
    assert yes_or_no(answer) == value


@pytest.mark.parametrize(
    ("fields", "shape", "message"),
    [
        ({"scores": [1, 2]}, (1, 3), r"1 × 2 scores, images × captions; the example has 1 × 3"),
        ({"scores": [[1, 2], [3]]}, (2, 2), "2 × 1 or 2 scores"),
        ({"scores": "[1, 2"}, (1, 2), "is not a list in JSON"),
        ({"scores": [1, math.nan]}, (1, 2), "nan is not a finite number"),
        ({"scores": [1, None]}, (1, 2), "None is not a finite number"),
        ({"scores": [1, True]}, (1, 2), "True is not"),
        ({"scores": []}, (1, 2), "1 × 0 scores"),
        ({"score_0": "1", "score_1": "1_0"}, (1, 2), "'1_0' is not a finite number"),
        ({"score_0": "1", "score_1": "inf"}, (1, 2), "'inf' is not"),
        ({"score_0": "1", "score_1": "0,5"}, (1, 2), "'0,5' is not"),
        ({"score_0": "1", "score_1": "", "score_2": "1"}, (1, 2), "score_1 is missing among score_0, score_2"),
        ({"scores": [10**400, 1]}, (1, 2), "is not a finite number"),
    ],
)
def test_scores_of_another_shape_or_kind_are_refused(fields, shape, message):
    with pytest.raises(ValueError, match=message):
        matrix(fields, *shape)


def test_a_column_beyond_the_captions_of_a_row_may_be_empty():
    assert matrix({"score_0": "1", "score_1": "2", "score_2": ""}, 1, 2).tolist() == [[1, 2]]


SEEN = Example(
    "e", "c", "c", ("i",), ("a dog near a dog and a cat",),
    phrases=(Phrase("dog", 2, 5, (), 7), Phrase("dog", 13, 16, (), 8), Phrase("cat", 23, 26, (), 9)),
)  # fmt: skip


def test_boxes_are_sorted_by_phrase_and_by_how_sure_they_are():
    found = boxes(
        [
            Record("a", {"phrase": "cat", "bbox": [1, 2, 3, 4], "score": 0.1}),
            Record("b", {"phrase_id": "8", "category_id": 1, "boxes": [1, 2, 3, 4], "score": 5}),
            Record("c", {"phrase_ids": [9, 9], "boxes": [[0, 0, 1, 1], [0, 0, 2, 2]], "scores": [0.1, 0.3]}),
            Record("d", {"boxes": []}),
        ],
        SEEN,
    )
    assert [one.boxes.tolist() for one in found] == [[], [[1, 2, 3, 4]], [[0, 0, 2, 2], [1, 2, 4, 6], [0, 0, 1, 1]]]
    assert [one.scores.tolist() for one in found] == [[], [5], [0.3, 0.1, 0.1]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"phrase": "dog", "bbox": [0, 0, 1, 1], "score": 1}, "at x: the phrase 'dog' is 2 times in the caption"),
        ({"phrase": "cow", "bbox": [0, 0, 1, 1], "score": 1}, "'cow' is not a phrase of e, which has 'dog', 'dog', "),
        ({"phrase_id": 1, "bbox": [0, 0, 1, 1], "score": 1}, "1 is not a phrase of e, which has 7, 8, 9"),
        ({"category_id": True, "bbox": [0, 0, 1, 1], "score": 1}, "True is not a phrase of e"),
        ({"bbox": [0, 0, 1, 1], "score": 1}, "it does not say its phrase"),
        ({"phrase": "cat", "bbox": [0, 0, -1, 1], "score": 1}, r"\[0, 0, -1, 1\] is not x, y, width, height"),
        ({"phrase": "cat", "boxes": [[2, 0, 1, 1]], "score": 1}, "is not x1, y1, x2, y2 with x1 <= x2"),
        ({"phrase": "cat", "boxes": [[0, 2, 1, 1]], "score": 1}, "is not x1, y1, x2, y2 with x1 <= x2"),
        ({"phrase": "cat", "bbox": [0, 0, 1], "score": 1}, "is not x, y, width, height"),
        ({"phrase": "cat", "bbox": [0, 0, 1, math.inf], "score": 1}, "inf is not a finite number"),
        ({"phrase": "cat", "bbox": [0, 0, 1, 1]}, "None is not a finite number"),
        ({"phrase": "cat", "bbox": [0, 0, 1, 1], "score": "nan"}, "'nan' is not a finite number"),
        ({"phrase": "cat", "boxes": [[0, 0, 1, 1]] * 2, "scores": [1]}, "2 boxes, 1 scores and 2 phrases"),
        ({"phrase": "cat", "boxes": [[0, 0, 1, 1]] * 2, "score": 1}, "2 boxes, 1 scores and 2 phrases"),
        ({"phrase": "cat", "boxes": "all", "score": 1}, "'all' is not a list"),
    ],
)
def test_boxes_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        boxes([Record("at x", fields)], SEEN)
