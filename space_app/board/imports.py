"""Published tables of others: kept in a storage, shown as published values.

They are stored as ``requests/imports/<hash of the source>/<number>.json``, of which the highest number counts: a table
of the same source replaces the earlier one, and one without models removes it. Files never change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ...metrics.common.errors import VLAssayError, check_known
from ...metrics.common.model_sizes import parameter_count
from ...metrics.common.storage import json_hash
from ..storage.protocol import Storage
from ..storage.records import load
from .entries import PUBLISHED, Column, Entry

_SCHEMA, _VERSION, _FOLDER = "vl-assay/import", 1, "requests/imports"
_DAMAGE = (VLAssayError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Model(NamedTuple):
    """A row of a published table; facts are "" where the table does not state them."""

    name: str
    family: str = ""
    parameters: str = ""
    training_data: str = ""


@dataclass(frozen=True)
class ImportedTable:
    """A published table, models × columns.

    Attributes:
        source: of the table.
        models: one for each row.
        columns: where the leaderboard shows each column.
        sources: what is to be added to the source, for each column; may be "".
        values: of each model by column, fractions in [0, 1]; None where the table has none.
        time: when it was stored, "" before.
    """

    source: str
    models: tuple[Model, ...] = ()
    columns: tuple[Column, ...] = ()
    sources: tuple[str, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()
    time: str = ""

    @property
    def id(self) -> str:
        """16 hexadecimal digits of a hash of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        count = sum(value is not None for row in self.values for value in row)
        return f"{len(self.models):,} models, {len(self.columns):,} columns, {count:,} values of {self.source}"

    def entries(self) -> Iterator[Entry]:
        """A published entry for each value."""
        sources = [", ".join(filter(None, (self.source, source))) for source in self.sources]
        for model, values in zip(self.models, self.values, strict=True):
            facts = {**model._asdict(), "parameters": parameter_count(model.parameters)}
            facts["model"] = facts.pop("name")
            for column, source, value in zip(self.columns, sources, values, strict=True):
                if value is not None:
                    place = {**column._asdict(), "value": value, "source": source}
                    yield Entry(**facts, **place, origin=PUBLISHED, status=PUBLISHED)


def imported_tables(storage: Storage) -> tuple[list[ImportedTable], list[str]]:
    """The tables of a storage that were not removed, the newest first, and messages on what cannot be read."""
    latest = {path.rpartition("/")[0]: path for path in storage.paths(f"{_FOLDER}/")}  # sorted by number
    tables, problems = [], []
    for path in latest.values():
        try:
            tables.append(_parse(load(storage, path)))
        except _DAMAGE as error:
            problems.append(f"the imported table {path} cannot be read ({type(error).__name__}: {error})")
    return sorted((table for table in tables if table.models), key=lambda table: table.time, reverse=True), problems


def imported_entries(storage: Storage) -> tuple[list[Entry], list[str]]:
    """The entries of all imported tables, and messages on what cannot be read."""
    tables, problems = imported_tables(storage)
    return [entry for table in tables for entry in table.entries()], problems


def store_table(storage: Storage, table: ImportedTable) -> bool:
    """Add a table, which replaces the earlier one of its source; False if the storage has the same already.

    Raises:
        StorageError: it cannot be stored, or another process has stored one of this source at the same moment.
    """
    paths = storage.paths(f"{_FOLDER}/{table.id}/")
    if paths:
        try:
            if replace(_parse(load(storage, paths[-1])), time="") == replace(table, time=""):
                return False
        except _DAMAGE:
            pass  # the new one takes the place of what cannot be read
    document = {"schema": _SCHEMA, "version": _VERSION, **vars(table), "time": datetime.now(UTC).isoformat()}
    document["sha256"] = json_hash(document)
    number = int(PurePosixPath(paths[-1]).stem) + 1 if paths else 1
    content = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    storage.add({f"{_FOLDER}/{table.id}/{number:06}.json": content}, f"Import the published table {table.id}")
    return True


def remove_table(storage: Storage, id: str) -> ImportedTable:
    """Take the table with this id from the leaderboard; its files stay in the storage.

    Raises:
        UnknownNameError: there is none.
        StorageError: as in `store_table`.
    """
    tables = {table.id: table for table in imported_tables(storage)[0]}
    check_known("imported table", [id], tables)
    store_table(storage, ImportedTable(tables[id].source))
    return tables[id]


def _parse(document: Mapping[str, Any]) -> ImportedTable:
    """A stored table; any of `_DAMAGE` if it is none."""
    if (document["schema"], document["version"]) != (_SCHEMA, _VERSION):
        raise ValueError(f"schema {document['schema']!r}, version {document['version']!r}")
    table = ImportedTable(
        source=document["source"],
        models=tuple(Model(*each) for each in document["models"]),
        columns=tuple(Column(*each) for each in document["columns"]),
        sources=tuple(document["sources"]),
        values=tuple(map(tuple, document["values"])),
        time=document["time"],
    )
    texts = [table.source, table.time, *table.sources, *(text for each in table.models for text in each)]
    texts += [text for column in table.columns for text in column]
    cells = [value for row in table.values for value in row if value is not None]
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(value, float) and 0 <= value <= 1 for value in cells
    ):
        raise ValueError("a field has the wrong type, or a value lies outside 0 to 1")
    sizes = {len(row) for row in table.values} | {len(table.sources)}
    if sizes != {len(table.columns)} or len(table.values) != len(table.models):
        raise ValueError("rows and columns do not fit the values")
    return table
