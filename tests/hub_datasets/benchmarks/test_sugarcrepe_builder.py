"""The SugarCrepe builder: what a row holds, where its files come from, and how it names what is wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builder_support import Small

from vl_assay.hub_datasets.sugarcrepe.builder import CATEGORIES, CONFIG_NAMES
from vl_assay.metrics.common.errors import DataError

# Keys with a gap, text with stray white space, an image that two rows share: as in the released files.
ROWS = {
    "0": {"filename": "000000000000.jpg", "caption": "A cat on a mat.", "negative_caption": "A mat on a cat."},
    "2": {"filename": "000000000001.jpg", "caption": " A dog by a  car\n", "negative_caption": "A car by a dog."},
    "10": {"filename": "000000000000.jpg", "caption": "A mat under a cat ", "negative_caption": "A cat under a mat."},
}


def write_annotations(path: Path, rows: Any = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path: Path) -> Small:
    copy = Small("sugarcrepe", tmp_path, "swap_obj")
    write_annotations(copy.folder / "data" / "swap_obj.json")
    return copy


@pytest.fixture
def released(small, shared_data: Path):
    """The rows of a config, read from the real annotation files with their checksums verified."""

    def read(config: str) -> list[dict[str, Any]]:
        return small.rows(config, data_dir=shared_data / "data" / "sugarcrepe", with_images=False, verify=True)

    return read


def test_text_and_the_keys_of_the_file_are_kept_exactly_as_released_gaps_included(small):
    dataset = small.build()
    assert dataset["id"][:] == [f"swap_obj/{key}" for key in ROWS]
    for column in ("caption", "negative_caption"):
        assert dataset[column][:] == [row[column] for row in ROWS.values()]


def test_unrefined_rows_have_their_own_ids_and_the_plain_category(small):
    write_annotations(small.folder / "data_unrefined" / "swap_obj.json")
    dataset = small.build("unrefined_swap_obj")
    assert dataset["id"][0] == "unrefined_swap_obj/0"
    assert set(dataset["category"]) == {"swap_obj"}


def test_the_bytes_of_images_are_kept(small):
    content = (small.folder / "val2017" / "000000000000.jpg").read_bytes() + b"more"
    (small.folder / "val2017" / "000000000000.jpg").write_bytes(content)
    assert small.rows()[0]["image"]["bytes"] == content


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (
            {"filename": "../a.jpg", "caption": "a", "negative_caption": "b"},
            "filename '../a.jpg' is not a bare file name",
        ),
        ({"filename": "", "caption": "a", "negative_caption": "b"}, "filename '' is not a bare file name"),
    ],
)
def test_damaged_annotations_are_an_error_that_names_file_and_key(small, row, found):
    path = write_annotations(small.folder / "data" / "swap_obj.json", ROWS | {"7": row})
    assert f"{path}, key '7': {found}. Expected" in small.error(DataError, "Expected")


def test_unrefined_files_hold_17478_rows_and_the_refined_ones_among_them(released):
    rows = {name: Counter(map(content, released(name))) for name in CONFIG_NAMES}
    assert sum(rows[f"unrefined_{category}"].total() for category in CATEGORIES) == 17_478
    for category in CATEGORIES:
        assert not rows[category] - rows[f"unrefined_{category}"]


def test_released_swap_obj_keeps_its_gap_and_its_white_space(released):
    rows = released("swap_obj")
    assert {int(row["id"].split("/")[1]) for row in rows} == set(range(246)) - {108}
    assert sum(row["caption"] != row["caption"].strip() for row in rows) == 33
    rows = [row for category in CATEGORIES for row in released(category)]
    assert all(row["negative_caption"] == row["negative_caption"].strip() for row in rows)


def content(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["filename"], row["caption"], row["negative_caption"]
