"""The CREPE builder: what a row holds, what is kept out of the scores, and how it names what is wrong."""

import pytest
import sources_crepe as sources
from builder_support import Small

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("crepe", tmp_path, "productivity_swap")


def spoil(folder, **fields):
    """Replace fields of row 1 of the file of swaps of complexity 7."""
    path = sources.productivity_file(folder, "swap", 7)
    rows = sources.productivity_rows("swap", 7)
    rows[1] |= fields
    sources.write(path, rows)
    return path


def test_rows_of_all_complexities_follow_each_other_with_their_own_negatives(small):
    rows = small.build(with_images=False)
    expected = [(c, n, row) for c in range(4, 13) for n, row in enumerate(sources.productivity_rows("swap", c))]
    assert rows["id"][:] == [f"productivity_swap/{c}/{n}" for c, n, _ in expected]
    assert rows["complexity"][:] == [c for c, _, _ in expected]
    assert rows["category"][:] == [str(c) for c, _, _ in expected]
    assert rows["caption"][:] == [row["caption"] for _, _, row in expected]
    assert rows["hard_negatives"][:] == [row["hard_negs"] for _, _, row in expected]
    assert set(map(len, rows["hard_negatives"][:])) == {3, 4, 5}
    assert rows[1]["bbox"] == [4, 2, 21, 15]
    assert rows[1]["filename"] == "61.jpg"
    assert small.rows()[1]["image"]["path"] == "61-4-2-25-17.png"


def test_replace_is_what_the_release_calls_atom(small):
    negatives = small.build("productivity_replace", with_images=False)["hard_negatives"][0]
    assert negatives == sources.productivity_rows("atom", 4)[0]["hard_negs"]


@pytest.mark.parametrize(
    ("kind", "training_set"), zip(["atom", "comp", "combined"], sources.TRAINING_SETS, strict=True)
)
def test_systematicity_reads_its_kind_from_the_files_of_its_training_set(small, kind, training_set):
    rows = small.build(f"systematicity_{kind}_{training_set}", with_images=False)
    expected = [(c, row) for c in sources.COMPOUNDS for row in sources.systematicity_rows(c, training_set)]
    assert rows["category"][:] == [compounds for compounds, _ in expected]
    assert rows["hard_negatives"][:] == [row[f"valid_hard_negs_{kind}"] for _, row in expected]
    assert rows["id"][3] == f"systematicity_{kind}_{training_set}/unseen_compounds/0"


def test_a_file_without_boxes_gives_whole_images_and_no_box(small):
    for complexity in sources.COMPLEXITIES:
        rows = sources.productivity_rows("swap", complexity)
        for row in rows:
            for side in ("x", "y", "width", "height"):
                del row[side]
        sources.write(sources.productivity_file(small.folder, "swap", complexity), rows)
    rows = small.rows()
    assert [row["bbox"] for row in rows] == [None] * 27
    assert rows[0]["image"]["bytes"] == (small.folder / sources.IMAGES[0]).read_bytes()


@pytest.mark.parametrize(
    ("fields", "defects"),
    [
        ({"hard_negs": ["a", "a "]}, ["repeated_negative"]),
        ({"hard_negs": ["a", " c"], "caption": "c"}, ["same_text"]),
        ({"hard_negs": ["a", ""]}, ["blank_negative"]),
        ({"hard_negs": ["a", "A"]}, []),
    ],
)
def test_a_row_that_can_be_ranked_is_kept_with_its_defects(small, fields, defects):
    spoil(small.folder, **fields)
    rows = small.build(with_images=False)
    assert len(rows) == 27
    assert {row["id"]: row["defects"] for row in rows if row["defects"]} == (
        {"productivity_swap/7/1": defects} if defects else {}
    )
    assert rows[10]["hard_negatives"] == fields["hard_negs"]


@pytest.mark.parametrize(
    ("fields", "defect"),
    [({"hard_negs": []}, "no_negatives"), ({"hard_negs": ""}, "no_negatives"), ({"caption": " "}, "blank_caption")],
)
def test_a_row_with_nothing_to_rank_is_in_a_split_of_its_own(small, fields, defect):
    spoil(small.folder, **fields)
    test = small.build()
    [row] = small.build(split="unranked")
    assert len(test) == 26
    assert "productivity_swap/7/1" not in test["id"][:]
    assert test["id"][10] == "productivity_swap/7/2"
    assert row["id"] == "productivity_swap/7/1"
    assert row["defects"] == [defect]
    assert row["image"] is not None


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"hard_negs": "['a', "}, "hard_negs is \"['a', \". Expected"),
        ({"hard_negs": "[open('trace', 'w').name]"}, "hard_negs: [str]"),  # read and never run
        ({"hard_negs": "a dog"}, "hard_negs is 'a dog'. Expected"),
        ({"image_id": "../2"}, "image_id is '../2', not a whole number"),
    ],
)
def test_a_damaged_row_is_an_error_that_names_file_row_and_field(small, fields, found):
    path = spoil(small.folder, **fields)
    message = small.error(DataError, "row 1: ", with_images=False)
    assert str(path) in message
    assert found in message
