"""What goes with errors: rates, intervals and tests, with examples of one image as a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.statistics.association import associations, wilson_interval


def made(seed, n=600, images=150, categories=3, features=5, effect=0.0):
    """Errors that depend on the image and the category, and on the first feature by `effect`."""
    rng = np.random.default_rng(seed)
    clusters, strata = rng.integers(images, size=n), rng.integers(categories, size=n)
    has = (rng.random((n, features)) < 0.2 + 0.15 * strata[:, np.newaxis]).astype(float)
    chance = 0.1 + 0.2 * strata + 0.3 * rng.random(images)[clusters] + effect * has[:, 0]
    return (rng.random(n) < chance).astype(float), has, clusters, strata


def p_value_by_hand(errors, feature, clusters, strata):
    total, squares = 0.0, 0.0
    for image in sorted(set(clusters)):
        own = 0.0
        for i in np.flatnonzero(clusters == image):
            alike = strata == strata[i]
            own += (feature[i] - feature[alike].mean()) * (errors[i] - errors[alike].mean())
        total, squares = total + own, squares + own**2
    having = len({c for c, f in zip(clusters, feature, strict=True) if f})
    lacking = len({c for c, f in zip(clusters, feature, strict=True) if not f})
    return 2 * student.sf(abs(total) / squares**0.5, min(having, lacking) - 1)


def test_numbers_are_those_of_plain_loops():
    errors, features, clusters, strata = made(1, effect=0.2)
    found = associations(errors, features, clusters, strata)
    for column, has in enumerate(features.T):
        chosen = has == 1
        assert found.n[column] == chosen.sum()
        assert found.clusters[column] == len(set(clusters[chosen]))
        assert found.other_clusters[column] == len(set(clusters[~chosen]))
        assert found.rates[column] == pytest.approx(errors[chosen].mean())
        means = [errors[strata == each].mean() for each in strata[chosen]]
        assert found.expected[column] == pytest.approx(np.mean(means))
        assert found.p_values[column] == pytest.approx(p_value_by_hand(errors, has, clusters, strata))
        assert found.low[column] < found.rates[column] < found.high[column]


def test_the_test_keeps_its_level_with_clusters_and_strata_and_finds_what_is_there():
    """Features of whole images: tests that take examples for independent would reject far too often."""
    rejected = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        image_is_hard = rng.random(60) < 0.5
        clusters = np.repeat(np.arange(60), 5)
        errors = (rng.random(300) < np.where(image_is_hard, 0.8, 0.2)[clusters]).astype(float)
        has = (rng.random((60, 4)) < 0.4)[clusters].astype(float)
        rejected.append(associations(errors, has, clusters).p_values <= 0.05)
    assert 0.03 < np.mean(rejected) < 0.065
    assert associations(*made(2, effect=0.3)).p_values[0] < 1e-6


def test_a_feature_that_only_comes_with_a_category_says_nothing_within_categories():
    errors, _, clusters, strata = made(3)
    feature = (strata == 2).astype(float)[:, np.newaxis]
    assert associations(errors, feature, clusters).p_values[0] < 1e-6
    within = associations(errors, feature, clusters, strata)
    assert within.p_values[0] == 1
    assert within.rates[0] == pytest.approx(within.expected[0])


def test_features_of_all_or_none_are_not_tested_and_their_rates_have_bounds():
    errors, clusters = np.array([1.0, 0, 1, 0]), np.arange(4)
    found = associations(errors, np.array([[1.0, 0]] * 4), clusters)
    assert found.p_values.tolist() == [1, 1]
    assert found.rates[0] == 0.5
    assert np.isnan(found.rates[1])
    assert associations(errors, np.empty((4, 0)), clusters).p_values.shape == (0,)
    low, high = wilson_interval(np.array([0.0]), np.array([20]), 0.95)
    assert low[0] == 0
    assert high[0] == pytest.approx(0.1611, abs=1e-4)  # 1.96² / (20 + 1.96²)
    with pytest.raises(ScoresError, match="confidence is 95"):
        associations(errors, np.ones((4, 1)), clusters, confidence=95)
