"""The comparison of two sets of negatives of the same captions by scorers without images."""

import pytest
from audit_support import clean_pairs
from console import invoke

from vl_assay.hub_datasets.authoring.audit.comparison import compare, kind_of
from vl_assay.hub_datasets.authoring.data.pairs import Pair, write_pairs
from vl_assay.metrics.common.errors import DataError


def _sets():
    """Captions whose second negative is longer, but for one of equal length and one without a partner."""
    names = [f"{a} {b} stands here" for a in ("big", "odd", "red", "wet") for b in ("cat", "dog", "cow", "hen", "pig")]
    first = [Pair(f"a/{row}", f"{row}.jpg", name, f"{name} no", "add_obj") for row, name in enumerate(names)]
    second = [Pair(f"b/{row}", "", pair.positive, f"{pair.positive} not", "negate") for row, pair in enumerate(first)]
    second[0] = second[0]._replace(negative=f"{first[0].positive} on")
    return first, second[:-1]


def test_shares_count_joined_captions_and_ties_win_for_neither():
    record = compare(*_sets(), ("a", "b"))
    part = record["kinds"]["negate / add"]
    length = part["scorers"]["length_rule"]
    assert part["joined"] == 19
    assert length["first_higher"]["mean"] == pytest.approx(18 / 19)
    assert length["second_higher"]["mean"] == 0
    assert length["tie"]["mean"] == pytest.approx(1 / 19)
    assert record["left_out"] == {"negate / add": {"first": 1, "second": 0}}


def test_kinds_are_those_that_the_paper_pairs():
    found = [kind_of(name) for name in ("add_att", "negate", "unrefined_swap_obj", "itm/replace_rel", "shuffle")]
    assert found == ["negate / add", "negate / add", "swap", "replace", "shuffle"]


def test_sets_without_a_common_caption_are_refused():
    with pytest.raises(DataError, match="no caption in common"):
        compare(clean_pairs(20, 0), [Pair("b", "", "another caption", "no", "replace")], ("a", "b"))


def test_the_command_writes_its_files(tmp_path):
    for name, pairs in zip("ab", _sets(), strict=True):
        write_pairs(pairs, tmp_path / f"{name}.jsonl")
    out = tmp_path / "out"
    invoke("audit", tmp_path / "a.jsonl", "--against", tmp_path / "b.jsonl", "--out", out)
    assert {file.name for file in out.iterdir()} == {f"comparison.{end}" for end in ("json", "md")}
    assert "19 joined" in (out / "comparison.md").read_text()
