"""Every benchmark, from its sources to results: build, validate, load, score, evaluate, and the card."""

import doctest
import importlib.util
import io
import re
import shutil
import sys
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

import datasets
import numpy as np
import pytest
from builder_support import Small, card_table, image_columns, raw
from cases import read_cases
from huggingface_hub import DatasetCard
from PIL import Image

from vl_assay import hub_datasets
from vl_assay.hub_datasets import benchmark_names, build, get_benchmark, load_examples, report
from vl_assay.hub_datasets.core.benchmarks import config_names, get_builder, get_card, option_names
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.hub.publish import builder_code
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.estimation.aggregate import aggregate
from vl_assay.metrics.evaluation import examples_of
from vl_assay.metrics.modules.discovery import citation, get_spec, metric_names
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.model_wrappers import predict

ROOT = Path(hub_datasets.__file__).parent
NAMES = benchmark_names()
EVERY = pytest.mark.parametrize("name", NAMES)
COLUMNS = read_cases("columns")
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


def type_name(feature):
    if isinstance(feature, datasets.Image | datasets.Value):
        return "image" if isinstance(feature, datasets.Image) else feature.dtype
    if isinstance(feature, dict):
        return "{" + " ".join(f"{name}:{type_name(part)}" for name, part in feature.items()) + "}"
    return f"[{type_name(feature.feature)}]"


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_and_types_are_those_of_the_release(name):
    for config in config_names(name):
        features = get_builder(name)(config_name=config).info.features
        found = [f"{column}:{type_name(feature)}".removesuffix(":string") for column, feature in features.items()]
        pattern = next(pattern for pattern in COLUMNS[name] if re.fullmatch(pattern, config))
        assert " ".join(found) == COLUMNS[name][pattern]


@OWN
def test_an_image_that_is_not_cropped_or_shuffled_is_its_file(small):
    files = {(path.name, path.read_bytes()) for path in small.images()}
    for config in small.configs:
        options = {"crop": False} if "crop" in option_names(small.name) else {}
        builder = small.builder(config, **options)
        for row, column in product(
            raw(builder.as_streaming_dataset(split=small.split_of(config))), image_columns(builder.info.features)
        ):
            filename = row[column.replace("image", "filename")]
            if "_shuffle_rows" not in config and "_shuffle_col" not in config and "_shuffle_patch" not in config:
                assert row[column]["path"] == filename
                assert (Path(filename).name, row[column]["bytes"]) in files


@pytest.mark.parametrize("name", [name for name in NAMES if "crop" in option_names(name)])
def test_a_crop_is_a_png_of_what_the_box_shows_pixel_by_pixel(small):
    boxed = [config for config in small.configs if "bbox" in small.builder(config).info.features]
    for config in boxed:
        for row, whole in zip(small.rows(config), small.rows(config, crop=False), strict=True):
            x, y, width, height = map(int, row["bbox"])
            image, photograph = (Image.open(io.BytesIO(each["image"]["bytes"])) for each in (row, whole))
            assert image.format == "PNG"
            assert np.array_equal(np.asarray(image), np.asarray(photograph)[y : y + height, x : x + width])
    assert boxed


@EVERY
def test_a_build_loads_the_same_plain_and_streaming(name, built):
    small, out = built(name)
    for config in small.configs:
        plain, streamed = (
            raw(datasets.load_dataset(str(out), config, split=small.split_of(config), streaming=streaming))
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
        assert raw(datasets.load_dataset(str(out), config, split=small.split_of(config))) == rows


@OWN
def test_two_processes_give_the_rows_of_one(small):
    for config in {small.configs[0], small.configs[-1]}:
        builder = small.builder(config)
        builder.download_and_prepare(num_proc=2)
        assert raw(builder.as_dataset(split=small.split_of(config))) == small.rows(config)


@EVERY
def test_examples_have_the_images_and_captions_of_the_columns_that_their_task_names(name, built):
    _, out = built(name)
    for task in load_examples(str(out)):
        rows = [row for config in task.configs for row in datasets.load_dataset(str(out), config, split=task.split)]
        for row, example in zip(rows, task.examples, strict=True):
            captions = (row[column] for column in task.task.captions)
            texts = [[text] if isinstance(text, str) else text for text in captions]
            assert (example.id, list(example.captions)) == (row["id"], list(chain(*texts)))
            assert len(example.images) == len(task.task.images)
            assert example.category == (row[task.task.category] if task.task.category else example.config)


@EVERY
def test_the_mocks_are_scored_and_evaluated(name, built, tmp_path):
    small, out = built(name)
    for mock in ("shuffled", "constant"):
        all_predictions = predict(f"mock:{mock}", [str(out)], out=tmp_path / mock, progress=False)
        tasks = [task for task, _ in get_benchmark(name).select_built(small.configs)]
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


# What cards say of a constant scorer: the first figure after the word, in per cent.
CONSTANT = re.compile(r"\bconstant\b.{0,160}?(\d+(?:\.\d+)?)(?= %| \|| where)", re.DOTALL)
CHANCES = {"crepe": r"\| random \| k / \(n \+ 1\) on average"}  # sets differ in size


@EVERY
def test_the_baselines_reach_what_the_card_says(name, built, tmp_path):
    """A constant and chance what is printed, an oracle of the labels all, a bag of words nothing of the same words."""
    _, out = built(name)
    printed = float(CONSTANT.search(get_card(name))[1]) / 100
    captions = {example.id: example.captions for task in load_examples(str(out)) for example in task.examples}
    for path in predict("mock:bag-of-words", [str(out)], out=tmp_path / "bag", progress=False):
        found = read_predictions(path)
        if found.task_type == "detection":  # a box around everything may be right
            continue
        metric, settings = next(iter(found.metadata["benchmark"]["metrics"].items()))
        spec = get_spec(metric)
        constant, oracle = (
            aggregate(examples_of([as_predicted(row, truth, spec) for row in found.rows], metric, settings))
            for truth in (0.0, 1.0)
        )
        main = spec.main_score if spec.main_score in oracle else spec.table_scores(list(oracle))[0]
        reached = (constant[main], oracle[main])
        assert reached == (pytest.approx(printed), int(spec.is_higher_better(main))), (found.task, metric)
        if found.task_type == "matching":
            check_chance(name, found.rows, metric, settings, main.removeprefix("macro_"))
            examples = examples_of(found.rows, metric, settings)
            values = np.nan_to_num(np.array([*examples.values.values()])).reshape(-1, len(examples.rows))
            bags = [{tuple(sorted(text.split())) for text in captions[found.rows[row].id]} for row in examples.rows]
            alike = [
                len(bag) == 1 < len(captions[found.rows[row].id]) for bag, row in zip(bags, examples.rows, strict=True)
            ]
            assert not values[:, alike].any(), (found.task, metric)


def check_chance(name, rows, metric, settings, score):
    """Random scores reach on average the chance level that the metric declares, and the card prints it."""
    rng = np.random.default_rng(0)
    shapes = [np.shape(row.scores) for row in rows]
    drawn = []
    for _ in range(max(2, 200 // len(rows))):
        random = [replace(row, scores=rng.random(shape).tolist()) for row, shape in zip(rows, shapes, strict=True)]
        drawn.append(examples_of(random, metric, settings))
    chance = drawn[0].chance.get(score, getattr(get_spec(metric).score(score), "chance", None))
    if chance is None:
        return
    values = np.concatenate([each.values[score] for each in drawn])
    counts = np.count_nonzero(~np.isnan(values))
    assert abs(np.nanmean(values) - chance) < 5 * (chance * (1 - chance) / counts) ** 0.5, score
    assert re.search(CHANCES.get(name, rf"(?<![\d.]){100 * chance:.3g} ?%"), get_card(name)), (score, chance)


def as_predicted(row, truth, spec):
    """A row with this score for what is true and 0 for the rest; for questions below 0."""
    if row.task_type == "vqa":
        return replace(row, score=truth if row.correct else -truth)
    if row.task_type == "retrieval":
        return replace(row, scores=np.isin(np.arange(len(row.scores)), row.correct).astype(np.float32) * truth)
    right = set(enumerate(row.correct))
    if [len(each) for each in row.scores] == [4, 4]:  # the other answer to a question is right of the other image
        right |= {(0, 3), (1, 2)}
    if len(row.scores) == 1 < len(row.scores[0]):
        right |= {(0, caption) for caption in range(spec.positive_captions)}
    scores = [[truth * ((i, j) in right) for j in range(len(each))] for i, each in enumerate(row.scores)]
    return replace(row, scores=scores)


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
    for config in small.needing:
        small.error(
            MissingSourceError, rf"data_dir {tmp_path}/nowhere is not a folder", config, data_dir=tmp_path / "nowhere"
        )


@OWN
def test_without_any_copy_it_says_what_to_get_and_that_data_dir_takes_it(small):
    for config in small.needing:
        message = small.error(MissingSourceError, "data_dir", config, data_dir=None)
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
            MissingSourceError, rf"1 of \d+ images .*{lost}.*allow_missing=True.*with_images=False", config
        )
        assert rows[0]["id"].startswith(re.search(rf"{lost} \(for ([^,)]+)", message)[1])
        for path in copies:
            path.unlink()
        assert small.error(MissingSourceError, lost, config) == message
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
        message = small.error(MissingSourceError, r"(\d+) of \1 images ", config)
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
@pytest.mark.parametrize("remove", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["missing", "empty"])
def test_files_that_are_missing_or_empty_are_named_with_where_to_get_them(small, remove):
    for path in small.files():
        remove(path)
    for config in small.configs:
        message = small.error(MissingSourceError, rf"{small.folder}|data_dir", config)
        assert re.search(r"https?://|gdown", message)


@OWN
@pytest.mark.parametrize("content", [b"\xff", b"["])
def test_a_damaged_file_is_named(small, content):
    for path in small.files():
        path.write_bytes(content)
    for config in small.configs:
        message = small.error(DataError, str(small.folder), config)
        assert re.search(r"https?://|gdown|Expected a CSV file", message)
        assert any(str(path.relative_to(small.folder)) in message for path in small.files())


@pytest.mark.parametrize("name", [name for name in NAMES if "verify" in option_names(name)])
def test_by_default_files_must_be_the_released_ones(small):
    for config in getattr(small.sources, "VERIFIED", small.configs):
        message = small.error(DataError, "verify=False", config, verify=True)
        assert any(str(path) in message for path in small.files())
        assert get_builder(small.name)(config_name=config).config.verify


@EVERY
def test_the_published_builder_runs_by_itself_and_gives_the_same_rows(small, tmp_path):
    path = tmp_path / "published_builder.py"
    path.write_text(builder_code(small.name), encoding="utf-8")
    specification = importlib.util.spec_from_file_location(f"published_{small.name}", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module  # data classes look their module up
    specification.loader.exec_module(module)
    options = small.options | ({"data_dir": str(small.data_dir)} if small.data_dir else {})
    kind = getattr(module, get_builder(small.name).__name__)
    made = kind(config_name=small.config, cache_dir=str(tmp_path / "cache"), **options)
    split = small.split_of(small.config)
    rows = made.as_streaming_dataset(split=split)
    assert raw(rows.take(3)) == raw(small.builder().as_streaming_dataset(split=split).take(3))


@pytest.mark.parametrize("folder", sorted({path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}))
def test_examples_in_docstrings_hold(folder):
    for path in (ROOT / folder).glob("*.py"):
        name = ".".join([hub_datasets.__name__, *path.relative_to(ROOT).with_suffix("").parts])
        assert doctest.testmod(importlib.import_module(name.removesuffix(".__init__"))).failed == 0


@EVERY
def test_the_card_has_a_licence_and_leaves_configurations_to_the_build(name):
    metadata = DatasetCard(get_card(name), ignore_metadata_errors=False).data.to_dict()
    assert metadata["license"]
    assert not {"configs", "dataset_info"} & set(metadata)


def test_cards_of_benchmarks_and_metrics_cite_a_paper_alike():
    def entries(text):
        """Titles, authors and years by key, without braces, line ends and capitals."""
        return {
            key: {
                part: re.sub("[{}]", "", value).lower().split()
                for part, value in re.findall(r"\b(title|author|year)\s*=\s*\{(.*?)\},?\n", fields, re.DOTALL)
            }
            for key, fields in re.findall(r"^@\w+\{(.+?),\n(.*?)^\}$", text, re.DOTALL | re.MULTILINE)
        }

    cited = {}
    for text in (*map(citation, metric_names()), *map(get_card, NAMES)):
        for key, entry in entries(text).items():
            assert cited.setdefault(key, entry) == entry, key


@EVERY
def test_the_card_names_every_configuration_column_and_option(name):
    card = get_card(name)
    assert list(card_table(name, "counts")) in ([], config_names(name))
    for config in config_names(name):
        for column in get_builder(name)(config_name=config).info.features:
            assert re.search(rf"\b{column}\b", card), column
    for option in option_names(name):
        assert re.search(rf"`{option}\b|\b{option}=", card), option
