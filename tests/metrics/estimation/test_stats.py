"""Bootstrap intervals: against other libraries, in simulation, and where resampling has nothing to say."""

import math
import random
import tracemalloc

import numpy as np
import pytest
from scipy.stats import binomtest, t

from vl_assay.metrics.estimation import bootstrap as stats


def example_set(seed, images=1_200, per_image=2):
    """Credits of 0, 1/2 and 1 that depend on the image, with images and categories of unequal size."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, images, images * per_image)
    ability = rng.beta(2, 1, images)
    values = (rng.random(len(clusters)) < ability[clusters]).astype(float)
    values[rng.random(len(values)) < 0.1] = 0.5
    return values, clusters, rng.choice(["swap", "add", "replace"], len(values), p=[0.3, 0.3, 0.4])


def by_hand(values, clusters, categories, resamples, seed):
    """Micro, macro and category means of resamples that are drawn one cluster at a time."""
    members = {}
    for value, cluster, category in zip(values, clusters, categories, strict=True):
        members.setdefault(cluster, []).append((value, category))
    rng = random.Random(seed)
    rows = []
    for _ in range(resamples):
        drawn = [pair for cluster in rng.choices(list(members), k=len(members)) for pair in members[cluster]]
        by_category = {name: [v for v, c in drawn if c == name] for name in sorted(set(categories))}
        means = [math.fsum(part) / len(part) if part else math.nan for part in by_category.values()]
        rows.append([np.mean([v for v, _ in drawn]), np.nanmean(means), *means])
    return np.nanquantile(rows, [0.05, 0.95], axis=0).T


def test_intervals_are_those_of_a_bootstrap_written_out():
    values, clusters, categories = example_set(seed=1, images=900)
    intervals = stats.cluster_bootstrap(values, clusters, categories, confidence=0.9)
    expected = by_hand(values, clusters, categories, resamples=600, seed=1)
    actual = [intervals.micro, intervals.macro, *(intervals.categories[name] for name in sorted(set(categories)))]
    # The 5 % quantile of 600 draws has a standard error near 2 * sd / sqrt(600), 8 % of an sd; an interval
    # is 3.3 sd wide.
    for found, wanted in zip(actual, expected, strict=True):
        assert found == pytest.approx(wanted.tolist(), abs=0.08 * np.ptp(wanted))


@pytest.mark.parametrize("images", [1, 25])
@pytest.mark.parametrize("value", [0, 1])
def test_all_right_or_all_wrong_gets_the_exact_bound_for_the_number_of_images(value, images):
    confidence = 0.9
    clusters = np.repeat(np.arange(images), 4)
    intervals = stats.cluster_bootstrap(np.full(4 * images, value), clusters, confidence=confidence)
    expected = binomtest(value * images, images).proportion_ci(confidence, method="exact")
    assert intervals.micro == pytest.approx(tuple(expected), abs=1e-12)


def test_clusters_of_one_mean_leave_room_for_others():
    # With 5 images, a kind of image that none of them is may still have a share of 1 - 0.025 ** (1/5) = 0.5218.
    unseen = 1 - 0.025 ** (1 / 5)
    for values, mean in (([1] * 10, 1.0), ([0] * 10, 0.0), ([0.5] * 10, 0.5), ([1, 0] * 5, 0.5)):
        low, high = stats.cluster_bootstrap(values, np.repeat(np.arange(5), 2)).micro
        assert (low, high) == pytest.approx(((1 - unseen) * mean, (1 - unseen) * mean + unseen))
    low, high = stats.cluster_bootstrap([1, 0, 1], ["a", "a", "a"]).micro
    assert (low, high) == pytest.approx((0.025 * 2 / 3, 0.025 * 2 / 3 + 0.975))


def test_a_resample_without_a_category_averages_the_others():
    # One row of resamples without "rare": its mean over categories is that of "common", not half of it.
    totals = stats.resampled_totals([[1, 0], [0, 1]], ["a", "b"], resamples=100)
    assert (totals == [2, 0]).all(axis=1).any()
    low, high = stats.cluster_bootstrap([1, 1] + [1, 0] * 400, categories=["rare"] * 2 + ["common"] * 800).macro
    # No wider than the mean of both intervals: 0.025 ** (1 / 2) = 0.158 to 1, and 0.465 to 0.535.
    assert (low, high) == pytest.approx(((0.158 + 0.465) / 2, (1 + 0.535) / 2), abs=0.003)


def test_categories_that_share_images_vary_together_in_the_macro_mean():
    values, images = np.array([1, 0] * 20), np.arange(40)
    labels = ["a"] * 40 + ["b"] * 40
    apart = stats.cluster_bootstrap([*values, *values], range(80), labels).macro
    alike, opposed = (
        stats.cluster_bootstrap([*values, *other], [*images, *images], labels).macro for other in (values, 1 - values)
    )
    assert np.ptp(apart) / 20 < np.ptp(opposed) < np.ptp(apart) / 2
    assert np.ptp(alike) == pytest.approx(np.sqrt(2) * np.ptp(apart), rel=0.05)


def test_few_clusters_get_wilsons_interval_with_students_quantile():
    """Four images of two examples, right 2, 2, 1 and 0 times: 5 of 8."""
    low, high = stats.cluster_bootstrap([1, 1, 1, 1, 1, 0, 0, 0], np.repeat(np.arange(4), 2)).micro
    # Left out, an image changes the mean by (s - 2 m) / 6: squares (.75² + .75² + .25² + 1.25²) / 36, times 3 / 4.
    jackknife = (0.5625 + 0.5625 + 0.0625 + 1.5625) / 36 * 3 / 4
    mean = (0.625 * 4 + 2) / 8  # with two more images of 1, and of 0
    variance = jackknife + max(mean * (1 - mean) / 4 - jackknife, 0) / 4
    n, z = 0.625 * 0.375 / variance, t.ppf(0.975, 3)
    roots = np.roots([1 + z**2 / n, -2 * 0.625 - z**2 / n, 0.625**2])  # (p - 0.625)² = z² p (1 - p) / n
    assert (low, high) == pytest.approx(tuple(sorted(roots)))


def test_memory_stays_flat_at_the_size_of_sugarcrepe():
    rng = np.random.default_rng(10)
    clusters, categories = rng.integers(0, 1_560, 7_511), rng.integers(0, 7, 7_511)
    values = (rng.random(7_511) < 0.75).astype(float)
    tracemalloc.start()
    stats.cluster_bootstrap(values, clusters, categories, resamples=2_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All weights at once would be 2,000 x 1,560 x 8 bytes = 25 MB, twice; a chunk is 8 MB, twice.
    assert peak < 22 * 2**20


def test_macro_of_perfect_categories_takes_the_mean_of_their_bounds():
    # One image of "few", two of "many": lows 0.025 and 0.025 ** (1 / 2) = 0.158, so macro (0.025 + 0.158) / 2.
    intervals = stats.cluster_bootstrap([1, 1, 1], ["a", "b", "c"], ["few", "many", "many"])
    assert intervals.macro == pytest.approx(((0.025 + 0.025**0.5) / 2, 1.0))
    assert intervals.micro == pytest.approx((0.025 ** (1 / 3), 1.0))


# Clusters, examples of each (None: heavy-tailed, 1 to 100), share of right examples.
CELLS = [(60, 5, 0.95), (60, None, 0.7), (60, None, 0.95), (30, None, 0.9), (20, 5, 0.8), (10, 5, 0.8), (6, 5, 0.8)]
MANY = [(300, 5, 0.8), (1_000, 1, 0.9)]
CATEGORIES = {69: 0.95, 206: 0.9, 79: 0.8, 165: 0.7, 141: 0.6, 67: 0.9, 24: 0.97}


def chances(rng, share, alike, clusters):
    """The chance of each cluster's examples, which correlate by `alike`."""
    if alike in (0, 1):
        return np.full(clusters, share) if not alike else (rng.random(clusters) < share).astype(float)
    return rng.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), clusters)


def draw(rng, clusters, size, share, alike):
    """Values and clusters of examples."""
    sizes = np.full(clusters, size) if size else np.minimum(1 + rng.pareto(1.2, clusters), 100).astype(int)
    names = np.repeat(np.arange(clusters), sizes)
    return (rng.random(len(names)) < chances(rng, share, alike, clusters)[names]).astype(float), names


def coverage(cell, alike, sets, resamples=100):
    """The share of sets whose interval contains the truth."""
    rng, covered = np.random.default_rng(11), 0
    for _ in range(sets):
        low, high = stats.cluster_bootstrap(*draw(rng, *cell, alike), resamples=resamples).micro
        covered += low <= cell[2] + 1e-12 and high >= cell[2] - 1e-12
    return covered / sets


@pytest.mark.parametrize("cell", [(30, None, 0.9), (6, 5, 0.8)])
def test_intervals_over_few_clusters_cover(cell):
    # Percentile intervals cover 81 % and 87 %; of 200 sets the share has a standard error of 1.8 %.
    assert coverage(cell, 1 if cell[1] is None else 0, sets=200) >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0, 0.3, 1])
@pytest.mark.parametrize("cell", [*CELLS, *MANY])
def test_intervals_cover_93_of_100_and_over_many_equal_clusters_95(cell, alike):
    found = coverage(cell, alike, sets=1_000, resamples=1_000 if cell in MANY else 100)
    # Of 1,000 sets the share has a standard error of 0.7 %; means of few distinct values are covered more often.
    assert 0.93 <= found <= (0.98 if cell in MANY else 1)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["shared images", "own images"])
@pytest.mark.parametrize("alike", [0, 0.3, 1])
def test_macro_intervals_over_uneven_categories_cover_93_of_100(alike, shared):
    rng, covered, images = np.random.default_rng(12), 0, 104
    labels = np.repeat([f"category {n}" for n in CATEGORIES], list(CATEGORIES))
    for _ in range(1_000):
        values, clusters = [], []
        for number, (n, share) in enumerate(CATEGORIES.items()):
            names = rng.integers(0, images, n) if shared else np.arange(n) // 3
            values.append(rng.random(n) < chances(rng, share, alike, images)[names])
            clusters.append(names if shared else names + images * number)
        low, high = stats.cluster_bootstrap(
            np.concatenate(values), np.concatenate(clusters), labels, resamples=100
        ).macro
        covered += low <= np.mean(list(CATEGORIES.values())) <= high
    assert covered >= 930
