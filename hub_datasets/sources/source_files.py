"""The source files of a benchmark: where they are looked for, how they are verified, and their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from ...metrics.common import user_files
from ...metrics.common.errors import DataError
from ...metrics.common.storage import readable, with_home
from ..core.build import MissingSourceError
from .downloads import DownloadError, download, looked_in
from .records import Row, check_row_count, check_rows, parse_records, with_remedy
from .stored_images import is_stored, read_stored

# The path of each image by its name, None where it is missing.
ImagePaths = dict[str, str | None]


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file, of a stored image, or of an address, which `datasets` passes while it streams."""
    if is_stored(path):
        return read_stored(str(path))
    if "://" in str(path):
        remote: Any = fsspec.open(str(path), "rb")
        with remote as file:
            return file.read()
    with Path(path).open("rb") as file:
        return file.read()


@dataclass(frozen=True)
class SourceFile:
    """A file of a release.

    Args:
        name: its path in the release, where it is looked for in `data_dir`.
        places: further paths in `data_dir`, tried in this order.
        url: address at a pinned revision, from which it is downloaded if `data_dir` has no copy; empty if it has to be
            the user's own.
        checksum: of the released file: "sha256:" or "md5:" and the hexadecimal digits; empty if none is known.
        remedy: how to get the file, a sentence without a full stop; by default from its address.
    """

    name: str
    places: tuple[str, ...] = ()
    url: str = ""
    checksum: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remedy", self.remedy or f"Get it from {self.url}")

    def find(self, folder: Path | None) -> Path | None:
        """Return the user's copy in `folder`, or None; an empty file counts as missing: a copy was interrupted."""
        path = folder and first_file(folder / inside for inside in (self.name, *self.places))
        return Path(path) if path else None

    def read(self, folder: Path | None, dl_manager: Any = None, *, verify: bool = True) -> tuple[bytes, str]:
        """Return the content of the file, and its path or address for messages.

        Args:
            folder: the user's copy of the sources, if any.
            dl_manager: a `datasets.DownloadManager`, for a file with a `url`.
            verify: whether a local file must have the checksum; a downloaded one must in any case.

        Raises:
            MissingSourceError: it is not in `folder` and cannot be downloaded.
            DownloadError: the download failed.
            DataError: another checksum.
        """
        path = self.find(folder)
        if path is not None:
            payload = read_bytes(path)
            if verify:
                self._verify(payload, str(path), "replace it, or pass verify=False to accept it")
            return payload, str(path)
        with looked_in(folder, [self.name, *self.places]):
            if not self.url:
                raise MissingSourceError(f"{self.name} is missing from {folder}, or empty. {self.remedy}.")
            return self._download(dl_manager)

    def rows(
        self,
        folder: Path | None,
        schema: Mapping[str, Any],
        dl_manager: Any = None,
        *,
        verify: bool = True,
        count: int | None = None,
        problem: Callable[[Row], str | None] = lambda row: None,
    ) -> tuple[dict[str, Row], str]:
        """Return the checked rows of the file by their keys or numbers, and its path or address.

        Args:
            folder, dl_manager, verify: as for `read`.
            schema, problem: as for `check_rows`.
            count: the number of rows of the release, compared if `verify`; None if it is unknown.

        Raises:
            DataError: as `read` and `check_rows`, or another number of rows; the message ends with the remedy.
        """
        payload, origin = self.read(folder, dl_manager, verify=verify)
        with with_remedy(self.remedy):
            records = parse_records(payload, origin, self.name)
            rows = check_rows(((label, content) for label, _, content in records), schema, origin, problem)
        if verify and count is not None:
            check_row_count(len(rows), count, origin)
        return {key: row for (_, key, _), row in zip(records, rows, strict=True)}, origin

    def _download(self, dl_manager: Any) -> tuple[bytes, str]:
        instruction = "" if self.url in self.remedy else f": {self.remedy}"
        remedy = f"pass data_dir, a folder that holds {self.name}{instruction}"
        copy = download(dl_manager, self.url, remedy)
        try:
            payload = read_bytes(copy)
        except Exception as error:  # a request, if the dataset is streamed
            raise DownloadError(self.url, error, remedy) from error
        self._verify(payload, self.url, f"remove {copy} and try again, or {remedy}")
        return payload, self.url

    def _verify(self, payload: bytes, origin: str, remedy: str) -> None:
        kind, _, expected = self.checksum.partition(":")
        digest = hashlib.new(kind, payload, usedforsecurity=False).hexdigest() if kind else ""
        if digest != expected:
            name = {"sha256": "SHA-256", "md5": "MD5"}[kind]
            raise DataError(
                f"{origin} has {name} {digest}, but {self.name} as released has {expected}. It is damaged or of "
                f"another release: {remedy}."
            )


def data_folder(data_dir: str | None, remedy: str, *, is_needed: bool = True) -> Path | None:
    """Return the user's folder of source files; None if it is neither given nor needed.

    Raises:
        MissingSourceError: it is not a folder, or is needed and not given; the message ends with `remedy`.
        DataError: it cannot be read.
    """
    if not data_dir:
        if is_needed:
            raise MissingSourceError(f"The sources have to be your own copy, passed as data_dir. {remedy}.")
        return None
    folder = with_home(data_dir).absolute()
    with readable(folder):
        if not folder.is_dir():
            raise MissingSourceError(f"data_dir {folder} is not a folder. {remedy}.")
    return folder


def read_lines(path: str | Path) -> list[str]:
    """Return the stripped lines of a text that are not empty; raise a `DataError` if it cannot be read."""
    try:
        lines = user_files.read_text(read_bytes(path)).splitlines()
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    return [line.strip() for line in lines if line.strip()]


def is_inner_path(path: str) -> bool:
    """Return whether a relative path of a release stays below its folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not {"/", ".."} & set(parts) and "\\" not in path


def is_file_name(name: str) -> bool:
    """Return whether a text is the bare name of a file."""
    return is_inner_path(name) and "/" not in name


def first_file(paths: Iterable[Path]) -> str | None:
    """Return the first path with a file that is not empty, as an interrupted copy would be; None without one."""
    return next((str(path) for path in paths if path.is_file() and path.stat().st_size), None)


def find_images(names: Iterable[str], folders: Sequence[Path]) -> ImagePaths:
    """Return by name the path of each image in the first folder that has it."""
    return {name: first_file(folder / name for folder in folders) for name in names}
