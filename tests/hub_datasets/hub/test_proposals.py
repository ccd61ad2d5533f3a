"""Results proposed to a model's repository: one pull request, whatever fails on the way; over HTTP to a local Hub."""

from __future__ import annotations

import logging

import pytest
import yaml
from console import invoke
from hub_stand_in import HubStandIn, Repository, Waits
from huggingface_hub import HfApi, constants

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.hub.proposals import TITLE, preview, propose
from vl_assay.metrics.common.errors import DataError, StorageError
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


RATES = {"conflict": 0.2, "lost": 0.3, "stalled": 0.1, "late": 0.1, "dropped": 0.05, "busy": 0.05, "broken": 0.05}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_under_faults_all_is_written_once_and_the_token_is_told_nobody(seed, results, scored_once, hub, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    hub.choose_seed(seed)
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
    assert all("run the same command again" in error for error in errors)
    assert sum(hub.seen[fault] for fault in RATES) > 2
    assert waits
    assert TOKEN not in caplog.text + "".join(capsys.readouterr()) + "".join(errors)


def test_what_does_not_pass_is_an_error_with_the_next_step(results, hub):
    hub.token = "another"
    with pytest.raises(StorageError, match="log in with `hf auth login`") as raised:
        asked(hub, results)
    assert TOKEN not in str(raised.value)
    hub.token, hub.faults, waits = TOKEN, {"busy": 1}, Waits()
    with pytest.raises(StorageError, match="run the same command again"):
        asked(hub, results, sleep=waits)
    assert len(waits) == 5
    hub.faults = {}
    with pytest.raises(DataError, match="no model me/none"):
        asked(hub, results, repo="me/none")
    hub.gated.add(MODEL)
    with pytest.raises(DataError, match="private or gated for this login"):
        asked(hub, results)
    with pytest.raises(DataError, match="'model' has no owner; expected owner/name"):
        asked(hub, results, repo="model")
    assert hub.seen["commit"] == 0


def test_a_renamed_model_is_followed(results, hub):
    hub.renamed["owner/old"] = MODEL
    assert asked(hub, results, repo="owner/old")
    assert [pull.title for pull in hub.repositories[MODEL].pulls] == [TITLE]


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
