"""toy_order: the shuffles move what they name and nothing else, a seed draws others, and a bag of words sees none."""

import io
import re
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image
from sources_toy_order import shrink
from toy_scenes_checker import things_of, true

from vl_assay.hub_datasets import report
from vl_assay.hub_datasets.toy_order import builder as module
from vl_assay.hub_datasets.toy_order.builder import TEXT_SHUFFLES, ToyOrder, shuffle_caption
from vl_assay.hub_datasets.toy_scenes.render import read_scene
from vl_assay.hub_datasets.toy_scenes.tasks import sample_episode, task_rows
from vl_assay.model_wrappers import predict

CARD = (Path(module.__file__).parent / "README.md").read_text("utf-8")
GRIDS = {"shuffle_rows_4": (1, 4), "shuffle_columns_4": (4, 1), "shuffle_patches_9": (3, 3)}


def rows(config, seed=0):
    stream = ToyOrder(config_name=config, seed=seed).as_streaming_dataset(split="test")
    return list(stream.cast_column("image", datasets.Image(decode=False)))


@pytest.fixture
def few(monkeypatch):
    shrink(monkeypatch, retrieval=4, order=8)


@pytest.mark.parametrize("shuffle", TEXT_SHUFFLES)
def test_a_text_shuffle_changes_every_caption_and_keeps_its_words(shuffle):
    # Which words each shuffle moves is checked of the task `order` of toy_scenes.
    for index in range(30):
        _, [row] = task_rows("retrieval", 0, "test", index)
        for caption in row["captions"]:
            moved = shuffle_caption(shuffle, caption, 0)
            assert moved != caption
            assert Counter(moved.split()) == Counter(caption.split())


@pytest.mark.parametrize("condition", ["shuffle_all_words", "shuffle_patches_9"])
def test_a_seed_draws_other_permutations_of_the_same_scenes(condition, few):
    first, same, other = (rows(f"retrieval_{condition}", seed) for seed in (0, 0, 1))
    assert first == same
    shown = "captions" if condition in TEXT_SHUFFLES else "image"
    kept = "image" if condition in TEXT_SHUFFLES else "captions"
    assert all(a[shown] != b[shown] and a[kept] == b[kept] for a, b in zip(first, other, strict=True))
    assert {row["seed"] for row in other} == {1}


def test_what_is_not_shuffled_is_the_retrieval_set_of_toy_scenes(few):
    for config in ("retrieval", "retrieval_cleaned"):
        for index, row in enumerate(rows(config, seed=5)):
            episode, [expected] = task_rows("retrieval", 0, "test", index)
            assert row["captions"] == expected["captions"]
            assert read_scene(Image.open(io.BytesIO(row["image"]["bytes"]))) == episode.scene


@pytest.mark.parametrize("condition", GRIDS)
def test_an_image_shuffle_moves_whole_cells_and_tells_no_scene(condition, few):
    columns, lines = GRIDS[condition]
    for plain, row in zip(rows("retrieval"), rows(f"retrieval_{condition}"), strict=True):
        images = [Image.open(io.BytesIO(each["image"]["bytes"])) for each in (plain, row)]
        assert read_scene(images[1]) is None
        before, after = (
            [
                np.asarray(image)[y : y + 128 // lines, x : x + 128 // columns].tobytes()
                for y in range(0, 128 // lines * lines, 128 // lines)
                for x in range(0, 128 // columns * columns, 128 // columns)
            ]
            for image in images
        )
        assert before != after or len(set(before)) < len(before)
        assert sorted(before) == sorted(after)


def test_negatives_of_order_are_false_of_the_scene_and_another_draw_for_each_seed(few):
    first, other = rows("order"), rows("order", seed=1)
    assert [row["caption"] for row in first] == [row["caption"] for row in other]
    assert all(a["negative_captions"] != b["negative_captions"] for a, b in zip(first, other, strict=True))
    for index, row in enumerate(first):
        things = things_of(sample_episode(0, "test", index).scene)
        assert true(row["caption"], things)
        assert not any(true(negative, things) for negative in row["negative_captions"])


@pytest.mark.slow
def test_the_card_has_what_the_baselines_score(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SIZES", {"retrieval": 100, "order": 8})
    monkeypatch.setenv("VL_ASSAY_CACHE", str(tmp_path / "cache"))
    references = ["toy_order/retrieval", "toy_order/retrieval_shuffle_all_words"]
    results = report(predict("mock:bag-of-words", references, out=tmp_path / "out", progress=False), resamples=100)
    names = [f"{side}_recall_at_{k}" for side in ("text", "image") for k in (1, 5)]
    table = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:6]]
        for line in re.search(r"<!-- baselines -->(.*)<!-- /baselines -->", CARD, re.S)[1].strip().splitlines()
    }
    for name, result in zip(("bag-of-words", "bag-of-words, words shuffled"), results, strict=True):
        assert table[name] == [f"{100 * result.scores[score]:.1f}" for score in names]
