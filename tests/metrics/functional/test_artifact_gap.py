"""The artefact gap as a user of `evaluate` calls it, on the released captions, and its card."""

from __future__ import annotations

import json

import pytest
from cards import card_rows

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.modules.discovery import load_metric

CATEGORIES = ["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]

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


def outer_format(text):
    return (-1 if text.endswith(".") else 0) + (1 if text != text.strip() else 0)


def shortness(text):
    return -len(text)


RULES = {"format": outer_format, "length": shortness}
FOLDERS = {"before": "data_unrefined", "after": "data"}


@pytest.fixture(scope="module")
def released(shared_data):
    def read(folder, category):
        path = shared_data / "data" / "sugarcrepe" / folder / f"{category}.json"
        return list(json.loads(path.read_text(encoding="utf-8")).values())

    return {when: {name: read(folder, name) for name in CATEGORIES} for when, folder in FOLDERS.items()}


def score_rule(records, rule, **options):
    """The metric on captions by category, with photographs as clusters."""
    rows = [(name, record) for name, part in records.items() for record in part]
    return compute(
        [[rule(record["caption"]), rule(record["negative_caption"])] for _, record in rows],
        [0] * len(rows),
        categories=[name for name, _ in rows],
        clusters=[record["filename"] for _, record in rows],
        permutations=100,
        **options,
    )


def halves(records, rule):
    """Twice the right ones of a rule, where a tie is half right, counted one by one."""
    total = 0
    for record in records:
        positive, negative = rule(record["caption"]), rule(record["negative_caption"])
        total += 2 if positive > negative else 1 if positive == negative else 0
    return total


@pytest.mark.parametrize("when", FOLDERS)
@pytest.mark.parametrize("rule", RULES)
def test_blind_rules_score_on_the_released_captions_what_can_be_counted(released, when, rule):
    records = released[when]
    result = score_rule(records, RULES[rule], ties="half")
    counted = {name: halves(part, RULES[rule]) for name, part in records.items()}
    n = sum(map(len, records.values()))
    assert result["n"] == n == {"before": 17_478, "after": 7_511}[when]
    assert result["accuracy"] == pytest.approx(sum(counted.values()) / 2 / n, abs=1e-12)
    shown = next(row[2:] for row in card_rows("artifact_gap", "rule") if row[:2] == [rule, when])
    for name, cell in zip([*CATEGORIES, "all"], shown, strict=True):
        part = result if name == "all" else result["per_category"][name]
        if name != "all":
            assert part["accuracy"] == pytest.approx(counted[name] / 2 / len(records[name]), abs=1e-12)
        assert cell == f"{100 * part['accuracy']:.2f}"
