"""Files of answers, as data and nothing else: CSV, JSON lines and JSON to records that know their place in the file.

The ending tells what a file is (.csv, .tsv, .jsonl, .ndjson, .json), else its first character. JSON may be a list of
records or an object of them by id. Lines are read one by one, JSON as a whole.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ...metrics.common.errors import ModelError

# Characters of a line, and of a file of JSON, which takes ten times as much memory.
_LINE_LIMIT = 2**26
_JSON_LIMIT = 2**28
_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv")


class Record(NamedTuple):
    """What a file says at one place, such as ``"line 3"``; the values of CSV are texts."""

    place: str
    fields: dict[str, Any]


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, in its order.

    Raises:
        ModelError: no such file, one that is not what its ending says, or too large; the message names the place.
    """
    if not path.is_file():
        raise ModelError(f"there is no file {path}; name one with answers: answers:FILE")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _reader(path)(file)
    except (ValueError, OSError, RecursionError, csv.Error) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else error
        raise ModelError(f"{path.name} cannot be read: {reason}") from error


def number(value: Any) -> float:
    """A finite number, written as a number or, as in CSV, as a text; ValueError says what came instead."""
    try:
        # Python reads "1_0" as ten, which nobody has meant.
        found = math.nan if isinstance(value, bool) or "_" in str(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{shown(value)} is not a finite number")
    return found


def whole_number(value: Any) -> int | None:
    """A number from 0 that counts something, or None for anything else."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def listed(value: Any) -> list[Any]:
    """A list, as it is or, as in CSV, written as JSON; ValueError says what came instead."""
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, list):
        raise ValueError(f"{shown(value)} is not a list in JSON")
    return found


def shown(value: Any) -> str:
    """A value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _reader(path: Path) -> Callable[[TextIO], Iterator[Record]]:
    ending = path.suffix.lower()
    if ending in _LINES:
        return _json_lines
    if ending not in (*_TABLES, ".json"):
        with path.open(encoding="utf-8-sig") as file:
            ending = ".json" if file.read(1000).lstrip()[:1] in ("[", "{") else ".csv"
    if ending in _TABLES:
        return lambda file: _table(file, "\t" if ending == ".tsv" else ",")
    return _json


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LINE_LIMIT):
        if len(line) == _LINE_LIMIT:
            raise ValueError(f"a line is longer than {_LINE_LIMIT:,} characters")
        yield line


def _table(file: TextIO, delimiter: str) -> Iterator[Record]:
    reader = csv.reader(_lines(file), delimiter=delimiter, strict=True)
    names = [name.strip() for name in next(reader, [])]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"its first line must name the columns, each once; it is {shown(names)}")
    try:
        for cells in reader:
            if len(cells) != len(names) and cells:
                raise ValueError(f"line {reader.line_num} has {len(cells)} cells, not {len(names)} as the first line")
            if cells:
                yield Record(f"line {reader.line_num}", dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}; long cells are for JSON lines") from error


def _json_lines(file: TextIO) -> Iterator[Record]:
    for count, line in enumerate(_lines(file), 1):
        if line.strip():
            try:
                record = json.loads(line, object_pairs_hook=_unique)
            except ValueError as error:
                raise ValueError(f"line {count}: {error}") from error
            yield Record(f"line {count}", _fields(record, f"line {count}"))


def _json(file: TextIO) -> Iterator[Record]:
    text = file.read(_JSON_LIMIT)
    if len(text) == _JSON_LIMIT:
        raise ValueError(f"it is larger than {_JSON_LIMIT:,} characters; write JSON lines (.jsonl), a record a line")
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        file.seek(0)
        yield from _json_lines(file)
        return
    if isinstance(content, list):
        for count, record in enumerate(content, 1):
            yield Record(f"entry {count}", _fields(record, f"entry {count}"))
    elif isinstance(content, dict):
        for key, value in content.items():
            fields = {"id": key} | (value if isinstance(value, dict) else {"answer": value})
            yield Record(f"key {shown(key)}", fields)
    else:
        raise ValueError("it must be a list of records, or an object of them by id")


def _fields(record: Any, place: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError(f"{place}: {shown(record)} is not a record, an object with names and values")
    return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # The parser keeps the last of two equal keys, so that an answer would vanish without a word.
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"the key {shown(name)} is there twice")
        record[name] = value
    return record
