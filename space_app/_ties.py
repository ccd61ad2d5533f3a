"""Which models cannot be told from the best: paired tests on the same examples, corrected for their number.

Scores that are means over examples are compared: the accuracies of matching and of answers, augmented accuracy and
brittleness, the scores of groups, and the macro averages of these, which weigh the examples. To compare a score that is
no mean (AP, F1, Group-Recall@1 …) whole sheets would have to be resampled, too slow for a page: it gets no marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hub_datasets._benchmarks import get_task
from ..hub_datasets._judging import metric_inputs
from ..metrics.aro import MIN_COUNTS, SYMMETRIC
from ..metrics.errors import UnknownNameError
from ..metrics.kernels import match_credit
from ..metrics.paired import cluster_permutation_test, holm
from ..metrics.results import is_lower_better
from ..metrics.sheets import Sheet
from ..metrics.summary import memberships

LEVEL = 0.05

_TAKES = {
    "sugarcrepe_itm": "row",
    "aro_itm": "row",
    "augmented_accuracy": "row",
    "brittleness": "row",
    "group_match": "matrix",
    "yes_no_f1": "answers",
}
_SCORES = {
    "sugarcrepe_itm": ("accuracy",),
    "aro_itm": ("accuracy",),
    "augmented_accuracy": ("original_accuracy", "augmented_accuracy", "gap"),
    "brittleness": ("brittleness", "both_wrong"),
    "group_match": ("text_score", "image_score", "group_score"),
    "yes_no_f1": ("accuracy",),
}
_Flags = NDArray[np.uint8]


def is_mean(metric: str, score: str) -> bool:
    """Whether a score is a mean over examples, or a macro average of one, so that `Ties` can compare it."""
    return score.removeprefix("macro_") in _SCORES.get(metric, ())


def credits(sheet: Sheet, metric: str, score: str) -> dict[str, float]:
    """What each example of a sheet earned, by id: 0 or 1; their mean is the score that `judge` computes.

    Ties count as each metric's paper has it, which is the leaderboard's choice: as wrong, and as not brittle. Examples
    without scores and ARO's symmetric relations, which are in no score, are left out.

    Raises:
        UnknownNameError: the score is no mean over examples; see `is_mean`.
    """
    if not is_mean(metric, score) or score.startswith("macro_"):
        known = [f"{name}.{mean}" for name, means in _SCORES.items() for mean in means]
        raise UnknownNameError("mean over examples", f"{metric}.{score}", known)
    examples = _examples(sheet, metric)
    return dict(zip(examples.ids, examples.flags[score].astype(float).tolist(), strict=True))


class Ties:
    """Marks of models that are not separable from the best; what was read and tested is kept.

    Args:
        load: reads the sheet of a SHA-256. It is called once for each sheet and metric, while these are kept.
    """

    def __init__(self, load: Callable[[str], Sheet]) -> None:
        self._load = load
        self._read = lru_cache(maxsize=4096)(self._examples_of)
        self._share = lru_cache(maxsize=4096)(self._compare)
        self._alike: dict[bytes, _Examples] = {}

    def shared(self, sheets: Mapping[str, str], metric: str, score: str, category: str = "") -> frozenset[str]:
        """The models that share the mark of the best: the best itself, and those that do not differ significantly.

        Each model is compared with the best on the examples that both have scores of, by the permutation test of
        ``metrics.paired`` over clusters of examples that share an image, with 1,000 random flips or 40 for each model,
        whichever is more, so that the smallest p-value times the number of models stays below 5 %. The p-values are
        corrected by Holm's method for the number of models; what stays above 5 % shares the mark.

        Args:
            sheets: SHA-256 of each model's sheet; all of one task.
            metric, score: which score; a macro average weighs each example by its category.
            category: the part of the examples that counts; empty for all of them.

        Returns:
            Names of models; empty where the score is no mean, or no example is left.
        """
        if not is_mean(metric, score) or not sheets:
            return frozenset()
        return self._share(tuple(sorted(sheets.items())), metric, score, category)

    def _examples_of(self, sheet: str, metric: str) -> _Examples:
        """The examples of a sheet; those of one task share in memory all but what the model earned."""
        found = _examples(self._load(sheet), metric)
        digest = hashlib.sha256("\0".join([metric, *found.ids, *found.members]).encode())
        for numbers in (found.clusters, *found.members.values()):
            digest.update(numbers.tobytes())
        alike = self._alike.setdefault(digest.digest(), found)
        return alike._replace(flags=found.flags)

    def _compare(self, sheets: tuple[tuple[str, str], ...], metric: str, score: str, category: str) -> frozenset[str]:
        found = {name: _part(self._read(sheet, metric), score, category) for name, sheet in sheets}
        found = {name: part for name, part in found.items() if len(part.ids)}
        if not found:
            return frozenset()
        sign = -1 if is_lower_better(score) else 1
        best = max(found, key=lambda name: sign * float(found[name].credit @ found[name].weights))
        others = [name for name in found if name != best]
        permutations = max(1000, 40 * len(others))
        p_values = [_p_value(found[best], found[name], permutations) for name in others]
        return frozenset({best, *(name for name, p in zip(others, holm(p_values), strict=True) if p > LEVEL)})


class _Examples(NamedTuple):
    """The examples of a sheet that are in a metric's scores.

    Attributes:
        ids, clusters: of each; examples of one cluster are not independent.
        members: the numbers of the examples of each category.
        rare: the categories that are in no macro average.
        flags: for each score 1 where an example counts.
    """

    ids: NDArray[Any]
    clusters: NDArray[np.intp]
    members: dict[str, NDArray[np.intp]]
    rare: frozenset[str]
    flags: dict[str, _Flags]


class _Part(NamedTuple):
    """The examples of a score: what each earned, and how much it weighs; the weights sum to 1."""

    ids: NDArray[Any]
    clusters: NDArray[np.intp]
    credit: _Flags
    weights: NDArray[np.float64]


def _examples(sheet: Sheet, metric: str) -> _Examples:
    rows = [row for row in sheet.rows if row.is_scored]
    settings = get_task(sheet.benchmark, sheet.task).metrics[metric]
    if metric == "aro_itm" and settings.get("task", "relation") == "relation":
        rows = [row for row in rows if row.category not in SYMMETRIC]
    if not rows:
        empty = np.zeros(0, dtype=np.uint8)
        return _Examples(np.zeros(0), np.zeros(0, np.intp), {}, frozenset(), dict.fromkeys(_SCORES[metric], empty))
    columns, labels = metric_inputs(rows, _TAKES[metric], metric)
    numbers, names = memberships(labels["categories"], len(rows))
    members: dict[str, list[int]] = {}
    for number, name in zip(numbers.tolist(), names or [], strict=True):
        members.setdefault(name, []).append(number)
    least = settings.get("min_count") or MIN_COUNTS[settings.get("task", "relation")] if metric == "aro_itm" else 1
    return _Examples(
        ids=np.array([row.id for row in rows], dtype=object),
        clusters=np.array(labels["clusters"]),
        members={name: np.array(places) for name, places in members.items()},
        rare=frozenset(name for name, places in members.items() if len(places) < least),
        flags={score: flags.astype(np.uint8) for score, flags in _flags(metric, columns).items()},
    )


def _flags(metric: str, columns: list[Any]) -> dict[str, Any]:
    """Which examples are right, by score; ties are wrong, and not brittle."""
    if metric == "yes_no_f1":
        said, right = (np.array(column) for column in columns)
        return {"accuracy": said == right}
    if metric in ("sugarcrepe_itm", "aro_itm"):
        return {"accuracy": match_credit(*columns).credit}
    scores = np.array(columns[0], dtype=np.float64)
    if metric == "group_match":
        right = scores[:, [0, 1], [0, 1]]
        text = (right > scores[:, [0, 1], [1, 0]]).all(axis=1)
        image = (right > scores[:, [1, 0], [0, 1]]).all(axis=1)
        return {"text_score": text, "image_score": image, "group_score": text & image}
    above, below = scores[:, :2] > scores[:, 2:], scores[:, :2] < scores[:, 2:]
    original, augmented = above[:, 0], above.all(axis=1)
    return {
        "original_accuracy": original,
        "augmented_accuracy": augmented,
        "gap": original & ~augmented,
        "brittleness": above.any(axis=1) & below.any(axis=1),
        "both_wrong": below.all(axis=1),
    }


def _part(examples: _Examples, score: str, category: str) -> _Part:
    weights = np.zeros(len(examples.ids))
    if category:
        groups = [examples.members[category]] if category in examples.members else []
    elif score.startswith("macro_"):
        groups = [places for name, places in examples.members.items() if name not in examples.rare]
    else:
        groups = [np.arange(len(weights))] if len(weights) else []
    for places in groups:
        weights[places] += 1 / (len(groups) * len(places))
    kept = np.flatnonzero(weights)
    flags = examples.flags[score.removeprefix("macro_")]
    return _Part(examples.ids[kept], examples.clusters[kept], flags[kept], weights[kept])


def _p_value(best: _Part, other: _Part, permutations: int) -> float:
    """Of the difference on the examples that both have; 1 where there are none."""
    first = second = slice(None)
    if best.ids is not other.ids and not np.array_equal(best.ids, other.ids):
        place = {name: number for number, name in enumerate(best.ids)}
        shared = [(place[name], number) for number, name in enumerate(other.ids) if name in place]
        if not shared:
            return 1.0
        first, second = (np.array(numbers) for numbers in zip(*shared, strict=True))
    differences = best.credit[first].astype(np.float64) - other.credit[second]
    return cluster_permutation_test(differences * best.weights[first], best.clusters[first], permutations=permutations)
