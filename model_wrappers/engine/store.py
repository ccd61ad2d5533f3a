"""The store: what a model has computed, under the content keys of the items, so that nothing is computed twice.

An image's embedding is kept under the key of the image, the score of a pair under a key of both, boxes under image and
phrases. Each model (its `ModelInfo`, the kind of device and the versions of the libraries) has a folder of parts:
Parquet files with the columns ``key`` and ``values``, named by kind and content hash, written atomically and never
changed. Any process of any machine may add parts. This is the cache of embeddings, lets a killed run continue, and is
how the ranks of a run, shards and Ray's tasks share their work. A damaged part is deleted, and its items are computed
again. Above the size limit the folders of the models that were used least recently are deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...hub_datasets.core.repository import cache_folder
from ...metrics.common.errors import ModelError, StorageError
from ...metrics.common.storage import write_atomically

# Gigabytes of all models; the environment variable VL_ASSAY_CACHE_LIMIT replaces it.
LIMIT = 10.0
_MODEL_FILE = "model.json"
_KEY_BYTES = 16


def item_key(*parts: str) -> bytes:
    """Return the key, 16 bytes, of an item that these texts or content keys determine together."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=_KEY_BYTES).digest()


def identity_hash(identity: Mapping[str, Any]) -> str:
    """Return the name of the folder of a model that these facts describe, as JSON has them."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]


class StoredRows:
    """The rows of `count` items, filled in any order.

    Args:
        count: the number of items.
        ragged: whether rows differ in length; else the array is allocated with the first block.
    """

    def __init__(self, count: int, *, ragged: bool = False) -> None:
        self.has = np.zeros(count, bool)
        self._rows: Any = [np.empty(0)] * count if ragged else np.empty((count, 0))
        self._is_ragged = ragged

    @property
    def missing(self) -> np.ndarray:
        """The positions of items without a row, int64, ascending."""
        return np.flatnonzero(~self.has)

    def put(self, positions: np.ndarray, rows: Sequence[np.ndarray] | np.ndarray) -> None:
        """Fill in the rows of the items at `positions`; raises ModelError for rows of another width."""
        if self._is_ragged:
            for position, row in zip(positions.tolist(), rows, strict=True):
                self._rows[position] = row
        elif len(positions):
            block = np.asarray(rows)
            if not self.has.any():
                self._rows = np.empty((len(self.has), *block.shape[1:]), block.dtype)
            if block.shape[1:] != self._rows.shape[1:]:
                raise ModelError(
                    f"the store holds rows of width {self._rows.shape[1]} and the model gives {block.shape[1]}; "
                    "clear it with `vl-assay cache --clear`"
                )
            self._rows[positions] = block
        self.has[positions] = True

    def filled(self) -> Any:
        """Return all rows: an array (count, width), or a list of arrays if they are ragged."""
        return self._rows


class Store:
    """The parts of one model in a folder; without a folder it stores nothing.

    Args:
        folder: the model's folder.
        say: prints a message about damaged parts or a full disk.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None] = print) -> None:
        self.folder = folder
        self._say = say

    def read(self, kind: str, keys: Sequence[bytes], rows: StoredRows) -> None:
        """Fill in the stored rows of items that have none.

        Args:
            kind: of the results, such as "images".
            keys: the keys of all items of `rows`.
            rows: is changed.
        """
        if self.folder is None:
            return
        missing = {keys[position]: position for position in rows.missing.tolist()}
        for path in sorted(self.folder.glob(f"{kind}.*.parquet")):
            if not missing:
                return
            table = self._read_part(path)
            if table is None:
                continue
            part_keys, lists = table["key"].to_pylist(), table["values"].combine_chunks()
            values, offsets = lists.values.to_numpy(), lists.offsets.to_numpy()
            here = [row for row, key in enumerate(part_keys) if key in missing]
            positions = np.array([missing.pop(part_keys[row]) for row in here], np.int64)
            widths = np.diff(offsets)
            if widths.size and widths[0] and (widths == widths[0]).all():
                rows.put(positions, values.reshape(-1, widths[0])[here])
            else:
                rows.put(positions, [values[offsets[row] : offsets[row + 1]].copy() for row in here])

    def add(self, kind: str, keys: Sequence[bytes], rows: Sequence[np.ndarray] | np.ndarray) -> None:
        """Write a part with the rows of items; raises StorageError if the disk is full."""
        if self.folder is None or not len(keys):
            return
        flat = np.concatenate([np.asarray(row).ravel() for row in rows])
        offsets = np.cumsum([0, *(np.size(row) for row in rows)], dtype=np.int64)
        values = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat))
        table = pa.table({"key": pa.array(keys, pa.binary(_KEY_BYTES)), "values": values})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="none", use_dictionary=False, write_page_checksum=True)
        content = sink.getvalue().to_pybytes()
        write_atomically(self.folder / f"{kind}.{_content_hash(content)}.parquet", content)

    def copy_parts(self, other: Store) -> None:
        """Copy all parts to another store, without those that are damaged: their items will be missing there."""
        assert self.folder is not None
        assert other.folder is not None
        other.folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self.folder.glob("*.parquet")):
            content = path.read_bytes()
            if _content_hash(content) in path.name:  # it also shows later whether a copy is incomplete
                (other.folder / path.name).write_bytes(content)

    def remove(self) -> None:
        """Delete the folder, and the one around it if it is empty then."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):  # not empty: other runs are unfinished
                self.folder.parent.rmdir()

    def _read_part(self, path: Path) -> pa.Table | None:
        """Return a part, or None if it is damaged or another run has just deleted it."""
        try:
            content = path.read_bytes()
            if _content_hash(content) not in path.name:
                raise ValueError("its content has changed")
            return pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._say(f"{path} is damaged ({error}) and was deleted; its items are computed again")
            path.unlink(missing_ok=True)
            return None


@dataclass(frozen=True)
class StoredModel:
    """The parts of one model in the cache."""

    name: str
    revision: str
    dtype: str
    parts: int
    bytes: int


def model_folder(identity: Mapping[str, Any]) -> Path:
    """Return the path of the folder of a model in the cache, which may not exist."""
    return _home() / identity_hash(identity)


def cached_folder(identity: Mapping[str, Any]) -> Path:
    """Return the folder of a model in the cache, marked as used now.

    Raises:
        StorageError: VL_ASSAY_CACHE_LIMIT is not a number, or the cache cannot be written.
    """
    _limit()
    folder = model_folder(identity)
    description = folder / _MODEL_FILE
    try:
        if not isinstance(json.loads(description.read_text(encoding="utf-8"))["name"], str):
            raise ValueError(description)
        os.utime(description)
        return folder
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError):  # files next to a damaged file may also be damaged
        shutil.rmtree(folder, ignore_errors=True)
    write_atomically(description, json.dumps(identity, default=str).encode())
    return folder


def cached_models() -> list[StoredModel]:
    """Return the models in the cache, by the name of their folder."""
    models = []
    for folder in sorted(_home().glob("*")):
        try:
            record = json.loads((folder / _MODEL_FILE).read_text(encoding="utf-8"))
            name, revision, dtype = (str(record[key]) for key in ("name", "revision", "dtype"))
        except (OSError, ValueError, KeyError, TypeError):
            name, revision, dtype = "(damaged)", "", ""
        sizes = [path.stat().st_size for path in folder.glob("*.parquet")]
        models.append(StoredModel(name, revision, dtype, len(sizes), sum(sizes)))
    return models


def clear_cache() -> int:
    """Delete the stores of all models in the cache; return their size in bytes."""
    freed = sum(model.bytes for model in cached_models())
    shutil.rmtree(_home(), ignore_errors=True)
    return freed


def make_room(keep: Store) -> None:
    """Delete the stores in the cache that were used least recently, until the others are within the limit.

    Args:
        keep: the store in use, which stays however large it is.
    """
    by_use = sorted(_home().glob(f"*/{_MODEL_FILE}"), key=_time_of_use, reverse=True)
    total = 0
    for folder in (description.parent for description in by_use):
        with suppress(OSError):  # another run is deleting it
            total += sum(path.stat().st_size for path in folder.glob("*.parquet"))
        if total > _limit() * 1e9 and folder != keep.folder:
            shutil.rmtree(folder, ignore_errors=True)


def _time_of_use(description: Path) -> float:
    with suppress(OSError):
        return description.stat().st_mtime
    return 0.0  # another run has deleted it


def _limit() -> float:
    text = os.environ.get("VL_ASSAY_CACHE_LIMIT", str(LIMIT))
    try:
        return float(text)
    except ValueError:
        raise StorageError(f"VL_ASSAY_CACHE_LIMIT is {text!r}; give gigabytes as a number, such as 10") from None


def _home() -> Path:
    return cache_folder() / "store"


def _content_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
