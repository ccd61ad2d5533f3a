"""Imported tables of published values: read from CSV, kept in a storage, and shown as published with their source.

The file has the columns `COLUMNS`, in any order, and a line for each value; `EXAMPLE` is an example. The README
explains the columns. The storage keeps the unchanged file as ``requests/imports/<number>-<id>.csv``. To remove a table,
``requests/imports/<number>-<id>.removed`` is added. For each id the file with the highest number counts, and files
never change.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ...hub_datasets.core.benchmarks import benchmark_names, get_task
from ...metrics.common.errors import DataError, VLAssayError, check_known
from ...metrics.common.user_files import open_text, table_rows
from ...metrics.modules.discovery import get_spec
from ..storage.protocol import Storage
from .entries import PUBLISHED, BoardColumn, BoardEntry
from .launch import RESERVED, published, shipped
from .names import check_name, is_same_name

COLUMNS = ("model", "benchmark", "task", "category", "metric", "score", "value", "source")
EXAMPLE = 'ViT-B-32 openai,sugarcrepe,itm,swap_obj,sugarcrepe_itm,accuracy,0.615,"The paper, Table 6"'
# Of a file in bytes and values, and of a text in characters.
MAX_BYTES, MAX_VALUES, MAX_TEXT = 2**24, 100_000, 200
_HELP = f"the columns are {','.join(COLUMNS)}, and a valid line is: {EXAMPLE}"
_FOLDER = "requests/imports/"
_PATH = re.compile(_FOLDER + r"([0-9]{6})-([0-9a-f]{16})\.(csv|removed)")


class ImportedTable(NamedTuple):
    """A CSV file of published values.

    Attributes:
        content: the file.
        entries: a published entry for each line.
    """

    content: bytes
    entries: tuple[BoardEntry, ...]

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the file's SHA-256."""
        return hashlib.sha256(self.content).hexdigest()[:16]

    def __str__(self) -> str:
        models = len({entry.model for entry in self.entries})
        first, *further_sources = dict.fromkeys(entry.source for entry in self.entries)
        more = f" and {len(further_sources):,} more sources" if further_sources else ""
        return f"{len(self.entries):,} values of {models:,} models, from {first}{more}"


def read_table(path: Path) -> ImportedTable:
    """Read and validate a CSV file.

    Raises:
        DataError: the file is missing, too large or malformed, has no value or one value twice, or a line names an
            unknown benchmark, task, metric, score or category, or has a value that is not a number in [0, 1]; the
            message names the line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return parse_table(content, str(path))


def parse_table(content: bytes, name: str) -> ImportedTable:
    """Validate the content of a file; `name` is for messages. Raises as `read_table`."""
    if len(content) > MAX_BYTES:
        raise DataError(f"{name} is larger than {MAX_BYTES >> 20} MB; split it")
    lines: dict[tuple[str, BoardColumn], int] = {}
    entries = []
    for line, cells in _read_lines(content, name):
        try:
            entry = _entry(**cells)
        except VLAssayError as error:
            raise DataError(f"{name}, line {line}: {error}. In these files {_HELP}") from error
        if lines.setdefault((entry.model, entry.column), line) != line:
            first = lines[entry.model, entry.column]
            raise DataError(f"{name}: lines {first} and {line} give {entry.model!r} the same score; keep one of them")
        entries.append(entry)
    if not entries:
        raise DataError(f"{name} has no values: {_HELP}")
    return ImportedTable(content, tuple(entries))


def _read_lines(content: bytes, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the cells of each value by column; skip blank lines."""
    try:
        with open_text(content) as file:
            rows = list(islice(table_rows(file), MAX_VALUES + 1))
    except ValueError as error:
        raise DataError(f"{name} cannot be read: {error}; {_HELP}") from error
    if len(rows) > MAX_VALUES:
        raise DataError(f"{name} has more than {MAX_VALUES:,} values; split it")
    for line, cells in rows:
        if cells.keys() != set(COLUMNS):
            raise DataError(f"{name} has the columns {','.join(cells)[:MAX_TEXT]!r}, but {_HELP}")
        yield line, {column: cell.strip() for column, cell in cells.items()}


def _entry(*, model: str, value: str, source: str, **names: str) -> BoardEntry:
    for name, text in {"model": model, "value": value, "source": source, **names}.items():
        if len(text) > MAX_TEXT or not text.isprintable():
            raise DataError(f"the {name} {text[:40]!r} is not a text of at most {MAX_TEXT} printable characters")
        if not text and name not in ("task", "category", "metric"):
            raise DataError(f"the {name} is empty")
    check_name(model, RESERVED)
    column = _column(**names)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:  # nor NaN
        raise DataError(f"the value {value[:40]!r} is not a number from 0 to 1; write 61.5 % as 0.615")
    return BoardEntry(model=model, **column._asdict(), value=number, source=source, origin=PUBLISHED, status=PUBLISHED)


@lru_cache(maxsize=10_000)
def _column(benchmark: str, task: str, category: str, metric: str, score: str) -> BoardColumn:
    """Return the leaderboard's column for these names; raise a `VLAssayError` if one is unknown."""
    if benchmark not in benchmark_names() and not task and not metric:
        if here := [name for name in benchmark_names() if is_same_name(name, benchmark)]:
            raise DataError(f"the benchmark {benchmark!r} is {here[0]!r} here; write it so, with its task and metric")
        return BoardColumn(benchmark, "", "", score, category)
    declared = get_task(benchmark, task)
    check_known(f"metric of {benchmark}/{task}", [metric], declared.metrics)
    spec = get_spec(metric)
    if (known := spec.score(score)) is None:
        check_known(f"score of {metric}", [score], [score_spec.name for score_spec in spec.scores])
    elif category and not known.is_of(score):
        raise DataError(f"{score!r} is the mean over categories, so its category is empty")
    if category and (categories := _categories(benchmark, task)):
        check_known(f"category of {benchmark}/{task}", [category], categories)
    return BoardColumn(benchmark, task, metric, score, category)


@cache
def _categories(benchmark: str, name: str) -> list[str]:
    """Return the categories that the published or shipped values of a task name, else its configurations."""
    task = get_task(benchmark, name)
    if task.category is None:
        return [*task.configs]
    known = (entry for entry in [*published(), *shipped([])] if (entry.benchmark, entry.task) == (benchmark, name))
    return [*dict.fromkeys(entry.category for entry in known if entry.category)]


def imported_tables(storage: Storage) -> tuple[list[ImportedTable], list[str]]:
    """Return the tables that were not removed, newest first, and a message for each that cannot be read."""
    tables, problems = [], []
    for id, path in _present(storage).items():
        try:
            tables.append(_stored(storage.read(path), path, id))
        except VLAssayError as error:
            problems.append(f"the imported table {id} cannot be read: {error}")
    return tables[::-1], problems


def store_table(storage: Storage, table: ImportedTable) -> bool:
    """Store a table; its values take precedence over earlier tables. Return False if the storage has it already.

    Raises:
        StorageError: it cannot be stored.
    """
    if table.id in _present(storage):
        return False
    storage.add({f"{_next(storage)}-{table.id}.csv": table.content}, f"Import the published values {table.id}")
    return True


def remove_table(storage: Storage, id: str) -> None:
    """Remove a table from the leaderboard, even if it cannot be read; its file stays in the storage.

    Raises:
        UnknownNameError: there is no table with this id.
        StorageError: the removal cannot be stored.
    """
    check_known("imported table", [id], _present(storage))
    storage.add({f"{_next(storage)}-{id}.removed": b"removed\n"}, f"Remove the published values {id}")


def _present(storage: Storage) -> dict[str, str]:
    """Return the path of each table that was not removed, by its id; the newest last."""
    tables: dict[str, str] = {}
    for match in filter(None, map(_PATH.fullmatch, storage.paths(_FOLDER))):  # sorted by number
        tables.pop(match[2], None)
        if match[3] == "csv":
            tables[match[2]] = match[0]
    return tables


def _next(storage: Storage) -> str:
    """Return the beginning of the path of the next file."""
    numbers = [int(match[1]) for match in filter(None, map(_PATH.fullmatch, storage.paths(_FOLDER)))]
    return f"{_FOLDER}{max(numbers, default=0) + 1:06}"


@lru_cache(maxsize=64)
def _stored(content: bytes, path: str, id: str) -> ImportedTable:
    if ImportedTable(content, ()).id != id:
        raise DataError(f"{path} was changed since it was stored")
    return parse_table(content, path)
