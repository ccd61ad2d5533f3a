"""VisMin: each caption goes to the image that the solutions say, and files that disagree are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builder_support import Small

from vl_assay.hub_datasets.vismin.builder import VisMin
from vl_assay.metrics.common.errors import DataError


@pytest.fixture
def small(tmp_path):
    return Small("vismin", tmp_path)


def solutions(small):
    return small.folder / "solutions" / "sim_solution.csv"


def test_captions_are_exchanged_where_the_solutions_say_so(small):
    found = [(row["id"], row["caption_0"], row["caption_1"], row["order"]) for row in small.rows()]
    assert found == [
        ("vismin/object/0", "A cat on a bed.", "A dog on a bed.", "released"),
        ("vismin/object/1", "A red car.", "A red bus.", "exchanged"),
        ("vismin/attribute/2", "A red cup.", "A blue cup.", "released"),
        ("vismin/relation/3", "A cup right of a bowl.", "A cup left of a bowl.", "exchanged"),
        ("vismin/counting/4", "Three apples.", "Two apples.", "exchanged"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",attribute", ",counting", "row 2: counting 0, but that row of the dataset is attribute 0"),
        ("T0_I0 > T1_I0", "T0_I0 = T1_I0", "row 0: Text and Image are"),
        ("idx,", "number,", "idx is None"),
    ],
)
def test_solutions_of_another_form_or_category_are_refused(small, old, new, message):
    text = solutions(small).read_text(encoding="utf-8")
    solutions(small).write_text(text.replace(old, new, 1), encoding="utf-8")
    small.error(DataError, message)


def test_a_solution_is_missing(small):
    lines = solutions(small).read_text(encoding="utf-8").splitlines()
    solutions(small).write_text("\n".join(lines[:-1]), encoding="utf-8")
    small.error(DataError, "has 4 rows, but the release has 5")


def test_numbers_are_compared_unless_told_otherwise(small, monkeypatch):
    before, after = solutions(small).read_text(encoding="utf-8").rsplit("\n0,", 1)
    solutions(small).write_text(f"{before}\n7,{after}", encoding="utf-8")
    assert len(small.rows()) == 5
    monkeypatch.setattr(VisMin, "ROWS", {"vismin": replace(VisMin.ROWS["vismin"], count=5)})
    small.error(DataError, "row 4: counting 7, but that row of the dataset is counting 0", verify=True)
