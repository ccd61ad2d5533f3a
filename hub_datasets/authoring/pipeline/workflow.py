"""A workflow of stages, each with a folder; a finished stage is not repeated until its settings or inputs change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.documents import print_tables, simple_table
from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, write_text
from ....metrics.records.predictions import file_hash

STAGE_FILE = "stage.json"
SCHEMA = "vl-assay/stage"
VERSION = 1

# The result of a stage, JSON; under "summary" a summary in a few words.
Result = dict[str, Any]


class Waiting(Exception):
    """A stage needs people first; the message says what they have to do."""


@dataclass(frozen=True)
class Stage:
    """A stage of a workflow.

    It is finished if its folder has ``stage.json``, which is written last, with the present settings and hashes of the
    input files.

    Args:
        work: the folder of the workflow.
        name: its name and that of its folder there.
        settings: everything besides the inputs that its result depends on, JSON.
        reads: input files; a missing one is an input, too.
        do: does the work in the folder that it is given.
        keeps: whether `do` continues with the folder's content, such as a journal. Other stages start with an empty
            folder, which replaces the old one when it is complete.
        writes: output files outside its folder; without one of them the stage is not finished.
    """

    work: Path
    name: str
    settings: Mapping[str, Any]
    reads: tuple[Path, ...]
    do: Callable[[Path], Result]
    keeps: bool = False
    writes: tuple[Path, ...] = ()

    def result(self) -> Result:
        """Its last result; empty if it never finished."""
        return (self._record() or {}).get("result", {})

    def why(self) -> str:
        """Why it has to run: "new", or what changed; "" if it is finished."""
        record = self._record()
        if record is None:
            return "new"
        now = json.loads(json.dumps({"settings": dict(self.settings), "reads": self._hashes()}))
        missing = object()
        changed = [
            name
            for part in ("settings", "reads")
            for name in now[part] | record[part]
            if now[part].get(name, missing) != record[part].get(name, missing)
        ]
        gone = [path.name for path in self.writes if not path.exists()]
        reasons = (("changed", changed), ("missing", gone))
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in reasons if names)

    def run(self) -> Result:
        """Run it, and record its settings and inputs.

        Raises:
            Waiting: it needs people first.
            StorageError: its folder has something that it did not write.
        """
        folder = self.work / self.name
        record = {"schema": SCHEMA, "version": VERSION, "settings": dict(self.settings), "reads": self._hashes()}

        def run_in(place: Path) -> Result:
            result = self.do(place)
            text = json.dumps(record | {"result": result}, indent=1, ensure_ascii=False)
            write_text(place / STAGE_FILE, text + "\n")
            return result

        if self.keeps:
            (folder / STAGE_FILE).unlink(missing_ok=True)
            folder.mkdir(exist_ok=True)
            return run_in(folder)
        if folder.exists() and not (folder / STAGE_FILE).is_file():
            raise StorageError(f"{folder} exists and is not a stage of this workflow; give another work folder")
        for killed in self.work.glob(f".{self.name}.*"):
            shutil.rmtree(killed, ignore_errors=True)
        with new_folder(folder) as new:
            return run_in(new)

    def _record(self) -> dict[str, Any] | None:
        path = self.work / self.name / STAGE_FILE
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({error}); remove it, and the stage is repeated") from error
        if not isinstance(record, dict) or (record.get("schema"), record.get("version")) != (SCHEMA, VERSION):
            raise DataError(f"{path} has another schema or version; give another work folder")
        return record

    def _hashes(self) -> dict[str, str | None]:
        return {
            path.relative_to(self.work).as_posix(): file_hash(path) if path.is_file() else None for path in self.reads
        }


class Progress(NamedTuple):
    """A stage; ``"done"``, ``"next"`` or ``"later"``; why it is next; and its last result in a few words."""

    stage: str
    state: str
    why: str
    summary: str


def run_stages(stages: Iterable[Stage], say: Callable[[str], None]) -> str:
    """Run the stages that are not finished; what people have to do first, "" where all are finished.

    Args:
        stages: in their order.
        say: receives a line when a stage begins and ends.
    """
    for stage in stages:
        why = stage.why()
        if why:
            say(f"{stage.name} …" + ("" if why == "new" else f" ({why})"))
            try:
                stage.run()
            except Waiting as waiting:
                return str(waiting)
        say(f"{stage.name}: {stage.result().get('summary', '')}" + ("" if why else " (was done)"))
    return ""


def progress_of(stages: Iterable[Stage]) -> list[Progress]:
    """The progress of each stage; nothing is run."""
    found, is_later = [], False
    for stage in stages:
        why = stage.why()
        state = "later" if is_later else "next" if why else "done"
        why_next = "" if is_later or why == "new" else why
        found.append(Progress(stage.name, state, why_next, stage.result().get("summary", "")))
        is_later = is_later or bool(why)
    return found


def print_progress(found: Sequence[Progress], title: str) -> None:
    """Print a table of the stages."""
    rows = [(each.stage, each.state + (f" ({each.why})" if each.why else ""), each.summary) for each in found]
    print_tables([simple_table(("stage", "state", "result"), rows, title=title)])
