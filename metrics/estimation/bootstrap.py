"""Cluster bootstrap: confidence intervals for examples that are not independent within an image."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from .checks import Labels, check_values, cluster_codes, label_codes

Interval = tuple[float, float]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

MIN_RESAMPLES = 100

# Percentile intervals keep their coverage from so many clusters of equal size on; see `effective_clusters`.
FEW_CLUSTERS = 300

# 2**20 draws of 8 bytes: one chunk and its float copy stay near 16 MB.
_DRAWS_PER_CHUNK = 2**20
# A sixteenth of a chunk fits a processor's cache.
_CACHE_SHARE = 16
_CLUSTERS_PER_KIND = 8

# Means closer than this, relative to the largest value, differ by rounding only.
_MEAN_ROUNDING = 1e-12


class Intervals(NamedTuple):
    """Intervals (low, high), within [0, 1], of the mean over examples and over categories, by category and by group."""

    micro: Interval
    macro: Interval
    categories: dict[str, Interval]
    groups: dict[Any, tuple[Interval, Interval]]


class _Totals(NamedTuple):
    """Totals by category: sums of values and numbers of examples by cluster, squares, and totals of resamples.

    All are float64 arrays whose last axis is the category; the axis before it is the cluster or the resample.
    """

    sums: Floats
    counts: Floats
    squares: Floats
    drawn_sums: Floats
    drawn_counts: Floats

    def select(self, columns: list[int]) -> _Totals:
        """Return the totals of some categories."""
        return _Totals(*(total[..., columns] for total in self))

    def pooled(self) -> _Totals:
        """Return the totals over the examples of all categories, as of a single category."""
        return _Totals(*(total.sum(axis=-1, keepdims=True) for total in self))


def cluster_bootstrap(
    values: ArrayLike,
    clusters: Labels | None = None,
    categories: Labels | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    groups: Mapping[Any, Collection[str]] | None = None,
) -> Intervals:
    """Compute intervals of means, allowing for dependence between the examples of a cluster (an image).

    From 300 effective clusters on (see `effective_clusters`) they are percentile intervals from resampling whole
    clusters with replacement. A resample draws as many clusters as there are. Its micro mean is the summed values over
    the summed counts of the clusters drawn; its macro mean is the mean over the categories that it contains; a
    category's interval is taken over the resamples that contain it.

    With fewer, percentile intervals are too narrow: at 30 images with 1 to 100 captions each, 95 % intervals cover only
    81 %. The interval is then Wilson's, for the number of independent examples that has the variance of the mean, with
    the quantile of Student's t distribution. The variance is the jackknife estimate over clusters. Identical values
    within each cluster would give the variance of as many independent examples as there are clusters. If this second
    variance is larger, the difference divided by the number of clusters is added, as one more cluster would add it.
    Degrees of freedom are one less than the effective clusters, and for a macro mean they follow Welch and
    Satterthwaite. In simulation 95 % intervals cover 93 to 99 %, the more the fewer and the less even the clusters are.

    Where all clusters of a group have the same mean v, resamples have no spread, although the mean is
    uncertain. A kind of cluster that none of G showed may still have a share of up to b = 1 - ((1 - confidence) / 2)
    ** (1 / G), the exact binomial (Clopper-Pearson) bound, and any mean: the interval is [(1 - b) v, (1 - b) v + b].
    For values all 0 or all 1 that is the Clopper-Pearson interval of G clusters without a single success or failure: a
    model that is right on 20 images of 20 may still be wrong on 1 in 6. Clusters are counted, not examples: at worst
    an image's examples are right or wrong together. The mean of the categories' low and of their high bounds is a
    conservative macro interval: it is taken if every category is of this kind, and no macro interval is wider.

    The result does not depend on the order of rows, on the names of the clusters, or on global random state.
    It depends on ``seed``, and within resampling error on the names of the categories. Time grows with resamples times
    distinct clusters, memory with clusters times categories.

    Args:
        values: array-like of shape (n,), in [0, 1]: the score of each example.
        clusters: one label per example, such as its image; ``None`` makes each example its own cluster.
        categories: one label per example; ``None`` for a set without categories.
        confidence: coverage, strictly between 0 and 1.
        resamples: number of resamples, at least 100.
        seed: seed of the random draws, a whole number from 0.
        groups: names of groups and of the categories in each.

    Returns:
        The intervals of the micro mean, the macro mean (without categories the same), each category's mean, in order of
        first appearance, and the micro and macro mean of each group of categories.

    Raises:
        ScoresError: no values, NaN or values outside [0, 1], labels missing or of another number, or an
            option outside its range.

    Source: cluster (pairs) bootstrap, Davison and Hinkley, Bootstrap Methods and their Application, 1997,
    sections 2.4, 3.8 and 5.3; exact interval, Clopper and Pearson, Biometrika 26, 1934; Wilson's interval of clustered
    examples, Dean and Pagano, Journal of Survey Statistics and Methodology 3, 2015.

    >>> low, high = cluster_bootstrap([1, 1, 1, 1], clusters=["a", "a", "b", "b"]).micro
    >>> round(low, 4), high  # 0.025 ** (1 / 2) = 0.1581
    (0.1581, 1.0)
    """
    check_options(confidence, resamples, seed)
    values = check_values(values)
    n = len(values)
    cluster = cluster_codes(clusters, n)
    labels = np.full(n, "all") if categories is None else categories
    names, codes = label_codes(labels, n, "categories")
    # Columns in the order of names, not of appearance: the draws must not see the order of rows.
    column_of = {name: column for column, name in enumerate(sorted(names))}
    category = np.array([column_of[name] for name in names])[codes]

    sums, counts = _totals(values, cluster, category)
    drawn = np.hsplit(_draw(np.hstack([sums, counts]), resamples, seed), 2)
    every = _Totals(sums, counts, np.bincount(category, values**2).astype(np.float64), drawn[0], drawn[1])
    columns, macro = _intervals(every, confidence)
    intervals: dict[Any, tuple[Interval, Interval]] = {}
    for group, members in (groups or {}).items():
        some = every.select(sorted(column_of[name] for name in members))
        intervals[group] = _intervals(some.pooled(), confidence)[1], _intervals(some, confidence)[1]
    return Intervals(
        micro=_intervals(every.pooled(), confidence)[1],
        macro=macro,
        categories={} if categories is None else {name: columns[column_of[name]] for name in names},
        groups=intervals,
    )


def cluster_counts(clusters: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Count how often each cluster is in each resample, which draws as many clusters as there are, with replacement.

    All resamples are drawn here, but for the shortcut of `resampled_totals`.

    Yields:
        Arrays of shape (rows, clusters), of whole numbers; `resamples` rows in all, the same for a seed however they
        are divided.
    """
    generator = np.random.default_rng(seed)
    # Look-ups are several times faster if a chunk fits a processor's cache.
    for rows in chunks(resamples, _CACHE_SHARE * clusters):
        drawn = generator.integers(clusters, size=(rows, clusters), dtype=np.int32)
        drawn += clusters * np.arange(rows, dtype=np.int32)[:, np.newaxis]
        counts = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        # As floats, which hold whole numbers exactly: a product of whole numbers and floats is slow.
        yield counts.astype(np.float64)


def resampled_weights(clusters: Indices, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each example is in each resample, for scores that are not functions of totals.

    Args:
        clusters: the number of each example's cluster, of shape (n,).
        resamples, seed: as for `cluster_bootstrap`.

    Yields:
        For each resample an array of shape (n,), of whole numbers.
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    for counts in cluster_counts(int(codes.max()) + 1, resamples, seed):
        yield from counts[:, codes]


def resampled_totals(
    columns: ArrayLike, clusters: Labels | None = None, resamples: int = 10_000, seed: int = 0
) -> Floats:
    """Sum columns over resamples of whole clusters, for scores that are functions of totals, such as an F1.

    Args:
        columns: array-like of shape (n, m): what each example adds to each of m totals.
        clusters, resamples, seed: as for `cluster_bootstrap`.

    Returns:
        float64 array of shape (resamples, m). It does not depend on the order of rows or the names of the clusters.

    >>> totals = resampled_totals([[1, 1], [0, 1]], clusters=["one image"] * 2, resamples=100)
    >>> totals.shape, totals[0].tolist()
    ((100, 2), [1.0, 2.0])
    """
    check_options(None, resamples, seed)
    values = np.asarray(columns, dtype=np.float64)
    return _draw(cluster_sums(values, cluster_codes(clusters, len(values))), resamples, seed)


def cluster_sums(columns: Floats, cluster: Indices) -> Floats:
    """Sum the columns of each cluster: of shape (clusters, m), for columns of shape (n, m)."""
    order = np.argsort(cluster, kind="stable")
    return np.add.reduceat(columns[order], np.flatnonzero(np.diff(cluster[order], prepend=-1)), axis=0)


def _draw(content: Floats, resamples: int, seed: int) -> Floats:
    """Sum resamples of the rows of `content`, of shape (clusters, m): of shape (resamples, m)."""
    # Clusters of equal content are interchangeable: drawing kinds of clusters, sorted, is the same experiment, faster,
    # and does not depend on the clusters' names. Rounding keeps sums of thirds in one kind.
    kinds, members = np.unique(content.round(12), axis=0, return_counts=True)
    clusters = int(members.sum())
    if _CLUSTERS_PER_KIND * len(members) > clusters:
        kinds = np.repeat(kinds, members, axis=0)
        return np.concatenate([counts @ kinds for counts in cluster_counts(clusters, resamples, seed)])
    generator, shares = np.random.default_rng(seed), members / clusters
    sizes = chunks(resamples, clusters)
    return np.concatenate([generator.multinomial(clusters, shares, size=rows) @ kinds for rows in sizes])


def mean_interval(values: Floats, cluster: Indices, confidence: float, resamples: int, seed: int) -> Interval | None:
    """Compute the percentile interval of the mean of finite values over resampled clusters.

    Args:
        values: of shape (n,).
        cluster: the number of each example's cluster, of shape (n,).
        confidence, resamples, seed: as for `cluster_bootstrap`.

    Returns:
        None if all clusters have the same mean.
    """
    # Scaled by a power of two, which rounds nothing, so that sums of huge values do not overflow.
    _, exponent = np.frexp(np.abs(values).max())
    scaled = np.ldexp(values, -exponent)
    if cluster_standard_error(scaled, cluster) is None:
        return None
    totals = np.column_stack(cluster_totals(scaled, cluster))
    totals = totals[np.lexsort(totals.T[::-1])]  # blind to the clusters' names
    drawn = np.concatenate([counts @ totals for counts in cluster_counts(len(totals), resamples, seed)])
    low, high = percentile_interval(drawn[:, 0] / drawn[:, 1], confidence, cluster)
    return float(np.ldexp(low, exponent)), float(np.ldexp(high, exponent))


def cluster_totals(values: Floats, cluster: Indices) -> tuple[Floats, Indices]:
    """Return the sum of values and number of examples of each cluster; rounding does not depend on the row order."""
    order = np.argsort(values)
    codes = np.unique(cluster[order], return_inverse=True)[1]
    return np.bincount(codes, values[order]).astype(np.float64), np.bincount(codes)


def cluster_standard_error(values: Floats, cluster: Indices) -> float | None:
    """Return the standard error of a mean, allowing for dependence within clusters.

    Returns:
        The sandwich estimate over G clusters, times the root of G / (G - 1); ``None`` for one cluster, or where the
        clusters' means do not differ.

    Source: Liang and Zeger, Biometrika 73, 1986.
    """
    sums, counts = cluster_totals(values, cluster)
    clusters = len(sums)
    if clusters == 1 or np.ptp(sums / counts) <= _MEAN_ROUNDING * np.abs(values).max():
        return None
    residuals = sums - counts * (math.fsum(sums) / len(values))
    return math.sqrt(clusters / (clusters - 1) * math.fsum(residuals**2)) / len(values)


def effective_clusters(counts: NDArray[Any]) -> Floats:
    """Return the number of equally large clusters with which a mean would vary as much, in [1, clusters].

    Args:
        counts: of shape (clusters, …): the number of examples of each cluster.

    Source: Kish, Survey Sampling, 1965.

    >>> effective_clusters(np.array([1, 1, 10])).item()  # 12² / (1 + 1 + 100)
    1.411764705882353
    """
    return counts.sum(axis=0) ** 2 / (counts.astype(np.float64) ** 2).sum(axis=0)


def t_quantile(confidence: float, clusters: float) -> float:
    """Return the two-sided Student's t quantile for a variance estimated from this number of effective clusters."""
    if clusters >= FEW_CLUSTERS:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    from scipy.special import stdtrit  # longer to import than all that most commands need

    return float(stdtrit(max(clusters - 1, 1), (1 + confidence) / 2))


def percentile_interval(values: Floats, confidence: float, clusters: Indices | None = None) -> Interval:
    """Return the central interval, with equal shares of values below and above it; NaN values are ignored.

    Args:
        values: a score in resamples, of shape (resamples,).
        confidence: coverage, strictly between 0 and 1.
        clusters: the number of each example's cluster, if clusters were resampled. With fewer than `FEW_CLUSTERS`
            effective ones the interval is expanded, as Student's t distribution expands the interval of a mean.

    Source: expanded percentile interval, Hesterberg, The American Statistician 69, 2015.
    """
    tail = (1 - confidence) / 2
    if clusters is not None:
        effective = float(effective_clusters(np.bincount(clusters)))
        if effective < FEW_CLUSTERS:
            tail = NormalDist().cdf(-t_quantile(confidence, effective) * math.sqrt(effective / max(effective - 1, 1)))
    low, high = np.nanquantile(values, [tail, 1 - tail]).tolist()
    return low, high


def wilson_interval(shares: Any, n: Any, confidence: float, clusters: float = math.inf) -> tuple[Any, Any]:
    """Return Wilson's score interval for shares of n independent cases, in [0, 1]; NaN where n is 0.

    Args:
        shares: in [0, 1], of any shape.
        n: number of cases, of the same shape.
        confidence: coverage, strictly between 0 and 1.
        clusters: the effective number of clusters from which n was estimated, if n is not a count.

    Source: Wilson, Journal of the American Statistical Association 22, 1927.

    >>> [round(float(bound), 3) for bound in wilson_interval(1.0, 10, 0.95)]
    [0.722, 1.0]
    """
    z = t_quantile(confidence, clusters)
    with np.errstate(invalid="ignore", divide="ignore"):
        half = z**2 / (2 * n)
        reach = np.sqrt(2 * half * shares * (1 - shares) + half**2)
        low, high = ((shares + half + sign * reach) / (1 + 2 * half) for sign in (-1, 1))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def unseen_share(clusters: int, confidence: float) -> float:
    """Return the largest share of a kind of cluster that none of this many clusters showed (Clopper-Pearson bound)."""
    return 1 - ((1 - confidence) / 2) ** (1 / clusters)


def chunks(rows: int, draws: int) -> Iterator[int]:
    """Return the number of rows to draw at a time, given the draws per row, so that memory stays bounded."""
    step = max(1, _DRAWS_PER_CHUNK // draws)
    return (min(step, rows - start) for start in range(0, rows, step))


def check_options(confidence: float | None, resamples: int, seed: int) -> None:
    """Raise a `ScoresError` if a resampling option is outside its range; None is a valid confidence."""
    if confidence is not None:
        check_share("confidence", confidence)
    check_whole(resamples=(resamples, MIN_RESAMPLES), seed=(seed, 0))


def check_share(name: str, value: float) -> None:
    """Raise a `ScoresError` unless the value of an option is strictly between 0 and 1."""
    if not isinstance(value, int | float | np.number) or not 0 < value < 1:
        raise ScoresError(f"{name} is {value!r}; it must lie strictly between 0 and 1, such as 0.95")


def check_whole(**limits: tuple[int, int]) -> None:
    """Raise a `ScoresError` unless each option, given as (value, minimum), is an integer of at least the minimum."""
    for name, (value, least) in limits.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ScoresError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def _totals(values: Floats, cluster: Indices, category: Indices) -> tuple[Floats, Floats]:
    shape = (int(cluster.max()) + 1, int(category.max()) + 1)
    cell = cluster * shape[1] + category
    cells = shape[0] * shape[1]
    sums, counts = np.bincount(cell, values, cells), np.bincount(cell, minlength=cells)
    return sums.reshape(shape).astype(np.float64), counts.reshape(shape).astype(np.float64)


def _intervals(totals: _Totals, confidence: float) -> tuple[list[Interval], Interval]:
    """Return the interval of each category, and of their unweighted mean."""
    with np.errstate(invalid="ignore"):
        means = totals.drawn_sums / totals.drawn_counts  # NaN where a resample lacks the category
    edges = [_edge_interval(*column, confidence) for column in zip(totals.sums.T, totals.counts.T, strict=True)]
    columns = [
        edge
        or _few_clusters_interval(totals.select([number]), confidence)
        or percentile_interval(means[:, number], confidence)
        for number, edge in enumerate(edges)
    ]
    low, high = (math.fsum(bounds) / len(bounds) for bounds in zip(*columns, strict=True))
    if not all(edges):
        own_interval = _few_clusters_interval(totals, confidence) or percentile_interval(
            np.nanmean(means, axis=1), confidence
        )
        low, high = max(low, own_interval[0]), min(high, own_interval[1])
    return columns, (low, high)


def _few_clusters_interval(totals: _Totals, confidence: float) -> Interval | None:
    """Return the interval of the mean over categories; None if its variance rests on many clusters.

    See `cluster_bootstrap` for the rule.
    """
    n, having = totals.counts.sum(axis=0), (totals.counts > 0).sum(axis=0)
    means, clusters = totals.sums.sum(axis=0) / n, effective_clusters(totals.counts)
    # How much a category's mean changes when a cluster is left out.
    changes = (totals.sums - means * totals.counts) / np.maximum(n - totals.counts, 1) * np.sqrt((having - 1) / having)
    variances = (changes**2).sum(axis=0)
    # The variance of examples, with two more clusters of 1 and of 0 (Agresti and Coull), so that it is never nothing.
    square, mean = ((total / n * clusters + 2) / (clusters + 4) for total in (totals.squares, means * n))
    missing = np.maximum((square - mean**2) / clusters - variances, 0) / clusters
    spread = variances + missing
    effective = 1 + float(spread.sum() ** 2 / (spread**2 / np.maximum(clusters - 1, 1)).sum())
    if effective >= FEW_CLUSTERS:
        return None
    centre, joint = means.mean(), (changes.mean(axis=1) ** 2).sum() + missing.sum() / len(means) ** 2
    # Categories that vary against each other may cancel in all clusters seen, and not in the next one.
    variance = max(joint, spread.sum() / len(means) ** 2 / effective)
    low, high = wilson_interval(centre, centre * (1 - centre) / variance, confidence, effective)
    return float(low), float(high)


def _edge_interval(sums: Floats, counts: Floats, confidence: float) -> Interval | None:
    """Return the interval of a group whose clusters all have the same mean (resamples do not spread); else None."""
    seen = counts > 0
    means = sums[seen] / counts[seen]
    if np.ptp(means) > _MEAN_ROUNDING:
        return None
    unseen = unseen_share(len(means), confidence)
    mean = float(means.mean())
    return (1 - unseen) * mean, (1 - unseen) * mean + unseen
