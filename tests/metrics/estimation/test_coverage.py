"""Coverage of intervals of means in simulation, with few clusters, uneven ones and uneven categories."""

import numpy as np
import pytest

from vl_assay.metrics.estimation.bootstrap import cluster_bootstrap

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
        low, high = cluster_bootstrap(*draw(rng, *cell, alike), resamples=resamples).micro
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
        low, high = cluster_bootstrap(np.concatenate(values), np.concatenate(clusters), labels, resamples=100).macro
        covered += low <= np.mean(list(CATEGORIES.values())) <= high
    assert covered >= 930
