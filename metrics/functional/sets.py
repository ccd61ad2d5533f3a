"""Sets of images that share their captions: accuracy of examples, of pairs of examples and of sets (What'sUp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import Labels, as_list, label_codes
from ..estimation.spec import Described, Examples, make_examples
from .matching import match_scores

_REMEDY = 'such as [["left", "right"], ["on", "under"]]'


@metric_function()
def set_accuracy(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    sets: Labels | None = None,
    pairs: Sequence[Sequence[str]] = (),
    ties: str = "wrong",
    **labels: Unpack[Described],
) -> Examples:
    """Compute the share of examples, pairs and sets in which the correct caption outscores all others.

    The examples of a set have the same captions, each the correct one of another example, as the photographs of a mug
    left of, right of, on and under a plate::

        accuracy      = share of examples that are right (see `match_scores`)
        pair_accuracy = share of pairs of which both examples are right
        set_accuracy  = share of sets of which all examples are right

    Choosing at random among k captions gives 1 / k, 1 / k² and, with m examples in a set, 1 / k^m. Choosing the same
    caption for all examples of a set gives 1 / k, 0 and 0.

    Args:
        scores, correct: see `match_scores`.
        sets: a label for each example, equal within a set; required.
        pairs: the two categories of each pair of a set, such as ``[["left", "right"], ["on", "under"]]``; required. A
            set consists of one example of each.
        ties: see `match_scores`; a pair or set counts the product of its examples' values.
        labels: categories, required too; clusters, by default the sets; and further options: see
            ``aggregate.SummaryOptions``.

    Returns:
        ``accuracy``, ``pair_accuracy``, ``set_accuracy`` in [0, 1], None where no pair or set is complete, their
        ``macro_`` averages, ``tie_rate``, ``n`` (examples), ``per_category`` (for a category the accuracy of the pairs
        and sets of its examples), ``n_pairs``, ``n_sets`` and ``n_incomplete_sets``: sets that lack a category or have
        one twice; they count only in the accuracy and with their complete pairs.

    Raises:
        ScoresError: as `match_scores`; no sets or categories, several for an example, or a category that is in no pair;
            pairs of another form.
        UnknownNameError: an unknown tie policy.

    Source: What's "up" with vision-language models? (Kamath et al., EMNLP 2023), section 3, and the authors' code.

    >>> result = set_accuracy(
    ...     [[2, 1, 1, 1], [1, 2, 1, 1], [1, 1, 2, 1], [1, 2, 1, 1]], [0, 1, 2, 3], sets=["mug"] * 4,
    ...     categories=["left", "right", "on", "under"], pairs=[["left", "right"], ["on", "under"]],
    ... )
    >>> result["accuracy"], result["pair_accuracy"], result["set_accuracy"]
    (0.75, 0.5, 0.0)
    """
    values, tied = match_scores(scores, correct, ties)
    names, codes = _required(sets, len(values), "sets")
    kinds, numbers = _required(labels.get("categories"), len(values), "categories")
    checked_pairs = _checked(pairs)
    every = [category for pair in checked_pairs for category in pair]
    if unknown := set(kinds).difference(every):
        raise ScoresError(f"the category {min(unknown)!r} is in none of the pairs {checked_pairs}; put it in one")
    members: list[dict[str, list[int]]] = [{} for _ in names]
    for row, (code, number) in enumerate(zip(codes.tolist(), numbers.tolist(), strict=True)):
        members[code].setdefault(kinds[number], []).append(row)
    pair_values, n_pairs = _joint(
        values, [(members_of_set, pair) for members_of_set in members for pair in checked_pairs]
    )
    set_values, n_sets = _joint(values, [(members_of_set, every) for members_of_set in members])
    counts = {"n_pairs": n_pairs, "n_sets": n_sets, "n_incomplete_sets": len(names) - n_sets}
    k = np.shape(scores)[1]
    if labels.get("clusters") is None:
        labels = {**labels, "clusters": codes.tolist()}
    return make_examples(
        {"accuracy": values, "pair_accuracy": pair_values, "set_accuracy": set_values},
        tied,
        allow_nan=True,
        facts=lambda numbers: counts if numbers is None else {},
        chance={"accuracy": 1 / k, "pair_accuracy": 1 / k**2, "set_accuracy": 1 / k ** len(every)},
        **labels,
    )


def _joint(
    values: NDArray[np.float64], groups: Sequence[tuple[dict[str, list[int]], list[str]]]
) -> tuple[NDArray[np.float64], int]:
    """Return each example's product over its group, and the number of groups with one example of each wanted category.

    A group has its examples by category, and the wanted categories. Examples of other groups get NaN. As all groups
    have one size, the mean over examples is the mean over groups.
    """
    joint, complete = np.full(len(values), np.nan), 0
    for members, wanted in groups:
        row_numbers = [number for category in wanted for number in members.get(category, ())]
        if len(row_numbers) == len(wanted) and all(category in members for category in wanted):
            joint[row_numbers] = values[row_numbers].prod()
            complete += 1
    return joint, complete


def _required(labels: Labels | None, n: int, what: str) -> tuple[list[str], NDArray[np.intp]]:
    if labels is None:
        raise ScoresError(
            f"the {what} are missing; pass one label for each example: a set has an example of each category"
        )
    return label_codes(as_list(labels), n, what)


def _checked(pairs: Any) -> list[list[str]]:
    """Return the pairs as lists; raise `ScoresError` unless a pair has two categories, and none is in two pairs."""
    listed = isinstance(pairs, list | tuple) and all(isinstance(pair, list | tuple) for pair in pairs)
    names = [list(map(str, pair)) for pair in pairs] if listed else []
    if not names or any(len(pair) != 2 for pair in names) or len({c for pair in names for c in pair}) < 2 * len(names):
        raise ScoresError(f"pairs is {pairs!r:.200}; give two categories for each pair, each once, {_REMEDY}")
    return names
