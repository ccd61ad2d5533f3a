"""Publishing: what would be uploaded, one commit, cards, and errors in words; the Hub is a stand-in."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
import yaml
from console import invoke
from huggingface_hub import DatasetCard, DatasetCardData

from vl_assay.hub_datasets import benchmark_names, build, get_benchmark
from vl_assay.hub_datasets.core.benchmarks import config_names, get_card
from vl_assay.hub_datasets.core.repository import read_build
from vl_assay.hub_datasets.hub.publish import eval_yaml, plan, publish
from vl_assay.metrics.common.errors import DataError, StorageError


class Hub:
    """What `publish` needs of the Hub's API; it writes down what it is told."""

    def __init__(self, error=None, there=()):
        self.calls, self.error, self.there = [], error, there

    def list_repo_files(self, repo, repo_type):
        assert repo_type == "space"
        return [*self.there]

    def create_repo(self, repo, **options):
        self.calls.append(("create_repo", repo, options))

    def create_commit(self, repo, operations, **options):
        if self.error:
            raise self.error
        self.calls.append(("create_commit", repo, [operation.path_in_repo for operation in operations], options))
        self.operations = {operation.path_in_repo: operation for operation in operations}
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
    assert {"README.md", "build.json", "eval.yaml"} < set(paths)
    assert any(path.endswith(".parquet") for path in paths)
    assert sorted(paths) == [path for path, _ in plan(dataset, "me/toy").files]


def test_the_plan_has_sizes_and_needs_no_network(dataset):
    what = plan(dataset, "me/toy")
    in_folder = sum(path.stat().st_size for path in dataset.rglob("*") if path.is_file())
    assert sum(size for _, size in what.files) == in_folder + len(what.contents["eval.yaml"])
    assert not (dataset / "eval.yaml").exists()


def test_the_dry_run_shows_all_files_and_uploads_none(dataset):
    result = invoke("publish", dataset, "me/toy", "--dry-run")
    assert result.exit_code == 0
    shown = [line.split(maxsplit=1) for line in result.output.splitlines()]
    assert [(path, int(size.replace(",", ""))) for size, path in shown[:-1]] == list(plan(dataset, "me/toy").files)


def test_eval_yaml_says_what_is_judged_by_default(dataset):
    content = yaml.safe_load(plan(dataset, "me/toy").contents["eval.yaml"])
    assert content.pop("description").startswith("Does an evaluation measure what it should? Rendered scenes")
    assert content == {
        "name": "Toy Scenes",
        "evaluation_framework": "vl-assay",
        "tasks": [{"id": "order", "config": "order", "split": "test"}],
    }


@pytest.fixture
def record(tmp_path):
    """A function that writes what `eval.yaml` is made from: the record of a build, and its card."""

    def write(name, configs):
        folder = tmp_path / name
        folder.mkdir()
        counts = {config: {get_benchmark(name).split: {}} for config in configs}
        content = {"schema": "vl-assay/build", "version": 1, "benchmark": name, "options": {}, "configs": counts}
        (folder / "build.json").write_text(json.dumps(content))
        (folder / "README.md").write_text(get_card(name))
        return folder

    return write


@pytest.mark.parametrize("name", benchmark_names())
def test_eval_yaml_has_an_entry_for_each_default_task_and_configuration(name, record):
    content = yaml.safe_load(eval_yaml(record(name, config_names(name))) or "")
    expected = [(task, config) for task in get_benchmark(name).tasks if task.by_default for config in task.configs]
    assert [task["config"] for task in content["tasks"]] == [config for _, config in expected]
    assert {task["split"] for task in content["tasks"]} == {get_benchmark(name).split}
    ids = [task["id"] for task in content["tasks"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"\w+", identifier) for identifier in ids)
    assert list(content) == ["name", "description", "evaluation_framework", "tasks"]
    assert 40 < len(content["description"]) < 1000


@pytest.mark.parametrize(
    ("name", "configs", "ids"),
    [
        ("sugarcrepe", ["swap_obj", "unrefined_swap_obj"], ["itm_swap_obj"]),  # only what was built
        ("sugarcrepe", ["unrefined_swap_obj"], ["unrefined_unrefined_swap_obj"]),  # not scored by default
        ("toy_scenes", ["captions"], None),  # no task scores it
    ],
)
def test_eval_yaml_names_what_was_built_and_is_absent_without_a_task(name, configs, ids, record):
    content = plan(record(name, configs), "me/x").contents.get("eval.yaml")
    assert (content and [task["id"] for task in yaml.safe_load(content)["tasks"]]) == ids


def test_an_eval_yaml_of_ones_own_is_published_as_it_is(record):
    folder = record("toy_scenes", ["itm"])
    (folder / "eval.yaml").write_text("name: mine\n")
    what = plan(folder, "me/toy")
    assert dict(what.files)["eval.yaml"] == len("name: mine\n")
    assert what.contents["eval.yaml"] == folder / "eval.yaml"


# Cards


@pytest.mark.parametrize("name", benchmark_names())
def test_every_card_is_read_by_the_hubs_own_classes_without_a_loss(name):
    card = DatasetCard(get_card(name), ignore_metadata_errors=False)
    front = yaml.safe_load(get_card(name).split("---\n")[1])
    assert card.data.to_dict() == front
    assert DatasetCardData(**front).to_dict() == front
    assert front["pretty_name"]
    assert all(section in card.text for section in ("## Licen", "@", "constant"))  # the last, of its sanity gates


def test_a_built_card_tells_what_the_build_holds(dataset):
    card = DatasetCard.load(dataset / "README.md", ignore_metadata_errors=False)
    [order] = read_build(dataset)["configs"].values()
    for split, n in order.items():
        assert f"| order | {split} | {n['rows']:,} | {n['images']:,} | {n['captions']:,} |" in card.text
    [listed] = card.data["configs"]
    assert listed["config_name"] == "order"
    paths = [path for files in listed["data_files"] for path in files["path"]]
    assert sorted(paths) == sorted(str(path.relative_to(dataset)) for path in dataset.rglob("*.parquet"))
    splits = {split["name"]: split["num_examples"] for split in card.data["dataset_info"]["splits"]}
    assert splits == {split: n["rows"] for split, n in order.items()} == {"validation": 500, "test": 1000}


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
