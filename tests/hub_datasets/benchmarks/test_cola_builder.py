"""The Cola builder: what a row holds, where its files come from, and how it names what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sources_cola as sources
from builder_support import Small

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("cola", tmp_path)


def test_each_image_stands_beside_its_own_caption_in_the_order_of_the_file(small):
    dataset = small.build()
    assert dataset["id"][:] == [f"multiobjects/{number}" for number in range(5)]
    columns = ("filename_0", "caption_0", "filename_1", "caption_1")
    assert [tuple(row[column] for column in columns) for row in dataset] == list(sources.GROUPS)


URL = sources.SERVER
ROW = [f"{URL}/1.jpg", "a", f"{URL}/2.jpg", "b"]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([ROW, ROW[:3]], "row 1: found ["),
        ([[*ROW[:3], None]], "row 0: caption_1 is None"),
        ([[ROW[0], " ", *ROW[2:]]], "row 0: caption_0 is empty"),
        ([[*ROW[:2], "file:///etc/hosts", "b"]], "row 0: url_1 'file:///etc/hosts' is not the http(s) URL"),
        ([[f"{URL}/..", *ROW[1:]]], "row 0: url_0"),
        ([ROW, ["https://elsewhere.org/1.jpg", *ROW[1:]]], "have the same file name"),
    ],
)
def test_damaged_annotations_are_an_error_that_names_file_and_row(small, rows, found):
    path = small.folder / sources.ANNOTATIONS
    path.write_text(json.dumps(rows), encoding="utf-8")
    message = small.error(DataError, "Expected")
    assert str(path) in message
    assert found in message


def test_released_images_all_come_from_one_server(shared_data):
    rows = json.loads((shared_data / "data" / "cola" / Path(sources.ANNOTATIONS).name).read_text("utf-8"))
    assert {row[place].rsplit("/", 1)[0] for row in rows for place in (0, 2)} == {sources.SERVER}
