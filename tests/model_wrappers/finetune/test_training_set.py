"""Training sets: where captions come from, and their hard negatives and hard positives."""

import csv
import json
import shutil
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vl_assay.hub_datasets import build
from vl_assay.hub_datasets.authoring.data.candidates import Candidate
from vl_assay.hub_datasets.authoring.data.tables import write_rows
from vl_assay.hub_datasets.authoring.text.negatives import negclip_negatives
from vl_assay.hub_datasets.toy_scenes import render
from vl_assay.hub_datasets.toy_scenes.language import parse, synonym
from vl_assay.hub_datasets.toy_scenes.tasks import CATEGORIES, task_rows
from vl_assay.metrics.common.errors import DataError, ScoresError, UnknownNameError
from vl_assay.model_wrappers.finetune.data.training_set import read_training_set

SWAP, REPLACE = "scene:swap", "scene:replace"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three images, the third a copy of the first, and a table of five captions."""
    folder = tmp_path_factory.mktemp("images")
    for name, colour in (("a.png", "red"), ("b.png", "blue"), ("c.png", "red")):
        Image.new("RGB", (4, 4), colour).save(folder / name)
    rows = [
        ("a.png", "a red ball on a big box"),
        ("a.png", "a man holding a small dog"),
        ("b.png", "a dog"),
        ("b.png", "a man holding a small dog"),
        ("c.png", "a cat and a dog"),
    ]
    with (folder / "metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file_name", "text"), *rows])
    return folder


def table(folder, name, rows):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_captions_of_toy_scenes_are_those_of_its_train_split():
    training_set = read_training_set("toy_scenes", options={"train_scenes": 3, "seed": 7})
    expected = [(n, caption) for n in range(3) for caption in task_rows("captions", 7, "train", n)[1][0]["captions"]]
    assert [(each.image, each.caption) for each in training_set.samples] == list(
        dict.fromkeys((f"train-{n:06d}.png", caption) for n, caption in expected)
    )
    for sample in training_set.samples:
        scene = render.read_scene(training_set.image(sample.image))
        assert scene is not None
        assert parse(sample.caption).is_true_of(scene)  # pyright: ignore[reportOptionalMemberAccess]


def test_the_rows_of_a_caption_become_one_sample():
    training_set = read_training_set("toy_scenes/itm", limit=2)
    assert len(training_set.samples) == 2
    for number, sample in enumerate(training_set.samples):
        rows = task_rows("itm", 0, "train", number)[1]
        assert sample.negatives == tuple(row["negative_caption"] for row in rows)
        assert len(sample.negatives) == len(CATEGORIES)
    assert all(
        each.negatives and each.positives for each in read_training_set("toy_scenes/hard_positives", limit=4).samples
    )


@pytest.mark.parametrize(
    ("reference", "options", "message"),
    [
        ("toy_scenes/groups", {}, "unknown part of toy_scenes to train on 'groups'; known: captions, itm"),
        ("toy_scenes", {"options": {"sead": 1}}, "unknown option of toy_scenes 'sead'"),
        ("toy_scenes", {"options": {"train_scenes": 0}}, "toy_scenes has no captions: no rows came"),
        ("toy_scenes", {"negatives": ["swop"]}, "unknown kind of negatives 'swop'; known: negclip, swap"),
        ("toy_scenes", {"columns": {"caption": "title"}}, "no column 'title'; it has image, captions"),
        ("no/such/thing", {}, "there is no benchmark, file or folder 'no/such/thing'"),
        ("no/such/thing", {"options": {"seed": 1}}, "is read as it is and has no options; leave out seed"),
        ("captions.csv", {"split": "test"}, "captions.csv is a table, which has no split 'test'"),
    ],
)
def test_errors_say_what_is_allowed(reference, options, message):
    with pytest.raises((UnknownNameError, DataError, ScoresError), match=message):
        read_training_set(reference, **options)


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(0, 5))
def test_negatives_of_a_scene_are_false_of_it_and_positives_true(world, seed):
    kinds = (SWAP, REPLACE)
    training_set = read_training_set(
        "toy_scenes", limit=5, negatives=kinds, positives=kinds, seed=seed, options={"seed": world}
    )
    for sample in training_set.samples:
        scene = training_set.images.scene(sample.image)
        assert sample.negatives
        assert sample.positives
        for texts, truth in ((sample.negatives, False), (sample.positives, True)):
            for text in texts:
                statement = parse(text)
                assert statement is not None, text
                assert statement.is_true_of(scene) is truth


def words(caption):
    """The words of a caption that mean something."""
    statement = parse(caption)
    assert statement is not None
    names = [word for phrase in statement.phrases for word in (*phrase.adjectives, phrase.noun)]
    return Counter([*names, statement.relation])


def test_swaps_of_a_scene_move_words_and_replacements_change_one():
    for kind, changed in ((SWAP, 0), (REPLACE, 1)):
        for sample in read_training_set("toy_scenes", limit=20, negatives=[kind], positives=[kind]).samples:
            for text in (*sample.negatives, *sample.positives):
                assert (words(sample.caption) - words(text)).total() == changed
                assert (words(text) - words(sample.caption)).total() == changed
            if kind == SWAP:  # only joined phrases are swapped in positives
                assert bool(sample.positives) == (None in words(sample.caption))
            for text in sample.positives if kind == REPLACE else ():
                old, new = words(sample.caption) - words(text), words(text) - words(sample.caption)
                assert [*map(synonym, old)] == [*new]


def test_scenes_are_read_from_pictures_of_a_built_dataset(toy, tmp_path):
    build("toy_scenes", tmp_path / "toy", configs=["itm"], options={"train_scenes": 4})
    built = read_training_set(tmp_path / "toy", negatives=[SWAP], positives=[REPLACE])
    direct = read_training_set("toy_scenes/itm", negatives=[SWAP], positives=[REPLACE], limit=4)
    assert [each[1:4] for each in built.samples] == [each[1:4] for each in direct.samples]
    pictures, drawn = ([each.images.read(key) for key in each.image_keys] for each in (built, direct))
    assert pictures == drawn
    with pytest.raises(DataError, match="itm has no split 'dev'; it has test, train, validation"):
        read_training_set(tmp_path / "toy", split="dev")


def test_rules_make_negatives_and_positives_of_any_caption(folder):
    with pytest.raises(DataError, match=r"is made from the scene of an image of toy_scenes, which .*use 'swap'"):
        read_training_set(folder, negatives=[SWAP])
    by_caption = {each.caption: each for each in read_training_set(folder, negatives=["negclip"]).samples}
    for caption, sample in by_caption.items():
        [expected] = negclip_negatives([caption])
        assert list(sample.negatives) == [negative.caption for negative in expected]
    swapped = read_training_set(folder, negatives=["swap"], positives=["swap", "replace"]).samples
    assert "a big ball on a red box" in swapped[0].negatives
    assert swapped[4].positives == ("a dog and a cat",)
    assert any("little" in text for text in swapped[1].positives)
    replaced = read_training_set(folder, negatives=["replace"], positives=["positive_swap"]).samples
    assert replaced[0].negatives
    assert not set(replaced[0].negatives) & set(swapped[0].negatives)


def test_a_negative_that_is_true_of_the_image_is_left_out_and_nothing_and_nan_are_none(tmp_path, folder):
    rows = [
        {"image": str(folder / "a.png"), "caption": "a dog.", "negatives": ["A  cat", "a cow", "a cow", "a hound"]},
        {"image": str(folder / "a.png"), "caption": "a cat", "positives": ["a hound", "A cat."]},
        {"image": str(folder / "b.png"), "caption": "a cow", "negatives": ["a dog", "a cat", None]},
        {"image": str(folder / "c.png"), "caption": "a cow", "negatives": float("nan")},
    ]
    training_set = read_training_set(table(tmp_path, "x.jsonl", rows))
    assert [each.negatives for each in training_set.samples] == [("a cow",), (), ("a dog", "a cat"), ()]
    assert [each.positives for each in training_set.samples] == [(), ("a hound",), (), ()]
    assert training_set.summary()["lost"] == 2


def candidate(number, image, caption, text, is_positive=False):
    return Candidate(str(number), image, caption, text, "swap_obj", is_positive, "somebody", {})


def test_files_of_candidates_belong_to_captions_and_where_these_are_shared_to_images(tmp_path, folder):
    shared = "a man holding a small dog"
    texts = [
        candidate(0, "elsewhere/a.jpg", shared, "false of a"),
        candidate(1, "elsewhere/b.jpg", shared, "false of b"),
        candidate(2, "", shared, "true of both", is_positive=True),
        candidate(3, "unheard-of.jpg", "a dog", "a cat"),
    ]
    write_rows(texts, tmp_path / "candidates.jsonl")
    samples = read_training_set(folder, files=[tmp_path]).samples
    assert [each.negatives for each in samples] == [(), ("false of a",), ("a cat",), ("false of b",), ()]
    assert [each.positives for each in samples] == [(), ("true of both",), (), ("true of both",), ()]
    write_rows([candidate(0, "", "a horse", "a cow")], tmp_path / "other" / "candidates.jsonl")
    with pytest.raises(DataError, match="has candidates, but none for a caption of the training data"):
        read_training_set(folder, files=[tmp_path / "other"])


def test_a_folder_of_images_is_read_by_its_table(folder, tmp_path):
    training_set = read_training_set(folder, limit=4)
    assert [each.caption for each in training_set.samples][2:] == ["a dog", "a man holding a small dog"]
    assert [each.id for each in training_set.samples] == ["0", "1", "2", "3"]
    assert training_set.image_keys == ["a.png", "b.png"]
    assert training_set.images.read("a.png") == (folder / "a.png").read_bytes()
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert read_training_set(tmp_path / "elsewhere", limit=4).fingerprint == training_set.fingerprint
    assert training_set.image(training_set.image_keys[0]).getpixel((0, 0)) == (255, 0, 0)


def test_the_files_of_negclip_are_read_as_released(folder):
    path = folder / "train_neg_clip.tsv"
    path.write_text(
        "\ttitle\tfilepath\tneg_caption\tneg_image\n"
        "0\tA child with a yak.\ta.png\t['A yak with a child .', \"A yak's child .\"]\t[1]\n"
        "1\tA dog.\tb.png\t[]\t[0]\n"
    )
    samples = read_training_set(path).samples
    assert samples[0].negatives == ("A yak with a child .", "A yak's child .")
    assert samples[1].negatives == ()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"caption": "a dog"}, "has the columns caption, and none is known to be the image; say which it is"),
        ({"caption": "a dog", "image": "gone.png"}, "row 0 names the image 'gone.png', and there is no such file in"),
        ({"caption": "a dog", "image": {"bytes": "x"}}, "where the name of an image's file belongs.*--column image="),
        ({"caption": "a dog", "image": "a.png", "negatives": "['a', it's]"}, "row 0 has a list that cannot be read"),
        ({"caption": "\ud800 dog", "image": "a.png"}, "half a character"),
        ({"caption": "a dog", "image": "a.png", "negatives": [3]}, "row 0 has 3 in 'negatives', where a caption belon"),
    ],
)
def test_damaged_tables_are_refused_with_their_row(folder, row, message):
    with pytest.raises(DataError, match=message):
        read_training_set(table(folder, "damaged.jsonl", [row]))


def test_an_image_that_is_none_is_named(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    training_set = read_training_set(table(tmp_path, "x.jsonl", [{"image": "a.png", "caption": "a dog"}]))
    with pytest.raises(DataError, match=r"the image .*a\.png of .* cannot be decoded"):
        training_set.image(training_set.image_keys[0])
    (tmp_path / "a.png").unlink()
    with pytest.raises(DataError, match=r"the image .*a\.png cannot be read: No such file"):
        training_set.image(training_set.image_keys[0])


def test_datasets_on_the_hub_are_read_without_decoding(monkeypatch, folder):
    import datasets

    pictures = [(folder / name).read_bytes() for name in ("a.png", "b.png", "c.png")]
    rows = {
        "image": [{"bytes": picture, "path": None} for picture in pictures],
        "captions": [["a dog", "a hound"], ["a cat"], ["a dog", "a puppy"]],
        "picture_id": [5, 6, 7],
    }
    dataset = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *given, **options: asked.append((given, options)) or dataset)
    training_set = read_training_set("hf://datasets/owner/name/config", columns={"id": "picture_id"})
    assert asked == [(("owner/name", "config"), {"split": "train"})]
    # The third picture is the first one again, so its first caption is there already.
    assert [(each.id, each.caption) for each in training_set.samples] == [
        ("5#0", "a dog"), ("5#1", "a hound"), ("6", "a cat"), ("7#1", "a puppy"),
    ]  # fmt: skip
    assert [training_set.images.read(key) for key in training_set.image_keys] == pictures[:2]
    paths = [str(folder / name) for name in ("a.png", "b.png", "a.png")]
    dataset = dataset.remove_columns("image").add_column("image", paths).cast_column("image", datasets.Image())
    beside = read_training_set("hf://datasets/owner/name")
    assert [beside.images.read(key) for key in beside.image_keys] == pictures[:2]
    with pytest.raises(DataError, match="the column 'picture_id' holds no images"):
        read_training_set("hf://datasets/owner/name", columns={"image": "picture_id"})


def test_a_benchmark_is_trained_on_only_by_its_split(coco, tmp_path):
    with pytest.raises(DataError, match=r"sugarcrepe/add_att is a benchmark; build it \(vl-assay build sugarcrepe"):
        read_training_set("sugarcrepe/add_att")
    build("sugarcrepe", tmp_path / "built", configs=["add_att"], data_dir=coco(rows=6), options={"verify": False})
    with pytest.raises(DataError, match=r"add_att has no split 'train'; it has test\. Benchmarks are for testing"):
        read_training_set(tmp_path / "built")
    training_set = read_training_set(tmp_path / "built", split="test")
    assert len(training_set.samples) == 6
    assert all(len(sample.negatives) == 1 for sample in training_set.samples)
