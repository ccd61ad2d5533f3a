"""The Hard Positives builder: what a row holds, what is wrong with it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sources_hard_positives as sources
from builder_support import Small

from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.hard_positives.builder import RELEASED_ROWS
from vl_assay.metrics.common.errors import DataError

PARTS = tuple(RELEASED_ROWS)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("hard_positives", tmp_path, "swap")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            "replace_relations",
            [
                ("relation_spatial", "in", "within", ""),
                ("relation_spatial", "behind", "to the rear of", ""),
                ("relation_action", "wearing", "in", ""),
                ("relation_action", "riding", "traveling on", ""),
                ("relation_spatial", "in", "within", "duplicate"),
                ("relation_spatial", "in", "within", "broken phrase"),
            ],
        ),
        (
            "replace_attributes",
            [
                ("attribute_color", "red", "crimson", ""),
                ("attribute_size", "small", "tiny", ""),
                ("attribute_color", "red", "crimson", "substring replacement"),
                ("attribute_action", "standing", "upright", "caption equals negative"),
                ("attribute_state", "clear", "unclouded", ""),
                ("attribute_other", "", "", ""),
            ],
        ),
    ],
)
def test_rows_of_replace_have_their_category_words_and_defects(small, config, expected):
    columns = ("category", "replaced", "replacement", "defect")
    assert [tuple(row[name] for name in columns) for row in small.rows(config, with_images=False)] == expected


def test_swaps_have_their_attributes_box_and_defects(small):
    rows = small.rows()
    assert {row["category"] for row in rows} == {"swap"}
    assert rows[1]["attributes"] == ["big", "wet"]
    assert rows[1]["bbox"] == [4, 2, 20, 30]
    assert rows[1]["image"]["path"] == "91_4_2_20_30.png"
    assert [row["defect"] for row in rows] == ["", "", "caption equals negative", ""]


def test_the_same_captions_of_another_image_or_box_are_no_duplicate(small):
    sources.write(
        small.folder, "vl_checklist_attributes.json", [(sources.plain(n), "red a", "crimson a", "a") for n in (0, 1, 0)]
    )
    assert small.build("replace_attributes")["defect"][:] == ["", "", "duplicate"]
    swap = sources.SWAPS[0]
    boxes = [sources.boxed(0, swap[0]) | {"bbox_w": width} for width in (5, 6, 5)]
    sources.write(small.folder, "visual_genome_attribution.json", [(box, *swap) for box in boxes])
    assert small.build()["defect"][:] == ["", "", "duplicate"]


def test_negatives_that_differ_are_flagged_and_the_originals_is_kept(small):
    path = small.folder / "swapped_data" / "visual_genome_attribution.json"
    records = json.loads(path.read_text())
    records[1]["false_caption"] = "another"
    path.write_text(json.dumps(records))
    row = small.build()[1]
    assert row["defect"] == "negatives differ"
    assert row["negative_caption"] == sources.SWAPS[1][2]


@pytest.mark.parametrize("part", PARTS)
def test_clean_is_the_rows_without_a_defect(small, part):
    whole = small.build(part)
    clean = small.build(f"{part}_clean")
    assert list(clean) == [row for row in whole if not row["defect"]]
    assert 0 < len(clean) < len(whole)


def test_a_missing_file_of_swap_has_a_way_round(small):
    whole = list(small.build())
    (small.folder / "swapped_data" / "visual_genome_attribution.json").unlink()
    small.error(MissingSourceError, r"13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw.*rebuild_swap=True", crop=False)
    assert list(small.build(rebuild_swap=True)) == whole


def test_a_caption_that_cannot_be_swapped_is_named(small):
    rows = [(sources.boxed(0, sources.SWAPS[0][0]), "a man and a hat", "a hat and a man", "x")]
    sources.write(small.folder, "visual_genome_attribution.json", rows)
    small.error(DataError, r"record 0: 'a man and a hat' is not of the form.*rebuild_swap=False", rebuild_swap=True)


def test_files_that_do_not_belong_together_are_refused(small):
    path = small.folder / "swapped_data" / "vl_checklist_relations.json"
    records = json.loads(path.read_text())
    path.write_text(json.dumps(records[:-1]))
    small.error(DataError, r"have 6 and 5 rows. Take both from the same commit", "replace_relations")
    path.write_text(json.dumps(records[1:] + records[:1]))
    small.error(DataError, r"differ in record 0: images '0.jpg' and '1.jpg'", "replace_relations")


GOOD = {"image_path": "0.jpg", "true_caption": "a", "false_caption": "b"}
BOXED = GOOD | {"bbox_x": 0, "bbox_y": 0, "bbox_w": 5, "bbox_h": 5, "attributes": ["x", "y"]}


@pytest.mark.parametrize(
    ("part", "record", "found"),
    [
        ("replace_relations", GOOD | {"image_path": "a/.."}, "image_path 'a/..' does not end in a file name"),
        ("swap", BOXED | {"bbox_w": 0}, "the box [0, 0, 0, 5] (x, y, width, height) holds no pixel"),
        ("swap", BOXED | {"attributes": ["x"]}, "attributes is ['x'], not a list of two texts"),
    ],
)
def test_damaged_files_are_an_error_that_names_file_and_record(small, part, record, found):
    path = small.folder / "data" / {"swap": "visual_genome_attribution.json"}.get(part, "vl_checklist_relations.json")
    path.write_text(json.dumps([BOXED, record]), encoding="utf-8")
    assert f"{path}, row 1: {found}. Expected" in small.error(DataError, "Expected", part)
