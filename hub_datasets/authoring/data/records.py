"""Records of texts in files of JSON lines, such as the proposals of a detection benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar

from ....metrics.common.errors import DataError
from .tables import check_rows, read_rows

_Record = TypeVar("_Record", bound=NamedTuple)


def read_records(path: str | Path, kind: type[_Record]) -> list[_Record]:
    """The records of a file, in their order; further fields of its rows are left out.

    Raises:
        DataError: the file has no rows or cannot be read, a row lacks a field or has one that is not text, or an `id`
            comes twice; the message names the row.
    """
    path = Path(path)
    found = []
    for key, row in read_rows(path):
        values = {name: row.get(name, kind._field_defaults.get(name)) for name in kind._fields}
        if wrong := [name for name, value in values.items() if not isinstance(value, str)]:
            raise DataError(f"row {key} of {path}: expected text as {', '.join(wrong)}; got {dict(row)}")
        found.append(kind._make(values.values()))
    check_rows(str(path), found)
    return found
