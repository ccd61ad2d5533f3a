"""The retrieval builder: what each condition holds, that seed and content alone decide it, that its card is true."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest
import sources_retrieval
from builder_support import Small
from PIL import Image

from vl_assay.hub_datasets import build as build_repository
from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.authoring.text import perturb
from vl_assay.hub_datasets.retrieval import builder as module
from vl_assay.hub_datasets.retrieval import karpathy
from vl_assay.hub_datasets.retrieval.builder import CONFIG_NAMES, IMAGE_SHUFFLES, PARTS, TEXT_SHUFFLES, Retrieval
from vl_assay.metrics.common.errors import DataError, UnknownNameError
from vl_assay.model_wrappers import score

COLUMNS = ["id", "image", "filename", "captions", "condition", "seed", "unchanged", "tagger"]
FILE = "coco_karpathy_test.json"
ENTRIES = sources_retrieval.ENTRIES[FILE]
IMAGE = ENTRIES[0][0]
GRIDS = {"shuffle_rows_4": (1, 4), "shuffle_columns_4": (4, 1), "shuffle_patches_9": (3, 3)}


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("retrieval", tmp_path, tagger="plain")


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("config", CONFIG_NAMES)
def test_every_image_is_a_row_with_all_its_captions(small, config):
    dataset = small.build(config)
    name, condition = PARTS[config]
    entries = sources_retrieval.ENTRIES[karpathy.SOURCES[name].file.name]
    assert dataset.column_names == COLUMNS
    assert dataset["id"][:] == [f"{config}/{place}" for place in range(len(entries))]
    assert dataset["filename"][:] == [Path(path).name for path, _ in entries]
    assert [len(captions) for captions in dataset["captions"]] == [len(captions) for _, captions in entries]
    assert set(dataset["condition"]) == {condition}
    assert set(dataset["seed"]) == {0}
    needs_tags = condition in ("shuffle_nouns_and_adjectives", "shuffle_all_but_nouns_and_adjectives")
    assert set(dataset["tagger"]) == {"plain 1" if needs_tags else None}


def test_the_plain_task_holds_captions_and_files_as_released(small):
    for row, (path, captions) in zip(small.rows(), ENTRIES, strict=True):
        assert row["captions"] == captions
        assert row["image"] == {"path": Path(path).name, "bytes": (small.folder / path).read_bytes()}
        assert row["unchanged"] == []


def test_cleaned_captions_keep_their_order(small):
    rows = small.build("coco_cleaned", with_images=False)
    assert rows[4]["captions"][:2] == [
        "a small brown dog sits on a red chair",
        "two men in blue shirts ride horses near a wooden fence",
    ]
    assert not any(rows["unchanged"])


@pytest.mark.parametrize("shuffle", TEXT_SHUFFLES)
def test_a_shuffle_of_text_changes_every_caption_that_it_can_and_no_image(small, shuffle):
    rows, cleaned = small.rows(f"coco_{shuffle}"), small.build("coco_cleaned")
    for row, (path, _), texts in zip(rows, ENTRIES, cleaned["captions"], strict=True):
        assert row["image"]["bytes"] == (small.folder / path).read_bytes()
        for index, (shuffled, text) in enumerate(zip(row["captions"], texts, strict=True)):
            assert Counter(shuffled.split()) == Counter(text.split())
            assert (shuffled == text) == (index in row["unchanged"])
    # "Zebras" has one order; "He is running …" has neither noun nor adjective.
    assert rows[4]["unchanged"] == ([4, 5] if shuffle == "shuffle_nouns_and_adjectives" else [4])
    assert not any(row["unchanged"] for row in rows[:4])


def test_captions_are_those_of_the_perturbations(small):
    captions = [text for _, texts in ENTRIES for text in texts]
    for shuffle in TEXT_SHUFFLES:
        made = perturb.perturb(captions, [shuffle], 5, tagger="plain")
        expected = [text or kept for text, kept in zip(made.perturbed[shuffle], made.captions, strict=True)]
        rows = small.build(f"coco_{shuffle}", seed=5, with_images=False)
        assert [text for texts in rows["captions"] for text in texts] == expected


@pytest.mark.parametrize("shuffle", IMAGE_SHUFFLES)
def test_a_shuffle_of_images_moves_whole_cells_without_loss_and_keeps_the_captions(small, shuffle):
    columns, rows = GRIDS[shuffle]
    width, height = 34 // columns, 25 // rows

    def cells(image):
        return [
            image[y : y + height, x : x + width].tobytes()
            for y in range(0, rows * height, height)
            for x in range(0, columns * width, width)
        ]

    for row, (path, captions) in zip(small.build(f"coco_{shuffle}"), ENTRIES, strict=True):
        before, after = pixels(Image.open(small.folder / path)), pixels(row["image"])
        assert row["image"].format == "PNG"
        assert row["captions"] == captions
        assert Counter(cells(after)) == Counter(cells(before))
        assert cells(after) != cells(before)
        assert np.array_equal(after[rows * height :], before[rows * height :])
        assert np.array_equal(after[:, columns * width :], before[:, columns * width :])


def test_a_file_that_is_no_image_is_named_where_it_is_shuffled_and_kept_where_it_is_not(small):
    (small.folder / IMAGE).write_bytes((small.folder / IMAGE).read_bytes()[:300])
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        small.builder("coco_shuffle_rows_4").download_and_prepare()
    assert f"{small.folder / IMAGE} cannot be read as an image" in str(caught.value.__cause__)
    assert small.rows()[0]["image"]["bytes"] == (small.folder / IMAGE).read_bytes()


def test_an_image_too_small_for_the_grid_is_named(small):
    Image.new("RGB", (2, 2)).save(small.folder / IMAGE)
    with pytest.raises(datasets.exceptions.DatasetGenerationError) as caught:
        small.builder("coco_shuffle_patches_9").download_and_prepare()
    assert isinstance(caught.value.__cause__, DataError)
    assert Path(IMAGE).name in str(caught.value.__cause__)


@pytest.mark.parametrize("config", ["coco_shuffle_trigrams", "coco_shuffle_columns_4"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_rows(small, tmp_path, config):
    def files(name, **options):
        options = {"verify": False, **options}
        out = build_repository("retrieval", tmp_path / name, configs=[config], data_dir=small.folder, options=options)
        return {path.name: path.read_bytes() for path in out.rglob("*.parquet")}

    one = files("one")
    assert files("two") == one
    assert files("other", seed=1) != one


def test_the_seed_changes_what_is_shuffled_and_nothing_else(small):
    for config in ("coco", "coco_cleaned"):
        rows, others = small.rows(config), small.rows(config, seed=7)
        assert [row | {"seed": 7} for row in rows] == others
    rows, others = (small.build("coco_shuffle_all_words", seed=seed)["captions"][:] for seed in (0, 7))
    assert sum(a != b for one, other in zip(rows, others, strict=True) for a, b in zip(one, other, strict=True)) >= 20
    rows, others = (small.rows("coco_shuffle_patches_9", seed=seed) for seed in (0, 7))
    assert all(row["image"]["bytes"] != other["image"]["bytes"] for row, other in zip(rows, others, strict=True))
    assert rows[0]["image"]["path"] == "COCO_val2014_000000000000-shuffle_patches_9-0.png"


@pytest.mark.parametrize("config", ["coco_shuffle_nouns_and_adjectives", "coco_shuffle_patches_9"])
def test_a_row_does_not_depend_on_the_rows_around_it(small, config):
    def read():
        return small.rows(config)

    rows = {row["filename"]: row for row in read()}
    sources_retrieval.write(small.folder / FILE, ENTRIES[::-1][1:4])
    others = read()
    assert len(others) == 3
    for row in others:
        assert row == rows[row["filename"]] | {"id": row["id"]}


def test_text_only_asks_for_no_data_dir(small):
    found = r"Could not download https://.*coco_karpathy_test\.json"
    small.error(ConnectionError, found, "coco_shuffle_trigrams", data_dir=None, with_images=False)


def test_an_unknown_tagger_and_a_seed_that_is_no_number_are_refused(small):
    small.error(UnknownNameError, "tagger", "coco_shuffle_trigrams", tagger="nltk")
    small.error(ValueError, r"seed is '1'; pass a whole number", seed="1")


def test_only_what_is_cleaned_or_shuffled_needs_the_package(small, monkeypatch):
    def missing():
        raise ImportError("pip install vl-assay")

    monkeypatch.setattr(module, "load_authoring", missing)
    assert len(small.build()) == 5
    for config in ("coco_cleaned", "coco_shuffle_trigrams", "coco_shuffle_rows_4"):
        with pytest.raises(ImportError, match="pip install vl-assay"):
            small.builder(config).download_and_prepare()


def test_conditions_are_the_shuffles_that_there_are():
    assert TEXT_SHUFFLES == perturb.TEXT_SHUFFLES
    assert tuple(perturb.IMAGE_SHUFFLES) == IMAGE_SHUFFLES
    assert GRIDS == perturb.IMAGE_SHUFFLES
    assert [config.name for config in Retrieval.BUILDER_CONFIGS] == list(CONFIG_NAMES)
    assert len(CONFIG_NAMES) == 2 * (2 + 5 + 3)


@pytest.mark.parametrize("config", ["flickr30k", "coco_shuffle_trigrams", "coco_shuffle_rows_4"])
def test_a_condition_is_scored_by_name_and_judged_as_a_pool_of_its_own(small, config, tmp_path):
    def scores(mock):
        predictions = score(
            f"mock:{mock}",
            [f"retrieval/{config}"],
            data_dir=small.folder,
            options={"verify": False},
            out=tmp_path / mock,
            progress=False,
        )
        [result] = report(predictions, resamples=100)
        assert result.metric == "retrieval_recall"
        return result.scores

    constant = scores("constant")
    assert (constant["n_images"], constant["n_captions"]) == ((4, 20) if config == "flickr30k" else (5, 26))
    assert constant["text_recall_at_1"] == constant["text_recall_at_10"] == constant["image_recall_at_1"] == 0
    assert constant["text_tie_rate"] == constant["image_tie_rate"] == 1
    shuffled = scores("shuffled")
    assert shuffled["text_tie_rate"] == 0
    assert shuffled["text_recall_at_10"] > 0


def test_a_png_of_a_shuffled_image_reads_back_as_what_the_shuffle_made(small):
    row = small.rows("coco_shuffle_patches_9", seed=2)[1]
    name = row["filename"]
    expected = perturb.shuffle_image(
        Image.open(small.folder / "val2014" / name).convert("RGB"), "shuffle_patches_9", name, 2
    )
    assert np.array_equal(pixels(Image.open(io.BytesIO(row["image"]["bytes"]))), pixels(expected))
