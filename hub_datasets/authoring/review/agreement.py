"""Agreement of annotators beyond chance: Cohen's kappa, Fleiss' kappa and Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ....metrics.common.documents import Part, simple_table
from ....metrics.common.errors import DataError
from .decisions import DECISIONS, FIX, KEEP
from .journal import Entry, Key

TITLES = {"cohen": "Cohen's κ", "fleiss": "Fleiss' κ", "krippendorff": "Krippendorff's α"}
READING = """1 is perfect agreement, 0 that of chance, and less is worse than chance. Items are those that at least two
annotators judged; Cohen's and Fleiss' κ use only those that all annotators judged. Krippendorff asks for α of at least
0.8 for firm conclusions, and accepts 0.667 to 0.8 for tentative ones. Where nearly all decisions are equal, the
coefficients are low or undefined although few decisions differ: see also the share of equal pairs, and "keep or not",
which decides what is exported (a fixed text counts as kept). Low agreement on one decision means that the annotators
should discuss its meaning before they continue."""

_LIBRARIES = ("sklearn", "statsmodels")
Standing = Mapping[str, Mapping[Key, Entry]]


class Agreement(NamedTuple):
    """The agreement of annotators on one question.

    Attributes:
        question: ``"all decisions"``, ``"keep or not"``, or a decision against all others.
        items: the number of items that at least two annotators judged.
        equal: the share of equal answers among all pairs of answers to one item, in [0, 1]; higher is better; None
            without such pairs.
        coefficients: ``"cohen"``, ``"fleiss"`` and ``"krippendorff"``, at most 1, higher is better; None where one is
            undefined or does not apply.
        notes: for each coefficient that is None, the reason.
    """

    question: str
    items: int
    equal: float | None
    coefficients: dict[str, float | None]
    notes: dict[str, str]


def agreement(standing: Standing) -> list[Agreement]:
    """The agreement on all decisions, on keeping or not, and on each decision against the others.

    Cohen's kappa (1960) needs exactly two annotators, and uses the items that both judged. Fleiss' kappa (1971) needs
    the same number of answers for each item, and uses those that all annotators judged. Krippendorff's alpha (nominal)
    uses every item with at least two answers. A coefficient is undefined where all answers are equal.

    Args:
        standing: the decision of each annotator on each item, as `DecisionJournal.standing` returns them.

    Returns:
        One row a question; single decisions that somebody made come last, in the order of ``DECISIONS``.

    Raises:
        DataError: the libraries of the extra ``authoring`` are not installed.
    """
    votes = {name: {entry.id: entry.decision for entry in own.values()} for name, own in standing.items()}
    made = {vote for own in votes.values() for vote in own.values()}
    singles = [(name, (name,)) for name in sorted(made, key=DECISIONS.index)]
    rows = [agree_on("all decisions", votes)]
    for question, counted in [("keep or not", (KEEP, FIX)), *singles]:
        answers = {name: {id: str(vote in counted) for id, vote in own.items()} for name, own in votes.items()}
        rows.append(agree_on(question, answers))
    return rows


def report(standing: Standing) -> list[Part]:
    """The agreement as a document: who judged how many items, the coefficients, and how to read them."""
    found = agreement(standing)
    people = ", ".join(f"{name} ({len(entries):,})" for name, entries in standing.items()) or "nobody yet"
    parts: list[Part] = [f"Decisions by annotator: {people}"]
    if len(standing) < 2:
        return [*parts, "Agreement needs two annotators."]
    header, *rows = cells(found)
    return [*parts, simple_table(header, rows, numbers=True), *remarks(found), " ".join(READING.split())]


def cells(found: list[Agreement]) -> list[list[str]]:
    """The header of a table and its rows; a dash stands for a coefficient that is None."""
    rows = [["question", "items", "equal pairs", *TITLES.values()]]
    for row in found:
        equal = "–" if row.equal is None else f"{100 * row.equal:.1f} %"
        values = [row.coefficients[name] for name in TITLES]
        values = ["–" if value is None else f"{value:.3f}" for value in values]
        rows.append([row.question, f"{row.items:,}", equal, *values])
    return rows


def remarks(found: list[Agreement]) -> list[str]:
    """Why coefficients have no value, one sentence a reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in found:
        for name, note in row.notes.items():
            reasons.setdefault((TITLES[name], note), []).append(row.question)
    return [
        f"{title} {note}" + ("" if len(questions) == len(found) else f" ({', '.join(questions)})") + "."
        for (title, note), questions in reasons.items()
    ]


def nominal_alpha(counts: Sequence[Sequence[int]]) -> float:
    """Krippendorff's α of answers without an order; at most 1, 0 is chance, higher is better.

    Args:
        counts: how often each answer was given to an item, of shape (items, answers); at least two answers an item, and
            two different ones in all.

    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C.
    """
    # The library of this name is under the GPL, which a package under Apache-2.0 should not bring along.
    table = np.asarray(counts, float)
    given = table.sum(axis=1)
    observed = ((given**2 - (table**2).sum(axis=1)) / (given - 1)).sum()
    total, answers = given.sum(), table.sum(axis=0)
    return float(1 - observed * (total - 1) / (total**2 - (answers**2).sum()))


def agree_on(question: str, votes: Mapping[str, Mapping[str, str]]) -> Agreement:
    """The agreement on one question; `votes` are each annotator's answers by item. See `agreement`."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise DataError(f"agreement needs {', '.join(missing)}: pip install 'vl-assay[authoring]'")
    from sklearn.metrics import cohen_kappa_score
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    ids = dict.fromkeys(id for own in votes.values() for id in own)
    items = [[own[id] for own in votes.values() if id in own] for id in ids]
    shared = [answers for answers in items if len(answers) > 1]
    complete = [answers for answers in shared if len(answers) == len(votes)]
    pairs = [one == other for answers in shared for one, other in combinations(answers, 2)]
    values: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    known = sorted({answer for answers in shared for answer in answers})
    counts = [[answers.count(answer) for answer in known] for answers in shared]
    for name, used, compute in (
        ("cohen", complete, lambda: cohen_kappa_score(*zip(*complete, strict=True))),
        ("fleiss", complete, lambda: fleiss_kappa(aggregate_raters(complete)[0], method="fleiss")),
        ("krippendorff", shared, lambda: nominal_alpha(counts)),
    ):
        values[name] = None
        if name == "cohen" and len(votes) != 2:
            there = "is 1" if len(votes) == 1 else f"are {len(votes)}"
            notes[name] = f"is for two annotators, and there {there}"
        elif not used:
            notes[name] = f"has no item that {'all annotators' if used is complete else 'two'} judged"
        elif len({answer for answers in used for answer in answers}) == 1:
            notes[name] = "is undefined, as all answers are equal"
        else:
            values[name] = float(compute())
    return Agreement(question, len(shared), sum(pairs) / len(pairs) if pairs else None, values, notes)
