"""The queue of re-runs, in the storage of the leaderboard.

```
requests/<id>/reruns/<number>/job.json          {"time" (UTC), "by", "model": `FACTS`,
                                                 "tasks": {SHA-256 of the submitted file: "benchmark/part"}}
requests/<id>/reruns/<number>/claim-<n>.json    {"worker", "time", "until"}; then the job is free again
requests/<id>/reruns/<number>/outcome.json      {"worker", "time", "problem",
                                                 "predictions": {SHA-256 of the submitted file: that of the new one}}
requests/<id>/reruns/<number>/<sha256>.parquet  each new predictions file
```

Each record has a hash of itself. Files never change, so of two workers that write the same claim one is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ...hub_datasets.core.benchmarks import get_task
from ...metrics.common.errors import StorageError, SubmissionError
from ...metrics.common.storage import json_hash
from ..storage.protocol import Storage
from ..storage.records import DAMAGE, get_submission, load, results_of, unreadable
from ..submissions.submissions import iso, to_bytes, utc_now
from ..submissions.uploads import check_text, part_of
from .public_models import FACTS, check_model, public_files

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
MOST_CLAIMS = 3  # a job that has cost so many workers is given to no other
_PATH = re.compile(r"requests/([0-9a-f]{16})/reruns/([1-9][0-9]{0,3})/(?:job|outcome|claim-[1-9])\.json")


@dataclass(frozen=True)
class Job:
    """A re-run of the model of a submission.

    Attributes:
        submission: its id.
        number: from 1 for each submission; the latest that is done counts.
        time: when it was queued, ISO 8601, UTC; of one that has ended when it did.
        model: the `FACTS` in the submitted predictions.
        tasks: for each submitted predictions file, by its SHA-256, what it is of, as `vl-assay predict` takes it.
        claims: how many workers have taken it, and `until` when the last one has it.
        predictions: for each submitted file the SHA-256 of the new one; empty unless it is done.
        problem: why it has failed.
    """

    submission: str
    number: int
    time: str = ""
    model: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    claims: int = 0
    until: datetime | None = None
    predictions: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def folder(self) -> str:
        """Where its files are."""
        return f"requests/{self.submission}/reruns/{self.number}"

    def state(self, now: datetime) -> str:
        """`QUEUED`, `RUNNING`, `DONE` or `FAILED`."""
        if self.predictions or self.problem:
            return FAILED if self.problem else DONE
        if self.until and now < self.until:
            return RUNNING
        return QUEUED if self.claims < MOST_CLAIMS else FAILED


def jobs(storage: Storage, prefix: str = "requests/") -> list[Job]:
    """All jobs below a prefix, those that were queued first before others; damaged ones have failed."""
    paths: dict[tuple[str, int], list[str]] = {}
    for path in storage.paths(prefix):
        if match := _PATH.fullmatch(path):
            paths.setdefault((match[1], int(match[2])), []).append(path)
    return sorted((_job(storage, *place, own) for place, own in paths.items()), key=lambda job: (job.time, job.number))


def queue_rerun(storage: Storage, id: str, by: str, *, now: Callable[[], datetime] = utc_now) -> Job:
    """Queue a re-run of the model of a submission on its tasks.

    Args:
        storage: where the submission is.
        id: the submission.
        by: the name of the maintainer.
        now: the clock.

    Raises:
        SubmissionError: there is no such submission, it is withdrawn or has no results, a re-run of it waits or runs,
            or its model is not one of `public_files`.
        PredictionsError: the name is not printable or too long.
        StorageError: it could not be stored.
    """
    by = check_text(by, "the maintainer's name")
    if not by:
        raise SubmissionError("a re-run needs the name of the maintainer; give it, on the command line with --by")
    submission, results = get_submission(storage, id), results_of(storage, id)
    if submission.status not in ("accepted", "flagged") or not results:
        raise SubmissionError(f"the submission {id} is {submission.status}; one that has results can be run again")
    models = [{fact: result.model.get(fact) for fact in FACTS} for result in results]
    if any(model != models[0] for model in models):
        raise SubmissionError(f"the files of the submission {id} are of models with different settings or revisions")
    check_model(models[0])
    earlier = jobs(storage, f"requests/{id}/reruns/")
    if open_ := [job for job in earlier if job.state(now()) in (QUEUED, RUNNING)]:
        raise SubmissionError(f"a re-run of the submission {id} is {open_[0].state(now())} already")
    public_files(models[0])
    tasks: dict[str, str] = {}
    for result in results:  # that of a task comes before those of its parts, which have the same file
        name, task, configs = (result.benchmark[key] for key in ("name", "task", "configs"))
        tasks.setdefault(result.predictions["sha256"], f"{name}/{part_of(get_task(name, task), configs)}")
    job = Job(id, max((job.number for job in earlier), default=0) + 1, iso(now()), models[0], tasks)
    _add(storage, job, "job", {"time": job.time, "by": by, "model": job.model, "tasks": tasks})
    return job


def take(storage: Storage, worker: str, lasts: timedelta, *, now: Callable[[], datetime] = utc_now) -> Job | None:
    """Claim the job that waits for longest; None if there is none.

    Args:
        storage: of the leaderboard.
        worker: a name that no other worker has.
        lasts: after so long without an outcome another worker may take the job.
        now: the clock.

    Raises:
        StorageError: the storage cannot be used.
    """
    for job in jobs(storage):
        time = now()
        if job.state(time) != QUEUED:
            continue
        name = f"claim-{job.claims + 1}"
        try:
            _add(storage, job, name, {"worker": worker, "time": iso(time), "until": iso(time + lasts)})
        except StorageError:
            if f"{job.folder}/{name}.json" not in storage.paths(job.folder):
                raise
            continue  # another worker was faster
        return replace(job, claims=job.claims + 1, until=time + lasts)
    return None


def finish(
    storage: Storage,
    job: Job,
    worker: str,
    predictions: Mapping[str, bytes],
    problem: str = "",
    *,
    now: Callable[[], datetime] = utc_now,
) -> None:
    """Store the outcome of a job.

    Args:
        storage, job, worker, now: as for `take`.
        predictions: for each submitted file, by its SHA-256, the new one.
        problem: why there are none.

    Raises:
        StorageError: it could not be stored, for example since another worker took the job when the claim had ended,
            and was faster.
    """
    names = {submitted: hashlib.sha256(content).hexdigest() for submitted, content in predictions.items()}
    files = {f"{job.folder}/{names[submitted]}.parquet": content for submitted, content in predictions.items()}
    record = {"worker": worker, "time": iso(now()), "problem": problem, "predictions": names}
    _add(storage, job, "outcome", record, files)


def _add(
    storage: Storage, job: Job, name: str, record: Mapping[str, Any], files: Mapping[str, bytes] | None = None
) -> None:
    sealed = to_bytes({**record, "sha256": json_hash(record)})
    storage.add(
        {**(files or {}), f"{job.folder}/{name}.json": sealed}, f"Re-run of submission {job.submission}: {name}"
    )


def _job(storage: Storage, id: str, number: int, paths: Sequence[str]) -> Job:
    try:
        records = {path.rpartition("/")[2].removesuffix(".json"): load(storage, path) for path in paths}
        job, outcome = records.pop("job"), records.pop("outcome", {})
        last = max(records, default="")
        texts = [
            *job["tasks"],
            *job["tasks"].values(),
            *(part for pair in outcome.get("predictions", {}).items() for part in pair),
        ]
        found = Job(
            *(id, number, outcome.get("time", job["time"]), job["model"], job["tasks"], len(records)),
            until=datetime.fromisoformat(records[last]["until"]).astimezone(UTC) if last else None,
            predictions=outcome.get("predictions", {}),
            problem=outcome.get("problem", ""),
        )
        if not all(isinstance(text, str) for text in [*texts, found.time, found.problem]) or not isinstance(
            found.model, dict
        ):
            raise ValueError("a field has the wrong type")
    except DAMAGE as error:
        return Job(id, number, problem=unreadable(f"requests/{id}/reruns/{number}", error))
    return found
