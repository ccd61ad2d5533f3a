"""What the pages show: accepted submissions, what ships and what papers print, as a board that follows the storage."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ...metrics.common.errors import StorageError, VLAssayError
from ...metrics.records.predictions import Predictions, read_predictions
from ..submissions.submissions import Submission, results_of, submissions
from .board import Board, Column
from .entries import Entry, chance_levels, of_results
from .launch import published, shipped, shipped_predictions, shipped_results
from .paired import PairedTests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..storage.storage import Storage


class Catalogue:
    """All that is shown, read anew by `refresh`.

    Attributes:
        storage: where submissions are.
        paired: the tests of models against each other.
        board: the models and scores of the accepted submissions, those that ship, and what the papers print.
        problems: what could not be read, in words.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._lock = threading.Lock()
        self._homes: dict[str, str] = {}
        self.paired = PairedTests(self.predictions)
        self._marks: dict[Column, frozenset[str]] = {}
        self._warming = threading.Lock()
        self._warms = False
        self.board = Board([])
        self.refresh()

    def refresh(self) -> None:
        """Read the storage again; a submission that is damaged is told of and hides no other."""
        with self._lock:  # one after the other: what was read first must not be shown last
            self._read()
        if self._warms:
            self.warm()

    def warm(self) -> threading.Thread:
        """Find the marks of all scores in the background, now and after each `refresh`; the thread that does it."""
        with self._lock:
            self._warms, now = True, (self.board, self._marks)
        thread = threading.Thread(target=self._find_ties, args=now, daemon=True)
        thread.start()
        return thread

    def _find_ties(self, board: Board, marks: dict[Column, frozenset[str]]) -> None:
        with self._warming:  # two at once would read the same predictions
            for column in board.columns:
                if self._marks is not marks:
                    return
                if column in marks:
                    continue
                try:
                    predictions = board.recomputed(column)
                    marks[column] = self.paired.shared(predictions, column.metric, column.score, column.category)
                except VLAssayError as error:
                    self.problems.append(f"the ties of {column.heading}: {error}")

    def _read(self) -> None:
        homes: dict[str, str] = {}
        entries: list[Entry] = []
        problems: list[str] = []
        levels: list[Entry] = []
        for each in submissions(self.storage):
            problems += [f"the submission {each.id}: {problem}" for problem in each.problems]
            if each.status != "accepted":
                continue
            homes |= {predictions["sha256"]: each.id for predictions in each.predictions}
            try:
                results = results_of(self.storage, each.id)
            except VLAssayError as error:
                problems.append(f"the submission {each.id}: {error}")
                continue
            entries += of_results(results, model=each.model, source=f"submission {each.id}", status=each.status)
            levels += chance_levels(results)
        entries += shipped(entries)
        levels += chance_levels(shipped_results())
        self._homes, self.problems = homes, problems
        board = Board([*entries, *published(), *levels])
        # A copy, for a thread may be adding to it.
        kept = {column: marks for column, marks in self._marks.copy().items() if _is_same(column, board, self.board)}
        self.board, self._marks = board, kept

    def content(self, sha256: str) -> bytes:
        """The file of the predictions file of an accepted submission, or of one that ships.

        Raises:
            StorageError: it is not there.
        """
        if sha256 in self._homes:
            return self.storage.read(f"requests/{self._homes[sha256]}/{sha256}.parquet")
        path = shipped_predictions().get(sha256)
        if path is None:
            raise StorageError(f"no accepted submission has the predictions file {sha256[:50]}")
        return path.read_bytes()

    def predictions(self, sha256: str) -> Predictions:
        """That predictions; raises as `content`."""
        content = self.content(sha256)
        with TemporaryDirectory(prefix="vl-assay-predictions-") as folder:
            path = Path(folder) / "predictions.parquet"
            path.write_bytes(content)
            return read_predictions(path)

    def ties(self, columns: Iterable[Column]) -> Mapping[Column, frozenset[str]]:
        """For each column the recomputed models that cannot be told from its best one, as far as `warm` has come."""
        marks = self._marks
        return {column: marks.get(column, frozenset()) for column in columns}

    def waiting(self) -> list[Submission]:
        """The submissions that a maintainer should look at, the oldest first."""
        return [each for each in submissions(self.storage) if each.status in ("flagged", "pending", "damaged")]


def _is_same(column: Column, board: Board, other: Board) -> bool:
    """Whether the same predictions are behind a score in two boards, so that its marks hold in both."""
    return board.recomputed(column) == other.recomputed(column)
