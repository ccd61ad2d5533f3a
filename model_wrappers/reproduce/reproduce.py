"""Reproduce a table of a paper: run its models and compare our values with the published ones.

The tables are in `hub_datasets.published`. Rows whose model no family can load are reported with the reason; ``use``
gives such a row another model, such as ``precomputed:FILE`` with scores that were computed elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets import report
from ...hub_datasets.core.benchmarks import option_names
from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.published.tables import PublishedRow, PublishedTable, get_table
from ...hub_datasets.sources.availability import source_problems
from ...metrics.common.errors import DataError, ModelError, PredictionsError, UnknownNameError
from ...metrics.common.storage import with_home
from ...metrics.common.user_files import list_files
from ...metrics.records.predictions import file_hash, read_predictions
from ...metrics.records.results import Result
from ...metrics.results.compute import check_options
from ..engine.distributed import join
from ..engine.families import family_constants
from ..engine.runner import default_folder, predict
from .comparison import Reproduction, ValueComparison, compare, compare_statistics, remarks


class NothingToCompareError(ModelError):
    """No row of a table has predictions or can be run."""


class RowPlan(NamedTuple):
    """The model of a row with its family's settings, and the reason if it cannot be run."""

    model: str
    settings: Mapping[str, str]
    why: str = ""


class ScannedPredictions(NamedTuple):
    """A file of predictions with its task, the seed of its data (None without a seed), and the model's metadata."""

    path: Path
    task: str
    seed: Any
    model: Mapping[str, Any]


def reproduce(
    table: str,
    *,
    models: Iterable[str] | None = None,
    use: Mapping[str, str] | None = None,
    predictions: str | Path | Sequence[ScannedPredictions] | None = None,
    out: str | Path | None = None,
    weights: str | Path = ".",
    ties: str | None = None,
    confidence: float = 0.95,
    seeds: Iterable[int] = (),
    **scoring: Any,
) -> Reproduction | None:
    """Score the models of a table and compare with its values; writes ``<table>.json`` and ``<table>.md``.

    The predictions of a model go to a folder with the row's name in `out`. A model that cannot be loaded, or lacks the
    data of some tasks, does not stop the others. A table of statistics takes no models.

    Args:
        table: its name, such as ``"sugarcrepe-6"``.
        models: labels of the rows to run, as printed; by default all that can be run.
        use: models to score instead of the rows' models, by label: ``{"XVLM": "precomputed:xvlm.csv"}``. The row's
            settings apply to a model of the same family.
        predictions: a folder with predictions, or what `scan_predictions` found there. Models are then run only if
            `use` names them or if their answers were released. Predictions in a folder with a row's name belong to
            that row; others to the row with their model or its name. Several predictions of one task that differ in
            the seed of its data are averaged.
        out: folder of the results; by default the folder `predictions`, or ``vl-assay-results/<table>``.
        weights: the folder with weights to be downloaded by hand, such as ``negclip.pth``.
        ties, confidence: as for `report`.
        seeds: seeds of randomly drawn benchmarks; values are then means, with their standard deviation.
        scoring: arguments of `predict`: ``data_dir``, ``options``, ``dtype``, ``batch_size``, ``progress``.
            ``data_dir`` may have a folder for each benchmark.

    Returns:
        The comparisons; with several processes None in all but the main one.

    Raises:
        VLAssayError: an unknown table, label or option, data that cannot be used, a full disk; or nothing to compare.
    """
    check_options(ties=ties, confidence=confidence)
    published, drawn = get_table(table), list(seeds)
    if reason := published.why_not():
        raise ModelError(f"no value of {table} can be computed here: {reason}")
    is_folder = isinstance(predictions, str | Path)
    folder = with_home(out or (is_folder and predictions) or default_folder(table))
    if published.is_statistics:
        result = compare_statistics(published, scoring.get("data_dir"), scoring.get("options"))
        result.write(folder)
        return result
    plans, files, failed = plan_rows(published, models, use, weights), {}, {}
    if predictions is not None:
        scanned = scan_predictions(predictions) if is_folder else predictions
        files = find_predictions(scanned, published, plans)
        row_names = {row.name for label in use or () for row in rows_named(published, label)}
        for name, plan in plans.items():
            if plan.why or not (name in row_names or plan.model.startswith("precomputed:")):
                plans[name] = plan._replace(why="no predictions")
    elif models is not None:
        for name, plan in plans.items():
            if plan.why:
                raise ModelError(f"{name} of {table} cannot be run: {plan.why}")
    for row in published.rows:
        if row.name in plans and row.name not in files and not plans[row.name].why:
            try:
                files[row.name] = _run_row(published, row, plans[row.name], folder / row.folder, drawn, scoring)
            except ModelError as error:
                failed[row.name] = str(error)
    models_of = {row.name for row in published.rows if row.run.is_model}
    not_run = {name: plan.why for name, plan in plans.items() if plan.why and name in models_of - files.keys()}
    if not files:
        reasons = "; ".join(f"{name}: {why}" for name, why in {**failed, **not_run}.items())
        kind = ModelError if failed else NothingToCompareError
        raise kind(f"no model of {table} to compare with. {reasons}")
    if not join().is_main:
        return None
    comparisons, notes = _evaluate(published, files, ties, confidence)
    options = {"ties": ties, "confidence": confidence}
    result = Reproduction(published, comparisons, options, not_run, failed, notes)
    result.write(folder)
    return result


def _evaluate(
    table: PublishedTable, files: Mapping[str, Sequence[Path]], ties: str | None, confidence: float
) -> tuple[list[ValueComparison], list[str]]:
    """Return the comparisons of the rows with predictions in `files`, by the row's name, and remarks on them."""
    results, comparisons = {}, []
    for row in (row for row in table.rows if row.name in files):
        row_ties = ties or _ties(row, files[row.name])
        evaluated = _evaluated(tuple((file, file_hash(file)) for file in files[row.name]), row_ties, confidence)
        results[row.name] = [result for result in evaluated if result.metric in table.metrics]
        comparisons += compare(table, row, results[row.name])
    return comparisons, [*remarks(results, comparisons)]


@lru_cache(512)
def _evaluated(files: Sequence[tuple[Path, str]], ties: str | None, confidence: float) -> Sequence[Result]:
    """Return the results of files, given with their hashes; once for all tables that show them."""
    return report([file for file, _ in files], parts=False, ties=ties, confidence=confidence)


def _ties(row: PublishedRow, files: Iterable[Path]) -> str | None:
    """Return the tie policy of a row's values, which applies to means over several orders of the captions."""
    orders = [read_predictions(file).metadata["run"].get("orders", 1) for file in files] if row.run.ties else []
    return row.run.ties if any(count > 1 for count in orders) else None


def plan_rows(
    table: PublishedTable,
    models: Iterable[str] | None = None,
    use: Mapping[str, str] | None = None,
    weights: str | Path = ".",
) -> dict[str, RowPlan]:
    """Plan the rows of a table, by name, without loading models; arguments as for `reproduce`.

    Raises:
        UnknownNameError: a label that the table does not have.
    """
    by_label = partial(rows_named, table, required=True)
    instead = {row.name: model for label, model in (use or {}).items() for row in by_label(label)}
    rows = table.rows if models is None else [row for label in models for row in by_label(label)]
    folder = with_home(weights)
    return {row.name: _plan_row(row, instead.get(row.name), folder) for row in table.rows if row in rows}


def _plan_row(row: PublishedRow, instead: str | None, weights: Path) -> RowPlan:
    run, family = row.run, row.run.model.partition(":")[0]
    if instead is not None:
        return RowPlan(instead, run.settings if instead.partition(":")[0] == family else {})
    if not run.is_model:
        return RowPlan("", {}, run.reason)
    if not run.model:
        template = "into a file that vl-assay precomputed --template begins"
        why = f'{run.reason}; score it elsewhere, {template}, and use --use "{row.name}=precomputed:FILE"'
        return RowPlan("", {}, why)
    model, settings, file = run.model, run.settings, weights / run.weights
    if run.weights and model.endswith(":"):
        model += str(file)
    elif run.weights:
        settings = {**settings, "pretrained": str(file)}
    if run.weights and not file.exists():
        why = f"there is no {file}; download {run.weights} ({run.source}) and name its folder with --weights"
        return RowPlan(model, settings, why)
    return RowPlan(model, settings, family_constants(family).problem)


def rows_named(table: PublishedTable, label: str, *, required: bool = False) -> list[PublishedRow]:
    """Return the rows with this name or label, with or without the paper's reference, such as " [33]".

    Raises:
        UnknownNameError: no row matches, and one is required.
    """
    rows = [row for row in table.rows if label.casefold() in map(str.casefold, _names(row))]
    if required and not rows:
        raise UnknownNameError(f"model of {table.name}", label, [row.name for row in table.rows])
    return rows


def _names(row: PublishedRow) -> tuple[str, ...]:
    return row.name, row.label, re.sub(r" \[\d+\]$", "", row.label)


def scan_predictions(folder: str | Path) -> list[ScannedPredictions]:
    """Read the metadata of all predictions in a folder and below it.

    Raises:
        PredictionsError: no such folder, or a damaged file.
    """
    folder = with_home(folder)
    if not folder.is_dir():
        raise PredictionsError(f"there is no folder {folder} to take predictions from")
    scanned = []
    for path in list_files(folder, "**/*.parquet"):  # not those in .unfinished
        predictions = read_predictions(path)
        task, metadata = f"{predictions.benchmark}/{predictions.task}", predictions.metadata
        seed = (metadata["benchmark"].get("options") or {}).get("seed")
        scanned.append(ScannedPredictions(path, task, seed, metadata["model"]))
    return scanned


def find_predictions(
    scanned: Iterable[ScannedPredictions], table: PublishedTable, plans: Mapping[str, RowPlan]
) -> dict[str, list[Path]]:
    """Return the predictions of each planned row; several of one task if their data have different seeds.

    Raises:
        PredictionsError: two predictions of one row on the same data.
    """
    folders = {row.folder for row in table.rows}
    planned = [row for row in table.rows if row.name in plans and row.run.is_model]
    files: dict[str, dict[tuple[str, Any], Path]] = {}
    for path, task, seed, model in scanned:
        folder = path.parent.name
        for row in (row for row in planned if task in table.tasks(row)):
            if folder == row.folder if folder in folders else _belongs_to(row, model, plans[row.name]):
                first = files.setdefault(row.name, {}).setdefault((task, seed), path)
                if first != path:
                    raise PredictionsError(f"{first} and {path} are both of {row.name} on {task}; remove one of them")
    return {name: list(by_task.values()) for name, by_task in files.items()}


def _belongs_to(row: PublishedRow, model: Mapping[str, Any], plan: RowPlan) -> bool:
    """Return whether predictions with this model in their metadata belong to a row."""
    if model["name"] in _names(row) or not plan.model:
        return model["name"] in _names(row)
    family, separator, checkpoint = plan.model.partition(":")
    if not separator:
        family, checkpoint = model.get("family"), plan.model
    if (path := with_home(checkpoint)).exists():
        checkpoint = path.resolve().name
    settings = dict(plan.settings)
    if weights := settings.pop("pretrained", ""):
        checkpoint += f" (pretrained={Path(weights).name})"
    used = model.get("settings") or {}
    return (model.get("family"), model.get("checkpoint")) == (family, checkpoint) and settings.items() <= used.items()


def _run_row(
    table: PublishedTable,
    row: PublishedRow,
    plan: RowPlan,
    folder: Path,
    seeds: Sequence[int],
    scoring: Mapping[str, Any],
) -> list[Path]:
    """Run the model of a row on the tasks whose data can be used, and return the files of its predictions."""
    files: list[Path] = []
    problems: dict[str, DataError] = {}
    for benchmark, names in groupby(table.tasks(row), key=lambda task: task.partition("/")[0]):
        tasks, sources = [*names], sources_folder(benchmark, scoring.get("data_dir"))
        problems |= source_problems(tasks, data_dir=sources, options=scoring.get("options"))
        if ready := [task for task in tasks if task not in problems]:
            drawn = seeds if "seed" in option_names(benchmark) else ()
            changes = {**scoring, "data_dir": sources}
            files += predict(plan.model, ready, out=folder, settings=plan.settings, seeds=drawn, **changes)
    if problems and not files:
        raise next(iter(problems.values()))
    return files
