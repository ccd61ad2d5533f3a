"""What the pages show: the papers' values and the accepted submissions, as a board that follows the storage."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..metrics.errors import StorageError, VLAssayError
from ..metrics.sheets import Sheet, read_sheet
from ._board import Board, Column
from ._entries import Entry, chance_levels, of_results
from ._launch import published
from ._submissions import Submission, results_of, submissions
from ._ties import Ties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._storage import Storage


class Catalogue:
    """All that is shown, read anew by `refresh`.

    Attributes:
        storage: where submissions are.
        board: the models and scores of the accepted submissions, and what the papers print.
        problems: what could not be read, in words.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._lock = threading.Lock()
        self._homes: dict[str, str] = {}
        self._ties = Ties(self.sheet)
        self.refresh()

    def refresh(self) -> None:
        """Read the storage again; a submission that is damaged is told of and hides no other."""
        with self._lock:  # one after the other: what was read first must not be shown last
            self._read()

    def _read(self) -> None:
        homes: dict[str, str] = {}
        entries: list[Entry] = []
        problems: list[str] = []
        levels: list[Entry] = []
        for each in submissions(self.storage):
            problems += [f"the submission {each.id}: {problem}" for problem in each.problems]
            if each.status != "accepted":
                continue
            homes |= {sheet["sha256"]: each.id for sheet in each.sheets}
            try:
                results = results_of(self.storage, each.id)
            except VLAssayError as error:
                problems.append(f"the submission {each.id}: {error}")
                continue
            entries += of_results(results, model=each.model, source=f"submission {each.id}", status=each.status)
            levels += chance_levels(results)
        self._homes, self.problems = homes, problems
        self.board = Board([*entries, *published(), *levels])

    def content(self, sha256: str) -> bytes:
        """The file of an accepted submission's sheet.

        Raises:
            StorageError: it is not there.
        """
        if sha256 not in self._homes:
            raise StorageError(f"no accepted submission has the sheet {sha256[:50]}")
        return self.storage.read(f"requests/{self._homes[sha256]}/{sha256}.parquet")

    def sheet(self, sha256: str) -> Sheet:
        """An accepted submission's sheet; raises as `content`."""
        content = self.content(sha256)
        with TemporaryDirectory(prefix="vl-assay-sheet-") as folder:
            path = Path(folder) / "sheet.parquet"
            path.write_bytes(content)
            return read_sheet(path)

    def ties(self, columns: Iterable[Column]) -> Mapping[Column, frozenset[str]]:
        """For each column the recomputed models that cannot be told from its best one; see ``_ties``."""
        return {
            column: self._ties.shared(self.board.recomputed(column), column.metric, column.score, column.category)
            for column in columns
        }

    def waiting(self) -> list[Submission]:
        """The submissions that a maintainer should look at, the oldest first."""
        return [each for each in submissions(self.storage) if each.status in ("flagged", "pending", "damaged")]
