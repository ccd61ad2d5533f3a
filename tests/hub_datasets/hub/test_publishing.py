"""Publishing: what would be uploaded, one commit, cards, and errors in words; the Hub is a stand-in."""

import re
from types import SimpleNamespace

import pytest
import sources_toy_scenes
import yaml
from console import invoke
from datasets import load_dataset
from huggingface_hub import DatasetCard, DatasetCardData
from huggingface_hub.errors import LocalTokenNotFoundError

from vl_assay.hub_datasets import benchmark_names, build, get_benchmark
from vl_assay.hub_datasets.core.benchmarks import get_card
from vl_assay.hub_datasets.hub.publish import plan, publish, upload
from vl_assay.metrics.common.errors import DataError, StorageError
from vl_assay.metrics.modules.discovery import get_spec


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
    with pytest.MonkeyPatch.context() as patch:
        sources_toy_scenes.shrink(patch)
        return build("toy_scenes", out, configs=["order"], options={"train_scenes": 0})


@pytest.fixture(scope="module")
def planned(dataset):
    return plan(dataset, "me/toy")


def test_a_dataset_is_published_in_one_commit_and_the_dry_run_shows_its_files(dataset, planned):
    hub = Hub()
    assert publish(dataset, "me/toy", api=hub, private=True) == "https://hub/me/toy/commit/1"
    (_, _, repo), (_, _, paths, commit) = hub.calls
    assert repo == {"repo_type": "dataset", "private": True, "exist_ok": True}
    assert commit == {"commit_message": "Publish toy", "repo_type": "dataset"}
    assert {"README.md", "build.json", "builder.py", "eval.yaml"} < set(paths)
    assert any(path.endswith(".parquet") for path in paths)
    result = invoke("publish", dataset, "me/toy", "--dry-run")
    shown = dict(reversed(line.split(maxsplit=1)) for line in result.output.splitlines()[:-1])
    sizes = {path: f"{size:,}" for path, size in planned.files}
    assert shown == sizes
    assert sorted(paths) == [*sizes]


def test_a_dataset_has_its_multiple_choice_for_a_framework_that_the_hub_accepts(dataset, planned, tmp_path):
    for path, content in planned.contents.items():  # as a clone of the repository would be
        (tmp_path / "toy" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "toy" / path).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    [task] = yaml.safe_load((tmp_path / "toy" / "eval.yaml").read_text())["tasks"]
    assert (task["id"], task["config"], task["scorers"]) == ("order", "choices_order", [{"name": "choice"}])
    rows = load_dataset(str(tmp_path / "toy"), split="test")  # the only configuration of the dataset needs no name
    choices = load_dataset(str(tmp_path / "toy"), task["config"], split=task["split"])
    assert rows["id"][:] == choices["id"][:]
    assert {"image", "negative_captions"} < {*rows.features}
    assert {*task["field_spec"]["metadata"], task["field_spec"]["choices"]} < {*choices.features}
    card = DatasetCard.load(tmp_path / "toy" / "README.md")
    assert card.text.startswith(DatasetCard.load(dataset / "README.md").text.rstrip())
    assert "`builder.py` is the code that made these files" in card.text
    assert "dataset_path: me/toy" in (tmp_path / "toy" / "lm_eval" / "toy_scenes_order.yaml").read_text()


def test_what_no_tool_can_ask_has_no_eval_yaml_and_says_why(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        sources_toy_scenes.shrink(patch)
        build("toy_scenes", tmp_path / "toy", configs=["captions"], options={"train_scenes": 0})
    result = invoke("publish", tmp_path / "toy", "me/toy", "--dry-run")
    assert "no eval.yaml: other tools cannot run it" in result.output
    assert " eval.yaml\n" not in result.output
    (tmp_path / "toy" / "eval.yaml").write_text("name: mine\n")  # one's own is published as it is
    what = plan(tmp_path / "toy", "me/toy")
    assert (what.contents["eval.yaml"], what.note) == (tmp_path / "toy" / "eval.yaml", "")


# The exceptions are those of which several captions are true of an image, or that choose among images.
UNASKED = {"hard_positives", "imagecode", "retrieval", "sugarcrepe_pp", "svo_probes", "zero_shot"}


def test_ids_of_choices_are_different_and_which_benchmarks_have_none():
    asked = set()
    for name in benchmark_names():
        ids = [id for task in get_benchmark(name).tasks if task.is_multiple_choice for id in task.hub_ids(task.configs)]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"\w+", identifier) for identifier in ids)
        asked |= {name} if ids else set()
        first = {next(iter(task.metrics)) for task in get_benchmark(name).tasks if task.is_multiple_choice}
        # What the scorer of inspect_ai measures; CREPE's is found at the first rank, a group's has more than one image.
        measured = {spec.scores[0].name for spec in map(get_spec, first) if spec.task_type != "retrieval"}
        assert measured <= {"accuracy", "text_score"}
    assert {*benchmark_names()} - asked == UNASKED
    [itm, *_] = get_benchmark("sugarcrepe").tasks
    assert itm.hub_ids(("swap_obj", "add_att")) == {"itm_swap_obj": ("swap_obj",), "itm_add_att": ("add_att",)}
    assert next(iter(itm.hub_ids(itm.configs).items())) == ("itm", itm.configs)
    questions = get_benchmark("naturalbench").tasks[0]  # each image has the answers to two of them
    assert not questions.is_multiple_choice


def test_every_card_is_read_by_the_hubs_own_classes_without_a_loss():
    for name in benchmark_names():
        card = DatasetCard(get_card(name), ignore_metadata_errors=False)
        front = yaml.safe_load(get_card(name).split("---\n")[1])
        assert card.data.to_dict() == DatasetCardData(**front).to_dict() == front
        assert front["pretty_name"]
        assert front["license"]
        assert not {"configs", "dataset_info"} & set(front)  # they come from the build
        assert all(section in card.text for section in ("## Licen", "@", "constant"))  # the last, of its sanity gates


def test_a_refusal_of_the_hub_is_told_with_its_cure(planned):
    waits = []
    with pytest.raises(
        StorageError, match="cannot write me/toy on the Hub: no route; check the network, and try again"
    ):
        upload(planned, api=Hub(OSError("no route")), sleep=waits.append)
    assert len(waits) == 5
    with pytest.raises(StorageError, match=r"no token; .* log in with `hf auth login`"):
        upload(planned, api=Hub(LocalTokenNotFoundError("no token")))


def test_what_cannot_be_published_is_refused(dataset, tmp_path):
    for repo in ("toy", "me/toy/x", "me/to y", "", "me/--x"):
        with pytest.raises(DataError, match=re.escape(repr(repo))):
            plan(dataset, repo)
    with pytest.raises(DataError, match=r"me/builder cannot hold builder\.py"):
        plan(dataset, "me/builder")
    with pytest.raises(DataError, match="neither a dataset"):
        plan(tmp_path, "me/x")
    with pytest.raises(DataError, match="there is no folder"):
        plan(tmp_path / "x", "me/x")
