"""The board over a storage: accepted submissions, shipped predictions, the papers' values and imported tables."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...hub_datasets.reports.evaluation import task_in
from ...metrics.common.errors import StorageError, VLAssayError
from ...metrics.records.predictions import Predictions, read_predictions
from ...metrics.records.results import Result
from ..storage.protocol import Storage
from ..storage.records import Submission, read_stored, results_of, submissions
from .board import Board
from .entries import RECOMPUTED, Column, Entry, chance_levels, of_results
from .imports import imported_tables
from .launch import published, shipped, shipped_predictions, shipped_results
from .paired import PairedTests


@dataclass(frozen=True)
class Provenance:
    """The origin of recomputed scores: the result and its submission, which is None if VL-Assay ships them."""

    result: Result
    submission: Submission | None


class Catalogue:
    """Everything that the pages show; `refresh` reads the storage again, and `update` if there is something new in it.

    Args:
        storage: where submissions are.
        more: further entries, such as those of another leaderboard.

    Attributes:
        storage: as given.
        paired: the pairwise tests of models.
        board: the models and scores of accepted submissions, shipped predictions and papers.
        problems: messages on what could not be read.
        version: the number of times that the storage was read.
        latest: the time of the newest accepted submission, ISO 8601 in UTC; empty if there is none.
    """

    def __init__(self, storage: Storage, more: Iterable[Entry] = ()) -> None:
        self.storage = storage
        self.paired = PairedTests(self.predictions)
        self.board = Board([])
        self.problems: list[str] = []
        self.version = 0
        self.latest = ""
        self._paths: list[str] = []
        self._more = more
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._looking: threading.Thread | None = None
        self._provenance: dict[str, Provenance] = {}
        self._ties: dict[Column, frozenset[str]] = {}
        self._warming = threading.Lock()
        self._is_warm = False
        self.refresh()

    def refresh(self) -> None:
        """Read the storage again; a damaged submission is reported and does not affect others."""
        with self._lock:  # otherwise an older reading could replace a newer one
            self._paths = self.storage.paths()
            provenance = {result.predictions["sha256"]: Provenance(result, None) for result in shipped_results()}
            latest = ""
            entries: list[Entry] = []
            results: list[Result] = []
            problems: list[str] = []
            for submission in submissions(self.storage):
                found = list(submission.problems)
                if submission.status == "accepted":
                    latest = max(latest, submission.time)
                    try:
                        own = results_of(self.storage, submission.id)
                        entries += of_results(own, model=submission.model, source=f"submission {submission.id}")
                        results += own
                        # A task and its parts have the same file; the result of the task comes first and counts.
                        provenance |= {each.predictions["sha256"]: Provenance(each, submission) for each in own[::-1]}
                    except VLAssayError as error:
                        found.append(str(error))
                problems += [f"the submission {submission.id}: {problem}" for problem in found]
            entries += shipped(entries)
            tables, damaged = imported_tables(self.storage)
            imported = [entry for table in tables for entry in table.entries]
            levels = chance_levels([*results, *shipped_results()])
            self._provenance, self.problems, self.latest = provenance, [*problems, *damaged], latest
            board = Board([*entries, *published(), *imported, *self._more, *levels])
            # Ties hold as long as the same predictions are compared. A copy, because a thread may be adding to it.
            ties = self._ties.copy().items()
            kept = {column: tied for column, tied in ties if board.recomputed(column) == self.board.recomputed(column)}
            self.board, self._ties = board, kept
            self.version += 1
        if self._is_warm:
            self.warm()

    def update(self, wait: float = 5.0) -> None:
        """`refresh` if files were added to the storage since, by whichever process; stored files never change.

        All who call it at a time share one look, for which nobody waits longer than `wait` seconds: a storage that
        cannot be reached leaves the board as it is, and its retries take minutes.
        """
        with self._starting:
            if self._looking is None or not self._looking.is_alive():
                self._looking = threading.Thread(target=self._look, daemon=True)
                self._looking.start()
            looking = self._looking
        looking.join(wait)

    def _look(self) -> None:
        try:
            if self.storage.paths() != self._paths:
                self.refresh()
        except StorageError as error:
            self.problems = [*dict.fromkeys([*self.problems, str(error)])]

    def warm(self) -> threading.Thread:
        """Find the ties of all scores in a background thread, now and after each `refresh`; returns the thread."""
        with self._lock:
            self._is_warm, now = True, (self.board, self._ties)
        thread = threading.Thread(target=self._find_ties, args=now, daemon=True)
        thread.start()
        return thread

    def _find_ties(self, board: Board, ties: dict[Column, frozenset[str]]) -> None:
        with self._warming:  # two threads would read the same predictions
            for column in board.columns:
                if self._ties is not ties:
                    return
                if column in ties:
                    continue
                try:
                    predictions = board.recomputed(column)
                    ties[column] = self.paired.shared(predictions, column)
                except VLAssayError as error:
                    self.problems.append(f"the ties of {column.heading}: {error}")

    def predictions(self, sha256: str, task: str = "") -> Predictions:
        """The predictions with this hash, of an accepted submission or shipped.

        Args:
            sha256: the hash of the file.
            task: theirs, or one that is part of it; empty for theirs.

        Raises:
            StorageError: there are none, or they are damaged.
            PredictionsError: they do not have the task.
        """
        submission = self._provenance[sha256].submission if sha256 in self._provenance else None
        if submission is not None:
            found = read_stored(self.storage, f"requests/{submission.id}/{sha256}.parquet")
        elif sha256 in shipped_predictions():
            found = read_predictions(shipped_predictions()[sha256])
        else:
            raise StorageError(f"no accepted submission has the predictions file {sha256[:50]}")
        return task_in(found, task) if task else found

    def provenance(self, sha256: str) -> Provenance | None:
        """Return the origin of the scores of a predictions file; None for an unknown one."""
        return self._provenance.get(sha256)

    def alike(self, column: Column, model: str, most: int = 10) -> tuple[list[str], list[str]]:
        """With which recomputed models of a column one was compared, and which of them do not differ significantly.

        Args:
            column: which score.
            model: a recomputed model that has it.
            most: compare with so many models at most, those with the nearest values.

        Raises:
            VLAssayError: predictions cannot be read.
        """
        board = self.board
        predictions = board.recomputed(column)
        recomputed = (entry for entry in board.entries(column) if entry.origin == RECOMPUTED)
        values = {entry.model: entry.value for entry in recomputed if entry.model in predictions}
        own, middle = predictions.pop(model), values.pop(model)
        near = sorted(values, key=lambda name: abs(values[name] - middle))[:most]
        others = {name: predictions[name] for name in near}
        found = self.paired.alike(own, others, column) if others else frozenset()
        return near, [name for name in near if name in found]

    def ties(self, columns: Iterable[Column]) -> Mapping[Column, frozenset[str]]:
        """For each column the models that do not differ significantly from the best, as far as `warm` has come."""
        ties = self._ties
        return {column: ties.get(column, frozenset()) for column in columns}
