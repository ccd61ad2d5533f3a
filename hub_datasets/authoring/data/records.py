"""Records in files of JSON lines: candidates, comparisons, and the proposals of a detection benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar, get_origin, get_type_hints

from ....metrics.common.errors import DataError
from .tables import check_rows, read_rows

_Record = TypeVar("_Record", bound=NamedTuple)


def read_records(path: str | Path, kind: type[_Record]) -> list[_Record]:
    """Read the records of a file, in their order; further fields of its rows are left out.

    Raises:
        DataError: the file cannot be read, a row lacks a field or has one of another type, a text cannot be encoded, or
            an `id` comes twice; the message names the row.
    """
    types = {name: get_origin(hint) or hint for name, hint in get_type_hints(kind).items()}
    found = []
    for key, row in read_rows(Path(path)):
        values = kind._field_defaults | row
        for name, type_ in types.items():
            if not isinstance(values.get(name), type_):
                raise DataError(f"{path}: row {key} has {values.get(name)!r} in {name!r}; expected a {type_.__name__}")
        found.append(kind._make(values[name] for name in types))
    if found:
        check_rows(str(path), [[value for value in record if isinstance(value, str)] for record in found])
    return found
