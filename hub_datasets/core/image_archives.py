"""Photographs from the zip archives in which COCO and Visual Genome publish them, without fetching whole archives.

An archive's directory says where each file lies in it, and a request for a range of bytes gets that file alone:
SugarCrepe needs 1,560 of the 5,000 images of ``val2017.zip``. An image is kept as soon as it has arrived whole, with
the checksum (CRC-32) that the directory has for it, under ``images/<archive>`` of the cache and with that checksum in
its name. So all benchmarks share it, an interrupted build continues, and a file that has changed is fetched again. From
a server that does not know ranges the images come one by one, from the addresses at which the publisher also has them.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .downloads import DownloadError
from .source_files import ImagePaths, shortened_list

AT_ONCE = 8
TRIES = 5
SECONDS_BEFORE_RETRY = 1.0
# A photograph of a benchmark has far less than a megabyte; an archive that says otherwise is not what it should be.
MOST_BYTES = 50_000_000
_BUFFER = 1 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_SIGNATURE = b"PK\x03\x04"
_AS_IT_IS = {"Accept-Encoding": "identity"}
_WHOLE_JPEG = (b"\xff\xd8\xff", b"\xff\xd9")


@dataclass(frozen=True)
class ImageArchive:
    """An archive of images.

    Args:
        name: its folder in the cache, such as ``"coco/val2017"``.
        url: its address.
        inside: the folder of the images in it, which ends with "/".
        singly: the address, ending with "/", under which each image can also be had by its name; empty if none is
            known.
    """

    name: str
    url: str
    inside: str
    singly: str = ""

    @property
    def folder(self) -> Path:
        """Where its images are kept."""
        return images_folder() / self.name


COCO_VAL2017 = ImageArchive(
    "coco/val2017",
    "http://images.cocodataset.org/zips/val2017.zip",
    "val2017/",
    "http://images.cocodataset.org/val2017/",
)
COCO_VAL2014 = ImageArchive(
    "coco/val2014",
    "http://images.cocodataset.org/zips/val2014.zip",
    "val2014/",
    "http://images.cocodataset.org/val2014/",
)
_STANFORD = "https://cs.stanford.edu/people/rak248"
# Their names are numbers that are unique over both.
VISUAL_GENOME = tuple(
    ImageArchive(f"visual_genome/{part}", f"{_STANFORD}/VG_100K_2/{file}", f"{part}/", f"{_STANFORD}/{part}/")
    for part, file in (("VG_100K", "images.zip"), ("VG_100K_2", "images2.zip"))
)


def images_folder() -> Path:
    """Where fetched images are kept: ``images`` in ``VL_ASSAY_CACHE``, by default ``vl_assay`` in the HF home."""
    from huggingface_hub.constants import HF_HOME

    return Path(os.environ.get("VL_ASSAY_CACHE", Path(HF_HOME) / "vl_assay")).expanduser() / "images"


def fetch_images(names: Iterable[str], archives: Sequence[ImageArchive], remedy: str) -> ImagePaths:
    """The paths of images, those fetched that are not kept yet.

    Args:
        names: the names of their files, without a folder.
        archives: where they are looked for, in this order.
        remedy: what else the user can do if an archive cannot be reached, for messages.

    Returns:
        By name the path; None for an image that no archive has.

    Raises:
        DownloadError: an archive cannot be reached, was moved, or sends something else than it says; what has arrived
            is kept, and the next call continues.
    """
    found = kept_images(names, archives)
    for archive in archives:
        missing = [name for name, path in found.items() if path is None]
        if missing:
            with _as_download_errors(archive, remedy):
                found |= _fetch(archive, missing)
    return found


def kept_images(names: Iterable[str], archives: Sequence[ImageArchive]) -> ImagePaths:
    """The paths of images that were fetched before; None for the others."""
    found: ImagePaths = dict.fromkeys(names)
    for archive in archives:
        paths = _kept(archive)
        found |= {name: str(paths[name]) for name in found if found[name] is None and _is_whole(paths.get(name))}
    return found


def _kept(archive: ImageArchive) -> dict[str, Path]:
    """The files that were fetched from an archive, by the names of their images."""
    try:
        files = list(os.scandir(archive.folder))
    except OSError:
        return {}
    return {file.name.split(".", 1)[1]: Path(file.path) for file in files if not file.name.startswith(".")}


def _is_whole(path: Path | None) -> bool:
    """Whether a kept file has the checksum that its name begins with."""
    if path is None:
        return False
    try:
        return f"{zlib.crc32(path.read_bytes()):08x}" == path.name.split(".", 1)[0]
    except OSError:
        return False


def _keep(archive: ImageArchive, name: str, content: bytes) -> str:
    """Write an image, complete or not at all; its path."""
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
    remote = _RemoteFile(archive.url)
    if not remote.has_ranges:
        if not archive.singly:
            raise ValueError("the server does not send parts of it, and has no single images")
        return _in_parallel(archive, names, lambda name: _single(archive.singly + name))
    with remote, zipfile.ZipFile(io.BufferedReader(remote, _BUFFER)) as directory:
        members = {info.filename: info for info in directory.infolist()}
        starts = sorted(info.header_offset for info in members.values())
        ends = dict(zip(starts, [*starts[1:], directory.start_dir], strict=True))
    inside = {name: members[archive.inside + name] for name in names if archive.inside + name in members}
    if large := [name for name, info in inside.items() if info.file_size > MOST_BYTES]:
        raise ValueError(f"it has files of more than {MOST_BYTES:,} bytes: {shortened_list(large)}")

    def member(name: str) -> bytes:
        info = inside[name]
        return _unpacked(remote.part(info.header_offset, ends[info.header_offset]), info)

    return _in_parallel(archive, list(inside), member)


def _in_parallel(archive: ImageArchive, names: Sequence[str], get: Callable[[str], bytes | None]) -> ImagePaths:
    """Fetch images by several threads, and keep each when it has arrived; at the first failure the others stop."""
    from huggingface_hub.utils import tqdm

    def fetch(name: str) -> str | None:
        content = get(name)
        return None if content is None else _keep(archive, name, content)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = {pool.submit(fetch, name): name for name in names}
        try:
            done = tqdm(as_completed(waiting), desc=f"images of {archive.name}", total=len(waiting), unit="image")
            return {waiting[future]: future.result() for future in done}
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _unpacked(part: bytes, info: zipfile.ZipInfo) -> bytes:
    """The content of a member, from the bytes between its header and the next.

    Raises:
        ValueError: they are something else than the directory says.
    """
    signature, name, extra = _LOCAL_HEADER.unpack_from(part) if len(part) >= _LOCAL_HEADER.size else (b"", 0, 0)
    start = _LOCAL_HEADER.size + name + extra
    packed = part[start : start + info.compress_size]
    content = b""
    if signature == _SIGNATURE and info.compress_type == zipfile.ZIP_STORED:
        content = packed
    elif signature == _SIGNATURE and info.compress_type == zipfile.ZIP_DEFLATED:
        try:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, info.file_size + 1)
        except zlib.error as error:
            raise ValueError(f"{info.filename} in it is damaged ({error})") from error
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise ValueError(
            f"{info.filename} in it has checksum {zlib.crc32(content):08x} and {len(content):,} bytes, but its "
            f"directory says {info.CRC:08x} and {info.file_size:,}: it is damaged, or changed meanwhile"
        )
    return content


def _single(url: str) -> bytes | None:
    """A single image; None if the server has none of that name."""
    response = _get(url)
    if response.status_code in (404, 410):
        return None
    response.raise_for_status()
    start, end = _WHOLE_JPEG
    content: bytes = response.content
    if not (content.startswith(start) and content.rstrip(b"\0").endswith(end)):
        raise ValueError(f"{url} is not a whole JPEG file; it starts with {content[:16]!r}")
    return content


def _get(url: str, **headers: str) -> Any:
    """The response to a request, which is repeated while the server is busy or the connection breaks."""
    from huggingface_hub.utils import http_backoff

    return http_backoff("GET", url, headers={**_AS_IT_IS, **headers}, **_repeated())


def _repeated() -> dict[str, Any]:
    return {"follow_redirects": True, "max_retries": TRIES - 1, "base_wait_time": SECONDS_BEFORE_RETRY}


class _RemoteFile(io.RawIOBase):
    """A file on a server of which parts are read, as one to seek in; `part` may be called by several threads."""

    def __init__(self, url: str) -> None:
        self.url, self._place = url, 0
        # Some servers ignore a range and send all, so that the first answer is looked at before it is read.
        self.size, self.has_ranges = _size(url)

    def part(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`.

        Raises:
            ValueError: the server sent something else, or the file has another size by now.
        """
        response = _get(self.url, Range=f"bytes={start}-{end - 1}")
        response.raise_for_status()
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        content: bytes = response.content
        if response.status_code != 206 or len(content) != end - start or total != str(self.size):
            raise ValueError(
                f"asked for {end - start:,} bytes of {self.size:,}, the server sent {len(content):,} of {total or '?'} "
                f"(status {response.status_code}): the archive changed meanwhile, or the server is faulty"
            )
        return content

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        end = min(self._place + len(buffer), self.size)
        content = self.part(self._place, end) if end > self._place else b""
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def _size(url: str) -> tuple[int, bool]:
    """The size of a file on a server, and whether the server sends ranges of it; reads none of its content."""
    from huggingface_hub.utils import http_stream_backoff

    with http_stream_backoff("GET", url, headers={**_AS_IT_IS, "Range": "bytes=0-0"}, **_repeated()) as response:
        response.raise_for_status()
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        return (int(total), True) if response.status_code == 206 and total.isdigit() else (0, False)


@contextmanager
def _as_download_errors(archive: ImageArchive, remedy: str) -> Iterator[None]:
    """Failures as a `DownloadError` that names the archive, but for those of the own disk."""
    try:
        yield
    except Exception as error:  # the HTTP libraries have no common class of errors, and some of theirs are OSErrors
        if isinstance(error, OSError) and error.filename:
            raise
        raise DownloadError(archive.url, error, remedy) from error
