"""From shard to shard: read the rows of a training set, and write one Parquet file for each of its shards.

Shards are Parquet files or WebDataset tars. In a tar, consecutive members with the same name up to its first dot form a
row: ``.txt`` is the caption, and an image file is the image.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib.metadata import version
from itertools import groupby, islice
from multiprocessing import get_context
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ...metrics.common.errors import DataError, StorageError
from ...metrics.common.storage import replacing
from ...metrics.common.user_files import is_left_behind
from ..core.ray_cluster import run_tasks

_IMAGE_SUFFIXES = ("bmp", "gif", "jpeg", "jpg", "png", "ppm", "tif", "tiff", "webp")
_MAX_BYTES = {"image": 1 << 26, "text": 1 << 20}
# Entries of a file's fsspec info that change with its content: on the Hub, in object stores, on a disk.
_VERSION_KEYS = ("blob_id", "ETag", "etag", "mtime", "created")
_METADATA_KEY, _FORMAT = b"vl_assay", 2
# A caption and an image file, each None if missing.
Row = tuple[str | None, bytes | None]


class Step(NamedTuple):
    """A computation on the rows of one shard.

    Attributes:
        process: yields the rows of the output, and adds to the counts; pickled to worker processes.
        schema: the Arrow schema of the output.
        settings: everything else that the output depends on, as JSON values.
        caption, image: the columns of the shard, as in `read_rows`.
    """

    process: Callable[[Iterator[Row], Counter[str]], Iterator[dict[str, Any]]]
    schema: Any
    settings: Mapping[str, Any]
    caption: str
    image: str | None = None


class ShardOutcome(NamedTuple):
    """The output file of a shard and its counts, or the `problem` with it; `is_kept` if an earlier run wrote it."""

    shard: str
    file: Path
    counts: Mapping[str, int]
    problem: str = ""
    is_kept: bool = False


def find_shards(patterns: Sequence[str]) -> dict[str, str]:
    """Find the shards that paths, globs and folders name, local or at any fsspec address such as ``hf://``.

    Returns:
        The path or address of each shard, in order, with a text that changes when the file does.

    Raises:
        DataError: nothing matches, a file is neither Parquet nor tar, a folder has both, or it cannot be reached.
    """
    import fsspec

    shards = {}
    for pattern in patterns:
        try:
            fs, path = fsspec.url_to_fs(pattern)
            is_folder = fs.isdir(path)
            names = fs.find(path) if is_folder else fs.glob(path) if any(sign in path for sign in "*?[") else [path]
            if is_folder:
                names = [name for name in names if name.endswith((".parquet", ".tar"))]
                names = [n for n in names if not is_left_behind(PurePosixPath(n.removeprefix(path).lstrip("/")))]
            infos = [fs.info(name) for name in names]
        except (OSError, ValueError, ImportError) as error:
            raise DataError(f"cannot open {pattern}: {error or type(error).__name__}; check the address") from error
        suffixes = {PurePosixPath(info["name"]).suffix for info in infos}
        if not infos or suffixes - {".parquet", ".tar"}:
            raise DataError(f"{pattern} names no shards; give .parquet or .tar files, a folder of them, or a glob")
        if is_folder and len(suffixes) > 1:  # img2dataset writes the captions of a tar to a Parquet file as well
            raise DataError(f"{pattern} has Parquet and tar shards, perhaps of the same rows; give '{pattern}/*.tar'")
        for info in infos:
            path = fs.unstrip_protocol(info["name"]).removeprefix("file://")
            changing = (f"{key} {info[key]}" for key in _VERSION_KEYS if info.get(key) is not None)
            shards[path] = f"{info['size']} bytes, {next(changing, '')}"
    return dict(sorted(shards.items()))


def read_rows(shard: str, caption: str, image: str | None = None) -> Iterator[Row]:
    """Yield the rows of a shard in order, in bounded memory.

    Args:
        shard: its path or address.
        caption: the Parquet column of the captions.
        image: the Parquet column of the images, bytes or ``{"bytes": …}``; None if images are not read.

    Raises:
        DataError: the shard is damaged, has no such column, or a cell of another type or of too many bytes.
    """
    import fsspec
    import pyarrow as pa

    try:
        with fsspec.open(shard, "rb") as file:
            yield from _read_tar(file, image) if shard.endswith(".tar") else _read_parquet(file, caption, image)
    except (OSError, ValueError, EOFError, pa.ArrowException, tarfile.TarError) as error:
        raise DataError(str(error) or type(error).__name__) from error


def _read_parquet(file: Any, caption: str, image: str | None) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False) as parquet:
        columns, names = [caption, image] if image else [caption], parquet.schema_arrow.names
        if missing := [column for column in columns if column not in names]:
            raise DataError(f"it has no column {missing[0]!r}; it has {', '.join(names)}. Name it with --column")
        for batch in parquet.iter_batches(64 if image else 4096, columns=columns, use_threads=False):
            images = batch[image].to_pylist() if image else [None] * batch.num_rows
            for text, content in zip(batch[caption].to_pylist(), images, strict=True):
                content = content.get("bytes") if isinstance(content, dict) else content
                for kind, cell, type_ in (("text", text, str), ("image", content, bytes)):
                    if not isinstance(cell, type_ | None):
                        type_name = type(cell).__name__
                        raise DataError(f"a cell holds {type_name}, not {kind}; name another column with --column")
                    _check_size(kind, len(cell or ""))
                yield text, content


def _check_size(kind: str, size: int) -> None:
    if size > _MAX_BYTES[kind]:
        raise DataError(f"{kind} of {size:,} bytes; {_MAX_BYTES[kind]:,} are allowed")


def _read_tar(file: Any, image: str | None) -> Iterator[Row]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for _, members in groupby(_members(archive), lambda member: member[0]):
            row = {}
            for _, suffix, member in members:
                kind = "text" if suffix == "txt" else "image" if image and suffix in _IMAGE_SUFFIXES else ""
                if kind:
                    _check_size(kind, member.size)
                    row[kind] = archive.extractfile(member).read()  # pyright: ignore[reportOptionalMemberAccess]
            yield row["text"].decode().strip() if "text" in row else None, row.get("image")
        # tarfile takes a damaged header for the end of the archive.
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
            raise DataError(f"damaged at byte {archive.offset:,}")


def _members(archive: tarfile.TarFile) -> Iterator[tuple[str, str, tarfile.TarInfo]]:
    """Yield the files of a tar with the part of their name that a row's files share, and their suffix."""
    while (member := archive.next()) is not None:
        archive.members = []  # pyright: ignore[reportAttributeAccessIssue] (tarfile would keep all)
        folder, _, name = member.name.rpartition("/")
        key, _, suffix = name.partition(".")
        if member.isfile() and not is_left_behind(PurePosixPath(member.name)):
            yield f"{folder}/{key}", suffix.lower(), member


def run(
    shards: Mapping[str, str], step: Step, out: Path, *, workers: int = 1, on_ray: bool = False
) -> Iterator[ShardOutcome]:
    """Write the output of each shard to ``out/shards``, and yield the outcomes as they come.

    Args:
        shards: from `find_shards`; a damaged one does not stop the others.
        step: computes the outputs.
        out: a folder, which several machines may share.
        workers: the number of processes on this machine.
        on_ray: use a Ray cluster instead; see `run_tasks`, also for errors.

    Raises:
        StorageError: an output could not be written.
        DataError: a process was killed, for example for lack of memory.
    """
    shared = step, (out / "shards").absolute()
    if on_ray:
        yield from run_tasks(process_shard, shards.items(), *shared)
        return
    if workers == 1:
        yield from (process_shard(shard, *shared) for shard in shards.items())
        return
    # Spawned: a forked process could inherit a lock that a thread of this one holds.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        for future in as_completed([pool.submit(process_shard, shard, *shared) for shard in shards.items()]):
            yield future.result()
    except BrokenProcessPool as error:
        reason = "a process was killed, perhaps for lack of memory"
        raise DataError(f"{reason}; run the same command again with fewer --workers") from error
    finally:
        pool.shutdown(cancel_futures=True)


def process_shard(shard: tuple[str, str], step: Step, folder: Path) -> ShardOutcome:
    """Write the output of a path and its version, complete or not at all; raise `StorageError` if that fails.

    An output is kept if its metadata record the same shard, settings and version of this package.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, counts = shard[0], Counter()
    digest = hashlib.sha256(path.encode()).hexdigest()[:8]
    file = folder / f"{PurePosixPath(path).stem}-{digest}.parquet"
    code = f"{version('vl-assay')}.{_FORMAT}"
    identity = json.loads(json.dumps([shard, step.caption, step.image, step.settings, code]))
    with suppress(OSError, KeyError, ValueError, pa.ArrowException):  # missing, damaged, or another program's file
        record = json.loads((pq.read_metadata(file).metadata or {})[_METADATA_KEY])
        if record["identity"] == identity:
            return ShardOutcome(path, file, record["counts"], is_kept=True)
    try:
        with replacing(file) as target, pq.ParquetWriter(target, step.schema, compression="zstd") as writer:
            rows = step.process(read_rows(path, step.caption, step.image), counts)
            while batch := list(islice(rows, 1 << 16)):
                writer.write_table(pa.Table.from_pylist(batch, step.schema))
            writer.add_key_value_metadata({_METADATA_KEY: json.dumps({"identity": identity, "counts": counts})})
    except StorageError:
        raise
    except Exception as error:  # whatever one row triggers must not stop the other shards
        reason = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
        return ShardOutcome(path, file, {}, problem=reason)
    return ShardOutcome(path, file, counts)
