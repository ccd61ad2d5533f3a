"""toy_scenes as a dataset: splits, rows, columns like those of the benchmarks of photographs, and a true card."""

from __future__ import annotations

import functools
import itertools
import json
import re
from pathlib import Path

import datasets
import pytest
from builder_support import card_lines, card_table
from PIL import Image
from toy_scenes_checker import LEXICON, understand

from vl_assay.hub_datasets.core.benchmarks import get_benchmark, get_builder
from vl_assay.hub_datasets.toy_scenes import builder as module
from vl_assay.hub_datasets.toy_scenes import tasks
from vl_assay.hub_datasets.toy_scenes.builder import RETRIEVAL_SIZES, SIZES, ToyScenes
from vl_assay.hub_datasets.toy_scenes.render import read_scene
from vl_assay.hub_datasets.toy_scenes.tasks import TASKS, sample_episode, task_rows
from vl_assay.hub_datasets.toy_scenes.world import Scene

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
PAIR = ("id", "category", "image", "filename", "caption", "negative_caption")
ORDER = ("id", "image", "filename", "caption", "negative_captions", "perturbations")
GROUP = tuple(f"{name}_{side}" for side in "01" for name in ("image", "filename", "caption"))
RETRIEVAL = ("id", "image", "filename", "captions", "condition")
SETS = ("id", "category", "image", "filename", "caption", "hard_negatives")
# What both must have, beside the type that whatever else both have must share.
COUNTERPARTS = {
    ("itm", "sugarcrepe", "swap_obj"): PAIR,
    ("itm", "aro", "vg_relation"): PAIR,
    ("itm", "vl_checklist", "attribute_color"): PAIR,
    ("hard_positives", "hard_positives", "swap"): (*PAIR, "positive_caption"),
    ("hard_positives", "hard_positives", "replace_attributes"): (*PAIR, "positive_caption"),
    ("order", "aro", "coco_order"): ORDER,
    ("order", "aro", "flickr30k_order"): ORDER,
    ("groups", "cola", "multiobjects"): ("id", *GROUP),
    ("groups", "winoground", "winoground"): ("id", "tag", *GROUP),
    ("groups", "tricd", "groups"): ("id", *GROUP),
    ("vqa", "tricd", "vqa"): ("id", "image", "filename", "question", "answer", "type"),
    ("retrieval", "retrieval", "coco"): RETRIEVAL,
    ("retrieval", "retrieval", "flickr30k"): RETRIEVAL,
    ("sets", "crepe", "productivity_swap"): (*SETS, "complexity"),
    ("sets", "crepe", "systematicity_atom_cc12m"): SETS,
}
EVERY = pytest.mark.parametrize(("task", "benchmark", "config"), COUNTERPARTS)


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


@pytest.fixture
def one_draw(monkeypatch):
    """Let the tasks of a scene share one draw of it."""
    monkeypatch.setattr(tasks, "sample_episode", functools.lru_cache(1)(sample_episode))


@pytest.fixture(scope="module")
def rows():
    """The rows of the first three scenes of test, by configuration, as the builder streams them."""
    found = {}
    for config in TASKS:
        stream = ToyScenes(config_name=config).as_streaming_dataset(split="test")
        scene = functools.partial(next, iter(stream))
        found[config] = [scene() for _ in range(3 * len(task_rows(config, 0, "test", 0)[1]))]
    return found


def images_of(row):
    return {column: value for column, value in row.items() if isinstance(value, Image.Image)}


def test_a_build_has_the_documented_splits(make, without_pictures):
    builder = make(train_scenes=3)
    builder.download_and_prepare()
    sizes = {name: split.num_examples for name, split in builder.info.splits.items()}
    assert sizes == {"train": 3, "validation": 500, "test": 1000}


def test_retrieval_has_one_pool_in_validation_and_in_test(make, without_pictures):
    builder = make("retrieval", train_scenes=3)
    builder.download_and_prepare()
    sizes = {name: split.num_examples for name, split in builder.info.splits.items()}
    assert sizes == {"train": 3, "validation": 100, "test": 100}


def test_a_scene_without_captions_of_its_own_has_no_row(make, without_pictures):
    builder = make("retrieval", seed=16, train_scenes=0)
    builder.download_and_prepare()
    stream = make("retrieval", seed=16).as_streaming_dataset(split="test")
    ids = [row["id"] for row in stream.cast_column("image", datasets.Image(decode=False))]
    assert ids == [f"test-{index:06d}" for index in range(100) if index != 4]
    assert builder.info.splits["test"].num_examples == 99


def test_zero_leaves_the_train_split_out(make):
    assert set(make(train_scenes=0).as_streaming_dataset()) == {"validation", "test"}


def test_minus_one_streams_on_after_any_number(make, without_pictures):
    stream = make(train_scenes=-1).as_streaming_dataset(split="train")
    later = stream.cast_column("image", datasets.Image(decode=False)).skip(2000).take(5)
    assert [row["id"] for row in later] == [f"train-{index:06d}" for index in range(2000, 2005)]


def test_an_endless_split_is_not_written(make):
    with pytest.raises(ValueError, match="only as_streaming_dataset"):
        make(train_scenes=-1).download_and_prepare()


@pytest.mark.parametrize("value", [-2, 2.5, "ten"])
def test_a_senseless_number_of_scenes_is_refused(value, make):
    with pytest.raises(ValueError, match=f"train_scenes is {value!r}; give a number of scenes"):
        make(train_scenes=value).as_streaming_dataset()


def test_unknown_configurations_answer_with_the_known_ones(make):
    with pytest.raises(ValueError, match="hard_positives"):
        make("hard_negatives")


def test_another_seed_is_another_world(make):
    first, second = (next(iter(make(seed=seed).as_streaming_dataset(split="test"))) for seed in (0, 1))
    assert first["id"] == second["id"]
    assert first["captions"] != second["captions"]


def test_configurations_are_the_tasks():
    assert [config.name for config in ToyScenes.BUILDER_CONFIGS] == list(TASKS)
    assert ToyScenes.DEFAULT_CONFIG_NAME in TASKS


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


@pytest.mark.parametrize("config", TASKS)
def test_ids_are_unique_and_name_their_scene(config, rows):
    ids = [row["id"] for row in rows[config]]
    assert len(set(ids)) == len(ids)
    assert {row_id.split("/")[0] for row_id in ids} == {"test-000000", "test-000001", "test-000002"}
    assert all(row["pair_id"] == row["id"].split("/")[0] for row in rows[config] if "pair_id" in row)


@pytest.mark.parametrize("config", TASKS)
def test_file_names_tell_scenes_and_distractors_apart(config, make):
    stream = make(config).as_streaming_dataset(split="test")
    columns = [name for name, feature in stream.features.items() if isinstance(feature, datasets.Image)]
    for column in columns:
        stream = stream.cast_column(column, datasets.Image(decode=False))
    for row in stream.take(8):
        scene = row["id"].split("/")[0]
        paths = [row[column]["path"] for column in columns]
        assert paths == [row[column.replace("image", "filename")] for column in columns]
        assert set(paths) <= {f"{scene}.png", f"{scene}-distractor.png"}
        is_true = row.get("positive", row.get("answer", True))
        assert (paths == [f"{scene}.png"]) == (config != "groups" and is_true)


def section(config):
    return re.split(r"^#+ ", CARD.split(f"\n### {config}\n")[1], flags=re.M)[0]


def blocks(language, text=CARD):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def type_name(feature):
    """A feature as the card writes it, without what differs between versions of `datasets`."""
    if isinstance(feature, datasets.Image):
        return "image"
    if isinstance(feature, datasets.Value):
        return feature.dtype
    if isinstance(feature, dict):
        return "{" + ", ".join(f"{name}: {type_name(part)}" for name, part in feature.items()) + "}"
    [item] = feature if isinstance(feature, list) else [feature.feature]
    return f"list of {type_name(item)}"


@pytest.fixture
def columns(tmp_path):
    """A function from a benchmark and a configuration to the names and types of its columns."""

    def columns(benchmark, config):
        builder = get_builder(benchmark)(config_name=config, cache_dir=str(tmp_path))
        return {name: type_name(feature) for name, feature in builder.info.features.items()}

    return columns


@pytest.mark.parametrize("config", TASKS)
def test_card_names_the_columns_and_their_types(config, columns):
    shown = re.findall(r"^\| *(.+?) *\| *(.+?) *\|", section(config), re.M)[2:]
    assert shown == list(columns("toy_scenes", config).items())


@EVERY
def test_columns_that_a_benchmark_of_photographs_has_too_are_of_its_types(task, benchmark, config, columns):
    ours, theirs = columns("toy_scenes", task), columns(benchmark, config)
    common = [name for name in ours if name in theirs]
    assert set(COUNTERPARTS[task, benchmark, config]) <= set(common)
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


@EVERY
def test_what_is_scored_has_the_same_names_as_there(task, benchmark, config):
    ours, theirs = (
        {(each.task_type, each.images, each.captions) for each in get_benchmark(name).tasks if chosen in each.configs}
        for name, chosen in (("toy_scenes", task), (benchmark, config))
    )
    assert ours == theirs


def test_detection_is_exactly_the_public_part_of_tricd(columns):
    assert list(columns("toy_scenes", "detection").items()) == list(columns("tricd", "val").items())


def test_every_configuration_but_captions_has_a_counterpart():
    assert {task for task, _, _ in COUNTERPARTS} | {"detection", "captions"} == set(TASKS)


@pytest.mark.parametrize("config", TASKS)
def test_card_shows_a_real_row(config, rows):
    [shown] = (json.loads(block) for block in blocks("json", section(config)))
    [real] = (row for row in rows[config] if row["id"] == shown["id"])
    assert shown == real | dict.fromkeys(images_of(real), "<PNG, 128 × 128>")
    assert list(shown) == list(real)


def test_card_counts_are_those_of_the_rows(one_draw):
    counted = {}
    trained = [config for config in TASKS if ToyScenes(config_name=config).config.train_scenes]
    assert {ToyScenes(config_name=config).config.train_scenes for config in trained} == {2000}
    for split, scenes in {"train": 2000, **SIZES}.items():
        found = {config: (0, set(), set()) for config in (trained if split == "train" else TASKS)}
        for index, config in itertools.product(range(scenes), found):
            if config == "retrieval" and index >= RETRIEVAL_SIZES.get(split, scenes):
                continue
            count, images, captions = found[config]
            scene_rows = task_rows(config, 0, split, index)[1]
            for column, value in itertools.chain(*(row.items() for row in scene_rows)):
                if isinstance(value, Scene):
                    images.add(value)
                elif "caption" in column:
                    captions.update([value] if isinstance(value, str) else value)
            found[config] = (count + len(scene_rows), images, captions)
        for config, (count, images, captions) in found.items():
            counted[config, split] = [f"{n:,}" for n in (count, len(images), len(captions))]
    lines = card_lines("toy_scenes", "counts")
    assert {(config, split): counts for config, split, *counts in lines} == counted


def test_card_lists_the_words():
    assert {kind: cells[0] for kind, cells in card_table("toy_scenes", "words").items()} == {
        kind: "; ".join(", ".join(meaning) for meaning in meanings) for kind, meanings in LEXICON.items()
    }


def test_card_says_how_many_shuffles_break_the_grammar():
    negatives = [task_rows("order", 0, "test", i)[1][0]["negative_captions"] for i in range(SIZES["test"])]
    broken = [sum(understand(text) is None for text in texts) for texts in zip(*negatives, strict=True)]
    shares = [cells[0] for cells in card_table("toy_scenes", "grammar").values()]
    assert shares == [f"{n / len(negatives):.1%}"[:-1] for n in broken]


@pytest.mark.parametrize("code", [block for block in blocks("python") if "load_dataset" not in block])
def test_python_in_the_card_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})


def test_json_in_the_card_is_all_checked():
    assert len(blocks("json")) == len(TASKS)


def test_no_import_of_the_script_has_a_comment_which_datasets_takes_for_an_address():
    lines = (FOLDER / "builder.py").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if re.match(r"(from|import)\s", line) and "#" in line]


def siblings(name):
    return set(re.findall(r"^from \.(\w+) import", (FOLDER / f"{name}.py").read_text(encoding="utf-8"), re.M))


def test_script_names_every_sibling_that_it_needs_in_the_end():
    """A script is copied together with the siblings that it names itself, and with no others."""
    named = siblings("builder")
    assert set().union(*map(siblings, named)) <= named
