"""Confidence intervals that respect that the examples of one image are not independent."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ScoresError
from .kernels import check_credit, label_codes

Interval = tuple[float, float]

MIN_RESAMPLES = 100

# 2**20 draws of 8 bytes: the weights of one chunk and their float copy stay near 16 MB.
_DRAWS_PER_CHUNK = 2**20


class Intervals(NamedTuple):
    """Confidence intervals (low, high), each within [0, 1].

    Attributes:
        micro: of the mean over all examples.
        macro: of the unweighted mean over categories; equal to ``micro`` without categories.
        categories: of each category's mean, in the order in which the categories first appear.
    """

    micro: Interval
    macro: Interval
    categories: dict[str, Interval]


class _Totals(NamedTuple):
    """Sum of values and number of examples, float64 arrays of shape (rows, categories)."""

    sums: NDArray[np.float64]
    counts: NDArray[np.float64]


def cluster_bootstrap(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    categories: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Intervals:
    """Percentile intervals of mean credit, from resampling whole clusters (images) with replacement.

    A resample draws as many clusters as there are. Its micro mean is the summed values over the summed counts
    of the clusters drawn; its macro mean is the mean over the categories that it contains; a category's
    interval is taken over the resamples that contain it.

    Three groups have resamples without spread, which says nothing about their uncertainty:

    - all values 0 or all 1: the exact binomial (Clopper-Pearson) interval for that many clusters without a
      single success or failure. Clusters are counted, not examples: at worst an image's examples are right
      or wrong together. A model that is right on 20 images of 20 may still be wrong on 1 in 6.
    - any other values from one single cluster: (0, 1), since one image shows no variation between images.
    - macro, when every category is one of these: the means of the categories' low and of their high bounds,
      which is conservative.

    Other constant values, such as a constant scorer's 0.5 when ties count half, give an interval of zero
    width. Below some 30 clusters percentile intervals are known to be too narrow.

    The result does not depend on the order of rows, on the names of the clusters, or on global random state.
    It depends on ``seed``, and within resampling error on the names of the categories. Time grows with the
    number of resamples times that of distinct clusters; memory with that of clusters times categories.

    Args:
        values: array-like of shape (n,), in [0, 1]: the credit of each example.
        clusters: one label per example, such as its image; ``None`` makes each example its own cluster.
        categories: one label per example; ``None`` for a set without categories.
        confidence: coverage, strictly between 0 and 1.
        resamples: number of resamples, at least 100.
        seed: seed of the random draws, a whole number from 0.

    Returns:
        The intervals of the micro mean, the macro mean and each category's mean.

    Raises:
        ScoresError: no values, NaN or values outside [0, 1], labels missing or of another number, or an
            option outside its range.

    Source: cluster (pairs) bootstrap, Davison and Hinkley, Bootstrap Methods and their Application, 1997,
    sections 2.4, 3.8 and 5.3; exact interval, Clopper and Pearson, Biometrika 26, 1934.

    >>> low, high = cluster_bootstrap([1, 1, 1, 1], clusters=["a", "a", "b", "b"]).micro
    >>> round(low, 4), high  # 0.025 ** (1 / 2) = 0.1581
    (0.1581, 1.0)
    """
    _check_options(confidence, resamples, seed)
    credit = check_credit(values)
    n = len(credit)
    cluster = np.arange(n) if clusters is None else label_codes(clusters, n, "clusters")[1]
    labels = np.full(n, "all") if categories is None else categories
    names, codes = label_codes(labels, n, "categories")
    # Columns in the order of names, not of appearance: the draws must not see the order of rows.
    column_of = {name: column for column, name in enumerate(sorted(names))}
    category = np.array([column_of[name] for name in names])[codes]

    per_cluster = _totals(credit, cluster, category)
    resampled = _resample(per_cluster, resamples, seed)
    columns, macro = _intervals(per_cluster, resampled, confidence)
    return Intervals(
        micro=_intervals(_pool(per_cluster), _pool(resampled), confidence)[1],
        macro=macro,
        categories={} if categories is None else {name: columns[column_of[name]] for name in names},
    )


def _check_options(confidence: float, resamples: int, seed: int) -> None:
    if not 0 < confidence < 1:
        raise ScoresError(f"confidence is {confidence!r}; it must lie strictly between 0 and 1, such as 0.95")
    for name, value, least in (("resamples", resamples, MIN_RESAMPLES), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ScoresError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def _totals(credit: NDArray[np.float64], cluster: NDArray[np.intp], category: NDArray[np.intp]) -> _Totals:
    shape = (int(cluster.max()) + 1, int(category.max()) + 1)
    cell = cluster * shape[1] + category
    cells = shape[0] * shape[1]
    return _Totals(
        np.bincount(cell, credit, cells).reshape(shape).astype(np.float64),
        np.bincount(cell, minlength=cells).reshape(shape).astype(np.float64),
    )


def _pool(totals: _Totals) -> _Totals:
    return _Totals(*(part.sum(axis=1, keepdims=True) for part in totals))


def _resample(per_cluster: _Totals, resamples: int, seed: int) -> _Totals:
    """Totals of each resample, shape (resamples, categories)."""
    # Clusters of equal content are interchangeable: drawing kinds of clusters, sorted, is the same
    # experiment, faster, and blind to the clusters' names. Rounding keeps sums of thirds in one kind.
    content = np.hstack(per_cluster).round(12)
    kinds, members = np.unique(content, axis=0, return_counts=True)
    draws = int(members.sum())
    generator = np.random.default_rng(seed)
    chunk = max(1, _DRAWS_PER_CHUNK // len(kinds))
    totals = np.empty((resamples, kinds.shape[1]))
    for start in range(0, resamples, chunk):
        part = totals[start : start + chunk]
        part[:] = generator.multinomial(draws, members / draws, size=len(part)) @ kinds
    return _Totals(*np.hsplit(totals, 2))


def _intervals(per_cluster: _Totals, resampled: _Totals, confidence: float) -> tuple[list[Interval], Interval]:
    """Interval of each category, and of their unweighted mean."""
    with np.errstate(invalid="ignore"):
        means = resampled.sums / resampled.counts  # NaN where a resample lacks the category
    edges = [
        _edge_interval(sums, counts, confidence)
        for sums, counts in zip(per_cluster.sums.T, per_cluster.counts.T, strict=True)
    ]
    columns = [edge or _percentiles(column, confidence) for edge, column in zip(edges, means.T, strict=True)]
    if all(edges):
        low, high = (math.fsum(bounds) / len(bounds) for bounds in zip(*columns, strict=True))
        return columns, (low, high)
    return columns, _percentiles(np.nanmean(means, axis=1), confidence)


def _edge_interval(sums: NDArray[np.float64], counts: NDArray[np.float64], confidence: float) -> Interval | None:
    """Interval of a group whose resamples cannot spread, ``None`` where they can."""
    clusters = int(np.count_nonzero(counts))
    bound = ((1 - confidence) / 2) ** (1 / clusters)
    if not sums.any():
        return 0.0, 1 - bound
    if (sums == counts).all():
        return bound, 1.0
    return (0.0, 1.0) if clusters == 1 else None


def _percentiles(means: NDArray[np.float64], confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(means, [tail, 1 - tail]).tolist()
    return low, high
