"""How the rows of a table are run: with which model, what it needs first, and which predictions are a row's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets.published.tables import Row, Table, all_tables
from ...metrics.common.errors import ModelError, PredictionsError, UnknownNameError
from ...metrics.records.predictions import read_predictions
from ..engine.families import family_constants

NEEDS = ("nothing", "a library", "weights", "predictions")


class Plan(NamedTuple):
    """How a row is run: the model with the settings of its family; and what it needs first, one of `NEEDS`, and why."""

    model: str
    settings: Mapping[str, str]
    need: str = NEEDS[0]
    why: str = ""


def plan(
    table: Table, models: Iterable[str] | None = None, use: Mapping[str, str] | None = None, weights: str | Path = "."
) -> dict[str, Plan]:
    """How the rows of a table are run, by name, without loading models; the arguments are those of `reproduce`.

    Raises:
        UnknownNameError: a label that the table does not have.
    """
    instead = {row.name: model for label, model in (use or {}).items() for row in _pick(table, [label])}
    return {row.name: _plan(row, instead.get(row.name), Path(weights).expanduser()) for row in _pick(table, models)}


def _plan(row: Row, other: str | None, weights: Path) -> Plan:
    run = row.run
    if other is not None:
        same_family = other.partition(":")[0] == run.model.partition(":")[0]
        return Plan(other, run.settings if same_family else {})
    if not run.is_model:
        return Plan("", {}, "", run.reason)
    if not run.model:
        how = "into a file that vl-assay precomputed --template begins"
        why = f'{run.reason}; score it elsewhere, {how}, and use --use "{row.name}=precomputed:FILE"'
        return Plan("", {}, "predictions", why)
    file = weights / run.weights
    found = Plan(run.model, run.settings)
    if run.weights and run.model.endswith(":"):
        found = found._replace(model=f"{run.model}{file}")
    elif run.weights:
        found = found._replace(settings={**run.settings, "pretrained": str(file)})
    if run.weights and not file.exists():
        why = f"there is no {file}; download {run.weights} ({run.source}) and name its folder with --weights"
        return found._replace(need="weights", why=why)
    problem = family_constants(run.model.partition(":")[0]).problem
    return found._replace(need="a library", why=problem) if problem else found


def status(weights: str | Path = ".") -> dict[str, dict[str, list[str]]]:
    """For each table the names of its models, by what they need to be run: one of `NEEDS`."""
    found = {}
    for table in all_tables().values():
        plans = plan(table, weights=weights)
        found[table.name] = {need: [name for name, each in plans.items() if each.need == need] for need in NEEDS}
    return found


def parse_use(pairs: Iterable[str] | None) -> dict[str, str]:
    """``["XVLM=precomputed:xvlm.csv"]`` → ``{"XVLM": "precomputed:xvlm.csv"}``."""
    found = {}
    for pair in pairs or ():
        label, separator, model = (part.strip() for part in pair.partition("="))
        if not (label and separator and model):
            raise ModelError(
                f"--use {pair!r} names no model for a row; write LABEL=MODEL, such as XVLM=precomputed:xvlm.csv"
            )
        found[label] = model
    return found


def _pick(table: Table, models: Iterable[str] | None) -> list[Row]:
    """The rows with these labels or names; all by default."""
    if models is None:
        return [*table.rows]
    chosen: list[Row] = []
    for model in models:
        rows = rows_named(table, model)
        if not rows:
            raise UnknownNameError(f"model of {table.name}", model, [row.name for row in table.rows])
        chosen += rows
    return [row for row in table.rows if row in chosen]


def rows_named(table: Table, label: str) -> list[Row]:
    """The rows with this label or name, which may lack the paper's reference."""
    return [row for row in table.rows if label.casefold() in {name.casefold() for name in _names(row)}]


def _names(row: Row) -> tuple[str, ...]:
    """What a row may be called: its name, its label, and that without the paper's reference, such as " [33]"."""
    return row.name, row.label, re.sub(r" \[\d+\]$", "", row.label)


class FoundPredictions(NamedTuple):
    """A file of predictions, with what it predicts; `seed` is that of the data, if they have one."""

    path: Path
    task: str
    seed: Any
    model: Mapping[str, Any]


def scan_predictions(folder: str | Path) -> list[FoundPredictions]:
    """The predictions in a folder and below it.

    Raises:
        PredictionsError: no such folder, or a damaged file.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise PredictionsError(f"there is no folder {folder} to take predictions from")
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        if ".unfinished" not in path.parts:
            predictions = read_predictions(path)
            about = predictions.metadata["benchmark"]
            task, seed = f"{predictions.benchmark}/{predictions.task}", (about.get("options") or {}).get("seed")
            found.append(FoundPredictions(path, task, seed, predictions.metadata["model"]))
    return found


def find_predictions(
    scanned: Sequence[FoundPredictions], table: Table, rows: Sequence[Row], plans: Mapping[str, Plan]
) -> dict[str, list[Path]]:
    """The predictions of each row, by the row's name; several of a task where their data have different seeds.

    Raises:
        PredictionsError: two of one row on the same data.
    """
    folders = {row.folder for row in table.rows}
    found: dict[str, dict[tuple[str, Any], Path]] = {}
    for path, task, seed, model in scanned:
        place = path.parent.name
        for row in rows:
            if not row.run.is_model or task not in table.tasks(row):
                continue
            if place == row.folder if place in folders else _belongs_to(row, model, plans[row.name]):
                other = found.setdefault(row.name, {}).setdefault((task, seed), path)
                if other != path:
                    raise PredictionsError(f"{other} and {path} are both of {row.name} on {task}; remove one of them")
    return {name: list(by_task.values()) for name, by_task in found.items()}


def _belongs_to(row: Row, model: Mapping[str, Any], planned: Plan) -> bool:
    """Whether the model in the metadata of predictions is that of a row."""
    if model["name"] in _names(row):
        return True
    if not planned.model:
        return False
    family, separator, checkpoint = planned.model.partition(":")
    if not separator:
        family, checkpoint = model.get("family"), planned.model
    if Path(checkpoint).expanduser().exists():
        checkpoint = Path(checkpoint).expanduser().resolve().name
    settings = dict(planned.settings)
    if "pretrained" in settings:
        checkpoint += f" (pretrained={Path(settings.pop('pretrained')).name})"
    used = model.get("settings") or {}
    return (model.get("family"), model.get("checkpoint")) == (family, checkpoint) and settings.items() <= used.items()
