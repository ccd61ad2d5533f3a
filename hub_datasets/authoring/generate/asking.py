"""Asking a language model so that no answer is paid for twice: a journal, a rate limit, and patience."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError, ModelError, StorageError
from ....metrics.common.storage import append_line
from .checks import Rejected
from .endpoint import Completion, LanguageModel, Refused, Unanswered
from .prompts import Messages

JOURNAL_FILE = "journal.jsonl"
_TRIES = 6
# Seconds after a first failure; they double from try to try and differ by chance.
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
# An endpoint that asks for more is not waited for: the same command goes on later.
_MOST_ASKED_WAIT = 300.0
# So many questions in a row without an answer, each tried to the end, and the endpoint counts as gone; so many that
# are refused, and it counts as one that wants to be asked otherwise.
_MOST_FAILURES = 5
_MOST_REFUSALS = 20


class Stopped(Exception):
    """The run is being ended; nothing more is asked."""


class Question(NamedTuple):
    """What a model is asked; `attempt` numbers the times that a step of chance is tried anew."""

    messages: Messages
    temperature: float
    max_tokens: int
    seed: int | None = None
    attempt: int = 0

    def key(self, model: str) -> str:
        """What tells the question to a model from all others."""
        parts = [model, self.messages, self.temperature, self.seed, self.attempt]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class Usage:
    """What a run has asked for: calls that were answered, their tokens, and answers that were there already."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reused: int = 0


class Journal:
    """Every question with its answer or error, in a file of JSON lines that only grows.

    A line is on the disk before its answer is used, so a kill loses the answers under way and no other. A torn last
    line is cut off when the file is opened.

    Args:
        path: the file; it need not be there.

    Raises:
        DataError: a line is not the journal's.
        StorageError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._answers: dict[str, Completion] = {}
        with _told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._load()
            path.open("ab").close()

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, key: str) -> Completion | None:
        """The answer to the question with that key."""
        return self._answers.get(key)

    def add(self, key: str, model: str, question: Question, outcome: Completion | Exception) -> None:
        """Write down what came of a question, and wait until it is on the disk.

        Raises:
            StorageError: it cannot be written.
        """
        line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "key": key, "model": model}
        line |= question._asdict()
        is_answer = isinstance(outcome, Completion)
        line |= {"answer": outcome._asdict()} if is_answer else {"error": f"{type(outcome).__name__}: {outcome}"}
        with self._lock, _told(self._path):
            append_line(self._path, json.dumps(line).encode() + b"\n")
            if is_answer:
                self._answers[key] = outcome

    def _load(self) -> None:
        """Read the answers, and cut off a last line without its end."""
        whole = 0
        with self._path.open("rb+") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    file.truncate(whole)
                    break
                whole += len(line)
                try:
                    entry = json.loads(line)
                    if "answer" in entry:
                        self._answers[entry["key"]] = Completion(**entry["answer"])
                except (ValueError, TypeError, KeyError) as error:
                    raise DataError(
                        f"{self._path}: line {number} is none of a journal's ({error}); remove the line, whose answer "
                        "is then asked for again"
                    ) from error


def count_answers(path: Path) -> int:
    """How many answers the journal at a path has, which need not be there and is left as it is; torn ones count not."""
    if not path.exists():
        return 0
    with _told(path), path.open("rb") as file:
        return sum(line.endswith(b"\n") and b'"answer": {' in line for line in file)


class Limiter:
    """Spaces out questions evenly, and holds all of them back when the endpoint asks for a pause.

    Args:
        per_minute: how many questions a minute may have; None for no limit.
        stopping: ends every wait.
    """

    def __init__(self, per_minute: float | None, stopping: threading.Event) -> None:
        self._interval = 60 / per_minute if per_minute else 0.0
        self._stopping = stopping
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self) -> None:
        """Return when the next question may be asked.

        Raises:
            Stopped: the run is being ended.
        """
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._interval
        self.sleep(turn - now)

    def pause(self, seconds: float) -> None:
        """Let no question through for so long."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, unless the run is being ended."""
        if self._stopping.wait(seconds) if seconds > 0 else self._stopping.is_set():
            raise Stopped


class Asker:
    """Asks a model, from any number of threads at once; equal questions under way are asked once.

    Args:
        model: what answers.
        journal: what was answered before.
        per_minute: the rate limit.
    """

    def __init__(self, model: LanguageModel, journal: Journal, *, per_minute: float | None = None) -> None:
        self._model, self._journal = model, journal
        self._stopping = threading.Event()
        self._limiter = Limiter(per_minute, self._stopping)
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Completion]] = {}
        self._failures = 0
        self._rng = random.Random(0)
        self.usage = Usage()
        # What ended the run, if anything did; whoever asks after that is told `Stopped`.
        self.failure: BaseException | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def stop(self) -> None:
        """Ask nothing more; answers under way still come in."""
        self._stopping.set()

    def ask(self, question: Question) -> str:
        """The answer's text, from the journal where it has been given.

        Raises:
            Rejected: the endpoint gives no answer to this question, or refuses to.
            ModelError: the endpoint answers no question.
            StorageError: the journal cannot be written.
            Stopped: the run is being ended.
        """
        key = question.key(self._model.name)
        with self._lock:
            answered = self._journal.find(key)
            if answered is not None:
                self.usage.reused += 1
                return answered.text
            mine = key not in self._under_way
            future = self._under_way.setdefault(key, Future())
        if mine:
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
            answer = self._try(key, question)
        except (Unanswered, Refused) as error:
            with self._lock:
                self._failures += 1
                failures = self._failures
            if failures >= (_MOST_REFUSALS if isinstance(error, Refused) else _MOST_FAILURES):
                raise ModelError(
                    f"the last {failures} questions to {self.name} had no answer; the last for this reason: {error}. "
                    "What was answered is kept: run the same command to go on"
                ) from error
            raise Rejected("refused" if isinstance(error, Refused) else "no answer", str(error)) from error
        with self._lock:
            self._failures = 0
            self.usage.calls += 1
            self.usage.prompt_tokens += answer.prompt_tokens
            self.usage.completion_tokens += answer.completion_tokens
        return answer

    def _try(self, key: str, question: Question) -> Completion:
        for number in range(_TRIES):
            self._limiter.wait()
            try:
                answer = self._model.complete(
                    question.messages, question.temperature, question.max_tokens, question.seed
                )
            except (Unanswered, Refused) as error:
                self._journal.add(key, self.name, question, error)
                if isinstance(error, Refused) or number == _TRIES - 1:
                    raise
                self._wait(number, error)
            else:
                self._journal.add(key, self.name, question, answer)
                return answer
        raise AssertionError("the last try returns or raises")

    def _wait(self, number: int, error: Unanswered) -> None:
        if error.wait > _MOST_ASKED_WAIT:
            raise ModelError(
                f"{self.name} asks to wait for {error.wait:.0f} seconds; run the same command after that to go on"
            ) from error
        if error.wait:
            self._limiter.pause(error.wait)
        else:
            self._limiter.sleep(min(_LONGEST_WAIT, _FIRST_WAIT * 2**number) * self._rng.uniform(0.5, 1))


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}. What was answered before is intact: free some space or "
            "name another folder, and run the same command again"
        ) from error
