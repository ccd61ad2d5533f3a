"""Answers to yes-or-no questions: accuracy, macro F1, and where the false ones come from."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ScoresError
from .kernels import cluster_codes, name_rows
from .stats import percentile_interval, resampled_totals
from .summary import SummaryOptions, category_rows, summarise

_YES = ("yes", "true", "1", "1.0")
_NO = ("no", "false", "0", "0.0", "-0.0")
_WORDS: dict[str, bool] = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}


def yes_no_f1(answers: ArrayLike, truth: ArrayLike, **options: Unpack[SummaryOptions]) -> dict[str, Any]:
    """Accuracy and macro F1 of yes-or-no answers; higher is better.

    ::

        F1(class) = 2 TP / (2 TP + FP + FN), with the class as the positive one
        macro F1  = (F1(yes) + F1(no)) / 2

    Answering at random gives 1/2 for both on a balanced set; always answering the same gives 1/2 and 1/3.

    Args:
        answers: array-like of shape (n,): 1 or 0, true or false, or the words "yes" and "no" in any case. There are no
            scores and so no ties. An answer that is neither must be mapped by the caller, so that it is counted.
        truth: array-like of shape (n,), likewise: whether the right answer is yes.
        options: categories (TRICD's splits), clusters, confidence, resamples, seed; see ``summary.SummaryOptions``.

    Returns:
        - ``accuracy``, ``macro_f1``, ``f1_yes`` and ``f1_no``, in [0, 1];
        - ``false_positives`` and ``false_negatives``: how many; ``n``;
        - ``macro_accuracy``: the unweighted mean of the categories' accuracies;
        - ``per_category``: for each category its ``accuracy``, ``macro_f1``, ``n``, and its shares of all false
          positives and of all false negatives, ``false_positive_share`` and ``false_negative_share`` (``None`` where
          there are none to share);
        - with ``confidence``: ``confidence``, ``macro_accuracy_interval``, ``accuracy_interval`` and, in the categories
          too, ``macro_f1_interval``, taken over the resamples that have right answers of both kinds. Where every answer
          is right, or every one wrong, resamples do not spread: then it reaches to the lowest, or highest, macro F1
          that the exact interval of the accuracy allows. One single image says nothing else: (0, 1).

    Raises:
        ScoresError: no answers, unequal lengths, an answer that is neither yes nor no, or a set or category whose right
            answers are all the same, for which macro F1 is not defined.

    Source: TRICD (Kamath, Price et al., 2023), section 6.1 and Table 4.

    >>> result = yes_no_f1(["yes", "yes", "no", "no"], [1, 0, 0, 0])
    >>> result["accuracy"], round(result["macro_f1"], 4)  # F1(yes) = 2/3, F1(no) = 4/5
    (0.75, 0.7333)
    """
    said, right = _yes(answers, "answers"), _yes(truth, "right answers")
    if said.shape != right.shape:
        raise ScoresError(f"{len(said)} answers came for {len(right)} right answers; pass one for each question")
    _refuse_one_class(right, "the set")
    outcomes = np.stack([said & right, said & ~right, ~said & right, ~said & ~right], axis=1).astype(np.float64)
    result = summarise({"accuracy": said == right}, np.zeros(len(said)), **options)
    del result["tie_rate"]
    for part in result["per_category"].values():
        del part["tie_rate"]
    yes, no = _f1(outcomes.sum(axis=0))
    result |= {"macro_f1": float((yes + no) / 2), "f1_yes": float(yes), "f1_no": float(no)}
    _, false_positives, false_negatives, _ = outcomes.sum(axis=0).astype(int).tolist()
    result |= {"false_positives": false_positives, "false_negatives": false_negatives}
    cluster = cluster_codes(options.get("clusters"), len(said))
    _interval(result, outcomes, cluster, options)
    _add_categories(result, outcomes, right, cluster, options)
    return result


def _add_categories(
    result: dict[str, Any],
    outcomes: NDArray[np.float64],
    right: NDArray[np.bool_],
    cluster: NDArray[np.intp],
    options: SummaryOptions,
) -> None:
    totals = {"false_positive_share": result["false_positives"], "false_negative_share": result["false_negatives"]}
    for name, members in category_rows(options.get("categories"), len(right)).items():
        part = result["per_category"][name]
        _refuse_one_class(right[members], f"the category {name!r}")
        sums = outcomes[members].sum(axis=0)
        part["macro_f1"] = float(sum(_f1(sums)) / 2)
        for (key, total), count in zip(totals.items(), sums[1:3], strict=True):
            part[key] = float(count / total) if total else None
        _interval(part, outcomes[members], cluster[members], options)


def _interval(
    result: dict[str, Any], outcomes: NDArray[np.float64], cluster: NDArray[np.intp], options: SummaryOptions
) -> None:
    confidence = options.get("confidence")
    if confidence is None:
        return
    edge = _edge_interval(result, outcomes, cluster)
    if edge:
        result["macro_f1_interval"] = edge
        return
    totals = resampled_totals(outcomes, cluster, options.get("resamples", 10_000), options.get("seed", 0)).T
    both_kinds = (totals[[0, 2]].sum(axis=0) > 0) & (totals[[1, 3]].sum(axis=0) > 0)
    yes, no = _f1(totals[:, both_kinds])
    result["macro_f1_interval"] = list(percentile_interval((yes + no) / 2, confidence))


def _edge_interval(
    result: dict[str, Any], outcomes: NDArray[np.float64], cluster: NDArray[np.intp]
) -> list[float] | None:
    """Interval where resamples cannot spread, ``None`` where they can."""
    n = len(outcomes)
    low, high = result["accuracy_interval"]
    if result["accuracy"] == 1:
        # At a given number of errors macro F1 is concave in how they divide, so it is lowest where they divide least.
        yes, _, _, no = outcomes.sum(axis=0)
        errors = n * (1 - low)
        ends = [(missed, errors - missed) for missed in (min(yes, errors), max(errors - no, 0))]
        return [float(min(sum(_f1([yes - fn, fp, fn, no - fp])) for fn, fp in ends) / 2), 1.0]
    if result["accuracy"] == 0:
        return [0.0, high]  # by the same concavity hits earn most in equal halves, and then as much as in accuracy
    return [0.0, 1.0] if len(np.unique(cluster)) == 1 else None


def _f1(outcomes: ArrayLike) -> tuple[Any, Any]:
    """F1 of yes and of no; from arrays whose first axis is true and false positives, false and true negatives."""
    true_positives, false_positives, false_negatives, true_negatives = np.asarray(outcomes)
    errors = false_positives + false_negatives
    return tuple(2 * hits / (2 * hits + errors) for hits in (true_positives, true_negatives))


def _yes(answers: ArrayLike, what: str) -> NDArray[np.bool_]:
    try:
        values = np.asarray(answers, dtype=object)
    except (ValueError, RuntimeError) as error:
        raise ScoresError(f"the {what} cannot be read ({error}); pass a list with one for each question") from error
    if values.ndim != 1 or not len(values):
        raise ScoresError(f"the {what} have shape {values.shape}; pass one for each question, at least one")
    words = [str(value.item() if getattr(value, "ndim", None) == 0 else value) for value in values]
    words = [word.strip().lower() for word in words]
    bad = np.array([word not in _WORDS for word in words])
    if bad.any():
        raise ScoresError(
            f"of the {what}, {values[bad.argmax()]!r} came in {name_rows(bad)}; pass 1 or 0, or yes or no. Map an "
            "answer that is neither to the wrong one, so that it is counted, and report how many there were"
        )
    return np.array([_WORDS[word] for word in words])


def _refuse_one_class(right: NDArray[np.bool_], what: str) -> None:
    if right.all() or not right.any():
        only = "yes" if right.all() else "no"
        raise ScoresError(
            f"the right answer is {only!r} in all {len(right)} rows of {what}; macro F1 needs questions of both kinds. "
            "Add the others, or count accuracy alone"
        )
