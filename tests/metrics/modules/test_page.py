"""The page of a metric's Space: from the cells of a table to the metric's input."""

from __future__ import annotations

import dataclasses
import re

import gradio as gr
import pytest

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.spec import MetricSpec, ScoreSpec
from vl_assay.metrics.modules import page
from vl_assay.metrics.modules.page import InputColumn
from vl_assay.metrics.sugarcrepe_itm import app


def recorder(**inputs):
    """A metric that returns what it was given."""
    return {"n": 1, "inputs": inputs}


A, B = InputColumn("a"), InputColumn("b")
RECORDING = page.Page(
    app.__file__,
    MetricSpec(recorder, "matching", (ScoreSpec("n"),), ties=None),
    inputs={
        "predictions": [[A, B], [B, A]],
        "references": {"boxes": InputColumn("boxes", "list"), "first": A},
        "categories": InputColumn("category", "label"),
    },
    example=[["1", "2", "[[1, 2, 3, 4]]", "x"]],
)


def test_cells_go_where_the_metric_wants_them():
    result = RECORDING.compute([["1", "2.5", "[[1, 2, 3, 4]]", "x"], ["3", "1e-3", "", "y"]])
    assert result["inputs"] == {
        "predictions": [[[1.0, 2.5], [2.5, 1.0]], [[3.0, 0.001], [0.001, 3.0]]],
        "references": [{"boxes": [[1, 2, 3, 4]], "first": 1.0}, {"boxes": [], "first": 3.0}],
        "categories": ["x", "y"],
    }


def test_an_empty_column_of_labels_is_left_out_and_so_are_empty_rows():
    result = RECORDING.compute([[1, 2, None, None], ["", " ", None, ""], ["3", "4", "[]", ""]])
    assert "categories" not in result["inputs"]
    assert len(result["inputs"]["predictions"]) == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["x", "1", "", "s"], "row 3: the a is 'x'; fill in a finite number"),
        (["1", "", "", "s"], "row 3: the b is ''; fill in a finite number"),
        (["1", "nan", "", "s"], "row 3: the b is 'nan'; fill in a finite number"),
        (["1", "2", "[1", "s"], "row 3: the boxes are '[1'; fill in a list, such as [1, 2], or nothing"),
        (["1", "2", "7", "s"], "row 3: the boxes are '7'; fill in a list"),
        (["1", "2", "", "s", "spare"], "row 3 has 5 cells; the table has 4 columns"),
        (["1", "2", ""], "row 3 has 3 cells; the table has 4 columns: a, b, boxes, category"),
        (["1", "2", "", ""], "row 3 has no category; give every row one, or none at all"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_by_its_row(row, message):
    with pytest.raises(ScoresError, match=re.escape(message)):
        RECORDING.compute([["2", "1", "", "s"], ["", "", "", ""], row])


def test_text_that_is_needed_must_be_filled_in():
    said = InputColumn("said", "text")
    answers = dataclasses.replace(RECORDING, inputs={"answers": said})
    assert answers.compute([["yes"], ["no"]])["inputs"] == {"answers": ["yes", "no"]}
    both = dataclasses.replace(RECORDING, inputs={"answers": said, "categories": InputColumn("split", "label")})
    with pytest.raises(ScoresError, match="row 2 has no said; fill it in"):
        both.compute([["yes", "x"], ["", "x"]])


def test_the_chosen_option_reaches_the_metric():
    assert app.PAGE.compute(app.PAGE.example, "right")["accuracy"] == 0.75


def test_the_button_computes_and_an_error_is_shown_in_words():
    blocks = app.PAGE.build()
    [press] = [function.fn for function in blocks.fns.values() if function.api_name == "score"]
    table, result = press([list(row) for row in app.PAGE.example], "wrong")
    assert result["accuracy"] == 0.5
    assert table.headers[1] == "accuracy"
    with pytest.raises(gr.Error, match="the table is empty; fill in at least one row"):
        press([[""] * 4], "wrong")
