"""Where submissions and results are kept: one small interface, and a local folder behind it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from ...metrics.common.errors import StorageError
from ...metrics.common.storage import sync_folder, write_atomically, write_text

TOP_FOLDERS = ("requests", "results")
_TOP = f"(?:{'|'.join(TOP_FOLDERS)})"
_PART = "/[A-Za-z0-9_-][A-Za-z0-9._-]*"
_FOLDER = re.compile(f"{_TOP}(?:{_PART})*")
_FILE = re.compile(f"{_TOP}(?:{_PART})+")
_MOST_CHARACTERS = 200
_LOCK_SECONDS = 60.0


class Storage(Protocol):
    """Files that are added and never change; several processes may use the same place at once."""

    def paths(self, prefix: str = "") -> list[str]:
        """The sorted POSIX paths, starting with `prefix`, of the files that are completely there.

        Raises:
            StorageError: the place cannot be used or reached.
        """
        ...

    def read(self, path: str) -> bytes:
        """The content of one file.

        Raises:
            StorageError: there is none of that path, or the place cannot be used or reached.
        """
        ...

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """Add all the files or none, whenever the process dies; a file that is there with the same content is left.

        Args:
            files: the contents by their paths, all below "requests/" or all below "results/".
            message: what is added, for the history where the place keeps one.

        Raises:
            StorageError: a path is not allowed or is there with other content, or the place cannot be used or
                reached. All the files are there or none, and it is safe to call it again.
        """
        ...


def open_storage(place: str | None = None) -> Storage:
    """The storage at `place`, by default the one that ``VL_ASSAY_STORAGE`` names.

    Args:
        place: a folder, or ``"hf://datasets/owner/name"`` for the two Hub dataset repositories owner/name-requests and
            owner/name-results. Without it and the variable, the folder ``leaderboard`` in the cache of this package.

    Raises:
        StorageError: it names no folder and no pair of repositories.
    """
    place = place or os.environ.get("VL_ASSAY_STORAGE")
    if not place:
        from ...hub_datasets.core.examples import cache_folder

        return FolderStorage(cache_folder() / "leaderboard")
    scheme, separator, rest = place.partition("://")
    if not separator:
        return FolderStorage(place)
    kind, _, name = rest.partition("/")
    if (scheme, kind) != ("hf", "datasets"):
        raise StorageError(
            f"{place!r} is no place for storage; name a folder, or hf://datasets/owner/name for the Hub's dataset "
            "repositories owner/name-requests and owner/name-results"
        )
    from .hub_storage import HubStorage

    return HubStorage(name)


def check_path(path: str) -> None:
    """Raise `StorageError` unless a file may be stored as `path`."""
    if not is_path(path):
        raise StorageError(
            f"no file can be stored as {path[:_MOST_CHARACTERS]!r}: a path is relative, below "
            f"{' or '.join(f'{top}/' for top in TOP_FOLDERS)}, of at most {_MOST_CHARACTERS} characters; its parts are "
            'of ASCII letters, digits, ".", "_" and "-", none starts with "."'
        )


def is_path(path: str) -> bool:
    """Whether a file may be stored as `path`."""
    return len(path) <= _MOST_CHARACTERS and _FILE.fullmatch(path) is not None


def check_addition(files: Mapping[str, bytes], message: str) -> None:
    """Raise `StorageError` unless the files may be added at once: their paths fit, and they fit together."""
    for path in files:
        check_path(path)
        if folder := next((parent for parent in folders_of(path) if parent in files), None):
            raise StorageError(f"{folder!r} cannot be a file and the folder of {path!r}; rename one of them")
    if len({path.partition("/")[0] for path in files}) > 1:
        raise StorageError(f"one addition goes to one of {', '.join(TOP_FOLDERS)}, this one to both; add them in turn")
    if not message.strip():
        raise StorageError("an addition needs a message that says what is added; this one is empty")


def folders_of(path: str) -> list[str]:
    """The folders that a path lies in, the innermost first."""
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def other_content(path: str) -> StorageError:
    """What `add` raises where something else is at a path."""
    return StorageError(
        f"{path!r} is there with other content, and what is stored never changes; add it under another path"
    )


class FolderStorage:
    """A folder on this machine.

    An addition is written aside, and becomes true by one rename of all of it to ``.journal/committed``; the moves to
    the files' places come after that. Whoever holds the lock next first makes the moves that a process has left
    undone, so nobody sees a part of an addition.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self._journal = self.folder / ".journal"
        self._staged, self._committed = self._journal / "staged", self._journal / "committed"

    def paths(self, prefix: str = "") -> list[str]:
        """See ``Storage``."""
        folder = prefix.rpartition("/")[0]
        if folder and not _FOLDER.fullmatch(folder):
            return []
        with self._locked():
            found = [path for top in ([folder] if folder else TOP_FOLDERS) for path in self._files_below(top)]
        return sorted(path for path in found if path.startswith(prefix) and is_path(path))

    def read(self, path: str) -> bytes:
        """See ``Storage``."""
        check_path(path)
        with self._locked():
            if not (self.folder / path).is_file():
                raise StorageError(f"there is no file {path!r} in {self.folder}")
            return (self.folder / path).read_bytes()

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """See ``Storage``; the message is not kept."""
        check_addition(files, message)
        with self._locked():
            missing = {path: content for path, content in files.items() if not self._has(path, content)}
            if missing:
                self._commit(missing)
                self._finish()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder alone, with nothing left undone in it."""
        from filelock import FileLock, Timeout

        try:
            self._journal.mkdir(parents=True, exist_ok=True)
            with FileLock(self._journal / "lock").acquire(timeout=_LOCK_SECONDS, poll_interval=0.01):
                self._finish()
                yield
        except Timeout as error:
            raise StorageError(
                f"another process has kept {self.folder} locked for {_LOCK_SECONDS:.0f} seconds; end it or wait "
                "for it, and try again"
            ) from error
        except OSError as error:
            raise StorageError(
                f"{self.folder} cannot be used as storage: {error.strerror or error}. What was stored is intact: free "
                "some space, allow writing or name another folder, and try again"
            ) from error

    def _files_below(self, folder: str) -> Iterator[str]:
        for current, _, names in os.walk(self.folder / folder, onerror=_raise_unless_missing):
            yield from ((Path(current).relative_to(self.folder) / name).as_posix() for name in names)

    def _has(self, path: str, content: bytes) -> bool:
        place = self.folder / path
        if place.is_dir() or any((self.folder / folder).is_file() for folder in folders_of(path)):
            raise other_content(path)
        if not place.is_file():
            return False
        if place.read_bytes() != content:
            raise other_content(path)
        return True

    def _commit(self, files: Mapping[str, bytes]) -> None:
        """Make an addition true: whatever can fail for want of space or permission comes before the rename."""
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
        """Move the files of a committed addition to their places, and forget one that was not committed."""
        shutil.rmtree(self._staged, ignore_errors=True)
        record = self._committed / "paths.json"
        if record.is_file():
            paths = json.loads(record.read_text(encoding="utf-8"))
            for number, path in enumerate(paths):
                if (self._committed / str(number)).exists():
                    (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(self._committed / str(number), self.folder / path)
            for folder in {self.folder / folder for path in paths for folder in PurePosixPath(path).parents}:
                sync_folder(folder)
        if self._committed.exists():
            shutil.rmtree(self._committed)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error
