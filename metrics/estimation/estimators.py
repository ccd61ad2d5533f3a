"""Scores that are not means over examples, as functions of example weights: F1, average precision, medians."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .bootstrap import Floats, Indices


class Estimator(ABC):
    """Scores that are not means over examples, such as an average precision, as functions of example weights.

    Attributes:
        names: the scores that it estimates.
        with_interval: whether its scores get intervals.
    """

    names: tuple[str, ...]
    with_interval: bool = True

    @abstractmethod
    def __call__(self, weights: Floats | None = None) -> Floats:
        """Compute the scores, of shape (len(names),), with examples weighted by `weights` (default: all 1).

        NaN if a score is undefined, such as average precision without any ground truth.
        """

    @abstractmethod
    def select(self, indices: Indices) -> Estimator:
        """Return the estimator over the examples with these indices, in this order."""

    @abstractmethod
    def stacked(self, other: Estimator) -> Estimator:
        """Return the estimator over this one's examples followed by another estimator's, of the same class."""


@dataclass(frozen=True)
class OfRows(Estimator):
    """An estimator over an array with a row for each example."""

    names: tuple[str, ...]
    values: Floats

    def select(self, indices: Indices) -> Self:
        """See `Estimator`."""
        return replace(self, values=self.values[indices])

    def stacked(self, other: Estimator) -> Self:
        """See `Estimator`."""
        assert isinstance(other, type(self))
        return replace(self, values=np.concatenate([self.values, other.values]))


@dataclass(frozen=True)
class OfTotals(OfRows):
    """Scores that follow from sums over examples, such as an F1 from its four counts.

    Args:
        names: the scores.
        values: float64 of shape (n, m): what each example adds to each of m totals.
        function: from totals of shape (…, m) to scores of shape (…, len(names)); NaN if a score is undefined.
        with_interval: whether the scores get intervals.
        edge: from values, clusters and confidence to the interval of the first score if resamples cannot spread, or
            None if they can.
    """

    function: Callable[[Floats], Floats]
    with_interval: bool = True
    edge: Callable[[Floats, Indices, float], tuple[float, float] | None] = lambda values, clusters, confidence: None

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`."""
        return self.function(self.values.sum(axis=0) if weights is None else weights @ self.values)


@dataclass(frozen=True)
class OfValues(OfRows):
    """Scores without intervals that follow from one value of each example: medians, and means without bounds.

    Args:
        names: the scores.
        values: float64 of shape (n,); examples whose value is NaN do not count.
        functions: one for each name: from values, of shape (k,), to the score.
    """

    functions: tuple[Callable[[Floats], Any], ...]
    with_interval: bool = False

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`; the weights are whole numbers."""
        values = self.values if weights is None else np.repeat(self.values, weights.astype(np.intp))
        values = values[~np.isnan(values)]
        if not len(values):
            return np.full(len(self.names), np.nan)
        return np.array([function(values) for function in self.functions])
