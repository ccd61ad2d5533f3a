"""The built data that come with toy_scenes: exactly what the builder makes, and used for nothing else."""

import pytest
from make_shipped_build import FOLDER, NAME, make

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.core import examples
from vl_assay.hub_datasets.core.benchmarks import code_hash
from vl_assay.hub_datasets.core.build import built_files
from vl_assay.hub_datasets.core.examples import cached_build
from vl_assay.hub_datasets.core.repository import read_build, shipped_build
from vl_assay.hub_datasets.toy_scenes.builder import ToyScenes

RECORD = read_build(FOLDER)
AGAIN = "make the folder anew: python tests/make_shipped_build.py"
OPTIONS = {"train_scenes": 0}


@pytest.mark.parametrize("config", RECORD["configs"])
def test_its_rows_are_those_of_the_builder(config, tmp_path):
    assert RECORD["code"] == code_hash(NAME), AGAIN
    [file] = built_files(FOLDER, config, "test")  # which compares the hash in its name
    from datasets import load_dataset

    builder = ToyScenes(cache_dir=str(tmp_path), dataset_name=NAME, config_name=config, **OPTIONS)
    made = [row for _, row in builder._generate_examples("test", 25)]
    shipped = load_dataset("parquet", data_files=str(file), split=f"train[:{len(made)}]", cache_dir=str(tmp_path))
    assert shipped.to_list() == made, AGAIN


@pytest.mark.slow
def test_every_file_is_the_same_when_it_is_made_again(tmp_path):
    make(tmp_path / "built")
    files = {path.relative_to(FOLDER): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
    again = {path.relative_to(tmp_path / "built"): path for path in (tmp_path / "built").rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in again.items()} == files, AGAIN


@pytest.fixture
def builds(monkeypatch, tmp_path):
    """The options of what is built, in place of building it."""
    made = []
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path))
    monkeypatch.setattr(examples, "build", lambda *_, **options: made.append(options))
    return made


def test_scoring_with_the_default_options_builds_nothing(builds):
    tasks = load_examples(f"{NAME}/itm")
    assert [len(task.examples) for task in tasks] == [7000]
    # As predictions record the options.
    assert cached_build(NAME, "order", None, {**OPTIONS, "seed": 0}, "test") == shipped_build(NAME) == FOLDER
    assert builds == []


@pytest.mark.parametrize(
    ("config", "options", "split"),
    [
        ("itm", {**OPTIONS, "seed": 1}, "test"),
        ("itm", {}, "test"),
        ("itm", OPTIONS, None),
        ("itm", OPTIONS, "validation"),
        ("retrieval", OPTIONS, "test"),
    ],
)
def test_anything_else_is_built(config, options, split, builds):
    assert cached_build(NAME, config, None, options, split) != FOLDER
    assert len(builds) == 1


def test_rows_of_other_code_are_built(builds, monkeypatch):
    monkeypatch.setattr(examples, "code_hash", lambda name: "another")
    assert cached_build(NAME, "itm", None, OPTIONS, "test") != FOLDER
    assert len(builds) == 1
