"""Source files of builders: found, verified and checked; boxes and crops of images."""

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.sources.crops import box_problem, crop, crop_name
from vl_assay.hub_datasets.sources.records import check_rows
from vl_assay.hub_datasets.sources.source_files import SourceFile, is_file_name, is_inner_path
from vl_assay.metrics.common.errors import DataError

SCHEMA = {"caption": str, "count": int, "box": [float], "flag": bool, "part": {"names": [str]}}
ROW = {"caption": "a", "count": 1, "box": [1, 2.5], "flag": True, "part": {"names": ["b"]}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("caption", None),
        *(("count", value) for value in (1.0, True)),
        *(("box", value) for value in ([1, None], "12", [True])),
        ("flag", 1),
        *(("part", value) for value in ({"names": [1]}, [])),
    ],
)
def test_a_field_of_another_type_is_an_error_that_names_file_row_and_field(field, value):
    with pytest.raises(DataError, match=rf"^f, row 7: {field} is .*\. Expected \{{caption: str, count: int"):
        check_rows([("row 1", ROW), ("row 7", ROW | {field: value})], SCHEMA, "f")


def test_the_error_of_a_missing_field_names_the_fields_that_are_there():
    with pytest.raises(DataError, match=r"row 0: caption is None.*the fields are count"):
        check_rows([("row 0", {"count": 1})], SCHEMA, "f")


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_local_file_is_verified_by_its_checksum_unless_that_is_left_out(tmp_path, kind):
    file = SourceFile("a.txt", checksum=f"{kind}:{hashlib.new(kind, b'released').hexdigest()}")
    (tmp_path / "a.txt").write_bytes(b"released")
    assert file.read(tmp_path) == (b"released", str(tmp_path / "a.txt"))
    (tmp_path / "a.txt").write_bytes(b"altered")
    with pytest.raises(DataError, match=rf"a\.txt has {kind[:2].upper()}.*verify=False"):
        file.read(tmp_path)
    assert file.read(tmp_path, verify=False)[0] == b"altered"


def test_the_error_of_a_source_names_the_folder_that_was_given_and_the_places_in_it(tmp_path):
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "a.json").write_text("[]")
    named = rf"^{tmp_path} has none of data/a.json, a.json. It has annotations/a.json: move or link that folder. "
    for url, error in (("https://a.org/a.json", "Could not download"), ("", "data/a.json is missing")):
        with pytest.raises(MissingSourceError, match=named + error):
            SourceFile("data/a.json", ("a.json",), url=url).read(tmp_path, None)


@pytest.mark.parametrize("path", ["../a.jpg", "/a.jpg", "", ".", "a\\b.jpg", "a/../b.jpg"])
def test_a_path_that_leads_out_of_its_folder_is_no_inner_path(path):
    assert not is_inner_path(path)
    assert is_inner_path("a/b.jpg")
    assert is_file_name("b.jpg")
    assert not is_file_name("a/b.jpg")


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ((0, 0, 1, 1), None),
        ((0, 0, 0, 30), "holds no pixel"),
        ((0, 0, 50, -30), "holds no pixel"),
        ((3, 0, 0.4, 30), "holds no pixel"),
        ((0, 0, float("nan"), 1), "not in pixels"),
        ((1e9, 0, 1, 1), "not in pixels"),
    ],
)
def test_a_box_without_pixels_is_a_problem(box, problem):
    assert (box_problem(box) is None) if problem is None else problem in box_problem(box)


@pytest.fixture
def photograph(tmp_path):
    path = tmp_path / "7.png"
    Image.fromarray(np.random.default_rng(0).integers(1, 256, (40, 60, 3), dtype=np.uint8)).save(path)
    return path


def pixels(content):
    return np.asarray(Image.open(io.BytesIO(content)))


def test_a_crop_is_the_box_to_the_pixel_and_black_outside(photograph):
    whole = np.asarray(Image.open(photograph))
    assert np.array_equal(pixels(crop(str(photograph), (5, 2, 45, 32))), whole[2:34, 5:50])
    beyond = pixels(crop(str(photograph), (-3, 10, 70, 40)))
    assert beyond.shape == (40, 70, 3)
    assert np.array_equal(beyond[:30, 3:63], whole[10:])
    assert not beyond[30:].any()
    assert not beyond[:, :3].any()
    assert not beyond[:, 63:].any()
    assert crop_name("7.jpg", (5, 2, 45, 32)) == "7-5-2-50-34.png"


def test_a_box_of_fractions_is_rounded_as_pillow_rounds_it(photograph):
    expected = Image.open(photograph).crop((1.6, 0.4, 1.6 + 10.5, 0.4 + 20.2))
    assert np.array_equal(pixels(crop(str(photograph), (1.6, 0.4, 10.5, 20.2))), np.asarray(expected))
    assert crop_name("a/7.jpg", (1.6, 0.4, 10.5, 20.2)) == "7-2-0-12-21.png"  # 1.6, 0.4, 12.1, 20.6


@pytest.mark.parametrize("is_too_large", [False, True])
def test_a_file_that_cannot_be_decoded_is_named_with_the_remedy(photograph, monkeypatch, is_too_large):
    if is_too_large:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60 * 40 // 3)  # Pillow refuses twice as many
    else:
        photograph.write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"7\.png cannot be read as an image .*crop=False"):
        crop(str(photograph), (0, 0, 4, 4))
