"""Pairs of a caption and a hard negative: where they come from, what is refused, and that what is written is read."""

import json

import pytest
import sources_toy_scenes
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets import build, get_benchmark
from vl_assay.hub_datasets.authoring.data.pairs import Pair, has_pairs, read_pairs, write_pairs
from vl_assay.hub_datasets.authoring.text.normalising import normalise
from vl_assay.metrics.common.errors import DataError


@pytest.fixture(scope="module", autouse=True)
def few_scenes(tmp_path_factory):
    """24 scenes of toy_scenes, in a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VL_ASSAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        sources_toy_scenes.shrink(patch)
        yield


def test_a_benchmark_gives_its_pairs_with_the_ids_of_its_predictions():
    pairs = read_pairs("toy_scenes/itm")
    assert len(pairs) == 24 * 7
    assert pairs[0].id == "test-000000/add_att"
    assert len({pair.image for pair in pairs}) == 24
    assert {pair.category for pair in pairs} == {
        "add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj",
    }  # fmt: skip


def test_a_row_with_several_negatives_or_true_captions_gives_several_pairs():
    order = read_pairs("toy_scenes/order")
    assert [pair.id for pair in order[:4]] == [f"test-000000#{number}" for number in range(4)]
    assert len({pair.positive for pair in order[:4]}) == 1
    hard = read_pairs("toy_scenes/hard_positives")
    # Both true captions are set against the one negative.
    assert hard[0].negative == hard[1].negative
    assert hard[0].positive != hard[1].positive
    assert len(hard) == 24 * 8


def test_a_whole_benchmark_leaves_out_what_has_no_pairs_and_says_so():
    with pytest.warns(UserWarning, match="left out, as they have no pairs: groups, detection, vqa"):
        pairs = read_pairs("toy_scenes")
    assert len(pairs) == 24 * (7 + 8 + 4)
    assert {pair.id.partition("/")[0] for pair in pairs} == {"itm", "hard_positives", "order"}
    assert {pair.category for pair in pairs if "/" not in pair.category} == {"order"}


def test_tasks_that_are_no_blind_pairs_are_refused():
    with pytest.raises(DataError, match="toy_scenes/vqa has no pairs of a caption"):
        read_pairs("toy_scenes/vqa")
    blind = {task.name for task in get_benchmark("toy_scenes").tasks if has_pairs(task)}
    assert blind == {"itm", "hard_positives", "order", "sets"}


def test_columns_of_a_benchmark_cannot_be_mapped():
    with pytest.raises(DataError, match="leave out --column positive"):
        read_pairs("toy_scenes/itm", columns={"positive": "caption"})


def test_a_built_folder_is_read_as_the_benchmark(tmp_path):
    build("toy_scenes", tmp_path / "toy", configs=["itm"], options={"train_scenes": 0})
    assert read_pairs(tmp_path / "toy") == read_pairs("toy_scenes/itm")


def test_files_of_the_release_are_read_as_the_benchmark_is(shared_data):
    folder = shared_data / "data" / "sugarcrepe"
    of_files = read_pairs(folder / "data")
    assert len(of_files) == 7511
    swaps = [pair for pair in of_files if pair.category == "swap_obj"]
    assert sorted(swaps) == sorted(read_pairs("sugarcrepe/swap_obj", data_dir=folder))


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=10)
@given(st.lists(st.tuples(TEXT, TEXT, st.text("abc./", max_size=5)), min_size=1, max_size=5))
def test_what_is_written_is_read_again(tmp_path_factory, texts):
    pairs = [Pair(f"swap/{n}", image, *captions, "swap") for n, (*captions, image) in enumerate(texts)]
    path = tmp_path_factory.mktemp("pairs") / "x.jsonl"
    write_pairs(pairs, path)
    assert read_pairs(path) == pairs


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("  A dog , by a  “red” car.\n", 'a dog, by a "red" car'),
        ("TV on a stand.", "TV on a stand"),
        ("What? A cat!", "what? A cat"),
        ("a dog – a cat...", "a dog - a cat"),
        ("A", "a"),
        ("", ""),
        ("It’s 5.5 metres", "it's 5.5 metres"),
    ],
)
def test_normalisation_is_the_documented_one(typed, expected):
    assert normalise(typed) == expected


def test_a_category_of_zero_is_a_category(tmp_path):
    rows = [{"positive": "a", "negative": "b", "category": category} for category in (0, 1, None, "")]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    assert [pair.category for pair in read_pairs(tmp_path / "x.json")] == ["0", "1", "x", "x"]
