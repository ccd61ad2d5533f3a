"""Every benchmark, from its sources to results: build, validate, load, score, evaluate, and the card."""

import doctest
import functools
import importlib.util
import io
import os
import re
import shutil
import sys
from copy import deepcopy
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest
from builder_support import Small, card_table, image_columns, raw
from cases import read_cases
from PIL import Image

from vl_assay import hub_datasets
from vl_assay.hub_datasets import benchmark_names, build, get_benchmark, load_examples, report
from vl_assay.hub_datasets.core.benchmarks import config_names, get_builder, get_card, option_names
from vl_assay.hub_datasets.core.build import MissingSourceError, built_files
from vl_assay.hub_datasets.hub.publish import builder_code
from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.estimation.aggregate import aggregate
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.metrics.records.predictions import read_predictions
from vl_assay.metrics.results.compute import examples_of
from vl_assay.model_wrappers import predict

ROOT = Path(hub_datasets.__file__).parent
NAMES = benchmark_names()
EVERY = pytest.mark.parametrize("name", NAMES)
COLUMNS = read_cases("columns")
SOURCED = [name for name in NAMES if get_benchmark(name).source]
OWN = pytest.mark.parametrize("name", SOURCED)


def distinct(*methods):
    """One benchmark with sources for each set of functions that builders have under these names."""
    return {tuple(getattr(get_builder(name), method) for method in methods): name for name in SOURCED}.values()


# One of those that read rows and find images by the same code; the images of others are inside Parquet files.
CODE = pytest.mark.parametrize(
    "name",
    sorted({*distinct("_folder", "_read_rows", "_find_images", "_image_names", "_image_file")} - {"vismin"}),
)


@pytest.fixture
def small(name, tmp_path):
    return Small(name, tmp_path)


class Built(NamedTuple):
    """Small sources, the repository built from them, and the rows that the builder streams, by configuration."""

    small: Small
    folder: Path
    rows: dict[str, list[dict]]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A function that builds a benchmark's repository from small sources, once."""

    @functools.cache
    def make(name):
        small = Small(name, tmp_path_factory.mktemp(name))
        out = small.folder.with_name("built")
        with pytest.MonkeyPatch.context() as patch:
            getattr(small.sources, "shrink", lambda patch: None)(patch)
            build(name, out, configs=small.configs, data_dir=small.data_dir, options=small.options)
            return Built(small, out, {config: small.rows(config) for config in small.configs})

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


@EVERY
def test_a_task_declares_as_many_true_captions_as_its_metrics_take(name):
    for task in get_benchmark(name).tasks:
        taken = max(get_spec(metric).positive_captions for metric in task.metrics)
        expected = {"matching": min(len(task.images), len(task.captions)), "text_similarity": 2}.get(task.task_type)
        if (name, task.name) == ("naturalbench", "questions"):  # each answer is right of one image
            expected = 4
        assert task.positives == (expected and max(expected, taken)), task.name


@OWN
def test_an_image_that_is_not_cropped_or_shuffled_is_its_file(name, built):
    small, _, rows = built(name)
    files = {(path.name, path.read_bytes()) for path in small.images()}
    for config in small.configs:
        if re.search("_shuffle_(rows|col|patch)", config):
            continue
        features = small.builder(config).info.features
        whole = small.rows(config, crop=False) if "bbox" in features and "crop" in option_names(name) else rows[config]
        for row, column in product(whole, image_columns(features)):
            filename = row[column.replace("image", "filename")]
            assert row[column]["path"] == filename
            assert (Path(filename).name, row[column]["bytes"]) in files


@pytest.mark.parametrize("name", [name for name in NAMES if "crop" in option_names(name)])
def test_a_crop_is_a_png_of_what_the_box_shows_pixel_by_pixel(name, built):
    small, _, rows = built(name)
    boxed = [config for config in small.configs if "bbox" in small.builder(config).info.features]
    for config in boxed:
        for row, whole in zip(rows[config], small.rows(config, crop=False), strict=True):
            x, y, width, height = map(int, row["bbox"])
            image, photograph = (Image.open(io.BytesIO(each["image"]["bytes"])) for each in (row, whole))
            assert image.format == "PNG"
            assert np.array_equal(np.asarray(image), np.asarray(photograph)[y : y + height, x : x + width])
    assert boxed


@EVERY
def test_a_build_has_the_rows_that_the_builder_streams_plain_and_streaming(name, built):
    small, out, rows = built(name)
    # Opening a build takes most of the time: one configuration is streamed, and one is not.
    opened = [(small.ends[0], True), (small.ends[-1], False)]
    for config in small.configs:
        expected = deepcopy(rows[config])
        # Parquet keeps of an image's path the name.
        for row, column in product(expected, image_columns(small.builder(config).info.features)):
            row[column] = row[column] and row[column] | {"path": Path(row[column]["path"]).name}
        assert len({row["id"] for row in expected}) == len(expected) > 0
        files = built_files(out, config, small.split_of(config))
        assert [row for file in files for row in pq.read_table(file).to_pylist()] == expected
        for streaming in (streaming for end, streaming in opened if end == config):
            loaded = datasets.load_dataset(str(out), config, split=small.split_of(config), streaming=streaming)
            assert raw(loaded) == expected


@pytest.mark.parametrize("name", distinct("_generate_examples", "_image_file"))  # which processes get pickled
def test_two_processes_give_the_rows_of_one(name, built):
    small, _, rows = built(name)
    builder = small.builder()
    builder.download_and_prepare(num_proc=2)
    assert raw(builder.as_dataset(split=small.split_of(small.config))) == rows[small.config]


@EVERY
def test_examples_have_the_images_and_captions_of_the_columns_that_their_task_names(name, built):
    small = built(name)
    for task in load_examples(str(small.folder)):
        rows = [row for config in task.configs for row in small.rows[config]]
        for row, example in zip(rows, task.examples, strict=True):
            assert (example.id, list(example.captions)) == (row["id"], texts_of(row, task.task))
            assert len(example.images) == len(task.task.images)
            assert example.category == (row[task.task.category] if task.task.category else example.config)


# What cards say of a constant scorer: the first figure after the word, in per cent.
CONSTANT = re.compile(r"\bconstant\b.{0,160}?(\d+(?:\.\d+)?)(?= %| \|| where)", re.DOTALL)
CHANCES = {"crepe": r"\| random \| k / \(n \+ 1\) on average"}  # sets differ in size


@EVERY
def test_a_baseline_is_evaluated_and_reaches_what_the_card_says(name, built, tmp_path):
    """A constant and chance what is printed, an oracle of the labels all, a bag of words nothing of the same words."""
    small = built(name)
    printed = float(CONSTANT.search(get_card(name))[1]) / 100
    tasks = [task for task, _ in get_benchmark(name).select_built(small.rows)]
    paths = predict("mock:bag-of-words", [str(small.folder)], out=tmp_path, progress=False)
    results = report(paths, resamples=100)
    assert [result.metric for result in results] == [metric for task in tasks for metric in task.metrics]
    assert all(result.scores["n"] > 0 for result in results)
    for path, task in zip(paths, tasks, strict=True):
        found = read_predictions(path)
        captions = {row["id"]: texts_of(row, task) for config in task.configs for row in small.rows.get(config, ())}
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
        if found.task_type in ("matching", "retrieval"):
            assert {value for key, value in constant.items() if key.endswith("tie_rate")} <= {1.0}
        if found.task_type == "matching":
            check_chance(name, found.rows, metric, settings, main.removeprefix("macro_"))
            examples = examples_of(found.rows, metric, settings)
            values = np.nan_to_num(np.array([*examples.values.values()])).reshape(-1, len(examples.rows))
            texts = [captions[found.rows[row].id] for row in examples.rows]
            alike = [len({tuple(sorted(text.split())) for text in each}) == 1 < len(each) for each in texts]
            assert not values[:, alike].any(), (found.task, metric)


def texts_of(row, task):
    """The captions of a row, those in lists too."""
    return list(chain(*([row[column]] if isinstance(row[column], str) else row[column] for column in task.captions)))


def check_chance(name, rows, metric, settings, score):
    """Random scores reach on average the chance level that the metric declares, and the card prints it."""
    rng = np.random.default_rng(0)
    shapes = [np.shape(row.scores) for row in rows]
    drawn = []
    for _ in range(max(2, 100 // len(rows))):
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
def test_files_are_found_in_each_documented_place(name, built, tmp_path):
    small, _, rows = built(name)
    places = small.sources.PLACES
    for number in range(max(map(len, places.values()), default=0)):
        moved = tmp_path / str(number)
        shutil.copytree(small.folder, moved, copy_function=os.link)
        for folder in sorted(places, reverse=True):  # a folder before the one that it is in
            (moved / folder).rename(moved / "taken")
            place = places[folder][number % len(places[folder])]
            shutil.copytree(moved / "taken", moved / place, dirs_exist_ok=True, copy_function=os.link)
            shutil.rmtree(moved / "taken")
        for config in small.ends:
            assert small.rows(config, data_dir=moved) == rows[config], (number, config)


def test_data_dir_may_be_relative_or_in_the_home_folder(built, monkeypatch):
    small, _, rows = built("cola")
    rows = rows[small.config]
    monkeypatch.chdir(small.folder.parent)
    monkeypatch.setenv("HOME", str(small.folder.parent))
    assert small.rows(data_dir=small.folder.name) == small.rows(data_dir=f"~/{small.folder.name}") == rows


@pytest.mark.parametrize("name", distinct("_folder"))
def test_data_dir_that_is_not_a_folder_is_named(small, tmp_path):
    for config in small.ends:
        small.error(MissingSourceError, rf"data_dir {tmp_path}/x is not a folder", config, data_dir=tmp_path / "x")


@OWN
def test_without_any_copy_it_says_what_to_get_and_that_data_dir_takes_it(small):
    for config in small.needing:
        message = small.error(MissingSourceError, "data_dir", config, data_dir=None)
        assert re.search(r"https?://|gdown", message)


@CODE
def test_a_missing_or_empty_image_is_named_with_its_rows_and_the_cures_or_leaves_its_rows_without(small, built):
    for config in small.ends:
        rows = deepcopy(built(small.name).rows[config])
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


@CODE
def test_text_alone_needs_no_images_and_has_no_image_columns(small, built):
    rows = built(small.name).rows
    for path in small.images():
        path.unlink()
    for config in small.ends:
        columns = image_columns(small.builder(config).info.features)
        expected = [{key: value for key, value in row.items() if key not in columns} for row in rows[config]]
        assert small.rows(config, with_images=False) == expected


@CODE
@pytest.mark.parametrize(
    ("content", "kind", "remedy"),
    [(b"", MissingSourceError, "https?://|gdown"), (b"\xff", DataError, "https?://|gdown|Expected a CSV file")],
)
def test_an_empty_or_damaged_file_is_named_with_where_to_get_it(small, content, kind, remedy):
    for path in small.files():
        path.write_bytes(content)
    for config in small.ends:
        message = small.error(kind, rf"{small.folder}|data_dir", config)
        assert re.search(remedy, message)
        if content:
            assert any(str(path) in message for path in small.files())


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
def test_the_card_names_every_configuration_column_and_option(name):
    card = get_card(name)
    assert list(card_table(name, "counts")) in ([], config_names(name))
    for config in config_names(name):
        for column in get_builder(name)(config_name=config).info.features:
            assert re.search(rf"\b{column}\b", card), column
    for option in option_names(name):
        assert re.search(rf"`{option}\b|\b{option}=", card), option
