"""What annotators can decide on a candidate, which candidates their decisions keep, and the export of both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....metrics.common.errors import DataError, UnknownNameError
from ....metrics.common.storage import write_text
from .journal import Entry, Journal, Key

if TYPE_CHECKING:
    from ..data.candidates import Candidate

KEEP, FIX = "keep", "fix"
JOURNAL_FILE = "DECISIONS.jsonl"
# By the keys 1 to 5; a hard positive that is not true of its image is a false positive.
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
STATUSES: tuple[str, ...] = ("kept", "dropped", "undecided")


class Verdict(NamedTuple):
    """What annotators together say of a candidate.

    Attributes:
        status: ``"kept"``, ``"dropped"`` or ``"undecided"`` (nobody has judged it).
        text: the candidate, with the correction that was chosen.
    """

    status: str
    text: str


class Export(NamedTuple):
    """What was exported.

    Attributes:
        statuses: how many candidates are kept, dropped and undecided.
        pairs: how many pairs were written.
        stale: how many decisions are on texts that are not, or no longer, judged.
        files: the candidates with their decisions, and the pairs.
    """

    statuses: dict[str, int]
    pairs: int
    stale: int
    files: tuple[Path, Path]


def labels(candidate: Candidate) -> dict[str, str]:
    """What can be decided on a candidate, in the order of the keys 1 to 5, with what the page calls it."""
    return _POSITIVE_LABELS if candidate.is_positive else _LABELS


def shown_texts(candidates: Sequence[Candidate]) -> dict[Key, str]:
    """The text of each candidate under the key that its decisions have in the journal."""
    return {(candidate.id, -1): candidate.candidate for candidate in candidates}


def decide(journal: Journal, candidate: Candidate, annotator: str, decision: str, text: str = "") -> Entry:
    """Append a decision on a candidate.

    Args:
        decision: one of `labels`.
        text: with ``"fix"``, the corrected candidate; its white space is collapsed, and there is none around it.

    Raises:
        UnknownNameError: another decision.
        DataError: a correction that is empty, the caption, or the candidate as it was.
        StorageError: see ``Journal.decide``.
    """
    if decision not in labels(candidate):
        raise UnknownNameError("decision", decision, labels(candidate))
    text = " ".join(text.split()) if decision == FIX else ""
    if decision == FIX:
        same = {"": "empty", candidate.caption: "the caption itself", candidate.candidate: "the candidate as it was"}
        if text in same:
            raise DataError(f"the text is {same[text]}; change it, or choose another decision")
    return journal.decide(Entry("", annotator, candidate.id, decision, text=text, shown=candidate.candidate))


def verdict(candidate: Candidate, entries: Sequence[Entry]) -> Verdict:
    """What the decisions of several annotators on one candidate come to.

    It is kept where more than half of those who judged it keep it or fix its text; a tie is not kept. Each of them
    speaks for a text: who keeps it for the candidate, who fixes it for the correction. The text most speak for is
    chosen; of several, the candidate, or else the correction that was saved first.

    Args:
        candidate: the candidate.
        entries: one decision of each annotator who judged it.
    """
    kept = sorted((entry for entry in entries if entry.decision in (KEEP, FIX)), key=lambda entry: entry.time)
    if not entries:
        return Verdict("undecided", candidate.candidate)
    if 2 * len(kept) <= len(entries):
        return Verdict("dropped", candidate.candidate)
    texts = [candidate.candidate if entry.decision == KEEP else entry.text for entry in kept]
    times = Counter(texts)
    best = [text for text in texts if times[text] == max(times.values())]
    return Verdict("kept", candidate.candidate if candidate.candidate in best else best[0])


def entries_by_id(standing: Mapping[str, Mapping[Key, Entry]]) -> dict[str, list[Entry]]:
    """The decisions on each candidate, in the order of the annotators."""
    found: dict[str, list[Entry]] = {}
    for entries in standing.values():
        for entry in entries.values():
            found.setdefault(entry.id, []).append(entry)
    return found


def export(candidates: Sequence[Candidate], journal: Journal, path: str | Path) -> Export:
    """Write the candidates with their decisions, and the pairs that are kept.

    Args:
        candidates: the candidates that were judged.
        journal: their decisions.
        path: a ``.jsonl`` file. A line is a candidate's own fields with `status` and `text` of `verdict`, and
            `decisions`: what each annotator decided, with time and, where the text was fixed, the correction. Beside
            it, ``NAME.pairs.jsonl`` has the kept hard negatives as ``pairs.read_pairs`` reads them; hard positives
            are no pairs.

    Raises:
        DataError: another suffix, the journal's own path.
        StorageError: a file could not be written.
    """
    from ..data.pairs import Pair, write_pairs

    path = Path(path)
    journal.check_export(path)
    shown = shown_texts(candidates)
    by_id = entries_by_id(journal.standing(shown))
    lines, pairs, statuses = [], [], dict.fromkeys(STATUSES, 0)
    for candidate in candidates:
        entries = by_id.get(candidate.id, [])
        status, text = verdict(candidate, entries)
        statuses[status] += 1
        decisions = {entry.annotator: _said(entry) for entry in entries}
        row = {**candidate._asdict(), "status": status, "text": text, "decisions": decisions}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        if status == "kept" and not candidate.is_positive:
            pairs.append(Pair(candidate.id, candidate.image, candidate.caption, text, candidate.kind))
    pairs_path = path.with_name(f"{path.stem}.pairs.jsonl")
    write_text(path, "".join(lines))
    write_pairs(pairs, pairs_path)
    return Export(statuses, len(pairs), journal.count_stale(shown), (path, pairs_path))


def _said(entry: Entry) -> dict[str, str]:
    return {"decision": entry.decision, "time": entry.time} | ({"text": entry.text} if entry.text else {})
