"""Stages of a new benchmark, each with a folder; a finished stage is repeated if its settings or inputs change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, write_text
from ....metrics.records.predictions import file_hash

STAGE_FILE = "stage.json"
_SCHEMA = {"schema": "vl-assay/stage", "version": 2}

# The result of a stage, JSON; under "summary" a summary in a few words.
Result = dict[str, Any]


class Waiting(Exception):
    """Raised if a stage needs decisions of people first; the message explains how to make them."""


@dataclass(frozen=True)
class Stage:
    """A stage of a workflow.

    It is finished if its folder has ``stage.json``, which is written last, with the present settings and hashes of the
    input files.

    Args:
        folder: its folder in the work folder; the stage has its name.
        settings: everything besides the inputs that its result depends on, JSON.
        reads: input files in the work folder; a missing one is an input, too.
        do: does the work in the folder that it is given.
        keeps: whether `do` continues with the folder's content, such as a journal. Other stages start with an empty
            folder, which replaces the old one when it is complete.
        writes: output files outside its folder; without one of them the stage is not finished.
    """

    folder: Path
    settings: Mapping[str, Any]
    reads: tuple[Path, ...]
    do: Callable[[Path], Result]
    keeps: bool = False
    writes: tuple[Path, ...] = ()

    def result(self) -> Result:
        """Return the last result; empty if it never finished."""
        return self._record().get("result", {})

    def why(self) -> str:
        """Return why it has to run: "new", or what changed; "" if it is finished."""
        record = self._record()
        if not record:
            return "new"
        missing = object()
        changed = [
            name
            for part, values in json.loads(json.dumps(self._inputs())).items()
            for name in values | record[part]
            if values.get(name, missing) != record[part].get(name, missing)
        ]
        reasons = {"changed": changed, "missing": [path.name for path in self.writes if not path.exists()]}
        return "; ".join(f"{reason}: {', '.join(names)}" for reason, names in reasons.items() if names)

    def run(self) -> Result:
        """Run it, and record its settings and inputs.

        Raises:
            Waiting: people have to decide first.
            StorageError: its folder has content that it did not write.
        """
        record, stage_file = _SCHEMA | self._inputs(), self.folder / STAGE_FILE

        def run_in(folder: Path) -> Result:
            result = self.do(folder)
            text = json.dumps(record | {"result": result}, indent=1, ensure_ascii=False)
            write_text(folder / STAGE_FILE, text + "\n")
            return result

        if self.keeps:
            stage_file.unlink(missing_ok=True)
            self.folder.mkdir(exist_ok=True)
            return run_in(self.folder)
        if self.folder.exists() and not stage_file.is_file():
            raise StorageError(f"{self.folder} exists and is not a stage of this workflow; give another work folder")
        for killed in self.folder.parent.glob(f".{self.folder.name}.*"):
            shutil.rmtree(killed, ignore_errors=True)
        with new_folder(self.folder) as new:
            return run_in(new)

    def _inputs(self) -> dict[str, dict[str, Any]]:
        work = self.folder.parent
        hashes = {path.relative_to(work).as_posix(): file_hash(path) if path.is_file() else None for path in self.reads}
        return {"settings": dict(self.settings), "reads": hashes}

    def _record(self) -> dict[str, Any]:
        """Return what the last run recorded; empty if it never finished."""
        path = self.folder / STAGE_FILE
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({error}); remove it, and the stage is repeated") from error
        if not isinstance(record, dict) or not record.items() >= _SCHEMA.items():
            raise DataError(f"{path} has another schema or version; give another work folder")
        return record


def run_stages(stages: Iterable[Stage], say: Callable[[str], None]) -> None:
    """Run the unfinished stages in order, and print a line with `say` when a stage begins and ends.

    Raises:
        Waiting: people have to decide first.
    """
    for stage in stages:
        why, name = stage.why(), stage.folder.name
        if why:
            say(f"{name} …" + ("" if why == "new" else f" ({why})"))
            stage.run()
        say(f"{name}: {stage.result().get('summary', '')}" + ("" if why else " (was done)"))


def states_of(stages: Iterable[Stage]) -> list[tuple[str, str, str]]:
    """Return the name, the state ("done", "later", "next" or "next (why)") and the summary of each stage."""
    states, is_later = [], False
    for stage in stages:
        why = stage.why()
        state = "later" if is_later else "done" if not why else "next" if why == "new" else f"next ({why})"
        states.append((stage.folder.name, state, stage.result().get("summary", "")))
        is_later = is_later or bool(why)
    return states
