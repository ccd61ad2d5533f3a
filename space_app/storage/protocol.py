"""The storage interface, and the rules for paths that every storage applies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Protocol

from ...metrics.common.errors import StorageError

TOP_FOLDERS = ("requests", "results")
MAX_PATH_LENGTH = 200
_FILE = re.compile(f"(?:{'|'.join(TOP_FOLDERS)})(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")


class Storage(Protocol):
    """Files that are added and never change. Several processes may use one storage at the same time."""

    def paths(self, prefix: str = "") -> list[str]:
        """Return the sorted POSIX paths of all files whose path starts with `prefix`; each of them is complete.

        Raises:
            StorageError: the storage cannot be used or reached.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            StorageError: there is no such file, or the storage cannot be used or reached.
        """
        ...

    def add(self, files: Mapping[str, bytes], message: str) -> None:
        """Add files in their order; files that exist with the same content are skipped.

        The last file stands for all: whoever finds it finds the others, even if the process is killed. A process that
        is killed earlier leaves files that no record names, and the same addition again completes them.

        Args:
            files: contents by path, either all below "requests/" or all below "results/"; the record comes last.
            message: a description for the history, where the storage keeps one.

        Raises:
            StorageError: a path is not allowed or exists with other content, or the storage cannot be used or reached.
                Calling it again is safe.
        """
        ...


def is_path(path: str) -> bool:
    """Return whether a file may be stored at `path`."""
    return len(path) <= MAX_PATH_LENGTH and _FILE.fullmatch(path) is not None


def check_path(path: str) -> None:
    """Raise `StorageError` unless a file may be stored at `path`."""
    if not is_path(path):
        raise StorageError(
            f"no file can be stored as {path[:MAX_PATH_LENGTH]!r}: a path is relative, below "
            f"{' or '.join(f'{top}/' for top in TOP_FOLDERS)}, of at most {MAX_PATH_LENGTH} characters; its parts are "
            'of ASCII letters, digits, ".", "_" and "-", none starts with "."'
        )


def check_addition(files: Mapping[str, bytes], message: str) -> None:
    """Raise `StorageError` unless `files` may be added together."""
    for path in files:
        check_path(path)
        if folder := next((parent for parent in folders_of(path) if parent in files), None):
            raise StorageError(f"{folder!r} cannot be a file and the folder of {path!r}; rename one of them")
    if len({path.partition("/")[0] for path in files}) > 1:
        raise StorageError(f"an addition goes to one of {', '.join(TOP_FOLDERS)}, not both; add the files separately")
    if not message.strip():
        raise StorageError("an addition needs a message that describes it; this one is empty")


def folders_of(path: str) -> list[str]:
    """Return the folders that contain a path, innermost first."""
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def other_content(path: str) -> StorageError:
    """Return the error that `Storage.add` raises if a path exists with other content."""
    return StorageError(f"{path!r} exists with other content, and stored files never change; choose another path")
