"""The storage in a local folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ...metrics.common.errors import StorageError
from ...metrics.common.storage import sync_folder, write_atomically, write_text
from .protocol import TOP_FOLDERS, check_addition, check_path, folders_of, is_path, other_content


class FolderStorage:
    """A folder on this machine.

    An addition is written to ``.journal/staged`` and committed by renaming that to ``.journal/committed``. Its files
    are then moved to their final paths. If the process is killed in between, the next process to take the lock finishes
    the moves, so that no reader sees part of an addition.

    Args:
        folder: created when it is first used.
        lock_timeout: seconds to wait for another process before raising `StorageError`.
    """

    def __init__(self, folder: str | Path, *, lock_timeout: float = 60.0) -> None:
        self.folder = Path(folder).expanduser()
        self._lock_timeout = lock_timeout
        self._journal = self.folder / ".journal"
        self._staged, self._committed = self._journal / "staged", self._journal / "committed"
        self._was_there = False

    def paths(self, prefix: str = "") -> list[str]:
        """See `Storage`."""
        folder = prefix.rpartition("/")[0]
        if folder and not is_path(f"{folder}/file"):
            return []
        with self._locked(to_read=True):
            paths = [
                (Path(current).relative_to(self.folder) / name).as_posix()
                for top in ([folder] if folder else TOP_FOLDERS)
                for current, _, names in os.walk(self.folder / top, onerror=_raise_unless_missing)
                for name in names
            ]
        return sorted(path for path in paths if path.startswith(prefix) and is_path(path))

    def read(self, path: str) -> bytes:
        """See `Storage`."""
        check_path(path)
        with self._locked(to_read=True):
            if not (self.folder / path).is_file():
                raise StorageError(f"there is no file {path!r} in {self.folder}")
            return (self.folder / path).read_bytes()

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """See `Storage`; the message is not kept."""
        check_addition(files, message)
        with self._locked():
            missing = {path: content for path, content in files.items() if not self._has(path, content)}
            if missing:
                self._commit(missing)
                self._finish()

    @contextmanager
    def _locked(self, *, to_read: bool = False) -> Iterator[None]:
        """Lock the folder, after finishing the interrupted addition of a killed process.

        A read-only folder is read without a lock, since no process here can add to it.
        """
        from filelock import FileLock, Timeout

        if self._was_there and not self._journal.is_dir():
            raise StorageError(
                f"{self.folder} was there and is gone: it was moved, deleted or unmounted. Bring it back, or start "
                "again with its new place"
            )
        if to_read and self.folder.is_dir() and not _is_writable(self.folder):
            self._was_there = self._journal.is_dir()
            yield
            return
        try:
            self._journal.mkdir(parents=True, exist_ok=True)
            self._was_there = True
            with FileLock(self._journal / "lock").acquire(timeout=self._lock_timeout, poll_interval=0.01):
                self._finish()
                yield
        except Timeout as error:
            raise StorageError(
                f"another process has kept {self.folder} locked for {self._lock_timeout:g} seconds; stop it or wait, "
                "then try again"
            ) from error
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be used as storage: {error.strerror or error}. What was stored is intact: free "
                "some space, allow writing or name another folder, and try again"
            ) from error

    def _has(self, path: str, content: bytes) -> bool:
        file = self.folder / path
        if file.is_dir() or any((self.folder / folder).is_file() for folder in folders_of(path)):
            raise other_content(path)
        if not file.is_file():
            return False
        if file.read_bytes() != content:
            raise other_content(path)
        return True

    def _commit(self, files: Mapping[str, bytes]) -> None:
        """Stage the files and rename them to committed. Lack of space or permission can only fail the staging."""
        try:
            for number, (path, content) in enumerate(files.items()):
                write_atomically(self._staged / str(number), content)
                folder = (self.folder / path).parent
                folder.mkdir(parents=True, exist_ok=True)
                if not os.access(folder, os.W_OK | os.X_OK):
                    raise PermissionError(f"no permission to write to {folder}")
            write_text(self._staged / "paths.json", json.dumps(list(files)))
            sync_folder(self._staged)
            os.replace(self._staged, self._committed)
            sync_folder(self._journal)
        finally:
            shutil.rmtree(self._staged, ignore_errors=True)

    def _finish(self) -> None:
        """Move the files of a committed addition to their final paths and discard a staged addition."""
        shutil.rmtree(self._staged, ignore_errors=True)
        record = self._committed / "paths.json"
        if record.is_file():
            paths = self._committed_paths(record)
            for number, path in enumerate(paths):
                if (self._committed / str(number)).exists():
                    (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(self._committed / str(number), self.folder / path)
            for folder in {self.folder / folder for path in paths for folder in PurePosixPath(path).parents}:
                sync_folder(folder)
        if self._committed.exists():
            shutil.rmtree(self._committed)

    def _committed_paths(self, record: Path) -> list[str]:
        """Read the paths of a committed addition; raise `StorageError` if the record is damaged."""
        try:
            paths = json.loads(record.read_text(encoding="utf-8"))
            check_addition(dict.fromkeys(paths, b""), "the journal")
        except (StorageError, ValueError, TypeError, RecursionError, MemoryError) as error:
            raise StorageError(
                f"{record} is damaged ({error}), so the addition that it names cannot be finished; nothing was moved. "
                f"Look at the files beside it, then remove {self._committed}, and send what is missing again"
            ) from error
        return paths


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error
