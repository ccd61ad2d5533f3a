"""Images inside Parquet files, as most datasets of the Hub hold them, or zip archives, each by an address like a path.

A column of images is what `datasets` writes: a struct of ``bytes`` and ``path``, or a list with one such struct. Files
are read a few rows at a time; memory grows with a row group, as writers put up to 1,024 images into one page, and not
with the file; an archive stays open.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...metrics.common.errors import DataError

_SCHEME, _ZIP_SCHEME = "parquet:", "zip:"
# Photographs of a megabyte and less.
_ROWS_AT_ONCE = 8
_BUFFER = 1 << 20


def image_address(path: Path, column: str, row: int) -> str:
    """The address of an image: a Parquet file, its column of images, and the row, counted from 0."""
    return f"{_SCHEME}{path}#{column}#{row}"


def member_address(archive: Path, member: str) -> str:
    """The address of an image in a zip archive, by its path there."""
    return f"{_ZIP_SCHEME}{archive}\0{member}"


def is_stored(path: str | Path) -> bool:
    """Whether a path is the address of an image in a Parquet file or an archive."""
    return str(path).startswith((_SCHEME, _ZIP_SCHEME))


def read_stored(address: str) -> bytes:
    """The bytes of the image at an address, empty if there are none; fastest in the order of the rows."""
    if address.startswith(_ZIP_SCHEME):
        archive, member = address.removeprefix(_ZIP_SCHEME).split("\0")
        return _archive(archive, Path(archive).stat().st_mtime_ns).read(member)
    path, column, row = _parts(address)
    state = path.stat()
    return _column(path, column, state.st_mtime_ns, state.st_size).read(row)


def find_stored(addresses: Mapping[str, str]) -> dict[str, str | None]:
    """The addresses of images by their names, None for one without bytes; reads each column once.

    Raises:
        DataError: a damaged file.
    """
    columns: dict[tuple[Path, str], dict[int, list[str]]] = {}
    for name, address in addresses.items():
        path, column, row = _parts(address)
        columns.setdefault((path, column), {}).setdefault(row, []).append(name)
    found: dict[str, str | None] = dict(addresses)
    for (path, column), names in columns.items():
        for row, content in enumerate(read_images(path, column)):
            if not content:
                found |= dict.fromkeys(names.get(row, ()))
    return found


def read_images(path: Path, column: str) -> Iterator[bytes]:
    """The bytes of a column of images in the order of the rows, empty where there are none.

    Raises:
        DataError: a damaged file.
    """
    with open_parquet(path) as file:
        for batch in read_batches(file, path, [column], _ROWS_AT_ONCE):
            yield from map(_content, batch.column(0))


def open_parquet(path: Path) -> pq.ParquetFile:
    """A Parquet file, of which no more is read into memory than asked for.

    Raises:
        DataError: it is no Parquet file, or a damaged one.
    """
    try:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise _damaged(path, error) from error


def read_batches(
    file: pq.ParquetFile, path: Path, columns: list[str], rows: int, groups: list[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Some columns of a file, or of some of its row groups, a number of rows at a time."""
    try:
        yield from file.iter_batches(rows, row_groups=groups, columns=columns)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as Parquet ({error}): it is damaged or something else; get it again.")


def _parts(address: str) -> tuple[Path, str, int]:
    path, column, row = address.removeprefix(_SCHEME).rsplit("#", 2)
    return Path(path), column, int(row)


def _content(cell: Any) -> bytes:
    """The bytes in a cell of a column of images."""
    value = cell.as_py()
    if isinstance(value, list):
        value = value[0] if value else None
    return (value or {}).get("bytes") or b""


@functools.lru_cache(4)
def _column(path: Path, column: str, changed: int, size: int) -> _Column:
    """A column that stays open; a file that was replaced meanwhile is another one."""
    return _Column(path, column)


@functools.lru_cache(1)
def _archive(path: str, changed: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


class _Column:
    """A column of images that is read forwards, and from the start of a row group where an earlier row is asked for."""

    def __init__(self, path: Path, column: str) -> None:
        self._file, self._path, self._name = open_parquet(path), path, column
        metadata = self._file.metadata
        counts = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        self._starts = [0, *itertools.accumulate(counts)]
        self._group, self._first, self._cells = -1, 0, ()
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def read(self, row: int) -> bytes:
        group = bisect.bisect_right(self._starts, row) - 1
        if group != self._group or row < self._first:
            self._group, self._first, self._cells = group, self._starts[group], ()
            self._batches = read_batches(self._file, self._path, [self._name], _ROWS_AT_ONCE, [group])
        while row >= self._first + len(self._cells):
            self._first += len(self._cells)
            self._cells: Any = next(self._batches).column(0)
        return _content(self._cells[row - self._first])
