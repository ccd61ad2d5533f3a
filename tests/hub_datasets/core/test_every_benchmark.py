"""What holds for every benchmark, from its sources to results: build, refuse, load, score, judge, and the card."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shutil
import sys
from itertools import product
from pathlib import Path

import datasets
import pytest
from builder_support import Small, card_table, image_columns, raw
from huggingface_hub import DatasetCard

from vl_assay import hub_datasets
from vl_assay.hub_datasets import benchmark_names, build, get_benchmark, report
from vl_assay.hub_datasets.core.benchmarks import config_names, get_builder, get_card, option_names
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.modules import citations
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import score

ROOT = Path(hub_datasets.__file__).parent
NAMES = benchmark_names()
# A script can import nothing of other folders: these helpers stand in each that needs them.
COPIED = (
    "corners", "crop", "crop_name", "read_bytes", "_read", "_fetch", "_reason", "_first_file", "_missing", "_shown",
    "_leads_below",
)  # fmt: skip
EVERY = pytest.mark.parametrize("name", NAMES)
MISSING = (FileNotFoundError, ConnectionError, PermissionError)
OWN = pytest.mark.parametrize("name", [name for name in NAMES if get_benchmark(name).source])


@pytest.fixture
def small(name, tmp_path):
    return Small(name, tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A function that builds a benchmark's repository from small sources, once: these, and its folder."""
    made = {}

    def make(name):
        if name not in made:
            small = Small(name, tmp_path_factory.mktemp(name))
            out = small.folder.with_name("built")
            with pytest.MonkeyPatch.context() as patch:
                getattr(small.sources, "shrink", lambda patch: None)(patch)
                build(name, out, configs=small.configs, data_dir=small.data_dir, options=small.options)
            made[name] = small, out
        return made[name]

    return make


@EVERY
def test_a_build_loads_the_same_plain_and_streaming(name, built):
    small, out = built(name)
    for config in small.configs:
        plain, streamed = (
            raw(datasets.load_dataset(str(out), config, split=small.split, streaming=streaming))
            for streaming in (False, True)
        )
        assert plain == streamed
        assert len({row["id"] for row in plain}) == len(plain) > 0


@OWN
def test_a_build_has_the_rows_that_the_builder_streams(name, built):
    small, out = built(name)
    for config in small.configs:
        rows = small.rows(config)
        # Parquet keeps of an image's path the name.
        for row, column in product(rows, image_columns(small.builder(config).info.features)):
            row[column] = row[column] | {"path": Path(row[column]["path"]).name}
        assert raw(datasets.load_dataset(str(out), config, split=small.split)) == rows


@OWN
def test_two_processes_give_the_rows_of_one(small):
    for config in {small.configs[0], small.configs[-1]}:
        builder = small.builder(config)
        builder.download_and_prepare(num_proc=2)
        assert raw(builder.as_dataset(split=small.split)) == small.rows(config)


@EVERY
def test_the_mocks_are_scored_and_judged(name, built, tmp_path):
    _, out = built(name)
    for mock in ("shuffled", "constant"):
        all_predictions = score(f"mock:{mock}", [str(out)], out=tmp_path / mock, progress=False)
        tasks = [task for task in get_benchmark(name).tasks if task.by_default]
        results = report(all_predictions, resamples=100)
        assert [result.metric for result in results] == [metric for task in tasks for metric in task.metrics]
        assert all(result.scores["n"] > 0 for result in results)
        assert sum(len(read_predictions(predictions).rows) for predictions in all_predictions) > 0
        if mock == "constant":
            # A box around everything is right or wrong, and no answer is wrong, without a tie.
            kinds = {task.name: task.task_type for task in tasks}
            pairs = [each for each in results if kinds[each.benchmark["task"]] in ("matching", "retrieval")]
            rates = [value for result in pairs for key, value in result.scores.items() if key.endswith("tie_rate")]
            assert set(rates) == {1.0}


@OWN
def test_files_are_found_in_each_documented_place(small):
    rows = {config: small.rows(config) for config in small.configs}
    for folder, places in small.sources.PLACES.items():
        for place in places:
            moved = small.folder.with_name("moved")
            shutil.copytree(small.folder, moved)
            (moved / folder).rename(moved / "taken")
            shutil.copytree(moved / "taken", moved / place, dirs_exist_ok=True)
            shutil.rmtree(moved / "taken")
            assert {config: small.rows(config, data_dir=moved) for config in small.configs} == rows, (folder, place)
            shutil.rmtree(moved)


@OWN
def test_data_dir_may_be_relative_or_in_the_home_folder(small, monkeypatch):
    rows = small.rows()
    monkeypatch.chdir(small.folder.parent)
    monkeypatch.setenv("HOME", str(small.folder.parent))
    assert small.rows(data_dir=small.folder.name) == small.rows(data_dir=f"~/{small.folder.name}") == rows


@OWN
def test_data_dir_that_is_not_a_folder_is_named(small, tmp_path):
    for config in config_names(small.name):
        small.error(
            FileNotFoundError, rf"data_dir {tmp_path}/nowhere is not a folder", config, data_dir=tmp_path / "nowhere"
        )


@OWN
def test_without_any_copy_it_says_what_to_get_and_that_data_dir_takes_it(small):
    for config in config_names(small.name):
        message = small.error(MISSING, "data_dir", config, data_dir=None)
        assert re.search(r"https?://|gdown", message)


@OWN
def test_a_missing_or_empty_image_is_named_with_its_rows_and_the_cures_or_leaves_its_rows_without(small):
    for config in small.configs:
        rows = small.rows(config)
        columns = image_columns(small.builder(config).info.features)
        lost = Path(rows[0][columns[0].replace("image", "filename")]).name
        copies = {path: path.read_bytes() for path in small.images() if path.name == lost}
        for path in copies:
            path.write_bytes(b"")
        message = small.error(
            FileNotFoundError, rf"1 of \d+ images .*{lost}.*allow_missing=True.*with_images=False", config
        )
        assert "(for " not in message or f"(for {rows[0]['id']}" in message
        for path in copies:
            path.unlink()
        assert small.error(FileNotFoundError, lost, config) == message
        left = small.rows(config, allow_missing=True)
        for row, column in product(rows, columns):
            if Path(row[column.replace("image", "filename")]).name == lost:
                row[column] = None
        assert left == rows
        for path, content in copies.items():
            path.write_bytes(content)


@OWN
def test_of_many_missing_images_five_are_named_and_the_rest_counted(small):
    for path in small.images():
        path.write_bytes(b"")
    for config in small.configs:
        message = small.error(FileNotFoundError, r"(\d+) of \1 images ", config)
        count = int(re.search(r"(\d+) of \1 images ", message)[1])
        shown = [path for path in small.images() if re.search(rf"\b{path.name}\b", message)]
        assert len(shown) == min(count, 5)
        assert (f"and {count - 5} more" in message) == (count > 5)


@OWN
def test_text_alone_needs_no_images_and_has_no_image_columns(small):
    rows = {config: small.rows(config) for config in small.configs}
    for path in small.images():
        path.unlink()
    for config in small.configs:
        columns = image_columns(small.builder(config).info.features)
        expected = [{key: value for key, value in row.items() if key not in columns} for row in rows[config]]
        assert small.rows(config, with_images=False) == expected


@OWN
def test_a_repository_of_what_is_missing_is_refused_in_the_builders_words_and_leaves_nothing(small, tmp_path):
    for path in small.images():
        path.write_bytes(b"")
    with pytest.raises(DataError, match=rf"{small.name}/{small.config}: .*images"):
        build(small.name, tmp_path / "out", configs=[small.config], data_dir=small.folder, options=small.options)
    assert not (tmp_path / "out").exists()


@OWN
def test_files_that_are_missing_are_named_with_where_to_get_them(small):
    for path in small.files():
        path.unlink()
    for config in small.configs:
        message = small.error(MISSING, rf"{small.folder}|data_dir", config)
        assert re.search(r"https?://|gdown", message)


@OWN
@pytest.mark.parametrize("content", [b"", b"\xff", b"["])
def test_a_damaged_file_is_named(small, content):
    for path in small.files():
        path.write_bytes(content)
    for config in small.configs:
        # An empty file may count as one that did not arrive.
        message = small.error(ValueError if content else (ValueError, FileNotFoundError), str(small.folder), config)
        assert any(str(path.relative_to(small.folder)) in message for path in small.files())


@pytest.mark.parametrize("name", [name for name in NAMES if "verify" in option_names(name)])
def test_by_default_files_must_be_the_released_ones(small):
    for config in small.configs:
        message = small.error(ValueError, "verify=False", config, verify=True)
        assert any(str(path) in message for path in small.files())
        assert get_builder(small.name)(config_name=config).config.verify


@EVERY
def test_the_script_and_its_siblings_import_nothing_that_old_environments_lack(name):
    """They have the standard library, `datasets`, and what that needs."""
    allowed = {"datasets", "PIL", "pyarrow", "huggingface_hub", "numpy", *sys.stdlib_module_names}
    waiting, seen = ["builder"], set()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for node in ast.walk(ast.parse((ROOT / name / f"{module}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1
                waiting += {node.module} - seen
            elif isinstance(node, ast.ImportFrom | ast.Import):
                imported = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert imported.split(".")[0] in allowed


def test_copies_of_a_module_in_several_folders_are_equal():
    assert (ROOT / "aro" / "karpathy.py").read_bytes() == (ROOT / "retrieval" / "karpathy.py").read_bytes()


@pytest.mark.parametrize("name", COPIED)
def test_helpers_of_one_name_do_the_same_in_every_folder(name):
    copies = set()
    for path in (path for folder in benchmark_names() for path in (ROOT / folder).glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                node.body = node.body[1:] if ast.get_docstring(node) else node.body
                copies.add(ast.unparse(node))
    assert len(copies) == 1


@EVERY
def test_examples_in_docstrings_hold(name):
    for path in (ROOT / name).glob("*.py"):
        assert doctest.testmod(importlib.import_module(f"{hub_datasets.__name__}.{name}.{path.stem}")).failed == 0


@EVERY
def test_the_card_has_a_licence_and_leaves_configurations_to_the_build(name):
    metadata = DatasetCard(get_card(name), ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"]
    assert not {"configs", "dataset_info"} & set(metadata)


@pytest.mark.parametrize("citation", [value for name, value in vars(citations).items() if name.isupper()])
def test_cards_cite_a_paper_as_the_metrics_do(citation):
    def entries(text):
        """Titles, authors and years by key, without braces, line ends and capitals."""
        return {
            key: {
                part: re.sub("[{}]", "", value).lower().split()
                for part, value in re.findall(r"\b(title|author|year)\s*=\s*\{(.*?)\},?\n", fields, re.DOTALL)
            }
            for key, fields in re.findall(r"^@\w+\{(.+?),\n(.*?)^\}$", text, re.DOTALL | re.MULTILINE)
        }

    cited = entries(citation)
    for name in NAMES:
        card = entries(get_card(name))
        assert {key: card[key] for key in cited if key in card} == {key: cited[key] for key in cited if key in card}


@EVERY
def test_the_card_names_every_configuration_column_and_option(name):
    card = get_card(name)
    assert list(card_table(name, "counts")) in ([], config_names(name))
    for config in config_names(name):
        for column in get_builder(name)(config_name=config).info.features:
            assert re.search(rf"\b{column}\b", card), column
    for option in option_names(name):
        assert re.search(rf"`{option}\b|\b{option}=", card), option
