"""What goes with errors: the rate of errors among the examples that have a feature, against what is expected."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri, stdtr

from .bootstrap import check_share

_COLUMNS_AT_ONCE = 200


class Associations(NamedTuple):
    """One entry for each feature, in arrays of shape (m,).

    Attributes:
        n, clusters: the examples that have the feature, and the clusters with such an example.
        other_clusters: the clusters with an example that lacks it.
        rates, expected: the mean error among them, and what it would be with the mean of their strata; NaN without
            examples.
        low, high: Wilson's interval of the rate.
        p_values: of no association; 1 where it cannot be tested.
    """

    n: NDArray[np.intp]
    clusters: NDArray[np.intp]
    other_clusters: NDArray[np.intp]
    rates: NDArray[np.float64]
    expected: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_values: NDArray[np.float64]


def associations(
    errors: NDArray[np.float64],
    features: Any,
    clusters: NDArray[np.intp],
    strata: NDArray[np.intp] | None = None,
    confidence: float = 0.95,
) -> Associations:
    """Test for each feature whether examples that have it are wrong more, or less, often than others of their stratum.

    With e the errors, f a feature (0 or 1) and means over the examples of a stratum, each cluster g of examples that
    are not independent contributes u_g, its sum of (f - mean f)(e - mean e). Without association these sum to 0 on
    average: t = sum(u_g) / sqrt(sum(u_g²)) is compared with Student's distribution, whose degrees of freedom are the
    number of clusters with the feature, or without it if those are fewer, less one. The means are those of all examples
    of a stratum, so that t is defined for a feature whose examples are all wrong, too; a feature that all or none of a
    stratum have tells nothing there.

    Args:
        errors: of shape (n,), in [0, 1], without NaN.
        features: sparse or dense matrix of shape (n, m), of 0 and 1.
        clusters: of shape (n,): equal for examples that are not independent.
        strata: of shape (n,): equal for examples that are compared, such as those of a category; by default all are.
        confidence: coverage of the intervals, strictly between 0 and 1. They count clusters, not examples: at worst an
            image's examples are right or wrong together.

    Returns:
        Rates, intervals and two-sided p-values, which are not corrected for the number of features: see
        ``paired.holm``.

    Raises:
        ScoresError: a confidence outside its range.

    Source: score test with cluster-robust variance, Boos, The American Statistician 46, 1992; strata as in Mantel and
    Haenszel, JNCI 22, 1959; interval, Wilson, Journal of the American Statistical Association 22, 1927.

    >>> found = associations(np.array([1.0, 1, 0, 0]), np.array([[1], [1], [0], [0]]), np.arange(4))
    >>> found.rates.tolist(), found.expected.tolist(), found.p_values.round(3).tolist()  # t = 2, 1 degree of freedom
    ([1.0], [0.5], [0.295])
    """
    check_share("confidence", confidence)
    matrix: Any = csr_array(features, dtype=np.float64)
    codes = np.unique(clusters, return_inverse=True)[1]
    groups = np.zeros(len(codes), dtype=np.intp) if strata is None else np.unique(strata, return_inverse=True)[1]
    means = (np.bincount(groups, errors) / np.bincount(groups))[groups]
    sizes, by_cluster, by_stratum = np.bincount(codes), _indicator(codes), _indicator(groups)
    residuals = errors - means
    by_both = by_cluster @ by_stratum.multiply(residuals).T.tocsr()  # the sum of residuals of a cluster in a stratum
    n = matrix.sum(axis=0)
    cells = (by_cluster @ matrix).tocoo()
    having = np.bincount(cells.col, minlength=matrix.shape[1])
    entire = cells.data == sizes[cells.row]
    lacking = len(sizes) - np.bincount(cells.col[entire], minlength=matrix.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        rates, expected = matrix.T @ errors / n, matrix.T @ means / n
    t = np.concatenate(
        [
            _statistics(residuals, matrix[:, start : start + _COLUMNS_AT_ONCE], by_cluster, by_stratum, by_both)
            for start in range(0, matrix.shape[1], _COLUMNS_AT_ONCE)
        ]
        or [np.empty(0)]
    )
    freedom = np.minimum(having, lacking) - 1
    testable = (freedom >= 1) & np.isfinite(t)
    p_values = np.where(testable, 2 * stdtr(np.maximum(freedom, 1), -np.where(testable, np.abs(t), 0)), 1.0)
    low, high = wilson_interval(rates, having, confidence)
    return Associations(n.astype(np.intp), having, lacking, rates, expected, low, high, p_values)


def wilson_interval(
    shares: NDArray[np.float64], n: NDArray[np.intp], confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval of shares of n independent cases each, in [0, 1]; NaN where n is 0.

    >>> [bound.round(3).item() for bound in wilson_interval(np.array([1.0]), np.array([10]), 0.95)]
    [0.722, 1.0]
    """
    z = ndtri((1 + confidence) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
        reach = z / (1 + z**2 / n) * np.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return np.clip(centre - reach, 0, 1), np.clip(centre + reach, 0, 1)


def _indicator(codes: NDArray[np.intp]) -> Any:
    """A sparse matrix of shape (groups, n) that sums by group."""
    n = len(codes)
    return csr_array((np.ones(n), (codes, np.arange(n))), shape=(int(codes.max(initial=-1)) + 1, n))


def _statistics(
    residuals: NDArray[np.float64], matrix: Any, by_cluster: Any, by_stratum: Any, by_both: Any
) -> NDArray[np.float64]:
    """t of each feature; NaN where no cluster contributes."""
    shares = (by_stratum @ matrix).toarray() / by_stratum.sum(axis=1)[:, np.newaxis]
    own = (by_cluster @ matrix.multiply(residuals[:, np.newaxis]).tocsr()).toarray() - by_both @ shares
    squares = (own**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # What is left of rounding is no contribution.
        return np.where(squares > 1e-18, own.sum(axis=0) / np.sqrt(squares), np.nan)
