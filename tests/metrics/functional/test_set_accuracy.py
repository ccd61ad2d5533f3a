"""Set accuracy: by hand, against counting over sets, incomplete sets, ties, and what is refused."""

import itertools

import numpy as np
import pytest
from report_support import write

from vl_assay.hub_datasets import report
from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.sets import set_accuracy
from vl_assay.metrics.records.schema import MatchingRow

PAIRS = [["left", "right"], ["on", "under"]]
CATEGORIES = ["left", "right", "on", "under"]


def rows_of(*sets):
    """Inputs of sets in which the example of each category is right (1), wrong (0), tied (t) or absent (-)."""
    scores, names, categories = [], [], []
    for name, outcomes in enumerate(sets):
        for category, outcome in zip(CATEGORIES, outcomes, strict=True):
            if outcome != "-":
                scores.append({"1": [2, 1, 0, 0], "0": [1, 2, 0, 0], "t": [2, 2, 0, 0]}[outcome])
                names.append(f"set {name}")
                categories.append(category)
    return {"scores": scores, "correct": [0] * len(scores), "sets": names, "categories": categories, "pairs": PAIRS}


def test_all_outcomes_of_a_set_count_as_the_definition_says():
    for outcomes in itertools.product((0, 1), repeat=4):
        result = set_accuracy(**rows_of("".join(map(str, outcomes))))
        left, right, on, under = outcomes
        expected = [sum(outcomes) / 4, (left * right + on * under) / 2, left * right * on * under]
        assert [result[name] for name in ("accuracy", "pair_accuracy", "set_accuracy")] == expected


def test_scores_are_means_over_sets_and_categories_have_those_of_their_pairs():
    result = set_accuracy(**rows_of("1111", "1101", "0011", "1100"))
    assert result["accuracy"] == 11 / 16
    assert result["pair_accuracy"] == 5 / 8  # 2 + 1 + 1 + 1 of 8
    assert result["set_accuracy"] == 1 / 4
    assert result["per_category"]["left"]["pair_accuracy"] == result["per_category"]["right"]["pair_accuracy"] == 3 / 4
    assert result["macro_pair_accuracy"] == 5 / 8
    assert (result["n"], result["n_pairs"], result["n_sets"], result["n_incomplete_sets"]) == (16, 8, 4, 0)


def test_a_set_that_lacks_an_example_counts_only_with_its_pair_and_is_counted():
    result = set_accuracy(**rows_of("1111", "11-1"))
    assert result["accuracy"] == 1
    assert (result["pair_accuracy"], result["n_pairs"]) == (1, 3)
    assert (result["set_accuracy"], result["n_sets"], result["n_incomplete_sets"]) == (1, 1, 1)
    alone = set_accuracy(**rows_of("1---"), confidence=0.95)
    assert (alone["pair_accuracy"], alone["macro_pair_accuracy"], alone["set_accuracy"]) == (None, None, None)
    twice = set_accuracy(**rows_of("1111") | {"categories": ["left", "right", "on", "on"]})
    assert (twice["n_pairs"], twice["n_sets"], twice["n_incomplete_sets"]) == (1, 0, 1)


def test_a_tie_in_a_pair_is_wrong_or_half_or_right():
    found = {ties: set_accuracy(**rows_of("1t11"), ties=ties) for ties in ("wrong", "half", "right")}
    assert [found[ties]["set_accuracy"] for ties in found] == [0, 1 / 2, 1]
    assert found["wrong"]["tie_rate"] == 1 / 4


def test_sets_are_resampled_as_wholes_unless_clusters_are_given():
    right = np.random.default_rng(0).random(50) < 0.5  # all of a set, or none
    inputs = rows_of(*["1111" if each else "0000" for each in right])
    of_sets, of_examples = (
        set_accuracy(**inputs, confidence=0.95, clusters=clusters)["accuracy_interval"]
        for clusters in (None, list(range(200)))
    )
    assert of_sets[1] - of_sets[0] > 1.5 * (of_examples[1] - of_examples[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sets": None}, "the sets are missing"),
        ({"categories": None}, "the categories are missing"),
        ({"categories": ["left", "right", "on", "over"]}, "the category 'over' is in none of the pairs"),
        ({"categories": [["left", "tag"], "right", "on", "under"]}, "categories hold lists"),
        ({"pairs": []}, "give two categories for each pair"),
        ({"pairs": [["left", "right"], ["on"]]}, "give two categories for each pair"),
        ({"pairs": [["left", "right"], ["on", "left"]]}, "give two categories for each pair, each once"),
    ],
)
def test_what_makes_no_sets_is_refused(changes, message):
    with pytest.raises(ScoresError, match=message):
        set_accuracy(**rows_of("1111") | changes)


def test_predictions_are_in_sets_by_their_cluster(tmp_path):
    inputs = rows_of("1111", "1101")
    rows = [
        MatchingRow(f"r{place}", "controlled_a", category, [f"i{place}"], [0], [scores], cluster=name)
        for place, (scores, category, name) in enumerate(
            zip(inputs["scores"], inputs["categories"], inputs["sets"], strict=True)
        )
    ]
    settings = {"set_accuracy": {"pairs": PAIRS}}
    path = write(tmp_path / "p.parquet", rows, "whats_up", task="controlled_a", model="m", metrics=settings)
    [result] = report([path])
    assert result.scores["set_accuracy"] == 1 / 2
    assert result.chance["set_accuracy"] == 1 / 256
    assert result.table_scores == ["accuracy", "pair_accuracy", "set_accuracy"]
