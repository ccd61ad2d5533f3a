"""What is stored of submissions, read back: records, reviews, results. Damaged files are told of and harm no others.

```
requests/<id>/submission.json    {"schema": "vl-assay/submission", "version": 1, "id", "time" (UTC), "user",
                                  "model": {"name", "family", "parameters", "training_data", "link"},
                                  "predictions": [{"sha256", "benchmark", "task", "rows", "scores", "model"}],
                                  "flags": […]}
requests/<id>/<sha256>.parquet   each predictions file, as it was uploaded
requests/<id>/reviews/….json     {"time", "by", "status", "reason"}; the latest counts
results/<id>/<version>.json      what ``metrics.results`` writes, recomputed by the metrics of that version
```

Nothing is ever changed. The id is a hash of user, model and predictions, so that the same submission is the same again.
Without a review a submission is "flagged" where it has flags, "pending" while it has no results, else "accepted".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...metrics.common.errors import StorageError, SubmissionError
from ...metrics.records.results import Result, parse_results

if TYPE_CHECKING:
    from .storage import Storage

SCHEMA = "vl-assay/submission"
VERSION = 2
REVIEW_STATUSES = ("accepted", "flagged", "withdrawn")
_ID = re.compile("[0-9a-f]{16}")
_COMPUTING = ("contract", "functional", "statistics", "records")
_PACKAGE = Path(__file__).parents[2]
_DAMAGE = (StorageError, ValueError, KeyError, TypeError, RecursionError, AttributeError, OverflowError)
# The fields of a stored record; or what is wrong with it.
Record = dict[str, Any] | str

# What is stored never changes, so it is read once.
_known: WeakKeyDictionary[Storage, dict[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Submission:
    """A stored submission.

    Attributes:
        id, time, flags, predictions: as in `Receipt`.
        status: as in `Receipt`, or "damaged" where its record cannot be read; then nothing else is known.
        user: the verified name of who made it, or "".
        model: what was typed: `MODEL_FIELDS`, "" or None (parameters) where nothing was.
        reason: of the latest review.
        problems: what of its files cannot be read, in words.
    """

    id: str
    time: str = ""
    status: str = "damaged"
    user: str = ""
    model: Mapping[str, Any] | None = None
    predictions: tuple[dict[str, Any], ...] = ()
    flags: tuple[str, ...] = ()
    reason: str = ""
    problems: tuple[str, ...] = ()


def submissions(storage: Storage) -> list[Submission]:
    """All submissions, the oldest first; damaged ones are among them, and say so."""
    by_id: dict[str, list[str]] = {}
    for path in storage.paths():
        by_id.setdefault(path.split("/")[1], []).append(path)
    found = []
    for id, paths in by_id.items():
        if record_path(id) in paths:
            found.append(_submission(storage, id, paths))
    return sorted(found, key=lambda each: (each.time, each.id))


def get_submission(storage: Storage, id: str) -> Submission:
    """The submission of that id.

    Raises:
        SubmissionError: there is none.
    """
    paths = storage.paths(f"requests/{id}/") if _ID.fullmatch(id) else []
    if record_path(id) not in paths:
        raise SubmissionError(f"there is no submission {id[:50]!r}; its receipt names its 16 hexadecimal digits")
    return _submission(storage, id, [*paths, *storage.paths(f"results/{id}/")])


def results_of(storage: Storage, id: str) -> list[Result]:
    """The results of a submission by this version of the metrics; none where they are yet to be computed.

    Raises:
        PredictionsError: they are damaged.
    """
    path, known = results_path(id), _known.setdefault(storage, {})
    if path not in known:
        if path not in storage.paths(path):
            return []
        known[path] = parse_results(storage.read(path), path)
    return known[path]


def records(storage: Storage) -> dict[str, Record]:
    """The records of all submissions by their ids; of a damaged one what is wrong with it, in words."""
    ids = (path.split("/")[1] for path in storage.paths("requests/") if path.endswith("/submission.json"))
    return {id: _record(storage, id) for id in ids}


def record_path(id: str) -> str:
    """Where the record of a submission is."""
    return f"requests/{id}/submission.json"


def results_path(id: str) -> str:
    """Where the results of a submission by this version of the metrics are."""
    return f"results/{id}/{metrics_version()}.json"


@cache
def metrics_version() -> str:
    """12 hexadecimal digits over the code that results depend on, from scores to figures."""
    metrics, datasets = _PACKAGE / "metrics", _PACKAGE / "hub_datasets"
    files = [path for folder in _COMPUTING for path in (metrics / folder).glob("*.py")]
    files += [metrics / "modules" / "inputs.py", metrics / "evaluation" / "_compute.py", *metrics.glob("*/spec.py")]
    # A task has settings of its own, such as the ranks at which recall is taken.
    files += datasets.glob("*/benchmark.py")
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _record(storage: Storage, id: str) -> Record:
    path = record_path(id)
    try:
        record = _load(storage, path)
        if record["version"] == 1:  # which called them sheets
            record = {**record, "version": VERSION, "predictions": record["sheets"]}
        if (record["schema"], record["version"], record["id"]) != (SCHEMA, VERSION, id):
            raise ValueError(f"schema {record['schema']!r}, version {record['version']!r}, id {record['id']!r}")
        texts = [record["user"], record["time"], record["model"]["name"], *record["flags"]]
        texts += [predictions[key] for predictions in record["predictions"] for key in ("sha256", "benchmark", "task")]
        if not all(isinstance(text, str) for text in texts) or not record["predictions"]:
            raise ValueError("a field of another type")
        datetime.fromisoformat(record["time"]).astimezone(UTC)
    except _DAMAGE as error:
        return f"{path} cannot be read ({type(error).__name__}: {error})"
    return record


def _submission(storage: Storage, id: str, paths: Sequence[str]) -> Submission:
    record = _record(storage, id)
    if isinstance(record, str):
        return Submission(id, problems=(record,))
    latest, problems = _latest_review(storage, [path for path in paths if path.startswith(f"requests/{id}/reviews/")])
    if latest:
        status = latest["status"]
    elif record["flags"]:
        status = "flagged"
    else:
        status = "accepted" if any(path.startswith("results/") for path in paths) else "pending"
    return Submission(
        id=id,
        time=record["time"],
        status=status,
        user=record["user"],
        model=record["model"],
        predictions=tuple(record["predictions"]),
        flags=tuple(record["flags"]),
        reason=str(latest.get("reason", "")),
        problems=tuple(problems),
    )


def _latest_review(storage: Storage, paths: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The review that counts, empty where there is none, and what is wrong with others; names begin with the time."""
    latest: dict[str, Any] = {}
    problems = []
    for path in sorted(paths):
        try:
            found = _load(storage, path)
            if found["status"] not in REVIEW_STATUSES:
                raise ValueError(f"the status {found['status']!r}")
            latest = found
        except _DAMAGE as error:
            problems.append(f"{path} cannot be read ({type(error).__name__}: {error})")
    return latest, problems


def _load(storage: Storage, path: str) -> Any:
    known = _known.setdefault(storage, {})
    if path not in known:
        known[path] = json.loads(storage.read(path))
    return known[path]
