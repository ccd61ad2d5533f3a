"""The release of Winoground: how its files lie, on the Hub and in a user's copy, and what an example must be.

Like the builder, the module works as part of a script: it imports only the standard library and what `datasets` needs.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

REPOSITORY = "facebook/winoground"
PAGE = f"https://huggingface.co/datasets/{REPOSITORY}"
ROWS = 400
CATEGORIES = ("Object", "Relation", "Both")
PARQUET = "data/test-*.parquet"
EXAMPLES = "data/examples.jsonl"
ARCHIVE = "data/images.zip"

_TEXTS = ("caption_0", "caption_1", "tag", "secondary_tag", "collapsed_tag")
_NUMBERS = ("id", "num_main_preds")
_SHAPE = f"the whole numbers {', '.join(_NUMBERS)}, the texts {', '.join(_TEXTS)}, and image_0, image_1"
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.parquet$")
_NAMES_SHOWN = 5
# Photographs of a megabyte and less: memory stays flat.
_ROWS_AT_ONCE = 8

Row = dict[str, Any]
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
    """Return the files of a copy in `folder`, or in `data` there; None where there are none.

    ValueError where some of several Parquet files are missing.
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
    """Return the columns of each example that need no image, by its number, in the order of the files.

    ValueError names the file and the row, counted from 0, that is not of the documented shape; with `verify` also what
    the release does not have: another number of examples, other numbers for them, or another collapsed tag.
    """
    rows: dict[str, Row] = {}
    for path, number, record in _records(release):
        problem = _problem(record, verify=verify)
        if problem is None and str(record["id"]) in rows:
            problem = f"id {record['id']} occurs twice"
        if problem:
            raise ValueError(f"{path}, row {number}: {problem}. Expected {_SHAPE}.")
        rows[str(record["id"])] = {
            "category": record["collapsed_tag"],
            "filename_0": _filename(record, "0"),
            "filename_1": _filename(record, "1"),
            **{name: record[name] for name in ("caption_0", "caption_1", "tag", "secondary_tag", "num_main_preds")},
        }
    source = release.examples or release.tables[0].parent
    if verify and set(rows) != {str(number) for number in range(ROWS)}:
        raise ValueError(
            f"{source} holds {len(rows)} examples, but the release has {ROWS}, numbered from 0. It is damaged or of "
            f"another release: get it from {PAGE}, or pass verify=False to accept it."
        )
    if not rows:
        raise ValueError(f"{source} holds no example. Get it from {PAGE}.")
    return rows


def _records(release: Release) -> Iterator[tuple[Path, int, Any]]:
    for path in release.tables:
        with _parquet(path) as file:
            names = [*_NUMBERS, *_TEXTS, "image_0.path", "image_1.path"]
            table = file.read(columns=[name for name in names if _has(file, name)])
        for number, record in enumerate(table.to_pylist()):
            yield path, number, record
    if release.examples is not None:
        try:
            lines = read_bytes(release.examples).decode("utf-8").split("\n")
            for number, line in enumerate(line for line in lines if line.strip()):
                yield release.examples, number, json.loads(line)
        except ValueError as error:
            raise ValueError(f"{release.examples} is no file of JSON lines: {error}. Get it from {PAGE}.") from error


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise ValueError(f"{path} is no Parquet file: {error}. Get it from {PAGE}.") from error


def _has(file: pq.ParquetFile, name: str) -> bool:
    return name.split(".")[0] in file.schema_arrow.names


def _problem(record: object, *, verify: bool) -> str | None:
    """Return what is wrong with an example, None if nothing is."""
    if not isinstance(record, dict):
        return f"found {type(record).__name__} instead of an example"
    faults = [f"{name} is missing" for name in (*_NUMBERS, *_TEXTS, "image_0", "image_1") if name not in record]
    if faults:
        return "; ".join(faults)
    faults = [f"{name} is {record[name]!r}, no whole number from 0" for name in _NUMBERS if not _is_count(record[name])]
    faults += [f"{name} is {record[name]!r}, not text" for name in _TEXTS if not isinstance(record[name], str)]
    faults += [f"{name} is empty" for name in ("caption_0", "caption_1", "collapsed_tag") if record[name] == ""]
    faults += [f"image_{side} {record[f'image_{side}']!r} names no file" for side in "01" if not _is_name(record, side)]
    if not faults and verify and record["collapsed_tag"] not in CATEGORIES:
        faults.append(f"collapsed_tag is {record['collapsed_tag']!r}, not one of {', '.join(CATEGORIES)}")
    return "; ".join(faults) or None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_name(record: dict[str, Any], side: str) -> bool:
    value = record[f"image_{side}"]
    if value is None or isinstance(value, dict):
        return True
    return isinstance(value, str) and value not in ("", ".", "..") and not {"/", "\\"} & set(value)


def _filename(record: dict[str, Any], side: str) -> str:
    """The name of an image's file: of a text, that and ".png"; in Parquet its path, or else the name it has there."""
    value = record[f"image_{side}"]
    if isinstance(value, str):
        return f"{value}.png"
    path = (value or {}).get("path") or f"ex_{record['id']}_img_{side}.png"
    return str(path).replace("\\", "/").rsplit("/", 1)[-1]


def read_images(release: Release, rows: dict[str, Row]) -> Iterator[Files]:
    """Yield the files of both images of each example, in the order of `rows`, None for one that is missing or empty."""
    for path in release.tables:
        with _parquet(path) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["image_0", "image_1"]):
                for record in batch.to_pylist():
                    first, second = ((record[f"image_{side}"] or {}).get("bytes") for side in "01")
                    yield first or None, second or None
    if release.examples is None:
        return
    with _Images(release.images) as images:
        for row in rows.values():
            yield images.read(row["filename_0"]), images.read(row["filename_1"])


class _Images:
    """Images by their names, in a folder, in the archive wherever it has them, or nowhere."""

    def __init__(self, place: Path | None) -> None:
        self._folder = place if place is not None and place.is_dir() else None
        self._archive: zipfile.ZipFile | None = None
        self._members: dict[str, str] = {}
        if place is not None and self._folder is None:
            try:
                self._archive = zipfile.ZipFile(place)
            except zipfile.BadZipFile as error:
                raise ValueError(f"{place} is no zip archive: {error}. Get it from {PAGE}.") from error
            for name in self._archive.namelist():
                self._members.setdefault(name.rsplit("/", 1)[-1], name)

    def __enter__(self) -> _Images:
        return self

    def __exit__(self, *error: object) -> None:
        if self._archive is not None:
            self._archive.close()

    def read(self, name: str) -> bytes | None:
        if self._archive is not None and name in self._members:
            return self._archive.read(self._members[name]) or None
        # An archive that was unpacked as a whole has its own folder inside.
        places = [] if self._folder is None else [self._folder / name, self._folder / "images" / name]
        path = next((path for path in places if path.is_file()), None)
        return None if path is None else read_bytes(path) or None


def describe_missing(release: Release, rows: dict[str, Row]) -> str | None:
    """Return which images are missing, and what to do; None where all are there."""
    missing = [
        f"{row[f'filename_{side}']} (for winoground/{number})"
        for (number, row), files in zip(rows.items(), read_images(release, rows), strict=True)
        for side, content in zip("01", files, strict=True)
        if content is None
    ]
    if not missing:
        return None
    source = release.images or release.examples or release.tables[0].parent
    more = [f"and {len(missing) - _NAMES_SHOWN} more"] if len(missing) > _NAMES_SHOWN else []
    return (
        f"{len(missing)} of {2 * len(rows)} images are missing from {source}, or empty: "
        f"{', '.join([*missing[:_NAMES_SHOWN], *more])}. Get them from {PAGE}, into images/ or images.zip beside "
        f"examples.jsonl; or pass allow_missing=True to keep their rows without an image, or with_images=False for the "
        f"text alone."
    )


def read_bytes(path: Path) -> bytes:
    """Return what a file holds."""
    # Not `read_bytes`: `datasets` swaps Path for a class of its own, of which only `open` reads remote files.
    with path.open("rb") as file:
        return file.read()
