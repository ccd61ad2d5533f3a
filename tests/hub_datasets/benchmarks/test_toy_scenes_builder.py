"""toy_scenes as a dataset: splits, rows, columns like those of the benchmarks of photographs, and a true card."""

import functools
import itertools
import re
from pathlib import Path

import datasets
import pytest

from vl_assay.hub_datasets.toy_scenes import builder as module
from vl_assay.hub_datasets.toy_scenes.builder import ToyScenes
from vl_assay.hub_datasets.toy_scenes.render import read_scene
from vl_assay.hub_datasets.toy_scenes.tasks import TASKS, task_rows
from vl_assay.hub_datasets.toy_scenes.world import Scene
from vl_assay.metrics.common.errors import DataError

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def make(tmp_path):
    def make(config="captions", **options):
        cache = str(tmp_path / "cache")
        return ToyScenes(cache_dir=cache, dataset_name="toy_scenes", config_name=config, **options)

    return make


@pytest.fixture
def without_pictures(monkeypatch):
    """Spare the drawing where only numbers count."""
    monkeypatch.setattr(module, "to_png", lambda scene: b"")


@pytest.fixture(scope="module")
def rows():
    """The rows of the first three scenes of test, by configuration, as the builder streams them."""
    found = {}
    for config in TASKS:
        stream = ToyScenes(config_name=config).as_streaming_dataset(split="test")
        scene = functools.partial(next, iter(stream))
        found[config] = [scene() for _ in range(3 * len(task_rows(config, 0, "test", 0)[1]))]
    return found


def test_a_build_has_the_documented_splits(make, without_pictures):
    builder = make("retrieval", train_scenes=3)
    builder.download_and_prepare()
    sizes = {name: split.num_examples for name, split in builder.info.splits.items()}
    assert sizes == {"train": 3, "validation": 100, "test": 100}


def test_minus_one_streams_on_after_any_number_and_is_not_written(make, without_pictures):
    stream = make(train_scenes=-1).as_streaming_dataset(split="train")
    later = stream.cast_column("image", datasets.Image(decode=False)).skip(100).take(3)
    assert [row["id"] for row in later] == [f"train-{index:06d}" for index in range(100, 103)]
    with pytest.raises(DataError, match="only as_streaming_dataset"):
        make(train_scenes=-1).download_and_prepare()
    for value in (-2, "ten"):
        with pytest.raises(DataError, match=f"train_scenes is {value!r}; give a number of scenes"):
            make(train_scenes=value).as_streaming_dataset()


@pytest.mark.parametrize("config", TASKS)
def test_rows_hold_what_the_tasks_made_and_pictures_carry_their_scenes(config, rows):
    made = itertools.chain(*(task_rows(config, 0, "test", index)[1] for index in range(3)))
    for row, expected in zip(rows[config], made, strict=True):
        for column, value in expected.items():
            if isinstance(value, Scene):
                assert read_scene(row[column]) == value
                assert (row[column].mode, row[column].size) == ("RGB", (128, 128))
            else:
                assert row[column] == value


def blocks(language, text=CARD):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("code", [block for block in blocks("python") if "load_dataset" not in block])
def test_python_in_the_card_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
