"""Decisions of annotators on candidates: what can be decided, the majority's verdict, and the export."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ....metrics.common.errors import DataError, UnknownNameError
from ....metrics.common.storage import write_text
from ..data.candidates import Candidate
from ..data.pairs import Pair, write_pairs
from .journal import DecisionJournal, Entry, Key

JOURNAL_FILE = "DECISIONS.jsonl"
KEEP, FIX = "keep", "fix"
# In the order of the keys 1 to 5.
_LABELS = {
    KEEP: "Keep",
    "false_negative": "False negative",
    "not_fluent": "Not fluent",
    "nonsensical": "Nonsensical",
    FIX: "Fix the text",
}
_POSITIVE_LABELS = {"false_positive" if name == "false_negative" else name: label for name, label in _LABELS.items()}
_POSITIVE_LABELS["false_positive"] = "Not true of the image"
DECISIONS = tuple(dict.fromkeys([*_LABELS, *_POSITIVE_LABELS]))
_LONGEST = 2_000


def labels(candidate: Candidate) -> dict[str, str]:
    """The possible decisions on a candidate, in the order of the keys 1 to 5, with their labels on the page."""
    return _POSITIVE_LABELS if candidate.is_positive else _LABELS


def shown_texts(candidates: Sequence[Candidate]) -> dict[Key, str]:
    """The text of each candidate by its key in the journal."""
    return {(candidate.id, -1): candidate.candidate for candidate in candidates}


def decide(journal: DecisionJournal, candidate: Candidate, annotator: str, decision: str, text: str = "") -> Entry:
    """Record a decision on a candidate.

    Args:
        decision: one of `labels`.
        text: with ``"fix"``, the corrected candidate; its white space is normalised.

    Raises:
        UnknownNameError: another decision.
        DataError: a correction that is empty, too long, the caption, or the unchanged candidate.
        StorageError: it could not be written.
    """
    if decision not in labels(candidate):
        raise UnknownNameError("decision", decision, labels(candidate))
    text = " ".join(text.split()) if decision == FIX else ""
    if decision == FIX:
        same = {"": "empty", candidate.caption: "the caption itself", candidate.candidate: "the candidate as it was"}
        if text in same:
            raise DataError(f"the text is {same[text]}; change it, or choose another decision")
        if len(text) > _LONGEST:
            raise DataError(f"the text has {len(text):,} characters; a caption may have {_LONGEST:,}")
    return journal.decide(Entry("", annotator, candidate.id, decision, text=text, shown=candidate.candidate))


def verdict(candidate: Candidate, entries: Sequence[Entry]) -> tuple[str, str]:
    """The majority's verdict on a candidate.

    It is kept where more than half of its annotators keep it or fix its text; a tie is dropped. Each of these votes for
    a text: the candidate or the correction. The text with most votes wins; of several, the candidate, or else the
    correction that was saved first.

    Args:
        candidate: the candidate.
        entries: one decision of each annotator who judged it.

    Returns:
        ``"kept"``, ``"dropped"``, or ``"undecided"`` without any decision; and the text that won.
    """
    kept = sorted((entry for entry in entries if entry.decision in (KEEP, FIX)), key=lambda entry: entry.time)
    if 2 * len(kept) <= len(entries):
        return "dropped" if entries else "undecided", candidate.candidate
    votes = Counter(candidate.candidate if entry.decision == KEEP else entry.text for entry in kept)
    best = [text for text, count in votes.items() if count == max(votes.values())]
    return "kept", candidate.candidate if candidate.candidate in best else best[0]


def export(candidates: Sequence[Candidate], journal: DecisionJournal, path: Path) -> tuple[dict[str, int], int, Path]:
    """Write the candidates with their decisions, and the pairs that are kept.

    Args:
        candidates: the candidates that were judged.
        journal: the decisions.
        path: a ``.jsonl`` file. A line has a candidate's fields, `status` and `text` of its `verdict`, and `decisions`:
            by annotator the decision, its time and the correction, if any. ``NAME.pairs.jsonl`` in the same folder has
            the kept hard negatives as `pairs.read_pairs` reads them; hard positives make no pairs.

    Returns:
        The numbers of candidates kept, dropped and undecided; the number of pairs, and their file.

    Raises:
        DataError: another suffix, or the path of a journal or of what is reviewed.
        StorageError: a file could not be written.
    """
    pairs_path = path.with_name(f"{path.stem}.pairs.jsonl")
    for each in (path, pairs_path):
        journal.check_export(each)
    by_id: dict[str, list[Entry]] = {}
    for entries in journal.standing(shown_texts(candidates)).values():
        for entry in entries.values():
            by_id.setdefault(entry.id, []).append(entry)
    lines, pairs, statuses = [], [], {"kept": 0, "dropped": 0, "undecided": 0}
    for candidate in candidates:
        entries = by_id.get(candidate.id, [])
        status, text = verdict(candidate, entries)
        statuses[status] += 1
        decisions = {
            entry.annotator: {"decision": entry.decision, "time": entry.time}
            | ({"text": entry.text} if entry.text else {})
            for entry in entries
        }
        row = {**candidate._asdict(), "status": status, "text": text, "decisions": decisions}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        if status == "kept" and not candidate.is_positive:
            pairs.append(Pair(candidate.id, candidate.image, candidate.caption, text, candidate.kind))
    write_text(path, "".join(lines))
    write_pairs(pairs, pairs_path)
    return statuses, len(pairs), pairs_path
