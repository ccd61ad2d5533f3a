"""The source files of a benchmark: where they are found, how they are verified, and a builder that reads them.

A builder declares its files (`SourceFile`) and the schema of their rows; errors name the file and the row, what
was found, what is expected, and how to get the right file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import datasets
import fsspec

from ...metrics.common import user_files
from ...metrics.common.errors import DataError
from ...metrics.common.storage import readable
from ..core.build import MissingSourceError
from ..core.images import DECODING_ERRORS, check_image
from .columns import columns
from .downloads import DownloadError, download, first_source, looked_in
from .stored_images import is_stored, read_stored

_NAMES_SHOWN = 5
# Rows whose images are read and checked together.
_ROWS_AT_ONCE = 64
# A network of copies of what is on GitHub, which has the same file under the same commit.
_ON_GITHUB = re.compile(r"https://raw\.githubusercontent\.com/([^/]+/[^/]+)/([^/]+)/(.+)")
_COPY = r"https://cdn.jsdelivr.net/gh/\1@\2/\3"
# By the type of an option, as it is declared: the class of its values, and what to pass.
_OPTION_TYPES: dict[Any, tuple[type, str]] = {
    "bool": (bool, "True or False (on the command line {0}=true or {0}=false)"),
    "int": (int, "a whole number of at most 64 bits, such as 1"),
    "str": (str, "a text"),
}
Row = dict[str, Any]
# The path of each image by its name, None where it is missing.
ImagePaths = dict[str, str | None]


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, of a stored image, or of an address, which `datasets` gives while it streams."""
    if is_stored(path):
        return read_stored(str(path))
    if "://" in str(path):
        remote: Any = fsspec.open(str(path), "rb")
        with remote as file:
            return file.read()
    with Path(path).open("rb") as file:
        return file.read()


@dataclass(frozen=True)
class SourceFile:
    """A file of a release.

    Args:
        name: its path in the release, where it is looked for in `data_dir`.
        places: further paths in `data_dir`, tried in this order.
        url: address at a pinned revision, from which it is downloaded if `data_dir` has no copy; empty if it has to be
            the user's own. A file of GitHub with a checksum is also looked for in a network of copies.
        checksum: of the released file: "sha256:" or "md5:" and the hexadecimal digits; empty if none is known.
        remedy: how to get the file, a sentence without a full stop; by default from its address.
    """

    name: str
    places: tuple[str, ...] = ()
    url: str = ""
    checksum: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "remedy", self.remedy or f"Get it from {self.url}")

    def find(self, folder: Path | None) -> Path | None:
        """The user's own copy in `folder`, if there is one; an empty file, as of an interrupted copy, is none."""
        path = folder and first_file(folder / place for place in (self.name, *self.places))
        return Path(path) if path else None

    def read(self, folder: Path | None, dl_manager: Any = None, *, verify: bool = True) -> tuple[bytes, str]:
        """The content of the file, and its path or address for messages.

        Args:
            folder: the user's own copy of the sources, if any.
            dl_manager: a `datasets.DownloadManager`, for a file with a `url`.
            verify: whether a local file must have the checksum; a downloaded one must in any case.

        Raises:
            MissingSourceError: it is not in `folder` and cannot be downloaded.
            DownloadError: the download failed.
            DataError: another checksum.
        """
        path = self.find(folder)
        if path is not None:
            payload = read_bytes(path)
            if verify:
                self._verify(payload, str(path), "replace it, or pass verify=False to accept it")
            return payload, str(path)
        copies = [_ON_GITHUB.sub(_COPY, self.url)] if self.checksum and _ON_GITHUB.match(self.url) else []
        with looked_in(folder, [self.name, *self.places]):
            if not self.url:
                raise MissingSourceError(f"{self.name} is missing from {folder}, or empty. {self.remedy}.")
            urls = (self.url, *copies)
            return first_source(self.name, [(url, partial(self._download, dl_manager, url)) for url in urls])

    def _download(self, dl_manager: Any, url: str) -> tuple[bytes, str]:
        remedy = f"pass data_dir, a folder that holds {self.name}"
        copy = download(dl_manager, url, remedy)
        try:
            payload = read_bytes(copy)
        except Exception as error:  # a request, if the dataset is streamed
            raise DownloadError(url, error, remedy) from error
        self._verify(payload, url, f"remove {copy} and try again, or {remedy}")
        return payload, url

    def _verify(self, payload: bytes, origin: str, remedy: str) -> None:
        kind, _, expected = self.checksum.partition(":")
        found = hashlib.new(kind, payload, usedforsecurity=False).hexdigest() if kind else ""
        if found != expected:
            name = {"sha256": "SHA-256", "md5": "MD5"}[kind]
            raise DataError(
                f"{origin} has {name} {found}, but {self.name} as released has {expected}. It is damaged or of another "
                f"release: {remedy}."
            )


def data_folder(data_dir: str | None, remedy: str, *, is_needed: bool = True) -> Path | None:
    """The user's folder of source files; None if none is given and none is needed.

    Raises:
        MissingSourceError: it is not a folder, or is needed and not given; the message ends with `remedy`.
        DataError: it cannot be read.
    """
    if not data_dir:
        if is_needed:
            raise MissingSourceError(f"The sources have to be your own copy, passed as data_dir. {remedy}.")
        return None
    folder = Path(data_dir).expanduser().absolute()
    with readable(folder):
        if not folder.is_dir():
            raise MissingSourceError(f"data_dir {folder} is not a folder. {remedy}.")
    return folder


@contextmanager
def with_remedy(remedy: str) -> Iterator[None]:
    """Errors of a malformed file say also how to get the right one: `remedy`, a sentence without a full stop."""
    try:
        yield
    except DataError as error:
        error.args = (f"{error} {remedy}.",)
        raise


def parse_json(payload: bytes, origin: str, kind: type[list] | type[dict] = list) -> Any:
    """Return the content of a JSON file: a list or an object, not empty.

    Raises:
        DataError: it is something else, or a key comes twice; the message names `origin`.
    """
    content = read_values(payload, origin, ".json")
    if not isinstance(content, kind) or not content:
        found = f"{type(content).__name__} at the top level" if content else "nothing"
        raise DataError(f"{origin} holds {found}. Expected {'a list' if kind is list else 'an object'} with entries.")
    return content


def read_lines(path: str | Path) -> list[str]:
    """Return the lines of a text without outer blanks and empty ones; raise a `DataError` if it cannot be read."""
    try:
        lines = user_files.read_text(read_bytes(path)).splitlines()
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    return [line.strip() for line in lines if line.strip()]


@lru_cache(1)  # several configurations are of one file, and none changes what it reads
def read_values(payload: bytes, origin: str, suffix: str) -> Any:
    """Return the values in the content of a file, as `user_files.read_values`; a `DataError` names `origin`."""
    try:
        return user_files.read_values(payload, suffix)
    except ValueError as error:
        raise DataError(f"{origin} cannot be read: {error}.") from error


def by_name(entry: Any, schema: Mapping[str, Any]) -> Any:
    """A row that is a list of the values of a schema's fields, as an object; anything else as it is."""
    is_row = isinstance(entry, list) and len(entry) == len(schema)
    return dict(zip(schema, entry, strict=True)) if is_row else entry


def check_rows(
    rows: Iterable[tuple[str, Any]],
    schema: Mapping[str, Any],
    origin: str,
    problem: Callable[[Row], str | None] = lambda row: None,
) -> list[Row]:
    """The fields of rows that a schema names, each of the type that it has there.

    Args:
        rows: each with what it is called in messages, such as "row 3".
        schema: by field a type, ``[type]`` for a list, or a schema for an object; `float` is any number, and `object`
            anything, also nothing.
        origin: the file, for messages.
        problem: what is wrong with a row beyond the types of its fields, None if nothing is.

    Raises:
        DataError: a row is of another form; the message names the file, the row and the field.

    >>> check_rows([("row 0", {"caption": "a cat", "more": 1})], {"caption": str}, "captions.json")
    [{'caption': 'a cat'}]
    >>> check_rows([("row 0", {"caption": None})], {"caption": str}, "captions.json")
    Traceback (most recent call last):
    ...
    vl_assay.metrics.common.errors.DataError: captions.json, row 0: caption is None. Expected {caption: str}.
    """
    checked = []
    for label, row in rows:
        fields = ""
        if isinstance(row, dict):
            wrong = [name for name, kind in schema.items() if not _has_type(row.get(name), kind)]
            found = f"{wrong[0]} is {_shortened(row.get(wrong[0]))}" if wrong else problem(row)
            if not row.keys() >= schema.keys():
                fields = f"; the fields are {shortened_list([str(name) for name in row], 20)}"
        else:
            found = f"found {_shortened(row)}"
        if found:
            raise DataError(f"{origin}, {label}: {found}. Expected {_described(schema)}{fields}.")
        checked.append({name: row.get(name) for name in schema})
    return checked


def _has_type(value: object, kind: Any) -> bool:
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(_has_type(value.get(name), each) for name, each in kind.items())
    if isinstance(kind, list):
        return isinstance(value, list) and all(_has_type(each, kind[0]) for each in value)
    return isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)


def _described(kind: Any) -> str:
    if isinstance(kind, Mapping):
        return "{" + ", ".join(f"{name}: {_described(each)}" for name, each in kind.items()) + "}"
    return f"[{_described(kind[0])}]" if isinstance(kind, list) else kind.__name__


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_row_count(found: int, expected: int, origin: str) -> None:
    """Raise a `DataError` unless a file has as many rows as the released one."""
    if found != expected:
        raise DataError(
            f"{origin} has {found:,} rows, but the release has {expected:,}. It is damaged or of another release: "
            "replace it, or pass verify=False to accept it."
        )


def is_inner_path(path: str) -> bool:
    """Whether a path of a release leads to a file below a folder, and nowhere else."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not {"/", ".."} & set(parts) and "\\" not in path


def is_file_name(name: str) -> bool:
    """Whether a text is the bare name of a file."""
    return is_inner_path(name) and "/" not in name


def first_file(places: Iterable[Path]) -> str | None:
    """The first of some paths where a file lies that is not empty, as one of an interrupted copy may be."""
    return next((str(path) for path in places if path.is_file() and path.stat().st_size), None)


def find_images(names: Iterable[str], folders: Sequence[Path]) -> ImagePaths:
    """The path of each image in the first of some folders that has it."""
    return {name: first_file(folder / name for folder in folders) for name in names}


def shortened_list(names: Sequence[str], shown: int = _NAMES_SHOWN) -> str:
    """The first names of a list, and how many more there are."""
    more = [f"and {len(names) - shown} more"] if len(names) > shown else []
    return ", ".join([*names[:shown], *more])


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
    """With `verify`, local files must be the released ones: by their checksum, or by their number of rows.

    Without it, any well-formed local file is accepted. A downloaded file must have its checksum in any case.
    """

    verify: bool = True


def check_options(config: Any) -> None:
    """Raise a `DataError` for an option of a builder whose value is not of its declared type."""
    common = {each.name for each in dataclasses.fields(datasets.BuilderConfig)}
    for each in dataclasses.fields(config):
        if each.name in common or each.type not in _OPTION_TYPES:
            continue
        kind, expected = _OPTION_TYPES[each.type]
        value = getattr(config, each.name)
        # A text such as "no" would count as True, and a column of seeds holds 64 bits.
        if type(value) is not kind or (kind is int and not -(2**63) <= value < 2**63):
            raise DataError(f"{each.name} is {value!r}; pass {expected.format(each.name)}")


def make_configs(kind: type[SourceConfig], title: str, names: Iterable[str]) -> list[datasets.BuilderConfig]:
    """The configurations of a benchmark, all of version 1.0.0."""
    version = datasets.Version("1.0.0")
    return [kind(name=name, version=version, description=f"{title} {name}") for name in names]


class SourceBuilder(datasets.GeneratorBasedBuilder, ABC):
    """A builder that reads the files of a release.

    All but the content of images is checked before the first row is written. Raises a `MissingSourceError` for a
    `data_dir` that is not a folder, or is needed and not given, and for missing files and images, a `DownloadError` for
    a failed download, and a `DataError` for a malformed file or one that is not the released one, and after the last
    row for damaged images, all of which it names.
    """

    config: Any  # of `BUILDER_CONFIG_CLASS`
    SPLIT: ClassVar[str] = "test"
    GET_SOURCES: ClassVar[str] = "Leave it out to download the files"
    IS_DOWNLOADED: ClassVar[bool] = False
    # The names of a row's columns, separated by spaces.
    COLUMNS: ClassVar[str] = ""

    @property
    def _split(self) -> str:
        """The only split of the configuration."""
        return self.SPLIT

    def _columns(self) -> dict[str, Any]:
        """The features of a row, those of images included."""
        return columns(self.COLUMNS)

    @abstractmethod
    def _read_rows(self, dl_manager: Any) -> list[Row]:
        """All rows, without their images."""

    @abstractmethod
    def _find_images(self, dl_manager: Any, rows: list[Row]) -> ImagePaths:
        """The path of each image by its name; see `_require_images`."""

    def _image_names(self, row: Row) -> dict[str, str]:
        """By column of images, the name by which `_find_images` knows the row's image."""
        names = [column for column in row if column.startswith("filename")]
        return {name.replace("filename", "image"): row[name] for name in names}

    def _image_file(self, row: Row, column: str, path: str) -> dict[str, Any]:
        """What a row holds as its image: name and bytes of a file."""
        return {"path": row[column.replace("image", "filename")], "bytes": read_bytes(path)}

    @property
    def _folder(self) -> Any:
        """The user's own copy of the sources; None if they are downloaded."""
        return data_folder(self.config.data_dir, self.GET_SOURCES, is_needed=not self.IS_DOWNLOADED)

    def _note(self, what: str, source: str, folder: Path | None) -> None:
        """Keep where something is from, for the build's record, unless it is the user's own copy."""
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
        named = [f"{name} (for {shortened_list(ids)})" for name, ids in missing.items()]
        raise MissingSourceError(
            f"{self.config.name}: {len(missing)} of {len(images)} images are missing from {where}, or empty: "
            f"{shortened_list(named)}. {remedy}; or pass allow_missing=True to keep their rows without an image, or "
            "with_images=False for the text alone."
        )

    def _info(self) -> datasets.DatasetInfo:
        features = self._columns()
        if not self.config.with_images:
            features = {name: each for name, each in features.items() if not isinstance(each, datasets.Image)}
        return datasets.DatasetInfo(features=datasets.Features(features))

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        check_options(self.config)
        self.sources: list[str] = []
        rows = self._read_rows(dl_manager)
        often = Counter(row["id"] for row in rows)
        if twice := [id for id, count in often.items() if count > 1]:
            raise DataError(
                f"{self.config.name}: several rows of the source have the id {shortened_list(twice)}. Keep one of them."
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
                    if (which := (file["path"], len(file["bytes"]))) not in intact:
                        check_image(file["bytes"])
                        intact.add(which)
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
            named = [f"{name} (for {shortened_list(ids)}): {reason}" for name, (reason, ids) in sorted(damaged.items())]
            raise DataError(
                f"{self.config.name}: {len(damaged)} images are damaged: {'; '.join(named)}. Put intact files in their "
                "place; or pass allow_missing=True to keep their rows without an image"
            )
