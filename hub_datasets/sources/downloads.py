"""Downloads and their errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from ...metrics.common.storage import cache_error
from ...metrics.common.user_files import list_files
from ..core.build import MissingSourceError


class DownloadError(MissingSourceError):
    """A file could not be downloaded; `url` is its address."""

    def __init__(self, url: str, error: Exception, remedy: str) -> None:
        # fsspec reports every failed request as "not found", with the reason as its cause.
        reason = request_error(error)
        message = str(reason).partition("\n")[0]  # the HTTP library adds a line with a link that explains the status
        super().__init__(f"Could not download {url} ({type(reason).__name__}: {message}). Try again, or {remedy}.")
        self.url = url


@contextmanager
def looked_in(folder: Path | None, places: Sequence[str]) -> Iterator[None]:
    """Add to the error of a missing source the paths tried in the user's folder, and another path with its name.

    Args:
        folder: the user's copy, if any.
        places: the paths in it at which the source, or the first of several files, may be.
    """
    try:
        yield
    except MissingSourceError as error:
        if folder is not None:
            elsewhere = list_files(folder, f"**/{PurePosixPath(places[0]).name}")
            hint = f" It has {elsewhere[0].relative_to(folder)}: move or link that folder." if elsewhere else ""
            error.args = (f"{folder} has none of {', '.join(places)}.{hint} {error}",)
        raise


def request_error(error: BaseException) -> BaseException:
    """Return the reason for which a request of fsspec failed."""
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error


def download(dl_manager: Any, url: str, remedy: str, *, extract: bool = False) -> str:
    """Download a file, or take it from the cache of `datasets`; return its path, or the path of the extracted folder.

    Raises:
        DownloadError: whatever went wrong; the message ends with `remedy`.
    """
    try:
        path = str(dl_manager.download(url))
        if not dl_manager.is_streaming and _is_page(Path(path)):
            Path(path).unlink()  # it would be taken from the cache for good
            raise ValueError("the server sent a page in place of the file; its quota may be used up for today")
    except Exception as error:  # the HTTP libraries have no common class of errors
        raise cache_error(error) or DownloadError(url, error, remedy) from error
    return unpack(dl_manager, Path(path), url, remedy) if extract else path


def unpack(dl_manager: Any, archive: Path, url: str, remedy: str) -> str:
    """Unpack a downloaded archive into the cache of `datasets`; return the path of the folder.

    Raises:
        DownloadError: it is no archive, or damaged; it is removed, so that the next try downloads it again.
    """
    from datasets.utils.extract import ExtractManager

    try:
        folder = str(dl_manager.extract(str(archive)))
        if not (dl_manager.is_streaming or Path(folder).is_dir()):
            raise ValueError("it is no archive, or not whole")
    except Exception as error:  # each format has errors of its own
        if unwritable := cache_error(error):
            raise unwritable from error
        # `datasets` would take a folder that is not empty for the whole archive.
        partial = ExtractManager(dl_manager.download_config.cache_dir)._get_output_path(str(archive))
        shutil.rmtree(partial, ignore_errors=True)
        for path in (archive.resolve(), archive):  # the Hub's cache has links
            path.unlink(missing_ok=True)
        raise DownloadError(url, error, remedy) from error
    return folder


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1_000).lstrip().lower().startswith((b"<!doctype html", b"<html"))


def drive_address(identifier: str) -> str:
    """Return the address of a file of Google Drive, also of one that is too large for its virus scan."""
    return f"https://drive.usercontent.google.com/download?id={identifier}&export=download&confirm=t"
