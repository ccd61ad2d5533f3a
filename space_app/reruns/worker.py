"""The worker: runs the queued models, each in a process of its own, and stores their predictions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...hub_datasets import load_examples
from ...hub_datasets.core.build import sources_folder
from ...metrics.common.errors import StorageError, SubmissionError, VLAssayError
from ...metrics.records.predictions import Predictions
from ..storage.protocol import Storage
from ..storage.records import read_stored
from ..submissions.sandbox import readable, without_secrets
from ..submissions.submissions import utc_now
from ..submissions.uploads import check_upload
from .agreement import compare
from .public_models import FACTS, download
from .queue import Job, finish, take

_SPARE = timedelta(minutes=30)  # for downloads and uploads, in addition to the limit
_MOST_ERRORS = 1 << 16
_LARGEST_BATCH = 1024  # of a submission, whose batches are prepared in memory
# Runs `vl-assay` with these words in a folder, with an environment and a limit of seconds; returns "", or if it failed
# what it wrote to stderr.
Start = Callable[[Sequence[str], Path, Mapping[str, str], float], str]


def run_command(words: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float) -> str:
    """Run `vl-assay` in a process with children of its own, and end all of them after so many seconds; see `Start`."""
    errors = folder / "stderr"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vl_assay.metrics.common.command_line", *words],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
        try:
            if process.wait(max(seconds, 0)) == 0:
                return ""
        except subprocess.TimeoutExpired:
            return "it took longer than a re-run may take"
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()
    text = errors.read_bytes()[-_MOST_ERRORS:].decode(errors="replace").strip()
    return text or f"it ended with {process.returncode}"


def work(
    storage: Storage,
    hours: float,
    say: Callable[[str], object],
    *,
    now: Callable[[], datetime] = utc_now,
    start: Start = run_command,
) -> int:
    """Run jobs until none is queued, and return how many.

    Args:
        storage: of the leaderboard.
        hours: the limit of time for a job. The job of a worker that was killed is free again so long after it began,
            and half an hour.
        say: called with a line for each job.
        now: the clock.
        start: see `Start`.

    Raises:
        StorageError: the storage cannot be used.
    """
    worker, count = uuid.uuid4().hex, 0
    while job := take(storage, worker, timedelta(hours=hours) + _SPARE, now=now):
        count += 1
        try:
            say(f"{job.submission}: {job.model['checkpoint']} on {', '.join(job.tasks.values())}")
            predictions, problem = _predict(storage, job, time.monotonic() + 3600 * hours, say, start), ""
        except Exception as error:  # of a model or of its libraries; the next job may do
            kind = "" if isinstance(error, VLAssayError) else f"{type(error).__name__}: "
            predictions, problem = {}, readable(f"{kind}{error}", 600)
            say(f"{job.submission}: failed: {problem}")
        try:
            finish(storage, job, worker, predictions, problem, now=now)
        except StorageError as error:
            say(f"{job.submission}: the outcome was not stored: {error}")
    return count


def _predict(storage: Storage, job: Job, end: float, say: Callable[[str], object], start: Start) -> dict[str, bytes]:
    """The new predictions for each submitted file, by its SHA-256, validated as an upload and of the same model."""
    found: dict[str, bytes] = {}
    with TemporaryDirectory(prefix="vl-assay-rerun-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        download(job.model, folder / "hub", end)
        for submitted, reference in job.tasks.items():
            theirs = read_stored(storage, f"requests/{job.submission}/{submitted}.parquet")
            words = _words(job.model, reference, theirs, folder)
            errors = start([*words, "--out", str(folder)], folder, _environment(folder), end - time.monotonic())
            if errors:
                raise SubmissionError(f"{reference}: {errors.splitlines()[-1]}")
            found[submitted] = (folder / f"{reference.replace('/', '.')}.parquet").read_bytes()
            again = check_upload(found[submitted], reference)
            _check_model(job.model, again.metadata["model"], reference)
            say(f"{job.submission}: {reference}: {compare(theirs, again)}")
    return found


def _words(model: Mapping[str, Any], reference: str, theirs: Predictions, folder: Path) -> list[str]:
    """The command that predicts what was submitted, as it was; the benchmark is built, which may need the network."""
    settings = [f"--setting={key}={value}" for key, value in model["settings"].items() if key != "compile"]
    chosen = {"revision": model["revision"], "cache": False, "compile": model["settings"].get("compile") == "true"}
    config = folder / "run.yaml"
    config.write_text(json.dumps(chosen), encoding="utf-8")  # JSON is YAML
    options = ["--config", str(config), "--dtype", model["dtype"], *settings]
    size = theirs.metadata.get("run", {}).get("batch_size")
    if type(size) is int and 1 <= size <= _LARGEST_BATCH:
        options += ["--batch-size", str(size)]
    allow_missing = bool(theirs.metadata["benchmark"]["missing"])
    if allow_missing:
        options.append("--allow-missing")
    sources = sources_folder(reference.partition("/")[0], os.environ.get("VL_ASSAY_DATA_DIR") or None)
    if sources:
        options += ["--data-dir", str(sources.absolute())]
    load_examples(reference, data_dir=sources, options={"allow_missing": True} if allow_missing else None)
    return ["predict", model["checkpoint"], reference, *options]


def _environment(folder: Path) -> dict[str, str]:
    """Nothing but the downloaded files can be loaded, no token be found or sent, and no temporary file be left."""
    return {
        **without_secrets(),
        "HF_HUB_CACHE": str(folder / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_TOKEN_PATH": str(folder / "no-token"),
        "TMPDIR": str(folder),
    }


def _check_model(model: Mapping[str, Any], again: Mapping[str, Any], reference: str) -> None:
    if other := [fact for fact in FACTS if again.get(fact) != model[fact]]:
        raise SubmissionError(
            f"{reference}: `vl-assay predict` has the {other[0]} {again.get(other[0])!r}, the submission "
            f"{model[other[0]]!r}; only what it loads by the repository's name can be run again"
        )
