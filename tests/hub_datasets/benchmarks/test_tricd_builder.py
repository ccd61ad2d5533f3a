"""The TRICD builder: what the rows of its three configurations hold, and how it names what is wrong."""

import json

import pytest
from builder_support import Small
from cases import read_cases

from vl_assay.hub_datasets.authoring.text.questions import caption_question
from vl_assay.metrics.common.errors import DataError

GROUNDING = "TRICD_grounding_val.json"


@pytest.fixture
def small(tmp_path):
    return Small("tricd", tmp_path)


@pytest.fixture
def released(small, shared_data):
    """The rows of a config, read from the real files with their checksums verified."""

    def read(config):
        return small.rows(config, data_dir=shared_data / "data" / "tricd", with_images=False, verify=True)

    return read


def rewrite(folder, name, change):
    """Let `change` alter the parsed file of that name in place."""
    path = folder / "TRICD" / name
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


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
