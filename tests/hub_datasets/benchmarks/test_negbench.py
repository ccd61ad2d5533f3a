"""NegBench: the true caption comes first, whichever option it is, and what a table cannot mean is refused."""

from __future__ import annotations

import csv

import pytest
from builder_support import Small

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("negbench", tmp_path)


def test_the_true_caption_comes_first_and_the_others_keep_their_order(small):
    rows = small.rows("coco")
    options = [f"COCO_val 2, a cat{', but no' * number} dog" for number in range(4)]
    assert [row["category"] for row in rows] == ["positive", "negative", "hybrid"]
    assert (rows[2]["caption"], rows[2]["negative_captions"]) == (options[2], [*options[:2], options[3]])
    assert rows[0]["filename"] == "COCO_val0.jpg"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",2,hybrid", ",4,hybrid", "row 2: correct_answer is '4', which is not 0, 1, 2 or 3"),
        (",2,hybrid", ",,hybrid", "row 2: correct_answer is ''"),
        (",2,hybrid", ",2,mixed", "row 2: correct_answer_template 'mixed' is not one of positive, negative, hybrid"),
        ("COCO_val1.jpg", "..", r"row 1: the image '.*\.\.' does not end in a file name"),
    ],
)
def test_a_row_that_cannot_be_meant_is_named(small, old, new, message):
    file = small.folder / "COCO_val_mcq_llama3.1_rephrased.csv"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    small.error(DataError, message, "coco")


def test_the_captions_of_a_photograph_are_read_from_pythons_notation(small):
    plain, negated = (small.rows(config) for config in ("coco_retrieval", "coco_negated_retrieval"))
    assert plain[1]["captions"] == ["1: a cat on a mat", "1: A cat's nap.", '1: the "cat"']
    assert [row["filename"] for row in plain] == [row["filename"] for row in negated]
    assert [row["id"] for row in negated] == ["coco_negated_retrieval/0", "coco_negated_retrieval/1"]


@pytest.mark.parametrize("value", ["", "a cat", "[]", "['a', 1]", "['']", "__import__('os').getcwd()", "[" * 5000])
def test_captions_that_are_no_list_of_texts_are_refused_and_nothing_is_run(small, value):
    with (small.folder / "COCO_val_retrieval.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["filepath", "captions"], ["a.jpg", value]])
    small.error(DataError, r"row 0: captions is .*(, not a list of texts|captions: \[str\]).*gdown", "coco_retrieval")
