"""Submitting, reviewing and withdrawing; see the package's docstring for the steps from an upload to the leaderboard.

The request is stored first, in one addition. Results are derived from it, and `finish` computes those that are missing
after a crash or a change of the metrics. A review is one more file.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...metrics.common.errors import (
    PredictionsError,
    RateLimitError,
    StorageError,
    SubmissionError,
    UnknownNameError,
    VLAssayError,
    check_known,
)
from ...metrics.common.model_sizes import parameter_count
from ...metrics.common.storage import json_hash
from ...metrics.records.predictions import Predictions, to_bytes
from ...metrics.records.results import Result, parse_results
from ..board.imports import imported_tables
from ..board.launch import published_names
from ..board.names import check_name, check_owner
from ..storage.protocol import Storage
from ..storage.records import (
    RECEIPT,
    REVIEW_STATUSES,
    SCHEMA,
    VERSION,
    VISITOR,
    Submission,
    get_submission,
    read_upload,
    record_path,
    results_path,
    submissions,
    upload_path,
)
from .copies import CopySource, find_copied, scores_hash, sketch
from .plausibility import find_flags
from .uploads import (
    SANDBOX,
    check_count,
    check_link,
    check_text,
    check_upload,
    expected,
    positive_setting,
    with_known_images,
)

MODEL_FIELDS = ("name", "family", "parameters", "training_data", "link")
# The defaults of `vl-assay report`, so that the leaderboard, the command line and model cards show the same digits.
OPTIONS: dict[str, Any] = {"confidence": 0.95, "seed": 0}
_HOUR = timedelta(hours=1)
# Of checks, a submission's own included, for each submission that is allowed.
_CHECKS = 10
_adding = threading.Lock()
# When checks were made of each storage's submissions within the last hour, by user.
_checks: WeakKeyDictionary[Storage, dict[str, list[datetime]]] = WeakKeyDictionary()
_utc_now = partial(datetime.now, UTC)


@dataclass(frozen=True)
class Receipt:
    """The answer to a submission or a preview.

    Attributes:
        id: 16 hexadecimal digits, fixed by user, model and predictions.
        time: when it was first submitted, UTC, ISO 8601.
        status: "pending" (no results yet), "accepted", "flagged" or "withdrawn".
        flags: what a person should look at, a sentence each.
        predictions: for each predictions file its `sha256`, `benchmark`, `task`, number of `rows`, the hash and the
            `sketch` of its `scores`, and the `model` named in its metadata.
        results: as ``metrics.results.compute`` gives them with `OPTIONS`.
        model: the model's name on the leaderboard.
        key: with it `withdraw` needs no login; only of what was just stored without one, else "".
    """

    id: str
    time: str
    status: str
    flags: tuple[str, ...]
    predictions: tuple[dict[str, Any], ...]
    results: list[Result]
    model: str
    key: str = ""


class _Draft(NamedTuple):
    """A validated submission and its results; `contents` are the uploads with the benchmark's image keys."""

    contents: list[bytes]
    model: dict[str, Any]
    predictions: tuple[dict[str, Any], ...]
    flags: list[str]
    results: bytes


def submit(
    storage: Storage,
    uploads: Sequence[bytes],
    model: Mapping[str, str],
    user: str = "",
    *,
    names: Sequence[str] = (),
    now: Callable[[], datetime] = _utc_now,
) -> Receipt:
    """Validate, evaluate and store a submission. Repeating it returns the same receipt, without the key.

    What its submitter has withdrawn is shown again. It waits for a maintainer if there were flags or other reviews, and
    without a login, since anyone may have the files.

    Args:
        storage: where to store it.
        uploads: predictions of one model, each of another task.
        model: `MODEL_FIELDS` as typed; without a name, the name in the predictions is used.
        user: the verified name of the submitter, "" without a login.
        names: the user's names of the uploads, for messages.
        now: the clock.

    Raises:
        PredictionsError: an upload or a typed field is refused; nothing is stored.
        SubmissionError: the uploads do not belong together, or nobody or only another user may give a model this name;
            nothing is stored.
        RateLimitError: too many submissions or checks in an hour; nothing is stored.
        StorageError: the storage failed. The submission is stored or not, and repeating it stores nothing
            twice, but its receipt has no key.
    """
    typed, user = _typed(model), check_text(user, "the user's name")
    id, results, key = _id(user, typed, uploads), None, ""
    if not storage.paths(record_path(id)):
        _check_rate(submissions(storage), user, now())
        _count_check(storage, user, now())
        draft = _draft(uploads, typed, names)
        key = "" if user else secrets.token_urlsafe(16)
        if not _store(storage, id, user, draft, key, now):
            key = ""
        results = draft.results
    submission = get_submission(storage, id)
    if submission.model is None:
        raise SubmissionError(
            f"this submission exists as {id}, but is damaged: {submission.problems[0]}; tell a maintainer"
        )
    name = str(submission.model["name"])
    if submission.status == "withdrawn" and submission.is_reviewed_by_submitter:
        _count_check(storage, user, now())
        _check_name(name, user, storage, submissions(storage))
        is_shown = user and not submission.flags and submission.reviews == 1
        status = "accepted" if is_shown else "flagged"
        submission = review(storage, id, status, "sent again", user or VISITOR, now=now)
    results = results or _compute_stored(storage, submission)
    with suppress(StorageError):  # the request counts; `finish` adds missing results
        storage.add({results_path(submission): results}, f"Results of submission {id}")
        submission = get_submission(storage, id)
    parsed = parse_results(results, results_path(submission))
    facts = submission.id, submission.time, submission.status, submission.flags, submission.predictions
    return Receipt(*facts, parsed, name, key)


def preview(
    storage: Storage,
    uploads: Sequence[bytes],
    model: Mapping[str, str],
    user: str = "",
    *,
    names: Sequence[str] = (),
    now: Callable[[], datetime] = _utc_now,
) -> Receipt:
    """Return the receipt of `submit` without storing anything; raises as `submit`, with a separate rate limit."""
    typed, user = _typed(model), check_text(user, "the user's name")
    _count_check(storage, user, now())
    id, draft = _id(user, typed, uploads), _draft(uploads, typed, names)
    flags = (*draft.flags, *_compare(draft, user, storage, submissions(storage)))
    status, results = "flagged" if flags else "accepted", parse_results(draft.results, "the results")
    return Receipt(id, _iso(now()), status, flags, draft.predictions, results, draft.model["name"])


def finish(storage: Storage) -> list[str]:
    """Compute missing results: after a crash, and of all submissions if the metrics have changed.

    Returns:
        Messages on submissions that are damaged or can no longer be evaluated.
    """
    problems = []
    there = set(storage.paths("results/"))
    for submission in submissions(storage):
        submission_problems = list(submission.problems)
        if submission.predictions and results_path(submission) not in there:
            try:
                results = _compute_stored(storage, submission)
                storage.add({results_path(submission): results}, f"Results of submission {submission.id}")
            except VLAssayError as error:
                submission_problems.append(str(error))
        problems += [f"the submission {submission.id}: {problem}" for problem in submission_problems]
    return problems


def review(
    storage: Storage, id: str, status: str, reason: str, by: str, *, now: Callable[[], datetime] = _utc_now
) -> Submission:
    """Set the status of a submission to one of `REVIEW_STATUSES`, for a reason of at most 500 characters.

    The latest review counts.

    Raises:
        SubmissionError: there is no such submission, or `by` is empty.
        UnknownNameError: there is no such status.
        PredictionsError: the reason or the name is not printable or too long.
        StorageError: it could not be stored.
    """
    earlier = get_submission(storage, id).reviews
    check_known("status of a review", [status], REVIEW_STATUSES)
    by = check_text(by, "the reviewer's name")
    if not by:
        raise SubmissionError("a review needs the name of the reviewer; give it, on the command line with --by")
    time = now()
    reason = check_text(reason, "the reason", 500)
    content = _to_bytes({"number": earlier + 1, "time": _iso(time), "by": by, "status": status, "reason": reason})
    name = f"{time.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{hashlib.sha256(content).hexdigest()[:8]}"
    storage.add({f"requests/{id}/reviews/{name}.json": content}, f"Review of submission {id}: {status}")
    return get_submission(storage, id)


def withdraw(
    storage: Storage, id: str, user: str, reason: str = "", *, key: str = "", now: Callable[[], datetime] = _utc_now
) -> Submission:
    """Withdraw a submission of `user`, or the one whose receipt has `key`.

    Raises:
        SubmissionError: there is no such submission, it is withdrawn, or it is neither the user's nor the receipt's.
        PredictionsError, StorageError: as for `review`.
    """
    submission = get_submission(storage, id)
    key_hash = _sha256(key.encode(errors="replace"))
    has_key = bool(key and submission.key) and secrets.compare_digest(key_hash, submission.key)
    if not has_key and not (user and submission.user == user):
        raise SubmissionError(
            f"the submission {id[:50]!r} is not one of {user[:50]!r}; log in as its submitter, or ask a maintainer"
            if user
            else f"the key is not that of the submission {id[:50]!r}; give the key of its receipt, or ask a maintainer"
        )
    if submission.status == "withdrawn":
        raise SubmissionError(f"the submission {id} is withdrawn already")
    by = submission.user or RECEIPT
    return review(storage, id, "withdrawn", reason or "withdrawn by its submitter", by, now=now)


def _id(user: str, typed: Mapping[str, Any], uploads: Sequence[bytes]) -> str:
    return hashlib.sha256(_to_bytes([user, typed, sorted(map(_sha256, uploads))])).hexdigest()[:16]


def _draft(uploads: Sequence[bytes], typed: Mapping[str, Any], names: Sequence[str]) -> _Draft:
    check_count(len(uploads))
    labels = names or [f"file {number}" for number in range(1, len(uploads) + 1)]
    model_name, files, contents, flags = "", dict[str, Predictions](), list[bytes](), list[str]()
    for number, (content, label) in enumerate(zip(uploads, labels, strict=True)):
        # Refused at the first that does not belong, since each takes seconds to read.
        if content in uploads[:number]:
            raise SubmissionError(f"{label} has the same content as {labels[uploads.index(content)]}; keep one")
        predictions = check_upload(content, label)
        task, model_name = f"{predictions.benchmark}/{predictions.task}", model_name or predictions.model
        if predictions.model != model_name:
            raise SubmissionError(
                f"the predictions are of 2 models, {model_name} and {predictions.model}; submit those of one at a time"
            )
        if task in files:
            raise SubmissionError(f"got 2 predictions files of {task}; keep one")
        data = expected(predictions.metadata)
        files[task] = known = with_known_images(predictions, data)
        contents.append(content if known is predictions else to_bytes(known))
        flags += find_flags(known, data)
    model = {**typed, "name": typed["name"] or model_name}
    check_name(model["name"], published_names())
    described = tuple(map(_describe, files.values(), contents))
    return _Draft(contents, model, described, flags, SANDBOX.compute(contents, "a predictions file", **OPTIONS))


def _store(storage: Storage, id: str, user: str, draft: _Draft, key: str, now: Callable[[], datetime]) -> bool:
    """Store a request within the rate limit; return False if it was stored in the meantime."""
    files = {upload_path(id, _sha256(content)): content for content in draft.contents}
    with _adding:
        if storage.paths(record_path(id)):
            return False
        earlier = submissions(storage)
        _check_rate(earlier, user, now())
        flags = [*draft.flags, *_compare(draft, user, storage, earlier)]
        content = {"id": id, "time": _iso(now()), "user": user, "model": draft.model, "predictions": draft.predictions}
        record = {"schema": SCHEMA, "version": VERSION, **content, "flags": flags, "key": key and _sha256(key.encode())}
        files[record_path(id)] = _to_bytes({**record, "sha256": json_hash(record)})
        try:
            storage.add(files, f"Submission {id}")
        except StorageError:
            if not storage.paths(record_path(id)):  # else another process has stored the same one at another time
                raise
            return False
    return True


def _compute_stored(storage: Storage, submission: Submission) -> bytes:
    contents = [read_upload(storage, submission.id, described["sha256"]) for described in submission.predictions]
    return SANDBOX.compute(contents, "a stored predictions file", **OPTIONS)


def _typed(model: Mapping[str, str]) -> dict[str, Any]:
    """Return the validated fields of a model."""
    for name in model:
        if name not in MODEL_FIELDS:
            raise UnknownNameError("field of a model", str(name)[:50], MODEL_FIELDS)
    typed: dict[str, Any] = {name: check_text(model.get(name, ""), f"the model's {name}") for name in MODEL_FIELDS}
    typed["link"] = check_link(typed["link"], "the model's link")
    size = typed["parameters"]
    typed["parameters"] = parameter_count(size)
    if size and typed["parameters"] is None:
        raise PredictionsError(
            f"the model's parameters are {size[:50]!r}; give a number, such as 151000000, 151M or 1.2B"
        )
    return typed


def _describe(predictions: Predictions, content: bytes) -> dict[str, Any]:
    model = {key: predictions.metadata["model"].get(key, "") for key in ("name", "family", "revision", "dtype")}
    return {
        "sha256": _sha256(content),
        "benchmark": predictions.benchmark,
        "task": predictions.task,
        "rows": len(predictions.rows),
        "scores": scores_hash(predictions),
        "sketch": sketch(predictions),
        "model": model,
    }


def _check_name(name: str, user: str, storage: Storage, stored: Sequence[Submission]) -> None:
    """Raise `SubmissionError` if a model's name belongs to another user or to published values."""
    imported = {entry.model for table in imported_tables(storage)[0] for entry in table.entries}
    check_name(name, {*published_names(), *imported})
    check_owner(name, user, stored)


def _compare(draft: _Draft, user: str, storage: Storage, stored: Sequence[Submission]) -> list[str]:
    """Return flags for scores copied from another user or model, or from what a maintainer has withdrawn or flagged.

    Without a login nothing is known to be the visitor's own.

    Raises:
        SubmissionError: as for `_check_name`.
    """
    name = draft.model["name"]
    _check_name(name, user, storage, stored)
    sources = []
    for submission in stored:
        is_judged = submission.status in ("withdrawn", "flagged")
        theirs = (submission.model or {}).get("name", "")
        is_own = user and (submission.user, theirs) == (user, name)
        if is_own and not submission.problems and submission.judgement not in ("withdrawn", "flagged"):
            continue
        source = f"{theirs} in the submission {submission.id}{f', which is {submission.status}' if is_judged else ''}"
        for known in submission.predictions:
            facts = known["benchmark"], known["task"], known.get("scores", ""), known.get("sketch", "")
            sources.append(CopySource(source, *facts))
    return [flag for described in draft.predictions for flag in find_copied(described, name, sources)]


def _check_rate(stored: Iterable[Submission], user: str, now: datetime) -> None:
    """Raise `RateLimitError` if the last hour has as many submissions as allowed, of this user or of all together.

    Each process counts what is stored before it adds: n processes that share a storage may together store n - 1 more
    than the limit if they count at the same moment.
    """
    recent = sorted(
        (time, submission.user)
        for submission in stored
        if submission.time and _HOUR > now - (time := datetime.fromisoformat(submission.time)) > -_HOUR
    )
    own_times = [time for time, name in recent if user and name == user]
    _check_limit(own_times, user, "submissions")
    _check_limit([time for time, _ in recent], "", "submissions")


def _count_check(storage: Storage, user: str, now: datetime) -> None:
    """Count a check; raise `RateLimitError` if a user, or all visitors without a login, made too many in an hour."""
    with _adding:
        users = _checks.setdefault(storage, {})
        for name, times in [*users.items()]:
            users[name] = [time for time in times if _HOUR > now - time > -_HOUR]
            if not users[name]:
                del users[name]
        own_times = users.setdefault(user, [])
        _check_limit(own_times, user, "checks", _CHECKS)
        own_times.append(now)


def _check_limit(times: Sequence[datetime], user: str, noun: str, factor: int = 1) -> None:
    """Raise `RateLimitError` if the last hour's `times` reach a user's limit, or without a user that of all."""
    limit = factor * positive_setting(*(("VL_ASSAY_USER_RATE_LIMIT", 10) if user else ("VL_ASSAY_RATE_LIMIT", 60)))
    if len(times) >= limit:
        raise RateLimitError(limit, times[-limit] + _HOUR, user, noun)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _iso(time: datetime) -> str:
    """Return a time in the storage: UTC, ISO 8601."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _to_bytes(value: Any) -> bytes:
    """Return a record in the storage: readable JSON."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
