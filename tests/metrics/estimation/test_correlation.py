"""Correlations over models: against SciPy, and what too few or equal values give."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.correlation import correlation


def pairs(n, rho, seed):
    rng = np.random.default_rng(seed)
    one = rng.normal(size=n)
    return one, rho * one + np.sqrt(1 - rho**2) * rng.normal(size=n)


def test_values_are_those_of_scipy_with_equal_scores_among_them():
    one, two = pairs(40, 0.7, seed=0)
    for first, second in ((one, two), (one.round(), two.round())):
        found = correlation(first, second)
        assert found["pearson"] == pytest.approx(scipy.stats.pearsonr(first, second)[0])
        assert found["spearman"] == pytest.approx(scipy.stats.spearmanr(first, second)[0])
        for name in ("pearson", "spearman"):
            low, high = found[f"{name}_interval"]
            assert -1 <= low < found[name] < high <= 1


def test_intervals_of_pearson_are_near_those_of_fishers_transformation():
    one, two = pairs(300, 0.5, seed=1)
    centre, spread = np.arctanh(scipy.stats.pearsonr(one, two)[0]), 1.96 / np.sqrt(297)
    assert correlation(one, two)["pearson_interval"] == pytest.approx(
        np.tanh([centre - spread, centre + spread]).tolist(), abs=0.04
    )


@pytest.mark.parametrize("values", [([], []), ([1, 2, 3], [1, 2, 3]), ([1] * 5, range(5))])
def test_too_few_models_and_equal_scores_have_no_correlation(values):
    found = correlation(*values)
    assert found["n"] == len(values[0])
    assert [found[name] for name in ("pearson", "spearman", "pearson_interval")] == [None] * 3


def test_scores_of_other_models_and_without_values_are_refused():
    for second in ([1.0, 2.0], [1.0, 2.0, np.nan]):
        with pytest.raises(ScoresError, match="pass two finite scores of each model"):
            correlation([1.0, 2.0, 3.0], second)
