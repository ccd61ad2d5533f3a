"""The TRICD builder: what the rows of its three configurations hold, and how it names what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sources_tricd as sources
from builder_support import Small
from cases import read_cases

from vl_assay.hub_datasets.authoring.text.questions import caption_question
from vl_assay.metrics.common.errors import DataError

GROUNDING, VQA = "TRICD_grounding_val.json", "TRICD_VQA_val.json"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small("tricd", tmp_path)


@pytest.fixture
def released(small, shared_data: Path):
    """The rows of a config, read from the real files with their checksums verified."""

    def read(config: str) -> list[dict[str, Any]]:
        return small.rows(config, data_dir=shared_data / "data" / "tricd", with_images=False, verify=True)

    return read


def rewrite(folder: Path, name: str, change) -> Path:
    """Let `change` alter the parsed file of that name in place."""
    path = folder / "TRICD" / name
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_a_positive_row_has_its_phrases_with_spans_and_boxes(small):
    row = small.build(with_images=False)[0]
    assert row == {
        "id": "val/1",
        "filename": "11.jpg",
        "caption": "dog on a mat",
        "phrases": [
            {"text": "dog", "start": 0, "end": 3, "phrase_id": 1, "boxes": [[5.0, 2.0, 61.0, 30.0]]},
            {"text": "mat", "start": 9, "end": 12, "phrase_id": 2, "boxes": [[6, 2, 20, 30], [1, 1, 5, 6.5]]},
        ],
        "positive": True,
        "pair_id": "1/dog on a mat",
        "type": "relation",
        "width": 64,
        "height": 48,
        "overruns": True,  # 5 + 61 > 64
    }


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ([0, 0, 64, 48], False),
        ([1, 1, 63.0000000001, 47.0000000001], False),
        ([-1e-13, 0, 4, 4], False),
        ([-0.5, 0, 4, 4], True),
        ([0, -0.5, 4, 4], True),
        ([0, 40, 4, 8.01], True),
        ([60.5, 0, 4, 4], True),
    ],
)
def test_a_row_overruns_when_a_box_leaves_the_image_by_more_than_rounding(small, box, expected):
    rewrite(small.folder, GROUNDING, lambda data: data["annotations"][0].update(bbox=box))
    row = small.build(with_images=False)[0]
    assert row["overruns"] is expected
    assert row["phrases"][0]["boxes"] == [box]


def test_a_group_is_its_two_positive_rows(small):
    rows = list(small.build("groups", with_images=False))
    assert [row["id"] for row in rows] == ["groups/1", "groups/3", "groups/4", "groups/5"]
    columns = ("type", "filename_0", "caption_0", "filename_1", "caption_1")
    assert [tuple(row[column] for column in columns) for row in rows] == [group[1:] for group in sources.GROUPS]


def put(number, key, **fields):
    return lambda data: data[key][number].update(fields)


@pytest.mark.parametrize(
    ("config", "change", "found"),
    [
        ("val", lambda data: data.pop("images"), "no list 'images'"),
        ("val", put(2, "images", id=1), "images[2]: id 1 occurs twice"),
        ("val", put(2, "images", file_name="../a.jpg"), "images[2]: file_name '../a.jpg'"),
        ("val", put(0, "images", phrases={"1": [[0, 99]]}), "image 1, phrase 1: found [[0, 99]]"),
        ("val", put(0, "images", phrases={"1": [[0, 3]]}), "phrase 2 of image 1, which is not in the file"),
        ("val", put(3, "images", phrases={"5": [[0, 3]]}), "phrase id 5 occurs twice"),
        ("val", put(0, "images", positive=False), "image 1, phrase 1: found 1 boxes. Expected none"),
        ("val", put(2, "images", positive=True), "image 3, phrase 5: found 0 boxes. Expected at least one"),
        ("val", put(0, "annotations", bbox=[1, 2, 3, 0]), "annotation 1: found bbox [1, 2, 3, 0]"),
        ("val", put(0, "annotations", bbox=[1, 2, 3, float("nan")]), "annotation 1: found bbox"),
        ("vqa", put(1, "annotations", answer=2), "question 2: no usable answer"),
        ("vqa", lambda data: data["annotations"].pop(1), "question 2: no usable answer"),
        ("groups", lambda data: data["images"].pop(1), "group 1 (images 1, 3, 4): not a cross"),
        ("groups", put(2, "images", caption="another"), "group 1 (images 1, 2, 3, 4): not a cross"),
        ("groups", put(2, "images", file_name="19.jpg"), "group 1 (images 1, 2, 3, 4): not a cross"),
        ("groups", lambda data: data["images"].append({**data["images"][0], "id": 99}), "group 1 (images"),
    ],
)
def test_damaged_file_is_an_error_that_names_file_and_entry(small, config, change, found):
    path = rewrite(small.folder, VQA if config == "vqa" else GROUNDING, change)
    assert str(path) in small.error(DataError, re.escape(found), config)


@pytest.mark.parametrize(("caption", "expected"), read_cases("questions"))
def test_caption_becomes_a_question(caption, expected):
    assert caption_question(caption) == expected
    with pytest.raises(DataError, match="is empty"):
        caption_question(" .")


def test_questions_of_the_rules_differ_from_the_release_where_the_card_says(released):
    pairs = zip(released("val"), released("vqa"), strict=True)
    asked = {row["caption"]: question["question"].strip() for row, question in pairs}
    differ = {caption for caption, question in asked.items() if question != caption_question(caption)}
    assert (len(asked), len(asked) - len(differ)) == (102, 94)
    assert differ == {
        "stuffed leopard",  # "are there", as in the next two
        "mannequin head",
        "teddy bear wearing glasses",
        "giraffes behind a fence",  # "is there a", as in the next two
        "teddy bears participating in a picnic",
        "teddy bears at war",
        "hourglass",  # "a hourglass"
        "exhaust",  # right without an article, which the rules cannot know
    }


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [(["object"], (84, 40, 43, 83)), (["relation"], (120, 60, 73, 232)), (["object", "relation"], (204, 99, 114, 315))],
)
def test_released_numbers_are_those_of_the_papers_table_7(released, kinds, expected):
    rows = [row for row in released("val") if row["type"] in kinds]
    phrases = [phrase for row in rows for phrase in row["phrases"]]
    images, texts = ({row["filename"] for row in rows}, {phrase["text"] for phrase in phrases})
    assert (len(rows), len(images), len(texts), sum(len(phrase["boxes"]) for phrase in phrases)) == expected


def test_released_groups_lack_number_16(released):
    assert [row["id"] for row in released("groups")] == [f"groups/{n}" for n in range(1, 53) if n != 16]


def test_released_questions_are_balanced_and_run_along_the_rows_of_val(released):
    val, vqa = released("val"), released("vqa")
    assert (len(vqa), sum(row["answer"] for row in vqa)) == (204, 102)
    for row, question in zip(val, vqa, strict=True):
        assert (row["filename"], row["positive"], row["type"]) == (
            question["filename"], question["answer"], question["type"],
        )  # fmt: skip
    assert not any(row["question"].strip().endswith("?") for row in vqa)
