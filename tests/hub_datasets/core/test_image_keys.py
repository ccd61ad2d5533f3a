"""Content keys of images: taken once, kept, never believed against the file itself."""

import hashlib
import json

import pytest
from datasets import Dataset, Features, Image, Value
from hypothesis import given, settings
from hypothesis import strategies as st
from support import UNVERIFIED, Recorder, run_quietly

from vl_assay.hub_datasets import load_examples
from vl_assay.hub_datasets.core import image_keys as module
from vl_assay.hub_datasets.core.image_keys import MISSING, NO_IMAGE, ImageKey, image_keys
from vl_assay.metrics.common.errors import DataError

FILES = [b"one", b"two", None]


@pytest.fixture
def dataset():
    features = Features({"id": Value("string"), "image": Image(decode=False), "image_1": Image(decode=False)})
    rows = [
        {"id": str(n), "image": None if file is None else {"bytes": file, "path": f"a/{n}.jpg"}, "image_1": None}
        for n, file in enumerate(FILES)
    ]
    return Dataset.from_list(rows, features=features)


@pytest.fixture
def reads(monkeypatch):
    """How often the images of a dataset were read for their keys."""
    calls = []

    def rows(dataset, columns, original=module._rows):
        calls.append(columns)
        return original(dataset, columns)

    monkeypatch.setattr(module, "_rows", rows)
    return calls


def test_a_key_is_the_hash_of_the_file_beside_its_name(dataset, tmp_path):
    keys = image_keys(dataset, ["image", "image_1"], tmp_path, ["this"])
    expected = [hashlib.sha256(file).hexdigest()[:32] for file in FILES[:2]]
    assert [row[0] for row in keys] == [ImageKey(expected[0], "0.jpg"), ImageKey(expected[1], "1.jpg"), NO_IMAGE]
    assert [row[1].key for row in keys] == [MISSING] * 3
    assert [row[::-1] for row in image_keys(dataset, ["image_1", "image"], tmp_path, ["this"])] == keys
    assert image_keys(dataset, [], tmp_path, ["this"]) == [[], [], []]


def test_images_are_read_once_for_one_identity_and_columns(dataset, tmp_path, reads):
    first = image_keys(dataset, ["image"], tmp_path, ["this", 1])
    assert image_keys(dataset, ["image"], tmp_path, ["this", 1]) == first
    assert len(reads) == 1
    image_keys(dataset, ["image_1"], tmp_path, ["this", 1])
    image_keys(dataset, ["image"], tmp_path, ["this", 2])
    assert len(reads) == 3
    for _ in range(2):
        image_keys(dataset, ["image"], tmp_path, [])
    assert len(reads) == 5


@settings(max_examples=10)
@given(
    content=st.one_of(
        st.binary(max_size=40),
        st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda value: json.dumps(value).encode()),
    )
)
def test_whatever_stands_in_a_damaged_file_the_keys_are_right(content, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    rows = Dataset.from_list([{"image": {"bytes": b"one", "path": "a/0.jpg"}}])
    first = image_keys(rows, ["image"], folder, ["this"])
    [kept] = folder.iterdir()
    kept.write_bytes(content)
    assert image_keys(rows, ["image"], folder, ["this"]) == first


def test_a_second_run_reads_only_the_images_it_encodes(coco, tmp_path, reads):
    folder = coco(rows=20, images=10)
    run_quietly(Recorder(), folder, tmp_path / "first")
    taken = len(reads)
    [task] = load_examples("sugarcrepe/swap_obj", data_dir=folder, options=UNVERIFIED)
    assert len(reads) == taken
    assert {key for example in task.examples for key in example.images} == {
        hashlib.sha256(path.read_bytes()).hexdigest()[:32] for path in (folder / "val2017").iterdir()
    }


def test_an_image_that_is_not_what_was_listed_is_refused(coco):
    folder = coco(rows=10, images=5)
    [task] = load_examples("sugarcrepe/swap_obj", data_dir=folder, options=UNVERIFIED)
    key = task.examples[0].images[0]
    dataset, row, column = task._places[key]
    task._places[key] = (dataset, row + 1, column)
    with pytest.raises(DataError, match=r"the images of sugarcrepe have changed .*image-keys and run again"):
        task.image_bytes(key)
