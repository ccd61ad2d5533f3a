"""Correlation of two scores over models: Pearson, Spearman and Kendall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from .bootstrap import check_options, chunks, cluster_draws, percentile_interval

# Of fewer models a correlation says nothing: of three, one order in three is a rise or a fall throughout.
FEWEST = 4
# Of four models most resamples hold three or fewer different ones, whose correlation is near 1 or -1 in any case.
FEWEST_WITH_INTERVAL = 5

Floats = NDArray[np.float64]


def correlation(
    first: ArrayLike,
    second: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 1_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Compute Pearson's, Spearman's and Kendall's correlation with percentile intervals.

    Intervals resample models: they are about other models like these.

    Models of one family or of the same training data are no independent sample, and then the intervals over models are
    too narrow.

    Args:
        first, second: array-like of shape (n,): two scores of the same models, finite.
        confidence: level of the intervals, between 0 and 1.
        resamples: number of bootstrap resamples.
        seed: seed of the resampling.

    Returns:
        ``n``, and for ``pearson``, ``spearman`` and ``kendall`` (tau-b) the value in [-1, 1] and its ``_interval`` as
        [low, high]. Values are None for fewer than `FEWEST` models, or if all models have the same score; intervals for
        fewer than `FEWEST_WITH_INTERVAL`. Equal scores have the mean of their ranks; resamples in which all scores are
        equal do not count.

    Raises:
        ScoresError: arrays of other shapes, values that are not finite, or an option outside its range.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 6, 13 and 15; Kendall, Biometrika 33,
    1945.

    >>> found = correlation([1, 2, 3, 4], [1, 2, 3, 10])
    >>> found["spearman"], found["kendall"], round(found["pearson"], 3), found["pearson_interval"]
    (1.0, 1.0, 0.885, None)
    """
    check_options(confidence, resamples, seed)
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.ndim != 1 or one.shape != two.shape or not np.isfinite([one, two]).all():
        raise ScoresError(f"got values of shapes {one.shape} and {two.shape}; pass two finite scores of each model")
    n = len(one)
    found: dict[str, Any] = {"n": n}
    both: tuple[Floats, ...] = ()
    if n >= FEWEST_WITH_INTERVAL:
        models = np.concatenate([*cluster_draws(n, resamples, seed)])
        both = (one[models], two[models])
    for name, of in _KINDS.items():
        value = float(of(one[None], two[None])[0]) if n >= FEWEST else np.nan
        is_known = bool(np.isfinite(value))
        found[name] = value if is_known else None
        found[f"{name}_interval"] = _interval(of(*both), confidence) if is_known and both else None
    return found


def _interval(values: Floats, confidence: float) -> list[float] | None:
    return list(percentile_interval(values, confidence)) if np.isfinite(values).any() else None


def _pearson(one: Floats, two: Floats) -> Floats:
    """Return the correlation in each row; NaN if all values of a row are equal."""
    one, two = (each - each.mean(axis=1, keepdims=True) for each in (one, two))
    return _cosine((one * two).sum(axis=1), (one**2).sum(axis=1), (two**2).sum(axis=1))


def _spearman(one: Floats, two: Floats) -> Floats:
    return _pearson(_ranks(one), _ranks(two))


def _ranks(scores: Floats) -> Floats:
    """Return the ranks along the last axis, with ties averaged."""
    from scipy.stats import rankdata  # longer to import than all that most commands need

    return rankdata(scores, axis=-1)


def _kendall(one: Floats, two: Floats) -> Floats:
    """Return tau-b in each row: the cosine of the signs of all differences."""
    found, start = [], 0
    for count in chunks(len(one), max(one.shape[1], 1) ** 2):
        x, y = (np.sign(each[:, :, None] - each[:, None, :]) for each in (one[start:][:count], two[start:][:count]))
        found.append(_cosine(*((a * b).sum(axis=(1, 2)) for a, b in ((x, y), (x, x), (y, y)))))
        start += count
    return np.concatenate(found)


def _cosine(products: Floats, first: Floats, second: Floats) -> Floats:
    scale = np.sqrt(first * second)
    return np.divide(products, scale, out=np.full(len(products), np.nan), where=scale > 1e-15).clip(-1, 1)


_KINDS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "pearson": _pearson,
    "spearman": _spearman,
    "kendall": _kendall,
}
