"""The board built from a storage: accepted submissions, shipped predictions, values of papers and imported tables."""

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
from .entries import BoardColumn, BoardEntry, chance_levels, of_results, skill_means
from .imports import imported_tables
from .launch import published, shipped, shipped_predictions, shipped_results
from .paired import PairedTests


@dataclass(frozen=True)
class Provenance:
    """The origin of recomputed scores: the result and its submission, which is None if VL-Assay ships them."""

    result: Result
    submission: Submission | None


class Catalogue:
    """The models, scores and predictions that the pages show.

    `refresh` reads the storage again; `update` does so only if files were added.

    Args:
        storage: the storage of the submissions.
        more: further entries, such as the values of another leaderboard.

    Attributes:
        storage: the storage that was passed.
        paired: the pairwise tests of models.
        board: the models and scores of accepted submissions, shipped predictions and papers.
        problems: messages on what could not be read.
        version: the number of times that the storage was read.
        latest: the time of the newest accepted submission, ISO 8601 in UTC; empty without submissions.
    """

    def __init__(self, storage: Storage, more: Iterable[BoardEntry] = ()) -> None:
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
        self._ties: dict[BoardColumn, frozenset[str]] = {}
        self._warming = threading.Lock()
        self._is_warm = False
        self.refresh()

    def refresh(self) -> None:
        """Read the storage again; a damaged submission is reported and does not affect others."""
        with self._lock:  # otherwise an older reading could replace a newer one
            self._paths = self.storage.paths()
            provenance = {result.predictions["sha256"]: Provenance(result, None) for result in shipped_results()}
            latest = ""
            entries: list[BoardEntry] = []
            results: list[Result] = []
            problems: list[str] = []
            for submission in submissions(self.storage):
                submission_problems = list(submission.problems)
                if submission.status == "accepted":
                    latest = max(latest, submission.time)
                    try:
                        submission_results = results_of(self.storage, submission)
                        entries += of_results(
                            submission_results, model=submission.model, source=f"submission {submission.id}"
                        )
                        results += submission_results
                        # A task and its parts have the same file; the result of the task comes first and counts.
                        provenance |= {
                            result.predictions["sha256"]: Provenance(result, submission)
                            for result in submission_results[::-1]
                        }
                    except VLAssayError as error:
                        submission_problems.append(str(error))
                problems += [f"the submission {submission.id}: {problem}" for problem in submission_problems]
            entries += shipped(entries)
            tables, damaged = imported_tables(self.storage)
            imported = [entry for table in tables for entry in table.entries]
            levels = chance_levels([*results, *shipped_results()])
            self._provenance, self.problems, self.latest = provenance, [*problems, *damaged], latest
            scores = [*entries, *published(), *imported, *self._more]
            board = Board([*scores, *skill_means(scores), *levels])
            # Ties hold as long as the same predictions are compared. A copy, because a thread may be adding to it.
            ties = self._ties.copy().items()
            valid_ties = {
                column: tied for column, tied in ties if board.recomputed(column) == self.board.recomputed(column)
            }
            self.board, self._ties = board, valid_ties
            self.version += 1
        if self._is_warm:
            self.warm()

    def update(self, wait: float = 5.0) -> None:
        """Call `refresh` if any process has added files to the storage since the last reading.

        Simultaneous calls share one listing, and each waits for it at most `wait` seconds: an unreachable storage
        leaves the board unchanged, and its retries take minutes.
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
        """Start a background thread that finds the ties of all scores, and again after each `refresh`; return it."""
        with self._lock:
            self._is_warm, now = True, (self.board, self._ties)
        thread = threading.Thread(target=self._find_ties, args=now, daemon=True)
        thread.start()
        return thread

    def _find_ties(self, board: Board, ties: dict[BoardColumn, frozenset[str]]) -> None:
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
        """Return the predictions with this hash, of an accepted submission or shipped.

        Args:
            sha256: the hash of the file.
            task: the task of the file or a part of it; empty for the task of the file.

        Raises:
            StorageError: the file is unknown or damaged.
            PredictionsError: it does not contain the task.
        """
        submission = self._provenance[sha256].submission if sha256 in self._provenance else None
        if submission is not None:
            predictions = read_stored(self.storage, submission.id, sha256)
        elif sha256 in shipped_predictions():
            predictions = read_predictions(shipped_predictions()[sha256])
        else:
            raise StorageError(f"no accepted submission has the predictions file {sha256[:50]}")
        return task_in(predictions, task) if task else predictions

    def provenance(self, sha256: str) -> Provenance | None:
        """Return the origin of the scores of a predictions file; None for an unknown one."""
        return self._provenance.get(sha256)

    def ties(self, columns: Iterable[BoardColumn]) -> Mapping[BoardColumn, frozenset[str]]:
        """Return, by column, the models not significantly different from the best; empty until `warm` has tested it."""
        ties = self._ties
        return {column: ties.get(column, frozenset()) for column in columns}
