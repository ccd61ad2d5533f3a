"""The SugarCrepe ITM metric, as a user of `evaluate` calls it, and its card."""

from __future__ import annotations

import json
from pathlib import Path

import evaluate
import numpy as np
import pytest
import torch

from vl_assay.metrics import matching
from vl_assay.metrics.errors import ScoresError, UnknownNameError
from vl_assay.metrics.sugarcrepe_itm import sugarcrepe_itm

FOLDER = Path(sugarcrepe_itm.__file__).parent
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")

# The counts of GPT-4V's released answers, negative caption first: right, examples.
GPT4V = {
    "swap_att": (593, 666),
    "add_att": (666, 692),
    "add_obj": (1918, 2062),
    "replace_att": (740, 788),
    "replace_obj": (1604, 1652),
    "replace_rel": (1298, 1406),
    "swap_obj": (198, 246),
}

SCORES = [[0.31, 0.27], [0.25, 0.22], [0.22, 0.25], [0.30, 0.30]]
CORRECT = [0, 0, 0, 0]
CATEGORIES = ["swap_obj", "swap_obj", "swap_obj", "swap_att"]


@pytest.fixture
def metric(tmp_path):
    # After an error `evaluate` keeps its cache file locked, and the next module on it waits for a second.
    return evaluate.load(str(FOLDER), cache_dir=str(tmp_path))


def gpt4v_answers(shared_data, category):
    folder = shared_data / "data" / "sugarcrepe" / "gpt4v" / "negative-first"
    answers = json.loads((folder / f"gpt4v-{category}.json").read_text(encoding="utf-8"))
    # Among the released files is one with a float under the key "accuracy", beside the answers.
    return [answer for answer in answers.values() if isinstance(answer, dict)]


def test_gpt4v_scores_what_its_released_answers_say(metric, shared_data):
    answers = {category: gpt4v_answers(shared_data, category) for category in GPT4V}
    labelled = [(category, answer) for category, part in answers.items() for answer in part]
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


def test_results_with_intervals_are_json(metric):
    results = metric.compute(
        predictions=SCORES, references=CORRECT, categories=CATEGORIES, clusters=[1, 1, 2, 3], confidence=0.9
    )
    again = json.loads(json.dumps(results))
    assert again == results
    assert results["confidence"] == 0.9
    assert list(results["accuracy_interval"]) == sorted(results["accuracy_interval"])
    assert results["per_category"]["swap_att"]["accuracy_interval"] == pytest.approx([0, 0.95])  # 1 - 0.05


@pytest.mark.parametrize(("ties", "accuracy"), [("wrong", 0.0), ("half", 0.5), ("right", 1.0)])
def test_a_constant_model_scores_what_the_tie_policy_says(metric, ties, accuracy):
    results = metric.compute(predictions=[[0.2, 0.2]] * 6, references=[0, 1] * 3, ties=ties)
    assert (results["accuracy"], results["macro_accuracy"], results["tie_rate"]) == (accuracy, accuracy, 1.0)


def test_the_module_and_the_plain_function_agree(metric):
    rng = np.random.default_rng(0)
    scores, correct = rng.integers(0, 4, (300, 3)), rng.integers(0, 3, 300)
    options = {
        "categories": rng.choice(["swap_att", "swap_obj", "add_att", "replace_rel"], 300).tolist(),
        "clusters": rng.integers(0, 50, 300).tolist(),
        "ties": "half",
        "confidence": 0.8,
        "resamples": 500,
        "seed": 3,
    }
    through_evaluate = metric.compute(predictions=scores, references=correct, **options)
    assert through_evaluate == matching.sugarcrepe_accuracy(scores, correct, **options)


def test_every_option_reaches_the_intervals(metric):
    rng = np.random.default_rng(1)
    inputs = {"predictions": rng.normal(size=(200, 2)), "references": rng.integers(0, 2, 200)}
    clusters = rng.integers(0, 40, 200).tolist()
    plain = {"clusters": clusters, "confidence": 0.95, "resamples": 300, "seed": 0}
    expected = metric.compute(**inputs, **plain)["accuracy_interval"]
    for change in ({"clusters": None}, {"confidence": 0.5}, {"resamples": 301}, {"seed": 1}):
        assert metric.compute(**inputs, **{**plain, **change})["accuracy_interval"] != expected


def test_scores_are_compared_as_float64(metric):
    results = metric.compute(predictions=[[0.30000001, 0.3]], references=[0])
    assert (results["accuracy"], results["tie_rate"]) == (1.0, 0.0)


@pytest.mark.parametrize("container", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_batches_and_single_examples_add_up_to_the_whole(metric, container):
    expected = metric.compute(predictions=SCORES, references=CORRECT, categories=CATEGORIES)
    metric.add_batch(predictions=container(SCORES[:2]), references=container(CORRECT[:2]))
    metric.add_batch(predictions=container(SCORES[2:]), references=container(CORRECT[2:]))
    assert metric.compute(categories=CATEGORIES) == expected
    for scores, correct in zip(SCORES, CORRECT, strict=True):
        metric.add(prediction=container(scores), reference=correct)
    assert metric.compute(categories=CATEGORIES) == expected


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("container", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
@pytest.mark.parametrize("way", ["compute", "add", "add_batch"])
def test_a_nan_is_refused_and_its_row_named(metric, way, container, bad):
    scores, correct = [[2.0, 1.0], [2.0, 1.0], [bad, 1.0]], [0, 0, 0]
    inputs = {}
    if way == "compute":
        inputs = {"predictions": container(scores), "references": container(correct)}
    elif way == "add_batch":
        metric.add_batch(predictions=container(scores[:2]), references=container(correct[:2]))
        metric.add_batch(predictions=container(scores[2:]), references=container(correct[2:]))
    else:
        for row, column in zip(scores, correct, strict=True):
            metric.add(prediction=container(row), reference=column)
    with pytest.raises(ScoresError, match=r"NaN or infinite in row 2 \(1 of 3 rows"):
        metric.compute(**inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"predictions": [[None, 1.0]], "references": [0]}, "NaN or infinite in row 0"),
        ({"predictions": [[1.0], [1.0, 2.0]], "references": [0, 0]}, "row 0 has 1 scores.*row 1"),
        ({"predictions": [[1.0, 2.0]], "references": [2]}, "caption is 2 in row 0"),
        ({"predictions": [[1.0, 2.0]], "references": [-1]}, "caption is -1 in row 0"),
        ({"predictions": [[1.0, 2.0]], "references": [None]}, "caption is nan in row 0"),
        ({"predictions": [], "references": []}, "no scores; pass at least one example"),
        ({"predictions": SCORES, "references": CORRECT, "categories": ["a"]}, "1 categories came for 4 examples"),
        ({"predictions": SCORES, "references": CORRECT, "clusters": ["a"]}, "1 clusters came for 4 examples"),
        (
            {"predictions": SCORES, "references": CORRECT, "clusters": ["a"], "confidence": 0.9},
            "1 clusters came for 4 examples",
        ),
        ({"predictions": SCORES, "references": CORRECT, "confidence": 95}, "confidence is 95; it must lie"),
    ],
)
def test_unusable_input_is_refused_with_its_cure(metric, inputs, message):
    with pytest.raises(ScoresError, match=message):
        metric.compute(**inputs)


def test_an_unknown_tie_policy_names_the_known_ones(metric):
    with pytest.raises(UnknownNameError, match="known: wrong, half, right"):
        metric.compute(predictions=SCORES, references=CORRECT, ties="first")


def test_the_module_describes_itself(metric):
    assert metric.name == "sugar_crepe_itm"
    assert "SugarCrepe" in metric.description
    assert "hsieh2023sugarcrepe" in metric.citation
    assert "ties" in metric.inputs_description
    assert metric.features["predictions"].feature.dtype == "float64"


def card_rows():
    """The cells of the card's tables by their first cell."""
    lines = [line for line in CARD.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def test_the_card_quotes_the_paper(shared_data):
    (paper,) = (shared_data / "papers").glob("000_*.txt")
    table = paper.read_text(encoding="utf-8").split("Table 6: Our evaluation")[1].splitlines()
    for ours, theirs in {
        "CLIP ViT-B-32 (OpenAI)": "\tViT-B-32\t",
        "NegCLIP ViT-B-32": "\tViT-B-32-negclip\t",
        "GPT-4V": "\tGPT-4V [33]\t",
        "Vera (text only)": "\tVera [27]\t",
    }.items():
        row = next(line for line in table if theirs in line)
        assert row.split("\t")[-8:] == card_rows()[ours]
    human = next(line for line in table if "\tHuman\t" in line).rstrip("\t")
    assert human.split("\t")[-7:] == card_rows()["human"][:7]


def test_the_card_quotes_the_counts():
    order = ["replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att"]
    assert card_rows()["right"] == [str(GPT4V[category][0]) for category in order]
    assert card_rows()["examples"] == [str(GPT4V[category][1]) for category in order]


def table_rows(paper, marker, end):
    """The rows of a table in the paper's text, as lists of cells."""
    lines = paper.split(marker)[1].split(end)[0].splitlines()
    return [[cell.strip() for cell in line.split("\t")] for line in lines if "\t" in line]


def test_averages_of_table_6_are_macro_averages(shared_data):
    (paper,) = (shared_data / "papers").glob("000_*.txt")
    text = paper.read_text(encoding="utf-8")
    checked = 0
    for row in table_rows(text, "Table 6: Our evaluation", "All models struggle"):
        try:
            *scores, average = [float(cell) for cell in row[-8:]]
        except ValueError:
            continue
        assert sum(scores) / 7 == pytest.approx(average, abs=0.0051 + 0.005)
        checked += 1
    assert checked >= 17


def test_a_category_without_a_form_is_refused_and_its_row_named(metric):
    with pytest.raises(ScoresError, match=r"category 'swap_number' in row 1 .*known: replace_obj.*forms"):
        metric.compute(predictions=SCORES[:2], references=[0, 0], categories=["swap_obj", "swap_number"])
    result = metric.compute(
        predictions=SCORES[:2],
        references=[0, 0],
        categories=["swap_obj", "swap_number"],
        forms={"swap_obj": "SWAP", "swap_number": "SWAP"},
    )
    assert result["per_form"]["SWAP"]["n"] == 2


def test_forms_have_micro_and_macro_averages_with_intervals(metric):
    result = metric.compute(
        predictions=[[2, 1], [2, 1], [1, 2], [2, 1]],
        references=[0] * 4,
        categories=["add_obj", "add_obj", "add_att", "swap_obj"],
        confidence=0.9,
    )
    add = result["per_form"]["ADD"]
    assert (add["accuracy"], add["macro_accuracy"], add["n"]) == (pytest.approx(2 / 3), 0.5, 3)  # (2/2 + 0/1) / 2
    assert add["accuracy_interval"][0] < 2 / 3 < add["accuracy_interval"][1]
