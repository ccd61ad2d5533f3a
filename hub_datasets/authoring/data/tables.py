"""Tables of captions, whatever their format: the rows of a file, which column is which, names on the Hub."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, UnknownNameError
from ...core.benchmarks import benchmark_names

HUB = "hf://datasets/"
SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
# The table of a folder of images, as in the ImageFolder convention of `datasets`.
METADATA_FILES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")

# A row with its key or number.
Keyed = tuple[str, Mapping[str, Any]]


def find_table(path: Path) -> Path:
    """The file itself, or the table of a folder of images.

    Raises:
        DataError: there is neither.
    """
    if path.is_dir():
        found = next((path / name for name in METADATA_FILES if (path / name).is_file()), None)
        if found is None:
            raise DataError(f"the folder {path} has no {', '.join(METADATA_FILES)}, which name its images and captions")
        return found
    if not path.is_file():
        raise DataError(
            f"there is no benchmark, file or folder {str(path)!r}; name a file ({', '.join(SUFFIXES)}), a folder of "
            f"images with {METADATA_FILES[0]}, a benchmark ({', '.join(benchmark_names())}), or {HUB}OWNER/NAME"
        )
    return path


def read_rows(path: Path) -> list[Keyed]:
    """The rows of a file in the order they have there.

    Args:
        path: ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, or ``.json``: a list of rows, or an object of rows by key.

    Raises:
        DataError: it cannot be read, ends otherwise, has a key twice, or a row is no object of columns or has more
            cells than the table has columns.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path} ends in {path.suffix!r}; captions are read from {', '.join(SUFFIXES)}")
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            rows: Any = pq.read_table(path).to_pylist()
        elif path.suffix in (".csv", ".tsv"):
            rows = _read_cells(path)
        elif path.suffix == ".jsonl":
            lines = path.read_text("utf-8-sig").split("\n")
            rows = [_read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        else:
            rows = json.loads(path.read_text("utf-8-sig"), object_pairs_hook=_refuse_twice)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be read as UTF-8 ({error}); save it in that encoding") from error
    except (OSError, ValueError, RecursionError, csv.Error) as error:  # pyarrow's errors are among these
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(rows, list | dict):
        raise DataError(f"{path} holds a {type(rows).__name__} at the top; give a list of rows, or an object of them")
    keyed = [(str(key), row) for key, row in (rows.items() if isinstance(rows, dict) else enumerate(rows))]
    odd = [key for key, row in keyed if not isinstance(row, Mapping)]
    if odd:
        raise DataError(f"{path}: row {odd[0]} is no object of columns; a row has a caption at least")
    return keyed


def column_names(rows: Sequence[Keyed]) -> list[str]:
    """The columns that some row has, in the order of their appearance."""
    return list(dict.fromkeys(column for _, row in rows for column in row))


def choose_columns(
    source: str,
    found: Collection[str],
    columns: Mapping[str, str],
    guesses: Mapping[str, Sequence[str]],
    needed: Sequence[str],
) -> dict[str, str]:
    """Which column of a table is each of our fields.

    Args:
        source: what the table is called, for messages.
        found: its columns.
        columns: what the user said of some fields.
        guesses: the usual names of each field; the first that the table has is taken.
        needed: the fields that must have one.

    Raises:
        DataError: the user's column is not there, or a needed field has none.
    """
    if not found:
        raise DataError(f"{source} has no row; give it one for each caption")
    chosen = {}
    for field, names in guesses.items():
        if field in columns:
            if columns[field] not in found:
                raise DataError(f"{source} has no column {columns[field]!r}; it has {', '.join(found)}")
            chosen[field] = columns[field]
        elif guess := next((name for name in names if name in found), None):
            chosen[field] = guess
    lacking = [field for field in needed if field not in chosen]
    if lacking:
        raise DataError(
            f"{source} has {'the columns ' + ', '.join(found) if found else 'no rows'}, and none is known to be the "
            f"{' or the '.join(lacking)}{'' if lacking == ['caption'] else ' caption'}; say which it is, as in "
            f"--column {lacking[0]}={next(iter(found), 'NAME')}"
        )
    return chosen


def row_id(source: str, key: str, row: Mapping[str, Any], column: str) -> str:
    """What the column of ids has in a row.

    Raises:
        DataError: nothing.
    """
    if row.get(column) is None:
        raise DataError(f"{source}: row {key} has no {column!r}, of which each row must have one; mend or remove it")
    return str(row[column])


def check_unicode(source: str, rows: Iterable[Sequence[str]]) -> None:
    """Raise `DataError` where a text of a row, of which the first is the id, is none that a file can hold."""
    for row in rows:
        try:
            "".join(row).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{source}: the row {row[0]!a} has {error.object[error.start]!a}, which is half a character (a lone "
                "surrogate); mend or remove it"
            ) from error


def check_fields(what: str, columns: Mapping[str, str], known: Collection[str]) -> None:
    """Raise `UnknownNameError` where the user speaks of a field that is not ours."""
    for name in columns:
        if name not in known:
            raise UnknownNameError(f"column of {what}", name, known)


def hub_name(reference: str) -> tuple[str, str | None]:
    """Repository and configuration of ``hf://datasets/owner/name[/config]``.

    Raises:
        DataError: it is written otherwise.
    """
    owner, _, rest = reference.removeprefix(HUB).partition("/")
    name, _, config = rest.partition("/")
    if not reference.startswith(HUB) or not owner or not name:
        raise DataError(f"{reference!r} is no dataset on the Hub; write {HUB}OWNER/NAME or {HUB}OWNER/NAME/CONFIG")
    return f"{owner}/{name}", config or None


def _read_cells(path: Path) -> list[dict[str | None, Any]]:
    separator = "\t" if path.suffix == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=separator)
        names = list(reader.fieldnames or ())
        if len(names) == 1 and (others := [other for other in ",;\t|" if other in names[0]]):
            raise ValueError(f"{others[0]!r} is between its columns; a {path.suffix} file has {separator!r} there")
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f"{twice.count(twice[0])} columns are called {twice[0]!r}; give each a name of its own")
        try:
            rows: list[dict[str | None, Any]] = list(reader)
        except csv.Error as error:
            raise ValueError(
                f"{error}, after line {reader.line_num}; close the quotation mark that is open there, if one is, or "
                "shorten the text"
            ) from error
    _refuse_surplus(rows)
    return rows


def _read_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON ({error}); mend or remove it") from error


def _refuse_surplus(rows: Sequence[Mapping[str | None, Any]]) -> None:
    for number, row in enumerate(rows):
        if None in row:
            raise ValueError(
                f"row {number} has more cells than there are columns ({row[None][0]!r} is beyond them); put a text "
                "with the separator in it in quotation marks"
            )


def _refuse_twice(items: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(items)
    if len(content) < len(items):
        keys = [key for key, _ in items]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} comes twice")
    return content
