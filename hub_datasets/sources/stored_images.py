"""Images inside Parquet files, as most datasets of the Hub hold them, each by an address like a path.

A column of images is what `datasets` writes: a struct of ``bytes`` and ``path``, or a list with one such struct. Files
are read a few rows at a time; memory grows with a row group, as writers put up to 1,024 images into one page, and not
with the file.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...metrics.common.errors import DataError
from ...metrics.common.storage import refuse_pointer

_SCHEME = "parquet:"
# Photographs of a megabyte and less.
_ROWS_AT_ONCE = 8
_BUFFER = 1 << 20


def image_address(path: Path, column: str, row: int) -> str:
    """Return the address of an image: a Parquet file, its column of images, and the row, counted from 0."""
    return f"{_SCHEME}{path}#{column}#{row}"


def is_stored(path: str | Path) -> bool:
    """Return whether a path is the address of an image in a Parquet file."""
    return str(path).startswith(_SCHEME)


def read_stored(address: str) -> bytes:
    """Return the bytes of the image at an address, which may be empty. Reads are fastest in row order."""
    path, column, row = _parts(address)
    state = path.stat()
    identity = state.st_mtime_ns, state.st_size
    starts = _starts(path, *identity)
    group = bisect.bisect_right(starts, row) - 1
    return _content(_group(path, column, group, *identity)[row - starts[group]])


def read_images(path: Path, column: str) -> Iterator[bytes]:
    """Yield the bytes of a column of images in row order, empty for a missing image.

    Raises:
        DataError: a damaged file.
    """
    with open_parquet(path) as file:
        for batch in read_batches(file, path, [column], _ROWS_AT_ONCE):
            yield from map(_content, batch.column(0))


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file without reading more into memory than is asked for.

    Raises:
        DataError: it is no Parquet file, or a damaged one.
    """
    try:
        refuse_pointer(path)
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise _damaged(path, error) from error


def read_batches(file: pq.ParquetFile, path: Path, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file in batches of rows."""
    try:
        yield from file.iter_batches(rows, columns=columns)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read as Parquet ({error}): it is damaged or something else; get it again.")


def _parts(address: str) -> tuple[Path, str, int]:
    path, column, row = address.removeprefix(_SCHEME).rsplit("#", 2)
    return Path(path), column, int(row)


def _content(cell: Any) -> bytes:
    """Return the bytes in a cell of a column of images."""
    value = cell.as_py()
    if isinstance(value, list):
        value = value[0] if value else None
    return (value or {}).get("bytes") or b""


@functools.lru_cache(4)
def _starts(path: Path, changed: int, size: int) -> list[int]:
    """Return the first row of each row group of a file, and the number of its rows."""
    metadata = open_parquet(path).metadata
    counts = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return [0, *itertools.accumulate(counts)]


@functools.lru_cache(2)  # a row may have two columns of images
def _group(path: Path, column: str, group: int, changed: int, size: int) -> pa.ChunkedArray:
    """Return a column of a row group; `changed` and `size` identify the file, in case it is replaced."""
    try:
        return open_parquet(path).read_row_group(group, columns=[column]).column(0)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
