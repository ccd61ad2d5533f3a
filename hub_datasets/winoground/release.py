"""The release of Winoground: the layouts of its files, on the Hub and in a user's copy, and its examples."""

from __future__ import annotations

import functools
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ..core.source_files import Row, check_rows, first_file, is_file_name, read_bytes

REPOSITORY = "facebook/winoground"
PAGE = f"https://huggingface.co/datasets/{REPOSITORY}"
ROWS = 400
CATEGORIES = ("Object", "Relation", "Both")
PARQUET = "data/test-*.parquet"
EXAMPLES = "data/examples.jsonl"
ARCHIVE = "data/images.zip"

_TEXTS = ("caption_0", "caption_1", "tag", "secondary_tag", "collapsed_tag")
_SCHEMA = {"id": int, "num_main_preds": int, **dict.fromkeys(_TEXTS, str)}
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.parquet$")
# Photographs of a megabyte and less: memory stays flat.
_ROWS_AT_ONCE = 8

Files = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Release:
    """The files of a copy: Parquet with everything, or one of texts with a folder or an archive of images.

    Args:
        tables: the Parquet files, in order; empty where the copy is of the other layout.
        examples: the file of texts, or None.
        images: the folder or archive of images, or None where there is neither.
    """

    tables: tuple[Path, ...] = ()
    examples: Path | None = None
    images: Path | None = None


def find_release(folder: Path) -> Release | None:
    """The files of a copy in `folder`, or in `data` there; None if there are none.

    ValueError if some of several Parquet files are missing.
    """
    for place in (folder / "data", folder):
        tables = sorted(path for path in place.glob("test-*.parquet") if path.is_file())
        if tables:
            _check_shards(tables)
            return Release(tables=tuple(tables))
        if (place / "examples.jsonl").is_file():
            candidates = (place / "images", place / "images.zip")
            images = next((path for path in candidates if path.exists()), None)
            return Release(examples=place / "examples.jsonl", images=images)
    return None


def _check_shards(tables: list[Path]) -> None:
    numbers = [match.groups() for path in tables if (match := _SHARD.search(path.name))]
    expected = int(numbers[0][1]) if numbers else len(tables)
    if len(tables) != expected:
        raise ValueError(
            f"{tables[0].parent} holds {len(tables)} of {expected} Parquet files: {', '.join(p.name for p in tables)}. "
            f"Get all from {PAGE}, and remove those of other versions."
        )


def read_rows(release: Release, *, verify: bool) -> dict[str, Row]:
    """The columns of each example that need no image, by its number, in the order of the files.

    ValueError names the file and the row, counted from 0, that is malformed; with `verify` also if there are other
    examples than in the release, or other collapsed tags.
    """
    rows: dict[str, Row] = {}
    for path, number, record in _records(release):
        problem = functools.partial(_problem, record, verify=verify)
        [row] = check_rows([(f"row {number}", record)], _SCHEMA, str(path), problem)
        if str(row["id"]) in rows:
            raise ValueError(f"{path}, row {number}: id {row['id']} occurs twice.")
        rows[str(row["id"])] = {
            "category": row["collapsed_tag"],
            "filename_0": _filename(record, "0"),
            "filename_1": _filename(record, "1"),
            **{name: row[name] for name in ("caption_0", "caption_1", "tag", "secondary_tag", "num_main_preds")},
        }
    source = release.examples or release.tables[0].parent
    if not rows or (verify and set(rows) != {str(number) for number in range(ROWS)}):
        raise ValueError(
            f"{source} holds {len(rows)} examples, but the release has {ROWS}, numbered from 0. It is damaged or of "
            f"another release: get it from {PAGE}, or pass verify=False to accept another number."
        )
    return rows


def _records(release: Release) -> Iterator[tuple[Path, int, Any]]:
    for path in release.tables:
        with _parquet(path) as file:
            names = [*_SCHEMA, "image_0.path", "image_1.path"]
            table = file.read(columns=[name for name in names if name.split(".")[0] in file.schema_arrow.names])
        for number, record in enumerate(table.to_pylist()):
            yield path, number, record
    if release.examples is not None:
        try:
            lines = read_bytes(release.examples).decode("utf-8").split("\n")
            for number, line in enumerate(line for line in lines if line.strip()):
                yield release.examples, number, json.loads(line)
        except ValueError as error:
            raise ValueError(f"{release.examples} is not a JSON-lines file: {error}. Get it from {PAGE}.") from error


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise ValueError(f"{path} is not a Parquet file: {error}. Get it from {PAGE}.") from error


def _problem(record: Row, _: Row, *, verify: bool) -> str | None:
    negative = [name for name in ("id", "num_main_preds") if record[name] < 0]
    empty = [name for name in ("caption_0", "caption_1", "collapsed_tag") if not record[name]]
    lost = [side for side in "01" if not _names_a_file(record, f"image_{side}")]
    if lost:
        return f"image_{lost[0]} {record.get(f'image_{lost[0]}')!r} names no file"
    if verify and record["collapsed_tag"] not in CATEGORIES:
        return f"collapsed_tag is {record['collapsed_tag']!r}, not one of {', '.join(CATEGORIES)}"
    return f"{(negative + empty)[0]} is empty or negative" if negative + empty else None


def _names_a_file(record: Row, column: str) -> bool:
    """Whether an image is a name, as in the file of texts, or of Parquet."""
    value = record.get(column, "")
    return value is None or isinstance(value, dict) or (isinstance(value, str) and is_file_name(value))


def _filename(record: dict[str, Any], side: str) -> str:
    """The name of an image's file: of a text, that and ".png"; in Parquet its path, or else the name it has there."""
    value = record[f"image_{side}"]
    if isinstance(value, str):
        return f"{value}.png"
    path = (value or {}).get("path") or f"ex_{record['id']}_img_{side}.png"
    return str(path).replace("\\", "/").rsplit("/", 1)[-1]


def read_images(release: Release, rows: Iterable[Row]) -> Iterator[Files]:
    """The files of both images of each example, in the order of `rows`, None for one that is missing or empty."""
    for path in release.tables:
        with _parquet(path) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["image_0", "image_1"]):
                for record in batch.to_pylist():
                    first, second = ((record[f"image_{side}"] or {}).get("bytes") for side in "01")
                    yield first or None, second or None
    if release.examples is None:
        return
    with _image_reader(release.images) as read:
        for row in rows:
            yield read(row["filename_0"]), read(row["filename_1"])


@contextmanager
def _image_reader(place: Path | None) -> Iterator[Callable[[str], bytes | None]]:
    """A function that reads images by their names, in a folder, in the archive wherever it has them, or nowhere."""
    if place is None or place.is_dir():
        # An archive that was unpacked as a whole has its own folder inside.
        folders = [] if place is None else [place, place / "images"]
        yield lambda name: read_bytes(path) if (path := first_file(folder / name for folder in folders)) else None
        return
    try:
        archive = zipfile.ZipFile(place)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{place} is not a zip archive: {error}. Get it from {PAGE}.") from error
    with archive:
        members = {name.rsplit("/", 1)[-1]: name for name in reversed(archive.namelist())}
        yield lambda name: (archive.read(members[name]) or None) if name in members else None
