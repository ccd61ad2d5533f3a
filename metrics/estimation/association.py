"""Associations of errors with features: error rates with a feature, and exact tests against chance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.special import gammaln, ndtr

from .bootstrap import check_share, wilson_interval

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Probabilities that differ by less than rounding count as equal, as in R's fisher.test.
_ROUNDING = 1e-7


class Association(NamedTuple):
    """The association of errors with a feature of examples.

    Attributes:
        n, clusters: number of examples that have the feature, and of clusters (images) with such an example.
        other_clusters: number of clusters with an example that lacks the feature.
        rate: error rate of the examples that have the feature, in [0, 1]; NaN without such examples.
        expected: mean error rate of the strata of these examples, in [0, 1]; NaN without such examples.
        low, high: Wilson interval of the rate, in [0, 1]; NaN without such examples.
        p_value: two-sided, not corrected for the number of features; 1 if the feature cannot be tested.
        p_value_holm: corrected for all features, by the caller.
    """

    n: int
    clusters: int
    other_clusters: int
    rate: float
    expected: float
    low: float
    high: float
    p_value: float
    p_value_holm: float = 1.0

    @property
    def weight(self) -> float:
        """The distance of the rate to its expectation, larger for more examples; the order of display."""
        return abs(self.rate - self.expected) * self.n**0.5


def associations(
    errors: Flags, features: Any, clusters: Indices, strata: Indices | None = None, confidence: float = 0.95
) -> list[Association]:
    """Test for each feature whether examples with it are wrong more, or less, often than others in their stratum.

    The p-value is the larger one of two:

    - The exact conditional test on one example of each cluster. Given the number of examples and of errors in each
      stratum, the number of errors among examples with the feature is a sum of hypergeometric variables; all outcomes
      at most as likely as the observed one count. Without strata it is Fisher's test. The choice of examples (see
      `_sample`) does not depend on errors, so the test is valid however the errors of a cluster depend on each other.
    - The score test of all examples that belongs to the Wilson interval. It counts clusters, not examples: at worst,
      the examples of an image are all right or all wrong. So the interval excludes the expected rate whenever the
      p-value is at most 1 - ``confidence``.

    Args:
        errors: bool of shape (n,): whether the example is wrong. Leave examples without a prediction out.
        features: sparse or dense matrix of shape (n, m), of 0 and 1.
        clusters: of shape (n,): equal for examples that are not independent, such as the captions of an image.
        strata: of shape (n,): equal for examples that are compared, such as a category's; by default all are.
        confidence: coverage of the intervals, strictly between 0 and 1.

    Returns:
        For each feature its association. See ``paired.holm`` for a correction for the number of features.

    Raises:
        ScoresError: a confidence outside its range.

    Source: exact test of several 2 × 2 tables, Mehta, Patel and Gray, Journal of the American Statistical Association
    80, 1985; one example of each cluster, Hoffman, Sen and Weinberg, Biometrika 88, 2001; interval, see
    `wilson_interval`.

    >>> errors, feature = np.array([1, 1, 1, 0, 0, 0], dtype=bool), np.array([[1], [1], [1], [0], [0], [0]])
    >>> [found] = associations(errors, feature, np.arange(6))
    >>> found.rate, found.expected, round(found.p_value, 3)  # 3 of 3 or 0 of 3: 2 / 20
    (1.0, 0.5, 0.1)
    """
    check_share("confidence", confidence)
    groups = np.zeros(len(errors), dtype=np.intp) if strata is None else np.unique(strata, return_inverse=True)[1]
    codes = np.unique(clusters, return_inverse=True)[1]
    # Sorted by cluster, in random order within it.
    order = np.lexsort((np.random.default_rng(0).random(len(codes)), codes))
    errors, codes, groups = errors[order], codes[order], groups[order]
    matrix: Any = csc_array(features, dtype=bool)[order]
    means = (np.bincount(groups, errors) / np.bincount(groups))[groups]

    n = np.diff(matrix.indptr).astype(np.intp)
    having, lacking = np.zeros_like(n), np.zeros_like(n)
    p_values = np.ones(len(n))
    for column in range(len(n)):
        has = np.zeros(len(errors), dtype=bool)
        has[matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]] = True
        having[column], lacking[column] = len(_firsts(codes, has)), len(_firsts(codes, ~has))
        sample = _sample(has, codes, groups)
        p_values[column] = exact_p_value(errors[sample], has[sample], groups[sample])
    with np.errstate(invalid="ignore", divide="ignore"):
        rates, expected = matrix.T @ errors.astype(np.float64) / n, matrix.T @ means / n
        z = np.abs(rates - expected) / np.sqrt(expected * (1 - expected) / having)
    p_values = np.maximum(p_values, 2 * ndtr(-np.nan_to_num(z)))
    low, high = wilson_interval(rates, having, confidence)
    columns = (values.tolist() for values in (n, having, lacking, rates, expected, low, high, p_values))
    return [Association(*values) for values in zip(*columns, strict=True)]


def exact_p_value(errors: Flags, has: Flags, groups: Indices) -> float:
    """Return the two-sided p-value of the exact conditional test of independent examples.

    Args:
        errors, has: bool of shape (n,): whether an example is wrong, and whether it has the feature.
        groups: the stratum of each example, from 0, of shape (n,).

    Returns:
        The p-value in (0, 1]; 1 if only one outcome is possible.

    >>> exact_p_value(np.array([True, True, False]), np.array([True, False, False]), np.zeros(3, dtype=np.intp))
    1.0
    """
    if not has.any() or has.all():
        return 1.0
    sizes, wrong = np.bincount(groups), np.bincount(groups[errors], minlength=int(groups.max()) + 1)
    drawn = np.bincount(groups[has], minlength=len(sizes))
    most = np.minimum(wrong, drawn)
    tables = _hypergeometric(np.arange(most.max() + 1)[:, np.newaxis], sizes, wrong, drawn)
    chances = np.ones(1)
    for table, last in zip(tables.T, most.tolist(), strict=True):
        chances = np.convolve(chances, table[: last + 1])
    observed = chances[np.count_nonzero(errors & has)]
    return min(1.0, float(chances[chances <= observed * (1 + _ROUNDING)].sum()))


def _sample(has: Flags, codes: Indices, groups: Indices) -> Indices:
    """Choose at most one example of each cluster, for the most even numbers of clusters with and without the feature.

    Only strata that have examples of both kinds are used. The arrays are sorted by cluster, `codes`.
    """
    sizes = np.bincount(groups)
    counts = np.bincount(groups[has], minlength=len(sizes))
    usable = ((counts > 0) & (counts < sizes))[groups]
    having, lacking = _firsts(codes, has & usable), _firsts(codes, ~has & usable)
    both = np.intersect1d(codes[having], codes[lacking], assume_unique=True)
    # Of the clusters with examples of both kinds, so many stand for the feature that the two sides are as even as can
    # be. They are spread over the codes, in whose order clusters may resemble each other.
    wanted = np.clip((len(lacking) - (len(having) - len(both)) + 1) // 2, 0, len(both))
    for_feature = np.diff(np.arange(len(both) + 1) * wanted // max(len(both), 1)) == 1
    having = having[~np.isin(codes[having], both[~for_feature], assume_unique=True)]
    lacking = lacking[~np.isin(codes[lacking], both[for_feature], assume_unique=True)]
    return np.concatenate([having, lacking])


def _hypergeometric(k: Indices, size: Indices, wrong: Indices, drawn: Indices) -> Floats:
    """Return the probability of k errors among `drawn` of `size` examples; ``scipy.stats.hypergeom`` is much slower."""
    return np.exp(_log_choices(wrong, k) + _log_choices(size - wrong, drawn - k) - _log_choices(size, drawn))


def _log_choices(n: Indices, k: Indices) -> Floats:
    """Return the logarithm of the binomial coefficient; minus infinity for a k below 0 or above n."""
    return -(gammaln(k + 1) + gammaln(n - k + 1) - gammaln(n + 1))


def _firsts(codes: Indices, chosen: Flags) -> Indices:
    """Return the first chosen example of each cluster, for sorted `codes`."""
    rows = np.flatnonzero(chosen)
    row_codes = codes[rows]
    return rows[np.diff(row_codes, prepend=-1) > 0]
