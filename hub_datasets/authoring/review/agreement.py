"""Agreement of annotators beyond chance, by Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ....metrics.common.documents import Part, simple_table
from ....metrics.common.formatting import MISSING

READING = (
    "Krippendorff's α is 1 for perfect agreement and 0 for that of chance; less is worse than chance. Items are those "
    "that at least two annotators judged. Krippendorff asks for at least 0.8 for firm conclusions, and accepts 0.667 "
    "to 0.8 for tentative ones. A dash means that α is undefined, as all answers are equal or no item has two. Where "
    "nearly all decisions are equal, α is low although few decisions differ: see also the share of equal pairs."
)


class AnnotatorAgreement(NamedTuple):
    """The agreement of annotators on one question.

    Attributes:
        question: the question.
        items: the number of items that at least two annotators judged.
        equal: the share of equal answers among all pairs of answers to one item, in [0, 1]; higher is better; None
            without such pairs.
        alpha: Krippendorff's α (nominal), at most 1, higher is better; None if it is undefined.
    """

    question: str
    items: int
    equal: float | None
    alpha: float | None


def agree_on(question: str, items: Sequence[Sequence[str]]) -> AnnotatorAgreement:
    """Compute the agreement on a question, from the answers to each item, of one or more annotators.

    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C.
    """
    shared = [answers for answers in items if len(answers) > 1]
    pairs = [first == second for answers in shared for first, second in combinations(answers, 2)]
    equal = sum(pairs) / len(pairs) if pairs else None
    known = sorted({answer for answers in shared for answer in answers})
    if len(known) < 2:
        return AnnotatorAgreement(question, len(shared), equal, None)
    # The library of this name is under the GPL, which a package under Apache-2.0 should not bring along.
    table = np.array([[answers.count(answer) for answer in known] for answers in shared], float)
    per_item, per_answer = table.sum(axis=1), table.sum(axis=0)
    observed = ((per_item**2 - (table**2).sum(axis=1)) / (per_item - 1)).sum()
    expected = per_item.sum() ** 2 - (per_answer**2).sum()
    return AnnotatorAgreement(question, len(shared), equal, float(1 - observed * (per_item.sum() - 1) / expected))


def agreement_cells(agreements: Sequence[AnnotatorAgreement]) -> list[list[str]]:
    """Return the header of a table and its rows; a dash stands for a value that is None."""
    rows = [["question", "items", "equal pairs", "Krippendorff's α"]]
    for question, items, equal, alpha in agreements:
        cells = [MISSING if equal is None else f"{100 * equal:.1f} %", MISSING if alpha is None else f"{alpha:.3f}"]
        rows.append([question, f"{items:,}", *cells])
    return rows


def agreement_parts(votes: Mapping[str, Sequence[Sequence[str]]]) -> list[Part]:
    """Return the agreement on questions as a document, a table and how to read it, from the answers to each item."""
    agreements = [agree_on(*of_question) for of_question in votes.items()]
    if not any(agreement.items for agreement in agreements):
        return ["Agreement needs two annotators of an item."]
    header, *rows = agreement_cells(agreements)
    return [simple_table(header, rows, numbers=True), READING]
