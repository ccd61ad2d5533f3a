"""Work in stages: each has a folder of its own, and stays done until its settings or what it reads change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....metrics.common.errors import DataError, StorageError
from ....metrics.common.storage import new_folder, write_text
from ....metrics.records.predictions import file_hash

STAGE_FILE = "stage.json"
SCHEMA = "vl-assay/stage"
VERSION = 1

# What a stage tells of itself, as JSON takes it; under "said" in a few words.
Result = dict[str, Any]


class Waiting(Exception):
    """A stage cannot end before people have done something; the message says what."""


@dataclass(frozen=True)
class Stage:
    """A part of the work.

    Args:
        name: also that of its folder.
        settings: all that decides on its result beside the files it reads, as JSON takes it.
        reads: files that it reads; one that is not there counts as such.
        run: makes it, in the folder that it is given.
        keeps: whether `run` goes on with what lies in the folder, such as a journal. Other stages begin with an empty
            folder, which takes the place of the old one when it is whole.
        writes: files that it makes outside its folder; when one of them is gone, it is not done.
    """

    name: str
    settings: Mapping[str, Any]
    reads: tuple[Path, ...]
    run: Callable[[Path], Result]
    keeps: bool = False
    writes: tuple[Path, ...] = ()


class Work:
    """Stages in their order, below a folder.

    A stage is done when ``stage.json`` is in its folder, which is written with the rest or last, and tells the settings
    and the hashes of the files with which it was made, if these are what they are now.
    """

    def __init__(self, folder: Path, stages: Sequence[Stage]) -> None:
        self.folder, self.stages = folder, stages

    def result(self, stage: Stage) -> Result | None:
        """What a stage told when it was last done; None where it never was."""
        record = self._record(stage)
        return None if record is None else record["result"]

    def why(self, stage: Stage) -> str:
        """Why a stage has to be done: "new", or what changed since; "" where it is done."""
        record = self._record(stage)
        if record is None:
            return "new"
        settings, reads = _plain(stage.settings), self._hashes(stage)
        changed = [name for name in settings | record["settings"] if _differ(name, settings, record["settings"])]
        changed += [name for name in reads | record["reads"] if _differ(name, reads, record["reads"])]
        gone = [path.name for path in stage.writes if not path.exists()]
        return "; ".join(
            f"{what}: {', '.join(names)}" for what, names in (("changed", changed), ("missing", gone)) if names
        )

    def do(self, stage: Stage) -> Result:
        """Do a stage, and note with what it was made.

        Raises:
            Waiting: it needs people first.
            StorageError: what lies in the place of its folder was not made by it.
        """
        folder = self.folder / stage.name
        reads = self._hashes(stage)
        if not stage.keeps:
            if folder.exists() and not (folder / STAGE_FILE).is_file():
                raise StorageError(f"{folder} is there and is no stage of this work; name another work folder")
            for killed in self.folder.glob(f".{stage.name}.*"):
                shutil.rmtree(killed, ignore_errors=True)
            with new_folder(folder) as new:
                result = stage.run(new)
                self._note(new, stage, reads, result)
            return result
        (folder / STAGE_FILE).unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        result = stage.run(folder)
        self._note(folder, stage, reads, result)
        return result

    def _note(self, folder: Path, stage: Stage, reads: Mapping[str, str | None], result: Result) -> None:
        record = {"schema": SCHEMA, "version": VERSION, "settings": dict(stage.settings), "reads": reads}
        write_text(folder / STAGE_FILE, json.dumps(record | {"result": result}, indent=1, ensure_ascii=False) + "\n")

    def _record(self, stage: Stage) -> dict[str, Any] | None:
        path = self.folder / stage.name / STAGE_FILE
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({error}); remove it, and the stage is done again") from error
        if not isinstance(record, dict) or (record.get("schema"), record.get("version")) != (SCHEMA, VERSION):
            raise DataError(f"{path} is of another version or of something else; name another work folder")
        return record

    def _hashes(self, stage: Stage) -> dict[str, str | None]:
        return {
            path.relative_to(self.folder).as_posix(): file_hash(path) if path.is_file() else None
            for path in stage.reads
        }


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they come back from JSON."""
    return json.loads(json.dumps(dict(settings)))


def _differ(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return name not in one or name not in other or one[name] != other[name]
