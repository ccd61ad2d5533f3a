"""The leaderboard over HTTP: what is sent is checked, stored, evaluated and shown; the rest is refused."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from urllib.request import urlopen

import gradio as gr
import pytest
from console import invoke
from PIL import Image
from space_support import TYPED, VQA
from submission_support import changed

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import PredictionsError, StorageError
from vl_assay.space_app.app import TITLE
from vl_assay.space_app.storage.records import submissions
from vl_assay.space_app.submissions.client import send
from vl_assay.space_app.submissions.submissions import OPTIONS

pytestmark = pytest.mark.usefixtures("one_reading_of_certificates")


def test_predictions_that_are_submitted_are_shown_with_the_figures_of_a_report(space, toy):
    paths = [toy.path(task, "shuffled") for task in ("vqa", "groups")]
    result = invoke("submit", *paths, "--to", space.address, "--name", "Mock shuffled", "--json")
    assert result.exit_code == 0, result.output
    receipt = json.loads(result.stdout)
    assert receipt["status"] == "accepted"
    assert [each["scores"] for each in receipt["results"]] == [each.scores for each in report(paths, **OPTIONS)]
    [stored] = submissions(space.storage)
    assert (stored.id, stored.model["name"]) == (receipt["id"], "Mock shuffled")
    entry = space.catalogue.board.entry(VQA, "Mock shuffled", "recomputed")
    assert entry.value == report(paths[0], **OPTIONS)[0].scores["accuracy"]
    assert entry.source == f"submission {receipt['id']}"
    typed = TYPED | {"name": "Mock shuffled", "family": "", "parameters": "", "training_data": ""}
    assert send(space.address, paths, typed)["id"] == receipt["id"]
    assert len(submissions(space.storage)) == 1


def test_the_page_has_its_own_title_and_picture_and_says_what_it_is(space):
    with urlopen(f"{space.address}/") as answer:
        page = answer.read().decode()
    assert re.findall(r'property="og:title" content="([^"]*)"', page) == [TITLE]
    assert re.findall(r'property="og:image" content="([^"]*)"', page) == ["/social.png"]
    assert page.count('property="og:type" content="website"') == 1
    assert "header-image" not in page
    with urlopen(f"{space.address}/social.png") as answer:
        assert Image.open(answer).size == (1200, 630)
    assert "@software{vl_assay" in page
    assert page.count("?tab=about") >= 3  # About, Cite, Docs


def test_bad_predictions_are_refused_with_a_reason_and_not_stored(space, toy, tmp_path):
    good, path = toy.predictions("vqa", "shuffled"), tmp_path / "bad.parquet"
    for content in (good[: len(good) // 2], changed(good, rows=lambda rows: rows.pop())):
        path.write_bytes(content)
        with pytest.raises(PredictionsError, match=r"^the leaderboard refuses the submission: bad\.parquet .{20}"):
            send(space.address, [path], TYPED)
    assert space.storage.paths() == []
    with pytest.raises(
        StorageError, match=r"http://127\.0\.0\.1:9 did not take the predictions .* stores nothing twice"
    ):
        send("http://127.0.0.1:9", [path], TYPED)
    result = invoke("submit", tmp_path / "nowhere.parquet")
    assert "nowhere.parquet is not a file" in str(result.exception)


def test_a_flagged_submission_is_shown_when_a_maintainer_accepts_it(space, toy):
    result = invoke("submit", toy.path("vqa", "constant"), "--to", space.address, "--name", "A constant")
    assert "a maintainer will review this first" in result.output
    [found] = submissions(space.storage)
    assert found.status == "flagged"
    assert space.catalogue.board.entry(VQA, found.model["name"], "recomputed") is None
    listed = invoke("moderate", "--storage", space.folder)
    assert found.id in listed.output
    decided = invoke(
        "moderate", found.id, "accepted", "--by", "me", "--reason", "a baseline", "--storage", space.folder
    )
    assert f"{found.id} is accepted" in decided.output
    space.catalogue.update()
    assert space.catalogue.board.entry(VQA, found.model["name"], "recomputed") is not None
    assert "no submission waits" in invoke("moderate", "--storage", space.folder).output


def test_the_command_serves_the_page(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "vl_assay.metrics.common.command_line", "leaderboard",
         "--port", str(port), "--storage", tmp_path],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        for _ in range(300):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
                assert "VL-Assay" in page.read().decode()
                break
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.2)
        else:
            pytest.fail("the page did not answer within a minute")
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert f"the leaderboard is at http://127.0.0.1:{port}" in output


ODD = [None, 3, "done", [], [1], {}, {"id": 1}, {"error": {"a": 1}}, {"error": None}, True,
       {"id": "a", "time": "b", "status": "c", "flags": None}, {"id": "a", "time": "b", "status": "c", "flags": [1]},
       {"id": "a", "time": 5, "status": "c", "flags": []},
       {"id": "a", "time": "b", "status": "c", "flags": [], "key": 5},
       {"id": "a", "time": "b", "status": "c", "flags": [], "key": "k" * 101}]  # fmt: skip


@pytest.mark.parametrize("answer", ODD, ids=str)
def test_an_answer_of_another_server_is_told_in_a_line(answer, toy):
    with gr.Blocks() as blocks:
        inputs = [gr.File(file_count="multiple"), *(gr.Textbox() for _ in range(5))]
        gr.Button().click(lambda *_: answer, inputs, gr.JSON(), api_name="submit")
    _, address, _ = blocks.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    try:
        result = invoke("submit", toy.path("vqa"), "--to", address)
    finally:
        blocks.close(verbose=False)
    assert result.exit_code == 1
    assert isinstance(result.exception, (StorageError, PredictionsError, SystemExit))
