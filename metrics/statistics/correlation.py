"""Correlation of two scores over models, with bootstrap intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from ..common.errors import ScoresError
from .bootstrap import check_options, percentile_interval

# Of fewer models an interval says nothing.
FEWEST = 4


def correlation(
    first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95, resamples: int = 1_000, seed: int = 0
) -> dict[str, Any]:
    """Pearson's and Spearman's correlation, with percentile intervals over resampled models.

    Args:
        first, second: array-like of shape (n,): two scores of the same models, finite.
        confidence: level of the intervals, between 0 and 1.
        resamples: number of bootstrap resamples.
        seed: of the resampling.

    Returns:
        ``n``, and for ``pearson`` and ``spearman`` the value in [-1, 1] and its ``_interval`` as [low, high]. Both are
        None for fewer than `FEWEST` models, or if all models have the same score. Equal scores have the mean of their
        ranks; resamples in which all scores are equal do not count.

    Raises:
        ScoresError: arrays of other shapes, values that are not finite, or an option outside its range.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6 and 13.

    >>> found = correlation([1, 2, 3, 4], [1, 2, 3, 10])
    >>> found["spearman"], round(found["pearson"], 3)
    (1.0, 0.885)
    """
    check_options(confidence, resamples, seed)
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.ndim != 1 or one.shape != two.shape or not np.isfinite([one, two]).all():
        raise ScoresError(f"got values of shapes {one.shape} and {two.shape}; pass two finite scores of each model")
    n = len(one)
    found: dict[str, Any] = {"n": n}
    drawn = np.random.default_rng(seed).integers(0, max(n, 1), (resamples, n))
    for name, of in (("pearson", _pearson), ("spearman", _spearman)):
        value = float(of(one[None], two[None])[0]) if n >= FEWEST else np.nan
        found[name] = found[f"{name}_interval"] = None
        if np.isfinite(value):
            found[name] = value
            found[f"{name}_interval"] = list(percentile_interval(of(one[drawn], two[drawn]), confidence))
    return found


def _pearson(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    """The correlation in each row; NaN where all values of a row are equal."""
    one, two = (each - each.mean(axis=1, keepdims=True) for each in (one, two))
    scale = np.sqrt((one**2).sum(axis=1) * (two**2).sum(axis=1))
    return np.divide((one * two).sum(axis=1), scale, out=np.full(len(one), np.nan), where=scale > 1e-15).clip(-1, 1)


def _spearman(one: NDArray[np.float64], two: NDArray[np.float64]) -> NDArray[np.float64]:
    return _pearson(rankdata(one, axis=1), rankdata(two, axis=1))
