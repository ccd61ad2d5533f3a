"""Associations of errors with features: exact tests within strata, on one example of each cluster."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import fisher_exact, hypergeom

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.association import associations, exact_p_value, wilson_interval
from vl_assay.metrics.estimation.paired import holm


def made(seed, n=600, images=150, features=5, effect=0.0):
    """Errors that depend on the image and the category, and on the first feature by `effect`."""
    rng = np.random.default_rng(seed)
    clusters, strata = rng.integers(images, size=n), rng.integers(3, size=n)
    has = rng.random((n, features)) < 0.2 + 0.15 * strata[:, np.newaxis]
    chance = 0.1 + 0.2 * strata + 0.3 * rng.random(images)[clusters] + effect * has[:, 0]
    return rng.random(n) < chance, has, clusters, strata


def p_value_by_permutation(errors, has, strata):
    """The share of permutations of errors within strata with a number of errors that is no likelier than the found."""
    by_stratum = [
        [int(np.dot(each, has[strata == stratum])) for each in permutations(errors[strata == stratum].astype(int))]
        for stratum in np.unique(strata)
    ]
    chances = np.bincount([sum(counts) for counts in product(*by_stratum)]).astype(float)
    return chances[chances <= chances[(errors & has).sum()]].sum() / chances.sum()


def test_rates_and_expectations_are_those_of_plain_loops():
    errors, features, clusters, strata = made(1, effect=0.2)
    for found, has in zip(associations(errors, features, clusters, strata), features.T, strict=True):
        counts = has.sum(), len(set(clusters[has])), len(set(clusters[~has]))
        assert (found.n, found.clusters, found.other_clusters) == counts
        assert found.rate == pytest.approx(errors[has].mean())
        assert found.expected == pytest.approx(np.mean([errors[strata == each].mean() for each in strata[has]]))
        assert found.low < found.rate < found.high


@pytest.mark.parametrize("seed", range(4))
def test_p_values_are_those_of_all_permutations_within_strata(seed):
    rng = np.random.default_rng(seed)
    strata = np.repeat([0, 1, 2], [5, 4, 1])
    errors, has = rng.random(10) < 0.6, rng.random(10) < 0.5
    assert exact_p_value(errors, has, strata) == pytest.approx(p_value_by_permutation(errors, has, strata))


def test_few_errors_without_the_feature_are_no_association():
    """300 examples, 30 errors, 15 with the feature, and none of these wrong; then each example three times."""
    errors, has = np.arange(300) < 30, np.arange(300) >= 285
    expected = fisher_exact([[0, 15], [30, 255]]).pvalue  # 0.378
    assert associations(errors, has[:, np.newaxis], np.arange(300))[0].p_value == pytest.approx(expected)
    images = np.repeat(np.arange(300), 3)
    assert associations(errors[images], has[images, np.newaxis], images)[0].p_value == pytest.approx(expected)
    # Far in the tail: all 15 are wrong.
    errors = ~has[::-1] & (np.arange(300) >= 270)
    assert exact_p_value(errors, errors, np.zeros(300, dtype=int)) == pytest.approx(hypergeom.pmf(15, 300, 15, 15))


@pytest.mark.slow
def test_level_holds_for_rare_errors_and_for_images_whose_examples_are_wrong_together():
    """Features of whole images and of single examples: the chance of a significant one among many is at most 5 %."""
    rejected, significant = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        clusters, strata = np.repeat(np.arange(60), 5), rng.integers(2, size=300)
        for rare in (True, False):
            rate = 0.03 if rare else (rng.random(60) < 0.1)[clusters]
            features = np.hstack([(rng.random((60, 30)) < 0.3)[clusters], rng.random((300, 30)) < 0.1])
            found = associations(rng.random(300) < rate, features, clusters, strata)
            rejected.append([each.p_value <= 0.05 for each in found])
            significant.append(holm([each.p_value for each in found]).min() <= 0.05)
            assert not any(each.p_value <= 0.05 and each.low <= each.expected <= each.high for each in found)
    assert np.mean(rejected, axis=0).max() <= 0.05
    assert np.mean(significant) <= 0.05


def test_a_feature_that_most_images_have_and_lack_is_compared_on_as_many_images_with_it_as_without():
    """Of 40 images with an example of each kind, 20 stand for each: 20 of 20 errors against 0 of 20."""
    has = np.tile([True, False], 40)
    [found] = associations(has, has[:, np.newaxis], np.repeat(np.arange(40), 2))
    assert (found.clusters, found.other_clusters) == (40, 40)
    exact = fisher_exact([[20, 0], [0, 20]]).pvalue
    assert exact < found.p_value < 1e-9  # the interval's: 40 of 40 against an expected half, z = 40 ** 0.5


def test_examples_without_the_feature_are_taken_from_the_categories_that_have_it():
    """20 images with an example in each of two categories; 3 of them have the feature in the first, and are wrong."""
    first = np.tile([True, False], 20)
    has = first & (np.arange(40) < 6)
    [found] = associations(has, has[:, np.newaxis], np.repeat(np.arange(20), 2), first)
    assert found.p_value == pytest.approx(1 / 1140)  # 20 * 19 * 18 / 6 ways to choose 3


def test_features_of_all_or_none_are_not_tested_and_their_rates_have_bounds():
    errors, clusters = np.array([True, False, True, False]), np.arange(4)
    of_all, of_none = associations(errors, np.array([[1.0, 0]] * 4), clusters)
    assert (of_all.p_value, of_none.p_value, of_all.rate) == (1, 1, 0.5)
    assert np.isnan(of_none.rate)
    assert associations(errors, np.empty((4, 0)), clusters) == []
    low, high = wilson_interval(np.array([0.0]), np.array([20]), 0.95)
    assert low[0] == 0
    assert high[0] == pytest.approx(0.1611, abs=1e-4)  # 1.96² / (20 + 1.96²)
    with pytest.raises(ScoresError, match="confidence is 95"):
        associations(errors, np.ones((4, 1)), clusters, confidence=95)
