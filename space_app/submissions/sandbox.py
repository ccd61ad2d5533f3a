"""A separate process that opens uploaded files, so that no file can harm the server.

The process is started once and reused. It has a memory limit, each file has a time limit, and a process that dies or
takes too long is replaced. Server and process exchange lines of JSON; the process returns predictions and results in
files that it writes. On systems other than POSIX there is only the time limit.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from ...metrics.common.errors import PredictionsError, VLAssayError

if TYPE_CHECKING:
    from ...metrics.records.predictions import Predictions

_MOST_METADATA = 4 << 20
_MOST_FOOTER, _MOST_ROW_GROUPS = 16 << 20, 1_000
_MOST_MESSAGE = 600
_SECRETS = ("TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "AUTH")


class Footer(NamedTuple):
    """The footer of a Parquet file: number of rows, uncompressed bytes of its columns, and metadata as JSON."""

    rows: int
    size: int
    metadata: str


class Sandbox:
    """A process that opens uploads one after the other; thread-safe.

    Args:
        memory: bytes that one upload may take, in addition to the base memory of the process.
        seconds: time limit for one upload.
    """

    def __init__(self, memory: int = 2 << 30, seconds: float = 60) -> None:
        self.memory, self.seconds = memory, seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, if it is running."""
        return self._process.pid if self._process else None

    def footer(self, content: bytes, name: str) -> Footer:
        """Return the footer of a Parquet file.

        Raises:
            PredictionsError: the file cannot be read; all methods raise it in this case.
        """
        with self._done("footer", [content], name) as (_, answer):
            return Footer(**answer)

    def read(self, content: bytes, name: str, *, most_rows: int, most_bytes: int) -> Predictions:
        """Return the predictions in an upload with at most this many rows and bytes in memory."""
        from ...metrics.records.predictions import read_predictions

        with self._done("read", [content], name, most_rows=most_rows, most_bytes=most_bytes) as (folder, _):
            return read_predictions(folder / "predictions.parquet")

    def compute(self, contents: Sequence[bytes], name: str, **options: Any) -> bytes:
        """Return the results of predictions and of their parts, as JSON of ``metrics.records.results``."""
        with self._done("compute", contents, name, options=options) as (folder, _):
            return (folder / "results.json").read_bytes()

    def close(self) -> None:
        """End the process; the next upload starts a new one."""
        with self._lock:
            self._stop()

    @contextmanager
    def _done(self, work: str, contents: Sequence[bytes], name: str, **options: Any) -> Iterator[tuple[Path, Any]]:
        """Run a request in the process; yield the folder with the files that it wrote, and its answer."""
        with TemporaryDirectory(prefix="vl-assay-upload-") as folder_name:
            folder = Path(folder_name)
            files = []
            for content in contents:
                files.append(folder / f"{hashlib.sha256(content).hexdigest()}.parquet")
                files[-1].write_bytes(content)
            seconds = self.seconds * len(contents)
            limits = {"memory": self.memory, "seconds": seconds}
            line = json.dumps({"work": work, "files": [str(file) for file in files], **limits, **options})
            with self._lock:
                answer = self._ask(line, name, seconds)
            if "error" in answer:
                message = answer["error"]
                for file in files:
                    message = message.replace(str(file), name)
                raise PredictionsError(readable(message, _MOST_MESSAGE))
            yield folder, answer.get("answer")

    def _ask(self, line: str, name: str, seconds: float) -> dict[str, Any]:
        late = threading.Event()
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self._stop()
            took = f"took longer than {seconds:g} seconds" if late.is_set() else "ended the process that opened it"
            raise PredictionsError(
                f"{name} {took}, so it was not read. Write it again with `vl-assay predict`; such a file is small and "
                "quick to read"
            ) from None
        finally:
            timer.cancel()
            timer.join()
            if late.is_set():
                self._stop()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            atexit.unregister(self.close)
            atexit.register(self.close)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                env=_environment(),
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            with suppress(OSError):
                self._process.communicate()
        self._process = None


def readable(text: str, most: int) -> str:
    """Return a text on one line, reduced to printable characters and cut to `most` characters."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _environment() -> dict[str, str]:
    """Return this process's environment without secrets and with few threads, since each reserves address space."""
    environment = {name: value for name, value in os.environ.items() if not any(word in name for word in _SECRETS)}
    # With this folder, which ``-P`` would leave out.
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if Path(path).is_absolute())
    few = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    return {**environment, **few, "ARROW_DEFAULT_MEMORY_POOL": "system"}


def _serve() -> None:
    """Answer requests on stdin until it ends. Output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        answer: dict[str, Any] = {}
        spent = False
        try:
            work = _WORK[job.pop("work")]
            _import_for(work)
            _limit(job.pop("memory"), job.pop("seconds"))
            answer["answer"] = work([Path(file) for file in job.pop("files")], **job)
        except MemoryError:
            spent = True
            answer = {"error": "the predictions file needs more memory than an upload may take; write fewer boxes"}
        except VLAssayError as error:
            answer = {"error": str(error)}
        except Exception as error:  # an untrusted file may raise anything
            answer = {"error": f"the predictions file cannot be used ({type(error).__name__}: {error})"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if spent:
            return


def _import_for(work: Any) -> None:
    """Import the modules that a request needs before memory is limited."""
    for name in ("pyarrow.parquet", *(("vl_assay.hub_datasets.reports.evaluation",) if work is _compute else ())):
        importlib.import_module(name)


def _limit(memory: int, seconds: float) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        used = resource.getrusage(resource.RUSAGE_SELF)
        # In case the server is gone; while it runs it enforces the time limit.
        _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + 4 * seconds) + 1)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)


def _lower(kind: int, limit: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _footer(files: list[Path]) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Parsing a footer takes some ten times its size in memory.
    with files[0].open("rb") as file:
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
    if length > _MOST_FOOTER:
        raise PredictionsError(
            f"{files[0]} has a footer of {length:,} bytes; expected at most {_MOST_FOOTER:,}, as `vl-assay predict` "
            "writes them"
        )
    try:
        footer = pq.read_metadata(files[0])
    except (pa.ArrowException, OSError) as error:
        raise PredictionsError(f"{files[0]} is not a readable Parquet file: {error}") from error
    text = (footer.metadata or {}).get(b"vl_assay")
    if text is None or len(text) > _MOST_METADATA:
        metadata = "no `vl_assay` metadata" if text is None else f"{len(text):,} bytes of metadata"
        raise PredictionsError(
            f"{files[0]} is not a predictions file: it has {metadata}; expected at most {_MOST_METADATA:,} bytes, as "
            "`vl-assay predict` writes them"
        )
    if footer.num_row_groups > _MOST_ROW_GROUPS:
        raise PredictionsError(
            f"{files[0]} has {footer.num_row_groups:,} row groups; expected at most {_MOST_ROW_GROUPS:,}, as "
            "`vl-assay predict` writes them"
        )
    size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    return {"rows": footer.num_rows, "size": size, "metadata": text.decode()}


def _read(files: list[Path], most_rows: int, most_bytes: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ...metrics.records.predictions import read_predictions, write_predictions

    rows = size = 0
    try:
        # In small batches, because what is small in a file may be large in memory.
        for batch in pq.ParquetFile(files[0]).iter_batches(batch_size=16):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > most_rows or size > most_bytes:
                raise PredictionsError(
                    f"{files[0]} is larger than predictions of its task: its first {rows:,} rows have {size:,} bytes; "
                    f"at most {most_rows:,} rows of {most_bytes:,} bytes are allowed"
                )
    except (pa.ArrowException, OSError) as error:
        raise PredictionsError(f"{files[0]} is not a readable Parquet file: {error}") from error
    write_predictions(files[0].with_name("predictions.parquet"), read_predictions(files[0]))


def _compute(files: list[Path], options: dict[str, Any]) -> None:
    from ...hub_datasets.authoring.audit.blind import known_levels
    from ...hub_datasets.core.benchmarks import get_task
    from ...hub_datasets.reports.evaluation import parts_in
    from ...metrics.records.results import write_results
    from ...metrics.results.compute import compute

    results = compute(
        files,
        metrics=lambda predictions: get_task(predictions.benchmark, predictions.task).metrics,
        parts=parts_in,
        **options,
    )
    # An upload's own blind levels are not verified.
    for result in results:
        about = result.benchmark
        about.pop("blind_parts", None)
        about["blind"] = known_levels(about["name"], about["task"], about.get("options") or {})
    write_results(files[0].with_name("results.json"), results)


_WORK = {"footer": _footer, "read": _read, "compute": _compute}

if __name__ == "__main__":
    _serve()
