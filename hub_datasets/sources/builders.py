"""Base classes of the builders: one that reads sources of any form, and one that declares its files and images.

A benchmark declares its files (`Rows`), where its images are (`Images`), and how a record becomes a row; finding,
reading and checking them is done here.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import datasets

from ...metrics.common.errors import DataError
from ..core.build import MissingSourceError
from ..core.images import DECODING_ERRORS, check_image
from .columns import columns
from .downloads import download, looked_in
from .hub_tables import HubFiles, HubTable, read_table
from .image_archives import ImageArchive, fetch_images
from .records import Record, Row, check_row_count, check_rows, parse_records, shortened_list, with_lists, with_remedy
from .source_files import ImagePaths, SourceFile, data_folder, find_images, is_inner_path, read_bytes

_FILES_DRAWN = 4
# Rows whose images are read and checked together.
_ROWS_AT_ONCE = 64
# By the type of an option, as it is declared: the class of its values, and what to pass.
_OPTION_TYPES: dict[Any, tuple[type, str]] = {
    "bool": (bool, "True or False (on the command line {0}=true or {0}=false)"),
    "int": (int, "a whole number of at most 64 bits, such as 1"),
    "str": (str, "a text"),
}


@dataclass
class SourceConfig(datasets.BuilderConfig):
    """The options of every builder that reads source files.

    | field           | True                                         | False                                    |
    |-----------------|----------------------------------------------|------------------------------------------|
    | `with_images`   | the rows have their images                   | no columns of images, no image is needed |
    | `allow_missing` | a missing, empty or damaged image is None    | such an image is an error                |
    """

    with_images: bool = True
    allow_missing: bool = False


@dataclass
class VerifiedConfig(SourceConfig):
    """With `verify`, local files must be the released ones, by their checksum or number of rows.

    Without it, any well-formed local file is accepted. A downloaded file must have its checksum in any case.
    """

    verify: bool = True


@dataclass
class HubConfig(VerifiedConfig):
    """With `revision`, the dataset of the Hub is read at that commit (in full), tag or branch, not at the default."""

    revision: str = ""


def check_options(config: Any) -> None:
    """Raise a `DataError` for an option of a builder whose value is not of its declared type."""
    common = {field.name for field in dataclasses.fields(datasets.BuilderConfig)}
    for field in dataclasses.fields(config):
        if field.name in common or field.type not in _OPTION_TYPES:
            continue
        kind, expected = _OPTION_TYPES[field.type]
        value = getattr(config, field.name)
        # A text such as "no" would count as True, and a column of seeds holds 64 bits.
        if type(value) is not kind or (kind is int and not -(2**63) <= value < 2**63):
            raise DataError(f"{field.name} is {value!r}; pass {expected.format(field.name)}")


def make_configs(kind: type[SourceConfig], title: str, names: Iterable[str]) -> list[datasets.BuilderConfig]:
    """Return the configurations of a benchmark, all of version 1.0.0."""
    version = datasets.Version("1.0.0")
    return [kind(name=name, version=version, description=f"{title} {name}") for name in names]


@dataclass(frozen=True)
class Rows:
    """A file of rows: JSON (a list, or an object of rows), JSON lines, or a table (CSV, TSV); or Parquet files.

    Args:
        file: the file, whose suffix determines the format; or Parquet files of the Hub, whose images need no `Images`.
        schema: the fields of a record and their types; fields of a table are text. A record may be a list of their
            values. Columns of images in Parquet are names of files, so that a record is the same in either form.
        count: the number of records of the release; None if it is unknown.
        lists: the columns of a table that hold a list of texts in Python's notation, with an empty cell for an empty
            list; ``[str]`` in the schema.
        table: the same rows in Parquet files of the Hub, which are read if the user does not have `file`.
    """

    file: SourceFile | HubTable
    schema: Mapping[str, Any]
    count: int | None = None
    lists: tuple[str, ...] = ()
    table: HubTable | None = None


@dataclass(frozen=True)
class Images:
    """The sources of a benchmark's images.

    Args:
        folders: folders of the user's copy in which they are looked for, in this order, and then the copy itself.
        remedy: how to get them, a sentence without a full stop.
        archives: from which they are fetched if the user has none.
        url: the address of an archive that is fetched and unpacked as a whole if the user has none; empty if not known.
    """

    folders: tuple[str, ...]
    remedy: str
    archives: tuple[ImageArchive, ...] = ()
    url: str = ""


class SourceBuilder(datasets.GeneratorBasedBuilder, ABC):
    """A builder that reads the files of a release.

    Everything except the content of images is checked before the first row is written. Raises a `MissingSourceError`
    for missing files and images, and for a `data_dir` that is needed and not given, or is not a folder; a
    `DownloadError` for a failed download; and a `DataError` for a file that is malformed or not the released one, and,
    after the last row, for damaged images, all of which it names.
    """

    config: Any  # of `BUILDER_CONFIG_CLASS`
    SPLIT: ClassVar[str] = "test"
    GET_SOURCES: ClassVar[str] = "Leave it out to download the files"
    # Whether rows and images of the configurations scored by default are downloaded if the user has none.
    IS_DOWNLOADED: ClassVar[bool] = False
    # The names of a row's columns, separated by spaces.
    COLUMNS: ClassVar[str] = ""
    IMAGES: ClassVar[Images] = Images((), "")

    @property
    def _split(self) -> str:
        """The only split of the configuration."""
        return self.SPLIT

    def _columns(self) -> dict[str, Any]:
        """Return the features of a row, including images."""
        return columns(self.COLUMNS)

    @abstractmethod
    def _read_rows(self, dl_manager: Any) -> list[Row]:
        """Return all rows, without their images."""

    def _images(self) -> Images:
        """Return the sources of the configuration's images."""
        return self.IMAGES

    def _file_names(self) -> list[str]:
        """Return the declared files of the rows."""
        return []

    @property
    def layout(self) -> str:
        """A drawing of the files and of the folder of images in `data_dir`; empty if they are not declared."""
        files, folders = self._file_names(), self._images().folders
        if not files and not folders:
            return ""
        more = len(files) - _FILES_DRAWN
        lines = files if more <= 0 else [*files[:_FILES_DRAWN], f"and {more} more"]
        if folders:
            first, *further = folders
            lines = [*lines, f"{first}/   the images" + (f", or {', '.join(further)}" if further else "")]
        branches = ["├── "] * (len(lines) - 1) + ["└── "]
        return "\n".join(["DATA_DIR", *(branch + line for branch, line in zip(branches, lines, strict=True))])

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        """Return the path of each image by its name; see `_require_images`."""
        images, folder = self._images(), self._image_folder
        folders = [] if folder is None else [folder / name for name in images.folders]
        paths = find_images(self._names_in(rows), [*folders, folder] if folder else [])
        where = f"{folder} and its folders {', '.join(images.folders)}"
        if not any(paths.values()) and not any(path.is_dir() for path in folders):
            name = next(iter(paths), "")
            with looked_in(folder, [*(f"{inner}/{name}" for inner in images.folders), name]):
                fetched = self._fetch_images(dl_manager, rows)
            if fetched is None and folder is None:
                raise MissingSourceError(f"The images have to be your own copy. {images.remedy}, as data_dir.")
            if fetched is not None:
                paths, where = fetched
                self._note("images", where, folder)
        return self._require_images(rows, paths, where, images.remedy)

    @property
    def _image_folder(self) -> Path | None:
        """The folder in which images are looked for; None if there is no such folder."""
        return self._folder

    def _fetch_images(self, dl_manager: Any, rows: list[Row]) -> tuple[ImagePaths, str] | None:
        """Fetch the images if the user has none; return their paths and origin, or None if they are not published."""
        images = self._images()
        remedy = f"{images.remedy[:1].lower()}{images.remedy[1:]}, or pass with_images=False"
        if images.url:
            folder = Path(download(dl_manager, images.url, remedy, extract=True))
            return find_images(self._names_in(rows), [*(folder / name for name in images.folders), folder]), images.url
        if not images.archives:
            return None
        where = " and ".join(archive.url for archive in images.archives)
        return fetch_images(self._names_in(rows), images.archives, remedy), f"the archive {where}"

    def _names_in(self, rows: list[Row]) -> dict[str, None]:
        """Return the names of all images, each once, in the order of the rows."""
        return dict.fromkeys(name for row in rows for name in self._image_names(row).values())

    def _image_names(self, row: Row) -> dict[str, str]:
        """Return, by column of images, the name by which `_find_images` knows the row's image."""
        names = [column for column in row if column.startswith("filename")]
        return {name.replace("filename", "image"): row[name] for name in names}

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        """Return the value of a column of images: the name and the bytes of a file."""
        return {"path": row[column.replace("image", "filename")], "bytes": read_bytes(path)}

    @property
    def _folder(self) -> Any:
        """The user's copy of the sources; None if they are downloaded."""
        return data_folder(self.config.data_dir, self.GET_SOURCES, is_needed=not self.IS_DOWNLOADED)

    def _note(self, what: str, source: str, folder: Path | None) -> None:
        """Record in the build where something was downloaded from; the user's copy is not recorded."""
        if folder is None or not Path(source).is_relative_to(folder):
            self.sources.append(f"{what}: {source}")

    def _require_images(self, rows: Iterable[Row], images: ImagePaths, where: object, remedy: str) -> ImagePaths:
        """Return the paths of images; raise a `MissingSourceError` that names the missing ones and their rows."""
        missing: dict[str, list[str]] = {name: [] for name, path in images.items() if path is None}
        if not missing or self.config.allow_missing:
            return images
        for row in rows:
            for name in dict.fromkeys(self._image_names(row).values()):
                if name in missing:
                    missing[name].append(row["id"])
        lines = [f"{name} (for {shortened_list(ids)})" for name, ids in missing.items()]
        raise MissingSourceError(
            f"{self.config.name}: {len(missing)} of {len(images)} images are missing from {where}, or empty: "
            f"{shortened_list(lines)}. {remedy}; or pass allow_missing=True to keep their rows without an image, or "
            "with_images=False for the text alone."
        )

    def _info(self) -> datasets.DatasetInfo:
        features = self._columns()
        if not self.config.with_images:
            features = {name: kind for name, kind in features.items() if not isinstance(kind, datasets.Image)}
        return datasets.DatasetInfo(features=datasets.Features(features))

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        check_options(self.config)
        self.sources: list[str] = []
        rows = self._read_rows(dl_manager)
        counts = Counter(row["id"] for row in rows)
        if repeated := [id for id, count in counts.items() if count > 1]:
            raise DataError(
                f"{self.config.name}: several rows of the source have the id {shortened_list(repeated)}. Keep one of "
                "them."
            )
        images = self._find_images(dl_manager, rows) if self.config.with_images else None
        return [datasets.SplitGenerator(name=self._split, gen_kwargs={"rows": rows, "images": images})]

    def _generate_examples(self, rows: Iterable[Row], images: ImagePaths | None) -> Iterator[tuple[str, Row]]:
        damaged: dict[str, tuple[str, list[str]]] = {}
        intact: set[tuple[str, int]] = set()

        def read(row: Row) -> Row:
            files: Row = {}
            if images is None:
                return files
            for column, name in self._image_names(row).items():
                files[column] = None
                if (path := images[name]) is None:
                    continue
                try:
                    file = self._image_file(row, column, path)
                    if (identity := (file["path"], len(file["bytes"]))) not in intact:
                        check_image(file["bytes"])
                        intact.add(identity)
                    files[column] = file
                except DECODING_ERRORS as error:
                    damaged.setdefault(name, (str(error).rstrip("."), []))[1].append(row["id"])
            return files

        with ThreadPoolExecutor() as pool:
            rows = iter(rows)
            while chunk := list(islice(rows, _ROWS_AT_ONCE)):
                for row, files in zip(chunk, pool.map(read, chunk), strict=True):
                    yield row["id"], row | files
        if damaged and not self.config.allow_missing:
            lines = [f"{name} (for {shortened_list(ids)}): {reason}" for name, (reason, ids) in sorted(damaged.items())]
            raise DataError(
                f"{self.config.name}: {len(damaged)} images are damaged: {'; '.join(lines)}. Put intact files in their "
                "place; or pass allow_missing=True to keep their rows without an image"
            )


class ReleasedRows(SourceBuilder):
    """A builder that declares its files of rows and its images, and makes rows from each record."""

    ROWS: ClassVar[Mapping[str, Rows]] = {}
    # The source of all files if the user has no file of rows.
    RELEASE: ClassVar[HubFiles | None] = None
    BUILDER_CONFIG_CLASS = VerifiedConfig
    # The folders of rows and of images in a release that was fetched.
    _fetched: tuple[Path, Path | None] | None = None
    # The address of each image inside a Parquet file, by its name.
    _stored: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def _rows(self, part: str, key: str, record: Row) -> Iterator[Row]:
        """Yield the rows of a record, without images; a row has an `id`, unique in the configuration.

        Args:
            part: the name of its file among `_parts`; the configuration's name if it has one file.
            key: the record's number in the file, counted from 0, or its key in an object of rows.
            record: the fields of the schema.
        """

    def _problem(self, record: Row) -> str | None:
        """Return the fault of a record beyond the types of its fields; None if it is valid."""
        return None

    def _file_names(self) -> list[str]:
        files = [rows.file for rows in self._parts().values()]
        return [file.name if isinstance(file, SourceFile) else file.files for file in files]

    def _parts(self) -> Mapping[str, Rows]:
        """Return the files of the configuration by name."""
        return {self.config.name: self.ROWS[self.config.name]}

    @property
    def _verifies(self) -> bool:
        """True if counts and checksums are compared; a release that has neither has no such option."""
        return getattr(self.config, "verify", True)

    @property
    def _folder(self) -> Any:
        return self._fetched[0] if self._fetched else super()._folder

    @property
    def _image_folder(self) -> Path | None:
        return self._fetched[1] if self._fetched else self._folder

    @property
    def _revision(self) -> str:
        """The revision on the Hub that the user chose; empty if none."""
        return getattr(self.config, "revision", "")

    def _read_rows(self, dl_manager: Any) -> list[Row]:
        self._stored, self._fetched = {}, None
        parts = self._parts()
        source_files = [rows.file for rows in parts.values() if isinstance(rows.file, SourceFile)]
        if self.RELEASE and source_files and not any(file.find(self._folder) for file in source_files):
            with looked_in(self._folder, [source_files[0].name, *source_files[0].places]):
                release = replace(self.RELEASE, revision=self._revision or self.RELEASE.revision)
                folder = self._folder
                has_images = folder is not None and any((folder / name).is_dir() for name in self._images().folders)
                with_images = self.config.with_images and not has_images
                rows, images, origin = release.fetch(dl_manager, with_images=with_images)
            self._fetched = rows, folder if has_images else images
            self.sources.append(f"rows{' and images' if with_images else ''}: {origin}")
        files = [rows.file for rows in parts.values() if isinstance(rows.file, SourceFile) and not rows.table]
        missing = [file for file in files if not file.url and not file.find(self._folder)]
        if missing and len(parts) > 1:
            raise MissingSourceError(
                f"{self.config.name}: {len(missing)} of {len(parts)} files are missing from {self._folder}, or empty: "
                f"{shortened_list([file.name for file in missing])}. {missing[0].remedy}."
            )
        return [row for name, rows in parts.items() for row in self._read_part(name, rows, dl_manager)]

    def _read_part(self, name: str, part: Rows, dl_manager: Any) -> list[Row]:
        origin, rows, count = "", list[Row](), 0
        for file, records in self._read_files(part, dl_manager):
            origin = f"{origin} and {file}" if origin else file
            labelled = ((label, with_lists(content, part.lists)) for label, _, content in records)
            with with_remedy(part.file.remedy):
                checked = check_rows(labelled, part.schema, file, self._problem)
            count += len(checked)
            for (_, key, _), record in zip(records, checked, strict=True):
                rows += self._rows(name, key, record)
        if self._verifies and part.count is not None:
            check_row_count(count, part.count, origin)
        for row in rows:
            for image in self._image_names(row).values():
                if not is_inner_path(image):
                    raise DataError(
                        f"{origin}: the image {image!r} of {row['id']} does not lead to a file in a folder. "
                        f"{part.file.remedy}."
                    )
        return rows

    def _read_files(self, part: Rows, dl_manager: Any) -> Iterator[tuple[str, list[Record]]]:
        """Yield the path or address and the records of each file of a part, from the first available source."""
        folder, table = self._folder, part.table
        if isinstance(part.file, SourceFile):
            if table is None or part.file.find(folder):
                payload, origin = part.file.read(folder, dl_manager, verify=self._verifies)
                self._note("rows", origin, folder)
                with with_remedy(part.file.remedy):
                    records = parse_records(payload, origin, part.file.name)
                yield origin, records
                return
        else:
            table = part.file
        if not (paths := table.find(folder)):
            table = replace(table, revision=self._revision or table.revision)
            with looked_in(folder, table.places):
                paths = table.fetch(dl_manager)
            self._note("rows and images", table.source, folder)
        with with_remedy(table.remedy):
            for path, records, addresses in read_table(paths, table, part.schema):
                if (repeated := self._stored.keys() & addresses) and not table.named_by_content:
                    raise DataError(f"{path} has images of the same name as another file, such as {min(repeated)}.")
                self._stored = {**addresses, **self._stored}
                yield str(path), records

    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        if not self._stored:
            return super()._find_images(dl_manager, rows)
        return {name: self._stored[name] for name in self._names_in(rows)}
