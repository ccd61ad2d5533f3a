"""Agreement of annotators: published examples, undefined values, and the command that prints it."""

import pytest
from console import invoke
from review_support import decide, write_set

from vl_assay.hub_datasets.authoring.data.pairs import read_pairs
from vl_assay.hub_datasets.authoring.review.agreement import agree_on, agreement_cells
from vl_assay.hub_datasets.authoring.review.candidates import votes
from vl_assay.hub_datasets.authoring.review.journal import Decision
from vl_assay.hub_datasets.authoring.review.review import open_review
from vl_assay.metrics.common.documents import to_html
from vl_assay.metrics.common.errors import DataError


def items(*answers):
    """The answers to each item, from a string for each annotator: a letter an item, "." for a missing answer."""
    return [[letter for letter in column if letter != "."] for column in zip(*answers, strict=True)]


def test_alpha_follows_krippendorffs_example_with_missing_answers():
    # "Computing Krippendorff's Alpha-Reliability" (2011), section C: 4 observers, 12 units, α = 0.743.
    table = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    row = agree_on("all", items(*table))
    assert row.alpha == pytest.approx(0.743, abs=5e-4)
    assert row.items == 11


@pytest.mark.parametrize("answers", [("kkk", "kkk"), ("k..", ".kn"), ("kn",), ()])
def test_an_undefined_alpha_is_a_dash(answers):
    row = agree_on("all", items(*answers))
    assert row.alpha is None
    assert agreement_cells([row])[1][3] == "–"


def test_a_fixed_text_counts_as_kept_only_where_keeping_is_asked():
    named = {"k": "keep", "f": "fix", "n": "not_fluent"}
    judged = [
        (None, [Decision("", "", "", "", {"decision": named[letter]}) for letter in answers])
        for answers in items("kfn", "fkn")
    ]
    rows = {name: agree_on(name, answers) for name, answers in votes(judged).items()}
    assert list(rows) == ["all decisions", "keep or not", "keep", "not_fluent", "fix"]
    assert [rows[name].alpha for name in ("keep or not", "not_fluent")] == [1, 1]
    assert rows["all decisions"].equal == pytest.approx(1 / 3)


def test_the_command_prints_the_agreement_and_writes_the_results_and_names_are_escaped(tmp_path):
    candidates = write_set(tmp_path, 4)
    desk = open_review(tmp_path)
    assert "needs two annotators" in to_html(desk.report())
    assert "written" not in invoke("review", tmp_path, "--summary").output
    for who, decisions in (("<b>ana", "keep keep not_fluent keep"), ("ben", "keep keep not_fluent nonsensical")):
        for each, decision in zip(candidates, decisions.split(), strict=True):
            decide(desk, who, each.id, decision=decision)
    assert "&lt;b&gt;ana (4), ben (4)" in to_html(desk.report())
    result = invoke("review", tmp_path, "--summary", width=160)
    assert result.exit_code == 0, result.output
    # keep or not: D_o = 1/4; of 8 answers 5 are yes: D_e = 2 · 5 · 3 / (8 · 7) = 15/28; alpha = 1 - 7/15 = 0.533
    assert "0.533" in result.output
    assert "2 kept, 2 dropped, 0 undecided" in result.output
    assert len(read_pairs(tmp_path)) == 2
    with pytest.raises(DataError, match="is written by `review --summary`; give the file of the candidates"):
        open_review(tmp_path / "reviewed.jsonl")
