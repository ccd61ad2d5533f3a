"""The storage in a local folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ...metrics.common.errors import StorageError
from ...metrics.common.storage import sync_folder, with_home, write_atomically
from .protocol import TOP_FOLDERS, check_addition, check_path, folders_of, is_path, other_content


class FolderStorage:
    """A folder on this machine. Additions of several processes wait for each other; readers wait for nobody.

    Args:
        folder: created when it is first used.
        lock_timeout: seconds to wait for another process before raising `StorageError`.
    """

    def __init__(self, folder: str | Path, *, lock_timeout: float = 60.0) -> None:
        self.folder = with_home(folder)
        self._lock_timeout = lock_timeout
        self._was_there = False

    def paths(self, prefix: str = "") -> list[str]:
        """See `Storage`."""
        folder = prefix.rpartition("/")[0]
        if folder and not is_path(f"{folder}/file"):
            return []
        with self._usable():
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
        with self._usable():
            if not (self.folder / path).is_file():
                raise StorageError(f"there is no file {path!r} in {self.folder}")
            return (self.folder / path).read_bytes()

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """See `Storage`; the message is not kept."""
        check_addition(files, message)
        with self._usable(), self._locked():
            missing = {path: content for path, content in files.items() if not self._has(path, content)}
            # The last file, which the others belong to, is written when those are on the disk.
            for paths in ([*missing][:-1], [*missing][-1:]):
                for path in paths:
                    write_atomically(self.folder / path, missing[path])
                for folder in {folder for path in paths for folder in (self.folder / path).parents}:
                    if folder.is_relative_to(self.folder):
                        sync_folder(folder)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Create the folder, and raise `StorageError` if it has gone or the system refuses its use."""
        if self._was_there and not self._is_there():
            raise StorageError(
                f"{self.folder} was there and is gone: it was moved, deleted or unmounted. Bring it back, or start "
                "again with its new place"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
            self._was_there = self._is_there()
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be used as storage: {error.strerror or error}. What was stored is intact: free "
                "some space, allow writing or name another folder, and try again"
            ) from error

    def _is_there(self) -> bool:
        """Return whether something was stored; an empty folder may be the place of a disk that is not mounted."""
        return any((self.folder / top).is_dir() for top in TOP_FOLDERS)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        try:
            lock = FileLock(self.folder / ".lock").acquire(timeout=self._lock_timeout, poll_interval=0.01)
        except Timeout as error:
            raise StorageError(
                f"another process has kept {self.folder} locked for {self._lock_timeout:g} seconds; stop it or wait, "
                "then try again"
            ) from error
        with lock:
            yield

    def _has(self, path: str, content: bytes) -> bool:
        file = self.folder / path
        if file.is_dir() or any((self.folder / folder).is_file() for folder in folders_of(path)):
            raise other_content(path)
        if not file.is_file():
            return False
        if file.read_bytes() != content:
            raise other_content(path)
        return True


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error
