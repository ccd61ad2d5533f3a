"""The zero_shot builder: where labelled images, names of classes and templates come from, and what is refused."""

import io
from pathlib import Path

import datasets
import numpy as np
import pytest
from noise import write_noise
from PIL import Image

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.core.benchmarks import get_builder
from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.sources.downloads import DownloadError
from vl_assay.hub_datasets.zero_shot.shapes import draw_shapes
from vl_assay.hub_datasets.zero_shot.templates import TEMPLATES
from vl_assay.metrics.common.errors import DataError

SYNSETS = ("n01440764", "n01443537", "n02012849", "n03126707")
LISTED = (
    "n01440764 tench, Tinca tinca\nn01443537 goldfish, Carassius auratus\n"
    "n02012849 crane\nn03126707 crane, hoisting machine\n"
)


@pytest.fixture
def images(tmp_path):
    """A function that writes two images into a folder for each label, and returns the folder of folders."""

    def make(*labels, inside=""):
        folder = tmp_path / "images"
        write_noise([folder / inside / label / f"{number}.png" for label in labels for number in range(2)], 6, 8)
        return folder

    return make


@pytest.fixture
def built(tmp_path):
    """A function from a configuration and its options to the split that is scored."""

    def make(config="folder", **options):
        cache = tmp_path / "caches" / str(len(list(tmp_path.glob("caches/*"))))
        cache.mkdir(parents=True)
        options = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
        builder = get_builder("zero_shot")(cache_dir=str(cache), config_name=config, **options)
        builder.download_and_prepare()
        return builder.as_dataset(split="test")

    return make


def names(rows):
    return rows.features["label"].names


def templates(rows):
    return rows.features["templates"].feature.names


# Labels


def test_a_folder_for_each_label_gives_classes_in_sorted_order_and_rows_that_take_turns(images, built):
    rows = built(data_dir=images("fire_engine", "Dog"))
    assert names(rows) == ["Dog", "fire engine"]
    assert rows["filename"][:] == ["Dog/0.png", "fire_engine/0.png", "Dog/1.png", "fire_engine/1.png"]
    assert rows["caption"][:] == ["Dog", "fire engine", "Dog", "fire engine"]
    assert rows["label"][:] == [0, 1, 0, 1]
    assert rows["id"][0] == "folder/Dog/0.png"


def test_another_split_is_read_on_request_and_a_missing_one_named(images, built):
    images("cat", "dog", inside="train")
    folder = images("cat", "cow", "dog", inside="val")
    assert names(built(data_dir=folder, split="train")) == ["cat", "dog"]
    assert names(built(data_dir=folder)) == ["cat", "cow", "dog"]
    with pytest.raises(MissingSourceError, match="no folder 'dev'"):
        built(data_dir=folder, split="dev")


# Names of classes


def test_names_by_label_may_name_classes_without_an_image(images, built):
    folder = images("0", "2")
    (folder / "classnames.txt").write_text("0\ttabby cat\n1\tcow, as on a farm\n2\tdog\n")
    rows = built("pets", data_dir=folder)
    assert names(rows) == ["tabby cat", "cow, as on a farm", "dog"]
    assert rows["label"][:] == [0, 2, 0, 2]


def test_synsets_have_the_first_synonym_that_no_other_class_has(images, built):
    folder = images(*SYNSETS[:3])
    (folder / "LOC_synset_mapping.txt").write_text(LISTED)
    assert names(built("imagenet", data_dir=folder)) == ["tench", "goldfish", "crane", "crane, hoisting machine"]


def test_synsets_without_names_say_where_names_are(images, built):
    with pytest.raises(MissingSourceError, match=r"3 synsets such as n01440764.*classnames\.txt.*LOC_synset_mapping"):
        built("imagenet", data_dir=images(*SYNSETS[:3]))


@pytest.mark.parametrize(
    ("labels", "listed", "message"),
    [
        (("cat",), None, "images of 1 class"),
        (("a_b", "a b"), None, "two classes of the name 'a b'"),
        (("0", "1"), None, "are numbers"),
        (("cat", "dog"), "cat\tx\ncow\ty\n", "the label 'dog', which its list"),
        (("cat", "dog"), "x\ny\nz\n", "3 lines, and there are 2 labels"),
        (("cat", "dog"), "cat\tx\ncat\ty\n", "each label once"),
        (("b2", "b10"), "x\ny\n", "if that is clear, as it is for 0, 1, 2"),
        (("-10", "-9"), "x\ny\n", "if that is clear"),
    ],
)
def test_names_that_no_prompt_can_use_are_refused(images, built, labels, listed, message):
    folder = images(*labels)
    if listed is not None:
        (folder / "classnames.txt").write_text(listed)
    with pytest.raises(DataError, match=message):
        built("pets", data_dir=folder)


@pytest.mark.parametrize("labels", ["0 1 2 10", "0.5 1 1.25 10", "b02 b10 c3"])
def test_names_alone_are_in_the_order_of_numbers_or_texts(images, built, labels):
    folder = images(*labels.split())
    (folder / "classnames.txt").write_text("".join(f"name {label}\n" for label in labels.split()))
    found = {row["filename"].partition("/")[0]: row["caption"] for row in built(data_dir=folder)}
    assert found == {label: f"name {label}" for label in labels.split()}


# Templates


def test_the_templates_of_clip_are_as_many_as_its_authors_list():
    counts = {"imagenet": 80, "imagenet7": 7, "cifar": 18, "caltech101": 34, "dtd": 8, "eurosat": 3, "sun397": 2}
    assert {name: len(set(TEMPLATES[name])) for name in counts} == counts
    assert set(TEMPLATES["imagenet7"]) < set(TEMPLATES["imagenet"])
    assert all(template.count("{}") == 1 for found in TEMPLATES.values() for template in found)


def test_templates_are_the_sets_own_or_from_a_file_or_an_option(images, built):
    folder = images("cat", "dog")
    assert templates(built("pets", data_dir=folder)) == ["a photo of a {}, a type of pet."]
    (folder / "templates.txt").write_text("a {}\n\nmy {}!\n")
    assert templates(built("pets", data_dir=folder)) == ["a {}", "my {}!"]
    assert templates(built("pets", data_dir=folder, templates="sun397")) == list(TEMPLATES["sun397"])
    rows = built("pets", data_dir=folder, templates="one {}|the {}|no {}")
    assert templates(rows) == ["one {}", "the {}", "no {}"]
    assert rows["templates"][0] == [0, 1, 2]


@pytest.mark.parametrize(("chosen", "message"), [("a {}|b", "without {}"), ("{}|{}", "twice")])
def test_templates_without_a_place_for_the_name_or_twice_are_refused(images, built, chosen, message):
    with pytest.raises(DataError, match=message):
        built(data_dir=images("cat", "dog"), templates=chosen)


def test_the_candidates_of_a_task_are_all_classes_in_all_templates(images):
    folder = images("cat", "dog")
    (folder / "classnames.txt").write_text("cat\tcat\ncow\tcow\ndog\tdog\n")
    options = {"templates": "a {}|one {}"}
    [task] = load_examples("zero_shot/folder", data_dir=folder, options=options)
    assert task.candidates == {name: (f"a {name}", f"one {name}") for name in ("cat", "cow", "dog")}
    [other] = load_examples("zero_shot/folder", data_dir=folder, options={"templates": "a {}|an {}"})
    assert task.fingerprint != other.fingerprint


# Datasets


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def dataset(folder, **splits):
    """A dataset of one-colour images in a folder, from labels by split."""
    for split, (kind, labels) in splits.items():
        features = datasets.Features({"picture": datasets.Image(), "kind": kind, "weight": datasets.Value("int64")})
        pictures = [Image.fromarray(np.full((4, 4, 3), number, np.uint8)) for number in range(len(labels))]
        rows = {"picture": pictures, "kind": labels, "weight": list(range(len(labels)))}
        datasets.Dataset.from_dict(rows, features=features).to_parquet(str(folder / f"{split}-00000-of-00001.parquet"))


ANIMALS = datasets.ClassLabel(names=["tabby_cat, tabby", "dog", "cow"])


def test_the_first_split_that_shows_its_labels_is_read_and_no_other_one(data, built):
    dataset(data, test=(ANIMALS, [-1, -1]), validation=(ANIMALS, [1, 0, 1]))
    (data / "train-00000-of-00001.parquet").write_bytes(b"not downloaded")
    rows = built(data_dir=data)
    assert names(rows) == ["tabby cat", "dog", "cow"]
    assert dict(zip(rows["filename"][:], rows["caption"][:], strict=True)) == {
        "validation-000000": "dog",
        "validation-000001": "tabby cat",
        "validation-000002": "dog",
    }
    first = rows.cast_column("image", datasets.Image(decode=False))[0]
    pixel = int(first["filename"][-1])  # the images are numbered by their grey
    assert np.unique(np.asarray(Image.open(io.BytesIO(first["image"]["bytes"])))).tolist() == [pixel]


def test_columns_of_texts_or_numbers_are_named(data, built):
    dataset(data, test=(datasets.Value("string"), ["cat", "dog", "cat"]))
    rows = built(data_dir=data, image_column="picture", label_column="kind")
    assert (names(rows), rows["label"][:]) == (["cat", "dog"], [0, 1, 0])
    assert names(built(data_dir=data, label_column="weight")) == ["0", "1", "2"]
    with pytest.raises(DataError, match=r"picture, kind, weight.*none of class labels.*option label_column"):
        built(data_dir=data)
    with pytest.raises(DataError, match="and sort is not among"):
        built(data_dir=data, label_column="sort")
    with pytest.raises(DataError, match="the column weight has no images"):
        built(data_dir=data, image_column="weight", label_column="kind")


def test_hidden_labels_and_unknown_splits_are_named(data, built):
    dataset(data, test=(ANIMALS, [-1, -1]))
    with pytest.raises(DataError, match=r"shows the labels of no split \(test\)"):
        built(data_dir=data)
    with pytest.raises(DataError, match="no split 'train'; it has test"):
        built(data_dir=data, split="train")


def test_a_dataset_of_the_hub_needs_an_owner_and_a_name(built):
    with pytest.raises(DataError, match="Expected OWNER/NAME"):
        built(dataset="imagenet")


def test_a_dataset_of_the_hub_that_cannot_be_reached_is_a_failed_download(built, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match=r"Could not download .*datasets/owner/name .*data_dir"):
        built(dataset="hf://datasets/owner/name")


# Shapes


def test_the_drawn_set_shows_each_class_in_two_sizes_and_four_textures(built):
    rows = built("shapes", with_images=False)
    assert (len(rows), len(names(rows))) == (512, 64)
    assert sorted(rows["label"][:]) == sorted([*range(64)] * 8)
    assert rows["label"][:64] == [*range(64)]
    first, again = ([drawn.read(place) for place in range(512)] for drawn in (draw_shapes(), draw_shapes()))
    assert first == again
    assert len(set(first)) == 512
