"""Reading stored submissions back: records, reviews and results.

```
requests/<id>/submission.json    {"schema": "vl-assay/submission", "version": 2, "id", "time" (UTC), "user",
                                  "model": {"name", "family", "parameters", "training_data", "link"},
                                  "predictions": [{"sha256", "benchmark", "task", "rows", "scores", "model"}],
                                  "flags": […], "key" (SHA-256 of the receipt's, "" with a user), "sha256" of all else}
requests/<id>/<sha256>.parquet   each predictions file as it was uploaded, with the benchmark's keys of the images
requests/<id>/reviews/….json     {"number" from 1, "time", "by", "status", "reason"}; the highest number counts, and the
                                  name ends with a hash of the content
requests/imports/…               published tables, see ``board.imports``
results/<id>/<version>.json      results, see ``metrics.records.results``; the version is `results_version`
```

Files are never changed. The id is a hash of user, model and predictions, so repeating a submission gives the same id.
Without a review the status of a submission is "flagged" if it has flags, "pending" until it has results, else
"accepted"; with a damaged review it is "flagged". A damaged file is reported in `Submission.problems` and does not
affect other submissions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...hub_datasets.authoring.audit.blind import shipped_levels
from ...hub_datasets.core.benchmarks import get_task, parts_of
from ...metrics.common.errors import StorageError, SubmissionError, UnknownNameError
from ...metrics.common.storage import json_hash
from ...metrics.modules.discovery import get_spec
from ...metrics.records.predictions import Predictions, read_predictions
from ...metrics.records.results import Result, parse_results
from .protocol import Storage

if TYPE_CHECKING:
    from ...hub_datasets import Task

SCHEMA = "vl-assay/submission"
VERSION = 2
# Raised by hand when averages or intervals of the same per-example scores change; tests/metrics/test_golden_values.py
# fails if they change without it. The version of a metric is in its `MetricSpec`.
ESTIMATION_VERSION = 2
# Reviewers without a login: of a withdrawal by the key of a receipt, and of what is sent again after it.
RECEIPT, VISITOR = "the receipt's holder", "a visitor without a login"
REVIEW_STATUSES = ("accepted", "flagged", "withdrawn")
_ID = re.compile("[0-9a-f]{16}")
_REVIEW = re.compile(r"/reviews/[^/]+-([0-9a-f]{8})\.json$")
_DAMAGE = (StorageError, ValueError, KeyError, TypeError, RecursionError, AttributeError, OverflowError)

# Stored files never change, so each is read once.
_known: WeakKeyDictionary[Storage, dict[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Submission:
    """A stored submission.

    Attributes:
        id, time, flags, predictions: as in `submissions.Receipt`.
        status: as in `submissions.Receipt`, or "damaged" if its record cannot be read; then only the id is known.
        user: the verified name of the submitter, or "".
        model: the submitted description: name, family, parameters, training_data and link, "" or None where not given.
        reason, reviewer: of the latest review.
        judgement: status of the latest review by a maintainer, which is anyone but a submitter; "" without one.
        reviews: the number of the latest review, 0 without reviews.
        key: SHA-256 of the key in the receipt; "" if a user submitted it.
        problems: messages on files that cannot be read.
    """

    id: str
    time: str = ""
    status: str = "damaged"
    user: str = ""
    model: Mapping[str, Any] | None = None
    predictions: tuple[dict[str, Any], ...] = ()
    flags: tuple[str, ...] = ()
    reason: str = ""
    reviewer: str = ""
    judgement: str = ""
    reviews: int = 0
    key: str = ""
    problems: tuple[str, ...] = ()

    @property
    def is_reviewed_by_submitter(self) -> bool:
        """True if the latest review is the submitter's."""
        return bool(self.reviewer) and self.reviewer == (self.user or RECEIPT)


def submissions(storage: Storage) -> list[Submission]:
    """Return all submissions, oldest first, damaged ones included."""
    paths: dict[str, list[str]] = {}
    for path in storage.paths():
        paths.setdefault(path.split("/")[1], []).append(path)
    stored = [_submission(storage, id, own_paths) for id, own_paths in paths.items() if record_path(id) in own_paths]
    return sorted(stored, key=lambda submission: (submission.time, submission.id))


def get_submission(storage: Storage, id: str) -> Submission:
    """Return the submission with this id.

    Raises:
        SubmissionError: the id is unknown.
    """
    paths = storage.paths(f"requests/{id}/") if _ID.fullmatch(id) else []
    if record_path(id) not in paths:
        raise SubmissionError(f"there is no submission {id[:50]!r}; expected the 16 hexadecimal digits of a receipt")
    return _submission(storage, id, [*paths, *storage.paths(f"results/{id}/")])


def results_of(storage: Storage, submission: Submission) -> list[Result]:
    """Return the results of a submission at the current version; empty until they are computed.

    Raises:
        PredictionsError: the stored results are damaged.
    """
    path, known = results_path(submission), _known.setdefault(storage, {})
    if path not in known:
        if path not in storage.paths(path):
            return []
        known[path] = parse_results(storage.read(path), path)
    return known[path]


def read_upload(storage: Storage, id: str, sha256: str) -> bytes:
    """Return a predictions file of a submission, as it was stored.

    Raises:
        StorageError: there is no such file, or it is damaged.
    """
    content = storage.read(upload_path(id, sha256))
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StorageError(f"{upload_path(id, sha256)} is damaged: its content has another hash")
    return content


def read_stored(storage: Storage, id: str, sha256: str) -> Predictions:
    """Return the predictions in a file of a submission; they were validated before they were stored.

    Raises:
        StorageError: as `read_upload`.
        PredictionsError: it cannot be read.
    """
    with TemporaryDirectory(prefix="vl-assay-predictions-") as folder:
        file = Path(folder) / "predictions.parquet"
        file.write_bytes(read_upload(storage, id, sha256))
        return read_predictions(file)


def upload_path(id: str, sha256: str) -> str:
    """Return the path of a predictions file of a submission."""
    return f"requests/{id}/{sha256}.parquet"


def record_path(id: str) -> str:
    """Return the path of a submission's record."""
    return f"requests/{id}/submission.json"


def results_path(submission: Submission) -> str:
    """Return the path of a submission's results at the current version."""
    tasks = sorted({(predictions["benchmark"], predictions["task"]) for predictions in submission.predictions})
    return f"results/{submission.id}/{results_version(tuple(tasks))}.json"


@cache
def results_version(tasks: tuple[tuple[str, str], ...]) -> str:
    """Return 12 hexadecimal digits that change when the results of the tasks (benchmark, task) have to be recomputed.

    They are a hash of `ESTIMATION_VERSION`, of the version and the settings of each metric of the tasks and of their
    parts, of the ids of the parts, and of the blind levels beside the benchmark's card. Comments, layout and other
    benchmarks do not change it.
    """
    arithmetic = [
        [
            benchmark,
            part.name,
            sorted(part.ids),
            {metric: [get_spec(metric).version, part.metrics[metric]]},
            shipped_levels(benchmark).get(part.name),
        ]
        for benchmark, task in tasks
        for part in _with_parts(benchmark, task)
        for metric in part.metrics
    ]
    return json_hash({"estimation": ESTIMATION_VERSION, "tasks": arithmetic})[:12]


def _with_parts(benchmark: str, task: str) -> list[Task]:
    """Return a task and its parts; nothing for a task that this version no longer has."""
    with suppress(UnknownNameError):
        return [get_task(benchmark, task), *parts_of(benchmark, task)]
    return []


def _submission(storage: Storage, id: str, paths: Sequence[str]) -> Submission:
    path = record_path(id)
    try:
        record = _load(storage, path)
        if (record["schema"], record["version"], record["id"]) != (SCHEMA, VERSION, id):
            raise ValueError(f"schema {record['schema']!r}, version {record['version']!r}, id {record['id']!r}")
        texts = [record["user"], record["time"], record.get("key", ""), record["model"]["name"], *record["flags"]]
        texts += [predictions[key] for predictions in record["predictions"] for key in ("sha256", "benchmark", "task")]
        if not all(isinstance(text, str) for text in texts) or not record["predictions"]:
            raise ValueError("a field has the wrong type")
        datetime.fromisoformat(record["time"]).astimezone(UTC)
    except _DAMAGE as error:
        return Submission(id, problems=(_unreadable(path, error),))
    review_paths = [path for path in paths if path.startswith(f"requests/{id}/reviews/")]
    reviews, problems = _reviews(storage, review_paths)
    latest = reviews[-1] if reviews else {}
    judgements = [review["status"] for review in reviews if review["by"] not in (record["user"] or RECEIPT, VISITOR)]
    if latest and not problems:
        status = latest["status"]
    elif record["flags"] or problems:  # what cannot be read may have been a withdrawal
        status = "flagged"
    else:
        status = "accepted" if any(path.startswith("results/") for path in paths) else "pending"
    return Submission(
        **{name: record[name] for name in ("id", "time", "user", "model")},
        key=record.get("key", ""),
        status=status,
        predictions=tuple(record["predictions"]),
        flags=tuple(record["flags"]),
        reason=str(latest.get("reason", "")),
        reviewer=str(latest.get("by", "")),
        judgement=judgements[-1] if judgements else "",
        reviews=max(latest.get("number", 0), len(review_paths)),
        problems=tuple(problems),
    )


def _reviews(storage: Storage, paths: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the valid reviews in the order of their numbers (clocks may be set back), and a message for each
    unreadable one."""
    reviews, problems = [], []
    for path in paths:
        try:
            review = _load(storage, path)
            if review["status"] not in REVIEW_STATUSES or not isinstance(review["number"], int) or not review["by"]:
                raise ValueError(f"the status {review['status']!r}, the number {review['number']!r}")
            reviews.append(review)
        except _DAMAGE as error:
            problems.append(_unreadable(path, error))
    return sorted(reviews, key=lambda review: review["number"]), problems


def _unreadable(path: str, error: Exception) -> str:
    return f"{path} cannot be read ({type(error).__name__}: {error})"


def _load(storage: Storage, path: str) -> Any:
    """Return the JSON document at a path, read once; ValueError if it is not as it was written."""
    known = _known.setdefault(storage, {})
    if path not in known:
        content = storage.read(path)
        document, match = json.loads(content), _REVIEW.search(path)
        # Reviews have their hash in the file's name, other documents in themselves.
        written = hashlib.sha256(content).hexdigest()[:8] if match else json_hash(document)
        if written != (match[1] if match else document["sha256"]):
            raise ValueError("changed since it was written")
        known[path] = document
    return known[path]
