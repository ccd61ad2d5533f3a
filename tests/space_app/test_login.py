"""Login: on a Space a submission bears the verified name of who made it, and nothing that is sent can set it."""

from __future__ import annotations

import gradio as gr
import gradio_client
import httpx
import pytest
from login_support import TYPED, call, cookie, on_a_space, profile
from space_support import served
from submission_support import model_predictions

from vl_assay.metrics.common.errors import StorageError, SubmissionError
from vl_assay.space_app import app
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.storage import open_storage
from vl_assay.space_app.storage.records import submissions
from vl_assay.space_app.submissions import client, login

pytestmark = pytest.mark.usefixtures("one_reading_of_certificates")


@pytest.fixture(scope="module")
def space(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    with on_a_space(folder), served(folder) as space:
        yield space


def handler(blocks, name):
    [found] = {function.fn for function in blocks.fns.values() if function.name == name}
    return found


def test_without_a_space_there_is_no_login_and_no_name(tmp_path, monkeypatch):
    for name in ("SPACE_ID", "OAUTH_CLIENT_ID"):  # of the Space that other tests of this file share
        monkeypatch.delenv(name, raising=False)
    blocks = app.build(Catalogue(open_storage(str(tmp_path))))
    assert not any(isinstance(block, gr.LoginButton) for block in blocks.blocks.values())
    assert login.sender(profile("ada"), gr.OAuthToken("hf_adas_own_token", "", 0)) == ""
    assert login.visitor(profile("ada")) == ""


@pytest.fixture(scope="module")
def receipts(space, toy, tmp_path_factory):
    """The receipts of a user who has logged in with the button, and of one who sends a token."""
    folder = tmp_path_factory.mktemp("predictions")
    return {
        "grace": call(space, model_predictions(toy, folder, 1), {"cookie": cookie("grace")}),
        "ada": call(space, model_predictions(toy, folder, 2), oauth_token="hf_adas_own_token"),
    }


def test_a_submission_bears_the_name_of_who_logs_in_with_the_button_or_sends_a_token(space, receipts):
    page = httpx.get(space.address).text
    assert "Sign in with Hugging Face" in page
    assert "[The files of this Space](https://huggingface.co/spaces/me/board/tree/main) hold the leaderboard" in page
    assert [receipt["status"] for receipt in receipts.values()] == ["accepted"] * 2
    users = {each.id: each.user for each in submissions(space.storage)}
    assert {name: users[receipt["id"]] for name, receipt in receipts.items()} == {"grace": "grace", "ada": "ada"}


STRANGERS = [
    ({}, None, "nobody is logged in"),
    ({"cookie": cookie("ada", "guessed")}, None, "nobody is logged in"),
    ({"authorization": "Bearer hf_adas_own_token"}, None, "nobody is logged in"),
    ({"x-hf-user": "ada", "x-forwarded-user": "ada"}, None, "nobody is logged in"),
    ({}, "hf_of_nobody", "the Hub knows no such token"),
    ({}, "hf_oauth_of_another_app", "not a user's own access token"),
    ({}, "hf_of_an_organisation", "not a user's own access token"),
    ({}, "no token\nat all", "not a Hub token"),
    ({}, "hf_when_the_hub_is_down", "cannot be asked whose token it is"),
]


def test_who_does_not_log_in_is_refused_and_nothing_is_stored(space, toy, tmp_path):
    before, path = space.storage.paths(), model_predictions(toy, tmp_path, 3)
    for headers, token, message in STRANGERS:
        assert message in call(space, path, headers, oauth_token=token)["error"]
    assert space.storage.paths() == before


@pytest.mark.parametrize(
    "body",
    [
        {"data": [[], *TYPED, {"preferred_username": "ada", "name": "", "profile": "", "picture": ""}, "ada"]},
        {"data": [[], {"preferred_username": "ada"}, {"token": "hf_adas_own_token"}, *TYPED]},
        {"data": [[], *TYPED], "profile": {"preferred_username": "ada"}, "user": "ada", "username": "ada"},
        {"data": [[], *TYPED], "session": {"oauth_info": {"userinfo": dict(profile("ada"))}}},
        {"data": [[], *TYPED], "oauth_token": {"token": "hf_adas_own_token"}},
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_no_request_can_say_who_sends_it(space, body, private):
    api, before = f"{space.address}/gradio_api", space.storage.paths()
    if private:  # what the page itself calls
        config = httpx.get(f"{space.address}/config").json()
        [number] = [each["id"] for each in config["dependencies"] if each["api_name"] == "on_send"]
        started = httpx.post(f"{api}/queue/join?user=ada", json=body | {"fn_index": number, "session_hash": "s"})
        answered = f"{api}/queue/data?session_hash=s"
    else:
        started = httpx.post(f"{api}/call/submit?user=ada&session=ada", json=body)
        answered = f"{api}/call/submit/{started.json().get('event_id')}"
    if started.is_success:
        assert "nobody is logged in" in httpx.get(answered).text
    else:
        assert started.status_code == 422
    assert space.storage.paths() == before


def test_anyone_may_check_predictions(space, toy, tmp_path):
    check = handler(space.blocks, "on_check")
    assert "The check found no errors" in check([str(model_predictions(toy, tmp_path, 4))], None, *TYPED)


def test_users_withdraw_their_own_submissions_and_no_others(space, receipts):
    press, ids = handler(space.blocks, "on_press"), {name: receipt["id"] for name, receipt in receipts.items()}
    for id, who, refusal in (
        (ids["ada"], profile("grace"), "is not one of"),
        (ids["grace"], None, "nobody is logged in"),
        ("", profile("grace"), "there is no submission"),
    ):
        assert refusal in press(id, "", "", who).replace("&#39;", "'")
    assert f"{ids['grace']} is withdrawn" in press(f" {ids['grace']} ", "", "a mistake", profile("grace"))
    status = {each.id: (each.status, each.reason) for each in submissions(space.storage)}
    assert (status[ids["grace"]], status[ids["ada"]]) == (("withdrawn", "a mistake"), ("accepted", ""))


def test_a_space_that_would_forget_takes_nothing(tmp_path):
    with on_a_space(tmp_path, VL_ASSAY_STORAGE=""), pytest.raises(SubmissionError, match="set VL_ASSAY_STORAGE"):
        login.sender(profile("ada"))


def test_a_space_without_oauth_takes_no_name_from_a_cookie(tmp_path):
    with on_a_space(tmp_path, OAUTH_CLIENT_SECRET=""):
        assert not login.is_offered()
        with pytest.raises(SubmissionError, match="nobody is logged in"):
            login.sender(profile("ada"))
        assert login.sender(None, gr.OAuthToken("hf_adas_own_token", "", 0)) == "ada"


def test_only_a_space_is_sent_the_token(tmp_path, monkeypatch):
    told = []

    def refuse(address, **options):
        told.append((options["token"], options["oauth_token"]))
        raise ConnectionError

    path = tmp_path / "any.parquet"
    path.touch()
    monkeypatch.setenv("HF_TOKEN", "hf_adas_own_token")
    monkeypatch.setattr(gradio_client, "Client", refuse)
    for address, token in (
        ("me/board", "hf_adas_own_token"),
        ("https://me-board.hf.space", "hf_adas_own_token"),
        ("http://me-board.hf.space", None),
        ("http://127.0.0.1:7860", None),
        ("https://hf.space.example", None),
    ):
        with pytest.raises(StorageError):
            client.send(address, [path], {})
        assert told.pop() == (token or False, token)
