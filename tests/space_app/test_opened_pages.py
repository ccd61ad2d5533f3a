"""What pages show when they open: what their address asks for, in whichever order the browser's events come."""

from __future__ import annotations

from urllib.parse import urlencode

import gradio as gr
import pytest
from space_support import many_models
from starlette.requests import Request
from submission_support import MemoryStorage

from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.pages import gallery
from vl_assay.space_app.pages.address import MOST_CHARACTERS, MOST_TEXT, View, parse_query
from vl_assay.space_app.pages.compare import compare_tab
from vl_assay.space_app.pages.leaderboard import Leaderboard
from vl_assay.space_app.pages.model import model_tab

BOARD = Catalogue(MemoryStorage()).board
SCORES = [column.heading for column in BOARD.columns if column.benchmark == "toy_scenes"][:2]
MODELS = ["demo-clip (recomputed)", "mock:bag-of-words (recomputed)"]


def request(**query):
    return gr.Request(Request({"type": "http", "query_string": urlencode(query, doseq=True).encode(), "headers": []}))


@pytest.fixture
def view():
    with gr.Blocks():
        return View("compare", score=gr.Dropdown(), models=gr.Dropdown(), search=gr.Textbox(), every=gr.Checkbox())


def test_an_address_asks_for_what_is_known_and_for_nothing_else(view):
    query = {"tab": "compare", "score": "b", "models": ["x", "<b>", "y", "x"], "search": "n", "every": "true", "z": "1"}
    asked = view.read(request(**query))
    assert asked.one("score", ["a", "b"]) == "b"
    assert asked.one("score", ["a"]) is None
    assert asked.many("models", {"x", "y", "z"}) == ["x", "y"]
    assert asked.many("models", {"x", "y", "z"}, most=1) == ["x"]
    assert (asked.text("search"), asked.flag("every")) == ("n", True)
    assert (asked.text("z"), asked.flag("search")) == ("", False)

    assert view.read(request(tab="submit", score="a")).one("score", ["a"]) is None
    assert view.read(request(score="a")).one("score", ["a"]) == "a"
    assert view.read(request(search="x" * 1000)).text("search") == "x" * MOST_TEXT
    assert parse_query(request(search="x" * MOST_CHARACTERS)) == {}


def events(page):
    """The functions of a page's events by their names."""
    with gr.Blocks() as blocks, gr.Tab() as tab:
        opened = page(Catalogue(MemoryStorage(), many_models(3, 1)), tab)
    return {function.name: function.fn for function in blocks.fns.values()}, opened


@pytest.fixture
def model():
    """What happens when the Model page opens and when it is selected, as the model and the profile that are set."""
    functions, (_, (on_open, _, _)) = events(model_tab)

    def values(updates):
        return [update if isinstance(update, str) else update.get("value") for update in updates]

    return lambda request: values(on_open(request)), lambda *values_: values(functions["on_select"](*values_))


def test_a_model_of_an_address_is_chosen_whichever_event_comes_first(model):
    on_open, on_select = model
    asked = request(tab="model", model="model 1")
    assert on_open(asked) == on_select(None, asked) == ["model 1", None]
    assert on_select("model 2", asked) == [None, None]
    unknown = request(tab="model", model="<model 9>")
    for name, profile in (on_open(unknown), on_select(None, unknown)):
        assert name is None
        assert "There is no model &#39;&lt;model 9&gt;&#39; on this leaderboard." in profile


def test_the_page_opens_with_a_model_that_only_its_selection_chooses(model):
    on_open, on_select = model
    for query in ({"tab": "model"}, {"tab": "compare", "models": "model 1"}, {}):
        assert on_open(request(**query)) == [None, None]
        assert on_select(None, request(**query)) == ["demo-clip", None]


def test_the_comparison_opens_with_the_score_and_the_models_of_its_address():
    _, (on_open, _, _) = events(lambda catalogue, tab: compare_tab(catalogue))
    score, models, answer = on_open(request(tab="compare", score=SCORES[0], models=MODELS))
    assert (score["value"], models["value"]) == (SCORES[0], MODELS)
    assert "is better than" in answer


def test_errors_are_drawn_whichever_event_comes_first_and_only_where_they_are_seen():
    functions, (on_open, _, outputs) = events(gallery.gallery_tab)
    one, two = "mock:bag-of-words", "demo-clip"
    asked = request(tab="errors", task="toy_scenes/order", models=[one, two], show="disagree")
    start, drawn = -1, on_open(asked)
    assert [update["value"] for update in drawn[:3]] == ["toy_scenes/order", [one, two], "disagree"]
    assert drawn == functions["on_select"](None, None, "any", "", start, asked)
    first, later = on_open(request()), functions["on_select"](None, None, "any", "", start, request())
    assert first[2:] == [gr.skip()] * (len(outputs) - 2)
    assert first[:2] == later[:2]
    assert "Examples 1 to 12 of" in later[4]
    assert functions["on_select"]("toy_scenes/itm", [two], "any", "", 0, request()) == [gr.skip()] * len(outputs)


def shown(n):
    """The values of the Leaderboard page, as a request may hold them."""
    return ["Overview", SCORES * n, "", None, None, None, ["recomputed"] * n, False, False, ""]


EVENTS = {
    "leaderboard": (lambda catalogue, tab: Leaderboard(catalogue), ("_draw", "write"), shown),
    "compare": (lambda catalogue, tab: compare_tab(catalogue), ("draw",), lambda n: [SCORES[0], MODELS * n]),
    "errors": (
        gallery.gallery_tab,
        ("draw",),
        lambda n: ["toy_scenes/order", ["demo-clip", "mock:bag-of-words"] * n, "any", ""],
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_known_name_that_a_request_repeats_without_end_counts_once(name):
    page, names, values = EVENTS[name]
    functions, _ = events(page)
    for event in names:
        assert functions[event](*values(1)) == functions[event](*values(2_000))
