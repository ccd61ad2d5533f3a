"""Reading files of predictions: what is read, what is refused, and what each value means."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets.core.examples import Example, Phrase
from vl_assay.metrics.common.errors import ModelError
from vl_assay.model_wrappers import load_model
from vl_assay.model_wrappers.precomputed.matching import boxes_of, choices, scores_of
from vl_assay.model_wrappers.precomputed.records import AnswerRecord, read_records
from vl_assay.model_wrappers.serving.replies import chosen_captions, yes_or_no


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        (".csv", "", "has no records"),
        (".csv", "\nid,answer", "its first line must name the columns"),
        (".csv", f"id,answer\na,{'b' * 200_000}", "line 2: field larger.*write long texts as JSON lines"),
        (".jsonl", '{"id": 1, "answer": 0}\n[1]', r"line 2: \[1\] is not a record"),
        (".json", '[{"id": 1, "answer": 0}]', 'JSON lines \\(.jsonl\\), such as {"id": "swap_obj/13"'),
        (".json", "id,answer", "Expecting value"),
        (".parquet", "id,answer\na,0", "magic bytes"),
        (".xlsx", "PK\3\4", "a spreadsheet .*save a table as CSV"),
        (".npy", "x", r"expected .jsonl, .csv or .parquet with id and scores, .*such as {"),
        (".jsonl", '{"id": 1, "answer": ' + "9" * 5000 + "}", "line 1: Exceeds the limit"),
    ],
)  # fmt: skip
def test_files_that_are_not_what_they_say_are_refused(ending, text, message, tmp_path):
    (tmp_path / f"a{ending}").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=rf"a\{ending}.*{message}"):
        _ = load_model(f"precomputed:{tmp_path}/a{ending}"), list(read_records(tmp_path / f"a{ending}"))


def test_folders_and_endless_files_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="is a folder without released answers of GPT-4V; name a file"):
        load_model(f"precomputed:{tmp_path}/empty")
    with pytest.raises(ModelError, match="no such file"):
        load_model("precomputed:/dev/zero")


def test_lines_and_files_too_long_are_refused(tmp_path, monkeypatch):
    for limit in ("_LINE_LIMIT", "_JSON_LIMIT"):
        monkeypatch.setattr(f"vl_assay.model_wrappers.precomputed.records.{limit}", 100)
    for ending, message in ((".csv", "a line is longer"), (".jsonl", "a line is longer"), (".json", "larger than 100")):
        (tmp_path / f"a{ending}").write_text(f'{{"id": "{"x" * 200}"}}', encoding="utf-8")
        with pytest.raises(ModelError, match=message):
            list(read_records(tmp_path / f"a{ending}"))


def test_comments_line_breaks_and_blanks_around_names_are_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'id , answer\r\na,"yes, \nit is"\r\n\r\n')
    (tmp_path / "a.jsonl").write_text('# a comment\n{"id": "a", "answer": "yes, \\nit is"}\n\n')
    for name in ("a.csv", "a.jsonl"):
        assert [record.fields for record in read_records(tmp_path / name)] == [{"id": "a", "answer": "yes, \nit is"}]


def test_a_relative_path_with_a_colon_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": ["a"], "answer": ["yes"]}), tmp_path / "scores:v2.parquet")
    assert [record.fields for record in read_records(Path("scores:v2.parquet"))] == [{"id": "a", "answer": "yes"}]


@given(text=st.text(max_size=60), ending=st.sampled_from([".csv", ".jsonl", ".json", ".parquet"]))
@settings(max_examples=25)
def test_any_text_is_read_or_refused(text, ending, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"text{ending}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ModelError):
        assert all(isinstance(record, AnswerRecord) for record in read_records(path))


TEXTS = ("red cat", "blue cat", "cat")
# Forms in which models give a letter, each with the second; and replies that choose none.
REPLIES = (
    "b", "B)", "B:", "[B]", "{B}", "<B>", "`B`", "'B'", "“B”", "(B)\n", "B - blue cat", "**B.** blue cat",
    "[B] blue cat", "B, because it is blue", "B because it is blue", "B is the right caption",
    "Option (B) is correct", "Caption B: blue", "**Answer:** B", "Answer = B", "My answer is B.",
    "I would choose option (B).", "Final answer: B", '{"answer": "B"}', 'The correct caption is: "blue cat".',
    "The answer is B because it is blue, not A.", "The answer is blue cat.",
    "It is blue. Therefore, the answer is B.", "A. red cat is wrong. So the answer is B.", "It is blue.\n\nB",
    "A. red cat: no\nB. blue cat: yes\n\nB", "B\n\nThe cat is blue, so A is wrong.", "x " * 9_999 + "Answer: B",
    "<think>Is the answer A?</think>B", "The answer is A?</think>\n\nThe answer is **B**.", "<answer> (B) </answer>",
    r"\boxed{B}", r"So $\boxed{\text{B}}$.", r"\boxed{blue cat}", "The answer is A. No, the answer is B.",
)  # fmt: skip
UNREAD = (
    "A and B", "A or B", "A, B", "A is wrong.", "The answer is not A.", "The answer is A or B.",
    "The wrong answer is A", "I cannot decide between A and B.", "The correct answer is neither.",
    "<think>Perhaps the answer", "A dog sits here.", "The answer is a dog", "A. red cat: no\nB. blue cat: yes",
    "A) is wrong. B) is right.", "(A) red cat (B) blue cat",
)  # fmt: skip
ONE = Example("e", "c", "c", ("i",), TEXTS)
TWO = Example("e", "c", "c", ("i", "j"), TEXTS[:2])


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        (0, 0), (2, 2), ("1", 1), ("A", 0), ("b", 1), ("(C)", 2), ("Answer: C", 2), ("The correct answer is B.", 1),
        ("B. blue cat", 1), ("(B) blue cat", 1), (" red cat ", 0), ("cat", 2), ("RED CAT", 0),
        ('"Red cat."', 0), ("**B**", 1), *((reply, 1) for reply in REPLIES),
        ("Both", None), ("Neither A nor B", None), *((reply, None) for reply in UNREAD),
        ("", None), (None, None), ("Neither caption is right.", None), ("A cat", None), ("D", None), ("(2) cat", None),
    ],
)  # fmt: skip
def test_a_choice_is_an_index_a_letter_or_the_caption(answer, chosen):
    expected = [[float(index == chosen) if chosen is not None else np.nan for index in range(3)]]
    np.testing.assert_array_equal(choices(answer, ONE), expected)


def test_a_choice_for_each_of_several_images():
    assert choices(["blue cat", 0], TWO).tolist() == [[0, 1], [1, 0]]
    assert choices('["A", "B"]', TWO).tolist() == [[1, 0], [0, 1]]
    np.testing.assert_array_equal(choices([0, None], TWO), [[1, 0], [np.nan, np.nan]])
    for answer, message in ((0, "0 is not a list"), ([0], "1 answers for 2 images")):
        with pytest.raises(ValueError, match=message):
            choices(answer, TWO)


def test_equal_captions_are_chosen_together_and_captions_that_differ_in_case_are_not_confused():
    assert chosen_captions("a cat", ["a cat", "a cat", "a dog"]) == [0, 1]
    assert chosen_captions("A CAT", ["A cat", "a cat"]) == []
    assert chosen_captions("a cat", ["A cat", "a cat"]) == [1]


@pytest.mark.parametrize("answer", [3, "3", -1, 0.5, True, [0], {}])
def test_what_can_be_no_choice_is_refused(answer):
    with pytest.raises(ValueError, match=r"is not a choice among 3 captions: give an index from 0 to 2, a letter"):
        choices(answer, ONE)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("yes", 1), ("Yes.", 1), (" YES, there are zebras.", 1), ("Yes - two of them", 1), (True, 1), (1, 1), ("1", 1),
        ("true", 1), ("no", -1), ("No!", -1), ("No: there is a cat.\nA dog too.", -1), (False, -1), ("0", -1), (0, -1),
        ("The answer is yes.", 1), ("<think>No.</think>Yes", 1), (r"\boxed{No}", -1), ("It is left.\n\nYes", 1),
        ("**Answer**: no, it is not", -1), ('{"answer": "yes"}', 1), ("The answer is yes and no", 0), ("Not yes.", 0),
        ("False", -1), ("", 0), (None, 0), ("not sure", 0), ("no answer", 0), ("I say yes", 0), ("yesterday", 0),
        ("none", 0), (2, 0), (["yes"], 0), ("yes and no", 0),
    ],
)  # fmt: skip
def test_a_yes_is_a_yes_and_anything_unclear_is_neither(answer, value):
    assert yes_or_no(answer) == value


@pytest.mark.parametrize(
    ("fields", "shape", "message"),
    [
        ({"scores": [1, 2]}, (1, 3), r"1 × 2 scores; the example has 1 × 3"),
        ({"scores": [[1, 2], [3]]}, (2, 2), "2 × 1 or 2 scores"),
        ({"scores": "[1, 2"}, (1, 2), "is not a list in JSON"),
        ({"scores": [1, math.nan]}, (1, 2), "nan is not a finite number"),
        ({"scores": [1, True]}, (1, 2), "True is not"),
        ({"scores": ["1", "1_0"]}, (1, 2), "'1_0' is not a finite number"),
        ({"scores": [10**400, 1]}, (1, 2), "is not a finite number"),
        ({"scores": "yes"}, (1, 1), "'yes' is not a finite number"),
    ],
)
def test_scores_of_another_shape_or_kind_are_refused(fields, shape, message):
    with pytest.raises(ValueError, match=message):
        scores_of(fields["scores"], *shape)


SEEN = Example(
    "e", "c", "c", ("i",), ("a dog near a cat",), phrases=(Phrase("dog", 2, 5, ()), Phrase("cat", 13, 16, ()))
)


def test_boxes_are_sorted_by_descending_score():
    fields = {"boxes": [[], [[1, 2, 3, 4], [0, 0, 1, 1]]], "scores": "[[], [0.1, 0.3]]"}
    detections = boxes_of(fields, SEEN)
    assert [one.boxes.tolist() for one in detections] == [[], [[0, 0, 1, 1], [1, 2, 3, 4]]]
    assert [one.scores.tolist() for one in detections] == [[], [0.3, 0.1]]


@pytest.mark.parametrize(
    ("boxes", "scores", "message"),
    [
        ([[]], [[]], "boxes of 1 and scores of 1 phrases; it has 2"),
        ([[], []], None, "None is not a list"),
        ([[], [[0, 0, 1, 1]]], [[], []], "1 boxes and 0 scores of a phrase"),
        ([[], [[2, 0, 1, 1]]], [[], [1]], "is not x1, y1, x2, y2 with x1 <= x2"),
        ([[], [[0, 2, 1, 1]]], [[], [1]], "is not x1, y1, x2, y2 with x1 <= x2"),
        ([[], [[0, 0, 1]]], [[], [1]], "is not x1, y1, x2, y2"),
        ([[], [[0, 0, 1, math.inf]]], [[], [1]], "inf is not a finite number"),
        ([[], [[0, 0, 1, 1]]], [[], ["nan"]], "'nan' is not a finite number"),
    ],
)
def test_boxes_that_cannot_be_are_refused(boxes, scores, message):
    with pytest.raises(ValueError, match=message):
        boxes_of({"boxes": boxes, "scores": scores}, SEEN)
