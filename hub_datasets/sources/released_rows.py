"""A builder for releases that are files of rows beside folders of images, or Parquet files with images inside.

A benchmark declares its files (`Rows`), where its images are (`Images`), and how a record becomes a row; reading,
checking and finding are done here.
"""

from __future__ import annotations

import ast
import csv
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, ClassVar

from ...metrics.common.errors import DataError
from ..core.build import MissingSourceError
from .downloads import looked_in
from .hub_tables import HubTable, read_table
from .image_archives import ImageArchive
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
    read_values,
    shortened_list,
    with_remedy,
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
        lists: the columns of a table that hold a list of texts in Python's notation, of which an empty cell has none;
            in the schema ``[str]``.
        table: the same rows in Parquet files of the Hub, which are read where the user has no `file`.
    """

    file: SourceFile | HubTable
    schema: Mapping[str, Any]
    count: int | None = None
    lists: tuple[str, ...] = ()
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
    archives: tuple[ImageArchive, ...] = ()
    mirror: ImageMirror | None = None


class ReleasedImages(SourceBuilder):
    """A builder that declares where its images are."""

    IMAGES: ClassVar[Images]

    def _images(self) -> Images:
        """Where the images of the configuration are."""
        return self.IMAGES

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        images, folder = self._images(), self._folder
        folders = [] if folder is None else [folder / place for place in images.folders]
        found = find_images(self._names_in(rows), [*folders, folder] if folder else [])
        where = f"{folder} and its folders {', '.join(images.folders)}"
        if not any(found.values()) and not any(each.is_dir() for each in folders):
            name = next(iter(found), "")
            with looked_in(folder, [*(f"{place}/{name}" for place in images.folders), name]):
                fetched = self._fetch_images(dl_manager, rows)
            if fetched is None and folder is None:
                raise MissingSourceError(f"The images have to be your own copy. {images.remedy}, as data_dir.")
            if fetched is not None:
                found, where = fetched
                self._note("images", where, folder)
        return self._require_images(rows, found, where, images.remedy)

    def _fetch_images(self, dl_manager: Any, rows: list[Row]) -> tuple[ImagePaths, str] | None:
        """The images, of which the user has none and no folder, and where they are from; None if nobody offers them."""
        images = self._images()
        mirror = images.mirror
        if not images.archives and not mirror:
            return None
        texts: dict[str, list[tuple[str, ...]]] = {name: [] for name in self._names_in(rows)}
        for row in rows:
            for name in self._image_names(row).values():
                texts[name].append(tuple(row[column] for column in (mirror.texts if mirror else ())))
        remedy = f"{images.remedy[:1].lower()}{images.remedy[1:]}, or pass with_images=False"
        return fetch_or_mirror(texts, images.archives, mirror, self._folder, dl_manager, remedy)

    def _names_in(self, rows: list[Row]) -> dict[str, None]:
        """The names of all images, each once, in the order of the rows."""
        return dict.fromkeys(name for row in rows for name in self._image_names(row).values())


class ReleasedRows(ReleasedImages):
    """A builder that declares its files of rows and its images, and makes a row of each record."""

    ROWS: ClassVar[Mapping[str, Rows]] = {}
    BUILDER_CONFIG_CLASS = VerifiedConfig
    # The address of each image that is in a Parquet file, by its name, and how to get these files.
    _stored: Mapping[str, str] = MappingProxyType({})
    _stored_remedy = ""

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
            raise MissingSourceError(
                f"{self.config.name}: {len(missing)} of {len(parts)} files are missing from {self._folder}, or empty: "
                f"{shortened_list([file.name for file in missing])}. {missing[0].remedy}."
            )
        return [row for name, part in parts.items() for row in self._read_part(name, part, dl_manager)]

    def _read_part(self, name: str, part: Rows, dl_manager: Any) -> list[Row]:
        origin, records = "", list[tuple[str, Row]]()
        for file, named in self._read_files(part, dl_manager):
            origin = f"{origin} and {file}" if origin else file
            labelled = ((label, _with_lists(by_name(each, part.schema), part.lists)) for label, _, each in named)
            with with_remedy(part.file.remedy):
                checked = check_rows(labelled, part.schema, file, self._problem)
            records += [(key, record) for (_, key, _), record in zip(named, checked, strict=True)]
        if self._verifies and part.count is not None:
            check_row_count(len(records), part.count, origin)
        rows = [row for key, record in records for row in self._rows(name, key, record)]
        for row in rows:
            for image in self._image_names(row).values():
                if not is_inner_path(image):
                    raise DataError(
                        f"{origin}: the image {image!r} of {row['id']} does not lead to a file in a folder. "
                        f"{part.file.remedy}."
                    )
        return rows

    def _read_files(self, part: Rows, dl_manager: Any) -> Iterator[tuple[str, list[tuple[str, str, Any]]]]:
        """Of each file of a part its path or address and its records, from the first source that there is."""
        folder, table = self._folder, part.table
        if isinstance(part.file, SourceFile):
            if table is None or part.file.find(folder):
                payload, origin = part.file.read(folder, dl_manager, verify=self._verifies)
                self._note("rows", origin, folder)
                with with_remedy(part.file.remedy):
                    records = parse_records(payload, origin)
                yield origin, records
                return
        else:
            table = part.file
        self._stored_remedy, paths = table.remedy, table.find(folder)
        if not paths:
            table = replace(table, revision=getattr(self.config, "revision", "") or table.revision)
            with looked_in(folder, table.places):
                paths = table.fetch(dl_manager)
            self._note("rows and images", table.source, folder)
        with with_remedy(table.remedy):
            for path, named, addresses in read_table(paths, table, part.schema):
                if (twice := self._stored.keys() & addresses) and not table.named_by_content:
                    raise DataError(f"{path} has images of the same name as another file, such as {min(twice)}.")
                self._stored = {**addresses, **self._stored}
                yield str(path), named

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        if not self._stored:
            return super()._find_images(dl_manager, rows)
        stored = find_stored({name: self._stored[name] for name in self._names_in(rows)})
        return self._require_images(rows, stored, "the Parquet files", self._stored_remedy)


def parse_records(payload: bytes, origin: str) -> list[tuple[str, str, Any]]:
    """Return the records of a file; the suffix of `origin`, its path or address, tells the format.

    Returns:
        Of each record what it is called in messages, its key, and the record.

    Raises:
        DataError: the file is not of its format, or empty.
    """
    suffix = PurePosixPath(origin.partition("?")[0]).suffix.lower()
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        content = read_values(payload, origin, suffix)
    finally:
        csv.field_size_limit(limit)  # of the process, and other readers rely on it
    if not isinstance(content, list | dict) or not content:
        raise DataError(f"{origin} holds no rows.")
    if isinstance(content, dict):
        return [(f"key {key!r}", key, record) for key, record in content.items()]
    return [(f"row {number}", str(number), record) for number, record in enumerate(content)]


def read_list(text: str) -> list[str] | None:
    """A list of texts in Python's notation, as tables have them; None for anything else. Nothing is run.

    >>> read_list("['a red cup', \\"a cup that isn't red\\"]")
    ['a red cup', "a cup that isn't red"]
    >>> [read_list(text) for text in ("('a', 'b')", "'ab'", "{'a': 'b'}", "[1]", "[__import__('os').getcwd()]")]
    [None, None, None, None, None]
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _with_lists(record: Any, names: Iterable[str]) -> Any:
    """A record with the lists that some of its texts hold; as text, which `check_rows` refuses, what holds none."""
    texts = {name: record.get(name) for name in names}
    lists = {name: read_list(text.strip() or "[]") for name, text in texts.items() if isinstance(text, str)}
    return {**record, **{name: found for name, found in lists.items() if found is not None}} if lists else record
