"""What the page that judges candidates asks of the server: an item, a decision to keep, undo."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from ._page import Desk
from .decisions import decide, labels, shown_texts
from .journal import Entry, Journal, Key

if TYPE_CHECKING:
    from ..data.candidates import Candidate

Segments = list[tuple[str, bool]]


class ReviewDesk(Desk):
    """The server's side of judging candidates; see `Desk` for the requests.

    Args:
        candidates: what is judged.
        journal: where decisions are kept.
        annotators: who may judge; anybody where it is empty.
    """

    def __init__(self, candidates: Sequence[Candidate], journal: Journal, annotators: Sequence[str] = ()) -> None:
        super().__init__([each.id for each in candidates], journal, shown_texts(candidates), annotators)
        self._candidates = candidates

    def decide(self, request: dict[str, Any]) -> dict[str, Any]:
        """Keep a decision, ``{"annotator", "id", "decision", "text"}``, and answer with the next undecided item.

        Raises:
            UnknownNameError, DataError, StorageError: see ``_decisions.decide``.
        """
        annotator, index = self.annotator(request), self.place(request)
        text = request.get("text") or ""
        decide(self.journal, self._candidates[index], annotator, str(request.get("decision")), str(text))
        return self.next(annotator, index)

    def image_of(self, index: int) -> str:
        """See `Desk`."""
        return self._candidates[index].image

    def is_done(self, entries: dict[Key, Entry], index: int) -> bool:
        """See `Desk`."""
        return (self._candidates[index].id, -1) in entries

    def content(self, entries: dict[Key, Entry], index: int) -> dict[str, Any]:
        """See `Desk`; the candidate is the annotator's own correction where there is one."""
        each = self._candidates[index]
        entry = entries.get((each.id, -1))
        text = (entry.text if entry else "") or each.candidate
        caption, candidate = mark_changes(each.caption, text)
        return {
            "caption": caption,
            "candidate": candidate,
            "text": text,
            "kind": each.kind,
            "is_positive": each.is_positive,
            "source": each.source,
            "choices": [*labels(each).items()],
            "decision": entry.decision if entry else "",
        }


def mark_changes(caption: str, candidate: str) -> tuple[Segments, Segments]:
    """Both texts in pieces, each with whether it is in one of them only; a piece is made of whole words and signs.

    >>> mark_changes("a red cat", "a blue cat")[1]
    [('a ', False), ('blue', True), (' cat', False)]
    """
    one, other = (re.findall(r"\w+|\s+|[^\w\s]", text) for text in (caption, candidate))
    matcher = SequenceMatcher(a=one, b=other, autojunk=False)
    parts: tuple[Segments, Segments] = ([], [])
    for change, *spans in matcher.get_opcodes():
        for words, (start, end), segments in zip((one, other), (spans[:2], spans[2:]), parts, strict=True):
            if end > start:
                segments.append(("".join(words[start:end]), change != "equal"))
    return parts
