"""How far annotators agree beyond chance: Cohen's kappa, Fleiss' kappa, Krippendorff's alpha, from libraries."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.util import find_spec
from itertools import combinations
from typing import NamedTuple

from ....metrics.common.errors import DataError
from .decisions import DECISIONS, FIX, KEEP
from .journal import Entry, Key

ALL, KEEP_OR_NOT = "all decisions", "keep or not"
COEFFICIENTS = ("cohen", "fleiss", "krippendorff")
TITLES = {"cohen": "Cohen's κ", "fleiss": "Fleiss' κ", "krippendorff": "Krippendorff's α"}
READING = """1 is perfect agreement, 0 what chance gives, and less is worse than chance. Items are those that two
annotators or more judged; Cohen's and Fleiss' κ use only those that all of them did. Krippendorff asks for α of at
least 0.8 for firm conclusions, and takes 0.667 to 0.8 for tentative ones. Where nearly all decisions are the same one,
the coefficients are low or undefined although few decisions differ: look at the share of equal pairs beside them, and
at "keep or not", which decides what is exported (a fixed text counts as kept). Low agreement on one decision says that
its meaning has to be settled between the annotators before more is judged."""

_LIBRARIES = ("sklearn", "statsmodels", "krippendorff")
Votes = Mapping[str, Mapping[str, str]]


class Agreement(NamedTuple):
    """The agreement of annotators about one question.

    Attributes:
        question: ``"all decisions"``, ``"keep or not"``, or a decision against all others.
        items: how many items at least two annotators judged.
        equal: share of equal answers among all pairs of answers to one item, in [0, 1]; higher is better; None
            without such pairs.
        coefficients: ``"cohen"``, ``"fleiss"`` and ``"krippendorff"``, at most 1, higher is better; None where it is
            undefined or does not apply.
        notes: for each coefficient that is None, why.
    """

    question: str
    items: int
    equal: float | None
    coefficients: dict[str, float | None]
    notes: dict[str, str]


def votes_of(standing: Mapping[str, Mapping[Key, Entry]]) -> dict[str, dict[str, str]]:
    """The decision of each annotator on each item."""
    return {name: {entry.id: entry.decision for entry in entries.values()} for name, entries in standing.items()}


def agreement(votes: Votes) -> list[Agreement]:
    """The agreement about all decisions, about keeping or not, and about each decision against the others.

    Cohen's kappa (1960) is for exactly two annotators, over the items that both judged. Fleiss' kappa (1971) wants
    the same number of answers for each item: it is over those that all annotators judged. Krippendorff's alpha
    (nominal) takes every item with two answers or more. A coefficient is undefined where all its answers are equal,
    since chance then agrees perfectly too.

    Args:
        votes: the decision of each annotator on each item, by their ids.

    Returns:
        One row a question; those of decisions that somebody made come last, in the order of ``DECISIONS``.

    Raises:
        DataError: the libraries of the extra ``authoring`` are not installed.
    """
    lacking = [name for name in _LIBRARIES if find_spec(name) is None]
    if lacking:
        raise DataError(f"agreement lacks a library ({', '.join(lacking)}): pip install 'vl-assay[authoring]'")
    kept = {name: {id: vote in (KEEP, FIX) for id, vote in each.items()} for name, each in votes.items()}
    made = {vote for each in votes.values() for vote in each.values()}
    single = {
        made_one: {name: {id: vote == made_one for id, vote in each.items()} for name, each in votes.items()}
        for made_one in sorted(made, key=DECISIONS.index)
    }
    questions = {ALL: votes, KEEP_OR_NOT: kept, **single}
    return [_agree(question, answers) for question, answers in questions.items()]


def agreement_html(found: list[Agreement], annotators: Mapping[str, int]) -> str:
    """A table for the page: who judged how many items, the coefficients, and what to read from them."""
    people = ", ".join(f"{escape(name)} ({count:,})" for name, count in annotators.items()) or "nobody yet"
    if len(annotators) < 2:
        return f"<p>Decisions by annotator: {people}</p><p>Agreement takes two annotators.</p>"
    heads = "".join(f"<th scope='col'>{escape(head)}</th>" for head in header())
    lines = "".join(
        f"<tr><th scope='row'>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in map(cells, found)
    )
    notes = "".join(f"<p class='assay-note'>{escape(note)}</p>" for note in remarks(found))
    return (
        f"<p>Decisions by annotator: {people}</p><div class='assay-scroll'><table class='assay-table'>"
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>{notes}"
        f"<p class='assay-note'>{escape(READING)}</p>"
    )


def header() -> list[str]:
    """The headings of the table of which `cells` are the lines."""
    return ["question", "items", "equal pairs", *TITLES.values()]


def cells(row: Agreement) -> list[str]:
    """A line of the table; a coefficient that is None is a dash."""
    equal = "–" if row.equal is None else f"{100 * row.equal:.1f} %"
    values = [row.coefficients[name] for name in COEFFICIENTS]
    return [row.question, f"{row.items:,}", equal, *("–" if value is None else f"{value:.3f}" for value in values)]


def remarks(found: list[Agreement]) -> list[str]:
    """Why a coefficient has no value, once for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in found:
        for name, note in row.notes.items():
            reasons.setdefault((TITLES[name], note), []).append(row.question)
    return [
        f"{title} {note}" + ("" if len(questions) == len(found) else f" ({', '.join(questions)})") + "."
        for (title, note), questions in reasons.items()
    ]


def _agree(question: str, answers: Mapping[str, Mapping[str, str | bool]]) -> Agreement:
    by_item: dict[str, dict[str, str | bool]] = {}
    for name, each in answers.items():
        for id, answer in each.items():
            by_item.setdefault(id, {})[name] = answer
    shared = [given for given in by_item.values() if len(given) > 1]
    pairs = [one == other for given in shared for one, other in combinations(given.values(), 2)]
    complete = [given for given in shared if len(given) == len(answers)]
    values: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    for name, items, function in (
        ("cohen", complete, _cohen),
        ("fleiss", complete, _fleiss),
        ("krippendorff", shared, _krippendorff),
    ):
        note = _why_not(name, items, len(answers))
        if note:
            values[name], notes[name] = None, note
        else:
            values[name] = float(function([[str(given[who]) for who in answers if who in given] for given in items]))
    return Agreement(question, len(shared), sum(pairs) / len(pairs) if pairs else None, values, notes)


def _why_not(name: str, items: list[dict[str, str | bool]], annotators: int) -> str:
    """Why a coefficient cannot be computed from these items; "" where it can."""
    if name == "cohen" and annotators != 2:
        return f"is for two annotators, and there {'is' if annotators == 1 else 'are'} {annotators}"
    if not items:
        return "has no item that all annotators judged" if name != "krippendorff" else "has no item that two judged"
    if len({answer for given in items for answer in given.values()}) == 1:
        return "is undefined, as all answers are equal"
    return ""


def _cohen(rows: list[list[str]]) -> float:
    from sklearn.metrics import cohen_kappa_score

    return cohen_kappa_score(*zip(*rows, strict=True))


def _fleiss(rows: list[list[str]]) -> float:
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    return fleiss_kappa(aggregate_raters(rows)[0], method="fleiss")


def _krippendorff(rows: list[list[str]]) -> float:
    import krippendorff

    known = sorted({answer for row in rows for answer in row})
    counts = [[row.count(answer) for answer in known] for row in rows]
    return krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
