"""Estimators: a weight counts an example as often as its rows repeated, in every kind and in their means."""

import numpy as np
import pytest

from vl_assay.metrics.estimation.estimators import MeanOf, OfTotals, OfValues, mean, median

RNG = np.random.default_rng(3)
TOTALS = OfTotals(
    ("share", "twice"), RNG.random((9, 2)), lambda t: np.stack([t[..., 0] / t[..., 1], 2 * t[..., 0]], -1)
)
VALUES = OfValues(("mean", "median"), np.array([3, np.nan, 1, 2, 2, np.nan, 5, 4, 0.5]), (mean, median))
BOTH = MeanOf([TOTALS.select(np.arange(4)), TOTALS.select(np.arange(3, 9))], [np.arange(4), np.arange(4, 10)], 10)


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
    for estimator in (TOTALS, VALUES, BOTH):
        size = 10 if estimator is BOTH else 9
        twice, first = estimator.stacked(estimator), np.repeat([1.0, 0.0], size)
        assert twice(first) == pytest.approx(estimator())
        assert twice(1 - first) == pytest.approx(estimator())


def test_a_mean_of_estimators_weighs_each_part_alike_and_drops_those_without_examples():
    parts = [TOTALS.select(np.arange(4)), TOTALS.select(np.arange(3, 9))]
    assert BOTH() == pytest.approx((parts[0]() + parts[1]()) / 2)
    weights = RNG.integers(1, 4, 10).astype(float)
    assert BOTH(weights) == pytest.approx((parts[0](weights[:4]) + parts[1](weights[4:])) / 2)
    chosen = BOTH.select(np.array([9, 1, 0]))
    expected = (parts[0].select(np.array([0, 1]))() + parts[1].select(np.array([5]))()) / 2
    assert chosen() == pytest.approx(expected)
    only = BOTH.select(np.array([5, 8]))
    assert (len(only.parts), only.size) == (1, 2)
    assert only() == pytest.approx(parts[1].select(np.array([1, 4]))())
