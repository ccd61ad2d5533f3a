"""The leaderboard over HTTP: what is sent is checked, stored, evaluated and shown; the rest is refused."""

from __future__ import annotations

import json
import re
import socket
from types import SimpleNamespace
from urllib.request import urlopen

import gradio_client
import pytest
from console import invoke
from PIL import Image
from space_support import TYPED, VQA
from submission_support import changed

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import PredictionsError, StorageError
from vl_assay.space_app import app
from vl_assay.space_app.storage.records import results_of, submissions
from vl_assay.space_app.submissions.client import send
from vl_assay.space_app.submissions.submissions import OPTIONS

pytestmark = pytest.mark.usefixtures("one_reading_of_certificates")


def test_predictions_that_are_submitted_are_shown_with_the_figures_of_a_report(shared_space, toy):
    paths = [toy.path(task, "shuffled") for task in ("vqa", "groups")]
    result = invoke("submit", *paths, "--to", shared_space.address, "--name", "Mock shuffled", "--json")
    assert result.exit_code == 0, result.output
    receipt = json.loads(result.stdout)
    assert receipt["status"] == "accepted"
    assert [each["scores"] for each in receipt["results"]] == [each.scores for each in report(paths, **OPTIONS)]
    [stored] = [each for each in submissions(shared_space.storage) if each.id == receipt["id"]]
    assert stored.model["name"] == "Mock shuffled"
    # The predictions keep the name that they have.
    assert {each.model["name"] for each in results_of(shared_space.storage, stored)} == {"mock:shuffled"}
    entry = shared_space.catalogue.board.entry(VQA, "Mock shuffled", "recomputed")
    assert entry.value == report(paths[0], **OPTIONS)[0].scores["accuracy"]
    assert entry.source == f"submission {receipt['id']}"


def test_the_page_has_its_own_title_and_picture_and_how_to_cite_it(shared_space):
    with urlopen(f"{shared_space.address}/") as answer:
        page = answer.read().decode()
    assert re.findall(r'property="og:title" content="([^"]*)"', page) == [app.TITLE]
    assert re.findall(r'property="og:image" content="([^"]*)"', page) == ["/social.png"]
    assert page.count('property="og:type" content="website"') == 1
    with urlopen(f"{shared_space.address}/social.png") as answer:
        assert Image.open(answer).size == (1200, 630)
    assert "@software{vl_assay" in page


def test_bad_predictions_are_refused_with_a_reason_and_not_stored(shared_space, toy, tmp_path):
    good, path, before = toy.predictions("vqa", "shuffled"), tmp_path / "bad.parquet", shared_space.storage.paths()
    for content in (good[: len(good) // 2], changed(good, rows=lambda rows: rows.pop())):
        path.write_bytes(content)
        with pytest.raises(PredictionsError, match=r"^the leaderboard refuses the submission: bad\.parquet .{20}"):
            send(shared_space.address, [path], TYPED)
    assert shared_space.storage.paths() == before
    with pytest.raises(
        StorageError, match=r"http://127\.0\.0\.1:9 did not take the predictions .* stores nothing twice"
    ):
        send("http://127.0.0.1:9", [path], TYPED)
    result = invoke("submit", tmp_path / "nowhere.parquet")
    assert "nowhere.parquet is not a file" in str(result.exception)


def test_a_flagged_submission_is_shown_when_a_maintainer_accepts_it(shared_space, toy):
    result = invoke("submit", toy.path("vqa", "constant"), "--to", shared_space.address, "--name", "A constant")
    assert "a maintainer will review this first" in result.output
    [found] = [each for each in submissions(shared_space.storage) if each.model["name"] == "A constant"]
    assert found.status == "flagged"
    assert shared_space.catalogue.board.entry(VQA, found.model["name"], "recomputed") is None
    listed = invoke("moderate", "--storage", shared_space.folder)
    assert found.id in listed.output
    decided = invoke(
        "moderate", found.id, "accepted", "--by", "me", "--reason", "a baseline", "--storage", shared_space.folder
    )
    assert f"{found.id} is accepted" in decided.output
    shared_space.catalogue.update()
    assert shared_space.catalogue.board.entry(VQA, found.model["name"], "recomputed") is not None
    assert "no submission waits" in invoke("moderate", "--storage", shared_space.folder).output


def test_the_command_serves_the_page_of_a_storage(tmp_path, monkeypatch):
    served = {}
    monkeypatch.setattr(app, "launch", lambda blocks, **options: served.update(options, title=blocks.title))
    monkeypatch.setattr(app, "prepare", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = invoke("leaderboard", "--port", port, "--storage", tmp_path / "board")
    assert f"the leaderboard is at http://127.0.0.1:{port}; stop it with Ctrl-C" in result.output
    assert served == {"server_name": "127.0.0.1", "server_port": port, "quiet": True, "title": app.TITLE}
    assert (tmp_path / "board").is_dir()


RECEIPT = {"id": "a", "time": "b", "status": "c", "flags": []}
ODD = (
    *(None, 3, "done", [], {}, {"id": 1}, {"error": {"a": 1}}, {"error": None}, RECEIPT | {"flags": None}),
    *(RECEIPT | {"flags": [1]}, RECEIPT | {"time": 5}, RECEIPT | {"key": 5}, RECEIPT | {"key": "k" * 101}),
)


def test_an_answer_of_another_server_is_told_in_a_line(toy, monkeypatch):
    for answer in ODD:
        stand_in = SimpleNamespace(predict=lambda *values, answer=answer, **options: answer)
        monkeypatch.setattr(gradio_client, "Client", lambda *values, stand_in=stand_in, **options: stand_in)
        with pytest.raises(
            (StorageError, PredictionsError), match=r"is not a receipt|refuses the submission: "
        ) as told:
            send("http://127.0.0.1:9", [toy.path("vqa")], TYPED)
        assert "\n" not in str(told.value)
