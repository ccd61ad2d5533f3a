"""The Benchmarks page and the examples of the Compare page: levels to compare with, audits, texts and pictures."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from html import unescape
from typing import NamedTuple

import pytest
from PIL import Image
from space_support import ITM
from submission_support import MemoryStorage, small_toy_scenes

from vl_assay.hub_datasets import benchmark_names, load_examples
from vl_assay.metrics.common.errors import DataError, PredictionsError
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.board.entries import Column
from vl_assay.space_app.pages import cards, compare, pictures

CHOSEN = [("demo-clip", "recomputed"), ("mock:bag-of-words", "recomputed")]


@pytest.fixture(scope="module", autouse=True)
def toy(tmp_path_factory):
    """toy_scenes with fewer scenes, which are the first of all."""
    with small_toy_scenes(tmp_path_factory.mktemp("toy")) as small:
        yield small


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue(MemoryStorage())


def entries(catalogue, column, chosen=CHOSEN):
    return [catalogue.board.entry(column, *who) for who in chosen]


def cells(html):
    """The texts of a table's cells, line by line."""
    lines = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [
        [unescape(re.sub("<[^>]+>", " ", cell)).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", line)]
        for line in lines
    ]


def images(html):
    return [base64.b64decode(code) for code in re.findall(r'src="data:image/png;base64,([^"]*)"', html)]


def test_levels_of_references_and_of_chance_are_those_of_the_board_and_of_the_metrics(catalogue):
    head, *lines = cells(cards.references_html(catalogue.board, "toy_scenes"))
    assert set(head) == {"score", "Chance", "mock:bag-of-words", "mock:constant"}
    found = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    bag = catalogue.board.entry(ITM, "mock:bag-of-words", "recomputed").value
    assert found["itm · accuracy"]["mock:bag-of-words"] == f"{100 * bag:.1f}"
    chance = {"itm · accuracy": "50.0", "order · accuracy": "20.0", "hard positives · brittleness ↓": "33.3"}
    assert {name: found[name]["Chance"] for name in chance} == chance
    assert {"detection · grounding recall@1", "detection · group recall@1"} <= set(found)
    assert len(found) == len(lines)
    levels = dict(cards.chance_levels("toy_scenes"))  # of examples with two captions, and with five
    assert (levels[ITM], levels[Column("toy_scenes", "order", "aro_itm", "accuracy")]) == pytest.approx((1 / 2, 1 / 5))
    _, *winoground = cells(cards.references_html(catalogue.board, "winoground"))
    assert winoground == [
        ["groups · text score", "25.0"], ["groups · image score", "25.0"], ["groups · group score", "16.7"],
    ]  # fmt: skip
    head, *sugarcrepe = cells(cards.references_html(catalogue.board, "sugarcrepe"))
    assert {"Vera", "Grammar model"} <= set(head)
    assert sugarcrepe[0][0] == "itm · macro accuracy"


@pytest.mark.parametrize("name", benchmark_names())
def test_the_page_of_every_benchmark_can_be_drawn(name, catalogue):
    assert all(isinstance(part, str) for part in cards.card(name))
    assert cards.references_html(catalogue.board, name).count("<table") <= 1
    assert cards.audit_html(name).count("<table") <= 1


def test_an_audit_is_a_table_of_what_was_found_best_first(monkeypatch):
    scorers = {
        "words <b>": {"kind": "probe", "accuracy": 0.51, "interval": [0.49, 0.53], "tie_rate": 0.0},
        "final_stop": {"kind": "rule", "accuracy": 0.662, "interval": [0.65, 0.67], "tie_rate": 0.1},
        "vera": {"kind": "blind_model", "accuracy": 0.5, "interval": None, "tie_rate": 0.1},
    }
    audits = {"sugarcrepe/itm": {"scorers": scorers, "normalised": {"final_stop": {"accuracy": 0.5}}}}
    monkeypatch.setattr(cards, "read_audit", lambda name: audits)
    html = cards.audit_html("sugarcrepe")
    assert cells(html)[1:] == [
        ["itm: final stop", "66.2", "65.0 – 67.0", "50.0", "rule"],
        ["itm: words <b>", "51.0", "49.0 – 53.0", "–", "probe"],
        ["itm: vera", "50.0", "–", "–", "blind model"],
    ]
    assert "<b>" not in html
    monkeypatch.setattr(cards, "read_audit", lambda name: None)
    assert cards.audit_html("sugarcrepe") == ""


def test_examples_have_texts_and_those_of_toy_scenes_their_images():
    html = cards.examples_html("toy_scenes")
    _, *lines = cells(html)
    assert [line[0] for line in lines[:2]] == ["test-000000/add_att", "test-000000/add_obj"]
    data = load_examples("toy_scenes/itm")[0]
    assert all(text in lines[0][-1] for text in data.examples[0].captions)
    shown = images(html)
    assert len(shown) == 5 * 6 + 5  # five of each of six tasks, and groups have two
    ours, theirs = (Image.open(io.BytesIO(each)) for each in (shown[0], data.image_bytes(data.examples[0].images[0])))
    assert ours.tobytes() == theirs.convert("RGB").tobytes()


class Data(NamedTuple):
    """The part of `TaskData` that pictures need."""

    content: bytes | Exception
    benchmark: str = "toy_scenes"

    def image_bytes(self, key):
        if isinstance(self.content, Exception):
            raise self.content
        return self.content


def test_a_picture_that_is_not_ours_damaged_missing_or_large_does_no_harm():
    assert {name for name in benchmark_names() if pictures.may_show(name)} == {"toy_scenes"}
    [data] = load_examples("toy_scenes/itm")
    example, good = data.examples[0], data.image_bytes(data.examples[0].images[0])
    assert len(images(pictures.pictures_html(Data(good), example))) == 1
    assert pictures.pictures_html(Data(good, "sugarcrepe"), example) == ""
    assert pictures.pictures_html(Data(good), replace(example, images=("",))) == ""
    damaged = (b"", b"no image", good[: len(good) // 2], good[:40] + b"\0" * 60 + good[100:])
    for content in (*damaged, DataError("the images have changed")):
        assert pictures.pictures_html(Data(content), example) == ""
    file = io.BytesIO()
    Image.new("P", (900, 300)).save(file, "PNG")
    html = pictures.pictures_html(Data(file.getvalue()), replace(example, id="<'>"))
    assert Image.open(io.BytesIO(images(html)[0])).size == (128, 43)
    assert "<'>" not in html


def test_examples_that_are_not_here_are_told_of():
    assert "Its examples are not on this server" in cards.examples_html("winoground")


def test_models_that_disagree_are_shown_with_captions_scores_and_images(catalogue):
    html = compare.disagreements_html(catalogue, ITM, entries(catalogue, ITM))
    head, *lines = cells(html)
    assert head == ["example", "image", "captions or question", "demo-clip", "mock:bag-of-words"]
    assert "of 7,000 examples on which they disagree, the first 20" in html
    rows = {row.id: row for row in catalogue.predictions(catalogue.board.recomputed(ITM)["demo-clip"]).rows}
    for name, _, _, said, _ in lines:
        assert said == ", ".join(f"{score:.4g}" for score in rows[name].scores[0])
    assert len(images(html)) == len(lines) == 20


def test_a_score_that_is_no_mean_has_a_difference_and_no_wins(catalogue):
    f1, mocks = Column("toy_scenes", "vqa", "yes_no_f1", "macro_f1"), ("mock:bag-of-words", "mock:constant")
    chosen = entries(catalogue, f1, [(mock, "recomputed") for mock in mocks])
    [_, found] = cells(compare.differences_html(catalogue, f1, chosen))
    one, two = (entry.value for entry in chosen)
    assert (found[1], found[3:]) == (f"{100 * (one - two):+.1f}", ["< 0.001", "", "", ""])
    assert compare.disagreements_html(catalogue, f1, chosen) == ""


def test_detectors_disagree_on_phrases(catalogue):
    recall = Column("toy_scenes", "detection", "grounding_recall", "macro_recall_at_1")
    html = compare.disagreements_html(
        catalogue, recall, entries(catalogue, recall, [("demo-owlvit (max_boxes=10)", "recomputed"), CHOSEN[1]])
    )
    _, *lines = cells(html)
    assert all(re.search(r", phrase \d$", line[0]) and sorted(line[-2:]) == ["0", "1"] for line in lines)
    assert lines


def test_disagreements_without_the_data_or_without_the_right_say_so(catalogue, monkeypatch):
    monkeypatch.setattr(pictures, "may_show", lambda name: False)
    html = compare.disagreements_html(catalogue, ITM, entries(catalogue, ITM))
    assert images(html) == []
    assert "licences do not allow a leaderboard to show them" in html

    def refuse(metadata):
        raise PredictionsError("the data are not on this server")

    monkeypatch.setattr(compare, "expected", refuse)
    assert "the data are not on this server" in compare.disagreements_html(catalogue, ITM, entries(catalogue, ITM))
