"""An append-only record of what annotators decided: a line each, on the disk before it is answered."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import append_line, sync_folder

UNDO = "undo"
_LOCK_SECONDS = 10.0
Key = tuple[str, int]


class Entry(NamedTuple):
    """A line of the journal.

    Attributes:
        time: when, UTC, ISO 8601.
        annotator: who.
        id: of which item.
        decision: what was decided; ``"undo"`` takes back the annotator's last decision that stands.
        text: the text that the annotator typed, with the decision ``"fix"``.
        shown: the text that was judged: the candidate, or the phrase.
        phrase: number of the phrase, from 0; -1 where a whole item is judged.
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
        """What was judged: an item, or one of its phrases."""
        return self.id, self.phrase


class Journal:
    """The decisions in a file of JSON lines, which several annotators and processes may write at the same time.

    A decision is one line that is appended and synchronised under a lock, so that a kill loses nothing that was
    answered. A last line that a kill has left without its end is completed where nothing but the line break is
    missing, and cut off otherwise: nobody was told that it was kept.

    Args:
        path: the file; it need not be there.
        decisions: what can be decided.

    Raises:
        DataError: a line is no decision; the message names it.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path, decisions: Collection[str]) -> None:
        self.path = Path(path)
        self._known = {UNDO, *decisions}
        self._thread = threading.RLock()
        self._offset, self._lines = 0, 0
        self._standing: dict[str, list[Entry]] = {}
        if self.path.exists():
            with _told(self.path):
                whole = _ends_in_line_break(self.path)
            if not whole:
                with self._alone():
                    pass
            self._refresh()

    def decide(self, entry: Entry) -> Entry:
        """Append a decision and wait until it is on the disk.

        Args:
            entry: its time may be "", which stands for now.

        Returns:
            The entry as it was written.

        Raises:
            StorageError: it could not be written; the journal is as it was before.
        """
        with self._alone():
            return self._append(entry)

    def undo(self, annotator: str) -> Entry | None:
        """Take back the last decision of an annotator that stands, and return it; None where there is none."""
        with self._alone():
            self._refresh()
            entries = self._standing.get(annotator)
            if not entries:
                return None
            last = entries[-1]
            self._append(Entry("", annotator, last.id, UNDO, phrase=last.phrase))
            return last

    def standing(self, shown: Mapping[Key, str] | None = None) -> dict[str, dict[Key, Entry]]:
        """The decision of each annotator on each item: the last one that was not taken back.

        Args:
            shown: the texts that are judged now; decisions on another text, or on something else, are left out.
        """
        with self._thread:
            self._refresh()
            last = {name: {entry.key: entry for entry in entries} for name, entries in self._standing.items()}
        if shown is not None:
            last = {
                name: {key: entry for key, entry in entries.items() if shown.get(key) == entry.shown}
                for name, entries in last.items()
            }
        return {name: entries for name, entries in sorted(last.items()) if entries}

    def count_stale(self, shown: Mapping[Key, str]) -> int:
        """How many decisions are on something that is not, or no longer, judged, and count nowhere."""
        return sum(map(len, self.standing().values())) - sum(map(len, self.standing(shown).values()))

    def check_export(self, path: Path) -> None:
        """Raise `DataError` where a file that is to be written is no ``.jsonl`` file, or is the journal itself."""
        if path.suffix != ".jsonl":
            raise DataError(f"{path} ends in {path.suffix!r}; decisions and boxes are exported as .jsonl")
        if path.resolve() == self.path.resolve():
            raise DataError(f"{path} has the decisions themselves, and would be overwritten; name another file")

    def _append(self, entry: Entry) -> Entry:
        entry = entry._replace(time=entry.time or datetime.now(UTC).isoformat(timespec="milliseconds"))
        row = {name: value for name, value in entry._asdict().items() if value != Entry._field_defaults.get(name)}
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        is_new = not self.path.exists()
        append_line(self.path, line)
        if is_new:
            sync_folder(self.path.parent)
        self._refresh()
        return entry

    def _refresh(self) -> None:
        """Take in the whole lines that have come to the file, of this process and of others."""
        with self._thread, _told(self.path):
            size = self.path.stat().st_size if self.path.exists() else 0
            if size < self._offset:  # another file has taken its place
                self._offset, self._lines = 0, 0
                self._standing.clear()
            if size == self._offset:
                return
            with self.path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            for line in whole.split(b"\n")[:-1]:
                self._lines += 1
                if line.strip():
                    self._take(_read_line(line, self._known, f"line {self._lines} of {self.path}"))
            self._offset += len(whole)

    def _take(self, entry: Entry) -> None:
        entries = self._standing.setdefault(entry.annotator, [])
        if entry.decision != UNDO:
            entries.append(entry)
        elif entries:
            entries.pop()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the file alone, with a whole last line."""
        from filelock import FileLock, Timeout

        try:
            with self._thread, _told(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_LOCK_SECONDS):
                    _mend(self.path, self._known)
                    yield
        except Timeout as error:
            raise StorageError(
                f"another process has kept {self.path} locked for {_LOCK_SECONDS:.0f} seconds; end it or wait for it, "
                "and decide again"
            ) from error


def _read_line(line: bytes, known: Collection[str], place: str) -> Entry:
    try:
        row = json.loads(line)
        entry = Entry(**row)
        texts = (entry.time, entry.annotator, entry.id, entry.decision, entry.text, entry.shown)
        if not all(isinstance(text, str) for text in texts) or not isinstance(entry.phrase, int):
            raise TypeError("a field is of another type")
        if entry.decision not in known:
            raise ValueError(f"the decision {entry.decision!r} is none of {', '.join(sorted(known))}")
        return entry._replace(boxes=tuple(tuple(map(float, box)) for box in entry.boxes))
    except (ValueError, TypeError) as error:
        raise DataError(f"{place} is no decision ({error}); mend it, or move the file away to begin anew") from error


def _ends_in_line_break(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _mend(path: Path, known: Collection[str]) -> None:
    """Complete or cut off a last line that has no end."""
    if not path.exists() or _ends_in_line_break(path):
        return
    with path.open("rb+") as file:
        content = file.read()
        tail = content[content.rfind(b"\n") + 1 :]
        try:
            _read_line(tail, known, "the last line")
            file.write(b"\n")
        except DataError:
            file.truncate(len(content) - len(tail))
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except TimeoutError:  # filelock's is one of these; it is told apart
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be used: {error.strerror or error}. What was decided before is intact: free some space, "
            "allow writing or name another folder with --out, and try again"
        ) from error
