"""The SugarCrepe builder: what a row holds, where its files come from, and how it names what is wrong."""

import json
from collections import Counter

import pytest
from builder_support import Small

from vl_assay.hub_datasets.sugarcrepe.release import CATEGORIES, SCHEMA, annotation_file

# Keys with a gap, text with stray white space, an image that two rows share: as in the released files.
ROWS = {
    "0": {"filename": "000000000000.jpg", "caption": "A cat on a mat.", "negative_caption": "A mat on a cat."},
    "2": {"filename": "000000000001.jpg", "caption": " A dog by a  car\n", "negative_caption": "A car by a dog."},
    "10": {"filename": "000000000000.jpg", "caption": "A mat under a cat ", "negative_caption": "A cat under a mat."},
}


def write_annotations(path, rows=ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return path


@pytest.fixture
def small(tmp_path):
    copy = Small("sugarcrepe", tmp_path, "swap_obj")
    write_annotations(copy.folder / "data" / "swap_obj.json")
    return copy


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


def test_unrefined_files_hold_17478_rows_and_the_refined_ones_among_them(shared_data):
    def rows(config):
        found, _ = annotation_file(config).rows(shared_data / "data" / "sugarcrepe", SCHEMA)
        return found

    refined, unrefined = (
        {category: Counter(tuple(row.values()) for row in rows(prefix + category).values()) for category in CATEGORIES}
        for prefix in ("", "unrefined_")
    )
    assert sum(each.total() for each in unrefined.values()) == 17_478
    assert all(not refined[category] - unrefined[category] for category in CATEGORIES)
    # The gap of swap_obj and the white space are the release's.
    assert {int(key) for key in rows("swap_obj")} == set(range(246)) - {108}
    assert sum(row["caption"] != row["caption"].strip() for row in rows("swap_obj").values()) == 33
