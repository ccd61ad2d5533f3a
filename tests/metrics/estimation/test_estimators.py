"""Estimators: a weight counts an example as often as its rows repeated, in every kind."""

import numpy as np
import pytest

from vl_assay.metrics.estimation.estimators import OfTotals, OfValues

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
