"""The command line: what README, cards and --help show really runs, and errors are one message."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import fields
from functools import cache
from pathlib import Path

import datasets
import evaluate
import pytest
import sources_toy_order
from console import blocks, command_of, invoke

from vl_assay.hub_datasets import benchmark_names
from vl_assay.hub_datasets.authoring.config import BenchmarkConfig, GenerateConfig
from vl_assay.hub_datasets.toy_scenes.builder import ToyScenes
from vl_assay.metrics.common.command_line import build_app, main
from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.metrics.results import compute
from vl_assay.model_wrappers.engine.commands import RunSettings
from vl_assay.model_wrappers.finetune.commands import FinetuneConfig

ROOT = Path(__file__).parents[1]
PLAIN = """audit build cache check compare errors export finetune generate install leaderboard list merge moderate
new-benchmark precomputed predict publish refine report reproduce review run skills submit"""
COMMANDS = (*PLAIN.split(), "leaderboard import", "corpus", "corpus generate", "corpus contamination")


def commands(path):
    """The `vl-assay` commands of a document, each with its comment."""
    for block in blocks(path, "bash"):
        for line in block.splitlines():
            command, _, comment = line.partition("#")
            for part in command.split("&&"):
                if part.strip().startswith("vl-assay "):
                    yield part.strip(), comment.strip()


@pytest.fixture(scope="module")
def small_benchmarks(toy):
    """The generated benchmarks with few scenes, in the train split too, and intervals of few resamples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(compute.DEFAULTS, "resamples", 100)
        patch.setattr("vl_assay.hub_datasets.chat.calls.FIRST_WAIT", 0.001)
        sources_toy_order.shrink(patch)
        for config in ToyScenes.BUILDER_CONFIGS:
            patch.setattr(config, "train_scenes", min(config.train_scenes, 40))
        yield


@pytest.fixture(scope="module")
def workplace(small_benchmarks, tmp_path_factory):
    """A folder in which the commands of all documents run one after the other."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "coco").mkdir()
    for text in (text for path in DOCUMENTS for text in blocks(path, "yaml")):
        (folder / text.splitlines()[0].removeprefix("# ")).write_text(text, "utf-8")
    return folder


DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "guide.md", ROOT / "docs" / "scale.md")
# Each command once, though several documents show it. new-benchmark needs more captions than the small toy_scenes has;
# test_new_benchmark.py runs it.
DOCUMENTED = {
    command: comment
    for path in DOCUMENTS
    for command, comment in commands(path)
    if "new-benchmark my_scenes" not in command
}


def test_documented_commands_were_found():
    assert len(DOCUMENTED) >= 20
    assert next(iter(DOCUMENTED)) == "vl-assay run"


# Processes that import the package again.
SLOW = "vl-assay corpus generate 'toy/itm/*.parquet' --kind swap_obj --out parts --workers 2"


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=pytest.mark.slow) if each == SLOW else each for each in DOCUMENTED], ids=str
)
def test_documented_commands_run(command, workplace):
    result, comment = invoke(*shlex.split(command)[1:], folder=workplace), DOCUMENTED[command]
    if comment.startswith("network"):
        assert isinstance(result.exception, VLAssayError)
        assert re.search(r"Hub|download|reach|connect|open_clip", str(result.exception))
    else:
        assert result.exit_code == 0, (result.output, result.exception)
        assert result.output.strip()


def test_commands_that_are_only_shown_have_options_that_exist():
    """Those in running text and in blocks that need a network, a GPU or a cluster."""
    shown = set()
    for path in sorted({*DOCUMENTS, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")}):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        found = [line for block in blocks(path, "text") for line in block.replace("\\\n", " ").splitlines()]
        found += re.findall(r"`(vl-assay [^`]+)`", text.replace("\n", " "))
        shown |= {
            re.sub(r'^.*"\$\(which vl-assay\)"|^vl-assay ', "", line.partition(" #")[0]).strip()
            for line in found
            if line.startswith("vl-assay ") or "$(which vl-assay)" in line
        }
    assert len(shown) >= 50
    for words in map(shlex.split, sorted(shown)):
        group = f"{words[0]} {words[1]}" if len(words) > 1 and f"{words[0]} {words[1]}" in COMMANDS else words[0]
        assert group in COMMANDS or group == "COMMAND", words
        options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "--help"]
        assert [option for option in options if option not in help_of(*group.split())] == [], words


def test_bare_names_work_from_any_folder_after_install(workplace, tmp_path, monkeypatch):
    # What the guide's command has installed is not built again.
    installed = invoke("install", folder=tmp_path).output
    assert 'evaluate.load("sugarcrepe_itm")' in installed
    assert 'load_dataset("toy_scenes", "itm")' in installed
    monkeypatch.chdir(tmp_path)
    assert evaluate.load("sugarcrepe_itm").compute(predictions=[[1, 0]], references=[0])["accuracy"] == 1
    assert len(datasets.load_dataset("toy_scenes", "itm", split="test")) == 280


def test_documented_python_runs(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    for path in DOCUMENTS:
        names = {}
        for code in blocks(path, "python"):
            exec(compile(code, path.name, "exec"), names)


def test_paths_in_the_documents_exist():
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_places_in_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = re.findall(r"`((?:metrics|hub_datasets|model_wrappers|space_app)/[^`]*)`", text)
    assert len(places) > 20
    assert [place for place in places if not any(ROOT.glob(place.replace("<name>", "*")))] == []


@cache
def help_of(*words):
    result = invoke(*words, "--help")
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples_that_exist(name):
    text = command_of(name).callback.__doc__.replace("\n", " ")
    examples = re.findall(r"`(?:torchrun .*? )?vl-assay ([^`]*)`", text)
    assert examples or name == "list"
    for example in examples:
        command, *words = shlex.split(example)
        within = [word for word in words[:1] if f"{command} {word}" in COMMANDS]
        assert all(word.partition("=")[0] in help_of(command, *within) for word in words if word.startswith("-"))


@pytest.mark.parametrize("name", ["run", "generate", "corpus", "leaderboard import"])
def test_help_shows_every_text_whole_whatever_signs_are_in_it(name):
    command = command_of(name)
    shown = re.sub(r"[\s│]", "", invoke(*name.split(), "-h", width=200).output)
    texts = [re.sub(r"^- ", "•", parameter.help, flags=re.MULTILINE) for parameter in command.params if parameter.help]
    texts = [re.sub(r"[\s`]", "", text) for text in texts]
    assert texts or getattr(command, "commands", {})  # a group has the options of its commands
    assert [text for text in texts if text not in shown] == []


CONFIGURED = {
    "run": RunSettings,
    "predict": RunSettings,
    "generate": GenerateConfig,
    "new-benchmark": BenchmarkConfig,
    "finetune": FinetuneConfig,
}


def test_no_command_has_more_than_fifteen_parameters_and_those_with_settings_are_known():
    parameters = {name: [parameter.opts[0] for parameter in command_of(name).params] for name in COMMANDS}
    assert {name: len(each) for name, each in parameters.items() if len(each) > 15} == {}
    assert {name for name, each in parameters.items() if "--config" in each} == set(CONFIGURED)


@pytest.mark.parametrize("name", CONFIGURED)
def test_help_lists_each_setting_of_the_config_file_on_its_own_line(name):
    lines = [line.replace("│", "").strip() for line in help_of(name).splitlines()]
    for field in fields(CONFIGURED[name]):
        assert [line for line in lines if line.startswith(f"• {field.name} (")], field.name


@pytest.mark.parametrize(
    "command",
    [
        "run demo-clip toy_scenes/itm",
        "predict demo-clip toy_scenes/itm",
        "generate toy_scenes/itm --rules --out made",
        "new-benchmark made toy_scenes/itm --work work --rules",
        "finetune demo-clip toy_scenes --out tuned",
    ],
)
def test_a_wrong_setting_in_the_config_file_is_named_before_anything_is_written(command, tmp_path):
    (tmp_path / "wrong.yaml").write_text("sead: 1\n")
    result = invoke(*command.split(), "--config", "wrong.yaml", folder=tmp_path)
    assert isinstance(result.exception, VLAssayError)
    assert re.match(r"unknown setting in wrong.yaml 'sead'; known: ", str(result.exception))
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.yaml"]


def test_help_lists_examples_line_by_line_and_the_common_options_first():
    shown = invoke("run", "--help", width=80).output
    assert " • vl-assay run demo-clip --plan " in shown
    assert shown.index("--data-dir ") < shown.index("Speed and memory") < shown.index("--batch-size")
    assert re.fullmatch(r"vl-assay \d+\.\d+\.\d+\n", invoke("--version").output)


def callbacks(app, prefix=""):
    """The functions of all commands by name, those within a group such as "leaderboard import" too."""
    found = {prefix + (each.name or each.callback.__name__): each.callback for each in app.registered_commands}
    for group in app.registered_groups:
        if group.name:
            found[prefix + group.name] = group.typer_instance.registered_callback.callback
        found |= callbacks(group.typer_instance, f"{prefix}{group.name} " if group.name else prefix)
    return found


def test_commands_are_exactly_those_that_are_documented():
    assert set(callbacks(build_app())) == set(COMMANDS)


@pytest.mark.parametrize("name", benchmark_names())
def test_options_in_the_cards_exist(name):
    for command, _ in commands(ROOT / "hub_datasets" / name / "README.md"):
        words = shlex.split(command)
        assert all(word.partition("=")[0] in help_of(words[1]) for word in words if word.startswith("--"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run no-such-model", "unknown model 'no-such-model'"),
        ("run mock:oracle no-such-benchmark", "unknown benchmark 'no-such-benchmark'; known: aro, aro_crepe"),
        ("run mock:oracle sugarcrepe/no-such-category", "unknown part of sugarcrepe 'no-such-category'"),
        ("run mock:oracle toy_scenes --ties maybe", "unknown tie policy 'maybe'; known: wrong, half, right"),
        ("report a.parquet --confidence 95", "confidence is 95.0"),
        ("run mock:oracle toy_scenes -o seed=[", "the value of option 'seed=[' cannot be read"),
        ("run mock:oracle ./nowhere", "there is no folder ./nowhere"),
        ("run mock:oracle sugarcrepe --data-dir nowhere", "the data folder nowhere is not a folder"),
        ("build toy_scenes --out .", ". is the folder you are in"),
        ("report .", ". is a folder without predictions"),
        ("run mock:oracle toy_scenes -o seed", "option 'seed' has no value; write NAME=VALUE"),
        ("build toy_scenes/itm --out new -o sead=1", "unknown option of toy_scenes 'sead'"),
        ("report nowhere.parquet", "nowhere.parquet: no such predictions file"),
        ("publish nowhere me/x", "there is no folder nowhere"),
        ("publish . me/x", ". is neither a dataset that `vl-assay build` wrote"),
        ("install nonsense", "unknown metric or benchmark 'nonsense'"),
        ("list datasets", "unknown thing to list 'datasets'; known: benchmarks, metrics, models"),
        ("list --data-dir nowhere", "the data folder nowhere is not a folder"),
        ("build toy_scenes", "--out is missing; name the folder to write, or give --check"),
        ("build --out x", "neither a benchmark nor --all came"),
        ("build cola --all --out x", "both a benchmark and --all came"),
        ("build --all --out x -o sead=1", "unknown option 'sead'; known: "),
        ("build --all --out x --data-dir nowhere", "the data folder nowhere is not a folder"),
    ],
)
def test_what_cannot_be_done_is_one_message_and_writes_nothing(arguments, message, tmp_path):
    error = invoke(*shlex.split(arguments), folder=tmp_path).exception
    assert isinstance(error, VLAssayError)
    assert str(error).startswith(message)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_console_that_lacks_characters_gets_others_in_their_place(tmp_path, monkeypatch):
    console = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", console)
    path = ROOT / "space_app" / "launch" / "mock-constant.toy_scenes.order.parquet"
    monkeypatch.setattr(sys, "argv", ["vl-assay", "report", str(path), "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="0"):
        main()
    console.flush()
    assert b"accuracy" in console.buffer.getvalue()


def test_a_warning_is_a_line_without_a_place_in_the_source(monkeypatch, capsys):
    app = "vl_assay.metrics.common.command_line.build_app"
    monkeypatch.setattr(app, lambda: lambda: warnings.warn("a\n b", RuntimeWarning, stacklevel=1))
    main()
    assert capsys.readouterr().err == "note: a b\n"


def test_a_process_of_its_own_prints_the_error_and_no_traceback(tmp_path):
    command = [sys.executable, "-m", "vl_assay.metrics.common.command_line", "report", "nowhere.parquet"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (1, "error: nowhere.parquet: no such predictions file\n")


def test_ties_count_as_asked(tmp_path):
    invoke("predict", "mock:constant", "toy_scenes/itm", "--out", ".", folder=tmp_path)
    output = invoke("report", "toy_scenes.itm.parquet", "--ties", "half", folder=tmp_path).output
    [line] = [line for line in output.splitlines() if "micro average" in line]
    assert line.split("│")[2].strip() == "50.0 %"
    assert "100.0 %" in line.split("│")[5]
