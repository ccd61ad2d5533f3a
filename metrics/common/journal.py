"""An append-only file of JSON lines that survives kills: answers of language models, decisions of annotators."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from .errors import DataError, StorageError
from .storage import sync_folder

_LOCK_SECONDS = 10.0
T = TypeVar("T")


class Journal(Generic[T]):
    """A file of JSON lines that several threads and processes may append to.

    Each line is on the disk before `append` returns, so a kill loses nothing that was reported as written. If a kill
    left an incomplete last line, the line is completed where only its line break is missing, and removed otherwise.

    Args:
        path: the file; it is created by the first `append`.
        parse: makes an entry of a line's JSON value; raises ValueError, TypeError or KeyError where that is invalid.

    Raises:
        DataError: an invalid line; the message has its number.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: str | Path, parse: Callable[[Any], T]) -> None:
        self.path = Path(path)
        self._parse = parse
        self._thread = threading.RLock()
        self._process = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_LOCK_SECONDS)
        self._offset, self._lines = 0, 0
        self._entries: list[T] = []
        self.entries()
        if self.path.exists() and self._offset < self.path.stat().st_size:
            with self.locked():
                self.entries()

    def entries(self) -> list[T]:
        """Return all entries in the order of the file, including those that other processes have appended meanwhile."""
        with self._thread, _storage_errors(self.path):
            size = self.path.stat().st_size if self.path.exists() else 0
            if size < self._offset:  # the file was replaced
                self._offset, self._lines = 0, 0
                self._entries.clear()
            if size > self._offset:
                with self.path.open("rb") as file:
                    file.seek(self._offset)
                    content = file.read()
                complete = content[: content.rfind(b"\n") + 1]
                for line in complete.split(b"\n")[:-1]:
                    self._lines += 1
                    try:
                        self._entries += [self._parse(json.loads(line))] if line.strip() else []
                    except (ValueError, TypeError, KeyError) as error:
                        raise DataError(
                            f"line {self._lines} of {self.path} is invalid ({error!r}); correct or remove the line"
                        ) from error
                self._offset += len(complete)
            return list(self._entries)

    def append(self, row: Mapping[str, Any]) -> None:
        """Append an entry, and return when it is on the disk.

        Raises:
            StorageError: it could not be written; the file is as it was.
        """
        with self.locked():
            is_new, line = not self.path.exists(), json.dumps(row).encode() + b"\n"
            # Unbuffered: a buffer would write its rest when the file is closed, after the truncation.
            with self.path.open("ab", buffering=0) as file:
                start = file.tell()
                try:
                    if file.write(line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(file.fileno())
                except OSError:
                    os.ftruncate(file.fileno(), start)
                    raise
            if is_new:
                sync_folder(self.path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent other threads and processes from appending inside the block."""
        try:
            with self._thread, _storage_errors(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self._process:
                    self._repair()
                    yield
        except Timeout as error:
            raise StorageError(
                f"another process has locked {self.path} for {_LOCK_SECONDS:.0f} seconds; end it or wait for it, and "
                "try again"
            ) from error

    def _repair(self) -> None:
        """Complete or remove a last line that lacks its line break."""
        if not self.path.exists():
            return
        with self.path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            if file.read() in (b"", b"\n"):
                return
            file.seek(self._offset if self._offset <= size else 0)
            rest = file.read()
            tail = rest[rest.rfind(b"\n") + 1 :]
            try:
                self._parse(json.loads(tail))
                file.write(b"\n")
            except (ValueError, TypeError, KeyError):
                file.truncate(size - len(tail))
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except TimeoutError:  # filelock's own
        raise
    except OSError as error:
        raise StorageError(
            f"cannot use {path}: {error.strerror or error}. What was written before is intact: free some space or name "
            "another folder with --out, and try again"
        ) from error
