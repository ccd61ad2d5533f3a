"""Answers to yes-or-no questions: accuracy, macro F1, and each category's share of the false answers."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import metric_function
from ..estimation.bootstrap import unseen_share
from ..estimation.checks import refuse
from ..estimation.estimators import OfTotals
from ..estimation.spec import Described, Examples, make_examples

# The name of a category's share of all such errors, and that of their number.
_ERRORS = {"false_positive_share": "false_positives", "false_negative_share": "false_negatives"}
_YES, _NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0", "-0.0")
_WORDS: dict[str, bool] = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}


@metric_function()
def yes_no_f1(answers: ArrayLike, truth: ArrayLike, **labels: Unpack[Described]) -> Examples:
    """Compute accuracy and macro F1 of yes-or-no answers; higher is better.

    ::

        F1(class) = 2 TP / (2 TP + FP + FN), with the class as the positive one
        macro F1  = (F1(yes) + F1(no)) / 2

    Answering at random gives 1/2 for both on a balanced set; always answering the same gives 1/2 and 1/3.

    Args:
        answers: array-like of shape (n,): 1 or 0, true or false, or the words "yes" and "no" in any case. There are no
            scores and so no ties. An answer that is neither must be mapped by the caller, so that it is counted.
        truth: array-like of shape (n,), likewise: whether the right answer is yes.
        labels: categories (TRICD's splits), clusters; and further options: see ``aggregate.SummaryOptions``.

    Returns:
        - ``accuracy``, ``macro_f1``, ``f1_yes`` and ``f1_no``, in [0, 1];
        - ``false_positives`` and ``false_negatives``: how many; ``n``;
        - ``macro_accuracy``: the unweighted mean of the categories' accuracies;
        - ``per_category``: for each category the same, and its shares of all false positives and of all false
          negatives, ``false_positive_share`` and ``false_negative_share`` (``None`` without any);
        - with ``confidence``: ``confidence``, ``macro_accuracy_interval``, ``accuracy_interval`` and, in the categories
          too, ``macro_f1_interval``, taken over the resamples that have right answers of both kinds. Where every answer
          is right, or every one wrong, resamples do not spread: then it reaches to the lowest, or highest, macro F1
          that the exact interval of the accuracy allows. For a single image it is (0, 1).

    Raises:
        ScoresError: no answers, unequal lengths, an answer that is neither yes nor no, or a set or category whose right
            answers are all the same, for which macro F1 is not defined.

    Source: TRICD (Kamath, Price et al., 2023), section 6.1 and Table 4.

    >>> result = yes_no_f1(["yes", "yes", "no", "no"], [1, 0, 0, 0])
    >>> result["accuracy"], round(result["macro_f1"], 4)  # F1(yes) = 2/3, F1(no) = 4/5
    (0.75, 0.7333)
    """
    predicted, right = _yes(answers, "answers"), _yes(truth, "right answers")
    if predicted.shape != right.shape:
        raise ScoresError(f"got {len(predicted)} answers for {len(right)} right answers; pass one for each question")
    _check_both_answers(right, "the set")
    outcomes = np.stack(
        [predicted & right, predicted & ~right, ~predicted & right, ~predicted & ~right], axis=1
    ).astype(np.float64)
    yes, no = float(right.sum()), float((~right).sum())
    all_errors = outcomes.sum(axis=0)[1:3].astype(int).tolist()

    def facts(numbers: NDArray[np.intp] | None) -> dict[str, Any]:
        errors = all_errors if numbers is None else outcomes[numbers].sum(axis=0)[1:3].astype(int).tolist()
        counts = dict(zip(_ERRORS.values(), errors, strict=True))
        if numbers is None:
            return counts
        shares = (count / total if total else None for count, total in zip(errors, all_errors, strict=True))
        return counts | dict(zip(_ERRORS, shares, strict=True))

    f1 = OfTotals(("macro_f1", "f1_yes", "f1_no"), outcomes, _f1, edge=_edge_interval)
    examples = make_examples(
        {"accuracy": predicted == right},
        np.zeros(len(predicted)),
        estimators=(f1,),
        facts=facts,
        chance={"macro_f1": float(_f1(np.array([yes, no, yes, no]) / 2)[0])},  # half of each kind answered with yes
        with_tie_rate=False,
        has_ties=False,
        **labels,
    )
    for name, members in examples.categories.items():
        _check_both_answers(right[members], f"the category {name!r}")
    return examples


def _f1(outcomes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute macro F1, F1 of yes and F1 of no from TP, FP, FN and TN on the last axis.

    NaN if all correct answers are the same, as F1 is then undefined.
    """
    true_positives, false_positives, false_negatives, true_negatives = np.moveaxis(np.asarray(outcomes), -1, 0)
    errors = false_positives + false_negatives
    defined = (true_positives + false_negatives > 0) & (false_positives + true_negatives > 0)
    with np.errstate(invalid="ignore"):
        yes, no = (2 * hits / (2 * hits + errors) for hits in (true_positives, true_negatives))
        return np.where(defined[..., np.newaxis], np.stack([(yes + no) / 2, yes, no], axis=-1), np.nan)


def _edge_interval(
    outcomes: NDArray[np.float64], clusters: NDArray[np.intp], confidence: float
) -> tuple[float, float] | None:
    """Return the interval of macro F1 if resamples cannot spread; None if they can."""
    yes, false_positives, false_negatives, no = outcomes.sum(axis=0)
    n, groups = len(outcomes), len(np.unique(clusters))
    unseen = unseen_share(groups, confidence)
    if not false_positives + false_negatives:
        # At a given number of errors macro F1 is concave in how they divide, so it is lowest where they divide least.
        errors = n * (1 - (1 - unseen))
        ends = [(missed, errors - missed) for missed in (min(yes, errors), max(errors - no, 0))]
        return float(min(_f1(np.array([yes - fn, fp, fn, no - fp]))[0] for fn, fp in ends)), 1.0
    if not yes + no:
        return 0.0, unseen  # by the same concavity hits count most in equal halves, and then as much as in accuracy
    return (0.0, 1.0) if groups == 1 else None


def _yes(answers: ArrayLike, noun: str) -> NDArray[np.bool_]:
    try:
        values = np.asarray(answers, dtype=object)
    except (ValueError, RuntimeError) as error:
        raise ScoresError(f"the {noun} cannot be read ({error}); pass a list with one for each question") from error
    if values.ndim != 1 or not len(values):
        raise ScoresError(f"the {noun} have shape {values.shape}; pass one for each question, at least one")
    words = [str(value.item() if getattr(value, "ndim", None) == 0 else value).strip().lower() for value in values]
    refuse(
        [word not in _WORDS for word in words],
        "of the {noun}, {first!r} in {rows} is neither yes nor no; pass 1 or 0, or yes or no. Map an answer that is "
        "neither to the wrong one, so that it is counted, and report their number",
        values,
        noun=noun,
    )
    return np.array([_WORDS[word] for word in words])


def _check_both_answers(right: NDArray[np.bool_], noun: str) -> None:
    if right.all() or not right.any():
        only = "yes" if right.all() else "no"
        raise ScoresError(
            f"the right answer is {only!r} in all {len(right)} rows of {noun}; macro F1 needs questions of both kinds. "
            "Add the others, or count accuracy alone"
        )
