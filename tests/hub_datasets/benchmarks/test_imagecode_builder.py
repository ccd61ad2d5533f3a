"""ImageCoDe: which image comes first, and what a set that is not whole or labelled is told."""

from __future__ import annotations

import json

import pytest
from builder_support import Small
from sources_imagecode import PHOTOGRAPHS, VIDEO

from vl_assay.hub_datasets.core.downloads import MissingSourceError
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("imagecode", tmp_path)


def test_the_index_counts_the_images_sorted_by_number_and_the_right_one_is_first(small):
    row = small.rows()[0]
    assert (row["id"], row["category"], row["caption"]) == (
        f"valid/{VIDEO}/7",
        "video",
        "The hand is behind the bowl. ",
    )
    numbers = [0, *range(4, 13)]
    order = [7, 0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert [row[f"filename_{n}"] for n in range(10)] == [f"{VIDEO}_{place}.jpg" for place in order]
    files = [small.folder / "image-sets" / VIDEO / f"img{numbers[place]}.jpg" for place in order]
    assert [row[f"image_{n}"]["bytes"] for n in range(10)] == [file.read_bytes() for file in files]


def test_photographs_are_told_from_videos_and_the_text_of_one_letter_is_marked(small):
    assert [(row["category"], row["defect"]) for row in small.rows()] == [
        ("video", ""),
        ("video", ""),
        ("static", ""),
        ("static", "too short"),
    ]


def test_of_a_set_without_exactly_ten_images_none_is_taken(small):
    (small.folder / "image-sets" / VIDEO / "img0.jpg").unlink()
    small.error(MissingSourceError, rf"10 of 20 images .*{VIDEO}_")
    rows = small.rows(allow_missing=True)
    assert [row["image_0"] is None and row["image_9"] is None for row in rows] == [True, True, False, False]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({VIDEO: ["a text without a label"]}, "found \\['a text without a label'\\]"),
        ({VIDEO: {"10": "a text"}}, "index is '10'"),
        ({"../elsewhere": {"1": "a text"}}, "'../elsewhere' is no bare name"),
        ({PHOTOGRAPHS: {"1": " "}}, "the text is empty"),
    ],
)
def test_unlabelled_or_malformed_sets_are_named(small, texts, message):
    (small.folder / "data" / "valid_data.json").write_text(json.dumps(texts), encoding="utf-8")
    small.error(DataError, message)
