"""The score sheet: what a model said, raw, one row for each example; a Parquet file.

Every number that this project prints, plots, publishes or ranks is computed from sheets. Columns:

| column   | type               | meaning |
|---|---|---|
| id       | string             | the example's id in the dataset, each once |
| config   | string             | the dataset's configuration |
| category | string             | what the example tests |
| images   | list<string>       | content key of each image (SHA-256 of its file, 32 hex digits); "" where missing |
| correct  | list<int32>        | for each image, the index of its right caption |
| scores   | list<list<double>> | images × captions, higher is a better match; null where an image is missing |

The file's metadata holds, under ``vl_assay``, one JSON object: `schema`, `version`, `kind` ("matching"), `benchmark`
(name, task, configs, split, fingerprint, rows, missing), `model` (name, family, revision, dtype, preprocessing …)
and `run` (versions of the code and the libraries, device, processes, seed, counts, seconds).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import SheetError
from .storage import write_atomically

SCHEMA = "vl-assay/sheet"
VERSION = 1
_METADATA_KEY = b"vl_assay"
COLUMNS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("config", pa.string(), nullable=False),
        pa.field("category", pa.string(), nullable=False),
        pa.field("images", pa.list_(pa.string()), nullable=False),
        pa.field("correct", pa.list_(pa.int32()), nullable=False),
        pa.field("scores", pa.list_(pa.list_(pa.float64()))),
    ]
)


@dataclass(frozen=True)
class Row:
    """One example of a sheet; see the module's table."""

    id: str
    config: str
    category: str
    images: list[str]
    correct: list[int]
    scores: list[list[float]] | None


@dataclass(frozen=True)
class Sheet:
    """A score sheet: its rows, in the dataset's order, and its metadata."""

    rows: list[Row]
    metadata: dict[str, Any]

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
    table = pa.Table.from_pylist([vars(row) for row in sheet.rows], schema=COLUMNS)
    metadata = {"schema": SCHEMA, "version": VERSION, "kind": "matching", **sheet.metadata}
    table = table.replace_schema_metadata({_METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    write_atomically(Path(path), buffer.getvalue().to_pybytes())


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
    if table.schema.remove_metadata() != COLUMNS:
        raise SheetError(f"{path}: the columns are {table.schema.remove_metadata()}; a sheet has {COLUMNS}")
    sheet = Sheet([Row(**row) for row in table.to_pylist()], metadata)
    _check(sheet, str(path))
    return sheet


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
        if isinstance(value, str) and not (value.isprintable() and 0 < len(value) <= 200):
            raise SheetError(f"{name}: {section}.{field} must be 1 to 200 printable characters, not {value[:50]!r}")
    if sheet.metadata["benchmark"]["rows"] != len(sheet.rows):
        raise SheetError(f"{name} has {len(sheet.rows)} rows, its metadata say {sheet.metadata['benchmark']['rows']}")


def _check(sheet: Sheet, name: str) -> None:
    _check_metadata(sheet, name)
    seen: set[str] = set()
    for number, row in enumerate(sheet.rows):
        problem = _problem(row)
        if row.id in seen:
            problem = "its id came before"
        if problem:
            raise SheetError(f"{name}: row {number} (id {row.id!r}): {problem}")
        seen.add(row.id)


def _problem(row: Row) -> str | None:
    if None in (row.id, row.config, row.category, row.images, row.correct):
        return "a value is missing"
    if None in row.images or None in row.correct or (row.scores is not None and None in row.scores):
        return "a value is missing in a list"
    if not all(text.isprintable() for text in (row.id, row.config, row.category)):
        return "its id, config or category has control characters"
    if len(row.correct) != len(row.images) or not row.images:
        return f"{len(row.images)} images but {len(row.correct)} right captions"
    if row.scores is None:
        return None if "" in row.images else "no scores, though no image is missing"
    if "" in row.images:
        return "scores, though an image is missing"
    if len(row.scores) != len(row.images):
        return f"{len(row.scores)} rows of scores for {len(row.images)} images"
    widths = {len(scores) for scores in row.scores}
    if len(widths) != 1 or widths < {1}:
        return f"rows of scores of different lengths {sorted(widths)}"
    if not all(0 <= index < len(row.scores[0]) for index in row.correct):
        return f"right caption {row.correct} outside the {len(row.scores[0])} captions"
    if not all(score is not None and math.isfinite(score) for scores in row.scores for score in scores):
        return "a score is NaN, infinite or missing; every score must be a finite number"
    return None
