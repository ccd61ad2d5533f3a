"""Results proposed to a model's repository: one pull request, whatever fails on the way; over HTTP to a local Hub."""

import logging

import pytest
import yaml
from console import invoke
from hub_stand_in import HubStandIn, Repository, Waits
from huggingface_hub import HfApi, constants

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.hub.proposals import TITLE, preview, propose
from vl_assay.metrics.common.errors import StorageError, VLAssayError
from vl_assay.metrics.records.predictions import file_hash

TOKEN = "hf_secret_token_of_a_user"
CARD = "---\nlicense: mit\n---\n# Their model\n"
MODEL, PREDICTIONS = "owner/model", "me/predictions"


@pytest.fixture(scope="module")
def scored_once(toy, tmp_path_factory):
    from vl_assay.model_wrappers import predict

    return predict("demo-clip", "toy_scenes/order", out=tmp_path_factory.mktemp("own"), progress=False)


@pytest.fixture(scope="module")
def results(scored_once):
    return report(scored_once)


@pytest.fixture
def hub(online):
    with HubStandIn(token=TOKEN) as hub:
        hub.repositories[MODEL] = Repository()
        hub.repositories[MODEL].commit("initial commit", {"README.md": CARD.encode(), "config.json": b"{}"})
        yield hub


def asked(hub, results, call=propose, repo=MODEL, **options):
    return call(results, repo, api=HfApi(hub.url, token=TOKEN), **options)


def test_a_pull_request_has_card_and_results_and_is_opened_once(results, hub):
    model = hub.repositories[MODEL]
    url = asked(hub, results)
    assert url == f"{hub.url}/{MODEL}/discussions/1"
    changed = model.at("refs/pr/1").files
    assert changed["README.md"].decode().endswith("# Their model\n")
    assert yaml.safe_load(changed["README.md"].decode().split("---")[1])["license"] == "mit"
    [[entry]] = [yaml.safe_load(content) for path, content in changed.items() if path.startswith(".eval_results/")]
    assert entry["dataset"]["id"] == "vl-assay/toy_scenes"
    assert entry["date"] == results[0].run["date"]
    assert entry["source"]["user"] == "me"
    assert model.at("main").files["README.md"] == CARD.encode()
    assert asked(hub, results) == url
    assert hub.seen["commit"] == 1
    model.pulls[0].commit("an older version of the results", {"README.md": CARD.encode()})
    assert asked(hub, results) == url
    assert (hub.seen["commit"], len(model.pulls)) == (2, 1)
    model.commit("merged", model.at("refs/pr/1").files)
    model.pulls[0].is_open = False
    assert asked(hub, results) == asked(hub, results, preview) == ""


RATES = {"conflict": 0.2, "lost": 0.3, "stalled": 0.1, "late": 0.1, "dropped": 0.1, "busy": 0.1, "broken": 0.1}


def test_under_faults_all_is_written_once_and_the_token_is_told_nobody(results, scored_once, hub, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    hub.choose_seed(1)
    hub.faults, hub.stall, errors, waits = RATES, 0.01, [], Waits()
    for _ in range(40):
        try:
            asked(hub, results, predictions=scored_once, predictions_repo=PREDICTIONS, sleep=waits)
            break
        except StorageError as error:
            errors.append(str(error))
    [pull] = hub.repositories[MODEL].pulls
    assert [commit.message for commit in pull.commits[1:]] == [TITLE]
    assert sorted(pull.commits[-1].added) == [".eval_results/vl-assay-toy_scenes.yaml", "README.md"]
    path = f"{file_hash(scored_once[0])}.parquet"
    assert hub.added(PREDICTIONS) == {path: 1}
    assert hub.repositories[PREDICTIONS].at("main").files[path] == scored_once[0].read_bytes()
    entry = yaml.safe_load(pull.commits[-1].files[".eval_results/vl-assay-toy_scenes.yaml"])[0]
    assert entry["source"]["url"].endswith(f"/datasets/{PREDICTIONS}/blob/main/{path}")
    assert all("try again in" in error for error in errors)
    assert sum(hub.seen[fault] for fault in RATES) > 2
    assert waits
    assert TOKEN not in caplog.text + "".join(capsys.readouterr()) + "".join(errors)


def refusals(hub, monkeypatch):
    """What the Hub may refuse, by the message that is expected; each is in force when it is yielded."""
    hub.token = "another"
    yield "log in with `hf auth login`, or set HF_TOKEN", MODEL
    hub.token = TOKEN
    yield "there is no model me/none, or this login may not see it .status 404.; check the name", "me/none"
    hub.gated.add(MODEL)
    yield f"{MODEL} is gated .status 403.; ask for access at https://huggingface.co/{MODEL}", MODEL
    hub.gated.clear()
    hub.read_only = {PREDICTIONS}
    yield f"cannot write {PREDICTIONS} on the Hub: this login may not do it", MODEL
    hub.read_only = {MODEL}
    yield f"this login may not do it .status 403.: .*; log in .* with a token that may write to {MODEL}", MODEL
    hub.kinds[MODEL] = "datasets"
    yield f"{MODEL} is a dataset; results go to the repository of a model", MODEL
    yield "'model' has no owner; expected owner/name", "model"
    hub.faults = {"busy": 1}
    yield "try again in 30 seconds or later, which is safe", MODEL
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    yield "HF_HUB_OFFLINE is set", MODEL


def test_each_refusal_is_one_line_with_the_next_step(results, scored_once, hub, monkeypatch):
    own = {"predictions": scored_once, "predictions_repo": PREDICTIONS}
    for message, repo in refusals(hub, monkeypatch):
        waits = Waits()
        with pytest.raises(VLAssayError, match=message) as raised:
            asked(hub, results, repo=repo, sleep=waits, **own)
        assert TOKEN not in str(raised.value)
        assert "\n" not in str(raised.value)
        assert len(waits) == (5 if "try again" in message else 0)
    assert not hub.repositories[MODEL].pulls


def test_two_users_open_one_pull_request_for_the_same_results(results, scored_once, hub):
    model = hub.repositories[MODEL]
    hub.user = "ada"
    url = asked(hub, results, predictions=scored_once, predictions_repo="ada/predictions")
    hub.user = "me"
    assert asked(hub, results, predictions=scored_once, predictions_repo=PREDICTIONS) == url
    assert ([pull.author for pull in model.pulls], PREDICTIONS in hub.repositories) == (["ada"], False)
    # One with other results, or with a card that cannot be read, is not in the way.
    changed = model.pulls[0].commits[-1].files
    [path] = [path for path in changed if path.startswith(".eval_results/")]
    model.pulls[0].commit("another value", {path: changed[path].replace(b"value: 0.", b"value: 0.1")})
    hub.user = "eve"
    broken = asked(hub, results)
    model.pulls[1].commit("damage", {"README.md": b"---\na: [\n---\n"})
    hub.user = "me"
    assert asked(hub, results) not in (url, broken)
    assert [pull.author for pull in model.pulls] == ["ada", "eve", "me"]


def test_the_command_shows_the_diff_without_a_login_and_proposes_with_one(scored_once, hub, monkeypatch):
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.hf_api.get_token", lambda: None)
    command, hub.token = ("publish", scored_once[0].parent, MODEL, "--create-pr"), None
    shown = invoke(*command, "--dry-run", "--predictions-repo", PREDICTIONS)
    assert shown.exit_code == 0, shown.output
    assert "+model-index:" in shown.output
    assert "--- a/README.md" in shown.output
    assert f"datasets/{PREDICTIONS}/blob/main/" in shown.output
    assert "user:" not in shown.output
    assert hub.seen["commit"] == hub.seen["create"] == 0
    refused = invoke(*command)
    assert "hf auth login" in str(refused.exception)
    monkeypatch.setattr("huggingface_hub.hf_api.get_token", lambda: TOKEN)
    assert f"{hub.url}/{MODEL}/discussions/1" in invoke(*command).output
