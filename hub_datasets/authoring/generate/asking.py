"""Asking a language model: a journal of all answers, retries, a rate limit, and an end to hopeless runs."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import ModelError
from ..data.journal import Journal
from .endpoint import Completion, LanguageModel, Refused, Unanswered
from .prompts import Messages
from .rejected import Rejected

JOURNAL_FILE = "journal.jsonl"
TRIES = 6
# Seconds, before a random part is taken; the wait doubles from try to try.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
# A run whose endpoint asks for a longer pause ends.
_LONGEST_RETRY_AFTER = 300.0
# The run ends after so many questions in a row without an answer, or with a refusal.
_MOST_FAILURES = 5
_MOST_REFUSALS = 20


class Stopped(Exception):
    """The run is ending; nothing more is asked."""


class Question(NamedTuple):
    """A request to a model; `attempt` numbers repeated requests for another random answer."""

    messages: Messages
    temperature: float
    max_tokens: int
    seed: int | None = None
    attempt: int = 0

    def key(self, model: str) -> str:
        """Identifies the question to a model."""
        parts = [model, self.messages, self.temperature, self.seed, self.attempt]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class Usage:
    """What a run has requested: answered calls and their tokens, and answers that the journal already had."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reused: int = 0


def read_answers(path: Path) -> tuple[Journal[tuple[str, Completion | None]], dict[str, Completion]]:
    """The `Journal` of a run, with an entry for each question and error, and its answers by key."""

    def parse(row: Any) -> tuple[str, Completion | None]:
        return row["key"], Completion(**row["answer"]) if "answer" in row else None

    journal = Journal(path, parse)
    return journal, {key: answer for key, answer in journal.entries() if answer is not None}


class Asker:
    """Asks a model, from any number of threads; a question that is already under way is not asked twice.

    Args:
        path: the file of the journal.
        per_minute, first_wait: as for `generate`.
    """

    def __init__(
        self, model: LanguageModel, path: Path, *, per_minute: float | None = None, first_wait: float | None = None
    ) -> None:
        try:
            import tenacity
        except ModuleNotFoundError as error:
            raise ModelError(f"asking a model needs {error.name}: pip install 'vl-assay[authoring]'") from error
        self._model = model
        self._journal, self._answers = read_answers(path)
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Completion]] = {}
        self._failures = 0
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Unanswered),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exception(lambda error: getattr(error, "wait", 0.0))
            + tenacity.wait_random_exponential(FIRST_WAIT if first_wait is None else first_wait, LONGEST_WAIT),
            sleep=self._sleep,
            reraise=True,
        )
        self.usage = Usage()
        # The error that ended the run; later questions raise `Stopped`.
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Ask nothing more; answers under way are still recorded."""
        self._stopping.set()

    def ask(self, question: Question) -> str:
        """The text of the answer, from the journal where it has one.

        Raises:
            Rejected: this question has no answer, or is refused.
            ModelError: no question is answered.
            StorageError: the journal cannot be written.
            Stopped: the run is ending.
        """
        key = question.key(self._model.name)
        with self._lock:
            if key in self._answers:
                self.usage.reused += 1
                return self._answers[key].text
            is_new = key not in self._under_way
            future = self._under_way.setdefault(key, Future())
        if is_new:
            try:
                future.set_result(self._ask(key, question))
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Rejected | Stopped):
                    self.failure = self.failure or error
                    self.stop()
            finally:
                with self._lock:
                    del self._under_way[key]
        return future.result().text

    def _ask(self, key: str, question: Question) -> Completion:
        try:
            answer = self._retrying(self._attempt, key, question)
        except (Unanswered, Refused) as error:
            is_refused = isinstance(error, Refused)
            with self._lock:
                self._failures += 1
                failures = self._failures
            if failures >= (_MOST_REFUSALS if is_refused else _MOST_FAILURES):
                raise ModelError(
                    f"the last {failures} questions to {self._model.name} had no answer; the last error: {error}. "
                    "Answers are kept: run the same command to continue"
                ) from error
            raise Rejected("refused" if is_refused else "no answer", str(error)) from error
        with self._lock:
            self._failures = 0
            self._answers[key] = answer
            self.usage.calls += 1
            self.usage.prompt_tokens += answer.prompt_tokens
            self.usage.completion_tokens += answer.completion_tokens
        return answer

    def _attempt(self, key: str, question: Question) -> Completion:
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._interval
        self._sleep(turn - now)
        row = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "key": key, "model": self._model.name}
        row |= question._asdict()
        try:
            answer = self._model.complete(question.messages, question.temperature, question.max_tokens, question.seed)
        except (Unanswered, Refused) as error:
            self._journal.append(row | {"error": f"{type(error).__name__}: {error}"})
            if isinstance(error, Unanswered) and error.wait > _LONGEST_RETRY_AFTER:
                raise ModelError(
                    f"{self._model.name} asks to wait for {error.wait:.0f} seconds; run the same command after that"
                ) from error
            raise
        self._journal.append(row | {"answer": answer._asdict()})
        return answer

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped
