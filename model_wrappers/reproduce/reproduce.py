"""Reproduce a table of a paper: run its models and compare our values with the published ones.

The tables are in `hub_datasets.published`. A row whose model no family loads is reported with the reason; ``use`` gives
such a row another model, such as ``precomputed:FILE`` with scores that were computed elsewhere. Statistics are computed
from the dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from ...hub_datasets import report
from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.core.network import check_sources
from ...hub_datasets.published.tables import Row, Table, get_table
from ...metrics.common.errors import DataError, ModelError
from ...metrics.common.storage import write_text
from ...metrics.evaluation import Report, check_options
from ...metrics.records.predictions import file_hash, read_predictions
from ...metrics.records.results import Result
from ..engine.distributed import join
from ..engine.runner import default_folder, predict
from .comparing import compare, order_names, remarks
from .plans import FoundPredictions, Plan, find_predictions, plan, scan_predictions
from .report import Reproduction, as_json, to_markdown
from .statistics import compare_statistics


def reproduce(
    table: str,
    *,
    models: Iterable[str] | None = None,
    use: Mapping[str, str] | None = None,
    predictions: str | Path | Sequence[FoundPredictions] | None = None,
    out: str | Path | None = None,
    weights: str | Path = ".",
    ties: str | None = None,
    confidence: float = 0.95,
    **scoring: Any,
) -> Reproduction | None:
    """Score the models of a table and compare with its values; writes ``<table>.json`` and ``<table>.md``.

    The predictions of a model go to a folder of its name in `out`. A model that cannot be loaded does not stop the
    others, nor do missing data of some of its tasks.

    Args:
        table: its name, such as ``"sugarcrepe-6"``.
        models: labels of the rows to run, as printed, with a citation or not; by default all that can be run.
        use: models to score instead of those of the rows, by label: ``{"XVLM": "precomputed:xvlm.csv"}``. The row's
            settings apply to a model of the same family.
        predictions: a folder with predictions to use instead of running models, or what `scan_predictions` found there.
            Those in a folder of a row's name belong to that row; others to the row with their model or its name.
            Several of one task that differ in the seed of its data are averaged.
        out: folder of the results; by default that of the predictions, or ``vl-assay-results/<table>``.
        weights: the folder with weights to be downloaded by hand, such as ``negclip.pth``.
        ties, confidence: as for `report`. Answers in several orders of the captions are averaged over the orders
            (``"half"``) unless `ties` is given.
        scoring: arguments of `predict`: ``data_dir``, ``options``, ``dtype``, ``batch_size``, ``seeds``, ``progress``.
            ``data_dir`` may have a folder for each benchmark.

    Returns:
        The comparisons; with several processes None in all but the main one.

    Raises:
        VLAssayError: an unknown table, label or option, data that cannot be used, a full disk; or nothing to compare.
    """
    check_options(ties=ties, confidence=confidence)
    found = get_table(table)
    if found.why_not():
        raise ModelError(f"no value of {table} can be computed here: {found.why_not()}")
    given = None if isinstance(predictions, str | Path) or predictions is None else list(predictions)
    source = None if given is not None or predictions is None else Path(str(predictions)).expanduser()
    folder = Path(out or source or default_folder(table)).expanduser()
    if found.is_statistics:
        return reproduce_statistics(found, folder, scoring.get("data_dir"), options=scoring.get("options"))
    plans = plan(found, models, use, weights)
    rows = [row for row in found.rows if row.name in plans]
    if predictions is not None:
        given = scan_predictions(source) if source is not None else given
        paths, failed = find_predictions(given or [], found, rows, plans), {}
        not_run = {row.name: "no predictions" for row in rows if row.run.is_model and row.name not in paths}
    else:
        blocked = {name: each.why for name, each in plans.items() if each.why}
        if models is not None and blocked:
            name, why = next(iter(blocked.items()))
            raise ModelError(f"{name} of {table} cannot be run: {why}")
        free = [row for row in rows if row.name not in blocked]
        paths, failed = {}, {}
        for row in free:
            try:
                paths[row.name] = run_row(found, row, plans[row.name], folder / row.folder, scoring)
            except ModelError as error:
                failed[row.name] = str(error)
        not_run = {name: why for name, why in blocked.items() if plans[name].need}  # people are not models
    if not paths:
        reasons = "; ".join(f"{name}: {why}" for name, why in {**failed, **not_run}.items())
        raise ModelError(f"no model of {table} to compare with. {reasons}")
    if not join().is_main:
        return None
    return compare_rows(found, paths, folder, failed=failed, not_run=not_run, ties=ties, confidence=confidence)


def compare_rows(
    table: Table,
    paths: Mapping[str, Sequence[Path]],
    folder: Path,
    *,
    failed: Mapping[str, str],
    not_run: Mapping[str, str],
    ties: str | None = None,
    confidence: float = 0.95,
) -> Reproduction:
    """Compare the rows that have predictions, by the row's name, and write ``<table>.json`` and ``<table>.md``."""
    reports = {name: evaluate(files, ties, confidence) for name, files in paths.items()}
    rows = [row for row in table.rows if row.name in reports]
    comparisons = [one for row in rows for one in compare(table, row, reports[row.name])]
    used = {name: [result for result in found if result.metric in table.metrics] for name, found in reports.items()}
    said = [*remarks(used, comparisons)]
    options = {"ties": ties, "confidence": confidence}
    marks = {name: mark for name, found in used.items() if (mark := _mark(found))}
    return _write(Reproduction(table, options, comparisons, dict(not_run), dict(failed), said, marks), folder)


def _mark(results: Sequence[Result]) -> str:
    names = [order_names(result.model) for result in results]
    return f"one order of captions: {names[0][0]}" if names and len(names[0]) == 1 else ""


def reproduce_statistics(table: Table, folder: Path, data_dir: str | Path | None, **options: Any) -> Reproduction:
    """Compare a table of statistics with the dataset's own, and write ``<table>.json`` and ``<table>.md``."""
    name = table.columns[0].task.partition("/")[0]
    comparisons = [*compare_statistics(table, data_dir=data_folder(name, data_dir), **options)]
    return _write(Reproduction(table, {}, comparisons, {}, {}, []), folder)


def _write(result: Reproduction, folder: Path) -> Reproduction:
    write_text(folder / f"{result.table.name}.json", as_json(result) + "\n")
    write_text(folder / f"{result.table.name}.md", to_markdown(result))
    return result


def data_folder(benchmark: str, data_dir: str | Path | None) -> Path | None:
    """The folder with a benchmark's sources: that of its name in `data_dir`, if there is one."""
    return None if data_dir is None else sources_folder(benchmark, Path(data_dir).expanduser())


def run_row(table: Table, row: Row, found: Plan, folder: Path, scoring: Mapping[str, Any]) -> list[Path]:
    """Run the model of a row on the tasks whose data are there; the files of its predictions, in `folder`.

    Raises:
        ModelError: it cannot be loaded.
        DataError: the data of no task can be used.
    """
    tasks, lacking = ready_tasks(table.tasks(row), scoring.get("data_dir"), scoring)
    if not tasks and lacking:
        raise lacking[0]
    files: list[Path] = []
    for benchmark, own in groupby(tasks, key=lambda task: task.partition("/")[0]):
        changes = {**scoring, "data_dir": data_folder(benchmark, scoring.get("data_dir"))}
        files += predict(found.model, [*own], out=folder, settings=found.settings, **changes)
    return files


def ready_tasks(
    tasks: Iterable[str], data_dir: str | Path | None, scoring: Mapping[str, Any]
) -> tuple[list[str], list[DataError]]:
    """The tasks whose sources are there or can be downloaded, and the errors of the others."""
    ready, lacking = [], []
    for task in tasks:
        folder = data_folder(task.partition("/")[0], data_dir)
        try:
            check_sources([task], data_dir=folder, options=scoring.get("options"))
            ready.append(task)
        except DataError as error:
            lacking.append(error)
    return ready, lacking


@cache
def _report(files: tuple[tuple[Path, str], ...], ties: str | None, confidence: float) -> Report:
    return report([path for path, _ in files], ties=ties, confidence=confidence)


def evaluate(files: Sequence[Path], ties: str | None = None, confidence: float = 0.95) -> Report:
    """The results of a row's predictions; rows of several tables share theirs, if their files have not changed."""
    orders = max(len(order_names(read_predictions(path).metadata["model"])) for path in files)
    known = tuple((path, file_hash(path)) for path in files)
    return _report(known, ties or ("half" if orders > 1 else None), confidence)
