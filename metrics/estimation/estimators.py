"""Scores that are not means over examples, as functions of example weights: F1, average precision, medians."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


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
        """The scores, of shape (len(names),), with each example counted as often as its weight says, or once.

        NaN where a score is undefined, as average precision without any ground truth.
        """

    @abstractmethod
    def select(self, numbers: Numbers) -> Estimator:
        """The estimator over these examples alone, in their order."""

    @abstractmethod
    def stacked(self, other: Estimator) -> Estimator:
        """The estimator over this one's examples followed by another's of the same kind."""


@dataclass(frozen=True)
class OfRows(Estimator):
    """An estimator over an array with a row for each example."""

    names: tuple[str, ...]
    values: Floats

    def select(self, numbers: Numbers) -> Self:
        """See `Estimator`."""
        return replace(self, values=self.values[numbers])

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
        function: from totals of shape (…, m) to scores of shape (…, len(names)); NaN where a score is undefined.
        with_interval: whether the scores get intervals.
        edge: from values, clusters and confidence to the interval of the first score where resamples cannot spread, or
            None where they can.
    """

    function: Callable[[Floats], Floats]
    with_interval: bool = True
    edge: Callable[[Floats, Numbers, float], tuple[float, float] | None] = lambda values, clusters, confidence: None

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`."""
        return self.function(self.values.sum(axis=0) if weights is None else weights @ self.values)


@dataclass(frozen=True)
class OfValues(OfRows):
    """Scores without intervals that follow from one value of each example: medians, and means without bounds.

    Args:
        names: the scores.
        values: float64 of shape (n,); examples whose value is NaN do not count.
        functions: one for each name: from values and weights, both of shape (k,), to the score.
    """

    functions: tuple[Callable[[Floats, Floats], float], ...]
    with_interval: bool = False

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`."""
        kept = ~np.isnan(self.values) if weights is None else ~np.isnan(self.values) & (weights > 0)
        values = self.values[kept]
        if not len(values):
            return np.full(len(self.names), np.nan)
        chosen = np.ones(len(values)) if weights is None else weights[kept]
        return np.array([function(values, chosen) for function in self.functions])


def mean(values: Floats, weights: Floats) -> float:
    """The weighted mean; without weights that differ the plain one, rounded as `numpy.mean` rounds."""
    return float(values.mean() if (weights == weights[0]).all() else weights @ values / weights.sum())


def median(values: Floats, weights: Floats) -> float:
    """The median of values repeated by whole weights: the mean of the two middle ones of an even number."""
    if (weights == weights[0]).all():
        return float(np.median(values))
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    middle = np.searchsorted(upto, [upto[-1] / 2, upto[-1] / 2 + 1e-9 * upto[-1]])
    return float(values[order][np.minimum(middle, len(values) - 1)].mean())


class MeanOf(Estimator):
    """The mean of estimators, each over some of the examples, such as one for each seed of a benchmark.

    Args:
        parts: the estimators, all of the same scores.
        numbers: for each the numbers of its examples among all.
        size: how many examples there are in all.
    """

    def __init__(self, parts: Sequence[Estimator], numbers: Sequence[Numbers], size: int) -> None:
        self.parts, self.numbers, self.size = parts, numbers, size
        self.names, self.with_interval = parts[0].names, parts[0].with_interval

    def __call__(self, weights: Floats | None = None) -> Floats:
        """See `Estimator`."""
        every = zip(self.parts, self.numbers, strict=True)
        return np.mean([part(None if weights is None else weights[numbers]) for part, numbers in every], axis=0)

    def select(self, numbers: Numbers) -> MeanOf:
        """See `Estimator`."""
        place = np.full(self.size, -1)
        place[numbers] = np.arange(len(numbers))
        found = []
        for part, each in zip(self.parts, self.numbers, strict=True):
            kept = np.flatnonzero(place[each] >= 0)
            if len(kept):
                found.append((part.select(kept), place[each[kept]]))
        parts, places = zip(*found, strict=True)
        return MeanOf(parts, places, len(numbers))

    def stacked(self, other: Estimator) -> MeanOf:
        """See `Estimator`; both have as many parts."""
        assert isinstance(other, MeanOf)
        parts = [one.stacked(two) for one, two in zip(self.parts, other.parts, strict=True)]
        numbers = [np.concatenate([one, two + self.size]) for one, two in zip(self.numbers, other.numbers, strict=True)]
        return MeanOf(parts, numbers, self.size + other.size)
