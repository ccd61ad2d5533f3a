"""The score sheet: what a model said, raw, one row for each example; a Parquet file.

Every number that this project prints, plots, publishes or ranks is computed from sheets. The columns of each kind of
sheet are in ``sheet_rows``.

The file's metadata holds, under ``vl_assay``, one JSON object: `schema`, `version`, `kind` (one of
``sheet_rows.ROWS``), `benchmark` (name, task, configs, split, fingerprint, rows, missing), `model` (name, family,
revision, dtype, preprocessing …) and `run` (versions of the code and the libraries, device, processes, seed, counts,
seconds).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..common.errors import SheetError
from ..common.storage import write_atomically
from .schema import ROWS, MatchingRow, RetrievalRow, Row

SCHEMA = "vl-assay/sheet"
VERSION = 1
_METADATA_KEY = b"vl_assay"


@dataclass(frozen=True)
class Sheet:
    """A score sheet: its rows, in the dataset's order, and its metadata."""

    rows: Sequence[Row]
    metadata: dict[str, Any]

    @property
    def kind(self) -> str:
        """What the rows are: one of ``sheet_rows.ROWS``."""
        return self.rows[0].kind if self.rows else self.metadata.get("kind", MatchingRow.kind)

    @property
    def model(self) -> str:
        """The model's name."""
        return self.metadata["model"]["name"]

    @property
    def benchmark(self) -> str:
        """The benchmark's name."""
        return self.metadata["benchmark"]["name"]

    @property
    def task(self) -> str:
        """The task's name within the benchmark."""
        return self.metadata["benchmark"]["task"]


def write_sheet(path: str | Path, sheet: Sheet) -> None:
    """Write a sheet atomically, after the same checks as `read_sheet`.

    Raises:
        SheetError: the sheet does not follow its schema.
        StorageError: it could not be written.
    """
    _check(sheet, "this sheet")
    columns = ROWS[sheet.kind].columns
    arrays = [pa.array([getattr(row, field.name) for row in sheet.rows], field.type) for field in columns]
    metadata = {"schema": SCHEMA, "version": VERSION, "kind": sheet.kind, **sheet.metadata}
    table = pa.Table.from_arrays(arrays, schema=columns)
    table = table.replace_schema_metadata({_METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    write_atomically(Path(path), buffer.getvalue())


def read_sheet(path: str | Path) -> Sheet:
    """Read and check a sheet.

    Raises:
        SheetError: the file is missing, damaged, of another version, or breaks a rule of the schema; the message
            names the file and the row.
    """
    path = Path(path)
    if path.is_dir():
        raise SheetError(f"{path} is a folder; name the sheets in it")
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise SheetError(f"{path}: no such score sheet") from None
    except (pa.ArrowException, OSError) as error:
        raise SheetError(f"{path} is not a readable Parquet file: {error}") from error
    metadata = _metadata(table, path)
    row_class = ROWS[metadata["kind"]]
    if table.schema.remove_metadata() != row_class.columns:
        raise SheetError(
            f"{path}: the columns are {table.schema.remove_metadata()}; a sheet of the kind {metadata['kind']} has "
            f"{row_class.columns}"
        )
    try:
        sheet = Sheet(_rows(table, row_class), metadata)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SheetError(f"{path} holds values that cannot be read: {error}") from error
    _check(sheet, str(path))
    return sheet


def prediction_files(*paths: str | Path) -> list[Path]:
    """Files of predictions: those named, and of folders all that lie in them, sorted.

    Raises:
        SheetError: a folder holds none.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = [file for file in sorted(path.glob("*.parquet")) if _has_metadata(file)]
        if not inside:
            raise SheetError(f"{path} is a folder without predictions (*.parquet); name one that `vl-assay run` wrote")
        found += inside
    return list(dict.fromkeys(found))


def _has_metadata(path: Path) -> bool:
    try:
        return _METADATA_KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return True  # damaged: reading it says how


def _rows(table: pa.Table, row_class: type[Row]) -> list[Row]:
    if row_class is not RetrievalRow:
        return [row_class(**row) for row in table.to_pylist()]
    # As Python numbers the scores of a retrieval set would take ten times their size.
    scores = [None if row.values is None else row.values.to_numpy(zero_copy_only=False) for row in table["scores"]]
    rows = table.drop_columns(["scores"]).to_pylist()
    return [row_class(**row, scores=found) for row, found in zip(rows, scores, strict=True)]


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _metadata(table: pa.Table, path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number")

    try:
        metadata = json.loads((table.schema.metadata or {})[_METADATA_KEY], parse_constant=refuse)
    except (KeyError, ValueError, RecursionError):
        raise SheetError(f"{path} is a Parquet file but no score sheet: it has no `vl_assay` metadata") from None
    found = (metadata.get("schema"), metadata.get("version")) if isinstance(metadata, dict) else None
    if found != (SCHEMA, VERSION):
        raise SheetError(f"{path} says schema and version {found}; this version reads {(SCHEMA, VERSION)}")
    if metadata.get("kind") not in ROWS:
        raise SheetError(f"{path} is a sheet of the kind {metadata.get('kind')!r}; there are {', '.join(ROWS)}")
    return metadata


def _check_metadata(sheet: Sheet, name: str) -> None:
    """What results and reports take from the metadata is there and of its type; names have no control characters."""
    for section, field, kind in (
        ("model", "name", str),
        ("benchmark", "name", str),
        ("benchmark", "task", str),
        ("benchmark", "rows", int),
        ("benchmark", "missing", list),
        ("run", "truncated_captions", int),
    ):
        values = sheet.metadata.get(section, {} if section == "run" else None)
        if not isinstance(values, dict):
            raise SheetError(f"{name}: the metadata has no section {section!r}")
        value = values.get(field, 0 if section == "run" else None)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise SheetError(f"{name}: {section}.{field} in the metadata is {value!r}, not of type {kind.__name__}")
        if isinstance(value, int) and value < 0:
            raise SheetError(f"{name}: {section}.{field} in the metadata is {value}; it must be 0 or more")
        if isinstance(value, str) and not (value.isprintable() and 0 < len(value) <= 200):
            raise SheetError(f"{name}: {section}.{field} must be 1 to 200 printable characters, not {value[:50]!r}")
    if sheet.metadata["benchmark"]["rows"] != len(sheet.rows):
        raise SheetError(f"{name} has {len(sheet.rows)} rows, its metadata say {sheet.metadata['benchmark']['rows']}")


def _check(sheet: Sheet, name: str) -> None:
    _check_metadata(sheet, name)
    seen: set[str] = set()
    width = None
    for number, row in enumerate(sheet.rows):
        problem = row.problem()
        if problem is None and isinstance(row, RetrievalRow) and row.scores is not None:
            width = width or len(row.scores)
            problem = None if len(row.scores) == width else f"{len(row.scores)} scores, not {width} as those before"
        if row.id in seen:
            problem = "its id came before"
        if problem:
            raise SheetError(f"{name}: row {number} (id {row.id!r}): {problem}")
        seen.add(row.id)
