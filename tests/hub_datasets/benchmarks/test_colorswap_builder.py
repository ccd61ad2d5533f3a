"""ColorSwap's two sources: the authors' files and the Parquet files of its gated repository."""

from __future__ import annotations

import json

import pytest
import sources_colorswap
from builder_support import Small
from hub_server import serving_hub

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("colorswap", tmp_path)


@pytest.fixture
def tables(small, tmp_path):
    """The same rows as a repository of a Hub."""
    folder = tmp_path / "hub" / "stanfordnlp" / "colorswap"
    sources_colorswap.make_tables(folder, small.folder)
    return folder


@pytest.mark.parametrize("config", ["test", "train"])
def test_both_sources_give_the_same_rows_and_images(config, small, tables, monkeypatch):
    expected = small.rows(config)
    assert [row["id"] for row in expected] == [f"{config}/{number}" for number in sources_colorswap.IDS[config]]
    assert small.rows(config, data_dir=tables) == expected
    with serving_hub(tables.parents[1], monkeypatch):
        assert small.rows(config, data_dir=None) == expected


def test_captions_go_with_the_images_of_their_number(small):
    row = small.rows("test")[0]
    assert (row["filename_0"], row["caption_0"]) == ("images/img_9_1.png", "a red cup on a blue box 9")
    assert (row["filename_1"], row["caption_1"]) == ("images/img_9_2.png", "a blue cup on a red box 9")
    assert row["image_0"]["bytes"] == (small.folder / "images" / "img_9_1.png").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption_2": " "}, r"row 1: caption_2 is empty"),
        ({"id": "11"}, r"row 1: id is '11'"),
        ({"image_1": "../img.png"}, r"does not lead to a file in a folder"),
    ],
)
def test_a_record_of_another_form_is_named(change, message, small):
    records = sources_colorswap.rows("test")
    records[1] |= change
    (small.folder / "test.json").write_text(json.dumps(records), encoding="utf-8")
    small.error(DataError, message, "test")
