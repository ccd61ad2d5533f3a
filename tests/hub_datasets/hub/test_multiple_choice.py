"""Benchmarks as multiple choice: nothing tells the right choice, and other tools find what they need."""

import base64
import importlib
import json
import sys
from collections import Counter

import pytest
import yaml
from console import invoke
from datasets import load_dataset

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.core.images import decode
from vl_assay.hub_datasets.hub.multiple_choice import export
from vl_assay.metrics.common.errors import DataError, StorageError


class Functions(yaml.SafeLoader):
    """Reads lmms-eval's tag for a function of its utils as the function's name."""


Functions.add_constructor("!function", lambda loader, node: node.value.removeprefix("utils."))


@pytest.fixture(scope="module")
def exported(toy, tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "choices"
    result = invoke("export", "toy_scenes", out, "--repo", "me/choices", "--limit", "40")
    assert result.exit_code == 0, result.output
    return out


def test_rows_have_the_captions_in_an_order_that_says_nothing(exported):
    [task] = load_examples("toy_scenes/itm", limit=40)
    rows = load_dataset(str(exported), "choices_itm", split="test")
    assert len(rows) == len(task.examples)
    for row, example in zip(rows, task.examples, strict=True):
        assert (row["id"], row["category"]) == (example.id, example.category)
        assert sorted(row["choices"]) == sorted(example.captions)
        assert row["choices"][ord(row["target"]) - ord("A")] == example.captions[0]
        head, _, content = row["image_uri"].partition(",")
        assert head == "data:image/png;base64"
        assert decode(base64.b64decode(content)).tobytes() == row["image"].convert("RGB").tobytes()
    counts = Counter(rows["target"])
    assert set(counts) == {"A", "B"}
    assert min(counts.values()) > 0.25 * len(rows)


def test_groups_have_a_row_for_each_image_and_questions_yes_and_no(exported):
    groups = load_dataset(str(exported), "choices_groups", split="test")
    first, second = groups[0], groups[1]
    assert (first["id"], second["id"]) == (f"{first['id'][:-2]}#0", f"{first['id'][:-2]}#1")
    right = [row["choices"][ord(row["target"]) - ord("A")] for row in (first, second)]
    assert right[0] != right[1]
    assert set(first["choices"]) == set(second["choices"]) == set(right)


def test_the_task_files_name_what_is_there(exported):
    what = yaml.safe_load((exported / "eval.yaml").read_text())
    assert list(what) == ["name", "description", "evaluation_framework", "tasks"]
    assert (what["name"], what["evaluation_framework"]) == ("Toy Scenes", "inspect-ai")
    assert what["description"].startswith("Does an evaluation measure what it should? Rendered scenes")
    assert [task["id"] for task in what["tasks"]] == ["itm", "order", "groups", "vqa"]
    for task in what["tasks"]:
        rows = load_dataset(str(exported), task["config"], split=task["split"])
        fields = task["field_spec"]
        assert {fields["input"], fields["input_image"], fields["choices"], fields["target"], *fields["metadata"]} <= {
            *rows.features
        }
        own = yaml.safe_load((exported / "lm_eval" / f"toy_scenes_{task['id']}.yaml").read_text())
        assert (own["dataset_path"], own["dataset_name"]) == ("me/choices", task["config"])
    assert json.dumps(what)


def test_lmms_eval_finds_functions_that_ask_and_count_a_letter(exported, monkeypatch):
    monkeypatch.syspath_prepend(exported / "lmms_eval")
    utils = importlib.import_module("utils")
    monkeypatch.delitem(sys.modules, "utils")
    own = yaml.load((exported / "lmms_eval" / "toy_scenes_groups.yaml").read_text(), Functions)
    ask, look, count = (getattr(utils, own[key]) for key in ("doc_to_text", "doc_to_visual", "process_results"))
    row = load_dataset(str(exported), own["dataset_name"], split=own["test_split"])[0]
    assert ask(row).splitlines()[1:3] == [f"A. {row['choices'][0]}", f"B. {row['choices'][1]}"]
    assert [each.size for each in look(row)] == [row["image"].size]
    target = row[own["doc_to_target"]]
    replies = (f" {target}.", f"The answer is {target}", "B" if target == "A" else "A", "")
    found = [count(row, [reply]) for reply in replies]
    metric = own["metric_list"][0]["metric"]
    assert [each[metric] for each in found] == [1, 1, 0, 0]
    logged = {"id": row["id"], "choices": row["choices"]}
    assert [each["vl_assay"] for each in found] == [logged | {"answer": reply} for reply in replies]


def test_what_cannot_be_exported_is_refused_and_nothing_is_lost(toy, tmp_path):
    export("toy_scenes/itm", tmp_path / "mine", limit=5)
    assert export("toy_scenes/itm", tmp_path / "mine", limit=6) == {"itm": 6}
    own = [tmp_path / "mine" / name for name in ("journal.jsonl", "lm_eval/samples.jsonl", "choices/own.parquet")]
    for file in own:
        file.write_text("x")
        with pytest.raises(StorageError, match=f"{file.name} was not written by an export; name another folder"):
            export("toy_scenes/itm", tmp_path / "mine", limit=5)
        assert file.read_text() == "x"
        file.rename(tmp_path / file.name)
    (tmp_path / "mine" / "eval.yaml").unlink()
    with pytest.raises(StorageError, match="was not written by an export"):
        export("toy_scenes/itm", tmp_path / "mine", limit=5)
    with pytest.raises(StorageError, match="is a file; name a folder"):
        export("toy_scenes/itm", tmp_path / "journal.jsonl", limit=5)
    for several_are_true in ("retrieval", "hard_positives"):
        with pytest.raises(DataError, match="has no task in which one caption is true of each image"):
            export(f"toy_scenes/{several_are_true}", tmp_path / "none", limit=5)
    assert not (tmp_path / "none").exists()
