"""Agreement of annotators beyond chance, by Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ....metrics.common.documents import Part, simple_table

READING = """Krippendorff's α is 1 for perfect agreement and 0 for that of chance; less is worse than chance. Items are
those that at least two annotators judged. Krippendorff asks for at least 0.8 for firm conclusions, and accepts 0.667 to
0.8 for tentative ones. A dash means that α is undefined, as all answers are equal or no item has two. Where nearly all
decisions are equal, α is low although few decisions differ: see also the share of equal pairs."""


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


def agree_on(question: str, votes: Mapping[str, Mapping[str, str]]) -> AnnotatorAgreement:
    """Compute the agreement on one question.

    Args:
        question: its name.
        votes: the answers of each annotator by item.
    """
    ids = dict.fromkeys(id for answers_of in votes.values() for id in answers_of)
    items = [[answers_of[id] for answers_of in votes.values() if id in answers_of] for id in ids]
    shared = [answers for answers in items if len(answers) > 1]
    pairs = [first == second for answers in shared for first, second in combinations(answers, 2)]
    known = sorted({answer for answers in shared for answer in answers})
    counts = [[answers.count(answer) for answer in known] for answers in shared]
    equal = sum(pairs) / len(pairs) if pairs else None
    return AnnotatorAgreement(question, len(shared), equal, nominal_alpha(counts) if len(known) > 1 else None)


def nominal_alpha(counts: Sequence[Sequence[int]]) -> float:
    """Return Krippendorff's α of answers without an order; at most 1, 0 is chance, higher is better.

    Args:
        counts: how often each answer was given to an item, of shape (items, answers); at least two answers an item, and
            two different ones in all.

    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C.
    """
    # The library of this name is under the GPL, which a package under Apache-2.0 should not bring along.
    table = np.asarray(counts, float)
    per_item = table.sum(axis=1)
    observed = ((per_item**2 - (table**2).sum(axis=1)) / (per_item - 1)).sum()
    total, answers = per_item.sum(), table.sum(axis=0)
    return float(1 - observed * (total - 1) / (total**2 - (answers**2).sum()))


def agreement_cells(agreements: Sequence[AnnotatorAgreement]) -> list[list[str]]:
    """Return the header of a table and its rows; a dash stands for a value that is None."""
    rows = [["question", "items", "equal pairs", "Krippendorff's α"]]
    for row in agreements:
        equal = "–" if row.equal is None else f"{100 * row.equal:.1f} %"
        rows.append([row.question, f"{row.items:,}", equal, "–" if row.alpha is None else f"{row.alpha:.3f}"])
    return rows


def agreement_parts(agreements: Sequence[AnnotatorAgreement]) -> list[Part]:
    """Return the agreement as a document: the table, and how to read it."""
    header, *rows = agreement_cells(agreements)
    return [simple_table(header, rows, numbers=True), " ".join(READING.split())]
