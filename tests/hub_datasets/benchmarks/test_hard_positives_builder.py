"""The Hard Positives builder: what a row holds, what is wrong with it, and what is refused."""

import json

import pytest
import sources_hard_positives as sources
from builder_support import Small

from vl_assay.hub_datasets.core.build import MissingSourceError
from vl_assay.hub_datasets.hard_positives.builder import RELEASED_ROWS
from vl_assay.metrics.common.errors import DataError

PARTS = tuple(RELEASED_ROWS)


@pytest.fixture
def small(tmp_path):
    return Small("hard_positives", tmp_path, "swap")


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
