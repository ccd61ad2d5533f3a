"""The specification of a metric, and its per-example scores.

A metric declares a `MetricSpec` and a function that returns `Examples`. Everything else is computed from them in the
same way for all scores: averages and intervals in ``aggregate``, differences between models in ``differences``. A score
that is not a mean over examples brings an `Estimator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from .bootstrap import Floats, Indices
from .checks import TIES, Labels, as_list, check_values, label_codes
from .estimators import Estimator

TASK_TYPES = ("matching", "groups", "retrieval", "detection", "vqa", "text", "comparison")


class MetricFunction(Protocol):
    """A metric that ``aggregate.metric_function`` made: it returns scores, its `per_example` their `Examples`."""

    per_example: Callable[..., Examples]

    def __call__(self, *columns: Any, **options: Any) -> dict[str, Any]:
        """Compute the scores, see ``aggregate.aggregate``."""
        ...


@dataclass(frozen=True)
class ScoreSpec:
    """One score of a metric.

    Args:
        name: its key in the metric's results; a trailing ``*`` stands for any ending, as in ``recall_at_*``.
        higher_is_better: whether the better model has the higher value.
        chance: the score of random predictions, in [0, 1]; None if it is unknown or depends on the inputs: see
            `Examples.chance`.
        in_tables: whether tables and the leaderboard show it.
        meaning: one line for readers of a table.
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
class TableSpec:
    """A table that a metric returns besides its scores.

    Args:
        name: its key in the metric's results.
        kind: "shares" of the examples by label, "means" by label, "groups" of categories with their scores, or
            "rates": a fraction for each category.
    """

    name: str
    kind: Literal["shares", "means", "groups", "rates"]


@dataclass(frozen=True)
class MetricSpec:
    """The specification of a metric, the constant ``SPEC`` in ``spec.py`` in the metric's folder.

    Args:
        function: the metric: called, it returns scores.
        task_type: the type of its inputs, one of `TASK_TYPES`: "matching", the scores of an image's captions; "groups",
            images × captions; "retrieval", an image with all captions of a set, or with its own; "detection", boxes;
            "vqa", answers; "text", the scores of captions without an image; "comparison", two models.
        scores: in the order of tables; all results that are scores, not counts or rates.
        main_score: the score for plots, verdicts and model selection; the first by default.
        ties: the tie policy of its paper; None if nothing can be tied.
        tie_policies: the policies that its function knows.
        label: distinguishes its scores from other metrics' scores of the same name, such as "CPD"; may be empty.
        positive_captions: how many captions of a row, from the first, are true of its image (matching).
        is_joint: whether some score requires several correct choices, which no answer without the image can satisfy at
            once, so that guessing from text only is not at chance level; see ``hub_datasets.authoring.audit.blind``.
        version: raised by hand when the values for some inputs change, so that stored results are computed again;
            ``tests/metrics/test_golden_values.py`` fails if values change without it.
        tables: the tables that it returns besides its scores, in the order of reports.
    """

    function: Callable[..., dict[str, Any]]
    task_type: str
    scores: tuple[ScoreSpec, ...]
    main_score: str = ""
    ties: str | None = "wrong"
    tie_policies: tuple[str, ...] = TIES
    label: str = ""
    positive_captions: int = 1
    is_joint: bool = False
    version: int = 1
    tables: tuple[TableSpec, ...] = ()

    def __post_init__(self) -> None:
        if self.task_type not in TASK_TYPES:
            raise ValueError(f"the task type is {self.task_type!r}; it is one of {', '.join(TASK_TYPES)}")
        if not self.main_score:
            object.__setattr__(self, "main_score", self.scores[0].name)
        if self.score(self.main_score) is None:
            raise ValueError(f"the main score {self.main_score!r} is not among the scores")

    @property
    def per_example(self) -> Callable[..., Examples]:
        """The function behind the scores; metrics of the types "comparison" and "text" may lack one."""
        return cast(MetricFunction, self.function).per_example

    def score(self, name: str) -> ScoreSpec | None:
        """Return the score of a key of results, also of a macro average; None for any other key."""
        names = (name, name.removeprefix("macro_"))
        return next((score for key in names for score in self.scores if score.is_of(key)), None)

    def is_higher_better(self, name: str) -> bool:
        """Return whether the higher value of a score, by its key in results, is better; ValueError for other keys."""
        score = self.score(name)
        if score is None:
            raise ValueError(f"{name!r} is not a score; there are {', '.join(score.name for score in self.scores)}")
        return score.higher_is_better

    def table_scores(self, names: Sequence[str]) -> list[str]:
        """Return the keys of results that tables show, in the order of the specification."""
        return [name for score in self.scores if score.in_tables for name in names if score.is_of(name)]


class Described(TypedDict, total=False):
    """The labels of examples that every metric accepts; see ``aggregate.SummaryOptions``."""

    categories: Labels | None
    clusters: Labels | None


@dataclass(frozen=True)
class Examples:
    """The per-example scores of a metric, as `make_examples` validates and returns them.

    Args:
        rows: int array of shape (n,): the input row of each example; several examples may share a row, such as the
            phrases of a caption.
        values: for each score that is a mean over examples an array of shape (n,), in [0, 1]; NaN if an example does
            not have this score, such as an image's query in image retrieval.
        tied: bool array of shape (n,): whether a tie decides a value.
        clusters: int array of shape (n,): equal for examples that are not independent.
        membership: pairs of example and category, as an index array and a list of labels; None without categories.
        names: distinguish the examples of one row, or None.
        left_out: input rows that count in no score, with the reason.
        rare: categories that are in no macro average, with the reason.
        estimators: compute the scores that are not means.
        tables: by name, values that are shown side by side, such as the shares of rankings: for each label an array of
            shape (n,). Without bounds.
        parts: by name, groups of categories that are averaged too: for each label the names of its categories.
        facts: returns counts to report with the scores, for all examples (None) or for some indices.
        chance: the result of random scores on these inputs, by score.
        with_macro: whether means have macro averages.
        with_tie_rate: whether the share of ties is a number of the results.
        has_ties: whether `tied` is meaningful; false for metrics without ties of single examples.
    """

    rows: Indices
    values: Mapping[str, Floats]
    tied: NDArray[Any]
    clusters: Indices
    membership: tuple[Indices, list[Any]] | None = None
    names: list[str] | None = None
    left_out: Mapping[int, str] = field(default_factory=dict)
    rare: Mapping[str, str] = field(default_factory=dict)
    estimators: tuple[Estimator, ...] = ()
    tables: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    facts: Callable[[Indices | None], dict[str, Any]] = lambda indices: {}
    chance: Mapping[str, float] = field(default_factory=dict)
    with_macro: bool = True
    with_tie_rate: bool = True
    has_ties: bool = True

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def categories(self) -> dict[str, Indices]:
        """The indices of the examples in each category, in the order of first appearance; empty without categories."""
        return _grouped(self.membership)

    @property
    def macro_categories(self) -> dict[str, Indices]:
        """The categories that count in macro averages."""
        return {name: indices for name, indices in self.categories.items() if name not in self.rare}

    @property
    def macro_membership(self) -> tuple[Indices, list[Any]]:
        """The pairs of example and category that count in macro averages."""
        indices, labels = self.membership or (np.empty(0, dtype=np.intp), [])
        rows = [position for position, label in enumerate(labels) if str(label) not in self.rare]
        return indices[rows], [labels[position] for position in rows]

    @property
    def places(self) -> dict[str, Indices]:
        """The indices of the examples by category, after the indices of all examples under ""."""
        return {"": np.arange(len(self)), **self.categories}

    @property
    def scores(self) -> list[str]:
        """The names of all scores: first the means, then the scores of the estimators."""
        return [*self.values, *(name for estimator in self.estimators for name in estimator.names)]

    def estimator(self, score: str) -> Estimator:
        """Return the estimator of a score that is not a mean."""
        return next(estimator for estimator in self.estimators if score in estimator.names)

    def of_score(self, score: str) -> Examples:
        """Return the examples that have a score that is a mean, with their categories."""
        lacking = np.isnan(self.values[score])
        return self.select(np.flatnonzero(~lacking), with_categories=True) if lacking.any() else self

    def select(self, indices: Indices, *, with_categories: bool = False) -> Examples:
        """Return some examples in this order, without parts and facts; with categories only on request."""
        membership = None
        if with_categories and self.membership is not None:
            position = np.full(len(self), -1)
            position[indices] = np.arange(len(indices))
            examples, labels = self.membership
            rows = np.flatnonzero(position[examples] >= 0)
            membership = position[examples[rows]], [labels[number] for number in rows]
        return Examples(
            rows=self.rows[indices],
            values={name: values[indices] for name, values in self.values.items()},
            tied=self.tied[indices],
            clusters=self.clusters[indices],
            membership=membership,
            names=None if self.names is None else [self.names[number] for number in indices.tolist()],
            rare=self.rare if with_categories else {},
            estimators=tuple(estimator.select(indices) for estimator in self.estimators),
            tables={
                name: {label: values[indices] for label, values in table.items()} for name, table in self.tables.items()
            },
            with_macro=self.with_macro,
            with_tie_rate=self.with_tie_rate,
            has_ties=self.has_ties,
        )


def make_examples(
    values: Mapping[str, ArrayLike],
    tied: ArrayLike,
    *,
    categories: Labels | None = None,
    clusters: Labels | None = None,
    allow_nan: bool = False,
    **fields: Any,
) -> Examples:
    """Validate per-example scores and return them as `Examples`.

    Args:
        values: for each score's name an array-like of shape (n,), in [0, 1].
        tied: array-like of bool of shape (n,), true where a tie decides an example's value.
        categories: one label per example, compared as text; or a list of labels for each, which then counts in every
            one of them, and in none where it is empty.
        clusters: one label per example, its image; without them each example is its own cluster.
        allow_nan: whether NaN may stand for an example that does not have a score.
        fields: further fields of `Examples`.

    Returns:
        The examples; their rows are 0 to n - 1 by default.

    Raises:
        ScoresError: no examples, unequal lengths, a value outside [0, 1] or NaN, or a missing label.

    >>> examples = make_examples({"accuracy": [1, 0]}, [False, False], categories=["add", "swap"])
    >>> {name: indices.tolist() for name, indices in examples.categories.items()}
    {'add': [0], 'swap': [1]}
    """
    checked = {name: check_values(column, allow_nan) for name, column in values.items()}
    flags = np.asarray(tied, dtype=bool)
    n = len(next(iter(checked.values()))) if checked else len(flags)
    if flags.shape != (n,):
        raise ScoresError(f"got {flags.size} tie flags for {n} examples; pass one per example")
    return Examples(
        rows=fields.pop("rows", np.arange(n)),
        values=checked,
        tied=flags,
        clusters=_cluster_numbers(clusters, n),
        membership=memberships(categories, n),
        **fields,
    )


def _grouped(membership: tuple[Indices, list[Any]] | None) -> dict[str, Indices]:
    if membership is None:
        return {}
    indices, labels = membership
    names, codes = label_codes(labels, len(indices), "categories")
    ends = np.cumsum(np.bincount(codes))[:-1]
    return dict(zip(names, np.split(indices[np.argsort(codes, kind="stable")], ends), strict=True))


def _cluster_numbers(clusters: Labels | None, n: int) -> Indices:
    """Number clusters by the order of their names, so that resamples do not depend on the order of rows."""
    if clusters is None:
        return np.arange(n)
    names, codes = label_codes(clusters, n, "clusters")
    return np.argsort(np.argsort(names))[codes]


def memberships(categories: Labels | None, n: int) -> tuple[Indices, list[Any]] | None:
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
    indices = np.repeat(np.arange(n), [len(group) for group in groups])
    flat = [label for group in groups for label in group]
    label_codes(flat, len(indices), "categories")
    return indices, flat
