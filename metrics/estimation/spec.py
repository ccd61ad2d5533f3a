"""The contract of a metric: its specification, and its per-example scores.

A metric declares a `MetricSpec` and a function that returns `Examples`. Everything else is computed from them for all
scores alike: averages and intervals in ``aggregate``, differences between models in ``differences``. A score that is
not a mean over examples brings an `Estimator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from .checks import TIES, Labels, as_list, check_values, label_codes
from .estimators import Estimator, Floats, Numbers

TASK_TYPES = ("matching", "groups", "retrieval", "detection", "vqa", "text", "comparison")


class MetricFunction(Protocol):
    """A metric as a plain function: it returns scores, and its `per_example` what they are aggregated from."""

    per_example: Callable[..., Examples]

    def __call__(self, *columns: Any, **options: Any) -> dict[str, Any]:
        """The scores, as ``aggregate.aggregate`` returns them."""
        ...


@dataclass(frozen=True)
class ScoreSpec:
    """One score of a metric.

    Args:
        name: its key in the metric's results; a trailing ``*`` stands for any ending, as in ``recall_at_*``.
        higher_is_better: whether the better model has the higher value.
        chance: the score of random predictions, in [0, 1]; None where it is unknown or depends on the inputs: see
            `Examples.chance`.
        in_tables: whether tables and the leaderboard show it.
        meaning: what it is, in one line for readers of a table.
    """

    name: str
    higher_is_better: bool = True
    chance: float | None = None
    in_tables: bool = True
    meaning: str = ""

    def is_of(self, name: str) -> bool:
        """Return whether a result's key is this score."""
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name


@dataclass(frozen=True)
class MetricSpec:
    """The specification of a metric: ``SPEC`` in ``spec.py`` of its folder.

    Args:
        function: the metric: called, it returns scores; its ``per_example`` returns `Examples`.
        task_type: what it takes, one of `TASK_TYPES`: "matching", the scores of an image's captions; "groups", images ×
            captions; "retrieval", an image with all captions of a set, or with its own; "detection", boxes; "vqa",
            answers; "text", the scores of captions without an image; "comparison", two models.
        scores: in the order of tables; every name that is a score and no count or rate.
        main_score: the one for plots, verdicts and model selection; the first by default.
        ties: the tie policy of its paper; None where nothing can be tied.
        tie_policies: those that its function knows.
        label: distinguishes its scores from those of the same name of other metrics, such as "CPD"; may be empty.
        positive_captions: how many captions of a row, from the first, are true of its image (matching).
        is_joint: whether some score takes several choices to be right that no answer without the image gets right
            together, so that a guess by text alone is not chance; see ``hub_datasets.authoring.audit.blind``.
    """

    function: MetricFunction
    task_type: str
    scores: tuple[ScoreSpec, ...]
    main_score: str = ""
    ties: str | None = "wrong"
    tie_policies: tuple[str, ...] = TIES
    label: str = ""
    positive_captions: int = 1
    is_joint: bool = False

    def __post_init__(self) -> None:
        if self.task_type not in TASK_TYPES:
            raise ValueError(f"the task type is {self.task_type!r}; it is one of {', '.join(TASK_TYPES)}")
        if not self.main_score:
            object.__setattr__(self, "main_score", self.scores[0].name)
        if self.score(self.main_score) is None:
            raise ValueError(f"the main score {self.main_score!r} is not among the scores")

    def score(self, name: str) -> ScoreSpec | None:
        """The score of a key of results, macro averages included; None for any other key."""
        names = (name, name.removeprefix("macro_"))
        return next((score for each in names for score in self.scores if score.is_of(each)), None)

    def is_higher_better(self, name: str) -> bool:
        """Return whether the higher value of a score, by its key in results, is better; ValueError for other keys."""
        score = self.score(name)
        if score is None:
            raise ValueError(f"{name!r} is not a score; there are {', '.join(each.name for each in self.scores)}")
        return score.higher_is_better

    def table_scores(self, names: Sequence[str]) -> list[str]:
        """Those of some keys of results that tables show, in the order of the specification."""
        return [name for score in self.scores if score.in_tables for name in names if score.is_of(name)]


class Described(TypedDict, total=False):
    """The labels of examples that every metric takes; see ``aggregate.SummaryOptions``."""

    categories: Labels | None
    clusters: Labels | None


@dataclass(frozen=True)
class Examples:
    """The per-example scores of a metric.

    Make it with `make_examples`, which checks.

    Args:
        rows: int array of shape (n,): the input row of each example; several examples may be of one, such as the
            phrases of a caption.
        values: for each score that is a mean over examples an array of shape (n,), in [0, 1]; NaN where an example is
            not of this score, such as an image's query in image retrieval.
        tied: bool array of shape (n,): whether a tie decides a value; or the share of runs in which one does.
        clusters: int array of shape (n,): equal for examples that are not independent.
        membership: the examples that count in a category, and the category of each of these places; None without
            categories.
        names: distinguish the examples of one row, or None.
        left_out: why input rows count in no score, by row.
        rare: categories that are in no macro average, and why.
        estimators: of the scores that are not means.
        tables: by name, values that are shown side by side, such as the shares of rankings: for each label an array of
            shape (n,). Without bounds.
        parts: by name, groups of categories with averages of their own: for each label the names of its categories.
        facts: counts that are reported with the scores, of all examples (None) or of some.
        chance: what scoring at random gets on these inputs, by score.
        with_macro: whether means have macro averages.
        with_tie_rate: whether the share of ties is a number of the results.
        has_ties: whether `tied` is meaningful; false for metrics without ties of single examples.
        category_key: the key of the results by category.
    """

    rows: Numbers
    values: Mapping[str, Floats]
    tied: NDArray[Any]
    clusters: Numbers
    membership: tuple[Numbers, list[Any]] | None = None
    names: list[str] | None = None
    left_out: Mapping[int, str] = field(default_factory=dict)
    rare: Mapping[str, str] = field(default_factory=dict)
    estimators: tuple[Estimator, ...] = ()
    tables: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    facts: Callable[[Numbers | None], dict[str, Any]] = lambda numbers: {}
    chance: Mapping[str, float] = field(default_factory=dict)
    with_macro: bool = True
    with_tie_rate: bool = True
    has_ties: bool = True
    category_key: str = "per_category"

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def categories(self) -> dict[str, Numbers]:
        """The indices of the examples in each category, in the order of first appearance; empty without categories."""
        return _grouped(self.membership)

    @property
    def macro_categories(self) -> dict[str, Numbers]:
        """The categories that count in macro averages."""
        return {name: numbers for name, numbers in self.categories.items() if name not in self.rare}

    @property
    def macro_membership(self) -> tuple[Numbers, list[Any]]:
        """The examples that count in macro averages, and the category in which each does."""
        numbers, labels = self.membership or (np.empty(0, dtype=np.intp), [])
        kept = [place for place, label in enumerate(labels) if str(label) not in self.rare]
        return numbers[kept], [labels[place] for place in kept]

    @property
    def places(self) -> dict[str, Numbers]:
        """The indices of the examples in each category, and before them, under "", those of all."""
        return {"": np.arange(len(self)), **self.categories}

    @property
    def scores(self) -> list[str]:
        """The names of all scores: the means, then those of the estimators."""
        return [*self.values, *(name for estimator in self.estimators for name in estimator.names)]

    def estimator(self, score: str) -> Estimator:
        """The estimator of a score that is not a mean."""
        return next(estimator for estimator in self.estimators if score in estimator.names)

    def of_score(self, score: str) -> Examples:
        """The examples that are of a score that is a mean, with their categories."""
        lacking = np.isnan(self.values[score])
        return self.select(np.flatnonzero(~lacking), with_categories=True) if lacking.any() else self

    def select(self, numbers: Numbers, *, with_categories: bool = False) -> Examples:
        """Some examples alone, in this order; without their categories, parts and facts unless they are asked for."""
        membership = None
        if with_categories and self.membership is not None:
            place = np.full(len(self), -1)
            place[numbers] = np.arange(len(numbers))
            found, labels = self.membership
            kept = np.flatnonzero(place[found] >= 0)
            membership = place[found[kept]], [labels[number] for number in kept]
        return Examples(
            rows=self.rows[numbers],
            values={name: values[numbers] for name, values in self.values.items()},
            tied=self.tied[numbers],
            clusters=self.clusters[numbers],
            membership=membership,
            names=None if self.names is None else [self.names[number] for number in numbers.tolist()],
            rare=self.rare if with_categories else {},
            estimators=tuple(estimator.select(numbers) for estimator in self.estimators),
            tables={
                name: {label: values[numbers] for label, values in table.items()} for name, table in self.tables.items()
            },
            with_macro=self.with_macro,
            with_tie_rate=self.with_tie_rate,
            has_ties=self.has_ties,
            category_key=self.category_key,
        )


def make_examples(
    values: Mapping[str, ArrayLike],
    tied: ArrayLike,
    *,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    allow_nan: bool = False,
    **others: Any,
) -> Examples:
    """Validate per-example scores and put them together.

    Args:
        values: for each score's name an array-like of shape (n,), in [0, 1].
        tied: array-like of bool of shape (n,), true where a tie decides an example's value.
        categories: one label per example, compared as text; or a list of labels for each, which then counts in every
            one of them, and in none where it is empty.
        clusters: one label per example, its image; without them each example is its own cluster.
        allow_nan: whether NaN may stand for an example that is not of a score.
        others: further fields of `Examples`.

    Returns:
        The examples; their rows are 0 to n - 1 by default.

    Raises:
        ScoresError: no examples, unequal lengths, a value outside [0, 1] or NaN, or a missing label.

    >>> found = make_examples({"accuracy": [1, 0]}, [False, False], categories=["add", "swap"])
    >>> {name: numbers.tolist() for name, numbers in found.categories.items()}
    {'add': [0], 'swap': [1]}
    """
    checked = {name: check_values(each, allow_nan) for name, each in values.items()}
    flags = np.asarray(tied, dtype=bool)
    n = len(next(iter(checked.values()))) if checked else len(flags)
    if flags.shape != (n,):
        raise ScoresError(f"got {flags.size} tie flags for {n} examples; pass one per example")
    return Examples(
        rows=others.pop("rows", np.arange(n)),
        values=checked,
        tied=flags,
        clusters=_cluster_numbers(clusters, n),
        membership=memberships(categories, n),
        **others,
    )


def category_numbers(categories: Labels | None, n: int) -> dict[str, Numbers]:
    """The indices of the examples in each category, in the order of first appearance; see `memberships`."""
    return _grouped(memberships(categories, n))


def _grouped(membership: tuple[Numbers, list[Any]] | None) -> dict[str, Numbers]:
    if membership is None:
        return {}
    numbers, labels = membership
    names, codes = label_codes(labels, len(numbers), "categories")
    ends = np.cumsum(np.bincount(codes))[:-1]
    return dict(zip(names, np.split(numbers[np.argsort(codes, kind="stable")], ends), strict=True))


def _cluster_numbers(clusters: Labels | None, n: int) -> Numbers:
    """Clusters numbered by their names, so that resamples do not depend on the order of rows."""
    if clusters is None:
        return np.arange(n)
    names, codes = label_codes(clusters, n, "clusters")
    return np.argsort(np.argsort(names))[codes]


def memberships(categories: Labels | None, n: int) -> tuple[Numbers, list[Any]] | None:
    """Return the pairs of example and category.

    Returns:
        The indices of examples, and the label in which each of them counts; None without categories. With one label per
        example the indices are 0 to n - 1.

    Raises:
        ScoresError: another number of labels than examples, or a label that is missing.

    >>> memberships([["a", "b"], "a"], 2)
    (array([0, 0, 1]), ['a', 'b', 'a'])
    """
    if categories is None:
        return None
    labels = as_list(categories)
    many = [isinstance(label, list | tuple | np.ndarray) for label in labels]
    if not any(many):
        label_codes(labels, n, "categories")
        return np.arange(n), labels
    try:
        groups = [list(dict.fromkeys(label)) if listed else [label] for label, listed in zip(labels, many, strict=True)]
    except TypeError:
        raise ScoresError("a category is a list of lists; pass one label per example, or one list of labels") from None
    if len(groups) != n:
        raise ScoresError(f"got {len(groups)} categories for {n} examples; pass one label, or a list of them, for each")
    if not any(groups):
        raise ScoresError("no example has a category; pass some, or leave categories out")
    numbers = np.repeat(np.arange(n), [len(group) for group in groups])
    flat = [label for group in groups for label in group]
    label_codes(flat, len(numbers), "categories")
    return numbers, flat
