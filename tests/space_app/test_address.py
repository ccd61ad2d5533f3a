"""Addresses that name a view: read within bounds."""

from __future__ import annotations

from urllib.parse import urlencode

import gradio as gr
import pytest
from starlette.requests import Request

from vl_assay.space_app.pages.address import MOST_CHARACTERS, MOST_TEXT, View, parse_query


def request(query):
    scope = {"type": "http", "query_string": urlencode(query, doseq=True).encode(), "headers": []}
    return gr.Request(Request(scope))


@pytest.fixture
def view():
    with gr.Blocks():
        return View("compare", score=gr.Dropdown(), models=gr.Dropdown(), search=gr.Textbox(), every=gr.Checkbox())


def test_an_address_asks_for_what_is_known_and_for_nothing_else(view):
    query = {"tab": "compare", "score": "b", "models": ["x", "<b>", "y", "x"], "search": "n", "every": "true", "z": "1"}
    asked = view.read(request(query))
    assert asked.one("score", ["a", "b"]) == "b"
    assert asked.one("score", ["a"]) is None
    assert asked.many("models", {"x", "y", "z"}) == ["x", "y"]
    assert asked.many("models", {"x", "y", "z"}, most=1) == ["x"]
    assert (asked.text("search"), asked.flag("every")) == ("n", True)
    assert (asked.text("z"), asked.flag("search")) == ("", False)


def test_the_choices_of_another_tab_are_not_read_and_a_tab_need_not_be_named(view):
    assert view.read(request({"tab": "submit", "score": "a"})).one("score", ["a"]) is None
    assert view.read(request({"score": "a"})).one("score", ["a"]) == "a"


def test_long_texts_are_cut_and_long_addresses_ask_for_nothing(view):
    assert view.read(request({"search": "x" * 1000})).text("search") == "x" * MOST_TEXT
    assert parse_query(request({"search": "x" * MOST_CHARACTERS})) == {}
