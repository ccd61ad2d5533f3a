"""A cache of embeddings on the disk, so that no image or caption is encoded twice by the same model.

Each model (its name, revision, dtype, preprocessing and settings, the kind of device and the versions of the libraries)
has a folder of shards: sealed ``.npz`` files with content keys and embeddings, written atomically and never changed, so
that several runs may read and write at once. A shard that is not as it was written is deleted and its rows are computed
again. Above the size limit the least recently used shards are deleted.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...hub_datasets.core.repository import cache_folder
from ...metrics.common.errors import ModelError, StorageError
from ...metrics.common.storage import read_sealed, write_atomically, write_sealed
from .chunks import ChunkStore, choice_key
from .distributed import Processes
from .protocol import ModelInfo

# Gigabytes of all shards; the environment variable VL_ASSAY_CACHE_LIMIT replaces it.
LIMIT = 10.0
_MODEL_FILE = "model.json"

# Computes the rows of items, given their indices and the name of the stage.
Encode = Callable[[np.ndarray, str], np.ndarray]


@dataclass(frozen=True)
class CachedModel:
    """The cached embeddings of one model."""

    name: str
    revision: str
    dtype: str
    shards: int
    bytes: int


class EmbeddingCache:
    """The cache of one model, for one run; without a folder it stores nothing."""

    def __init__(self, folder: Path | None, store: ChunkStore, processes: Processes) -> None:
        self._folder = folder
        self._store = store
        self._processes = processes
        self._found: dict[str, int] = {}

    def embed(self, kind: str, keys: Sequence[str], encode: Encode) -> np.ndarray:
        """Rows (n, d) for the items with these content keys, from the cache or else computed by `encode`.

        Args:
            kind: "images" or "captions"; also the name of the stage.
            keys: distinct content keys.
            encode: computes rows for indices into `keys`.

        Raises:
            ModelError: the model's rows have another width than the cached ones.
        """
        if self._folder is None:
            return encode(np.arange(len(keys)), kind)
        known = self._known(kind, keys)
        places, rows = known["place"], known["row"]
        self._found[kind] = len(places)
        if not len(places):
            computed = encode(np.arange(len(keys)), kind)
            self._keep(kind, keys, computed)
            return computed
        left = np.setdiff1d(np.arange(len(keys)), places)
        every = np.empty((len(keys), rows.shape[1]), rows.dtype)
        every[places] = rows
        if len(left):
            computed = encode(left, f"{kind}-{choice_key(left)}")
            if computed.shape[1:] != rows.shape[1:]:
                raise ModelError(
                    f"the cache holds embeddings of width {rows.shape[1]} and the model gives {computed.shape[1]}; "
                    "clear it with `vl-assay cache --clear`"
                )
            every[left] = computed
            self._keep(kind, [keys[int(place)] for place in left], computed)
        return every

    def facts(self) -> dict[str, int]:
        """The number of embeddings taken from the cache, for the metadata of the predictions."""
        return {f"cached_{kind}": count for kind, count in self._found.items()}

    def _known(self, kind: str, keys: Sequence[str]) -> np.ndarray:
        """The index (``place``) and the row of each cached key.

        The main process looks them up once and stores them with the finished chunks: the other processes, and a resumed
        run, use the same rows whatever the cache holds by then.
        """
        with self._processes.raise_on_all_ranks():
            if self._processes.is_main and self._store.load(f"known-{kind}", 0) is None:
                self._store.save(f"known-{kind}", 0, self._look_up(kind, keys))
        known = self._store.load(f"known-{kind}", 0)
        assert known is not None
        return known

    def _look_up(self, kind: str, keys: Sequence[str]) -> np.ndarray:
        assert self._folder is not None
        wanted = {key: place for place, key in enumerate(keys)}
        shards = [_read_shard(shard, wanted) for shard in sorted(self._folder.glob(f"{kind}-*.npz"))]
        found = [(places, rows) for places, rows in shards if len(places)]
        if len({(rows.dtype, rows.shape[1:]) for _, rows in found}) != 1:
            found = [(np.empty(0, np.int64), np.empty((0, 0), np.float32))]
        places = np.concatenate([places for places, _ in found])
        chosen, first = np.unique(places, return_index=True)
        rows = found[0][1]
        known = np.empty(len(chosen), [("place", np.int64), ("row", rows.dtype, rows.shape[1:])])
        known["place"] = chosen
        # Shard by shard, so that the rows are not in memory a third time.
        start = 0
        for own, rows in found:
            here = (first >= start) & (first < start + len(own))
            known["row"][here] = rows[first[here] - start]
            start += len(own)
        return known

    def _keep(self, kind: str, keys: Sequence[str], rows: np.ndarray) -> None:
        """Write a shard and enforce the size limit; on a full disk the shard is dropped and the run goes on."""
        if not self._processes.is_main or self._folder is None or not len(keys):
            return
        buffer = io.BytesIO()
        np.savez(buffer, keys=np.array(keys, "S"), rows=rows)
        name = hashlib.sha256("\n".join(keys).encode()).hexdigest()[:16]
        with suppress(StorageError):
            write_sealed(self._folder / f"{kind}-{name}.npz", buffer.getvalue())
        _make_room(self._folder.parent)


def open_cache(
    info: ModelInfo, device: str, libraries: dict[str, str], store: ChunkStore, processes: Processes, *, keep: bool
) -> EmbeddingCache:
    """The cache of a model; it stores nothing if `keep` is False."""
    if not keep:
        return EmbeddingCache(None, store, processes)
    _limit()  # raises before anything is encoded
    versions = {
        name: libraries[name] for name in sorted(libraries) if name not in ("vl-assay", "datasets", "accelerate")
    }
    identity = {**asdict(info), "device": device.partition(":")[0], "libraries": versions}
    key = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]
    folder = _home() / key
    with processes.raise_on_all_ranks():
        if processes.is_main:
            _describe(folder, identity)
    return EmbeddingCache(folder, store, processes)


def _describe(folder: Path, identity: dict[str, Any]) -> None:
    """Describe a model in its folder; a folder with a damaged description is emptied first."""
    description = folder / _MODEL_FILE
    if description.exists():
        with suppress(OSError, ValueError, KeyError, TypeError):
            if isinstance(json.loads(description.read_text(encoding="utf-8"))["name"], str):
                return
        shutil.rmtree(folder, ignore_errors=True)
    write_atomically(description, json.dumps(identity, default=str).encode())


def cached_models() -> list[CachedModel]:
    """The models in the cache."""
    models = []
    for folder in sorted(_home().glob("*")):
        try:
            record = json.loads((folder / _MODEL_FILE).read_text(encoding="utf-8"))
            name, revision, dtype = (str(record[key]) for key in ("name", "revision", "dtype"))
        except (OSError, ValueError, KeyError, TypeError):
            name, revision, dtype = "(damaged)", "", ""
        sizes = [_used_and_size(shard)[1] for shard in folder.glob("*.npz")]
        models.append(CachedModel(name, revision, dtype, len(sizes), sum(sizes)))
    return models


def clear_cache() -> int:
    """Delete all embeddings; returns their size in bytes."""
    freed = sum(model.bytes for model in cached_models())
    shutil.rmtree(_home(), ignore_errors=True)
    return freed


def _limit() -> float:
    text = os.environ.get("VL_ASSAY_CACHE_LIMIT", str(LIMIT))
    try:
        return float(text)
    except ValueError:
        raise StorageError(f"VL_ASSAY_CACHE_LIMIT is {text!r}; give gigabytes as a number, such as 10") from None


def _home() -> Path:
    return cache_folder() / "embeddings"


def _read_shard(shard: Path, wanted: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """The places (n,) of the wanted rows of a shard, and copies of the rows (n, d); a damaged one is deleted."""
    nothing = np.empty(0, np.int64), np.empty((0, 0))
    try:
        with np.load(io.BytesIO(read_sealed(shard)), allow_pickle=False) as content:
            keys = [key.decode() for key in content["keys"].tolist()]
            here = [row for row, key in enumerate(keys) if key in wanted]
            rows = content["rows"][here] if here else nothing[1]
    except (OSError, ValueError, IndexError):
        shard.unlink(missing_ok=True)
        return nothing
    if here:
        with suppress(OSError):
            os.utime(shard)
    return np.array([wanted[keys[row]] for row in here], np.int64), rows


def _make_room(home: Path) -> None:
    shards = sorted((*_used_and_size(shard), shard) for shard in home.glob("*/*.npz"))
    excess = sum(size for _, size, _ in shards) - _limit() * 1e9
    for _, size, shard in shards:
        if excess <= 0:
            break
        excess -= size
        shard.unlink(missing_ok=True)


def _used_and_size(shard: Path) -> tuple[float, int]:
    """When a shard was last used and its bytes; zeros if another run has deleted it."""
    with suppress(OSError):
        status = shard.stat()
        return status.st_mtime, status.st_size
    return 0.0, 0
