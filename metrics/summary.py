"""From what each example earned to what a metric reports: averages, categories, intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ScoresError
from .kernels import Labels, as_list, check_credit, cluster_codes, label_codes
from .stats import check_options, cluster_bootstrap


class SummaryOptions(TypedDict, total=False):
    """How every metric sums up; all of it is optional.

    Keys:
        categories: one label per example, compared as text; or a list of labels for each, which then counts in every
            one of them, and in none where it is empty. Without them macro averages equal micro averages.
        clusters: one label per example, its image. Without them each example is its own cluster, and the intervals
            are too narrow where several examples share an image. Unused without ``confidence``.
        confidence: coverage of the intervals, strictly between 0 and 1, such as 0.95; without it there are none.
        resamples: number of bootstrap resamples, at least 100; 10,000 by default.
        seed: seed of the resampling, a whole number from 0; 0 by default.
    """

    categories: Labels | None
    clusters: Labels | None
    confidence: float | None
    resamples: int
    seed: int


def summarise(
    credits: Mapping[str, ArrayLike],
    tied: ArrayLike,
    *,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    confidence: float | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Average the credit of examples: over all (micro), by category, and over the categories (macro).

    Args:
        credits: for each score's name an array-like of shape (n,), in [0, 1]: what each example earned. Names are
            up to the caller, and so is whether higher is better.
        tied: array-like of bool of shape (n,), true where a tie decides what an example earns.
        categories, clusters, confidence, resamples, seed: see `SummaryOptions`.

    Returns:
        Plain Python numbers, so that ``json.dumps`` takes it as it is:

        - each score by its name, the mean over examples; ``macro_<score>``, the unweighted mean over categories,
          the same as the mean over examples where there are none;
        - ``tie_rate``, the share of examples that a tie decides, and ``n``, their number;
        - ``per_category``: for each category, in the order of first appearance, its scores, ``tie_rate`` and ``n``;
        - with ``confidence``: ``confidence``, and beside each score ``<score>_interval`` as [low, high], in the
          categories too (see ``stats.cluster_bootstrap``).

    Raises:
        ScoresError: no examples, unequal lengths, a credit outside [0, 1] or NaN, a missing label, or an option
            outside its range.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), Table 6: "Average" is the macro average.

    >>> result = summarise({"accuracy": [1, 1, 0]}, [False, False, True], categories=["add", "add", "swap"])
    >>> result["macro_accuracy"], result["per_category"]["swap"]
    (0.5, {'accuracy': 0.0, 'tie_rate': 1.0, 'n': 1})
    """
    earned = {name: check_credit(credit) for name, credit in credits.items()}
    n = len(next(iter(earned.values())))
    decided = np.asarray(tied, dtype=bool)
    if decided.shape != (n,):
        raise ScoresError(f"{decided.size} tie flags came for {n} credits; pass one per example")
    cluster = cluster_codes(clusters, n)
    check_options(confidence, resamples, seed)
    per_category: dict[str, dict[str, Any]] = {
        name: {
            **{score: float(credit[rows].mean()) for score, credit in earned.items()},
            "tie_rate": float(decided[rows].mean()),
            "n": len(rows),
        }
        for name, rows in category_rows(categories, n).items()
    }
    result: dict[str, Any] = {name: float(credit.mean()) for name, credit in earned.items()}
    for name in earned:
        means = [part[name] for part in per_category.values()] or [result[name]]
        result[f"macro_{name}"] = math.fsum(means) / len(means)
    result |= {"tie_rate": float(decided.mean()), "n": n, "per_category": per_category}
    if confidence is None:
        return result
    rows, labels = memberships(categories, n)
    options = {"confidence": confidence, "resamples": resamples, "seed": seed}
    result["confidence"] = float(confidence)
    for name, credit in earned.items():
        _add_intervals(result, name, credit, rows, labels, cluster, options)
    return result


def summarise_parts(
    credits: Mapping[str, ArrayLike],
    tied: ArrayLike,
    parts: list[str | None],
    **options: Unpack[SummaryOptions],
) -> dict[str, dict[str, Any]]:
    """`summarise` each part of a set by itself, such as the three forms of SugarCrepe.

    Args:
        credits, tied, options: as for `summarise`; the categories become the macro average of their part.
        parts: one name per example, ``None`` for an example that is in no part.

    Returns:
        For each part, in the order of first appearance, what `summarise` returns, without the categories.
    """
    everything: dict[str, dict[str, Any]] = {}
    names = np.array([part or "" for part in parts], dtype=object)
    for name in dict.fromkeys(part for part in parts if part):
        rows = np.flatnonzero(names == name)
        chosen: dict[str, Any] = {**options}
        for key in ("categories", "clusters"):
            if chosen.get(key) is not None:
                chosen[key] = pick(chosen[key], rows)
        part = summarise(
            {score: np.asarray(credit)[rows] for score, credit in credits.items()}, np.asarray(tied)[rows], **chosen
        )
        everything[name] = {key: value for key, value in part.items() if key not in ("per_category", "confidence")}
    return everything


def memberships(categories: Labels | None, n: int) -> tuple[NDArray[np.intp], list[Any] | None]:
    """Which example counts in which category.

    Args:
        categories: one label per example, or a list of labels per example, empty for an example that is in none;
            ``None`` for a set without categories.
        n: number of examples.

    Returns:
        Two sequences of the same length: the examples' numbers, and the label in which each of them counts. With one
        label per example the first is 0 to n - 1. Without categories the labels are ``None``.

    Raises:
        ScoresError: another number of labels than examples, or a label that is missing.

    >>> memberships([["a", "b"], "a"], 2)
    (array([0, 0, 1]), ['a', 'b', 'a'])
    """
    if categories is None:
        return np.arange(n), None
    labels = as_list(categories)
    many = [isinstance(label, list | tuple | np.ndarray) for label in labels]
    if not any(many):
        return np.arange(n), labels
    try:
        groups = [list(dict.fromkeys(label)) if listed else [label] for label, listed in zip(labels, many, strict=True)]
    except TypeError:
        raise ScoresError("a category is a list of lists; pass one label per example, or one list of labels") from None
    if len(groups) != n:
        raise ScoresError(
            f"{len(groups)} categories came for {n} examples; pass one label, or a list of them, for each"
        )
    if not any(groups):
        raise ScoresError("no example has a category; pass some, or leave categories out")
    rows = np.repeat(np.arange(n), [len(group) for group in groups])
    return rows, [label for group in groups for label in group]


def category_rows(categories: Labels | None, n: int) -> dict[str, NDArray[np.intp]]:
    """The numbers of the examples in each category, in the order of first appearance; empty without categories.

    Raises:
        ScoresError: another number of labels than examples, or an example without a label.

    >>> category_rows([["a", "b"], "a"], 2)
    {'a': array([0, 1]), 'b': array([0])}
    """
    rows, labels = memberships(categories, n)
    if labels is None:
        return {}
    names, codes = label_codes(labels, len(rows), "categories")
    ends = np.cumsum(np.bincount(codes))[:-1]
    return dict(zip(names, np.split(rows[np.argsort(codes, kind="stable")], ends), strict=True))


def pick(labels: Labels, rows: NDArray[np.intp]) -> list[Any]:
    """The labels of some rows."""
    everything = as_list(labels)
    return [everything[row] for row in rows]


def _add_intervals(
    result: dict[str, Any],
    name: str,
    credit: NDArray[np.float64],
    rows: NDArray[np.intp],
    labels: list[Any] | None,
    cluster: NDArray[np.intp],
    options: dict[str, Any],
) -> None:
    single = np.array_equal(rows, np.arange(len(credit)))
    whole = cluster_bootstrap(credit, cluster, labels if single else None, **options)
    parts = whole
    if not single:
        # An example with several labels counts once in each, but only once in the mean over all.
        parts = cluster_bootstrap(credit[rows], cluster[rows], labels, **options)
    result[f"{name}_interval"] = list(whole.micro)
    result[f"macro_{name}_interval"] = list(parts.macro)
    for category, interval in parts.categories.items():
        result["per_category"][category][f"{name}_interval"] = list(interval)
