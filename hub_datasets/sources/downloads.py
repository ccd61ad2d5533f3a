"""Downloads, their errors, and sources that are tried in order."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from ...metrics.common.errors import DataError
from ...metrics.common.storage import cache_error
from ...metrics.common.user_files import list_files
from ..core.build import MissingSourceError

T = TypeVar("T")


class DownloadError(MissingSourceError):
    """A file could not be downloaded; `url` is its address."""

    def __init__(self, url: str, error: Exception, remedy: str) -> None:
        # fsspec reports every failed request as "not found", with the reason as its cause.
        reason = request_error(error)
        message = str(reason).partition("\n")[0]  # the HTTP library adds a line with a link that explains the status
        super().__init__(f"Could not download {url} ({type(reason).__name__}: {message}). Try again, or {remedy}.")
        self.url = url


class NoSourceError(DownloadError):
    """None of several sources can be had; `url` holds their addresses, joined by `OR`."""

    OR = " or "

    def __init__(self, message: str, urls: Sequence[str]) -> None:
        DataError.__init__(self, message)
        self.url = self.OR.join(urls)


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


def first_source(what: str, sources: Sequence[tuple[str, Callable[[], T]]]) -> T:
    """Return the result of the first source that works; a warning gives the errors of the sources before it.

    Args:
        what: what they are sources of, for messages.
        sources: in order, the address of each and the function that reads it, which raises a `DataError` if the source
            cannot be had or is damaged.

    Raises:
        NoSourceError: every one of several failed, with the reason of each; a plain `DataError` if all are damaged, and
            the error itself if there is one source.

    >>> import warnings
    >>> def damaged():
    ...     raise DataError("a.zip is damaged")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     first_source("images", [("https://a.org", damaged), ("https://b.org", lambda: "theirs")])
    'theirs'
    >>> print(caught[0].message)
    images: a.zip is damaged Taken from https://b.org instead.
    """
    failures: list[tuple[str, DataError]] = []
    for url, read in sources:
        try:
            result = read()
        except DataError as error:
            failures.append((url, error))
            continue
        if failures:
            reasons = " ".join(str(error) for _, error in failures)
            warnings.warn(f"{what}: {reasons} Taken from {url} instead.", UserWarning, stacklevel=2)
        return result
    if len(failures) == 1:
        raise failures[0][1]
    listed = " ".join(f"({number}) {url}: {error}" for number, (url, error) in enumerate(failures, 1))
    message = f"None of the {len(failures)} sources of {what} can be had: {listed}"
    if not any(isinstance(error, MissingSourceError) for _, error in failures):
        raise DataError(message) from failures[-1][1]
    raise NoSourceError(message, [url for url, _ in failures]) from failures[-1][1]
