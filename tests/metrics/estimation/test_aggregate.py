"""Averages over examples: micro, macro, by category, of parts, and their intervals."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.aggregate import aggregate
from vl_assay.metrics.estimation.spec import make_examples


def summarise(values, tied, categories=None, clusters=None, **options):
    examples = make_examples({"accuracy": values}, tied, categories=categories, clusters=clusters)
    return aggregate(examples, **options)


@pytest.mark.parametrize(
    ("values", "tied", "categories", "message"),
    [
        ([], [], None, r"shape \(0,\); pass one value per example, at least one"),
        ([1, math.nan], [False, False], None, r"value is nan in row 1 .*between 0 and 1"),
        ([1, 1.5], [False, False], None, r"value is 1\.5 in row 1"),
        ([-1, 1], [False, False], None, r"value is -1 in row 0"),
        ([1, 0], [False], None, "got 1 tie flags for 2 examples; pass one per example"),
        ([1, 0], [False, False], "ab", "got 1 categories for 2 examples; pass a list with one label per example"),
        ([1, 0], [False, False], ["", "a"], "categories are missing in row 0"),
        ([1, 0], [False, False], [1.0, math.nan], "categories are missing in row 1"),
    ],
)
def test_averages_refuse_what_they_cannot_use(values, tied, categories, message):
    with pytest.raises(ScoresError, match=message):
        summarise(values, tied, categories)


def test_an_example_counts_in_each_of_its_categories_but_once_overall():
    result = summarise([1, 0, 0], [False, False, True], [["a", "b"], "b", ("a", "a")])
    assert result["accuracy"] == 1 / 3
    assert result["n"] == 3
    assert result["per_category"] == {
        "a": {"accuracy": 0.5, "tie_rate": 0.5, "n": 2},
        "b": {"accuracy": 0.5, "tie_rate": 0.0, "n": 2},
    }


def test_an_example_without_categories_counts_overall_alone():
    result = summarise([1, 0, 1], [False] * 3, [["a"], [], ["a"]])
    assert result["accuracy"] == pytest.approx(2 / 3)
    assert result["per_category"] == {"a": {"accuracy": 1.0, "tie_rate": 0.0, "n": 2}}
    assert result["macro_accuracy"] == 1.0


def test_intervals_of_overlapping_categories_count_each_example_in_each():
    rng = np.random.default_rng(1)
    values, clusters = rng.integers(0, 2, 100).astype(float), rng.integers(0, 30, 100).tolist()
    labels = [["a", "b"] if row % 3 == 0 else ["a"] for row in range(100)]
    options = {"clusters": clusters, "confidence": 0.9, "resamples": 300}
    result = summarise(values, values < 0, labels, **options)
    assert result["accuracy_interval"] == summarise(values, values < 0, **options)["accuracy_interval"]
    low, high = result["per_category"]["b"]["accuracy_interval"]
    assert low < values[::3].mean() < high


@pytest.mark.parametrize("labels", [[[["a"]], ["b"]], [[], []], ["a", pandas.NA], [["a", None], "b"]])
def test_labels_that_are_none_are_rejected(labels):
    with pytest.raises(ScoresError, match=r"categories are missing|list of lists|no example has a category"):
        summarise([1, 0], [False] * 2, labels)
