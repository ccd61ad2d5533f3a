"""Files of rows in each format as builders read them, and the order in which their images are looked for."""

import json
from typing import ClassVar

import pytest
from builder_support import raw
from PIL import Image

from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.core.images import decode
from vl_assay.hub_datasets.sources.builders import Images, ReleasedRows, Rows, VerifiedConfig, make_configs
from vl_assay.hub_datasets.sources.columns import columns
from vl_assay.hub_datasets.sources.downloads import DownloadError
from vl_assay.hub_datasets.sources.image_archives import ImageArchive
from vl_assay.hub_datasets.sources.records import parse_records
from vl_assay.hub_datasets.sources.source_files import SourceFile
from vl_assay.metrics.common.errors import DataError

ROWS = [{"caption": 'a "red" cup, a table', "label": "1"}, {"caption": "zwei\nZeilen, ö", "label": "2"}]
FILES = {
    "a.json": '[{"caption": "a \\"red\\" cup, a table", "label": "1"}, {"caption": "zwei\\nZeilen, ö", "label": "2"}]',
    "a.jsonl": '{"caption": "a \\"red\\" cup, a table", "label": "1"}\n\n{"caption": "zwei\\nZeilen, ö", "label": "2"}',
    "a.csv": '\ufeffcaption,label\r\n"a ""red"" cup, a table",1\r\n"zwei\nZeilen, ö",2\r\n',
    "a.tsv": 'caption\tlabel\n"a ""red"" cup, a table"\t1\n"zwei\nZeilen, ö"\t2\n',
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_rows(name):
    found = parse_records(FILES[name].encode(), f"https://example.org/{name}?download=true")
    assert found == [("row 0", "0", ROWS[0]), ("row 1", "1", ROWS[1])]


@pytest.mark.parametrize(("name", "payload"), [("a.json", b"[]"), ("a.json", b"7"), ("a.csv", b"caption,label\n")])
def test_a_file_without_rows_is_named(name, payload):
    with pytest.raises(DataError, match=f"{name} holds no rows"):
        parse_records(payload, name)


def test_an_error_of_a_malformed_file_or_row_says_how_to_get_the_right_one(copy):
    for content, found in ((b"[", "is not JSON"), (b'[{"image": 1}]', "row 0: image is 1")):
        (copy / "rows.json").write_bytes(content)
        with pytest.raises(DataError, match=rf"rows\.json.* {found}.*\. Ask the authors\.$"):
            places_of(copy)


class Photographs(ReleasedRows):
    BUILDER_CONFIGS: ClassVar = make_configs(VerifiedConfig, "Photographs", ["photographs"])
    ROWS: ClassVar = {"photographs": Rows(SourceFile("rows.json", remedy="Ask the authors"), {"image": str})}
    IMAGES = Images(("first", "second/inside"), "Get them", (ImageArchive("a", "http://127.0.0.1:9/a.zip", "a/"),))

    def _columns(self):
        return columns("id image filename")

    def _rows(self, part, key, record):
        yield {"id": f"{part}/{key}", "filename": record["image"]}


class Twins(Photographs):
    def _rows(self, part, key, record):
        yield {"id": f"{part}/1", "filename": record["image"]}


def test_an_id_of_several_rows_is_an_error(copy):
    with pytest.raises(DataError, match=r"several rows of the source have the id photographs/1\. Keep one"):
        Twins(cache_dir=str(copy / "cache"), data_dir=str(copy)).as_streaming_dataset(split="test")


PLACES = ("first", "second/inside", ".")


@pytest.fixture
def copy(tmp_path):
    """A user's copy that has `a.jpg` and `b.jpg` in every place, each file as many pixels wide as its place says."""
    (tmp_path / "rows.json").write_text(json.dumps([{"image": "a.jpg"}, {"image": "b.jpg"}]))
    for place in PLACES:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for name in ("a.jpg", "b.jpg"):
            Image.new("RGB", (1 + PLACES.index(place), 1)).save(tmp_path / place / name)
    return tmp_path


def places_of(copy):
    """From which place each image is."""
    builder = Photographs(cache_dir=str(copy / "cache"), data_dir=str(copy))
    return [PLACES[decode(row["image"]["bytes"]).width - 1] for row in raw(builder.as_streaming_dataset(split="test"))]


def test_each_image_is_from_the_first_declared_folder_that_has_it_and_last_from_the_copy_itself(copy):
    assert places_of(copy) == ["first", "first"]
    (copy / "first" / "a.jpg").unlink()
    assert places_of(copy) == ["second/inside", "first"]
    (copy / "second" / "inside" / "a.jpg").write_bytes(b"")
    assert places_of(copy) == [".", "first"]


def test_images_are_fetched_only_where_the_copy_has_none_and_no_folder_for_them(copy):
    for path in [*copy.rglob("*.jpg")]:
        path.unlink()
    for folder in (copy / "second" / "inside", copy / "first"):
        named = f"2 of 2 images are missing from {copy} and its folders first, second/inside"
        with pytest.raises(MissingSourceError, match=named):
            places_of(copy)
        folder.rmdir()
    (copy / "photographs").mkdir()
    (copy / "photographs" / "a.jpg").write_text(".")
    named = rf"{copy} has none of first/a.jpg, second/inside/a.jpg, a.jpg. It has photographs/a.jpg: move"
    with pytest.raises(DownloadError, match=rf"{named} .*Could not download .*/a\.zip"):  # as always in tests
        places_of(copy)
    (copy / "a.jpg").write_text(".")
    with pytest.raises(MissingSourceError, match=r"1 of 2 images .*b\.jpg"):
        places_of(copy)
