"""Results proposed to a model's repository: one pull request, whatever fails on the way; the Hub is a stand-in."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import httpx
import pytest
import yaml
from console import invoke
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.hub.proposals import TITLE, prepare, propose
from vl_assay.metrics.common.errors import DataError, StorageError

TOKEN = "hf_secret_token_of_a_user"
CARD = "---\nlicense: mit\n---\n# Their model\n"


class Hub:
    """A model's repository with branches, as `HfApi` shows it; `faults` happen to commits, one after the other."""

    def __init__(self, folder, faults=()):
        self.folder, self.faults = folder, list(faults)
        self.branches = {"main": {"README.md": CARD.encode(), "config.json": b"{}"}}
        self.pulls, self.commits, self.token = [], [], TOKEN

    def _files(self, revision):
        return self.branches["main" if revision == "c0" else revision]

    def model_info(self, repo):
        if repo == "me/none":
            raise failed(404, RepositoryNotFoundError)
        return SimpleNamespace(sha="c0")

    def list_repo_files(self, repo, revision):
        return list(self._files(revision))

    def hf_hub_download(self, repo, name, revision):
        path = self.folder / revision.replace("/", "-") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._files(revision)[name])
        return str(path)

    def whoami(self):
        return {"name": "me"}

    def get_repo_discussions(self, repo, author, discussion_type, discussion_status):
        assert (author, discussion_type, discussion_status) == ("me", "pull_request", "open")
        return iter(self.pulls)

    def create_commit(self, repo, operations, commit_message, commit_description, create_pr=False, **where):
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, int):
            raise failed(fault)
        if create_pr:
            assert where == {"parent_commit": "c0"}
            number = len(self.pulls) + 1
            branch, url = f"refs/pr/{number}", f"https://hub/{repo}/discussions/{number}"
            self.pulls.append(SimpleNamespace(title=commit_message, num=number, git_reference=branch, url=url))
            self.branches[branch] = dict(self.branches["main"])
        else:
            branch, url = where["revision"], ""
        self.branches[branch] |= {each.path_in_repo: each.path_or_fileobj for each in operations}
        self.commits.append(branch)
        if fault == "lost":
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return SimpleNamespace(pr_url=url)


def failed(status, kind=HfHubHTTPError):
    request = httpx.Request("POST", "https://hub", headers={"authorization": f"Bearer {TOKEN}"})
    headers = {"retry-after": "20"} if status == 429 else {}
    return kind(f"{status}", response=httpx.Response(status, request=request, headers=headers))


@pytest.fixture(scope="module")
def results(scored_once):
    return report(scored_once)


@pytest.fixture(scope="module")
def scored_once(toy, tmp_path_factory):
    from vl_assay.model_wrappers import predict

    return predict("demo-clip", "toy_scenes/groups", out=tmp_path_factory.mktemp("own"), progress=False)


def test_a_pull_request_has_card_and_results_and_is_opened_once(results, tmp_path):
    hub = Hub(tmp_path)
    url = propose(results, "owner/model", api=hub)
    assert url == "https://hub/owner/model/discussions/1"
    changed = hub.branches["refs/pr/1"]
    assert changed["README.md"].decode().endswith("# Their model\n")
    assert yaml.safe_load(changed["README.md"].decode().split("---")[1])["license"] == "mit"
    [entries] = [yaml.safe_load(content) for path, content in changed.items() if path.startswith(".eval_results/")]
    assert entries[0]["dataset"]["id"] == "vl-assay/toy_scenes"
    assert hub.branches["main"]["README.md"] == CARD.encode()
    assert propose(results, "owner/model", api=hub) == url
    assert hub.commits == ["refs/pr/1"]
    hub.branches["refs/pr/1"]["README.md"] = CARD.encode()  # an older version of the results
    assert propose(results, "owner/model", api=hub) == url
    assert hub.commits == ["refs/pr/1", "refs/pr/1"]
    assert len(hub.pulls) == 1
    hub.branches["main"] = hub.branches["refs/pr/1"]
    assert propose(results, "owner/model", api=hub) == ""


@pytest.mark.parametrize("faults", [["lost"], [409, 412, 429, 503, "lost"], [500, 500, 500]])
def test_faults_open_it_once_and_the_token_is_told_nobody(faults, results, tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    hub, waited = Hub(tmp_path, faults), []
    assert propose(results, "owner/model", api=hub, sleep=waited.append) == "https://hub/owner/model/discussions/1"
    assert len(hub.pulls) == len(hub.commits) == 1
    assert len(waited) == len(faults)
    assert (20 in waited) == (429 in faults)
    assert TOKEN not in caplog.text + "".join(capsys.readouterr())


def test_what_does_not_pass_is_an_error_with_the_next_step(results, tmp_path):
    with pytest.raises(StorageError, match="log in with `hf auth login`") as raised:
        propose(results, "owner/model", api=Hub(tmp_path, [403]))
    assert TOKEN not in str(raised.value)
    with pytest.raises(StorageError, match="run the same command again"):
        propose(results, "owner/model", api=Hub(tmp_path, [429] * 9), sleep=lambda _: None)
    with pytest.raises(DataError, match="no model me/none"):
        propose(results, "me/none", api=Hub(tmp_path))


def test_the_diff_shows_what_would_change(results, tmp_path):
    shown = prepare(results, "owner/model", api=Hub(tmp_path)).diff()
    assert "+model-index:" in shown
    assert "--- a/README.md" in shown
    assert TITLE not in shown


def test_the_command_needs_the_hub(scored_once):
    result = invoke("publish", scored_once[0].parent, "owner/model", "--create-pr")
    assert result.exit_code == 1
    assert "run the same command again" in str(result.exception)
