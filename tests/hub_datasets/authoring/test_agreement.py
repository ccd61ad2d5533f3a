"""Agreement of annotators: published examples, what is undefined, what the command prints."""

from __future__ import annotations

import numpy as np
import pytest
from console import invoke
from review_support import write_set

from vl_assay.hub_datasets.authoring.review.agreement import agreement, cells, remarks, report
from vl_assay.hub_datasets.authoring.review.decisions import DECISIONS
from vl_assay.hub_datasets.authoring.review.journal import Entry
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.metrics.common.documents import to_html


def by_question(votes):
    return {row.question: row for row in agreement(votes)}


def columns(**given):
    """Decisions from strings: a letter an item, "." where there is none."""
    meaning = {"k": "keep", "f": "fix", "n": "not_fluent", "s": "nonsensical", "w": "false_negative"}
    return {
        who: {(id, -1): Entry("", who, id, meaning[letter]) for id, letter in enumerate(letters) if letter != "."}
        for who, letters in given.items()
    }


def test_cohen_follows_its_formula():
    # 50 items: both keep 20, both reject 15, 5 and 10 differ: p_o = 0.7, p_e = 0.5 · 0.6 + 0.5 · 0.4 = 0.5, κ = 0.4
    rows = by_question(columns(ana="k" * 25 + "n" * 25, ben="k" * 20 + "n" * 5 + "k" * 10 + "n" * 15))
    assert rows["all decisions"].coefficients["cohen"] == pytest.approx(0.4)
    assert rows["all decisions"].equal == pytest.approx(0.7)
    assert rows["keep or not"].coefficients == pytest.approx(rows["all decisions"].coefficients)


def test_fleiss_follows_the_example_of_14_raters():
    # The example of Fleiss' kappa on Wikipedia: 10 subjects, 14 raters, 5 categories, κ = 0.210.
    counts = """0 0 0 0 14|0 2 6 4 2|0 0 3 5 6|0 3 9 2 0|2 2 8 1 1|7 7 0 0 0|3 2 6 3 0|2 5 3 2 2|6 5 2 1 0|0 2 2 3 7"""
    letters = ["".join(c * int(n) for c, n in zip("kfnsw", row.split(), strict=True)) for row in counts.split("|")]
    votes = columns(**{f"rater {rater}": "".join(item[rater] for item in letters) for rater in range(14)})
    row = by_question(votes)["all decisions"]
    assert row.coefficients["fleiss"] == pytest.approx(0.210, abs=5e-4)
    assert row.coefficients["cohen"] is None
    assert "two annotators" in row.notes["cohen"]


def test_krippendorff_follows_his_example_with_missing_answers():
    # Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: 4 observers, 12 units, α = 0.743.
    table = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    letters = str.maketrans("12345", "kfnsw")
    votes = columns(**{f"observer {number}": row.translate(letters) for number, row in enumerate(table)})
    row = by_question(votes)["all decisions"]
    assert row.coefficients["krippendorff"] == pytest.approx(0.743, abs=5e-4)
    assert row.items == 11


def test_a_fixed_text_counts_as_kept_only_where_keeping_is_asked():
    rows = by_question(columns(ana="kfn", ben="fkn"))
    assert rows["keep or not"].coefficients["cohen"] == 1
    assert rows["all decisions"].equal == pytest.approx(1 / 3)
    assert rows["not_fluent"].coefficients["krippendorff"] == 1
    assert list(rows) == ["all decisions", "keep or not", *(each for each in DECISIONS if each in rows)]


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        (columns(ana="kkk", ben="kkk"), "all answers are equal"),
        (columns(ana="k..", ben=".kn"), "no item that"),
        (columns(ana="kn"), "no item that two judged"),
    ],
)
def test_what_is_undefined_is_a_dash_with_its_reason(votes, reason):
    row = by_question(votes)["all decisions"]
    assert set(row.coefficients.values()) == {None}
    assert reason in row.notes["krippendorff"]
    assert cells([row])[1][3:] == ["–"] * 3
    assert any(reason in remark for remark in remarks([row]))
    assert not np.isnan(row.equal or 0)


def test_the_page_escapes_names_and_says_when_there_is_only_one():
    votes = columns(**{"<b>ana": "kn", "ben": "kk"})
    html = to_html(report(votes))
    assert "&lt;b&gt;ana (2)" in html
    assert "<b>" not in html
    assert "<table" in html
    assert "needs two annotators" in to_html(report({}))


def test_the_command_prints_the_summary_and_exports(tmp_path):
    candidates = write_set(tmp_path, 4)
    desk = open_review(tmp_path)
    for who, decisions in (("ana", "keep keep not_fluent keep"), ("ben", "keep keep not_fluent nonsensical")):
        for each, decision in zip(candidates, decisions.split(), strict=True):
            desk.decide({"annotator": who, "id": each.id, "decision": decision})
    result = invoke("review", tmp_path, "--summary", "--export", tmp_path / "judged.jsonl", width=160)
    assert result.exit_code == 0, result.output
    # keep or not: p_o = 3/4, p_e = 3/4 · 2/4 + 1/4 · 2/4 = 1/2, κ = 0.5
    assert "0.500" in result.output
    assert "ana (4), ben (4)" in result.output
    assert "2 kept, 2 dropped, 0 undecided" in result.output
    assert (tmp_path / "judged.pairs.jsonl").is_file()
