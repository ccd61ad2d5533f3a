"""The command line: what README, cards and --help show really runs, and errors are one message."""

from __future__ import annotations

import io
import re
import shlex
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

from vl_assay.hub_datasets.authoring.config import BenchmarkConfig, GenerateConfig
from vl_assay.hub_datasets.toy_scenes.builder import ToyScenes
from vl_assay.metrics.common.command_line import main
from vl_assay.metrics.common.errors import VLAssayError
from vl_assay.metrics.results import compute
from vl_assay.model_wrappers.engine.commands import RunSettings
from vl_assay.model_wrappers.finetune.commands import FinetuneConfig

ROOT = Path(__file__).parents[1]


def command_names(group, prefix=""):
    """All commands by name, those within a group such as "leaderboard import" too."""
    for name, command in group.commands.items():
        yield prefix + name
        yield from command_names(command, f"{prefix}{name} ") if hasattr(command, "commands") else ()


COMMANDS = tuple(command_names(command_of("")))


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


@pytest.mark.parametrize("command", DOCUMENTED, ids=str)
def test_documented_commands_run(command, workplace):
    result, comment = invoke(*shlex.split(command)[1:], folder=workplace), DOCUMENTED[command]
    if comment.startswith("network"):
        assert isinstance(result.exception, VLAssayError)
        assert re.search(r"Hub|download|reach|connect|open_clip", str(result.exception))
    else:
        assert result.exit_code == 0, (result.output, result.exception)
        assert result.output.strip()


def test_commands_that_are_only_shown_have_options_that_exist():
    """Those of each command's help, on the cards, in running text and in blocks that need a network or a cluster."""
    shown = set()
    for name in COMMANDS:
        text = " ".join(command_of(name).callback.__doc__.split())
        examples = re.findall(r"`(?:torchrun .*? )?vl-assay ([^`]*)`", text)
        assert examples or name == "list"
        shown |= set(examples)
    cards = (ROOT / "hub_datasets").glob("*/README.md")
    for path in sorted({*DOCUMENTS, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *cards}):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        found = [line for block in blocks(path, "text") for line in block.replace("\\\n", " ").splitlines()]
        found += re.findall(r"`(vl-assay [^`]+)`", text.replace("\n", " "))
        found += [command for command, _ in commands(path)]
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


CONFIGURED = {
    "run": RunSettings,
    "predict": RunSettings,
    "generate": GenerateConfig,
    "new-benchmark": BenchmarkConfig,
    "finetune": FinetuneConfig,
}


@pytest.mark.parametrize("name", [*CONFIGURED, "corpus", "leaderboard import"])
def test_help_shows_every_text_whole_whatever_signs_are_in_it(name):
    command = command_of(name)
    shown = re.sub(r"[\s│]", "", invoke(*name.split(), "-h", width=200).output)
    texts = [re.sub(r"^- ", "•", parameter.help, flags=re.MULTILINE) for parameter in command.params if parameter.help]
    texts = [re.sub(r"[\s`]", "", text) for text in texts]
    assert texts or getattr(command, "commands", {})  # a group has the options of its commands
    assert [text for text in texts if text not in shown] == []
    settings = fields(CONFIGURED[name]) if name in CONFIGURED else ()
    assert [field.name for field in settings if f"•{field.name}(" not in shown] == []


def test_no_command_has_more_than_fifteen_parameters_and_those_with_settings_are_known():
    parameters = {name: [parameter.opts[0] for parameter in command_of(name).params] for name in COMMANDS}
    assert {name: len(each) for name, each in parameters.items() if len(each) > 15} == {}
    assert {name for name, each in parameters.items() if "--config" in each} == set(CONFIGURED)


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


def test_ties_count_as_asked(tmp_path):
    invoke("predict", "mock:constant", "toy_scenes/itm", "--out", ".", folder=tmp_path)
    output = invoke("report", "toy_scenes.itm.parquet", "--ties", "half", folder=tmp_path).output
    [line] = [line for line in output.splitlines() if "micro average" in line]
    assert line.split("│")[2].strip() == "50.0 %"
    assert "100.0 %" in line.split("│")[5]
