"""COCO's training captions, from the annotations as released and from Karpathy's splits."""

import json

import pytest
from PIL import Image

from vl_assay.metrics.common.errors import DataError, UnknownNameError
from vl_assay.model_wrappers.finetune.data.training_set import read_training_set

SPLITS = {"train": ("train2014", 1), "restval": ("val2014", 2), "val": ("val2014", 3), "test": ("val2014", 4)}


@pytest.fixture
def coco(tmp_path):
    """A folder of photographs, annotations/captions_train2017.json and dataset_coco.json."""
    images, annotations, karpathy = [], [], []
    for split, (folder, number) in SPLITS.items():
        name = f"COCO_{folder}_{number:012d}.jpg"
        (tmp_path / folder).mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (40 * number, 0, 0)).save(tmp_path / folder / name)
        sentences = [{"raw": f"a {split} dog", "sentid": 10 * number}, {"raw": "a cat", "sentid": 10 * number + 1}]
        karpathy.append({"filepath": folder, "filename": name, "split": split, "sentences": sentences})
    for number in (7, 8):
        images.append({"id": number, "file_name": f"{number:012d}.jpg"})
        annotations += [{"id": 100 * number + i, "image_id": number, "caption": f"cat {number}.{i}"} for i in range(2)]
        (tmp_path / "train2017").mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (0, 20 * number, 0)).save(tmp_path / "train2017" / f"{number:012d}.jpg")
    (tmp_path / "annotations").mkdir()
    released = {"info": {}, "licenses": [], "images": images, "annotations": annotations[::-1]}
    (tmp_path / "annotations" / "captions_train2017.json").write_text(json.dumps(released))
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": karpathy, "dataset": "coco"}))
    return tmp_path


def test_karpathys_training_split_includes_restval_and_no_other(coco):
    file, splits = coco / "dataset_coco.json", ("train", "validation", "test")
    found = {split: read_training_set(file, split=split) for split in splits}
    assert [sample.caption for sample in found["train"].samples] == ["a train dog", "a cat", "a restval dog", "a cat"]
    assert [sample.id for sample in found["train"].samples] == ["10", "11", "20", "21"]
    keys = [set(each.image_keys) for each in found.values()]
    assert [len(each) for each in keys] == [2, 1, 1]
    assert not keys[0] & keys[1]
    assert not keys[0] & keys[2]
    # The photograph of restval is in val2014; its red is 80.
    red = found["train"].image("val2014/COCO_val2014_000000000002.jpg").getpixel((0, 0))[0]
    assert abs(red - 80) < 3


def test_annotations_as_released_are_read_from_the_folder_above_or_a_named_one(coco):
    file = coco / "annotations" / "captions_train2017.json"
    found = read_training_set(file)
    assert [(sample.image, sample.caption, sample.id) for sample in found.samples][:2] == [
        ("train2017/000000000008.jpg", "cat 8.1", "801"),
        ("train2017/000000000008.jpg", "cat 8.0", "800"),
    ]
    assert found.image("train2017/000000000007.jpg").size == (8, 8)
    elsewhere = coco.parent / "elsewhere.json"
    elsewhere.write_bytes(file.read_bytes())
    renamed = elsewhere.rename(coco.parent / "captions_train2017.json")
    assert read_training_set(renamed, data_dir=coco).fingerprint == found.fingerprint
    assert len(read_training_set(file, limit=3).samples) == 3


def test_what_cannot_be_read_is_named(coco):
    file = coco / "annotations" / "captions_train2017.json"
    with pytest.raises(DataError, match=r"is one split and has no split 'test'"):
        read_training_set(file, split="test")
    with pytest.raises(UnknownNameError, match=r"known: train, validation, test"):
        read_training_set(coco / "dataset_coco.json", split="restval")
    (coco / "train2017" / "000000000007.jpg").unlink()
    with pytest.raises(DataError, match=r"train2017/000000000007.jpg .* --data-dir \(http.*/train2017.zip\)"):
        read_training_set(file)
    file.write_text('{"images": [{"name": 1}], "annotations": []}')
    with pytest.raises(DataError, match=r"neither in the layout of COCO's .* an entry has no 'id'"):
        read_training_set(file)
    twice = [{"id": 1, "file_name": "7.jpg"}, {"id": 1, "file_name": "8.jpg"}]
    file.write_text(json.dumps({"images": twice, "annotations": []}))
    with pytest.raises(DataError, match="several images of one id"):
        read_training_set(file)
    file.write_text('{"images": [')
    with pytest.raises(DataError, match="cannot be read"):
        read_training_set(file)
