"""Tests of two models on the same examples: the options that they share, McNemar's test, and Holm's correction."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import ScoresError
from .aggregate import RESAMPLES
from .bootstrap import MIN_RESAMPLES, Floats, check_options, check_share, check_whole
from .checks import as_float64, refuse

PERMUTATIONS = 10_000
POWER = 0.8

_FEW_DISCORDANT = 25


class Resampling(NamedTuple):
    """The options of tests of differences.

    Attributes:
        confidence: coverage of the intervals, in (0, 1).
        resamples, permutations: at least 100 each; at most ``differences.MOST_WEIGHTED_DRAWS`` are made of a score such
            as AP.
        power: the chance with which the smallest detectable difference is found.
        seed: seed of the random draws.
    """

    confidence: float = 0.95
    resamples: int = RESAMPLES
    permutations: int = PERMUTATIONS
    power: float = POWER
    seed: int = 0

    def check(self) -> None:
        """Raise a `ScoresError` if an option is outside its range."""
        check_options(self.confidence, self.resamples, self.seed)
        check_share("power", self.power)
        check_whole(permutations=(self.permutations, MIN_RESAMPLES))

    def detectable(self, error: float | None) -> float | None:
        """Return the smallest detectable difference for a standard error."""
        z = NormalDist().inv_cdf
        return None if error is None else (z((1 + self.confidence) / 2) + z(self.power)) * error


def mcnemar(wins: int, losses: int) -> tuple[float, str]:
    """Compute McNemar's test of two models that are right or wrong on the same, independent examples.

    Args:
        wins: number of examples on which model 1 is right and model 2 wrong, from 0.
        losses: number of examples on which model 1 is wrong and model 2 right, from 0.

    Returns:
        The two-sided p-value in [0, 1] and how it was found: ``"exact"`` from the binomial distribution for
        fewer than 25 discordant examples (1 for none), else ``"chi-square"``, one degree of freedom, from
        max(|wins - losses| - 1, 0) ** 2 / (wins + losses). Exchanging the models changes nothing. The correction
        stops at 0, so that as many wins as losses give 1; statsmodels, which lets it overshoot, gives less there.

    Raises:
        ScoresError: a number that is not whole, or negative.

    Source: McNemar, Psychometrika 12, 1947; continuity correction, Edwards, Psychometrika 13, 1948.

    >>> mcnemar(0, 5)  # 2 * 0.5 ** 5
    (0.0625, 'exact')
    """
    check_whole(wins=(wins, 0), losses=(losses, 0))
    discordant, fewer = int(wins) + int(losses), int(min(wins, losses))
    if discordant < _FEW_DISCORDANT:
        tail = sum(math.comb(discordant, count) for count in range(fewer + 1)) / 2**discordant
        return min(1.0, 2 * tail), "exact"
    distance = max(discordant - 2 * fewer - 1, 0)
    # A chi-square variable of one degree of freedom is the square of a normal one.
    return math.erfc(distance / math.sqrt(2 * discordant)), "chi-square"


def holm(p_values: ArrayLike) -> Floats:
    """Correct p-values for the number of tests made, by Holm's step-down method.

    Rejecting where the result is at most 5 % keeps the chance of any false rejection at 5 %, however the tests
    depend on each other.

    Args:
        p_values: array-like of shape (m,), in [0, 1]; m may be 0.

    Returns:
        float64 array of shape (m,): the adjusted p-values in the same order, none below its own p-value, at
        most 1. The i-th smallest, from 0, is multiplied by m - i and raised to those before it; equal p-values
        get equal results.

    Raises:
        ScoresError: another shape, or a p-value that is NaN or outside [0, 1].

    Source: Holm, Scandinavian Journal of Statistics 6, 1979.

    >>> holm([0.04, 0.01]).tolist()  # 0.01 * 2, then 0.04 * 1
    [0.04, 0.02]
    """
    values = as_float64(p_values, "p-values")
    if values.ndim != 1:
        raise ScoresError(f"the p-values have shape {values.shape}; pass a flat list, one per test")
    message = (
        "the p-value is {first:g} in {rows}; it must lie between 0 and 1, without NaN: leave out tests that could "
    )
    refuse(~((values >= 0) & (values <= 1)), message + "not be made", values)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return np.minimum(adjusted, 1.0)
