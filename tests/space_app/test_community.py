"""What others report on the Hub for a benchmark: shown apart, bounded and escaped, whatever the Hub answers."""

from __future__ import annotations

import json
import logging
import re

import pytest
from hub_stand_in import HubStandIn, Repository
from huggingface_hub import DatasetCard, HfApi

from vl_assay.hub_datasets import benchmark_names
from vl_assay.hub_datasets.core.benchmarks import get_card
from vl_assay.space_app.board.community import MOST_ROWS, Community, reported_results
from vl_assay.space_app.pages.cards import reported_html

DATASET, TOKEN = "vl-assay/toy_scenes", "hf_secret_token_of_the_space"
AUTHOR = {"type": "user", "name": "someone", "fullname": "Some One", "avatarUrl": "https://hub/a.png"}


def row(**changes):
    known = {"rank": 1, "modelId": "owner/model", "value": 0.875, "filename": ".eval_results/x.yaml"}
    return {**known, "verified": False, "author": AUTHOR, **changes}


def hub_with(rows, name=DATASET, **options):
    hub = HubStandIn(**options)
    hub.repositories[name] = Repository()
    hub.repositories[name].commit("initial commit", {})
    if rows is not None:
        hub.leaderboards[name] = json.dumps(rows).encode()
    return hub


def asked(hub):
    return reported_results("toy_scenes", HfApi(endpoint=hub.url))


@pytest.mark.usefixtures("online")
def test_rows_are_bounded_and_escaped_and_those_that_cannot_be_shown_are_counted():
    hostile = "<script>alert(1)</script>\u202e" + "x" * 1000
    rows = [
        row(source={"name": hostile, "url": "javascript:alert(1)"}, notes=hostile, verified="yes", pullRequest=7),
        row(modelId="other/model", value=91, verified=True),
        *(row(value=value) for value in (float("nan"), float("inf"), 10**400, "0.9", None, True)),
        row(modelId='x" onclick="alert(1)'),
        *(row() for _ in range(MOST_ROWS)),
    ]
    with hub_with(rows) as hub:
        api = HfApi(endpoint=hub.url)
        found = reported_results("toy_scenes", api)
        html = reported_html("toy_scenes", api)
        assert hub.seen["leaderboard"] == 1  # the second is from memory
    assert (len(found.rows), found.unreadable, found.over_limit) == (MOST_ROWS - 7, 7, 9)
    first, second = found.rows[:2]
    assert (first.model, first.value, first.is_verified, first.pull_request) == ("owner/model", 0.875, False, 7)
    assert (second.value, second.is_verified, second.source) == (91, True, "")
    assert max(len(first.notes), len(first.source)) == 200
    assert "&lt;script&gt;" in html
    assert not any(text in html for text in ("<script", "javascript:", "onclick", "\u202e"))
    assert "neither recomputed nor checked here" in html


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize(
    ("faults", "problem"),
    [({"busy": 1}, "status 429"), ({"broken": 1}, "status 5"), ({"dropped": 1}, "RemoteProtocol"), ({}, "status 403")],
)
def test_a_hub_that_fails_is_told_and_the_token_is_not_sent(faults, problem, caplog, capsys, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with hub_with([row()], faults=faults) as hub:
        hub.gated.add(DATASET)
        api = HfApi(endpoint=hub.url, token=TOKEN)
        found = reported_results("toy_scenes", api)
        assert found.problem.startswith(problem)
        assert not found.rows
        assert hub.seen["authorized"] == 0
        assert "The Hub could not be read" in reported_html("toy_scenes", api)
    assert TOKEN not in caplog.text + "".join(capsys.readouterr()) + str(found)


@pytest.mark.usefixtures("online")
def test_a_renamed_dataset_is_followed_and_none_without_a_leaderboard_is_shown():
    with hub_with([row()], "vl-assay/renamed") as hub:
        hub.repositories[DATASET] = hub.repositories["vl-assay/renamed"]
        assert asked(hub) == Community()
        hub.renamed[DATASET] = "vl-assay/renamed"
        assert [each.model for each in asked(hub).rows] == ["owner/model"]
    with hub_with([{"rank": 1}]) as hub:
        assert asked(hub).problem == "KeyError"


@pytest.mark.usefixtures("online")
def test_datasets_that_a_card_declares_are_read_too():
    with hub_with([row(notes="<b>")], "facebook/winoground") as hub:
        api = HfApi(endpoint=hub.url)
        found, html = reported_results("winoground", api), reported_html("winoground", api)
        assert hub.seen["leaderboard"] == 2
    assert [(each.dataset, each.model) for each in found.rows] == [("facebook/winoground", "owner/model")]
    assert 'href="https://huggingface.co/datasets/facebook/winoground"' in html
    assert 'href="https://huggingface.co/owner/model"' in html
    assert "<b>" not in html


def test_cards_declare_the_datasets_to_which_they_link_as_the_benchmarks_own():
    declared = {name: DatasetCard(get_card(name)).data.get("hub_leaderboards", []) for name in benchmark_names()}
    assert declared["winoground"] == ["facebook/winoground"]
    linked = {
        name: re.findall(r"\[dataset\]\(https://huggingface\.co/datasets/([\w.-]+/[\w-]+)\)", get_card(name))
        for name in benchmark_names()
    }
    assert declared == linked


def test_offline_nothing_is_shown():
    assert reported_html("toy_scenes") == ""
