"""The content keys of a dataset's images, computed once and cached, so that later loads read no image for them.

Images stay in the dataset's memory-mapped files; a process reads only the images that it scores, one at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...metrics.common.errors import StorageError
from ...metrics.common.storage import write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

# The key of an image that is not there.
MISSING = ""
_ROWS_AT_ONCE, _ROWS_OF_A_THREAD = 200, 25


class ImageKey(NamedTuple):
    """The content key of an image (`MISSING` without an image) and the name of its file."""

    key: str
    name: str


NO_IMAGE = ImageKey(MISSING, "")


def content_key(content: bytes | pa.Buffer) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 of an image's file."""
    return hashlib.sha256(content).hexdigest()[:32]


def image_keys(dataset: Any, columns: Sequence[str], folder: Path, identity: Sequence[Any]) -> list[list[ImageKey]]:
    """Return the keys of all images of a dataset, one list a row, in the order of the columns.

    Args:
        dataset: a `datasets.Dataset` whose image columns are not decoded.
        columns: its image columns.
        folder: where keys are cached.
        identity: identifies the dataset in the cache; without it nothing is cached.
    """
    if not columns:
        return [[] for _ in range(len(dataset))]
    digest = hashlib.sha256(json.dumps([identity, list(columns)]).encode()).hexdigest()[:32]
    path = folder / f"{digest}.json"
    kept = _read(path, (len(dataset), len(columns), 2)) if identity else None
    if kept is not None:
        return kept
    keys = list(_rows(dataset, columns))
    if identity:
        with suppress(StorageError):  # a cache only
            write_atomically(path, json.dumps(keys).encode())
    return keys


def _read(path: Path, shape: tuple[int, int, int]) -> list[list[ImageKey]] | None:
    """Return the cached keys; None without a cache, or if it is damaged."""
    with suppress(OSError, ValueError):
        kept = np.array(json.loads(path.read_bytes()), dtype=object)
        if kept.shape == shape and all(isinstance(text, str) for text in kept.flat):
            return [[ImageKey(*image) for image in row] for row in kept.tolist()]
    return None


def _rows(dataset: Any, columns: Sequence[str]) -> Iterator[list[ImageKey]]:
    """Yield the keys of each row; hashing releases the interpreter's lock, so threads share the work."""
    columns_only = dataset.select_columns(list(columns)).with_format("arrow")
    with ThreadPoolExecutor() as pool:
        for table in columns_only.iter(batch_size=_ROWS_AT_ONCE):
            parts = [table.slice(start, _ROWS_OF_A_THREAD) for start in range(0, len(table), _ROWS_OF_A_THREAD)]
            yield from chain.from_iterable(pool.map(_keys, parts))


def _keys(table: pa.Table) -> list[list[ImageKey]]:
    """Return the keys of the files in a table, without copying their bytes."""
    keys = []
    for row in zip(*table.columns, strict=True):
        files = [(image["bytes"].as_buffer(), image["path"].as_py()) for image in row]
        keys.append([NO_IMAGE if f is None else ImageKey(content_key(f), Path(path or "").name) for f, path in files])
    return keys
