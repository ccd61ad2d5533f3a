"""Runs that are complete: the same command again, in the same folder, finds its predictions and computes nothing.

A record in the cache has the hash of each file under a key of all that determines them: model, data, options, libraries
and code. Only models in local files are recorded, whose changes show; a branch on the Hub may move. Sources that are
downloaded are pinned in the code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...hub_datasets.core.examples import listing
from ...hub_datasets.core.repository import cache_folder
from ...metrics.common.errors import StorageError
from ...metrics.common.storage import read_sealed, write_sealed
from ...metrics.records.predictions import file_hash
from .families import checkpoint_path

_PACKAGE = Path(__file__).parents[2]
_CODE = ("metrics", "hub_datasets", "model_wrappers")


def run_key(model: str, references: Sequence[str], out: Path | None, about: Mapping[str, Any]) -> str | None:
    """A hash of all that determines the predictions of a run; None for a model whose changes cannot be seen.

    Args:
        model: a demo, a folder or a mock; any other name gives None.
        references: benchmarks or folders of datasets.
        out: the folder of the predictions, None for the default one.
        about: everything else: options, seeds, devices, versions of libraries.
    """
    checkpoint = Path(checkpoint_path(model)).expanduser()
    if not checkpoint.is_dir() and not model.startswith("mock:"):
        return None
    data_dir = about.get("data_dir")
    folders = [checkpoint, *(Path(each).expanduser() for each in (*references, *([data_dir] if data_dir else [])))]
    digest = hashlib.sha256()
    files = [listing(folder, with_written=True) for folder in folders]
    for part in (model, list(references), str((out or Path()).resolve()), dict(about), files):
        digest.update(json.dumps(part, sort_keys=True, default=str).encode() + b"\n")
    for code in sorted(path for folder in _CODE for path in (_PACKAGE / folder).rglob("*.py")):
        digest.update(code.read_bytes())
    return digest.hexdigest()[:32]


def finished_files(key: str | None) -> list[Path]:
    """The predictions of the run with that key, if all of them are as it wrote them; else an empty list."""
    if key is None:
        return []
    with suppress(OSError, ValueError):
        files = json.loads(read_sealed(_record(key)))
        if all(file_hash(Path(path)) == content for path, content in files.items()):
            return [Path(path) for path in files]
    return []


def record_files(key: str | None, files: Sequence[Path]) -> None:
    """Record that the run with that key has written these files."""
    if key is not None:
        with suppress(StorageError):  # a cache only
            content = {str(path): file_hash(path) for path in files}
            write_sealed(_record(key), json.dumps(content).encode())


def _record(key: str) -> Path:
    return cache_folder() / "finished" / f"{key}.json"
