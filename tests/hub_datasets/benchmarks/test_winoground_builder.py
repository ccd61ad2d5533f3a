"""The Winoground builder: what a row holds, how it gets at gated files, and how it names what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sources_winoground as sources
from builder_support import Small
from hub_server import serving_hub

from vl_assay.hub_datasets.winoground import builder as module
from vl_assay.metrics.common.errors import DataError

TAGS_FILE = "new_tag_assignments.json"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("winoground", tmp_path)


def files_of(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(row["image_0"], row["image_1"]) for row in rows]


EXPECTED_FILES = [
    tuple({"path": f"ex_{number}_img_{side}.png", "bytes": content[f"ex_{number}_img_{side}.png"]} for side in "01")
    for content in [sources.images()]
    for number in range(len(sources.PAIRS))
]


def test_each_image_stands_beside_its_own_caption_with_both_sets_of_tags(small):
    rows = list(small.build())
    assert [row["id"] for row in rows] == [f"winoground/{number}" for number in range(5)]
    assert [(r["caption_0"], r["caption_1"], r["category"], r["tags"]) for r in rows] == list(sources.PAIRS)
    assert [(r["filename_0"], r["filename_1"]) for r in rows][3] == ("ex_3_img_0.png", "ex_3_img_1.png")
    assert [r["secondary_tag"] for r in rows] == ["", "", "", "", "Pragmatics"]
    assert [r["num_main_preds"] for r in rows] == [1, 2, 1, 2, 1]
    assert files_of(small.rows()) == EXPECTED_FILES


def test_a_copy_with_only_the_tags_is_completed_from_the_hub_at_the_pinned_revision(small, tmp_path, monkeypatch):
    shutil.rmtree(small.folder / "data")
    sources.write_parquet(tmp_path / "hub" / "facebook" / "winoground" / "data")
    with serving_hub(tmp_path / "hub", monkeypatch) as hub:
        rows = small.rows()
    assert files_of(rows) == EXPECTED_FILES
    assert [row["tags"] for row in rows] == [pair[3] for pair in sources.PAIRS]
    assert hub.revisions == ["5a77092c28e51558c5586e9c5eb71a7e17a5e43f"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"id": "1"}, "id is '1'"),
        ({"image_0": "../ex_1_img_0"}, "image_0 '../ex_1_img_0' names no file"),
    ],
)
def test_a_damaged_example_is_an_error_that_names_file_and_row(small, change, found):
    path = small.folder / "data" / "examples.jsonl"
    lines = sources.examples()
    lines[1] |= change
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    message = small.error(DataError, "row 1: ")
    assert str(path) in message
    assert found in message


def test_verify_asks_for_all_examples_and_known_categories(small, monkeypatch):
    small.error(DataError, r"SHA-256 .*8a635dac.*verify=False", verify=True)
    small.error(DataError, r"5 rows, but the release has 400.*verify=False", verify=True, with_tags=False)
    lines = sources.examples()
    lines[2]["collapsed_tag"] = "Neither"
    (small.folder / "data" / "examples.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    small.error(
        ValueError,
        r"row 2: collapsed_tag is 'Neither', not one of Object, Relation, Both",
        verify=True,
        with_tags=False,
    )


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([], "holds no rows"),
        ({"0": "Unusual Text"}, "key '0': tags is 'Unusual Text'"),
        ({"0": ["Unusual"]}, "found the tag 'Unusual'"),
        ({"0": [], "1": []}, "lacks 3 of 5 examples, such as 2, 3, 4"),
    ],
)
def test_damaged_tags_are_an_error(small, tags, found):
    (small.folder / TAGS_FILE).write_text(json.dumps(tags), encoding="utf-8")
    assert found in small.error(DataError, TAGS_FILE)


@pytest.fixture
def released_tags(shared_data: Path) -> dict[str, list[str]]:
    """The released tags, verified by their checksum."""
    payload, _ = module.TAGS_FILE.read(shared_data / "data" / "winoground")
    return json.loads(payload)


def test_the_released_tags_join_all_examples_of_a_whole_release(small, shared_data, tmp_path, released_tags):
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copyfile(shared_data / "data" / "winoground" / TAGS_FILE, copy / TAGS_FILE)
    [pattern] = sources.examples()[:1]
    lines = [json.dumps({**pattern, "id": number}) for number in range(400)]
    (copy / "examples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    rows = small.build(data_dir=copy, with_images=False, verify=True)
    assert rows["tags"][:] == [released_tags[str(number)] for number in range(400)]
    assert sum(map(bool, rows["tags"][:])) == 228
