"""The rules of intervals over few clusters, written out with SciPy's distributions."""

import math

import numpy as np
from scipy.stats import norm, t


def expanded_tails(sizes, confidence):
    """The quantiles of an expanded percentile interval, for clusters of so many examples."""
    clusters = np.sum(sizes) ** 2 / np.sum(np.square(sizes))
    freedom = max(clusters - 1, 1)
    tail = norm.cdf(-t.ppf((1 + confidence) / 2, freedom) * math.sqrt(clusters / freedom))
    return [tail, 1 - tail]
