"""Two models on the same examples: from their predictions to the paired tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..common.errors import ScoresError
from ..estimation.aggregate import RESAMPLES
from ..estimation.checks import Labels, as_float64, check_ties, check_unmasked, refuse
from ..estimation.differences import differences
from ..estimation.paired import PERMUTATIONS, POWER, Resampling
from ..estimation.spec import Described, make_examples
from .matching import MatchScores, match_scores


def compare_models(
    predictions1: ArrayLike,
    predictions2: ArrayLike,
    references: ArrayLike,
    *,
    ties: str = "wrong",
    categories: Labels | None = None,
    clusters: Labels | None = None,
    confidence: float | None = 0.95,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    power: float = POWER,
    seed: int = 0,
) -> dict[str, Any]:
    """Test the difference between two models on the same examples; a positive one means that the first is better.

    Args:
        predictions1: predictions of the first model: scores of shape (n, k), k >= 2, where the highest is its choice;
            or answers of shape (n,), such as the index of the chosen caption, or 1 and 0 for yes and no. An answer
            that does not equal the right one is wrong. Text is rejected, since "Yes" and "yes" would differ.
        predictions2: predictions of the second model for the same examples; one model may give scores and the other
            answers.
        references: of shape (n,): the column of the correct caption, or the right answer. To compare any other score,
            pass each example's success as answers, 1 or 0, and 1 as every right answer.
        ties: how a tie for the highest score counts: ``"wrong"`` 0, ``"half"`` 1 over the number of captions that share
            it, ``"right"`` 1. Answers have no ties.
        categories, clusters, resamples, seed: see ``aggregate.SummaryOptions``.
        confidence: coverage of the intervals, 0.95 by default; 1 - ``confidence`` is the level of the test for which
            ``smallest_detectable_difference`` is meant.
        permutations: number of random exchanges of the models, at least 100; 10,000 by default.
        power: probability of detecting the smallest detectable difference, in (0, 1); 0.8 by default.

    Returns:
        Plain Python numbers:

        - ``difference``: ``accuracy1`` minus ``accuracy2``, in [-1, 1]; positive: model 1 is better;
        - ``accuracy1``, ``accuracy2``: the models' mean scores, in [0, 1]; ``tie_rate1`` and ``tie_rate2``, in [0, 1],
          the shares of the examples that a tie decides;
        - all other entries of the result of ``differences.differences``, but for the numbers of draws.

    Raises:
        ScoresError: predictions of different numbers, text, a NaN, or invalid labels or options; the message names the
            model and the rows.
        UnknownNameError: an unknown tie policy.

    Source: see ``differences.differences``, and ``matching.match_scores`` for the per-example scores.

    >>> result = compare_models([[2, 1], [2, 1]], [[2, 1], [1, 2]], [0, 0])
    >>> result["difference"], result["wins"], result["losses"]
    (0.5, 1, 0)
    """
    check_ties(ties)
    check_not_text(references, "references")
    first = _values(predictions1, references, ties, "predictions1")
    second = _values(predictions2, references, ties, "predictions2")
    resampling = Resampling(0.95 if confidence is None else confidence, resamples, permutations, power, seed)
    labels: Described = {"categories": categories, "clusters": clusters}
    one, two = (
        make_examples({"accuracy": side.values}, side.tied, with_macro=False, **labels) for side in (first, second)
    )
    result = differences(one, two, resampling)["accuracy"]
    for part in (result, *result["per_category"].values()):
        part |= {f"accuracy{n}": part.pop(f"score{n}") for n in (1, 2)}
    del result["resamples"], result["permutations"]
    return result


def are_scores(predictions: ArrayLike) -> bool:
    """Return whether predictions are rows of scores rather than answers; one row that is a list suffices.

    >>> are_scores([[0.9, 0.1]]), are_scores([1, 0])
    (True, False)
    """
    rows = _rows(predictions)
    return rows.ndim != 1 or any(isinstance(row, list | tuple) or getattr(row, "ndim", 0) > 0 for row in rows)


def check_not_text(answers: ArrayLike, what: str) -> None:
    """Raise a `ScoresError` with the rows and the remedy if an answer is text; `what` names the answers.

    >>> check_not_text([1, "no"], "predictions1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vl_assay.metrics.common.errors.ScoresError: predictions1: 'no' in row 1 (1 of 2 rows, counted from 0) is text; ...
    """
    rows = np.atleast_1d(_rows(answers))
    refuse(
        [isinstance(row, str) for row in rows],
        "{what}: {first!r} in {rows} is text; give every answer a number, such as 1 for yes and 0 for no, the same in "
        "both models' predictions and in the references",
        rows,
        what=what,
    )


def _rows(values: ArrayLike) -> NDArray[Any]:
    check_unmasked(values, "predictions or references")
    try:
        return np.asarray(values, dtype=object)
    except (ValueError, RuntimeError):
        return as_float64(values, "predictions or references")


def _values(predictions: ArrayLike, references: ArrayLike, ties: str, who: str) -> MatchScores:
    if are_scores(predictions):
        try:
            return match_scores(predictions, references, ties)
        except ScoresError as error:
            raise ScoresError(f"{who}: {error}") from error
    check_not_text(predictions, who)
    answers, right = as_float64(predictions, f"answers in {who}"), as_float64(references, "right answers")
    if not len(answers) or answers.shape != right.shape:
        raise ScoresError(
            f"{who}: got answers of shape {answers.shape} for right answers of shape {right.shape}; pass one for each "
            "example, at least one"
        )
    for name, values in ((who, answers), ("references", right)):
        refuse(
            ~np.isfinite(values),
            "{name}: an answer is NaN or infinite in {rows}; put a wrong answer where a model gave none, and leave out "
            "an example that has no right answer, for both models",
            name=name,
        )
    return MatchScores((answers == right).astype(np.float64), np.zeros(len(answers), dtype=bool))
