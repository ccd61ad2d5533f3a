"""The parts of a metric: its specification, examples, averages over them and by category, and weighted estimators."""

import math

import numpy as np
import pandas
import pytest

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.aggregate import aggregate
from vl_assay.metrics.estimation.estimators import OfTotals, OfValues
from vl_assay.metrics.estimation.spec import MetricSpec, ScoreSpec, make_examples
from vl_assay.metrics.functional.matching import matching_accuracy


def summarise(values, tied, categories=None, clusters=None, **options):
    examples = make_examples({"accuracy": values}, tied, categories=categories, clusters=clusters)
    return aggregate(examples, **options)


@pytest.mark.parametrize(
    ("values", "tied", "categories", "message"),
    [
        ([1, math.nan], [False, False], None, r"value is nan in row 1 .*between 0 and 1"),
        ([1, 1.5], [False, False], None, r"value is 1\.5 in row 1"),
        ([-1, 1], [False, False], None, r"value is -1 in row 0"),
        ([1, 0], [False], None, "got 1 tie flags for 2 examples; pass one per example"),
        ([1, 0], [False, False], "ab", "got 1 categories for 2 examples; pass a list with one label per example"),
        ([1, 0], [False, False], ["", "a"], "categories are missing in row 0"),
        ([1, 0], [False, False], [1.0, math.nan], "categories are missing in row 1"),
        ([1, 0], [False, False], ["a", pandas.NA], "categories are missing in row 1"),
        ([1, 0], [False, False], [["a", None], "b"], "categories are missing in row 1"),
        ([1, 0], [False, False], [[["a"]], ["b"]], "list of lists"),
        ([1, 0], [False, False], [[], []], "no example has a category"),
    ],
)
def test_averages_refuse_what_they_cannot_use(values, tied, categories, message):
    with pytest.raises(ScoresError, match=message):
        summarise(values, tied, categories)


def test_an_example_counts_in_each_of_its_categories_or_in_none_but_once_overall():
    result = summarise([1, 0, 0, 1], [False, False, True, False], [["a", "b"], "b", ("a", "a"), []])
    assert (result["accuracy"], result["macro_accuracy"], result["n"]) == (0.5, 0.5, 4)
    assert result["per_category"] == {
        "a": {"accuracy": 0.5, "tie_rate": 0.5, "n": 2},
        "b": {"accuracy": 0.5, "tie_rate": 0.0, "n": 2},
    }


def test_intervals_of_overlapping_categories_count_each_example_in_each():
    rng = np.random.default_rng(1)
    values, clusters = rng.integers(0, 2, 100).astype(float), rng.integers(0, 30, 100).tolist()
    labels = [["a", "b"] if row % 3 == 0 else ["a"] for row in range(100)]
    options = {"clusters": clusters, "confidence": 0.9, "resamples": 300}
    result = summarise(values, values < 0, labels, **options)
    assert result["accuracy_interval"] == summarise(values, values < 0, **options)["accuracy_interval"]
    low, high = result["per_category"]["b"]["accuracy_interval"]
    assert low < values[::3].mean() < high


RNG = np.random.default_rng(3)
TOTALS = OfTotals(
    ("share", "twice"), RNG.random((9, 2)), lambda t: np.stack([t[..., 0] / t[..., 1], 2 * t[..., 0]], -1)
)
VALUES = OfValues(("mean", "median"), np.array([3, np.nan, 1, 2, 2, np.nan, 5, 4, 0.5]), (np.mean, np.median))


@pytest.mark.parametrize("weights", [[2, 1, 0, 3, 1, 1, 0, 1, 4], [0, 1, 2, 0, 0, 0, 0, 0, 2], [1] * 9, [0] * 9])
@pytest.mark.parametrize("estimator", [TOTALS, VALUES], ids=["totals", "values"])
def test_weights_count_rows_as_often_as_they_say(estimator, weights):
    repeated = estimator.select(np.repeat(np.arange(9), weights))
    with np.errstate(invalid="ignore"):
        assert estimator(np.array(weights, float)) == pytest.approx(repeated(), nan_ok=True)


def test_values_that_are_missing_do_not_count_and_none_at_all_are_nan():
    assert VALUES().tolist() == [17.5 / 7, 2.0]
    assert np.isnan(VALUES.select(np.array([1, 5]))()).all()


def test_stacked_examples_follow_each_other():
    for estimator in (TOTALS, VALUES):
        twice, first = estimator.stacked(estimator), np.repeat([1.0, 0.0], 9)
        assert twice(first) == pytest.approx(estimator())
        assert twice(1 - first) == pytest.approx(estimator())


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
