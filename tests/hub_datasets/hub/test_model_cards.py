"""Results in a model's repository: readable by the Hub's own reader, and nothing else in the card touched."""

import dataclasses
import os
from contextlib import redirect_stdout

import pytest
import yaml
from console import invoke
from huggingface_hub import ModelCard, parse_eval_result_entries
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_support import declared, matching, write

from vl_assay.hub_datasets import get_benchmark, report, write_model_card
from vl_assay.hub_datasets.hub.model_cards import eval_result_entries, eval_results
from vl_assay.metrics.common.command_line import build_app
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.records.predictions import Predictions, file_hash, write_predictions
from vl_assay.metrics.records.results import Result, code_version
from vl_assay.metrics.records.schema import MatchingRow

MODEL, DATE, COMMIT = "some/model", "2026-11-25T10:00:00+00:00", "c" * 40
# The last line of front matter, as the Hub reads it, is "---" on a line of its own.
OTHERS = """\
license: mit  # as given
# what it was trained on
datasets: &sets
- laion/laion400m
model-index: # kept by hand
- name: some/model
  results:
  - task: {type: image-classification, name: Classification}
    dataset: {type: owner/toy_scenes, name: Toy scenes}
    metrics:
    - {type: accuracy, value: 0.5}
    source: {name: Someone, url: https://example.org}

# the rest
tags: [a, 'b']
"""
BODY = "# Some model\n\nText with --- and a rule:\n\n---\n\nmodel-index: not this one\n"


def result_of(sha="a" * 64, value=0.75, model=MODEL, task="itm", metric="sugarcrepe_itm", hub=None, **changes):
    benchmark = {"name": "toy_scenes", "task": task, "configs": [task], "split": "test", "fingerprint": "f" * 64}
    benchmark |= {"hub": hub} if hub else {}
    scores = {"accuracy": value, "n": 8}
    if isinstance(value, float):
        scores |= {"accuracy_interval": [value - 0.1, value + 0.1], "macro_accuracy": value / 3}
    result = Result(
        model={"name": model},
        benchmark=benchmark | {"rows": 8, "missing": []},
        run={"date": DATE},
        predictions={"file": "s.parquet", "sha256": sha},
        metric=metric,
        options={"ties": "wrong", "confidence": 0.95, "resamples": 10_000, "seed": 0},
        missing=0,
        scores=scores,
        table_scores=["accuracy"],
        main_score="accuracy",
        higher_is_better={"accuracy": True},
        chance={"accuracy": 0.5},
    )
    return dataclasses.replace(result, **changes)


RESULT = result_of()


@pytest.fixture
def card(tmp_path):
    """A function that writes a card, and returns its path."""

    def write(content):
        path = tmp_path / "README.md"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def entries_of(path):
    return ModelCard.load(path).data.eval_results or []


def ours(path):
    return [entry for entry in entries_of(path) if (entry.source_name or "").startswith("VL-Assay ")]


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parsed(path):
    return parse_eval_result_entries(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    """Predictions of the seven categories of sugarcrepe, and of hard positives, which two metrics evaluate."""
    folder = tmp_path_factory.mktemp("predictions")
    tasks = {
        ("sugarcrepe", "itm"): ("add_att", "add_obj", "replace_att"),
        ("hard_positives", "replace"): ("replace_relations", "replace_attributes"),
    }
    for (name, task), configs in tasks.items():
        captions = 2 if task == "itm" else 3
        rows = [
            MatchingRow(f"{config}/{n}", config, config, [f"i{n}"], [0], [[0.5, 0.1 * n, 0.2 * n][:captions]])
            for config in configs
            for n in range(6)
        ]
        benchmark = {"name": name, "task": task, "configs": list(configs), "split": "test", "fingerprint": name}
        benchmark |= {"rows": len(rows), "missing": [], "metrics": declared(name, task)}
        write_predictions(
            folder / f"{name}.parquet", Predictions(rows, {"model": {"name": MODEL}, "benchmark": benchmark})
        )
    return folder


def test_the_hubs_own_readers_give_the_same_values_back(predictions, tmp_path):
    path = tmp_path / "README.md"
    sugarcrepe = report(predictions / "sugarcrepe.parquet", resamples=200)
    positives = report(predictions / "hard_positives.parquet", resamples=200)
    written = write_model_card(path, [*sugarcrepe, *positives], dataset_owner="me")
    assert [file.name for file in written] == ["README.md", "vl-assay-sugarcrepe.yaml"]
    assert entries_of(path) == [*eval_results(sugarcrepe, "me"), *eval_results(positives, "me")]
    assert parsed(tmp_path / ".eval_results" / "vl-assay-sugarcrepe.yaml") == eval_result_entries(sugarcrepe, "me")
    assert eval_result_entries(positives) == []  # two captions are true of an image: no `eval.yaml` asks for one


def test_an_entry_has_all_that_it_takes_to_compute_it_again(predictions, tmp_path):
    [result] = report(predictions / "sugarcrepe.parquet", resamples=200)
    write_model_card(tmp_path / "README.md", [result])
    accuracy, macro = entries_of(tmp_path / "README.md")
    assert (accuracy.metric_value, macro.metric_value) == (result.scores["accuracy"], result.scores["macro_accuracy"])
    assert (accuracy.metric_type, accuracy.metric_config) == ("accuracy", "sugarcrepe_itm")
    assert accuracy.metric_args == {**result.options, "interval": result.scores["accuracy_interval"], "n": 18}
    assert (accuracy.dataset_type, accuracy.dataset_name) == ("vl-assay/sugarcrepe", "SugarCrepe")
    configs = ["add_att", "add_obj", "replace_att"]
    assert accuracy.dataset_args == {"task": "itm", "configs": configs, "fingerprint": "sugarcrepe"}
    sha = file_hash(predictions / "sugarcrepe.parquet")
    assert accuracy.source_name == f"VL-Assay {code_version()}, predictions sha256:{sha}"


def test_date_and_revision_are_in_both_formats_as_the_hub_reads_them(tmp_path):
    result = result_of(hub={"repo": "me/toy_scenes", "revision": COMMIT}, missing=3)
    write_model_card(tmp_path / "README.md", [result], dataset_owner="me")
    [new] = parsed(tmp_path / ".eval_results" / "vl-assay-toy_scenes.yaml")
    old = entries_of(tmp_path / "README.md")[0]
    assert new.date == old.metric_args["date"] == DATE
    assert new.dataset_revision == old.dataset_revision == COMMIT
    assert new.source_url == old.source_url == "https://huggingface.co/datasets/me/toy_scenes"
    [elsewhere] = eval_result_entries([result], "other")  # another dataset, of which the revision is not known
    assert elsewhere.dataset_revision is None
    assert [entry.metric_args["missing"] for entry in eval_results([result])] == [3, 3]
    assert "3 examples lack their image and are in no score" in new.notes


def test_what_the_hubs_classes_take_and_the_format_has_not_is_refused(tmp_path):
    for result, message in (
        (result_of(value=float("nan")), r"accuracy of toy_scenes \(itm\) is nan; .* finite numbers from 0 to 1"),
        (result_of(value=75.0), r"is 75.0; a model's card"),
        (result_of(value="0.9 %"), r"is '0.9 %'; a model's card"),
        (result_of(run={"date": "25.11.2026"}), r"s.parquet have the date '25.11.2026'; expected ISO 8601"),
        (result_of(run={"date": 20261125}), r"have the date 20261125; expected ISO 8601"),
        (result_of(hub={"repo": "x/y", "revision": "main"}), r"have the dataset .*'main'.*; expected a revision of 40"),
    ):
        with pytest.raises(DataError, match=message):
            write_model_card(tmp_path / "README.md", [result])
    assert files_of(tmp_path) == {}


def test_all_configurations_together_and_each_have_the_accuracy_that_a_tool_would_measure(predictions, tmp_path):
    [part] = report(predictions / "sugarcrepe.parquet", resamples=200)  # three of seven configurations
    by_config = part.scores["per_category"]
    assert [(entry.task_id, entry.value) for entry in eval_result_entries([part])] == [
        (f"itm_{config}", by_config[config]["accuracy"]) for config in ("add_att", "add_obj", "replace_att")
    ]
    configs = list(get_benchmark("sugarcrepe").tasks[0].configs)
    whole = dataclasses.replace(part, benchmark=part.benchmark | {"configs": configs})
    first, second, *_ = eval_result_entries([whole])
    assert (first.task_id, first.value) == ("itm", part.scores["accuracy"])
    assert (second.task_id, second.value) == ("itm_add_att", by_config["add_att"]["accuracy"])
    low, high = by_config["add_att"]["accuracy_interval"]
    interval = f"95 % interval {100 * low:.1f} – {100 * high:.1f}"
    assert f"{interval}; n = 6; chance 50.0 %; A tie counts as wrong" in second.notes
    vqa = result_of(task="vqa", metric="yes_no_f1", main_score="macro_f1", options={"confidence": 0.95})
    assert [entry.value for entry in eval_result_entries([vqa])] == [vqa.scores["accuracy"]]
    assert eval_result_entries([result_of(task="groups", metric="group_match")]) == []


def test_new_results_take_the_place_of_old_ones_and_of_no_others(card, tmp_path):
    path = card(f"---\n{OTHERS}---\n{BODY}")
    write_model_card(path, [RESULT, result_of(task="order", metric="aro_itm")])
    write_model_card(path, [result_of("b" * 64, value=0.875)])
    assert [entry.metric_value for entry in entries_of(path) if entry.metric_type == "accuracy"] == [0.5, 0.875, 0.75]
    entries = parsed(tmp_path / ".eval_results" / "vl-assay-toy_scenes.yaml")
    assert [(entry.task_id, entry.value) for entry in entries] == [("itm", 0.875), ("order", 0.75)]
    # Under another owner's name they are the same benchmark still.
    write_model_card(path, [result_of("b" * 64, value=0.875)], dataset_owner="me")
    assert [entry.dataset_type for entry in ours(path)] == ["me/toy_scenes"] * 2 + ["vl-assay/toy_scenes"] * 2


def test_others_in_the_file_of_results_stay(card, tmp_path):
    file = tmp_path / ".eval_results" / "vl-assay-toy_scenes.yaml"
    file.parent.mkdir()
    other = {"dataset": {"id": "vl-assay/toy_scenes", "task_id": "itm"}, "value": 0.1, "extra": {"kept": True}}
    other["source"] = {"name": "Someone", "url": "https://example.org"}
    file.write_text(yaml.safe_dump([other]))
    write_model_card(card(BODY), [RESULT])
    first, second = yaml.safe_load(file.read_text())
    assert first == other
    assert second["value"] == RESULT.scores["accuracy"]


def test_cards_without_results_get_them_and_keep_their_metadata(card, capfd):
    for content in (
        BODY,
        "---\n---\n# A rule below no metadata\n",
        "---\n\n---\n" + BODY,
        "---\nlicense: mit\nmodel-index:\n---\n" + BODY,
        "---\nself: 1\nignore_metadata_errors: true\nget:\n7: seven\nlicense: mit\n---\n" + BODY,
        "\ufeff---\nlicense: mit\n---\n" + BODY,
    ):
        path = card(content)
        write_model_card(path, [RESULT])
        text = path.read_bytes().decode()
        metadata = yaml.safe_load(REGEX_YAML_BLOCK.search(text.removeprefix("\ufeff"))[2])
        old = REGEX_YAML_BLOCK.search(content.removeprefix("\ufeff"))
        kept = {**((yaml.safe_load(old[2]) if old else None) or {}), "model-index": metadata["model-index"]}
        assert metadata == kept
        assert text.startswith("\ufeff") == content.startswith("\ufeff")
        assert text.endswith(content.split("---\n")[-1])
        assert write_model_card(path, [RESULT]) == []
    assert capfd.readouterr().err == ""


def test_line_ends_of_the_card_are_those_of_the_new_lines(card):
    for content in (f"---\n{OTHERS}---\n{BODY}", BODY):
        path = card(content.replace("\n", "\r\n"))
        write_model_card(path, [RESULT])
        assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n") > 30


def test_cards_that_cannot_be_changed_safely_stay_as_they_are(card, tmp_path):
    for content, message in (
        ("---\na: [\n---\n", "are not valid YAML"),
        ("---\njust text\n---\n", "are 'just text', not keys with values"),
        ("---\nmodel-index: text\n---\n", "the model-index of .* cannot be read"),
        ("---\nmodel-index:\n- name: x\n  results: [{task: 1}]\n---\n", "the model-index of .* cannot be read"),
        (b"---\nlicense: \xff\n---\n", "is not UTF-8"),
    ):
        path = card(content)
        before = files_of(tmp_path)
        with pytest.raises(DataError, match=message):
            write_model_card(path, [RESULT])
        assert files_of(tmp_path) == before


def test_results_that_are_not_one_models_are_refused(tmp_path):
    for results, options, message in (
        ([], {}, "got results of 0 models"),
        ([RESULT, result_of(model="b")], {}, r"got results of 2 models \(some/model, b\)"),
        ([RESULT, result_of("b" * 64)], {}, r"got two files of predictions of toy_scenes \(itm\)"),
        ([RESULT, RESULT], {}, r"got two files of predictions of toy_scenes \(itm\)"),
        ([RESULT], {"dataset_owner": "a/b"}, "'a/b/toy_scenes' is not a valid"),
        ([RESULT], {"dataset_owner": ""}, "'/toy_scenes' is not a valid"),
    ):
        with pytest.raises(DataError, match=message):
            write_model_card(tmp_path / "README.md", results, **options)
    assert files_of(tmp_path) == {}


def test_a_folder_and_a_damaged_file_of_results_are_named(tmp_path):
    with pytest.raises(DataError, match=r"is a folder; name the README\.md in it"):
        write_model_card(tmp_path, [RESULT])
    (tmp_path / ".eval_results").mkdir()
    for damaged in ("a: 1", "- value: 1", "- [", "- text"):
        (tmp_path / ".eval_results" / "vl-assay-toy_scenes.yaml").write_text(damaged)
        with pytest.raises(DataError, match="is not a file of evaluation results"):
            write_model_card(tmp_path / "README.md", [RESULT])
    assert not (tmp_path / "README.md").exists()


def test_the_command_writes_the_card_next_to_the_report(predictions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = "model/README.md"
    (tmp_path / "model").mkdir()
    command = ["report", str(predictions / "sugarcrepe.parquet"), "--out", "out", "--model-card", path]
    for outcome in ("README.md, vl-assay-sugarcrepe.yaml", "nothing to change"):
        result = invoke(*command, "--dataset-owner", "me")
        assert result.exit_code == 0
        assert f"model card {path}: {outcome}" in result.output
    assert entries_of(path) == eval_results(report(predictions / "sugarcrepe.parquet"), "me")


def test_predictions_of_two_models_are_refused_before_anything_is_computed(predictions, tmp_path):
    other = write(tmp_path / "other.parquet", matching([[1, 0]] * 4), model="other")
    command = ["report", str(predictions), str(other), "--out", str(tmp_path / "out")]
    result = invoke(*command, "--model-card", str(tmp_path / "README.md"))
    assert "results of 2 models" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_report_whose_reader_leaves_early_is_written_whole(predictions, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as left, redirect_stdout(left), pytest.raises(SystemExit):
        build_app()(["report", str(predictions), "--out", str(tmp_path)])
    assert {"results.json", "report.md", "report.tex"} <= {path.name for path in tmp_path.iterdir()}


# What a text file can hold, with the characters that YAML and Markdown care about made frequent.
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r-:#'\"{}[]&*|>\ufeff\u2028\x85 \t"))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
# PyYAML breaks keys at line separators of Unicode, which is refused.
KEY = TEXT.filter(lambda key: key != "model-index")
METADATA = st.dictionaries(KEY, VALUE, max_size=4).filter(
    lambda found: not any(mark in repr(found) for mark in ("\\x85", "\\u2028", "\\u2029"))
)
PIECES = st.lists(TEXT | st.sampled_from(["---", "---\n", "\n---\n", "\r\n---\r\n", "a: 1", "# text\n"]), max_size=6)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(metadata=st.none() | METADATA, pieces=PIECES, end=st.sampled_from(["\n", "\r\n"]))
def test_whatever_a_card_holds_stays_or_the_card_is_refused_unchanged(metadata, pieces, end, card):
    text = "".join(pieces)
    if metadata is not None:
        block = yaml.safe_dump(metadata, sort_keys=False).replace("\n", end)
        text = f"---{end}{block}---{end}{text}"
    path = card(text)
    try:
        known = ModelCard.load(path)
    except (ValueError, TypeError, yaml.YAMLError):  # rules that enclose something other than keys and values
        known = None
    try:
        write_model_card(path, [RESULT])
    except DataError:
        assert path.read_bytes() == text.encode()
        assert (known, metadata) == (None, None)
        return
    content = path.read_bytes().decode()
    assert entries_of(path) == eval_results([RESULT])
    assert known is not None
    assert ModelCard.load(path).text == known.text
    if metadata is not None:
        assert content.endswith("".join(pieces))
        found = yaml.safe_load(REGEX_YAML_BLOCK.search(content)[2])
        assert [*found.items()][: len(metadata)] == [*metadata.items()]
    assert write_model_card(path, [RESULT]) == []
