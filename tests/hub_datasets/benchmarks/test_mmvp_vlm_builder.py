"""The MMVP-VLM builder: pairs, the prefix of captions, the authors' rule, and how it names what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import sources_mmvp_vlm as sources
from builder_support import Small

from vl_assay.metrics.common.errors import DataError
from vl_assay.metrics.functional.groups import group_match


@pytest.fixture
def small(tmp_path):
    return Small("mmvp_vlm", tmp_path)


def test_a_pair_is_two_images_of_a_pattern_each_with_its_statement_after_the_prefix(small):
    first, second, _ = small.rows(with_images=False)
    assert first == {
        "id": "pairs/1-2",
        "category": "Orientation",
        "filename_0": "Orientation/1.jpg",
        "caption_0": "a photo of a dog facing left",
        "filename_1": "Orientation/2.jpg",
        "caption_1": "a photo of a dog facing right",
        "statement_0": "a dog facing left",
        "statement_1": "a dog facing right",
    }
    assert second["statement_1"] == 'a cup, "seen" from the side'


def test_pairs_are_found_by_number_whatever_the_order_of_the_file(small):
    rows = small.rows()
    sources.write_questions(small.folder, [sources.ROWS[place] for place in (1, 3, 0, 2, 5, 4)])
    assert small.rows() == rows


def test_without_a_prefix_captions_are_the_statements(small):
    for row in small.rows(prefix="", with_images=False):
        assert (row["caption_0"], row["caption_1"]) == (row["statement_0"], row["statement_1"])


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (sources.ROWS[:3], "Question ID 3 and 4 have Type 'Camera Perspective' and None"),
        ([sources.ROWS[0], (2, "Color", "a")], "Question ID 1 and 2 have Type 'Orientation' and 'Color'"),
        ([*sources.ROWS, sources.ROWS[0]], "Question ID occurs twice"),
        ([("1", "../Color", "a")], "row 0: Type '../Color' is not the name of a folder"),
        ([("one", "Color", "a")], "row 0: Question ID is 'one'"),
        ([("1", "Color", " ")], "row 0: Statement is empty"),
    ],
)
def test_damaged_questions_are_an_error_that_names_them(small, rows, found):
    sources.write_questions(small.folder, rows)
    assert found in small.error(DataError, "Questions.csv")


def test_the_image_score_is_the_authors_pair_accuracy():
    """Of each statement the first image where its share in a softmax over both exceeds one half, else the second."""
    scores = np.random.default_rng(0).normal(size=(400, 2, 2))  # (pair, image, statement)
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(axis=1)
    pairs = (share[:, 0] > 0.5) & ~(share[:, 1] > 0.5)
    assert group_match(scores)["image_score"] == pairs.mean()
    # A tie goes to the second image there, so that it is wrong for the first statement.
    assert group_match(np.ones((3, 2, 2)))["image_score"] == 0
