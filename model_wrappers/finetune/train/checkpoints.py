"""Checkpoints to go on from: everything that decides the rest of a run, in folders that appear whole or not at all.

A folder ``step-00000500`` has what Accelerate saves: weights, optimiser, schedule, moving average, position, and each
process's random numbers. With several machines it must lie where all of them can read and write.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, sync_folder
from ...engine.distributed import Processes

_KEPT = 2
_SIZES = "sizes.json"
# What torch's errors of writing a file have in them.
_WRITERS = ("PytorchStreamWriter", "inline_container", "iostream")


@dataclass
class Position:
    """How far a run has come: optimiser steps, finished epochs, batches of the epoch at hand, and what was measured.

    ``history`` has an entry for each evaluation: ``{"epoch": 1, "step": 500, "scores": {…}}``.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)

    def state_dict(self) -> dict[str, Any]:
        """For Accelerate, as the next one."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become what was saved."""
        self.__dict__.update(state)


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: where they lie.
        accelerator: with all that is to be saved prepared or registered.
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
        final = self._folder / f"step-{step:08d}"
        if final.exists():
            return
        temporary = self._folder / f".{final.name}"
        self._on_main(final, lambda: _fresh(temporary))
        with self._processes.raise_on_all_ranks(), writing(final, temporary):
            # Torch's own format: the other one does not take tensors that share memory.
            self._accelerator.save_state(str(temporary), safe_serialization=False)
        self._on_main(final, lambda: self._publish(temporary, final))

    def restore(self) -> bool:
        """Load the last checkpoint into what is prepared and registered; False where there is none.

        Raises:
            DataError: it is damaged.
        """
        found = self.found()
        if found:
            with self._processes.raise_on_all_ranks():
                self._check(found)
            self._accelerator.load_state(str(found[-1]))
        return bool(found)

    def _check(self, found: list[Path]) -> None:
        """Hold the files of the last checkpoint against the sizes that were written down."""
        last = found[-1]
        before = f"the one before, {found[-2].name}" if len(found) > 1 else "the beginning"
        try:
            sizes = json.loads((last / _SIZES).read_text("utf-8"))
            wrong = [name for name, size in sizes.items() if (last / name).stat().st_size != size]
        except (OSError, ValueError) as error:
            wrong = [str(error)]
        if wrong:
            raise DataError(
                f"the checkpoint {last} is not as it was written ({', '.join(wrong)}); remove it, and the same command "
                f"goes on from {before}"
            )

    def found(self) -> list[Path]:
        """The folders of whole checkpoints, the oldest first."""
        return sorted(path for path in self._folder.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))

    def _on_main(self, final: Path, change: Callable[[], None]) -> None:
        with self._processes.raise_on_all_ranks(), writing(final):
            if self._processes.is_main:
                change()

    def _publish(self, temporary: Path, final: Path) -> None:
        sizes = {str(file.relative_to(temporary)): file.stat().st_size for file in _files(temporary)}
        (temporary / _SIZES).write_text(json.dumps(sizes), "utf-8")
        _sync(temporary)
        os.replace(temporary, final)
        sync_folder(self._folder)
        for old in self.found()[:-_KEPT]:
            shutil.rmtree(old)


def write_folder(final: Path, write: Callable[[Path], None]) -> None:
    """Write a folder, in place of an earlier one, so that a half-written one never has its name.

    Raises:
        StorageError: it could not be written.
    """
    with writing(final), new_folder(final) as folder:
        write(folder)
        for file in _files(folder):
            file.chmod(0o644)  # safetensors makes them its owner's alone
        _sync(folder)


def _sync(folder: Path) -> None:
    """Have all files of a folder on the disk."""
    for file in _files(folder):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def read_json(file: Path, out: Path) -> Any:
    """What a file of a run holds.

    Raises:
        DataError: it is damaged.
    """
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({error}); put it back, or remove {out} to begin anew") from error


def _fresh(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


@contextmanager
def writing(final: Path, temporary: Path | None = None) -> Iterator[None]:
    """What goes wrong while a folder is written as a `StorageError`, with its half removed."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        # Torch's writer tells a full disk by a RuntimeError, and of many other things too.
        if isinstance(error, RuntimeError) and not any(name in str(error) for name in _WRITERS):
            raise
        raise StorageError(
            f"cannot write {final}: {error}. The last checkpoint is intact: free some space, and run the same command "
            "again to go on from there"
        ) from error
