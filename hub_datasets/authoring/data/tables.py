"""Tables of captions: CSV, TSV, JSON, JSON Lines and Parquet files, folders of them, and datasets on the Hub.

`audit`, `refine`, `generate`, `review` and `finetune` read their tables here. Which column is which follows from
``COLUMNS`` unless the user names it.
"""

from __future__ import annotations

import ast
import functools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_origin, get_type_hints

from ....metrics.common.errors import DataError, check_known, similar
from ....metrics.common.storage import with_home, write_text
from ....metrics.common.user_files import list_files, read_values
from ...core.benchmarks import benchmark_names
from ...core.build import data_errors
from ...core.image_keys import content_key
from ...sources.stored_images import open_parquet
from .made import MADE_FILES, Keyed, hard_negatives, made_table

HUB = "hf://datasets/"
SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
# The table of a folder of images, as in the ImageFolder convention of `datasets`.
METADATA_FILES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")

_CAPTION = (
    *("caption", "positive", "text", "captions", "true_caption", "sentence"),
    *("title", "positive_caption"),  # `title` is NegCLIP's
)
_NEGATIVE = (
    *("negative", "negatives", "negative_caption", "negative_captions", "hard_negative", "hard_negatives"),
    *("false_caption", "neg_caption"),
)
# The usual names of each field, the first that a table has is taken. Pairs call a caption `positive`.
COLUMNS: Mapping[str, Sequence[str]] = {
    "caption": _CAPTION,
    "positive": _CAPTION,
    "negative": _NEGATIVE,
    "negatives": _NEGATIVE,
    "positives": ("positives", "positive_caption", "positive_captions", "hard_positives"),
    "image": ("filename", "file_name", "image_path", "filepath", "image", "image_id"),
    "category": ("category", "type", "kind", "relation_name"),
    "id": ("id",),
}

# For a dataset on the Hub: prefer columns of images, prefer columns of their names, or do not download images.
Pictures = Literal["first", "last", "skip"]


_Record = TypeVar("_Record", bound=NamedTuple)


@dataclass(frozen=True)
class SourceTable:
    """A table whose columns are known.

    Attributes:
        source: its name in error messages.
        name: the name of its file, configuration or dataset.
        rows: each with its key; once only, if the table is streamed.
        columns: the column of each field that the table has.
        folder: where relative paths of images start; None for a dataset on the Hub.
    """

    source: str
    name: str
    rows: Iterable[Keyed]
    columns: Mapping[str, str]
    folder: Path | None = None

    @property
    def is_made(self) -> bool:
        """Return whether an authoring command wrote it, see `made`."""
        return self.folder is not None and Path(self.source).name in MADE_FILES

    def value(self, row: Mapping[str, Any], field: str) -> Any:
        """Return the cell of a field, None if the table has no such column."""
        return row.get(self.columns[field]) if field in self.columns else None

    def id(self, key: str, row: Mapping[str, Any]) -> str | None:
        """Return the row's id, None if the table has no column of ids; raise `DataError` for a row without one."""
        if "id" not in self.columns:
            return None
        if (value := self.value(row, "id")) is None:
            column = self.columns["id"]
            raise DataError(
                f"{self.source}: row {key} has no {column!r}, which each row must have; correct or remove the row"
            )
        return str(value)

    def image(self, row: Mapping[str, Any]) -> str:
        """Return the name of the row's image or, of an image without one, its content key; "" for no image."""
        value = self.value(row, "image")
        if isinstance(value, Mapping):
            content = value.get("bytes")
            return content_key(content) if content else str(value.get("path") or "")
        return "" if value is None else str(value)

    def texts(
        self, key: str, row: Mapping[str, Any], field: str, *, required: bool = True, parse_lists: bool = False
    ) -> tuple[str, ...]:
        """Return the captions in a cell, which may hold one or a list of them.

        Args:
            key, row, field: as in `rows` and ``COLUMNS``.
            required: whether there must be at least one, and none may be blank; else blanks, None and NaN are left
                out.
            parse_lists: whether a text such as ``"['a cat', 'a dog']"`` is a list, as in NegCLIP's files.

        Raises:
            DataError: something else than captions; the message names the row.
        """
        value, row_name = self.value(row, field), f"{self.source}: row {key}"
        if parse_lists and isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError) as error:
                if value[1:2] in ("'", '"'):
                    message = f"{row_name} has a list that cannot be read, {value[:60]!r}; correct or remove it"
                    raise DataError(message) from error
        values: Sequence[Any] = value if isinstance(value, list) and (value or not required) else [value]
        if not required:
            values = [text for text in values if text is not None and text == text and str(text).strip()]
        for text in values:
            if not isinstance(text, str) or not text.strip():
                raise DataError(
                    f"{row_name} has {text!r} in {self.columns[field]!r}, where a caption belongs; correct or remove it"
                )
        return tuple(values)


def read_tables(
    reference: str,
    fields: Sequence[str],
    required: Sequence[str],
    columns: Mapping[str, str],
    *,
    pictures: Pictures = "last",
    options: Mapping[str, Any] | None = None,
) -> list[SourceTable]:
    """Read the tables of a file, of a folder or of a dataset on the Hub; the latter is streamed.

    Args:
        reference: a file that ends in one of ``SUFFIXES``; a folder in the format of `made`, of images with one of
            ``METADATA_FILES``, or of such files; or ``"hf://datasets/owner/name"``, with ``/config`` if it has several.
        fields: the fields to look for, some of ``COLUMNS``.
        required: those that every table must have.
        columns: the user's column for some fields.
        pictures: whether the field `image` of a dataset on the Hub is a column of images (``{"bytes": …, "path": …}``)
            first, only where there is no column of names (``"last"``), or never (``"skip"``).
        options: further arguments of `datasets.load_dataset`, such as ``{"split": "train"}``; by default the split is
            ``test`` where there is one, else the first.

    Raises:
        DataError: the file does not exist, folder or dataset, it cannot be read, or a column is missing.
        UnknownNameError: `columns` has a field that is not among `fields`.
    """
    choose = functools.partial(choose_columns, fields=fields, required=required, columns=columns)
    if reference.startswith("hf://"):
        return [_hub_table(reference, choose, pictures, options or {})]
    if options:
        raise DataError(f"{reference} is a file or folder, which has no {', '.join(options)}; leave the options out")
    tables = []
    for path in _find_tables(with_home(reference)):
        rows: Sequence[Keyed] = read_rows(path)
        rows = hard_negatives(str(path), rows) if "negative" in fields else rows
        names = list(dict.fromkeys(column for _, row in rows for column in row))
        tables.append(SourceTable(str(path), path.stem, rows, choose(str(path), names), path.parent))
    return tables


def _find_tables(path: Path) -> list[Path]:
    """Return the file itself, the table of a folder of images or of an authoring command, or all tables of a folder."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        known = benchmark_names()
        near = map(str, path.parent.iterdir()) if path.parent.is_dir() else ()
        close = similar(str(path), [*known, *near]) or similar(str(path).partition("/")[0], known)
        raise DataError(
            f"there is no benchmark, file or folder {str(path)!r}; name a benchmark ({', '.join(known)}), a file "
            f"({', '.join(SUFFIXES)}), a folder of images with {METADATA_FILES[0]}, or {HUB}OWNER/NAME"
            + (f". Did you mean {close[0]!r}?" if close else "")
        )
    if table := made_table(path):
        return [table]
    tables = [path / name for name in METADATA_FILES if (path / name).is_file()][:1]
    tables = tables or [file for file in list_files(path) if file.suffix.lower() in SUFFIXES]
    if not tables:
        raise DataError(
            f"the folder {path} has no {', '.join(METADATA_FILES)} for its images and no other table "
            f"({', '.join(SUFFIXES)})"
        )
    return tables


def read_rows(path: Path) -> list[Keyed]:
    """Read the rows of a file, in their order.

    Args:
        path: ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, or ``.json``: a list of rows, or an object of rows by key.

    Raises:
        DataError: the file cannot be read or has another suffix, or a row is not an object of columns or has more or
            fewer cells than the first line.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path} ends in {path.suffix!r}; captions are read from {', '.join(SUFFIXES)}")
    try:
        rows: Any = open_parquet(path).read().to_pylist() if suffix == ".parquet" else read_values(path, suffix)
    except (OSError, ValueError) as error:  # pyarrow's errors are among these
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(rows, list | dict):
        raise DataError(f"{path} holds a {type(rows).__name__} at the top; give a list of rows, or an object of them")
    keyed = [(str(key), row) for key, row in (rows.items() if isinstance(rows, dict) else enumerate(rows))]
    for key, row in keyed:
        if not isinstance(row, Mapping):
            raise DataError(f"{path}: row {key} is {str(row)[:40]!r}; expected an object of columns")
    return keyed


def read_records(path: str | Path, kind: type[_Record]) -> list[_Record]:
    """Read the records of a file, in their order; further fields of its rows are left out.

    The number of a row stands for its `id` if it has none.

    Raises:
        DataError: the file cannot be read, a row lacks a field or has one of another type, a text cannot be encoded, or
            an `id` comes twice; the message names the row.
    """
    types = {name: get_origin(hint) or hint for name, hint in get_type_hints(kind).items()}
    records = []
    for key, row in read_rows(Path(path)):
        defaults = {"id": key, **kind._field_defaults}
        values = {**row, **{name: default for name, default in defaults.items() if row.get(name) in ("", None)}}
        for name, type_ in types.items():
            if not isinstance(values.get(name), type_):
                raise DataError(f"{path}: row {key} has {values.get(name)!r} in {name!r}; expected a {type_.__name__}")
        records.append(kind._make(values[name] for name in types))
    if records:
        check_rows(str(path), [[value for value in record if isinstance(value, str)] for record in records])
    return records


def write_rows(rows: Iterable[Any], path: Path) -> None:
    """Write dictionaries or named tuples as JSON lines, atomically; `read_rows` reads them again."""
    plain = (row if isinstance(row, dict) else row._asdict() for row in rows)
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain))


def choose_columns(
    source: str,
    found: Collection[str],
    fields: Sequence[str],
    required: Sequence[str],
    columns: Mapping[str, str],
    *,
    pictures: Collection[str] = (),
    pictures_first: bool = False,
) -> dict[str, str]:
    """Choose the column of each field: the user's, or the first of its usual names that no other field has taken.

    Args:
        source, found: the table's name, for messages, and its columns.
        fields, required, columns: as for `read_tables`.
        pictures: the columns that hold images.
        pictures_first: whether the field `image` is such a column where there is one, rather than one of names.

    Raises:
        UnknownNameError: `columns` has a field that is not among `fields`.
        DataError: there are no columns, the user's is not there, or a required field has none.
    """
    check_known("column", columns, fields)
    if not found:
        raise DataError(f"{source} has no row; give it one for each caption")
    for column in columns.values():
        if column not in found:
            raise DataError(f"{source} has no column {column!r}; it has {', '.join(found)}")
    column_of = dict(columns)
    for field in fields:
        names = list(COLUMNS[field])
        if field == "image":
            names.sort(key=lambda name: (name in pictures) != pictures_first)
        free = [name for name in names if name in found and name not in column_of.values()]
        if free and field not in column_of:
            column_of[field] = free[0]
    lacking = [field for field in required if field not in column_of]
    if lacking:
        raise DataError(
            f"{source} has the columns {', '.join(found)}, and none is known to be the {' or the '.join(lacking)}; say "
            f"which it is, as in --column {lacking[0]}={next(iter(found))}"
        )
    return column_of


def hub_name(reference: str) -> tuple[str, str | None]:
    """Return repository and configuration of ``hf://datasets/owner/name[/config]``; other forms raise `DataError`."""
    owner, _, rest = reference.removeprefix(HUB).partition("/")
    name, _, config = rest.partition("/")
    if not reference.startswith(HUB) or not owner or not name:
        raise DataError(f"expected {HUB}OWNER/NAME or {HUB}OWNER/NAME/CONFIG, not {reference!r}")
    return f"{owner}/{name}", config or None


def check_rows(source: str, rows: Sequence[Sequence[str]]) -> None:
    """Check rows of texts, the first of which is the id.

    Raises:
        DataError: there is no row, an id comes twice, or a text has half a character, which no file can hold.
    """
    if not rows:
        raise DataError(f"{source} has no captions: no rows came; name a file or a part that has some")
    check_unicode(source, rows)
    twice = [id for id, count in Counter(row[0] for row in rows).items() if count > 1]
    if twice:
        raise DataError(
            f"{source}: the id comes more than once in {', '.join(twice[:5])} ({len(twice)} ids); make ids different, "
            "or name another column with --column id=NAME"
        )


def check_unicode(source: str, rows: Iterable[Sequence[str]]) -> None:
    """Raise `DataError` where a text of a row, of which the first is the id, cannot be encoded."""
    for row in rows:
        try:
            "".join(row).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{source}: the row {row[0]!a} has {error.object[error.start]!a}, which is half a character (a lone "
                "surrogate); correct or remove it"
            ) from error


def _hub_table(
    reference: str, choose: Callable[..., dict[str, str]], pictures: Pictures, options: Mapping[str, Any]
) -> SourceTable:
    import datasets

    repo, config = hub_name(reference)
    with data_errors(reference):
        loaded: Any = datasets.load_dataset(repo, config, streaming=True, **{"split": None, **options})
        if isinstance(loaded, dict):
            loaded = loaded["test"] if "test" in loaded else next(iter(loaded.values()))
        if loaded.features is None:  # of files whose first rows say it
            loaded = loaded._resolve_features()
    of_images = {name for name, feature in loaded.features.items() if isinstance(feature, datasets.Image)}
    column_of = choose(reference, loaded.column_names, pictures=of_images, pictures_first=pictures == "first")
    if pictures == "skip" and column_of.get("image") in of_images:
        del column_of["image"]
    loaded = loaded.select_columns(list(dict.fromkeys(column_of.values())))
    if column_of.get("image") in of_images:
        loaded = loaded.cast_column(column_of["image"], datasets.Image(decode=False))

    def streamed() -> Iterator[Keyed]:
        with data_errors(reference):
            yield from ((str(number), row) for number, row in enumerate(loaded))

    return SourceTable(reference, config or repo.partition("/")[2], streamed(), column_of)
