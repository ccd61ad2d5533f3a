"""The SugarCrepe ITM metric, as a user of `evaluate` calls it, and its card."""

import pytest
from cards import card_table
from released_counts import GPT4V

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.matching import sugarcrepe_accuracy
from vl_assay.metrics.modules.discovery import load_metric

SCORES = [[0.31, 0.27], [0.25, 0.22], [0.22, 0.25], [0.30, 0.30]]
CORRECT = [0, 0, 0, 0]
CATEGORIES = ["swap_obj", "swap_obj", "swap_obj", "swap_att"]


@pytest.fixture
def metric():
    return load_metric("sugarcrepe_itm")


def test_gpt4v_scores_what_its_released_answers_say(metric, gpt4v):
    labelled = [(category, answer) for category, part in gpt4v.items() for answer in part]
    results = metric.compute(
        predictions=[[1, 0] if answer["correct"] else [0, 1] for _, answer in labelled],
        references=[0] * len(labelled),
        categories=[category for category, _ in labelled],
        clusters=[answer["filename"] for _, answer in labelled],
        confidence=0.95,
    )
    for category, (right, examples) in GPT4V.items():
        part = results["per_category"][category]
        assert (part["accuracy"], part["n"], part["tie_rate"]) == (right / examples, examples, 0.0)
        low, high = part["accuracy_interval"]
        assert low < part["accuracy"] < high
    counts = card_table("sugarcrepe_itm", "", "replace obj")
    assert counts["right"] == [str(right) for right, _ in GPT4V.values()]
    assert counts["examples"] == [str(examples) for _, examples in GPT4V.values()]
    # 593 + 666 + 1918 + 740 + 1604 + 1298 + 198 = 7017; 666 + 692 + 2062 + 788 + 1652 + 1406 + 246 = 7512
    assert results["accuracy"] == 7017 / 7512
    assert results["macro_accuracy"] == pytest.approx(sum(right / n for right, n in GPT4V.values()) / 7)
    assert results["accuracy_interval"][0] < 7017 / 7512 < results["accuracy_interval"][1]


def test_results_by_arithmetic(metric):
    results = metric.compute(predictions=SCORES, references=CORRECT, categories=CATEGORIES)
    assert results == {
        "accuracy": 0.5,  # 2 of 4: the third prefers the negative, the fourth ties
        "macro_accuracy": pytest.approx(1 / 3),  # (2/3 + 0/1) / 2
        "tie_rate": 0.25,
        "n": 4,
        "per_category": {
            "swap_obj": {"accuracy": pytest.approx(2 / 3), "tie_rate": 0.0, "n": 3},
            "swap_att": {"accuracy": 0.0, "tie_rate": 1.0, "n": 1},
        },
        "per_form": {"SWAP": {"accuracy": 0.5, "macro_accuracy": pytest.approx(1 / 3), "tie_rate": 0.25, "n": 4}},
    }


def test_a_category_without_a_form_is_rejected_and_its_row_named(metric):
    with pytest.raises(ScoresError, match=r"category 'swap_number' in row 1 .*known: replace_obj.*forms"):
        metric.compute(predictions=SCORES[:2], references=[0, 0], categories=["swap_obj", "swap_number"])
    result = metric.compute(
        predictions=SCORES[:2],
        references=[0, 0],
        categories=["swap_obj", "swap_number"],
        forms={"swap_obj": "SWAP", "swap_number": "SWAP"},
    )
    assert result["per_form"]["SWAP"]["n"] == 2


@pytest.mark.parametrize(
    ("categories", "macro"),
    [
        (["add_obj", "add_att", "add_obj", "swap_obj"], 0.75),  # (1/2 + 1/1) / 2
        ([["add_obj", "add_att"], [], ["add_obj"], ["swap_obj"]], 0.75),
    ],
    ids=["one each", "several or none"],
)
def test_forms_have_micro_and_macro_averages_with_intervals(categories, macro):
    scores = [[2, 1], [2, 1], [1, 2], [2, 1]]
    add = sugarcrepe_accuracy(scores, [0] * 4, categories=categories, confidence=0.9)["per_form"]["ADD"]
    assert (add["accuracy"], add["macro_accuracy"], add["n"]) == (pytest.approx(2 / 3), macro, 3)
    assert add["accuracy_interval"][0] < 2 / 3 < add["accuracy_interval"][1]


@pytest.mark.parametrize("forms", [["SWAP"], {"swap_obj": ""}])
def test_forms_that_are_no_mapping_to_names_are_rejected(forms):
    with pytest.raises(ScoresError, match=r"forms is .*; map each category to its form, such as"):
        sugarcrepe_accuracy(SCORES, CORRECT, categories=CATEGORIES, forms=forms)
