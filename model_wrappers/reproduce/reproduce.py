"""Reproduce a table of a paper: run its models and compare our values with the published ones.

The tables are in `hub_datasets.published`. A row whose model no family loads is reported with the reason; ``use`` gives
such a row another model, such as ``precomputed:FILE`` with scores that were computed elsewhere. Statistics are computed
from the dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...hub_datasets import report
from ...hub_datasets.core.benchmarks import option_names
from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.core.network import check_sources
from ...hub_datasets.published.tables import Row, Table, get_table
from ...metrics.common.errors import DataError, ModelError
from ...metrics.common.storage import write_text
from ...metrics.evaluation import check_options
from ...metrics.records.predictions import read_predictions
from ..engine.distributed import join
from ..engine.runner import default_folder, predict
from .comparing import compare, compare_statistics, remarks
from .plans import FoundPredictions, Plan, find_predictions, plan, scan_predictions
from .report import Reproduction, as_json, to_markdown


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
    seeds: Iterable[int] = (),
    **scoring: Any,
) -> Reproduction | None:
    """Score the models of a table and compare with its values; writes ``<table>.json`` and ``<table>.md``.

    The predictions of a model go to a folder of its name in `out`. A model that cannot be loaded does not stop the
    others, nor do missing data of some of its tasks. A table of statistics takes no models.

    Args:
        table: its name, such as ``"sugarcrepe-6"``.
        models: labels of the rows to run, as printed; by default all that can be run.
        use: models to score instead of those of the rows, by label: ``{"XVLM": "precomputed:xvlm.csv"}``. The row's
            settings apply to a model of the same family.
        predictions: a folder with predictions to use instead of running models, or what `scan_predictions` found there.
            Those in a folder of a row's name belong to that row; others to the row with their model or its name.
            Several of one task that differ in the seed of its data are averaged.
        out: folder of the results; by default that of the predictions, or ``vl-assay-results/<table>``.
        weights: the folder with weights to be downloaded by hand, such as ``negclip.pth``.
        ties, confidence: as for `report`.
        seeds: of the data of benchmarks that are drawn at random; values are then means, with their deviation.
        scoring: arguments of `predict`: ``data_dir``, ``options``, ``dtype``, ``batch_size``, ``progress``.
            ``data_dir`` may have a folder for each benchmark.

    Returns:
        The comparisons; with several processes None in all but the main one.

    Raises:
        VLAssayError: an unknown table, label or option, data that cannot be used, a full disk; or nothing to compare.
    """
    check_options(ties=ties, confidence=confidence)
    published = get_table(table)
    if reason := published.why_not():
        raise ModelError(f"no value of {table} can be computed here: {reason}")
    is_folder = isinstance(predictions, str | Path)
    folder = Path(out or (is_folder and predictions) or default_folder(table)).expanduser()
    if published.is_statistics:
        comparisons = compare_statistics(published, scoring.get("data_dir"), scoring.get("options"))
        return _write(Reproduction(published, {}, comparisons, {}, {}, []), folder)
    plans, failed = plan(published, models, use, weights), {}
    if predictions is not None:
        paths = find_predictions(scan_predictions(predictions) if is_folder else predictions, published, plans)
        rows = [row for row in published.rows if row.name in plans and row.run.is_model and row.name not in paths]
        not_run = {row.name: "no predictions" for row in rows}
    else:
        for name, each in plans.items():
            if models is not None and each.why:
                raise ModelError(f"{name} of {table} cannot be run: {each.why}")
        not_run = {name: each.why for name, each in plans.items() if each.why and each.need}
        paths, failed = run_rows(published, plans, folder, [*seeds], scoring)
    if not paths:
        reasons = "; ".join(f"{name}: {why}" for name, why in {**failed, **not_run}.items())
        raise ModelError(f"no model of {table} to compare with. {reasons}")
    if not join().is_main:
        return None
    results, comparisons = {}, []
    for row in (row for row in published.rows if row.name in paths):
        files = paths[row.name]
        evaluated = report(files, parts=False, ties=ties or _ties(row, files), confidence=confidence)
        results[row.name] = [result for result in evaluated if result.metric in published.metrics]
        comparisons += compare(published, row, results[row.name])
    options, about = {"ties": ties, "confidence": confidence}, [*remarks(results, comparisons)]
    return _write(Reproduction(published, options, comparisons, not_run, failed, about), folder)


def run_rows(
    table: Table, plans: Mapping[str, Plan], folder: Path, seeds: Sequence[int], scoring: Mapping[str, Any]
) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Run the planned models that lack nothing, each into a folder of its row's name.

    The arguments are those of `reproduce`.

    Returns:
        The predictions of each row, by its name; and the errors of the models that cannot be loaded.

    Raises:
        DataError: the data of no task of a row can be used.
    """
    paths, failed = {}, {}
    for row in table.rows:
        if row.name in plans and not plans[row.name].why:
            try:
                paths[row.name] = _run_row(table, row, plans[row.name], folder / row.folder, seeds, scoring)
            except ModelError as error:
                failed[row.name] = str(error)
    return paths, failed


def _run_row(
    table: Table, row: Row, planned: Plan, folder: Path, seeds: Sequence[int], scoring: Mapping[str, Any]
) -> list[Path]:
    """Run the model of a row on the tasks whose data can be used, and return the files of its predictions."""
    ready: dict[str, list[str]] = {}
    errors = []
    for task in table.tasks(row):
        benchmark = task.partition("/")[0]
        sources = sources_folder(benchmark, scoring.get("data_dir"))
        try:
            check_sources([task], data_dir=sources, options=scoring.get("options"))
            ready.setdefault(benchmark, []).append(task)
        except DataError as error:
            errors.append(error)
    if errors and not ready:
        raise errors[0]
    files: list[Path] = []
    for benchmark, tasks in ready.items():
        changes = {**scoring, "data_dir": sources_folder(benchmark, scoring.get("data_dir"))}
        drawn = seeds if "seed" in option_names(benchmark) else ()
        files += predict(planned.model, tasks, out=folder, settings=planned.settings, seeds=drawn, **changes)
    return files


def _ties(row: Row, files: Iterable[Path]) -> str | None:
    """Return the tie policy of a row's values, which applies to means over several orders of the captions."""
    orders = [read_predictions(file).metadata["run"].get("orders", 1) for file in files] if row.run.ties else []
    return row.run.ties if any(count > 1 for count in orders) else None


def _write(result: Reproduction, folder: Path) -> Reproduction:
    write_text(folder / f"{result.table.name}.json", as_json(result) + "\n")
    write_text(folder / f"{result.table.name}.md", to_markdown(result))
    return result
