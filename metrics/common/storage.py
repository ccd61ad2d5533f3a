"""Atomic writes, so that files and folders appear complete or not at all, and seals, which detect changed files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from .errors import DataError, PredictionsError, StorageError

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG}
_SEAL = hashlib.sha256().digest_size
_POINTER = b"version https://git-lfs"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that replaces `path` when it is complete and on the disk; raises as `replacing`."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` when the block has written it and it is on the disk.

    Raises:
        StorageError: it could not be written (disk full, no permission …); an earlier file at `path` is intact.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}. What was finished before is intact: "
            "free some space or name another folder, and run the same command again"
        ) from error


def check_version(document: Any, schema: str, version: int, name: str, code: Any) -> None:
    """Raise a `PredictionsError` unless the document in the file `name` has the expected schema and version.

    Args:
        document: what the file holds, unchecked.
        schema, version: the only ones that are read.
        name: the file, for the message.
        code: the version of VL-Assay that wrote the file, if the file names it, unchecked.
    """
    stated = (document.get("schema"), document.get("version")) if isinstance(document, dict) else (None, None)
    if stated != (schema, version):
        writer = f" by vl-assay {code}" if isinstance(code, str) and code.isprintable() and len(code) < 50 else ""
        raise PredictionsError(
            f"{name} was written{writer} with the schema {stated[0]!r:.50}, version {stated[1]!r:.50}; expected "
            f"{schema!r}, version {version}: run the command that wrote it again"
        )


def check_writable(folder: Path, option: str = "--out") -> None:
    """Check, before long work, that files can be written to a folder, which need not exist yet.

    Raises:
        StorageError: the folder, or its parent, is a file or not writable; the message names `option`.
    """
    if not (there := nearest(folder)).is_dir() or not os.access(there, os.W_OK):
        raise StorageError(
            f"nothing can be written to {folder}, as {there} is no folder to write to; give another {option}"
        )


@contextmanager
def readable(folder: str | Path) -> Iterator[None]:
    """Check that a folder, if it exists, can be listed, and report files that cannot be read inside the block.

    Raises:
        DataError: the folder, or a file or folder that is opened in the block, may not be read.
    """
    try:
        if Path(folder).is_dir():
            os.scandir(folder).close()
        yield
    except PermissionError as error:
        raise read_error(error) from error


def read_error(error: PermissionError) -> DataError:
    """Return the error for a file or folder that may not be read."""
    return DataError(f"cannot read {error.filename}: {error.strerror}; allow this user to read it, or name a copy")


def nearest(folder: Path) -> Path:
    """Return the folder, or its nearest ancestor that exists."""
    path = with_home(folder).absolute()
    return next(parent for parent in (path, *path.parents) if os.path.lexists(parent))


def with_home(path: str | Path) -> Path:
    """Expand ``~`` in a path to the user's home folder; leave it for a user without one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def writable_cache(folder: str | Path) -> Path:
    """Return the folder of a cache; if it is not writable, print a message and return a temporary folder instead."""
    folder = with_home(folder)
    there = nearest(folder)
    if not str(folder).startswith("~") and there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return folder
    return Path(_temporary(folder).name)


@cache
def _temporary(folder: Path) -> tempfile.TemporaryDirectory[str]:
    print(
        f"the cache {folder} cannot be written: a temporary folder takes its place, which is removed at the end. The "
        "environment variable HF_HOME names another folder for all caches",
        file=sys.stderr,
    )
    return tempfile.TemporaryDirectory(prefix="vl-assay-")


def cache_error(error: BaseException | None, what: str = "a file") -> StorageError | None:
    """Return a `StorageError` if an unwritable file caused a library's error; `what` describes a nameless file."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            return StorageError(
                f"cannot write {error.filename or what}: {error.strerror}. Free some space there, or name another "
                "folder: for caches by the environment variable HF_HOME. What was there is intact"
            )
        error = error.__cause__ or error.__context__
    return None


def refuse_pointer(source: Path | bytes) -> None:
    """Raise ValueError if a file, or its content, is a git-lfs pointer, which git leaves if git-lfs is missing.

    >>> refuse_pointer(b"version https://git-lfs.github.com/spec/v1\\noid sha256:0")
    Traceback (most recent call last):
    ValueError: it is a pointer of git-lfs; fetch the file itself with `git lfs pull`
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            source = file.read(len(_POINTER))
    if source.startswith(_POINTER):
        raise ValueError("it is a pointer of git-lfs; fetch the file itself with `git lfs pull`")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8."""
    write_atomically(path, text.encode())


def write_sealed(path: Path, content: bytes) -> None:
    """Write a file atomically, followed by a SHA-256 of its name and content; raises as `write_atomically`.

    The hash detects a bit that the disk changed, and a file that was copied over another one.
    """
    write_atomically(path, content + _seal(path, content))


def read_sealed(path: Path) -> bytes:
    """Return the content of a file that `write_sealed` wrote.

    Raises:
        OSError: it cannot be read.
        ValueError: the file was changed since.
    """
    sealed = path.read_bytes()
    content, seal = sealed[:-_SEAL], sealed[-_SEAL:]
    if seal != _seal(path, content):
        raise ValueError(f"{path} is not as it was written")
    return content


def json_hash(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON document without its own key ``sha256``; independent of layout and key order."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _seal(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + b"\0" + content).digest()


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk; only POSIX supports and needs this."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder, creating it if needed, against other runs on this machine.

    Raises:
        StorageError: another run holds it, or it cannot be written.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock").acquire(timeout=0)
    except Timeout as error:
        raise StorageError(f"another run is writing to {folder}; wait for its end, or name another folder") from error
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}; name another folder") from error
    with lock:
        yield


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Make a temporary folder next to `out`; it replaces `out` when the block succeeds and is removed when it fails."""
    out.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield new
        new.chmod(0o755)
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
            os.replace(out, old / "was")
            try:
                os.replace(new, out)
            except OSError:
                os.replace(old / "was", out)
                raise
            finally:
                shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(new, out)
    finally:
        shutil.rmtree(new, ignore_errors=True)
