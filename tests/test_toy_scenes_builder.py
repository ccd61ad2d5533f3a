"""toy_scenes as a dataset: splits, rows and columns, the sanity gates, and that its card tells the truth."""

from __future__ import annotations

import ast
import functools
import io
import itertools
import json
import re
import sys
from pathlib import Path

import datasets
import pytest
from huggingface_hub import DatasetCard
from PIL import Image
from test_toy_scenes import LEXICON, things_of, understand, word_applies

from vl_assay.hub_datasets.toy_scenes import builder as module
from vl_assay.hub_datasets.toy_scenes import tasks
from vl_assay.hub_datasets.toy_scenes.builder import RETRIEVAL_SIZES, SIZES, ToyScenes
from vl_assay.hub_datasets.toy_scenes.render import read_scene, to_png
from vl_assay.hub_datasets.toy_scenes.tasks import CATEGORIES, TASKS, sample_episode, task_rows
from vl_assay.hub_datasets.toy_scenes.world import Scene
from vl_assay.metrics.errors import ScoresError
from vl_assay.metrics.kernels import match_credit
from vl_assay.metrics.matching import matching_accuracy
from vl_assay.model_wrappers import load_model

FOLDER = Path(module.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
SCALAR = {"string": "string", "bool": "bool", "int32": "int32", "float64": "float64"}


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


# --- splits ---------------------------------------------------------------------------------------------------


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


# --- rows -----------------------------------------------------------------------------------------------------


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


# --- what a bag of words scores -------------------------------------------------------------------------------


def picture(scene):
    return Image.open(io.BytesIO(to_png(scene)))


def test_a_bag_of_words_decides_exactly_where_a_word_is_false_of_the_scene():
    model = load_model("mock:bag-of-words")
    for index in range(100):
        episode, scene_rows = task_rows("itm", 0, "validation", index)
        image, things = picture(episode.scene), things_of(episode.scene)
        for row in scene_rows:
            positive, negative = model.score(image, [row["caption"], row["negative_caption"]])
            assert positive == 1
            if all(word_applies(word, things) for word in row["negative_caption"].split()):
                assert negative == positive
                assert row["category"] in ("replace_rel", "swap_att", "swap_obj")
            else:
                assert negative < positive


@pytest.fixture(scope="module")
def gates():
    """Scores of all mocks on the test split: by mock, a pair for each row; and the rows' categories."""
    models = {name: load_model(f"mock:{name}") for name in ("constant", "shuffled", "bag-of-words", "oracle", "nan")}
    scores = {name: [] for name in models}
    for index in range(SIZES["test"]):
        episode, scene_rows = task_rows("itm", 0, "test", index)
        captions = [caption for row in scene_rows for caption in (row["caption"], row["negative_caption"])]
        image = picture(episode.scene)
        for name, model in models.items():
            flat = model.score(image, captions)
            scores[name] += [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
    return scores, list(CATEGORIES) * SIZES["test"]


def test_gates_score_what_the_card_says(gates):
    scores, categories = gates
    table = card_table("gates")
    assert list(table) == [*(f"{n}{t}" for n in scores if n != "nan" for t in ("", ", ties")), "nan"]
    for name in scores:
        if name == "nan":
            with pytest.raises(ScoresError, match="NaN"):
                match_credit(scores[name], [0] * len(categories))
            assert table[name] == ["refused"] * len(CATEGORIES)
            continue
        result = matching_accuracy(scores[name], [0] * len(categories), categories=categories)["per_category"]
        assert list(result) == list(CATEGORIES)
        assert table[name] == [f"{100 * part['accuracy']:.1f}" for part in result.values()]
        assert table[f"{name}, ties"] == [f"{100 * part['tie_rate']:.1f}" for part in result.values()]


def test_gates_are_sound(gates):
    scores, categories = gates
    assert {tuple(pair) for pair in scores["oracle"]} == {(1.0, 0.0)}
    assert len({score for pair in scores["constant"] for score in pair}) == 1
    shuffled = matching_accuracy(scores["shuffled"], [0] * len(categories), categories=categories)
    assert all(part["accuracy"] == pytest.approx(0.5, abs=0.05) for part in shuffled["per_category"].values())


# --- the card -------------------------------------------------------------------------------------------------


def card_table(marker):
    """The cells of the table between two markers of the card, by the first cell of each line."""
    return {cells[0]: cells[1:] for cells in table_lines(CARD.split(f"<!-- {marker} -->")[1].split("<!-- /")[0])}


def table_lines(text):
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)]
    return lines[2:]


def section(config):
    return re.split(r"^#+ ", CARD.split(f"\n### {config}\n")[1], flags=re.M)[0]


def blocks(language, text=CARD):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def type_name(feature):
    """A feature as the card writes it."""
    if isinstance(feature, datasets.Image):
        return "image"
    if isinstance(feature, datasets.Value):
        return SCALAR[feature.dtype]
    if isinstance(feature, dict):
        return "{" + ", ".join(f"{name}: {type_name(part)}" for name, part in feature.items()) + "}"
    [item] = feature if isinstance(feature, list) else [feature.feature]
    return f"list of {type_name(item)}"


def test_card_is_valid_and_leaves_configs_to_the_build():
    metadata = DatasetCard.load(FOLDER / "README.md", ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"] == "apache-2.0"
    assert metadata["pretty_name"] == "Toy Scenes"
    assert metadata["annotations_creators"] == ["machine-generated"]
    assert metadata["size_categories"] == ["10K<n<100K"]
    assert not {"configs", "dataset_info"} & set(metadata)


@pytest.mark.parametrize("config", TASKS)
def test_card_names_the_columns_and_their_types(config, make):
    features = make(config).info.features
    assert [line[:2] for line in table_lines(section(config))] == [[n, type_name(f)] for n, f in features.items()]


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
    lines = table_lines(CARD.split("<!-- counts -->")[1].split("<!-- /counts -->")[0])
    assert {(config, split): counts for config, split, *counts in lines} == counted


def test_card_lists_the_words():
    table = card_table("words")
    assert {kind: cells[0] for kind, cells in table.items()} == {
        kind: "; ".join(", ".join(meaning) for meaning in meanings) for kind, meanings in LEXICON.items()
    }


def test_card_says_how_many_shuffles_break_the_grammar():
    negatives = [task_rows("order", 0, "test", i)[1][0]["negative_captions"] for i in range(SIZES["test"])]
    broken = [sum(understand(text) is None for text in texts) for texts in zip(*negatives, strict=True)]
    assert [cells[0] for cells in card_table("grammar").values()] == [f"{n / len(negatives):.1%}"[:-1] for n in broken]


@pytest.mark.parametrize("code", [block for block in blocks("python") if "load_dataset" not in block])
def test_python_in_the_card_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {})


def test_json_in_the_card_is_all_checked():
    assert len(blocks("json")) == len(TASKS)


# --- the script -----------------------------------------------------------------------------------------------


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module, len(node.names)
        elif isinstance(node, ast.Import):
            yield from ((0, alias.name, len(node.names)) for alias in node.names)


def test_script_imports_siblings_datasets_and_the_standard_library_one_a_line():
    for level, name, count in imports_of(FOLDER / "builder.py"):
        assert count == 1, name
        assert level == 1 or name == "datasets" or name.split(".")[0] in sys.stdlib_module_names, name


def test_no_import_of_the_script_has_a_comment_which_datasets_takes_for_an_address():
    lines = (FOLDER / "builder.py").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if re.match(r"(from|import)\s", line) and "#" in line]


def test_script_names_every_sibling_that_it_needs_in_the_end():
    """A script is copied together with the siblings that it names itself, and with no others."""
    named = {name for level, name, _ in imports_of(FOLDER / "builder.py") if level == 1}
    needed, waiting = set(), {"builder"}
    while waiting:
        module_name = waiting.pop()
        needed.add(module_name)
        found = list(imports_of(FOLDER / f"{module_name}.py"))
        assert all(level <= 1 and not (name or "").startswith("vl_assay") for level, name, _ in found)
        waiting |= {name for level, name, _ in found if level == 1} - needed
    assert named == needed - {"builder"}
