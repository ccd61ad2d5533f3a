"""Calls to a model behind a server: a journal of all answers, retries, limits, and an end to hopeless runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...metrics.common.errors import ModelError
from ...metrics.common.journal import Journal
from .client import Refused, Unanswered

TRIES = 6
_FEW_TRIES = 3
# Seconds, before a random part is taken; the wait doubles from try to try.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
# A run whose endpoint asks for a longer pause ends.
_LONGEST_RETRY_AFTER = 300.0
# The run ends after so many calls in a row without an answer, or with a refusal.
_MOST_FAILURES = 5
_MOST_REFUSALS = 20


# A NamedTuple of values for JSON, among them `prompt_tokens` and `completion_tokens`.
A = TypeVar("A", bound=Any)
T = TypeVar("T")


class Stopped(Exception):
    """The run is ending; nothing more is asked."""


@dataclass
class Usage:
    """The requests of a run: answered calls and their tokens, and answers that the journal already had."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reused: int = 0


def read_answers(
    path: Path, parse: Callable[[Mapping[str, Any]], A]
) -> tuple[Journal[tuple[str, A | None]], dict[str, A]]:
    """Open the `Journal` of calls, with an entry for each answer and error; return it and its answers by key."""

    def entry(row: Any) -> tuple[str, A | None]:
        return row["key"], parse(row["answer"]) if "answer" in row else None

    journal = Journal(path, entry)
    return journal, _answers(journal)


def _answers(journal: Journal[tuple[str, A | None]]) -> dict[str, A]:
    return {key: answer for key, answer in journal.entries() if answer is not None}


class JournaledCalls(Generic[A]):
    """Calls from any number of threads; one that is already under way is not made twice.

    Args:
        name: of the model, for messages and the journal.
        path: the file of the journal.
        parse: makes an answer of its fields in the journal.
        per_minute: the most calls a minute.
        first_wait: seconds before the first retry, before a random part is taken.
        at_once: the most calls under way; those that wait for a retry are not.
        most: the most calls altogether, with retries, before the run ends.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        parse: Callable[[Mapping[str, Any]], A],
        *,
        per_minute: float | None = None,
        first_wait: float | None = None,
        at_once: int | None = None,
        most: int | None = None,
    ) -> None:
        try:
            import tenacity
        except ModuleNotFoundError as error:
            raise ModelError(f"asking a model needs {error.name}: pip install 'vl-assay[endpoint]'") from error
        self._name = name
        self._journal, self._answers = read_answers(path, parse)
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(at_once or 1 << 20)
        self._under_way: dict[str, Future[A]] = {}
        self._failures = 0
        self._most, self._made = most, 0
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Unanswered),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_exception(lambda error: getattr(error, "wait", 0.0))
            + tenacity.wait_random_exponential(FIRST_WAIT if first_wait is None else first_wait, LONGEST_WAIT),
            sleep=self._sleep,
            reraise=True,
        )
        self.usage = Usage()
        # The error that ended the run; later calls raise `Stopped`.
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Call nothing more; answers under way are still recorded."""
        self._stopping.set()

    def retried(self, send: Callable[[], T]) -> T:
        """Return what `send` returns, in few tries and without the journal, for a request that costs nothing."""
        import tenacity

        return self._retrying.copy(stop=tenacity.stop_after_attempt(_FEW_TRIES))(send)

    def known(self, key: str) -> A | None:
        """Return the answer in the journal or from this run; None if there is no answer yet."""
        return self._answers.get(key)

    def refresh(self) -> None:
        """Read what other processes have added to the journal."""
        with self._lock:
            self._answers |= _answers(self._journal)

    def call(self, key: str, about: Mapping[str, Any], send: Callable[[], A]) -> A:
        """Return the answer for a key: from the journal if it has one, else from `send`.

        Args:
            key: identifies the call.
            about: a record of the call for the journal.
            send: makes the call; raises as ``client.Endpoint.send``.

        Raises:
            Unanswered: no answer after `TRIES`.
            Refused: this call will never be answered.
            ModelError: none is answered, or there were `most` calls.
            StorageError: the journal cannot be written.
            Stopped: the run is ending.
        """
        with self._lock:
            if key in self._answers:
                self.usage.reused += 1
                return self._answers[key]
            is_new = key not in self._under_way
            future = self._under_way.setdefault(key, Future())
        if is_new:
            try:
                future.set_result(self._call(key, about, send))
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Unanswered | Refused | Stopped):
                    self.failure = self.failure or error
                    self.stop()
            finally:
                with self._lock:
                    del self._under_way[key]
        return future.result()

    def _call(self, key: str, about: Mapping[str, Any], send: Callable[[], A]) -> A:
        try:
            answer = self._retrying(self._attempt, key, about, send)
        except (Unanswered, Refused) as error:
            with self._lock:
                self._failures += 1
                failures = self._failures
            if failures >= (_MOST_REFUSALS if isinstance(error, Refused) else _MOST_FAILURES):
                raise ModelError(
                    f"the last {failures} questions to {self._name} had no answer; the last error: {error}. "
                    "Answers are kept: run the same command to continue"
                ) from error
            raise
        with self._lock:
            self._failures = 0
            self._answers[key] = answer
            self.usage.calls += 1
            self.usage.prompt_tokens += answer.prompt_tokens
            self.usage.completion_tokens += answer.completion_tokens
        return answer

    def _attempt(self, key: str, about: Mapping[str, Any], send: Callable[[], A]) -> A:
        with self._slots:
            self._take_turn()
            row = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "key": key, "model": self._name, **about}
            try:
                answer = send()
            except (Unanswered, Refused) as error:
                self._journal.append(row | {"error": f"{type(error).__name__}: {error}"})
                if isinstance(error, Unanswered) and error.wait > _LONGEST_RETRY_AFTER:
                    raise ModelError(
                        f"{self._name} asks to wait for {error.wait:.0f} seconds; run the same command after that"
                    ) from error
                raise
            self._journal.append(row | {"answer": answer._asdict()})
        return answer

    def _take_turn(self) -> None:
        with self._lock:
            if self._most is not None and self._made >= self._most:
                raise ModelError(
                    f"{self._made:,} requests were sent to {self._name}, retries included, which is the limit. Answers "
                    "are kept: run the same command to continue"
                )
            self._made += 1
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._interval
        self._sleep(turn - now)

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped
