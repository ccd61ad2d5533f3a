"""Results proposed to a model's repository in one pull request; over HTTP to a local Hub."""

import pytest
import yaml
from console import invoke
from hub_stand_in import HubStandIn, Repository, Waits
from huggingface_hub import HfApi, constants

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.hub.proposals import TITLE, propose
from vl_assay.metrics.common.errors import DataError, StorageError
from vl_assay.model_wrappers import predict

TOKEN = "hf_secret_token_of_a_user"
CARD = "---\nlicense: mit\n---\n# Their model\n"
MODEL = "owner/model"


@pytest.fixture(scope="module")
def predictions(toy, tmp_path_factory):
    return predict("mock:shuffled", "toy_scenes/order", out=tmp_path_factory.mktemp("own"), progress=False)


@pytest.fixture(scope="module")
def results(predictions):
    return report(predictions)


@pytest.fixture
def hub(online):
    with HubStandIn(token=TOKEN) as hub:
        hub.repositories[MODEL] = Repository()
        hub.repositories[MODEL].commit("initial commit", {"README.md": CARD.encode(), "config.json": b"{}"})
        yield hub


def test_one_commit_has_card_and_results_after_temporary_errors_and_the_rest_is_kept(results, hub):
    model, waits, api = hub.repositories[MODEL], Waits(), HfApi(hub.url, token=TOKEN)
    hub.pages = [b"no JSON"]
    assert propose(results, MODEL, api=api, sleep=waits) == f"{hub.url}/{MODEL}/discussions/1"
    assert waits
    changed = model.at("refs/pr/1").files
    assert [commit.message for commit in model.pulls[0].commits[1:]] == [TITLE]
    assert sorted(model.pulls[0].commits[-1].added) == [".eval_results/vl-assay-toy_scenes.yaml", "README.md"]
    assert changed["README.md"].decode().endswith("# Their model\n")
    assert yaml.safe_load(changed["README.md"].decode().split("---")[1])["license"] == "mit"
    [entry] = yaml.safe_load(changed[".eval_results/vl-assay-toy_scenes.yaml"])
    assert (entry["dataset"]["id"], entry["date"]) == ("vl-assay/toy_scenes", results[0].run["date"])
    assert model.at("main").files["README.md"] == CARD.encode()
    model.commit("merged", changed)
    assert propose(results, MODEL, api=api) == propose(results, MODEL, api=api, dry_run=True) == ""


@pytest.mark.parametrize(
    ("state", "repo", "message", "tries"),
    [
        ({"token": "another"}, MODEL, "401.*log in with `hf auth login`, or set HF_TOKEN", 1),
        ({}, "me/none", "404.*check the name of the model me/none", 1),
        ({"gated": {MODEL}}, MODEL, "403.*gated.*log in", 1),
        ({"read_only": {MODEL}}, MODEL, "403.*Forbidden.*with a token that may do this there", 1),
        ({"faults": {"busy": 1}}, MODEL, "try again in 30 seconds or later", 6),
    ],
)
def test_a_refusal_is_one_line_with_the_next_step_and_without_the_token(state, repo, message, tries, results, hub):
    vars(hub).update(state)
    waits = Waits()
    with pytest.raises(StorageError, match=message) as raised:
        propose(results, repo, api=HfApi(hub.url, token=TOKEN), sleep=waits)
    assert "\n" not in str(raised.value)
    assert TOKEN not in str(raised.value)
    assert len(waits) == tries - 1
    assert not hub.repositories[MODEL].pulls


def test_invalid_names_datasets_and_a_missing_network_are_errors_before_anything_is_written(results, hub, monkeypatch):
    api = HfApi(hub.url, token=TOKEN)
    for name, message in (("model", "'model' has no owner; expected owner/name"), ("a b/c", "not a valid repository")):
        with pytest.raises(DataError, match=message):
            propose(results, name, api=api)
    hub.datasets = {MODEL}
    with pytest.raises(DataError, match=f"{MODEL} is a dataset; results go to the repository of a model"):
        propose(results, MODEL, api=api)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(StorageError, match="HF_HUB_OFFLINE is set"):
        propose(results, MODEL, api=api)
    assert hub.seen["commit"] == 0


def test_after_a_lost_answer_the_user_is_told_to_look_for_the_pull_request(results, hub):
    hub.faults = {"lost": 1}
    with pytest.raises(StorageError, match=f"look at {hub.url}/{MODEL}/discussions, and only if not, try again"):
        propose(results, MODEL, api=HfApi(hub.url, token=TOKEN), sleep=Waits())
    assert len(hub.repositories[MODEL].pulls) == 1


def test_the_command_shows_the_diff_without_a_login_and_proposes_with_one(predictions, hub, monkeypatch):
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.utils._headers.get_token", lambda: None)
    command, hub.token = ("publish", predictions[0].parent, MODEL, "--create-pr"), None
    shown = invoke(*command, "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "+model-index:" in shown.output
    assert "--- a/README.md" in shown.output
    assert hub.seen["commit"] == 0
    assert f"{hub.url}/{MODEL}/discussions/1" in invoke(*command).output
