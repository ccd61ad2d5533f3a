"""The VL-CheckList builder: what a row holds, where its files come from, and how it names what is wrong."""

import json

import pytest
import sources_vl_checklist as sources
from builder_support import Small

from vl_assay.hub_datasets.vl_checklist.builder import CONFIG_NAMES, annotation_files
from vl_assay.metrics.common.errors import DataError

SPATIAL = "Relation/vg/spatial.json"
# The first two have texts of the release (Attribute/vaw/action.json); the others have each other defect, or none.
DEFECTIVE = [
    ["VG_100K/11.jpg", {"POS": ["car is turning"], "NEG": ["car is running"]}],
    ["VG_100K/11.jpg", {"POS": ["car is running"], "NEG": ["car is skiing"]}],
    ["VG_100K/11.jpg", {"POS": ["car is turning"], "NEG": ["car is running"]}],
    ["VG_100K_2/12.jpg", {"POS": ["car is turning"], "NEG": ["car is running"]}],
    ["VG_100K_2/12.jpg", {"POS": ["door is open"], "NEG": ["door is open"]}],
]


@pytest.fixture
def small(tmp_path):
    return Small("vl_checklist", tmp_path, "attribute_color")


def write(folder, file, rows):
    path = folder / "data" / file
    path.write_bytes(rows if isinstance(rows, bytes) else json.dumps(rows).encode())
    return path


def test_every_type_reads_its_files_and_none_is_left_out():
    found = [f"{file.path}" for config in CONFIG_NAMES for file in annotation_files(config)]
    assert sorted(found) == sorted(sources.FILES)
    assert len(set(found)) == len(found) == 10 + 2 * 21 + 4


def test_rows_say_their_type_their_source_and_the_part_of_an_object(small):
    dataset = small.build("object_size")
    assert set(dataset["category"]) == {"object_size"}
    assert dataset.num_rows == 21 * 3
    for row in dataset:
        stem = row["id"].split("/")[-2]
        assert row["source"] == stem.split("_")[0]
        assert row["part"] == stem.split("_")[-1]
    assert set(dataset["part"]) == {"large", "medium", "small"}
    assert set(small.build("relation_action")["part"]) == {None}


def test_defects_are_flagged_and_their_rows_kept(small):
    write(small.folder, SPATIAL, DEFECTIVE)
    dataset = small.build("relation_spatial")
    assert dataset["defects"][:] == [
        ["negative_is_caption"],
        [],
        ["duplicate", "negative_is_caption"],
        [],
        ["same_text"],
    ]


def test_only_the_files_of_the_chosen_sources_are_read(small):
    (small.folder / "data" / "Attribute" / "vaw" / "color.json").unlink()
    assert set(small.build(sources="vg")["source"]) == {"vg"}
    assert set(small.build("relation_action", sources="hake, vg")["source"]) == {"hake", "vg"}
    small.error(DataError, r"unknown source 'coco'.*known: vg, vaw, swig, hake", sources="vg,coco")
    found = r"relation_spatial has nothing from sources='hake', only from vg"
    small.error(DataError, found, "relation_spatial", sources="hake")
