"""How the rows of a table are run: with which model, what it needs first, and which predictions are a row's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets.published.tables import Row, Table, all_tables
from ...metrics.common.errors import ModelError, PredictionsError, UnknownNameError
from ...metrics.common.user_files import list_files
from ...metrics.records.predictions import read_predictions
from ..engine.families import family_constants

NEEDS = ("nothing", "a library", "weights", "predictions")


class Plan(NamedTuple):
    """How a row is run: the model with the settings of its family; what it needs first, one of `NEEDS`, and why."""

    model: str
    settings: Mapping[str, str]
    need: str = NEEDS[0]
    why: str = ""


class FoundPredictions(NamedTuple):
    """A file of predictions with its task, the seed of its data (if they have one), and the model's metadata."""

    path: Path
    task: str
    seed: Any
    model: Mapping[str, Any]


def plan(
    table: Table, models: Iterable[str] | None = None, use: Mapping[str, str] | None = None, weights: str | Path = "."
) -> dict[str, Plan]:
    """Return how the rows of a table are run, by name, without loading models; the arguments are `reproduce`'s.

    Raises:
        UnknownNameError: a label that the table does not have.
    """
    instead = {row.name: model for label, model in (use or {}).items() for row in _pick(table, label)}
    chosen = table.rows if models is None else [row for label in models for row in _pick(table, label)]
    folder = Path(weights).expanduser()
    return {row.name: _plan(row, instead.get(row.name), folder) for row in table.rows if row in chosen}


def _plan(row: Row, other: str | None, weights: Path) -> Plan:
    run, family = row.run, row.run.model.partition(":")[0]
    if other is not None:
        return Plan(other, run.settings if other.partition(":")[0] == family else {})
    if not run.is_model:
        return Plan("", {}, "", run.reason)
    if not run.model:
        how = "into a file that vl-assay precomputed --template begins"
        why = f'{run.reason}; score it elsewhere, {how}, and use --use "{row.name}=precomputed:FILE"'
        return Plan("", {}, "predictions", why)
    model, settings, file = run.model, run.settings, weights / run.weights
    if run.weights and model.endswith(":"):
        model += str(file)
    elif run.weights:
        settings = {**settings, "pretrained": str(file)}
    if run.weights and not file.exists():
        why = f"there is no {file}; download {run.weights} ({run.source}) and name its folder with --weights"
        return Plan(model, settings, "weights", why)
    problem = family_constants(family).problem
    return Plan(model, settings, "a library" if problem else NEEDS[0], problem)


def status(weights: str | Path = ".") -> dict[str, dict[str, list[str]]]:
    """Return for each table the names of its models, by what they need to be run: one of `NEEDS`."""
    plans = {name: plan(table, weights=weights).items() for name, table in all_tables().items()}
    return {
        table: {need: [name for name, each in rows if each.need == need] for need in NEEDS}
        for table, rows in plans.items()
    }


def parse_use(pairs: Iterable[str] | None) -> dict[str, str]:
    """``["XVLM=precomputed:xvlm.csv"]`` → ``{"XVLM": "precomputed:xvlm.csv"}``."""
    models = {}
    for pair in pairs or ():
        label, _, model = (part.strip() for part in pair.partition("="))
        if not (label and model):
            raise ModelError(
                f"--use {pair!r} names no model for a row; write LABEL=MODEL, such as XVLM=precomputed:xvlm.csv"
            )
        models[label] = model
    return models


def _pick(table: Table, label: str) -> list[Row]:
    if rows := rows_named(table, label):
        return rows
    raise UnknownNameError(f"model of {table.name}", label, [row.name for row in table.rows])


def rows_named(table: Table, label: str) -> list[Row]:
    """Return the rows with this name or label, with or without the paper's reference, such as " [33]"."""
    return [row for row in table.rows if label.casefold() in {name.casefold() for name in _names(row)}]


def _names(row: Row) -> tuple[str, ...]:
    return row.name, row.label, re.sub(r" \[\d+\]$", "", row.label)


def scan_predictions(folder: str | Path) -> list[FoundPredictions]:
    """Return the predictions in a folder and below it.

    Raises:
        PredictionsError: no such folder, or a damaged file.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise PredictionsError(f"there is no folder {folder} to take predictions from")
    scanned = []
    for path in list_files(folder, "**/*.parquet"):  # not those in .unfinished
        predictions = read_predictions(path)
        task, metadata = f"{predictions.benchmark}/{predictions.task}", predictions.metadata
        seed = (metadata["benchmark"].get("options") or {}).get("seed")
        scanned.append(FoundPredictions(path, task, seed, metadata["model"]))
    return scanned


def find_predictions(
    scanned: Sequence[FoundPredictions], table: Table, plans: Mapping[str, Plan]
) -> dict[str, list[Path]]:
    """Return the predictions of each planned row; several of a task if their data have different seeds.

    Raises:
        PredictionsError: two of one row on the same data.
    """
    folders = {row.folder for row in table.rows}
    files: dict[str, dict[tuple[str, Any], Path]] = {}
    for path, task, seed, model in scanned:
        place = path.parent.name
        for row in table.rows:
            if row.name not in plans or not row.run.is_model or task not in table.tasks(row):
                continue
            if place == row.folder if place in folders else _belongs_to(row, model, plans[row.name]):
                other = files.setdefault(row.name, {}).setdefault((task, seed), path)
                if other != path:
                    raise PredictionsError(f"{other} and {path} are both of {row.name} on {task}; remove one of them")
    return {name: list(by_task.values()) for name, by_task in files.items()}


def _belongs_to(row: Row, model: Mapping[str, Any], planned: Plan) -> bool:
    """Return whether the model in the metadata of predictions is that of a row."""
    if model["name"] in _names(row) or not planned.model:
        return model["name"] in _names(row)
    family, separator, checkpoint = planned.model.partition(":")
    if not separator:
        family, checkpoint = model.get("family"), planned.model
    if (path := Path(checkpoint).expanduser()).exists():
        checkpoint = path.resolve().name
    settings = dict(planned.settings)
    if weights := settings.pop("pretrained", ""):
        checkpoint += f" (pretrained={Path(weights).name})"
    used = model.get("settings") or {}
    return (model.get("family"), model.get("checkpoint")) == (family, checkpoint) and settings.items() <= used.items()
