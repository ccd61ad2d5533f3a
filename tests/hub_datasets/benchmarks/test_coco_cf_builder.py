"""The COCO-Counterfactuals builder: groups by name, and how it names what is wrong."""

from __future__ import annotations

import pytest
import sources_coco_cf as sources
from builder_support import Small

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("coco_cf", tmp_path)


@pytest.mark.parametrize("key", ["236308_0", 7])
def test_a_row_has_both_captions_and_the_files_that_the_stems_name(small, key):
    sources.write_records(small.folder, [sources.records()[0] | {"id": key}])
    assert small.rows(with_images=False) == [
        {
            "id": f"pairs/{key}",
            "filename_0": "236308_0_img_0.jpg",
            "caption_0": "A dog in a park.",
            "filename_1": "236308_0_img_1.jpg",
            "caption_1": "A cat in a park.",
        }
    ]


RECORD = sources.records()[0]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([RECORD, RECORD | {"image_1": "../a"}], "row 1: image_1 '../a' is not the stem"),
        ([RECORD | {"caption_0": " "}], "row 0: caption_0 is empty"),
        ([RECORD | {"id": None}], "row 0: id is None, neither a number nor a text"),
    ],
)
def test_damaged_examples_are_an_error_that_names_row_and_field(small, rows, found):
    sources.write_records(small.folder, rows)
    assert found in small.error(DataError, "examples.jsonl")
