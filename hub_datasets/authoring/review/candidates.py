"""The page on which candidates are judged: what can be decided, and the majority's verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ....metrics.common.documents import Part
from ....metrics.common.errors import DataError
from ....metrics.common.wording import mark_changes
from ..data.candidates import Candidate, read_candidates
from ..data.made import KEPT
from .agreement import agreement_parts
from .journal import Answers, Decision
from .page import Judged, Option, ReviewPage, ReviewQuestion, Shown
from .pictures import Pictures

KEEP, FIX = "keep", "fix"
_OPTIONS = (
    Option(KEEP, "Keep", "1"),
    Option("false_negative", "False negative", "2"),
    Option("not_fluent", "Not fluent", "3"),
    Option("nonsensical", "Nonsensical", "4"),
    Option(FIX, "Fix the text", "5"),
)
_FALSE_POSITIVE = Option("false_positive", "Not true of the image", "2")
_POSITIVE_OPTIONS = (_OPTIONS[0], _FALSE_POSITIVE, *_OPTIONS[2:])


def verdict(candidate: str, decisions: Sequence[Decision]) -> tuple[str, str]:
    """Return the majority's verdict on a candidate.

    It is kept if more than half of its annotators keep it or fix its text; a tie is dropped. Each of these votes for a
    text: the candidate or the correction. The text with most votes wins; of several, the candidate, or else the
    correction that was saved first.

    Args:
        candidate: the text of the candidate.
        decisions: one decision of each annotator who judged it.

    Returns:
        ``"kept"``, ``"dropped"``, or ``"undecided"`` without any decision; and the text that won.
    """
    approvals = [decision for decision in decisions if decision.answer("decision") in (KEEP, FIX)]
    if 2 * len(approvals) <= len(decisions):
        return "dropped" if decisions else "undecided", candidate
    approvals.sort(key=lambda decision: decision.time)
    votes = Counter(decision.answer("text") or candidate for decision in approvals)
    best = [text for text, count in votes.items() if count == max(votes.values())]
    return KEPT, candidate if candidate in best else best[0]


def judge(judged: Iterable[Judged], pictures: Pictures) -> list[dict[str, Any]]:
    """Return the candidates with their verdicts, in their order.

    A row has a candidate's fields, `status` and `text` of its `verdict`, and `decisions`: by annotator the decision,
    its time and the correction, if any.
    """
    rows = []
    for candidate, decisions in judged:
        status, text = verdict(candidate.candidate, decisions)
        decision_of = {
            decision.annotator: {"decision": decision.answer("decision"), "time": decision.time}
            | ({"text": decision.answer("text")} if decision.answer("text") else {})
            for decision in decisions
        }
        rows.append({**candidate._asdict(), "status": status, "text": text, "decisions": decision_of})
    return rows


def count_statuses(statuses: Iterable[str]) -> dict[str, int]:
    """Return the numbers of candidates kept, dropped and undecided."""
    counts = Counter(statuses)
    return {status: counts[status] for status in (KEPT, "dropped", "undecided")}


def votes(judged: Iterable[Judged]) -> dict[str, list[list[str]]]:
    """Return the answers to each item by question: all decisions, keeping or not, and each decision that was made.

    A fixed text counts as kept.
    """
    decided = [[decision.answer("decision") for decision in decisions] for _, decisions in judged]
    made = {vote for votes_on_item in decided for vote in votes_on_item}
    single = [option.value for option in (*_OPTIONS, _FALSE_POSITIVE) if option.value in made]
    questions = {"keep or not": (KEEP, FIX)} | {decision: (decision,) for decision in single}
    return {"all decisions": decided} | {
        question: [[str(vote in counted) for vote in votes_on_item] for votes_on_item in decided]
        for question, counted in questions.items()
    }


def _report(judged: Sequence[Judged]) -> list[Part]:
    counts = count_statuses(verdict(candidate.candidate, decisions)[0] for candidate, decisions in judged)
    statuses = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    return [f"Candidates: {statuses}", *agreement_parts(votes(judged))]


def _show(candidate: Candidate) -> Shown:
    caption, changed = mark_changes(candidate.caption, candidate.candidate)
    negation = "" if candidate.is_positive else "not "
    texts = (
        ("Caption", [(text, "old" if differs else "") for text, differs in caption]),
        (
            f"Candidate ({candidate.kind}), which should {negation}be true of the image",
            [(text, "new" if differs else "") for text, differs in changed],
        ),
    )
    return Shown(texts, (candidate.image,) if candidate.image else ())


def _check(candidate: Candidate, answers: Answers) -> None:
    same = {candidate.caption: "the caption itself", candidate.candidate: "the candidate as it was"}
    if problem := same.get(answers.get("text", "")):
        raise DataError(f"the text is {problem}; change it, or choose another decision")


PAGE = ReviewPage(
    title="Review candidates",
    instructions="A candidate was made from a true caption of the image; the words that changed are marked. Keep it if "
    "it is good English and, as a hard negative, false of the image, or, as a hard positive, true of it.",
    read=read_candidates,
    show=_show,
    questions=lambda candidate: (
        ReviewQuestion("decision", "Your decision", _POSITIVE_OPTIONS if candidate.is_positive else _OPTIONS),
        ReviewQuestion("text", "The corrected candidate", kind="text", needed_for=(FIX,), start=candidate.candidate),
    ),
    results=judge,
    report=_report,
    check=_check,
    needs_images=False,
)
