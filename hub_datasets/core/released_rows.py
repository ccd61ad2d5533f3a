"""A builder for releases that are files of rows beside folders of images, or Parquet files with images inside.

A benchmark declares its files (`Rows`), where its images are (`Images`), and how a record becomes a row; reading,
checking and finding are done here. A dataset script uses this module too: it imports only the standard library and what
`datasets` needs.
"""

from __future__ import annotations

import ast
import csv
import io
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, ClassVar

from .hub_tables import HubTable, read_table
from .image_archives import ImageArchive, has_own
from .mirrors import ImageMirror, fetch_or_mirror
from .source_files import (
    ImagePaths,
    Row,
    SourceBuilder,
    SourceFile,
    VerifiedConfig,
    by_name,
    check_row_count,
    check_rows,
    find_images,
    is_inner_path,
    parse_json,
    shortened_list,
)
from .stored_images import find_stored

# A field of a table may hold a long list of captions; the standard library's limit is 128 kB.
_LONGEST_FIELD = 1_000_000


@dataclass(frozen=True)
class Rows:
    """A file of rows: JSON (a list, or an object of rows), JSON lines, or a table (CSV, TSV); or Parquet files.

    Args:
        file: the file, whose suffix tells the format; or Parquet files of the Hub, whose images need no `Images`.
        schema: the fields of a record and their types; of a table all are text. A record may be a list of their
            values. Columns of images in Parquet are names of files, so that a record is the same in either form.
        count: how many records the release has; None if that is not known.
        table: the same rows in Parquet files of the Hub, which are read where the user has no `file`.
    """

    file: SourceFile | HubTable
    schema: Mapping[str, Any]
    count: int | None = None
    table: HubTable | None = None


@dataclass(frozen=True)
class Images:
    """Where a benchmark's images are.

    Args:
        folders: folders of the user's copy in which they are looked for, in this order, and then the copy itself.
        remedy: how to get them, a sentence without a full stop.
        archives: from which they are fetched where the user has none.
        mirror: where they are looked for if an archive cannot be had; its texts are columns of the rows too.
    """

    folders: tuple[str, ...]
    remedy: str
    archives: tuple[ImageArchive, ...] = field(default=())
    mirror: ImageMirror | None = None


class ReleasedImages(SourceBuilder):
    """A builder that declares where its images are."""

    IMAGES: ClassVar[Images]
    # The address of each image that is in a Parquet file, by its name, and the page of these files.
    _stored: Mapping[str, str] = MappingProxyType({})
    _page = ""

    def _images(self) -> Images:
        """Where the images of the configuration are."""
        return self.IMAGES

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        names = dict.fromkeys(name for row in rows for name in self._image_names(row).values())
        if self._stored:
            stored = {name: self._stored[name] for name in names}
            return self._require_images(rows, find_stored(stored), "the Parquet files", f"Get them from {self._page}")
        images, folder = self._images(), self._folder
        folders = [] if folder is None else [*(folder / place for place in images.folders), folder]
        remedy = f"{images.remedy[:1].lower()}{images.remedy[1:]}, or pass with_images=False"
        if not folders and not images.archives and not images.mirror:
            raise FileNotFoundError(f"The images have to be your own copy. {images.remedy}, as data_dir.")
        found, where, mirror = find_images(names, folders), str(folder), images.mirror
        if (images.archives or mirror) and not has_own(found, folders):
            texts: dict[str, list[tuple[str, ...]]] = {name: [] for name in names}
            for row in rows:
                for name in self._image_names(row).values():
                    texts[name].append(tuple(row[column] for column in (mirror.texts if mirror else ())))
            found, where = fetch_or_mirror(texts, images.archives, mirror, folder, dl_manager, remedy)
            self._note("images", where, folder)
        return self._require_images(rows, found, where, images.remedy)


class ReleasedRows(ReleasedImages):
    """A builder that declares its files of rows and its images, and makes a row of each record."""

    ROWS: ClassVar[Mapping[str, Rows]] = {}
    BUILDER_CONFIG_CLASS = VerifiedConfig

    @abstractmethod
    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        """The rows of a record, without images; a row has an `id`, unique in the configuration.

        Args:
            part: the name of its file among `_parts`, which is the configuration's where that has one file.
            key: the record's place in the file, counted from 0, or its key in an object of rows.
            record: the fields of the schema.
        """

    def _problem(self, record: Row) -> str | None:
        """What is wrong with a record beyond the types of its fields; None if nothing is."""
        return None

    def _parts(self) -> Mapping[str, Rows]:
        """The files of the configuration."""
        return {self.config.name: self.ROWS[self.config.name]}

    @property
    def _verifies(self) -> bool:
        """Whether counts and checksums are compared; a release without any has no such option."""
        return getattr(self.config, "verify", True)

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        self._stored = {}
        parts = self._parts()
        own = [each.file for each in parts.values() if isinstance(each.file, SourceFile) and not each.table]
        missing = [file for file in own if not file.url and not file.find(self._folder)]
        if missing and len(parts) > 1:
            raise FileNotFoundError(
                f"{self.config.name}: {len(missing)} of {len(parts)} files are missing from {self._folder}, or empty: "
                f"{shortened_list([file.name for file in missing])}. {missing[0].remedy}."
            )
        return [row for name, part in parts.items() for row in self._read_part(name, part, dl_manager)]

    def _read_part(self, name: str, part: Rows, dl_manager: Any) -> list[Row]:
        origin, records = "", list[tuple[str, Row]]()
        for file, named in self._read_files(part, dl_manager):
            origin = f"{origin} and {file}" if origin else file
            checked = check_rows(
                ((label, by_name(each, part.schema)) for label, _, each in named), part.schema, file, self._problem
            )
            records += [(key, record) for (_, key, _), record in zip(named, checked, strict=True)]
        if self._verifies and part.count is not None:
            check_row_count(len(records), part.count, origin)
        rows = [row for key, record in records for row in self._rows(name, key, record)]
        for row in rows:
            for image in self._image_names(row).values():
                if not is_inner_path(image):
                    raise ValueError(
                        f"{origin}: the image {image!r} of {row['id']} does not lead to a file in a folder"
                    )
        return rows

    def _read_files(self, part: Rows, dl_manager: Any) -> Iterator[tuple[str, list[tuple[str, str, Any]]]]:
        """Of each file of a part its path or address and its records, from the first source that there is."""
        folder, table = self._folder, part.table
        if isinstance(part.file, SourceFile):
            if table is None or part.file.find(folder):
                payload, origin = part.file.read(folder, dl_manager, verify=self._verifies)
                self._note("rows", origin, folder)
                yield origin, parse_records(payload, origin)
                return
        else:
            table = part.file
        self._page, paths = table.page, table.find(folder)
        if not paths:
            revision = getattr(self.config, "revision", "") or table.revision
            paths = table.fetch(dl_manager, revision)
            self._note("rows and images", table.at(revision), folder)
        for path, named, addresses in read_table(paths, table, part.schema):
            if (twice := self._stored.keys() & addresses) and not table.named_by_content:
                raise ValueError(f"{path} has images of the same name as another file, such as {min(twice)}.")
            self._stored = {**addresses, **self._stored}
            yield str(path), named


def parse_records(payload: bytes, origin: str) -> list[tuple[str, str, Any]]:
    """The records of a file; the suffix of `origin`, its path or address, tells the format.

    Returns:
        Of each record what it is called in messages, its key, and the record.

    Raises:
        ValueError: the file is not of its format, or empty.
    """
    suffix = PurePosixPath(origin.partition("?")[0]).suffix.lower()
    if suffix == ".json":
        content = parse_json(payload, origin, dict if payload.lstrip()[:1] == b"{" else list)
        if isinstance(content, dict):
            return [(f"key {key!r}", key, record) for key, record in content.items()]
        return _numbered(content)
    text = _text(payload, origin)
    if suffix == ".jsonl":
        lines = [line for line in text.split("\n") if line.strip()]
        records = [_line(line, f"{origin}, line {number}") for number, line in enumerate(lines, 1)]
    else:
        limit = csv.field_size_limit(_LONGEST_FIELD)
        delimiter = "\t" if suffix == ".tsv" else ","
        try:
            records = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
        except csv.Error as error:
            raise ValueError(f"{origin} is not a table: {error}.") from error
        finally:
            csv.field_size_limit(limit)  # of the process, and other readers rely on it
    if not records:
        raise ValueError(f"{origin} holds no rows.")
    for number, record in enumerate(records):
        if suffix != ".jsonl" and (None in record or None in record.values()):
            raise ValueError(f"{origin}, row {number}: it has not as many fields as the header.")
    return _numbered(records)


def read_list(text: str) -> list[str] | None:
    """A list of texts in Python's notation, as tables have them; None for anything else. Nothing is run."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    is_list = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    return list(value) if is_list else None


def _numbered(records: Iterable[Any]) -> list[tuple[str, str, Any]]:
    return [(f"row {number}", str(number), record) for number, record in enumerate(records)]


def _line(line: str, origin: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"{origin}: not JSON ({error}).") from error


def _text(payload: bytes, origin: str) -> str:
    try:
        return payload.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{origin} is not text in UTF-8 ({error}).") from error
