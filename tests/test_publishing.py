"""Publishing: what would be uploaded, one commit, and errors in words; the Hub is a stand-in."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import vl_assay.metrics
from vl_assay.hub_datasets import build
from vl_assay.hub_datasets.publishing import plan, publish
from vl_assay.metrics.errors import DataError, StorageError

METRIC = Path(vl_assay.metrics.__file__).parent / "group_match"


class Hub:
    """What `publish` needs of the Hub's API; it writes down what it is told."""

    def __init__(self, error=None):
        self.calls, self.error = [], error

    def create_repo(self, repo, **options):
        self.calls.append(("create_repo", repo, options))

    def create_commit(self, repo, operations, **options):
        if self.error:
            raise self.error
        self.calls.append(("create_commit", repo, [operation.path_in_repo for operation in operations], options))
        return SimpleNamespace(commit_url=f"https://hub/{repo}/commit/1")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("published") / "toy"
    return build("toy_scenes", out, configs=["order"], options={"train_scenes": 0})


def test_a_dataset_is_published_in_one_commit(dataset):
    hub = Hub()
    assert publish(dataset, "me/toy", api=hub, private=True) == "https://hub/me/toy/commit/1"
    (_, _, repo), (_, _, paths, commit) = hub.calls
    assert repo == {"repo_type": "dataset", "private": True, "exist_ok": True}
    assert commit == {"commit_message": "Publish toy", "repo_type": "dataset"}
    assert {"README.md", "build.json"} < set(paths)
    assert any(path.endswith(".parquet") for path in paths)
    assert sorted(paths) == [path for path, _ in plan(dataset, "me/toy").files]


def test_a_metric_is_published_as_a_space_without_caches():
    hub = Hub()
    publish(METRIC, "me/group_match", api=hub)
    assert hub.calls[0][2]["space_sdk"] == "gradio"
    assert hub.calls[1][2] == ["README.md", "app.py", "group_match.py", "requirements.txt"]


def test_the_plan_has_sizes_and_needs_no_network(dataset):
    what = plan(dataset, "me/toy")
    assert what.size == sum(path.stat().st_size for path in dataset.rglob("*") if path.is_file())


def test_a_refusal_of_the_hub_is_told_with_its_cure(dataset):
    with pytest.raises(
        StorageError, match=r"me/toy could not be written on the Hub \(no route\); log in with `hf auth"
    ):
        publish(dataset, "me/toy", api=Hub(OSError("no route")))


@pytest.mark.parametrize("repo", ["toy", "me/toy/x", "me/to y", "", "me/--x"])
def test_a_name_that_is_none_on_the_hub_is_refused(repo, dataset):
    with pytest.raises(DataError, match=re.escape(repr(repo))):
        plan(dataset, repo)


def test_other_folders_are_not_published(tmp_path):
    with pytest.raises(DataError, match="neither a dataset"):
        plan(tmp_path, "me/x")
    with pytest.raises(DataError, match="there is no folder"):
        plan(tmp_path / "x", "me/x")
