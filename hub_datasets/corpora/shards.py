"""Shards of a corpus, Parquet or WebDataset: finding them, and reading their captions and images in batches.

A WebDataset shard is a ``.tar`` whose consecutive members with one name, up to the first dot of the last part, are a
row: ``.txt`` is its caption, ``.json`` has its other columns, and a file of an image is its image.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ...metrics.common.errors import DataError

SUFFIXES = (".parquet", ".tar")
ROWS_AT_ONCE = 4096
_IMAGES_AT_ONCE = 64
_IMAGE_SUFFIXES = ("bmp", "gif", "jpeg", "jpg", "png", "ppm", "tif", "tiff", "webp")
# A member or a cell of a shard may have so many bytes.
_MOST_BYTES = {"image": 1 << 26, "text": 1 << 20}
# What a file system tells of a file's version: the Hub, object stores, a disk.
_VERSIONS = ("blob_id", "ETag", "etag", "mtime", "created")


class CorpusShard(NamedTuple):
    """A shard by its path or address, and what changes when the file does."""

    path: str
    version: str

    @property
    def name(self) -> str:
        """A file name that no other path has."""
        return f"{PurePosixPath(self.path).stem}-{hashlib.sha256(self.path.encode()).hexdigest()[:8]}"


class Batch(NamedTuple):
    """Consecutive rows of a shard.

    Attributes:
        first: the number of the first row in the shard.
        texts: for each column that was asked for, the text of each row; None where there is none.
        images: the image file of each row; None where there is none, and empty if images were not asked for.
    """

    first: int
    texts: dict[str, list[str | None]]
    images: list[bytes | None]


def find_shards(patterns: Sequence[str]) -> list[CorpusShard]:
    """The shards that paths, globs and folders name, on this machine or at any address of fsspec (``hf://``).

    Raises:
        DataError: nothing is there, a file is neither Parquet nor tar, a folder has both, or it cannot be reached.
    """
    found: dict[str, CorpusShard] = {}
    for pattern in patterns:
        for path, info in _matching(pattern):
            version = next((f"{key} {info[key]}" for key in _VERSIONS if info.get(key) is not None), "")
            found[path] = CorpusShard(path, f"{info['size']} bytes, {version}")
    return [found[path] for path in sorted(found)]


def _matching(pattern: str) -> list[tuple[str, dict[str, Any]]]:
    import fsspec

    try:
        fs, path = fsspec.url_to_fs(pattern)
        if is_folder := fs.isdir(path):
            infos = [info for info in fs.find(path, detail=True).values() if info["name"].endswith(SUFFIXES)]
        else:
            infos = [fs.info(name) for name in (fs.glob(path) if any(sign in path for sign in "*?[") else [path])]
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"cannot open {pattern}: {error or type(error).__name__}; check the path or address") from error
    if is_folder and len({PurePosixPath(info["name"]).suffix for info in infos}) > 1:
        raise DataError(
            f"{pattern} has Parquet and tar shards, which may be the same rows; give one kind, such as "
            f"'{pattern.rstrip('/')}/*.tar'"
        )
    if not infos:
        raise DataError(f"{pattern} names no shards; give .parquet or .tar files, a folder of them, or a glob")
    local = "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)
    paths = [str(info["name"]) if local else str(fs.unstrip_protocol(info["name"])) for info in infos]
    if odd := [each for each in paths if not each.endswith(SUFFIXES)]:
        raise DataError(f"{odd[0]} is no shard; give files that end in {' or '.join(SUFFIXES)}")
    return list(zip(paths, infos, strict=True))


def read_batches(shard: CorpusShard, columns: dict[str, str], image: str | None = None) -> Iterator[Batch]:
    """The rows of a shard, in their order, with bounded memory.

    Args:
        shard: from `find_shards`.
        columns: for each name in `Batch.texts` the column of the shard.
        image: the column of the images, bytes or ``{"bytes": …}``; of a tar any image is taken. None: not read.

    Raises:
        DataError: the shard is damaged, or lacks a column.
    """
    import fsspec
    import pyarrow as pa

    read = _read_parquet if shard.path.endswith(".parquet") else _read_tar
    try:
        with fsspec.open(shard.path, "rb") as file:
            yield from read(file, columns, image)  # pyright: ignore[reportArgumentType]
    except (OSError, ValueError, EOFError, pa.ArrowException, tarfile.TarError) as error:
        raise DataError(str(error) or type(error).__name__) from error


def _read_parquet(file: BinaryIO, columns: dict[str, str], image: str | None) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    first = 0
    with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as parquet:
        wanted = [*columns.values(), *([image] if image else [])]
        names = parquet.schema_arrow.names
        if lacking := [column for column in wanted if column not in names]:
            raise DataError(f"it has no column {lacking[0]!r}; it has {', '.join(names)}. Name it with --column")
        size = _IMAGES_AT_ONCE if image else ROWS_AT_ONCE
        for part in parquet.iter_batches(size, columns=list(dict.fromkeys(wanted)), use_threads=False):
            texts = {
                ours: [_text(cell, theirs) for cell in part[theirs].to_pylist()] for ours, theirs in columns.items()
            }
            yield Batch(first, texts, [_file(cell) for cell in part[image].to_pylist()] if image else [])
            first += part.num_rows


def _text(cell: Any, column: str) -> str | None:
    if cell is not None and not isinstance(cell, str):
        raise DataError(f"column {column!r} holds {type(cell).__name__}, not text; name another with --column")
    return _bounded(cell, "text")


def _file(cell: Any) -> bytes | None:
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if content is not None and not isinstance(content, bytes):
        raise DataError(f"the images are {type(content).__name__}, not files; name another column with --column image=")
    return _bounded(content, "image")


def _bounded(content: Any, kind: str) -> Any:
    if content is not None and len(content) > _MOST_BYTES[kind]:
        raise DataError(f"{kind} of {len(content):,} bytes; {_MOST_BYTES[kind]:,} are allowed")
    return content


def _read_tar(file: BinaryIO, columns: dict[str, str], image: str | None) -> Iterator[Batch]:
    size, first = _IMAGES_AT_ONCE if image else ROWS_AT_ONCE, 0
    rows: list[dict[str, Any]] = []
    for row in _samples(file, image is not None):
        rows.append(row)
        if len(rows) == size:
            yield _batch(first, rows, columns, image)
            first, rows = first + size, []
    if rows:
        yield _batch(first, rows, columns, image)


def _batch(first: int, rows: list[dict[str, Any]], columns: dict[str, str], image: str | None) -> Batch:
    texts = {ours: [_text(row.get(theirs), theirs) for row in rows] for ours, theirs in columns.items()}
    return Batch(first, texts, [row.get("") for row in rows] if image else [])


def _samples(file: BinaryIO, with_images: bool) -> Iterator[dict[str, Any]]:
    """The columns of each row of a tar; the image's name is empty."""
    with tarfile.open(fileobj=file, mode="r:") as archive:
        last, row = None, {}
        while (member := archive.next()) is not None:
            archive.members = []  # pyright: ignore[reportAttributeAccessIssue] (tarfile would keep all)
            if not member.isfile():
                continue
            folder, _, name = member.name.rpartition("/")
            key, _, suffix = name.partition(".")
            if last not in (None, (folder, key)):
                yield row
                row = {}
            last, suffix = (folder, key), suffix.lower()
            kind = "image" if suffix in _IMAGE_SUFFIXES else "text"
            if suffix not in ("txt", "json") and not (kind == "image" and with_images):
                continue
            if member.size > _MOST_BYTES[kind]:
                raise DataError(f"{member.name} has {member.size:,} bytes; {_MOST_BYTES[kind]:,} are allowed")
            content = archive.extractfile(member).read()  # pyright: ignore[reportOptionalMemberAccess]
            row |= _columns(suffix, content)
        # After a damaged header tarfile ends as if the archive did.
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
            raise DataError(f"damaged at byte {archive.offset:,}")
        if last is not None:
            yield row


def _columns(suffix: str, content: bytes) -> dict[str, Any]:
    if suffix == "txt":
        return {"caption": content.decode().strip()}
    if suffix == "json":
        found = json.loads(content)
        if not isinstance(found, dict):
            raise DataError("a .json member is no object; it should have the columns of a row")
        return {key: value for key, value in found.items() if key}
    return {"": content}
