"""SVO-Probes: what differs by the flags, and what a malformed file is told."""

from __future__ import annotations

import pytest
from builder_support import Small

from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("svo_probes", tmp_path)


def test_the_category_is_the_only_flag_and_no_row_is_dropped(small):
    rows = small.rows()
    assert [row["category"] for row in rows] == ["subj", "verb", "obj", "mixed"]
    assert [(row["filename_0"], row["filename_1"]) for row in rows][:2] == [("1.jpg", "2.jpg"), ("3.jpg", "4.jpg")]
    assert rows[1]["caption"] == "A dog lies on grass."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("True,False,False", "maybe,False,False", "row 0: subj_neg is 'maybe'"), (",1,2,", ",../1,2,", "pos_image_id")],
)
def test_a_flag_or_an_image_id_of_another_form_is_named(small, old, new, message):
    path = small.folder / "svo_probes.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    small.error(DataError, message)
