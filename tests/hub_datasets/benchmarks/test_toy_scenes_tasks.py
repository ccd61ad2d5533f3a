"""Beyond single rows of toy_scenes: one right answer in retrieval, spread of sets, questions about one picture each."""

import pytest
from toy_scenes_checker import MEANINGS, things_of, true, understand

from vl_assay.hub_datasets.toy_scenes.retrieval import POOL
from vl_assay.hub_datasets.toy_scenes.tasks import task_rows

# In the world of seed 16 one scene of the first pool of test can be told from another one by no caption.
POOLS = [(0, "train", 1900), (16, "test", 0)]


@pytest.mark.parametrize(("seed", "split", "start"), POOLS)
def test_captions_of_a_pool_are_true_of_their_own_scene_and_of_no_other(seed, split, start):
    every = {index: task_rows("retrieval", seed, split, index) for index in range(start, start + POOL)}
    scenes = {index: things_of(episode.scene) for index, (episode, _) in every.items()}
    for index, (_, rows) in every.items():
        for caption in (caption for row in rows for caption in row["captions"]):
            assert [place for place, things in scenes.items() if true(caption, things)] == [index], caption
    assert [index for index, (_, rows) in every.items() if not rows] == ([4] if seed == 16 else [])


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
