"""Checkpoints to resume from.

A folder ``step-00000500`` has what Accelerate saves: weights, optimiser, schedule, moving average, position, and the
random states of each process. It is complete when it has ``hashes.json``, the SHA-256 of each of its files, which is
written last. With several machines it must lie where all of them can read and write.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, write_text
from ....metrics.records.predictions import file_hash
from ...engine.distributed import Processes

_KEPT = 2
HASHES = "hashes.json"
# Parts of the messages of torch's errors when a file cannot be written.
_WRITERS = ("PytorchStreamWriter", "inline_container", "iostream")


@dataclass
class Position:
    """How far a run has come: optimiser steps, finished epochs, batches of the current epoch, and evaluations.

    ``history`` has an entry for each evaluation: ``{"epoch": 1, "step": 500, "scores": {…}}``.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        """The state that Accelerate saves."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.__dict__.update(state)


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: where they lie.
        accelerator: everything to be saved is prepared or registered with it.
        processes: those of the run.
    """

    def __init__(self, folder: Path, accelerator: Any, processes: Processes) -> None:
        self._folder = folder
        self._accelerator = accelerator
        self._processes = processes

    def save(self, step: int) -> None:
        """Write a checkpoint, then remove all but the last two. Every process calls it.

        Raises:
            StorageError: it could not be written; the earlier ones are intact.
        """
        folder = self._folder / f"step-{step:08d}"
        if folder in checkpoint_folders(self._folder):
            return
        with self._processes.raise_on_all_ranks(), storage_errors(folder):
            if self._processes.is_main:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
        with self._processes.raise_on_all_ranks(), storage_errors(folder):
            # Safetensors cannot hold tensors that share memory.
            self._accelerator.save_state(str(folder), safe_serialization=False)
        with self._processes.raise_on_all_ranks(), storage_errors(folder):
            if self._processes.is_main:  # the hashes make it complete, once its files are on the disk
                hashes = {str(file.relative_to(folder)): file_hash(file) for file in _sync(folder)}
                write_text(folder / HASHES, json.dumps(hashes))
                for old in checkpoint_folders(self._folder)[:-_KEPT]:
                    shutil.rmtree(old)

    def restore(self) -> bool:
        """Load the last checkpoint; False if there is none.

        Raises:
            DataError: it is damaged.
        """
        folders = checkpoint_folders(self._folder)
        if folders:
            with self._processes.raise_on_all_ranks():
                check_last(folders)
            self._accelerator.load_state(str(folders[-1]))
        return bool(folders)


def checkpoint_folders(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, the oldest first."""
    return sorted(file.parent for file in folder.glob(f"step-*/{HASHES}"))


def write_folder(final: Path, write: Callable[[Path], None]) -> None:
    """Write a folder atomically, in place of an earlier one.

    Raises:
        StorageError: it could not be written.
    """
    with storage_errors(final, keep=True), new_folder(final) as folder:
        write(folder)
        for file in _sync(folder):
            file.chmod(0o644)  # safetensors lets only the owner read them


def read_json(file: Path, out: Path) -> Any:
    """The content of a file of the run in the folder `out`.

    Raises:
        DataError: it is damaged.
    """
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({error}); restore it, or remove {out} to start again") from error


@contextmanager
def storage_errors(target: Path, *, keep: bool = False) -> Iterator[None]:
    """Raise errors of writing `target` as `StorageError`, and remove it unless it is kept."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if not keep:
            shutil.rmtree(target, ignore_errors=True)
        # Torch reports a full disk by a RuntimeError, and many other things too.
        if isinstance(error, RuntimeError) and not any(name in str(error) for name in _WRITERS):
            raise
        raise StorageError(
            f"cannot write {target}: {error}. The last checkpoint is intact: free some space, and run the same command "
            "again to resume from there"
        ) from error


def check_last(folders: list[Path]) -> None:
    """Check that the files of the last of these checkpoints are as they were written, and hold data alone.

    Raises:
        DataError: a file is damaged, or would run code when it is read.
    """
    import torch

    last = folders[-1]
    try:
        hashes = json.loads((last / HASHES).read_text("utf-8"))
        wrong = [name for name, found in hashes.items() if file_hash(last / name) != found]
        # Accelerate reads these as pickles that may run code.
        for file in last.glob("custom_checkpoint_*.pkl") if not wrong else ():
            torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, ValueError, AttributeError, UnpicklingError) as error:
        wrong = [str(error)]
    if wrong:
        previous = f"the previous one, {folders[-2].name}" if len(folders) > 1 else "the beginning"
        raise DataError(
            f"the checkpoint {last} is damaged ({', '.join(wrong)}); remove it, and the same command resumes from "
            f"{previous}"
        )


def _sync(folder: Path) -> list[Path]:
    """Wait until all files of a folder are on the disk; returns them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    return files
