"""Score gaps of blind models: by arithmetic, by the definitions written out, and on the released captions."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from cards import card_rows
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.symmetry import artifact_gap
from vl_assay.metrics.modules.discovery import load_metric

# Correct against negative, in rows of (caption 0, caption 1): 6:2, 5:6, 3:3, 4:1, 5:1. Gaps 4, -1, 0, 3, 4.
SCORES = [[6, 2], [6, 5], [3, 3], [1, 4], [5, 1]]
CORRECT = [0, 1, 0, 1, 0]
LABELS = ["add", "swap", "swap", "add", "add"]
IMAGES = ["a", "b", "b", "a", "c"]


def compute(scores=SCORES, correct=CORRECT, **options):
    return load_metric("artifact_gap").compute(predictions=scores, references=correct, **options)


def test_results_by_arithmetic():
    result = compute(categories=LABELS, clusters=IMAGES)
    add, swap = result.pop("per_category").values()
    assert result == {
        "accuracy": 3 / 5,
        "tie_rate": 1 / 5,
        "n": 5,
        "n_clusters": 3,
        "mean_gap": 10 / 5,
        "median_gap": 3.0,
        # Negatives 2 6 3 1 1: below 6, 5, 3, 4 and 5 are 4 + 1/2, 4, 3 + 1/2, 4 and 4.
        "auc": pytest.approx(20 / 25, abs=1e-15),
        # From 4 on 2 of 5, from 3 on 3, from 1 on 3 - 1.
        "asymmetry": 3 / 5,
    }
    assert (add["accuracy"], add["mean_gap"], add["median_gap"], add["n"]) == (1.0, pytest.approx(11 / 3), 4.0, 3)
    assert (add["asymmetry"], add["n_clusters"]) == (1.0, 2)
    assert (swap["accuracy"], swap["tie_rate"], swap["mean_gap"], swap["n_clusters"]) == (0.0, 1 / 2, -1 / 2, 1)


def asymmetry_by_hand(gaps):
    """The definition, threshold by threshold."""
    sizes = {abs(gap) for gap in gaps} - {0}
    excesses = [abs(sum(gap >= size for gap in gaps) - sum(gap <= -size for gap in gaps)) for size in sizes]
    return Fraction(max(excesses, default=0), len(gaps))


ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.sampled_from("xy")), min_size=1, max_size=9)


@given(rows=ROWS, ties=st.sampled_from(["wrong", "half", "right"]))
def test_scores_are_what_the_definitions_say_also_in_each_category(rows, ties):
    labels = [label for *_, label in rows]
    result = artifact_gap([row[:2] for row in rows], [0] * len(rows), ties=ties, categories=labels)
    for name, part in [("xy", result), *result["per_category"].items()]:
        scores = [row[:2] for row in rows if row[2] in name]
        gaps = [positive - negative for positive, negative in scores]
        share = {"wrong": 0, "half": 0.5, "right": 1}[ties]
        wins = [(p > n) + (p == n) / 2 for p, n in itertools.product(*zip(*scores, strict=True))]
        expected = {
            "accuracy": (sum(gap > 0 for gap in gaps) + share * gaps.count(0)) / len(gaps),
            "tie_rate": gaps.count(0) / len(gaps),
            "mean_gap": np.mean(gaps),
            "median_gap": np.median(gaps),
            "auc": sum(wins) / len(wins),
            "asymmetry": float(asymmetry_by_hand(gaps)),
        }
        assert {key: part[key] for key in expected} == pytest.approx(expected, abs=1e-12)


def test_gaps_that_differ_by_rounding_are_of_one_size():
    # 0.3 - 0.1 is 2.8e-17 less than 0.4 - 0.2; taken apart, one of them would stand alone: an asymmetry of 1/2.
    assert 0.3 - 0.1 != 0.4 - 0.2
    assert artifact_gap([[0.3, 0.1], [0.2, 0.4]], [0, 0])["asymmetry"] == 0


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[1, 2, 3]] * 5, "3 captions per example, but a gap is between two; pass one row for each hard neg"),
        ([[1, 2]] * 4 + [[1, -1e101]], r"beyond 1e\+100 in row 4 .*divide all scores by one number"),
    ],
)
def test_unusable_input_is_rejected_with_a_remedy(scores, message):
    with pytest.raises(ScoresError, match=message):
        compute(scores)


RULES = {
    "format": lambda text: (-1 if text.endswith(".") else 0) + (1 if text != text.strip() else 0),
    "length": lambda text: -len(text),
}
CATEGORIES = ["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]


@pytest.mark.parametrize(("when", "folder", "n"), [("before", "data_unrefined", 17_478), ("after", "data", 7_511)])
def test_blind_rules_score_on_the_released_captions_what_the_card_says(when, folder, n, shared_data):
    released = shared_data / "data" / "sugarcrepe" / folder
    read = {name: json.loads((released / f"{name}.json").read_text(encoding="utf-8")).values() for name in CATEGORIES}
    for name, rule in RULES.items():
        scores = {
            category: [[rule(row["caption"]), rule(row["negative_caption"])] for row in rows]
            for category, rows in read.items()
        }
        rows = [row for part in scores.values() for row in part]
        labels = [category for category, part in scores.items() for _ in part]
        result = compute(rows, [0] * len(rows), categories=labels, ties="half")
        assert result["n"] == n
        shown = next(cells[2:] for cells in card_rows("artifact_gap", "rule") if cells[:2] == [name, when])
        for part, counted, cell in zip(
            [*result["per_category"].values(), result], [*scores.values(), rows], shown, strict=True
        ):
            halves = sum(2 if right > wrong else right == wrong for right, wrong in counted)
            assert part["accuracy"] == pytest.approx(halves / 2 / len(counted), abs=1e-12)
            assert cell == f"{100 * part['accuracy']:.2f}"
