"""The training log: a line of JSON for each step, and Accelerate's trackers where they are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....metrics.common.errors import StorageError
from ....metrics.common.storage import write_text


class Log:
    """The log of a run.

    Args:
        file: of JSON lines.
        accelerator: made with the trackers, which are started here.
        name: of the run, for the trackers.
        config: values that trackers show.
    """

    def __init__(self, file: Path, accelerator: Any, name: str, config: Mapping[str, Any]) -> None:
        self._file = file
        self._accelerator = accelerator
        if accelerator.log_with:
            shown = {key: value for key, value in config.items() if isinstance(value, int | float | str | bool)}
            accelerator.init_trackers(name, config=shown)

    def truncate(self, step: int) -> None:
        """Remove the lines after a step, and damaged ones: the run resumes there."""
        if self._accelerator.is_main_process and self._file.exists():
            try:
                lines = self._file.read_text("utf-8", errors="replace").splitlines()
            except OSError as error:
                raise StorageError(f"cannot read {self._file}: {error.strerror or error}; remove it") from error
            write_text(self._file, "".join(f"{line}\n" for line in lines if _step(line) <= step))

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append a line; numbers also go to the trackers."""
        if self._accelerator.is_main_process:
            try:
                with self._file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps({"step": step, **values}) + "\n")
            except OSError as error:
                raise StorageError(f"cannot write {self._file}: {error.strerror or error}") from error
        if self._accelerator.log_with:
            self._accelerator.log(_numbers(values), step=step)

    def close(self) -> None:
        """Finish the trackers."""
        for tracker in self._accelerator.trackers:
            tracker.finish()  # not `end_training`, which ends the process group before the model is saved


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _numbers(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found[prefix + name] = value
    return found
