"""Image-text matching: per-example scores and their ties, accuracy, and SugarCrepe's forms of hard negatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.checks import as_float64, check_ties, name_rows, refuse, score_matrix
from ..estimation.spec import Described, Examples, make_examples

FORMS = {
    "replace_obj": "REPLACE",
    "replace_att": "REPLACE",
    "replace_rel": "REPLACE",
    "swap_obj": "SWAP",
    "swap_att": "SWAP",
    "add_obj": "ADD",
    "add_att": "ADD",
}


class MatchScores(NamedTuple):
    """Scores of shape (n,), in [0, 1], higher is better; and whether the correct caption shares the highest score."""

    values: NDArray[np.float64]
    tied: NDArray[np.bool_]


def match_scores(scores: ArrayLike, correct: ArrayLike, ties: str = "wrong") -> MatchScores:
    """Score each example by whether the correct caption outscores every other caption of its image.

    The score is 1 when s(correct, image) > s(other, image) for all others, and 0 when some other caption scores
    higher. Where the correct caption shares the highest score with m others, ``ties`` decides.

    Args:
        scores: array-like of shape (n, k), k >= 2: a row is an example, a column a caption; higher means a
            better match, on any scale. Compared as float64: 0.30000001 and 0.3 are not a tie.
        correct: array-like of shape (n,), the column of the correct caption in each row, from 0 to k - 1.
        ties: ``"wrong"`` gives 0 for a tie (the SugarCrepe authors' strict ``>``), ``"half"`` gives
            1 / (m + 1), the mean over random choices among the best, ``"right"`` gives 1. The accuracy of a constant
            scorer is thus 0, 1 / k or 1.

    Returns:
        The score of each example and whether a tie decided it.

    Raises:
        ScoresError: no examples, rows of unequal length, fewer than two captions, a score that is NaN or
            infinite (a NaN compares with nothing), or an index that is out of range.
        UnknownNameError: an unknown tie policy.

    Source: SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), sections 2 and 5, with k = 2.

    >>> match_scores([[0.9, 0.1], [0.4, 0.4]], [0, 0], ties="half").values.tolist()
    [1.0, 0.5]
    """
    check_ties(ties)
    matrix = score_matrix(scores)
    columns = correct_columns(correct, *matrix.shape)
    rows = np.arange(len(matrix))
    right_scores = matrix[rows, columns]
    others = matrix.copy()
    others[rows, columns] = -np.inf
    best_other = others.max(axis=1)
    tied = right_scores == best_other
    rivals = (others == best_other[:, np.newaxis]).sum(axis=1)
    tie_values = {"wrong": 0.0, "half": 1 / (rivals + 1), "right": 1.0}[ties]
    return MatchScores(np.where(tied, tie_values, right_scores > best_other), tied)


@metric_function()
def matching_accuracy(
    scores: ArrayLike, correct: ArrayLike, *, ties: str = "wrong", **labels: Unpack[Described]
) -> Examples:
    """Return the share of examples whose positive caption outscores all others; higher is better.

    Choosing at random among k captions gives 1 / k. With one caption and k images the columns are the images.

    Args:
        scores: array-like of shape (n, k), k >= 2: a row is an example, a column a caption; higher means a better
            match, on any scale.
        correct: array-like of shape (n,), the column of the positive caption in each row.
        ties: how a tie for the highest score counts: ``"wrong"`` 0, ``"half"`` 1 over the number of captions that share
            it, ``"right"`` 1.
        labels: categories, clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        ``accuracy``, ``macro_accuracy``, ``tie_rate``, ``n``, ``per_category`` and with ``confidence`` the intervals;
        see ``aggregate.aggregate``.

    Raises:
        ScoresError: invalid scores, NaN among them, indices, labels or options; the message names the rows.
        UnknownNameError: an unknown tie policy.

    Source: pairwise accuracy as in SVO-Probes (Hendricks and Nematzadeh, Findings of ACL 2021), with strict ``>`` as in
    SugarCrepe (Hsieh et al., NeurIPS Datasets and Benchmarks 2023), section 5.

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
    """Compute `matching_accuracy` over all and for each form of hard negative: REPLACE, SWAP and ADD.

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
    for category, row_numbers in examples.categories.items():
        if category not in forms:
            where = name_rows(np.isin(np.arange(len(examples)), row_numbers))
            raise ScoresError(
                f"the category {category!r} in {where} has no form; known: {', '.join(forms)}. Name the form of other "
                'categories with `forms`, such as {"swap_number": "SWAP"}'
            )
        parts.setdefault(forms[category], []).append(category)
    return replace(examples, parts={"per_form": parts})


def correct_columns(correct: ArrayLike, examples: int, captions: int) -> NDArray[np.intp]:
    """Validate the columns of the correct captions, one for each example; raise `ScoresError` if they are invalid."""
    columns = as_float64(correct, "indices of the correct captions")
    if columns.shape != (examples,):
        raise ScoresError(
            f"the indices of the correct captions have shape {columns.shape} for {examples} examples; pass "
            "one index per example"
        )
    if np.asarray(correct).dtype == bool:
        raise ScoresError(
            "the indices of the correct captions are booleans, which could mean either caption; pass the "
            "column of the correct caption, 0 or 1"
        )
    refuse(
        ~((columns == np.floor(columns)) & (columns >= 0) & (columns < captions)),
        "the index of the correct caption is {first:g} in {rows}; pass a whole number from 0 to {last}, the column of "
        "the correct caption",
        columns,
        last=captions - 1,
    )
    return columns.astype(np.intp)
