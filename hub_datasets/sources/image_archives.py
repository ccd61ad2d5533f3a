"""Photographs from the zip archives in which COCO and Visual Genome publish them, without fetching whole archives.

An archive's directory lists the position of each file, and a request for a range of bytes fetches one file:
SugarCrepe needs 1,560 of the 5,000 images of ``val2017.zip``. An image is kept as soon as it has arrived whole, with
the checksum (CRC-32) that the directory has for it, under ``images/<archive>`` of the cache and with that checksum in
its name. So all benchmarks share it, an interrupted build continues, and a file that has changed is fetched again.
"""

from __future__ import annotations

import io
import secrets
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec.spec import AbstractBufferedFile

from ..core.repository import cache_folder
from .downloads import DownloadError
from .records import shortened_list
from .source_files import ImagePaths

AT_ONCE = 8
TRIES = 5
SECONDS_BEFORE_RETRY = 1.0
# A benchmark's photograph has far less than a megabyte; an archive with a larger entry is damaged or the wrong one.
MOST_BYTES = 50_000_000
_BUFFER = 1 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_SIGNATURE = b"PK\x03\x04"


@dataclass(frozen=True)
class ImageArchive:
    """An archive of images.

    Args:
        name: its folder in the cache, such as ``"coco/val2017"``.
        url: its address.
        inside: the folder of the images in it, which ends with "/".
    """

    name: str
    url: str
    inside: str

    @property
    def folder(self) -> Path:
        """The folder of its images."""
        return images_folder() / self.name


_COCO = "http://images.cocodataset.org"
COCO_VAL2014, COCO_VAL2017 = (
    ImageArchive(f"coco/{name}", f"{_COCO}/zips/{name}.zip", f"{name}/") for name in ("val2014", "val2017")
)
_STANFORD = "https://cs.stanford.edu/people/rak248"
# Their names are numbers that are unique over both.
VISUAL_GENOME = tuple(
    ImageArchive(f"visual_genome/{folder}", f"{_STANFORD}/VG_100K_2/{file}", f"{folder}/")
    for folder, file in (("VG_100K", "images.zip"), ("VG_100K_2", "images2.zip"))
)


def images_folder() -> Path:
    """Return the folder of fetched images: ``images`` in the cache."""
    return cache_folder() / "images"


def fetch_images(names: Iterable[str], archives: Sequence[ImageArchive], remedy: str) -> ImagePaths:
    """Return the paths of images, after fetching those that are not in the cache.

    Args:
        names: the names of their files, without a folder.
        archives: where they are looked for, in this order.
        remedy: what else the user can do if an archive cannot be reached, for messages.

    Returns:
        By name the path; None for an image that no archive has.

    Raises:
        DownloadError: an archive cannot be reached, was moved, or differs from its directory; files that have arrived
            are kept, and the next call continues.
    """
    paths = _kept(names, archives)
    for archive in archives:
        missing = [name for name, path in paths.items() if path is None]
        if missing:
            try:
                paths |= _fetch(archive, missing)
            except Exception as error:  # the HTTP libraries have no common class of errors, and some are OSErrors
                if isinstance(error, OSError) and error.filename:  # an error of the local disk
                    raise
                raise DownloadError(archive.url, error, remedy) from error
    return paths


def _kept(names: Iterable[str], archives: Sequence[ImageArchive]) -> ImagePaths:
    """Return the paths of images that were fetched before and are whole; None for the others."""
    paths: ImagePaths = dict.fromkeys(names)
    for archive in archives:
        for path in archive.folder.glob("[!.]*"):
            checksum, _, name = path.name.partition(".")
            with suppress(OSError):
                if paths.get(name, "") is None and f"{zlib.crc32(path.read_bytes()):08x}" == checksum:
                    paths[name] = str(path)
    return paths


def _keep(archive: ImageArchive, name: str, content: bytes) -> str:
    """Write an image atomically; return its path."""
    path = archive.folder / f"{zlib.crc32(content):08x}.{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return str(path)


def _fetch(archive: ImageArchive, names: Sequence[str]) -> ImagePaths:
    size = _size(archive.url)
    if size is None:
        raise ValueError("the server does not send parts of it")
    remote = _RemoteFile(archive.url, size)
    with zipfile.ZipFile(remote) as directory:
        members = {info.filename: info for info in directory.infolist()}
        starts = sorted(info.header_offset for info in members.values())
        ends = dict(zip(starts, [*starts[1:], directory.start_dir], strict=True))
    inside = {name: members[archive.inside + name] for name in names if archive.inside + name in members}
    sizes = {name: (info.file_size, ends[info.header_offset] - info.header_offset) for name, info in inside.items()}
    if large := [name for name, both in sizes.items() if max(both) > MOST_BYTES]:
        raise ValueError(f"it has files of more than {MOST_BYTES:,} bytes: {shortened_list(large)}")

    def member(name: str) -> bytes:
        info = inside[name]
        return _unpacked(remote._fetch_range(info.header_offset, ends[info.header_offset]), info)

    return _in_parallel(archive, list(inside), member)


def _in_parallel(archive: ImageArchive, names: Sequence[str], get: Callable[[str], bytes]) -> ImagePaths:
    """Fetch images by several threads, and keep each when it has arrived; at the first failure the others stop."""
    from huggingface_hub.utils import tqdm

    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = {pool.submit(lambda name: _keep(archive, name, get(name)), name): name for name in names}
        try:
            done = tqdm(as_completed(waiting), desc=f"images of {archive.name}", total=len(waiting), unit="image")
            return {waiting[future]: future.result() for future in done}
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _unpacked(part: bytes, info: zipfile.ZipInfo) -> bytes:
    """Unpack a member from the bytes between its header and the next, no further than its size in the directory.

    Raises:
        ValueError: its size or checksum differs from the directory's, or it is packed by an unusual method.
    """
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # of the others nothing bounds a read
        raise ValueError(f"{info.filename} in it is packed by the method {info.compress_type}, not stored or deflated")
    signature, name, extra = _LOCAL_HEADER.unpack_from(part.ljust(_LOCAL_HEADER.size, b"\0"))
    packed = io.BytesIO(part[_LOCAL_HEADER.size + name + extra :])
    try:
        content = zipfile.ZipExtFile(packed, "r", info).read(info.file_size + 1) if signature == _SIGNATURE else b""
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{info.filename} in it is damaged ({error}), or changed meanwhile") from error
    if len(content) != info.file_size:
        raise ValueError(
            f"{info.filename} in it has {len(content):,} bytes, but its directory says {info.file_size:,}: it is "
            "damaged, or changed meanwhile"
        )
    return content


def _request(part: str) -> dict[str, Any]:
    """Return the options of a request for a part of a file, repeated if the server is busy or the connection breaks."""
    headers = {"Accept-Encoding": "identity", "Range": part}
    wait = {"max_retries": TRIES - 1, "base_wait_time": SECONDS_BEFORE_RETRY}
    return {"headers": headers, "follow_redirects": True, **wait}


class _RemoteFile(AbstractBufferedFile):
    """A file on a server of which ranges are read; `_fetch_range` may be called by several threads."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__(None, url, size=size, block_size=_BUFFER)  # pyright: ignore[reportArgumentType] (documented int)

    def _fetch_range(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`; the request is repeated while the server is busy.

        Raises:
            ValueError: the server sent something else, or the file has another size by now.
        """
        from huggingface_hub.utils import http_backoff

        response = http_backoff("GET", self.path, **_request(f"bytes={start}-{end - 1}"))
        response.raise_for_status()
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        content: bytes = response.content
        if response.status_code != 206 or len(content) != end - start or total != str(self.size):
            raise ValueError(
                f"asked for {end - start:,} bytes of {self.size:,}, the server sent {len(content):,} of {total or '?'} "
                f"(status {response.status_code}): the archive changed meanwhile, or the server is faulty"
            )
        return content


def _size(url: str) -> int | None:
    """Return the size of a file on a server, of which nothing is read; None if the server sends no ranges of it."""
    from huggingface_hub.utils import http_stream_backoff

    # Some servers ignore a range and send all, so that the status is looked at before the content is read.
    with http_stream_backoff("GET", url, **_request("bytes=0-0")) as response:
        response.raise_for_status()
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        return int(total) if response.status_code == 206 and total.isdigit() else None
