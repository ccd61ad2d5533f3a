"""Records of a release's files: parsing them, and checking them against a schema.

Errors name the file, the record and the field, what was found, and what is expected.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ...metrics.common import user_files
from ...metrics.common.errors import DataError

Row = dict[str, Any]
_NAMES_SHOWN = 5
# A field of a table may hold a long list of captions; the standard library's limit is 128 kB.
_LONGEST_FIELD = 1_000_000


class Record(NamedTuple):
    """A record of a file: its label for messages ("row 3"), its key or number as text, and its content."""

    label: str
    key: str
    content: Any


def parse_records(payload: bytes, origin: str, name: str = "") -> list[Record]:
    """Return the records of a JSON, JSON lines, CSV or TSV file, in the format of the suffix of its name.

    Args:
        payload: its content.
        origin: its path or address, for messages.
        name: its name; by default `origin`.

    Raises:
        DataError: the file is not of its format, or has no records.
    """
    content = read_values(payload, origin, name)
    if not isinstance(content, list | dict) or not content:
        raise DataError(f"{origin} holds no rows.")
    if isinstance(content, dict):
        return [Record(f"key {key!r}", key, value) for key, value in content.items()]
    return [Record(f"row {number}", str(number), value) for number, value in enumerate(content)]


@lru_cache(1)  # several configurations read the same file, and none changes what it reads
def read_values(payload: bytes, origin: str, name: str = "") -> Any:
    """Return the value of a JSON file or the rows of a table, as `user_files.read_values`; raise a `DataError`."""
    suffix = PurePosixPath(name or origin.partition("?")[0]).suffix.lower()
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        return user_files.read_values(payload, suffix)
    except ValueError as error:
        raise DataError(f"{origin} cannot be read: {error}.") from error
    finally:
        csv.field_size_limit(limit)  # the limit is the process's, and other readers rely on it


@contextmanager
def with_remedy(remedy: str) -> Iterator[None]:
    """Append to the errors of a malformed file how to get the right file, a sentence without a full stop."""
    try:
        yield
    except DataError as error:
        error.args = (f"{error} {remedy}.",)
        raise


def check_rows(
    rows: Iterable[tuple[str, Any]],
    schema: Mapping[str, Any],
    origin: str,
    problem: Callable[[Row], str | None] = lambda row: None,
) -> list[Row]:
    """Return the fields of rows that a schema names, after checking their types.

    Args:
        rows: each with its label for messages, such as "row 3". A list of as many values as the schema has fields is
            taken as these fields.
        schema: by field a type, ``[type]`` for a list, or a schema for an object; `float` accepts any number, and
            `object` anything, None too.
        origin: the file, for messages.
        problem: returns the fault of a row beyond the types of its fields; None if it is valid.

    Raises:
        DataError: a row does not fit; the message names the file, the row and the field.

    >>> check_rows([("row 0", {"caption": "a cat", "more": 1})], {"caption": str}, "captions.json")
    [{'caption': 'a cat'}]
    >>> check_rows([("row 0", {"caption": None})], {"caption": str}, "captions.json")
    Traceback (most recent call last):
    ...
    vl_assay.metrics.common.errors.DataError: captions.json, row 0: caption is None. Expected {caption: str}.
    """
    checked = []
    for label, content in rows:
        is_list = isinstance(content, list) and len(content) == len(schema)
        row: Any = dict(zip(schema, content, strict=True)) if is_list else content
        fields = ""
        if isinstance(row, dict):
            wrong = [name for name, kind in schema.items() if not _has_type(row.get(name), kind)]
            fault = f"{wrong[0]} is {_shortened(row.get(wrong[0]))}" if wrong else problem(row)
            if not row.keys() >= schema.keys():
                fields = f"; the fields are {shortened_list([str(name) for name in row], 20)}"
        else:
            fault = f"found {_shortened(row)}"
        if fault:
            raise DataError(f"{origin}, {label}: {fault}. Expected {_described(schema)}{fields}.")
        checked.append({name: row.get(name) for name in schema})
    return checked


def check_row_count(count: int, expected: int, origin: str) -> None:
    """Raise a `DataError` unless a file has as many rows as the released one."""
    if count != expected:
        raise DataError(
            f"{origin} has {count:,} rows, but the release has {expected:,}. It is damaged or of another release: "
            "replace it, or pass verify=False to accept it."
        )


def read_list(text: str) -> list[str] | None:
    """Return a list of texts in Python's notation, as tables have them; None for anything else. Nothing is executed.

    >>> read_list("['a red cup', \\"a cup that isn't red\\"]")
    ['a red cup', "a cup that isn't red"]
    >>> [read_list(text) for text in ("('a', 'b')", "'ab'", "{'a': 'b'}", "[1]", "[__import__('os').getcwd()]")]
    [None, None, None, None, None]
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def with_lists(content: Any, fields: Iterable[str]) -> Any:
    """Return a record with the lists that some of its texts hold; other texts stay, and `check_rows` refuses them."""
    if not isinstance(content, dict):
        return content
    texts = {name: content.get(name) for name in fields}
    lists = {name: read_list(text.strip() or "[]") for name, text in texts.items() if isinstance(text, str)}
    return content | {name: value for name, value in lists.items() if value is not None}


def shortened_list(names: Sequence[str], shown: int = _NAMES_SHOWN) -> str:
    """Return the first names of a list, and how many more there are."""
    more = [f"and {len(names) - shown} more"] if len(names) > shown else []
    return ", ".join([*names[:shown], *more])


def _has_type(value: object, kind: Any) -> bool:
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(_has_type(value.get(name), field) for name, field in kind.items())
    if isinstance(kind, list):
        return isinstance(value, list) and all(_has_type(item, kind[0]) for item in value)
    return isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)


def _described(kind: Any) -> str:
    if isinstance(kind, Mapping):
        return "{" + ", ".join(f"{name}: {_described(field)}" for name, field in kind.items()) + "}"
    return f"[{_described(kind[0])}]" if isinstance(kind, list) else kind.__name__


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
