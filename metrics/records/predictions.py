"""Predictions files: the raw scores of a model, one row for each example, as Parquet.

Every number that this project prints, plots, publishes or ranks is computed from predictions. The columns of each task
type are in ``schema``. The file's metadata holds, under ``vl_assay``, one JSON object: `schema`, `version`, `task_type`
(one of ``schema.ROWS``), `benchmark` (name, task, configs, split, fingerprint, rows, missing; for a download from the
Hub `hub`, its repo and revision), `model` (name, family, revision, dtype, preprocessing …) and `run` (versions of the
code and the libraries, date in ISO 8601, device, processes, seed, counts, seconds).
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

from ..common.errors import PredictionsError
from ..common.storage import check_version, refuse_pointer, write_atomically
from ..common.user_files import list_files
from .schema import ROWS, MatchingRow, RetrievalRow, Row

SCHEMA = "vl-assay/predictions"
VERSION = 3
_METADATA_KEY = b"vl_assay"


@dataclass(frozen=True)
class Predictions:
    """The rows of a file, in the dataset's order, and its metadata."""

    rows: Sequence[Row]
    metadata: dict[str, Any]

    @property
    def task_type(self) -> str:
        """The type of the rows: one of ``schema.ROWS``."""
        return self.rows[0].task_type if self.rows else self.metadata.get("task_type", MatchingRow.task_type)

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


def write_predictions(path: str | Path, predictions: Predictions) -> None:
    """Validate predictions as `read_predictions` does and write them atomically.

    Raises:
        PredictionsError: they do not follow the schema.
        StorageError: the file could not be written.
    """
    write_atomically(Path(path), to_bytes(predictions))


def to_bytes(predictions: Predictions) -> bytes:
    """Validate predictions and return the file that `write_predictions` writes; `PredictionsError` if invalid."""
    _check(predictions, "these predictions")
    columns = ROWS[predictions.task_type].columns
    arrays = [pa.array([getattr(row, field.name) for row in predictions.rows], field.type) for field in columns]
    metadata = {"schema": SCHEMA, "version": VERSION, "task_type": predictions.task_type, **predictions.metadata}
    table = pa.Table.from_arrays(arrays, schema=columns)
    table = table.replace_schema_metadata({_METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()})
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    return buffer.getvalue().to_pybytes()


def read_predictions(path: str | Path) -> Predictions:
    """Read and validate a file of predictions.

    Raises:
        PredictionsError: the file is missing, damaged, of another version, or does not follow the schema; the
            message names the file and the row.
    """
    path = Path(path)
    if path.is_dir():
        raise PredictionsError(f"{path} is a folder; name a file of predictions in it")
    try:
        # `read_table` imports pyarrow's datasets, and pandas. Like it, take the metadata of the schema, which a file
        # may also state outside of it: who reads both can tell that they differ. The beginning of a relative path with
        # a colon would be taken for a file system.
        refuse_pointer(path)
        with pq.ParquetFile(path.absolute()) as file:
            table = file.read().replace_schema_metadata(file.schema_arrow.metadata)
    except FileNotFoundError:
        raise PredictionsError(f"{path}: no such predictions file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PredictionsError(f"{path} is not a readable Parquet file: {error}") from error
    metadata = _metadata(table, path)
    row_class = ROWS[metadata["task_type"]]
    columns = table.schema.remove_metadata()
    if columns != row_class.columns:
        raise PredictionsError(
            f"{path}: the columns are {columns}; expected for the task type {metadata['task_type']}: "
            f"{row_class.columns}"
        )
    try:
        predictions = Predictions(_rows(table, row_class), metadata)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise PredictionsError(f"{path} holds values that cannot be read: {error}") from error
    _check(predictions, str(path))
    return predictions


def prediction_files(*paths: str | Path) -> list[Path]:
    """List the predictions files among paths: a file as given, and the sorted files of a folder.

    Raises:
        PredictionsError: a folder without predictions.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        inside = [file for file in list_files(path, "*.parquet") if is_predictions(file) is not False]
        if not inside:
            raise PredictionsError(
                f"{path} is a folder without predictions (*.parquet); name one that `vl-assay run` wrote"
            )
        files += inside
    return list(dict.fromkeys(files))


def is_predictions(path: Path) -> bool | None:
    """Return whether a Parquet file holds predictions, by its metadata; None if it is damaged."""
    try:
        return _METADATA_KEY in (pq.read_schema(path.absolute()).metadata or {})
    except (pa.ArrowException, OSError):
        return None


def _rows(table: pa.Table, row_class: type[Row]) -> list[Row]:
    if row_class is not RetrievalRow:
        return [row_class(**row) for row in table.to_pylist()]
    # As Python floats the scores of a retrieval set would take ten times the memory.
    scores = [None if row.values is None else row.values.to_numpy(zero_copy_only=False) for row in table["scores"]]
    rows = table.drop_columns(["scores"]).to_pylist()
    return [row_class(**row, scores=row_scores) for row, row_scores in zip(rows, scores, strict=True)]


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_format(metadata: Any, name: str) -> None:
    """Raise a `PredictionsError` unless the metadata of the file `name` have the expected schema and version."""
    run = metadata.get("run") if isinstance(metadata, dict) else None
    check_version(metadata, SCHEMA, VERSION, name, run.get("code") if isinstance(run, dict) else None)


def _metadata(table: pa.Table, path: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not valid JSON")

    try:
        metadata = json.loads((table.schema.metadata or {})[_METADATA_KEY], parse_constant=refuse)
    except (KeyError, ValueError, RecursionError):
        raise PredictionsError(
            f"{path} is a Parquet file but no predictions file: it has no `vl_assay` metadata"
        ) from None
    check_format(metadata, str(path))
    if metadata.get("task_type") not in list(ROWS):  # a list, since untrusted metadata may hold what has no hash
        raise PredictionsError(
            f"{path} has the task type {metadata.get('task_type')!r}; expected one of {', '.join(ROWS)}"
        )
    return metadata


def _check_metadata(predictions: Predictions, name: str) -> None:
    """Validate the metadata that results and reports use; names must be printable."""
    for section, field, kind in (
        ("model", "name", str),
        ("benchmark", "name", str),
        ("benchmark", "task", str),
        ("benchmark", "rows", int),
        ("benchmark", "missing", list),
        *(("run", count, int) for count in ("truncated_captions", "no_answer", "answers", "requests")),
    ):
        values = predictions.metadata.get(section, {} if section == "run" else None)
        if not isinstance(values, dict):
            raise PredictionsError(f"{name}: the metadata has no section {section!r}")
        value = values.get(field, 0 if section == "run" else None)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise PredictionsError(
                f"{name}: {section}.{field} in the metadata is {value!r}, not of type {kind.__name__}"
            )
        if isinstance(value, int) and value < 0:
            raise PredictionsError(f"{name}: {section}.{field} in the metadata is {value}; it must be 0 or more")
        if isinstance(value, str) and not (value.isprintable() and 0 < len(value) <= 200):
            raise PredictionsError(
                f"{name}: {section}.{field} must be 1 to 200 printable characters, not {value[:50]!r}"
            )
    if predictions.metadata["benchmark"]["rows"] != len(predictions.rows):
        raise PredictionsError(
            f"{name} has {len(predictions.rows)} rows, its metadata say {predictions.metadata['benchmark']['rows']}"
        )


def _check(predictions: Predictions, name: str) -> None:
    _check_metadata(predictions, name)
    seen: set[str] = set()
    width = None
    for number, row in enumerate(predictions.rows):
        problem = row.problem()
        if problem is None and isinstance(row, RetrievalRow) and row.scores is not None:
            width = width or len(row.scores)
            problem = None if len(row.scores) == width else f"{len(row.scores)} scores; the rows before have {width}"
        if row.id in seen:
            problem = "its id came before"
        if problem:
            raise PredictionsError(f"{name}: row {number} (id {row.id!r}): {problem}")
        seen.add(row.id)
