"""Submissions: from uploaded predictions to a stored request, results computed anew, and a status.

A request is stored in one addition, and with that it counts; results are derived from it, and `finish` computes those
that a crash or a change of the metrics has left missing. Records never change: whatever is said later of a submission
is one more file, a review.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ...metrics.common.errors import (
    PredictionsError,
    RateLimitError,
    StorageError,
    SubmissionError,
    UnknownNameError,
    VLAssayError,
)
from ...metrics.records.results import Result, parse_results
from ..board.entries import parameter_count
from ..board.launch import SHIPPED, shipped_scores
from ..storage.records import (
    REVIEW_STATUSES,
    SCHEMA,
    VERSION,
    Record,
    Submission,
    get_submission,
    record_path,
    records,
    results_path,
)
from ..storage.records import metrics_version as metrics_version
from ..storage.records import results_of as results_of
from ..storage.records import submissions as submissions
from .plausibility import find_flags, scores_hash
from .uploads import SANDBOX, check_link, check_text, check_upload, expected, positive_setting

if TYPE_CHECKING:
    from ...metrics.records.predictions import Predictions
    from ..storage.storage import Storage

MODEL_FIELDS = ("name", "family", "parameters", "training_data", "link")
MOST_FILES = 50
# Part of a published figure: the same predictions has the same intervals for ever.
# Those of `vl-assay report`: the board, the command line and model cards show the same digits.
OPTIONS: dict[str, Any] = {"confidence": 0.95, "seed": 0}
_HOUR = timedelta(hours=1)
_adding = threading.Lock()


@dataclass(frozen=True)
class Receipt:
    """What is known of a submission when it has been made, or previewed.

    Attributes:
        id: 16 hexadecimal digits, fixed by user, model and predictions.
        time: when it was first made, UTC, ISO 8601.
        status: "pending" (no results yet), "accepted", "flagged" or "withdrawn".
        flags: what a person should look at, a sentence each.
        predictions: of each predictions file its `sha256`, `benchmark`, `task`, number of `rows`, the hash of its
            `scores`, and the
            `model` that the predictions file itself names.
        results: as ``metrics.evaluation.compute`` gives them with `OPTIONS`.
    """

    id: str
    time: str
    status: str
    flags: tuple[str, ...]
    predictions: tuple[dict[str, Any], ...]
    results: list[Result]


@dataclass(frozen=True)
class _Draft:
    """A submission that has been checked and evaluated, and is not stored."""

    model: dict[str, Any]
    predictions: tuple[dict[str, Any], ...]
    flags: tuple[str, ...]
    results: bytes


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def submit(
    storage: Storage,
    uploads: Sequence[bytes],
    model: Mapping[str, str],
    user: str = "",
    *,
    names: Sequence[str] = (),
    now: Callable[[], datetime] = utc_now,
) -> Receipt:
    """Check, evaluate and store a submission. The same one again changes nothing and has the same receipt.

    Args:
        storage: where to.
        uploads: predictions of one model, each of another task.
        model: `MODEL_FIELDS` as they were typed; without a name the predictions' own counts.
        user: the verified name of who submits, "" where there is no login.
        names: what the user calls the uploads, for messages.
        now: the clock.

    Raises:
        PredictionsError: an upload or a typed field is refused; the message says why, and nothing is stored.
        SubmissionError: the uploads do not belong together; nothing is stored.
        RateLimitError: too many submissions in an hour; nothing is stored.
        StorageError: the storage failed. The submission is stored or not, and making it again is safe.
    """
    typed, user = _typed(model), check_text(user, "the user's name")
    id, results = _id(user, typed, uploads), None
    if id not in records(storage):
        _check_rate(records(storage).values(), now())
        draft = _draft(uploads, typed, names)
        _store(storage, id, user, draft, uploads, now)
        results = draft.results
    found = get_submission(storage, id)
    if found.status == "damaged":
        raise SubmissionError(f"this submission is there as {id}, but damaged: {found.problems[0]}; tell a maintainer")
    results = results or _compute_stored(storage, found)
    with suppress(StorageError):  # the request is what counts; `finish` adds results that are missing
        storage.add({results_path(id): results}, f"Results of submission {id}")
        found = get_submission(storage, id)
    return Receipt(
        found.id, found.time, found.status, found.flags, found.predictions, parse_results(results, results_path(id))
    )


def preview(
    storage: Storage,
    uploads: Sequence[bytes],
    model: Mapping[str, str],
    user: str = "",
    *,
    names: Sequence[str] = (),
    now: Callable[[], datetime] = utc_now,
) -> Receipt:
    """What `submit` would give, without storing anything; raises what it would, but for the rate limit."""
    typed, user = _typed(model), check_text(user, "the user's name")
    id, draft = _id(user, typed, uploads), _draft(uploads, typed, names)
    flags = (*draft.flags, *_repeated(draft, user, records(storage)))
    status = "flagged" if flags else "accepted"
    return Receipt(id, _iso(now()), status, flags, draft.predictions, parse_results(draft.results, results_path(id)))


def finish(storage: Storage) -> list[str]:
    """Compute what results are missing: after a crash, and of all submissions when the metrics have changed.

    Returns:
        What could not be computed, in words: submissions whose records or predictions are damaged, or can no longer be
        evaluated.
    """
    problems = []
    there = set(storage.paths("results/"))
    for each in submissions(storage):
        problems += [f"the submission {each.id}: {problem}" for problem in each.problems]
        if each.predictions and results_path(each.id) not in there:
            try:
                results = _compute_stored(storage, each)
                storage.add({results_path(each.id): results}, f"Results of submission {each.id}")
            except VLAssayError as error:
                problems.append(f"the submission {each.id}: {error}")
    return problems


def review(
    storage: Storage,
    id: str,
    status: str,
    reason: str,
    by: str,
    *,
    now: Callable[[], datetime] = utc_now,
) -> Submission:
    """Say what is to become of a submission; the latest review counts.

    Args:
        storage: where it is.
        id: the submission.
        status: one of `REVIEW_STATUSES`.
        reason: why, at most 500 characters.
        by: who says so.
        now: the clock.

    Raises:
        SubmissionError: there is no such submission, or no name.
        UnknownNameError: there is no such status.
        PredictionsError: the reason or the name cannot be shown.
        StorageError: it could not be stored.
    """
    get_submission(storage, id)
    if status not in REVIEW_STATUSES:
        raise UnknownNameError("status of a review", status, REVIEW_STATUSES)
    by = check_text(by, "the reviewer's name")
    if not by:
        raise SubmissionError("a review says who made it; give a name, as a command with --by")
    time = now()
    content = _json({"time": _iso(time), "by": by, "status": status, "reason": check_text(reason, "the reason", 500)})
    name = f"{time.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{hashlib.sha256(content).hexdigest()[:8]}"
    storage.add({f"requests/{id}/reviews/{name}.json": content}, f"Review of submission {id}: {status}")
    return get_submission(storage, id)


def withdraw(
    storage: Storage, id: str, user: str, reason: str = "", *, now: Callable[[], datetime] = utc_now
) -> Submission:
    """Take back a submission of one's own.

    Raises:
        SubmissionError: there is none of that id, or it is not this user's.
        PredictionsError, StorageError: as for `review`.
    """
    if not user or get_submission(storage, id).user != user:
        raise SubmissionError(
            f"the submission {id[:50]!r} is not one of {user[:50]!r}; log in as who made it, or ask a maintainer, who "
            "may withdraw any"
        )
    return review(storage, id, "withdrawn", reason or "withdrawn by who submitted it", user, now=now)


def _id(user: str, typed: Mapping[str, Any], uploads: Sequence[bytes]) -> str:
    hashes = sorted(hashlib.sha256(content).hexdigest() for content in uploads)
    return hashlib.sha256(_json([user, typed, hashes])).hexdigest()[:16]


def _draft(uploads: Sequence[bytes], typed: Mapping[str, Any], names: Sequence[str]) -> _Draft:
    if not 1 <= len(uploads) <= MOST_FILES:
        raise SubmissionError(f"{len(uploads)} predictions came; a submission has 1 to {MOST_FILES}")
    if len(names) not in (0, len(uploads)):
        raise SubmissionError(f"{len(uploads)} predictions came with {len(names)} names; give each one or none")
    labels = names or [f"predictions {number}" for number in range(1, len(uploads) + 1)]
    all_predictions = [check_upload(content, label) for content, label in zip(uploads, labels, strict=True)]
    _check_together(all_predictions)
    flags = [
        flag for predictions in all_predictions for flag in find_flags(predictions, expected(predictions.metadata))
    ]
    described = tuple(
        _describe(predictions, content) for predictions, content in zip(all_predictions, uploads, strict=True)
    )
    model = {**typed, "name": typed["name"] or all_predictions[0].model}
    return _Draft(model, described, tuple(flags), SANDBOX.compute(uploads, "a predictions file", **OPTIONS))


def _store(
    storage: Storage, id: str, user: str, draft: _Draft, uploads: Sequence[bytes], now: Callable[[], datetime]
) -> None:
    """Store a request, unless it has been stored meanwhile, or too many others have."""
    all_predictions = zip(draft.predictions, uploads, strict=True)
    files = {f"requests/{id}/{predictions['sha256']}.parquet": content for predictions, content in all_predictions}
    with _adding:
        earlier = records(storage)
        if id in earlier:
            return
        _check_rate(earlier.values(), now())
        flags = [*draft.flags, *_repeated(draft, user, earlier)]
        content = {"id": id, "time": _iso(now()), "user": user, "model": draft.model, "predictions": draft.predictions}
        files[record_path(id)] = _json({"schema": SCHEMA, "version": VERSION, **content, "flags": flags})
        try:
            storage.add(files, f"Submission {id}")
        except StorageError:
            if id not in records(storage):  # else another process has stored the same one, at another time
                raise


def _compute_stored(storage: Storage, submission: Submission) -> bytes:
    all_predictions = []
    for hash in (predictions["sha256"] for predictions in submission.predictions):
        all_predictions.append(storage.read(f"requests/{submission.id}/{hash}.parquet"))
        if hashlib.sha256(all_predictions[-1]).hexdigest() != hash:
            raise PredictionsError(f"the stored predictions {hash} is damaged: its content has another hash")
    return SANDBOX.compute(all_predictions, "a stored predictions", **OPTIONS)


def _typed(model: Mapping[str, str]) -> dict[str, Any]:
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


def _check_together(all_predictions: Sequence[Predictions]) -> None:
    models = sorted({predictions.model for predictions in all_predictions})
    if len(models) > 1:
        raise SubmissionError(f"the predictions are of {len(models)} models, {', '.join(models)}; submit one at a time")
    tasks = [f"{predictions.benchmark}/{predictions.task}" for predictions in all_predictions]
    for task in tasks:
        if tasks.count(task) > 1:
            raise SubmissionError(
                f"{tasks.count(task)} predictions of {task} came; leave one, which may cover all of it"
            )


def _describe(predictions: Predictions, content: bytes) -> dict[str, Any]:
    own = {key: predictions.metadata["model"].get(key, "") for key in ("name", "family", "revision", "dtype")}
    return {
        "sha256": hashlib.sha256(content).hexdigest(),
        "benchmark": predictions.benchmark,
        "task": predictions.task,
        "rows": len(predictions.rows),
        "scores": scores_hash(predictions),
        "model": own,
    }


def _repeated(draft: _Draft, user: str, stored: Mapping[str, Record]) -> list[str]:
    """Predictions whose scores came before, from another user or for another model, or ship under another name."""
    flags = []
    for predictions in draft.predictions:
        name = shipped_scores(predictions["benchmark"], predictions["task"]).get(
            predictions["scores"], draft.model["name"]
        )
        if name != draft.model["name"]:
            flags.append(
                f"{predictions['benchmark']}/{predictions['task']}: The scores are the same as those of {name}, "
                f"{SHIPPED}."
            )
    for id, earlier in stored.items():
        if isinstance(earlier, str) or (earlier["user"], earlier["model"]["name"]) == (user, draft.model["name"]):
            continue
        known = {
            (predictions["benchmark"], predictions["task"], predictions.get("scores"))
            for predictions in earlier["predictions"]
        }
        flags += [
            f"{predictions['benchmark']}/{predictions['task']}: The scores are the same as those of "
            f"{earlier['model']['name']} in "
            f"the submission {id}."
            for predictions in draft.predictions
            if (predictions["benchmark"], predictions["task"], predictions["scores"]) in known
        ]
    return flags


def _check_rate(stored: Iterable[Record], now: datetime) -> None:
    """Raise `RateLimitError` where the last hour is full, whoever submitted and through whichever process.

    What is stored is counted, by each process before each of its additions: n processes that share a storage may
    together store n - 1 more than the limit, if all of them count at the same moment.
    """
    limit = positive_setting("VL_ASSAY_RATE_LIMIT", 60)
    times = sorted(datetime.fromisoformat(record["time"]) for record in stored if not isinstance(record, str))
    recent = [time for time in times if time > now - _HOUR]
    if len(recent) >= limit:
        raise RateLimitError(limit, recent[-limit] + _HOUR)


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
