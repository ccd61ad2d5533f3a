"""The journal of annotators' decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError
from ....metrics.common.journal import Journal

UNDO = "undo"
Key = tuple[str, int]


class Entry(NamedTuple):
    """A decision, one line of the journal.

    Attributes:
        time: when, UTC, ISO 8601.
        annotator: who.
        id: of which item.
        decision: the decision; ``"undo"`` takes back the annotator's last decision that stands.
        text: the corrected text, with the decision ``"fix"``.
        shown: the text that was judged: the candidate, or the phrase.
        phrase: the index of the phrase; -1 for a decision on a whole item.
        boxes: boxes of the phrase: x, y, width, height in pixels of the image.
    """

    time: str
    annotator: str
    id: str
    decision: str
    text: str = ""
    shown: str = ""
    phrase: int = -1
    boxes: tuple[tuple[float, ...], ...] = ()

    @property
    def key(self) -> Key:
        """The item, or the phrase of it, that was judged."""
        return self.id, self.phrase


class DecisionJournal:
    """Decisions in a `Journal`, which several annotators and processes may write at the same time.

    Args:
        path: the file; it need not exist.
        decisions: the possible decisions.
        others: further files that an export may not replace.

    Raises:
        DataError: an invalid line; the message has its number.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path, decisions: Collection[str], others: Iterable[Path] = ()) -> None:
        self._known = {UNDO, *decisions}
        self._journal = Journal(path, self._parse)
        self.path = self._journal.path
        self._written = {each.resolve() for each in (self.path, *others)}

    def decide(self, entry: Entry) -> Entry:
        """Append a decision and wait until it is on the disk; a time of "" means now.

        Raises:
            DataError: a text holds half of a character.
            StorageError: it could not be written; the journal is as it was.
        """
        entry = entry._replace(time=entry.time or datetime.now(UTC).isoformat(timespec="milliseconds"))
        defaults = Entry._field_defaults
        row = {name: value for name, value in entry._asdict().items() if value != defaults.get(name)}
        try:
            "".join(value for value in row.values() if isinstance(value, str)).encode()
        except UnicodeEncodeError as error:
            raise DataError("the text holds half of a character, which no page can show; type it again") from error
        self._journal.append(row)
        return entry

    def undo(self, annotator: str) -> Entry | None:
        """Take back the last decision of an annotator that stands, and return it; None if there is none."""
        with self._journal.locked():
            entries = self._history().get(annotator)
            if not entries:
                return None
            self.decide(Entry("", annotator, entries[-1].id, UNDO, phrase=entries[-1].phrase))
            return entries[-1]

    def standing(self, shown: Mapping[Key, str] | None = None) -> dict[str, dict[Key, Entry]]:
        """The last decision of each annotator on each item that was not taken back.

        Args:
            shown: the current texts; decisions on other texts or items are left out.
        """
        last = {name: {entry.key: entry for entry in entries} for name, entries in sorted(self._history().items())}
        if shown is not None:
            last = {
                name: {key: entry for key, entry in entries.items() if shown.get(key) == entry.shown}
                for name, entries in last.items()
            }
        return {name: entries for name, entries in last.items() if entries}

    def count_stale(self, shown: Mapping[Key, str]) -> int:
        """The number of decisions that `standing` leaves out since their texts have changed."""
        return sum(map(len, self.standing().values())) - sum(map(len, self.standing(shown).values()))

    def check_export(self, path: Path) -> None:
        """Raise `DataError` unless a path is that of a ``.jsonl`` file that holds nothing of the annotators'."""
        if path.suffix != ".jsonl":
            raise DataError(f"{path} ends in {path.suffix!r}; decisions and boxes are exported as .jsonl")
        if path.resolve() in self._written:
            raise DataError(f"{path} is a journal, or what is reviewed, and would be overwritten; name another file")

    def _history(self) -> dict[str, list[Entry]]:
        """The decisions of each annotator that were not taken back, in their order."""
        history: dict[str, list[Entry]] = {}
        for entry in self._journal.entries():
            own = history.setdefault(entry.annotator, [])
            if entry.decision != UNDO:
                own.append(entry)
            elif own:
                own.pop()
        return history

    def _parse(self, row: Any) -> Entry:
        entry = Entry(**row)
        texts = (entry.time, entry.annotator, entry.id, entry.decision, entry.text, entry.shown)
        if not all(isinstance(text, str) for text in texts) or not isinstance(entry.phrase, int):
            raise TypeError("a field is of another type")
        if entry.decision not in self._known:
            raise ValueError(f"the decision {entry.decision!r} is not one of {', '.join(sorted(self._known))}")
        return entry._replace(boxes=tuple(tuple(map(float, box)) for box in entry.boxes))
