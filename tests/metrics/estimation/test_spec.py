"""The contract of a metric: its specification, and examples that are selected without losing their categories."""

import numpy as np
import pytest

from vl_assay.metrics.estimation.spec import MetricSpec, ScoreSpec, make_examples
from vl_assay.metrics.functional.matching import matching_accuracy

SCORES = (ScoreSpec("accuracy"), ScoreSpec("recall_at_*"), ScoreSpec("gap", higher_is_better=False, in_tables=False))


def spec(**changes):
    return MetricSpec(**{"function": matching_accuracy, "task_type": "matching", "scores": SCORES} | changes)


def test_scores_are_found_by_name_by_pattern_and_as_macro_averages():
    found = spec()
    names = ["accuracy", "recall_at_5", "macro_recall_at_5", "macro_gap", "n", "recall", "accuracy_interval"]
    known = [found.score(name) and found.score(name).name for name in names]
    assert known == ["accuracy", "recall_at_*", "recall_at_*", "gap", None, None, None]
    assert found.main_score == "accuracy"
    shown = found.table_scores(["n", "gap", "recall_at_5", "accuracy", "recall_at_1"])
    assert shown == ["accuracy", "recall_at_5", "recall_at_1"]
    assert [found.is_higher_better(name) for name in ("macro_gap", "recall_at_1")] == [False, True]
    with pytest.raises(ValueError, match="'n' is not a score"):
        found.is_higher_better("n")


@pytest.mark.parametrize("changes", [{"task_type": "match"}, {"main_score": "f1"}])
def test_a_specification_that_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match=r"it is one of matching|is not among the scores"):
        spec(**changes)


def test_examples_keep_their_categories_when_those_of_a_score_are_chosen():
    found = make_examples(
        {"text": [1, 0, np.nan, 0.5], "image": [np.nan, 1, 0, 1]},
        [True, False, False, True],
        categories=[["a", "b", "a"], [], "b", "a"],
        clusters=["y", "x", "y", "z"],
        allow_nan=True,
        rare={"b": "few"},
        names=list("pqrs"),
    )
    assert found.clusters.tolist() == [1, 0, 1, 2]  # by their names, not by the order of rows
    places = {name: numbers.tolist() for name, numbers in found.places.items()}
    assert places == {"": [0, 1, 2, 3], "a": [0, 3], "b": [0, 2]}
    assert list(found.macro_categories) == ["a"]
    numbers, labels = found.macro_membership
    assert (numbers.tolist(), labels) == ([0, 3], ["a", "a"])
    own = found.of_score("image")
    assert own.rows.tolist() == [1, 2, 3]
    assert {name: numbers.tolist() for name, numbers in own.categories.items()} == {"b": [1], "a": [2]}
    assert (own.names, own.tied.tolist(), own.rare) == (["q", "r", "s"], [False, False, True], {"b": "few"})
    alone = found.select(np.array([3, 0]))
    assert (alone.rows.tolist(), alone.categories, alone.rare) == ([3, 0], {}, {})
    whole = make_examples({"text": [1, 0]}, [False, False])
    assert whole.of_score("text") is whole
