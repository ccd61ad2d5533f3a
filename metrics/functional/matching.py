"""Image-text matching accuracy, and SugarCrepe's forms of hard negatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import ScoresError
from ..contract.aggregate import metric_function
from ..contract.spec import Described, Examples, make_examples
from .kernels import match_scores, name_rows

FORMS = {
    "replace_obj": "REPLACE",
    "replace_att": "REPLACE",
    "replace_rel": "REPLACE",
    "swap_obj": "SWAP",
    "swap_att": "SWAP",
    "add_obj": "ADD",
    "add_att": "ADD",
}


@metric_function()
def matching_accuracy(
    scores: ArrayLike, correct: ArrayLike, *, ties: str = "wrong", **labels: Unpack[Described]
) -> Examples:
    """How often the correct caption outscores all others of its image; higher is better.

    Args:
        scores: array-like of shape (n, k), k >= 2; higher means a better match. See ``kernels.match_scores``.
        correct: array-like of shape (n,), the column of the correct caption in each row.
        ties: ``"wrong"``, ``"half"`` or ``"right"``: how a tie for the highest score counts.
        labels: categories, clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        Plain Python numbers, accuracies and rates in [0, 1], higher accuracy being better: ``accuracy``,
        ``macro_accuracy``, ``tie_rate``, ``n`` and ``per_category``, and with ``confidence`` the intervals; see
        ``aggregate.aggregate``.

    Raises:
        ScoresError: scores, indices, labels or options that are invalid, NaN included.
        UnknownNameError: an unknown tie policy.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 5 and Table 6.

    >>> matching_accuracy([[0.9, 0.1], [0.2, 0.4]], [0, 0])["accuracy"]
    0.5
    """
    values, tied = match_scores(scores, correct, ties)
    chance = {"accuracy": 1 / np.shape(scores)[1]}
    return make_examples({"accuracy": values}, tied, chance=chance, **labels)


@metric_function()
def sugarcrepe_accuracy(
    scores: ArrayLike,
    correct: ArrayLike,
    *,
    ties: str = "wrong",
    forms: Mapping[str, str] = FORMS,
    **labels: Unpack[Described],
) -> Examples:
    """`matching_accuracy`, and the same for each form of hard negative: REPLACE, SWAP and ADD.

    Args:
        scores: array-like of shape (n, k), k >= 2; higher means a better match. SugarCrepe has k = 2, and [positive,
            negative] is the usual order.
        correct: array-like of shape (n,), the column of the correct caption in each row, so 0 in the usual order.
        ties: how a tie for the highest score counts: ``"wrong"`` 0, as in the authors' code, ``"half"`` 1 over the
            number of captions that share it, ``"right"`` 1.
        forms: the form of each category; SugarCrepe's seven categories by default.
        labels: categories, clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        As `matching_accuracy` (``accuracy``, ``macro_accuracy``, "Average" in the paper's Table 6, ``tie_rate``, ``n``,
        ``per_category`` and with ``confidence`` the intervals), and ``per_form``: for each form ``accuracy`` (over its
        examples, as in the paper's Table 5), ``macro_accuracy`` (over its categories), ``tie_rate``, ``n`` and the
        intervals; empty without categories.

    Raises:
        ScoresError: as `matching_accuracy`, or a category without a form; the message names its row.
        UnknownNameError: an unknown tie policy.

    Source: SugarCrepe, section 5, Tables 5 and 6.

    >>> result = sugarcrepe_accuracy([[2, 1], [1, 2]], [0, 0], categories=["swap_obj", "swap_att"])
    >>> result["per_form"]["SWAP"]["macro_accuracy"]
    0.5
    """
    if not isinstance(forms, Mapping) or not all(isinstance(form, str) and form for form in forms.values()):
        raise ScoresError(f'forms is {forms!r}; map each category to its form, such as {{"swap_number": "SWAP"}}')
    examples = matching_accuracy.per_example(scores, correct, ties=ties, **labels)
    parts: dict[str, list[str]] = {}
    for category, numbers in examples.categories.items():
        if category not in forms:
            bad = np.isin(np.arange(len(examples)), numbers)
            raise ScoresError(
                f"the category {category!r} in {name_rows(bad)} has no form; known: "
                f"{', '.join(forms)}. Name the form of other categories with `forms`, such as "
                '{"swap_number": "SWAP"}'
            )
        parts.setdefault(forms[category], []).append(category)
    return replace(examples, parts={"per_form": parts})
