"""The page of a metric's Space: from the cells of a table to the metric's input."""

import urllib.request

import gradio as gr
import pytest

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.modules.page import Page
from vl_assay.metrics.sugarcrepe_itm import app


def test_cells_hold_json_or_text_and_empty_rows_and_labels_are_left_out():
    page: Page = app.PAGE
    assert list(page.example) == ["scores", "correct", "categories"]
    labelled = page.compute([["[2, 1]", 0, "swap_obj"], ["", " ", None], ["[1, 2]", "0", "add_att"]], "wrong")
    assert (labelled["accuracy"], list(labelled["per_category"])) == (0.5, ["swap_obj", "add_att"])
    assert page.compute([["[2, 1]", "0", ""], ["[1, 1]", "0", None]], "right")["accuracy"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["", "0", "swap_obj"], "row 3 has no scores; fill it in"),
        (["[2, 1]", "0"], "row 3 has 2 cells; the table has 3 columns: scores, correct, categories"),
        (["[2, 1]", "0", ""], "row 3 has no categories; fill it in"),
        (["[2, 1", "0", "swap_obj"], "row 3: the scores are '\\[2, 1'; fill in JSON"),
        (["[2, NaN]", "0", "swap_obj"], "NaN or infinite in row 1"),
    ],
)
def test_a_cell_that_cannot_be_used_is_named(row, message):
    with pytest.raises(ScoresError, match=message):
        app.PAGE.compute([["[2, 1]", "0", "swap_obj"], ["", "", ""], row], "wrong")


def test_a_page_starts_its_button_computes_and_an_error_is_shown_in_words():
    blocks = app.PAGE.build()
    [press] = [function.fn for function in blocks.fns.values() if function.api_name == "score"]
    table, result = press(app.PAGE.rows, "wrong")
    assert result["accuracy"] == 0.5
    assert table.headers[1] == "accuracy"
    with pytest.raises(gr.Error, match="the table is empty; fill in at least one row"):
        press([[""] * 3], "wrong")
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, share=False)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert blocks.title in answer.read().decode()
    finally:
        blocks.close()
