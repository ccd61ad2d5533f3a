"""The artefact gap as a user of `evaluate` calls it, and on the released captions."""

from __future__ import annotations

import json

import pytest
from cards import card_rows

from vl_assay.metrics.common.errors import ScoresError
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
        # Images: a has 4 and 3, b has -1 and 0, c has 4. With a and c on one side there are 3 of one sign from 3 on;
        # with a and c on different ones 0, then 1, then at most 2. So 4 of 8 flips.
        "symmetry_p_value": 4 / 8,
    }
    assert (add["accuracy"], add["mean_gap"], add["median_gap"], add["n"]) == (1.0, pytest.approx(11 / 3), 4.0, 3)
    # Images a and c: both on one side in 2 of 4 flips.
    assert (add["asymmetry"], add["symmetry_p_value"], add["n_clusters"]) == (1.0, 2 / 4, 2)
    assert (swap["accuracy"], swap["tie_rate"], swap["mean_gap"], swap["n_clusters"]) == (0.0, 1 / 2, -1 / 2, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"scores": [[1, 2, 3]] * 5},
            "3 captions per example, but a gap is between two; pass one row for each hard neg",
        ),
        ({"scores": [[1, 2]] * 4 + [[1, -1e101]]}, r"beyond 1e\+100 in row 4 .*divide all scores by one number"),
        ({"permutations": 99}, "permutations is 99; it must be a whole number of at least 100"),
    ],
)
def test_unusable_input_is_rejected_with_a_remedy(change, message):
    with pytest.raises(ScoresError, match=message):
        compute(**change)


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
        result = compute(rows, [0] * len(rows), categories=labels, ties="half", permutations=100)
        assert result["n"] == n
        shown = next(cells[2:] for cells in card_rows("artifact_gap", "rule") if cells[:2] == [name, when])
        for part, counted, cell in zip(
            [*result["per_category"].values(), result], [*scores.values(), rows], shown, strict=True
        ):
            halves = sum(2 if right > wrong else right == wrong for right, wrong in counted)
            assert part["accuracy"] == pytest.approx(halves / 2 / len(counted), abs=1e-12)
            assert cell == f"{100 * part['accuracy']:.2f}"
