"""Beyond single rows of toy_scenes: one right answer in retrieval, spread of sets, questions about one picture each."""

import numpy as np
import pytest
from toy_scenes_checker import MEANINGS, things_of, true, understand

from vl_assay.hub_datasets.toy_scenes import retrieval
from vl_assay.hub_datasets.toy_scenes.episodes import Episode
from vl_assay.hub_datasets.toy_scenes.language import parse
from vl_assay.hub_datasets.toy_scenes.retrieval import POOL, retrieval_rows
from vl_assay.hub_datasets.toy_scenes.tasks import sample_episode, task_rows
from vl_assay.hub_datasets.toy_scenes.world import Scene, ScenePlan, Thing

# In the world of seed 16 one scene of the first pool of test can be told from another one by no caption.
POOLS = [(0, "test", 0), (0, "train", 1900), (16, "test", 0)]


@pytest.mark.parametrize(("seed", "split", "start"), POOLS)
def test_captions_of_a_pool_are_true_of_their_own_scene_and_of_no_other(seed, split, start):
    every = {index: task_rows("retrieval", seed, split, index) for index in range(start, start + POOL)}
    scenes = {index: things_of(episode.scene) for index, (episode, _) in every.items()}
    for index, (_, rows) in every.items():
        for caption in (caption for row in rows for caption in row["captions"]):
            assert [place for place, things in scenes.items() if true(caption, things)] == [index], caption


def left_out(seed, split):
    """The numbers of the scenes of a first pool that have no row."""
    episodes = [sample_episode(seed, split, index) for index in range(POOL)]
    return [e.index for e in episodes if not retrieval._is_distinct(e.scene, retrieval._others(e))]


def test_a_scene_is_left_out_where_all_that_is_true_of_it_is_true_of_another():
    assert {seed: left_out(seed, "test") for seed in (15, 16)} == {15: [], 16: [4]}
    assert task_rows("retrieval", 16, "test", 4)[1] == []


def scene(*things):
    """A scene of small plain things, each given as "colour shape x y"."""
    made = []
    for colour, shape, x, y in (thing.split() for thing in things):
        made.append(Thing(shape, colour, "small", "plain", int(x), int(y)))
    return Scene(tuple(made))


RING, STAR = "red ring 23 23", "blue star 64 64"


@pytest.mark.parametrize(
    ("other", "has_row"),
    [
        (scene(RING, STAR, "green cross 105 105"), False),  # the same and one thing more
        (scene(RING, "blue star 64 23"), True),  # no longer above
        (scene("blue star 23 23", "red ring 64 64"), True),
        (scene(RING, "pink star 64 64", "blue cross 105 64"), True),
        (scene("blue circle 23 23", "red cross 64 64"), True),
    ],
)
def test_scenes_are_told_apart_by_things_and_relations_alone(other, has_row, monkeypatch):
    ours = scene(RING, STAR)
    plan = ScenePlan("left of", "right of", "colour")
    episodes = [
        Episode(drawn, plan, parse("a ring left of a star"), 0, "test", i) for i, drawn in enumerate([ours, other])
    ]
    monkeypatch.setattr(retrieval, "sample_episode", lambda seed, split, index: episodes[min(index, 1)])
    retrieval._pool.cache_clear()
    try:
        rows = list(retrieval_rows(episodes[0], np.random.default_rng(0)))
    finally:
        retrieval._pool.cache_clear()
    assert bool(rows) == has_row
    for caption in (caption for row in rows for caption in row["captions"]):
        assert true(caption, things_of(ours))
        assert not true(caption, things_of(other))


@pytest.fixture(scope="module")
def sets():
    return [task_rows("sets", 0, "test", index) for index in range(300)]


def test_sets_name_no_size_beside_a_relation_of_size(sets):
    with_size = 0
    for _, [row] in sets:
        for caption in (row["caption"], *row["hard_negatives"]):
            phrases, relation = understand(caption)
            names_size = any("size" in phrase for phrase in phrases)
            with_size += names_size
            assert not (names_size and MEANINGS["relation"][relation] in ("inside", "larger than")), caption
    assert with_size > 150
