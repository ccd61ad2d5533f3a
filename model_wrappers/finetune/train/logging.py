"""What a run writes down: a line of JSON for each step, always; and the trackers that were asked for."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....metrics.common.errors import ModelError, StorageError, UnknownNameError
from ....metrics.common.storage import write_text

TRACKERS = {"tensorboard": ("tensorboard", "tensorboardX"), "trackio": ("trackio",)}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that do not exist or are not installed.

    Raises:
        UnknownNameError, ModelError: see above.
    """
    for name in names:
        if name not in TRACKERS:
            raise UnknownNameError("tracker", name, TRACKERS)
        if not any(importlib.util.find_spec(library) for library in TRACKERS[name]):
            raise ModelError(f"the tracker {name} is not installed: pip install {name}")


class Log:
    """The log of a run.

    Args:
        file: of JSON lines.
        accelerator: made with the trackers, which it starts.
        name: of the run, for the trackers.
        config: what they show of it.
    """

    def __init__(self, file: Path, accelerator: Any, name: str, config: Mapping[str, Any]) -> None:
        self._file = file
        self._accelerator = accelerator
        if accelerator.log_with:
            shown = {key: value for key, value in config.items() if isinstance(value, int | float | str | bool)}
            accelerator.init_trackers(name, config=shown)

    def cut(self, step: int) -> None:
        """Forget what came after a step, and a line that was cut off: the run goes on from there."""
        if self._accelerator.is_main_process and self._file.exists():
            try:
                lines = self._file.read_text("utf-8", errors="replace").splitlines()
            except OSError as error:
                raise StorageError(f"cannot read {self._file}: {error.strerror or error}; remove it") from error
            kept = [line for line in lines if _step(line) <= step]
            write_text(self._file, "".join(f"{line}\n" for line in kept))

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Add a line; numbers also go to the trackers."""
        if self._accelerator.is_main_process:
            try:
                with self._file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps({"step": step, **values}) + "\n")
            except OSError as error:
                raise StorageError(f"cannot write {self._file}: {error.strerror or error}") from error
        if self._accelerator.log_with:
            self._accelerator.log(dict(_numbers(values)), step=step)

    def close(self) -> None:
        """Let the trackers finish."""
        for tracker in self._accelerator.trackers:
            tracker.finish()  # `end_training` would part the processes too, which still have to save


def read_log(file: str | Path) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _numbers(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((prefix + name, value))
    return found
