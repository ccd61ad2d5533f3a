"""The journal of annotators' decisions, in one format for every page."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.journal import Journal

Answers = dict[str, Any]


class Decision(NamedTuple):
    """An annotator's answers to the questions about one item, one line of the journal.

    Attributes:
        time: UTC, ISO 8601.
        annotator, id: the names of the annotator and of the item.
        shown: a hash of the texts and images that the annotator saw.
        answers: by question a text, or boxes as [x, y, width, height]; None takes back the annotator's last decision.
    """

    time: str
    annotator: str
    id: str
    shown: str
    answers: Answers | None

    def answer(self, question: str) -> Any:
        """Return the answer to a question, "" if it was not asked."""
        return (self.answers or {}).get(question, "")


class DecisionJournal(Journal[Decision]):
    """A `Journal` of decisions, which several annotators and processes may write at the same time.

    Args:
        path: the file; it need not exist.

    Raises:
        DataError: an invalid line; the message has its number.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, _parse)

    def record(self, annotator: str, id: str, shown: str, answers: Answers | None) -> None:
        """Append a decision and wait until it is on the disk.

        Raises:
            DataError: a text cannot be encoded.
            StorageError: it could not be written; the journal is as it was.
        """
        try:
            json.dumps(answers, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise DataError("the text has half a character, which no page can show; type it again") from error
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.append(Decision(time, annotator, id, shown, answers)._asdict())

    def undo(self, annotator: str) -> Decision | None:
        """Take back the last decision of an annotator and return it; None if the annotator has not decided yet."""
        with self.locked():
            decisions = self._history().get(annotator)
            if not decisions:
                return None
            self.record(annotator, decisions[-1].id, "", None)
            return decisions[-1]

    def standing(self) -> dict[str, dict[str, Decision]]:
        """Return the last decision of each annotator on each item, without those that were taken back."""
        history = sorted(self._history().items())
        return {name: {decision.id: decision for decision in decisions} for name, decisions in history if decisions}

    def _history(self) -> dict[str, list[Decision]]:
        history: dict[str, list[Decision]] = {}
        for decision in self.entries():
            decisions = history.setdefault(decision.annotator, [])
            if decision.answers is not None:
                decisions.append(decision)
            elif decisions:
                decisions.pop()
        return history


def _parse(row: Any) -> Decision:
    decision = Decision(**row)
    if not all(isinstance(text, str) for text in decision[:4]) or not isinstance(decision.answers, dict | None):
        raise TypeError("a field has another type")
    for value in (decision.answers or {}).values():
        if not isinstance(value, str) and not all(len(list(map(float, box))) == 4 for box in value):
            raise ValueError(f"{value!r} is neither a text nor boxes")
    return decision
