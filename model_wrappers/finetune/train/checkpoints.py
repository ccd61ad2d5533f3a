"""Checkpoints to resume from, written by Accelerate, and the files of models.

A folder ``checkpoints/checkpoint_500`` has what Accelerate saves after step 500 (weights, optimiser, schedule, random
states of each process) and, written last, ``complete.json`` with the position and the SHA-256 of each file. Accelerate
loads random states silently or not at all, so that nothing is loaded before all files are found to be complete. With
several machines the folder must lie where all of them can read and write.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import read_sealed, write_sealed
from ....metrics.records.predictions import file_hash
from ...engine.distributed import Processes

COMPLETE = "complete.json"
_MOST_MESSAGE = 300  # characters
# Parts of the messages of torch's errors when a file cannot be written.
_WRITERS = ("PytorchStreamWriter", "inline_container", "iostream")


@dataclass
class Position:
    """The progress of a run: optimiser steps, finished epochs, batches of the current epoch, and evaluations.

    ``history`` has an entry for each evaluation: ``{"epoch": 1, "step": 500, "scores": {…}}``. ``log_bytes`` is the
    length of the log.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    log_bytes: int = 0


def checkpoint_folders(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a run, the oldest first."""
    files = folder.glob(f"checkpoints/checkpoint_*/{COMPLETE}")
    return sorted((file.parent for file in files), key=lambda path: int(path.name.rpartition("_")[2]))


def save_checkpoint(accelerator: Any, position: Position, processes: Processes) -> None:
    """Write a checkpoint; Accelerate removes all but the one before. Every process calls it.

    Raises:
        StorageError: it could not be written; the one before is intact.
    """
    folder = Path(accelerator.project_dir) / "checkpoints" / f"checkpoint_{position.step}"
    accelerator.project_configuration.iteration = position.step
    with processes.raise_on_all_ranks(), storage_errors(folder):
        # Safetensors cannot hold tensors that share memory.
        accelerator.save_state(safe_serialization=False)
    with processes.raise_on_all_ranks():
        if processes.is_main:
            hashes = {path.name: file_hash(path) for path in folder.iterdir()}
            record = json.dumps({"position": asdict(position), "sha256": hashes})
            write_sealed(folder / COMPLETE, record.encode())


def restore_checkpoint(accelerator: Any, processes: Processes) -> Position:
    """Load the last complete checkpoint and remove incomplete ones; without one, training starts anew.

    Raises:
        DataError: the checkpoint is damaged.
    """
    folder = Path(accelerator.project_dir)
    complete = checkpoint_folders(folder)
    if processes.is_main:
        for path in folder.glob("checkpoints/*"):
            if path not in complete:
                shutil.rmtree(path)
    processes.wait()
    if not complete:
        return Position()
    with processes.raise_on_all_ranks():
        try:
            return _load(accelerator, complete[-1])
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # torch, pickle and Accelerate raise anything for a file of other content
            before = f"the one before, {complete[-2].name}" if len(complete) > 1 else "the start"
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST_MESSAGE]
            raise DataError(
                f"the checkpoint {complete[-1]} is damaged ({reason}); remove it, and the same command resumes from "
                f"{before}"
            ) from error


def _load(accelerator: Any, folder: Path) -> Position:
    """Load a checkpoint whose files are as they were written, and return its position."""
    record = json.loads(read_sealed(folder / COMPLETE))
    changed = [name for name, expected in record["sha256"].items() if file_hash(folder / name) != expected]
    if changed:
        raise ValueError(f"{', '.join(changed)} changed after writing")
    accelerator.load_state(str(folder))
    return Position(**record["position"])


def write_files(folder: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary folder, and move its files into `folder`: each appears complete or not at all.

    Raises:
        StorageError: they could not be written.
    """
    with storage_errors(folder), tempfile.TemporaryDirectory(prefix=".model.", dir=folder) as temporary:
        write(Path(temporary))
        for path in Path(temporary).iterdir():
            path.chmod(0o644)  # safetensors lets only the owner read them
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
            os.replace(path, folder / path.name)


def read_json(file: Path, out: Path) -> Any:
    """Return the content of a file of the run in the folder `out`.

    Raises:
        DataError: it is damaged.
    """
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({error}); restore it, or remove {out} to start again") from error


@contextmanager
def storage_errors(target: Path) -> Iterator[None]:
    """Raise the errors of writing `target` as `StorageError`."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        # Torch reports a full disk by a RuntimeError, and many other things too.
        if isinstance(error, RuntimeError) and not any(name in str(error) for name in _WRITERS):
            raise
        raise StorageError(
            f"cannot write {target}: {error}. The last checkpoint is intact: free some space, and run the same command "
            "again to resume from there"
        ) from error
