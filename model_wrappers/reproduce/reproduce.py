"""Reproduce a table of a paper: run its models and compare our values with the published ones.

The tables are in `hub_datasets.published`. A row whose model no family loads is reported with the reason; ``use`` gives
such a row another model, such as ``precomputed:FILE`` with scores that were computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets import report
from ...hub_datasets.core.benchmarks import get_task
from ...hub_datasets.published.tables import NOTHING, Row, Table, all_tables, get_table
from ...metrics.common.errors import ModelError, PredictionsError, UnknownNameError
from ...metrics.evaluation import check_options
from ...metrics.records.predictions import read_predictions
from ...metrics.records.results import Result
from ..engine.distributed import join
from ..engine.families import get_family
from ..engine.runner import default_folder, predict
from .report import Comparison, Reproduction, write_reproduction

NEEDS = ("nothing", "a library", "weights", "predictions")


class Request(NamedTuple):
    """The model to run for a row, with the settings of its family."""

    model: str
    settings: dict[str, str]


class Obstacle(NamedTuple):
    """Why a model cannot be run: which of `NEEDS` it lacks, and a message."""

    need: str
    why: str


def reproduce(
    table: str,
    *,
    models: Iterable[str] | None = None,
    use: Mapping[str, str] | None = None,
    predictions: str | Path | None = None,
    out: str | Path | None = None,
    weights: str | Path = ".",
    ties: str | None = None,
    confidence: float = 0.95,
    **scoring: Any,
) -> Reproduction | None:
    """Score the models of a table and compare with its values; writes ``<table>.json`` and ``<table>.md``.

    The predictions of a model go to a folder of its name in `out`. A model that cannot be loaded does not stop the
    others.

    Args:
        table: its name, such as ``"sugarcrepe-6"``.
        models: labels of the rows to run, as printed; by default all that can be run.
        use: models to score instead of those of the rows, by label: ``{"XVLM": "precomputed:xvlm.csv"}``. The row's
            settings apply to a model of the same family.
        predictions: a folder with predictions to use instead of running models. Those in a folder of a row's name
            belong to that row; others to the row with their model or its name.
        out: folder of the results; by default that of the predictions, or ``vl-assay-results/<table>``.
        weights: the folder with weights to be downloaded by hand, such as ``negclip.pth``.
        ties, confidence: as for `report`.
        scoring: arguments of `predict`: ``data_dir``, ``options``, ``dtype``, ``batch_size``, ``progress``.

    Returns:
        The comparisons; with several processes None in all but the main one.

    Raises:
        VLAssayError: an unknown table, label or option, data that cannot be used, a full disk; or nothing to compare.
    """
    check_options(ties=ties, confidence=confidence)
    found = get_table(table)
    rows = _pick(found, models)
    requests = _requests(found, rows, use or {}, Path(weights).expanduser())
    folder = Path(out or predictions or default_folder(table)).expanduser()
    if predictions is not None:
        paths, failed = _find_predictions(Path(predictions).expanduser(), found, rows, requests), {}
        not_run = {row.name: "no predictions" for row in rows if row.run.is_model and row.name not in paths}
    else:
        obstacles = _obstacles(rows, requests)
        not_run = {name: obstacle.why for name, obstacle in obstacles.items()}
        if models is not None:
            _check_runnable(found, rows, not_run)
        paths, failed = _run(found, [row for row in rows if row.name not in obstacles], requests, folder, scoring)
    if not paths:
        reasons = "; ".join(f"{name}: {why}" for name, why in {**failed, **not_run}.items())
        raise ModelError(f"no model of {table} to compare with. {reasons}")
    if not join().is_main:
        return None
    results = {
        name: [result for result in report(files, ties=ties, confidence=confidence) if result.metric in found.metrics]
        for name, files in paths.items()
    }
    comparisons = [one for row in rows for one in _compare(found, row, results.get(row.name))]
    options = {"ties": ties, "confidence": confidence}
    result = Reproduction(found, options, comparisons, not_run, failed, [*_remarks(results, comparisons)])
    write_reproduction(result, folder)
    return result


def status(weights: str | Path = ".") -> dict[str, dict[str, list[str]]]:
    """For each table the names of its models, by what they need to be run: one of `NEEDS`."""
    found = {}
    for table in all_tables().values():
        obstacles = _obstacles(table.rows, _requests(table, table.rows, {}, Path(weights).expanduser()))
        found[table.name] = {need: [] for need in NEEDS}
        for row in table.rows:
            if row.run.is_model:
                need = obstacles[row.name].need if row.name in obstacles else NEEDS[0]
                found[table.name][need].append(row.name)
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
        rows = [row for row in table.rows if model.casefold() in (row.label.casefold(), row.name.casefold())]
        if not rows:
            raise UnknownNameError(f"model of {table.name}", model, [row.name for row in table.rows])
        chosen += rows
    return [row for row in table.rows if row in chosen]


def _requests(table: Table, rows: Sequence[Row], use: Mapping[str, str], weights: Path) -> dict[str, Request]:
    """The model to run for each row that has one, by the row's name."""
    instead: dict[str, str] = {}
    for label, model in use.items():
        instead |= {row.name: model for row in _pick(table, [label])}
    requests = {}
    for row in rows:
        run, other = row.run, instead.get(row.name)
        if other is not None:
            same_family = other.partition(":")[0] == run.model.partition(":")[0]
            requests[row.name] = Request(other, dict(run.settings) if same_family else {})
        elif run.model:
            file = {"pretrained": str(weights / run.weights)} if run.weights else {}
            requests[row.name] = Request(run.model, {**run.settings, **file})
    return requests


def _obstacles(rows: Sequence[Row], requests: Mapping[str, Request]) -> dict[str, Obstacle]:
    """Why rows cannot be run, by name, without loading models."""
    found = {}
    for row in rows:
        name, run = row.name, row.run
        if name not in requests:
            if run.is_model:
                why = f'{run.reason}; score it elsewhere and use --use "{name}=precomputed:FILE"'
                found[name] = Obstacle("predictions", why)
            continue
        model, settings = requests[name]
        if model != run.model:
            continue  # the user's model is tried
        if run.weights and not Path(settings["pretrained"]).is_file():
            why = f"there is no {settings['pretrained']}; download {run.weights} ({run.source}) and name its folder"
            found[name] = Obstacle("weights", f"{why} with --weights")
            continue
        try:
            get_family(model.partition(":")[0])
        except ModelError as error:
            found[name] = Obstacle("a library", str(error))
    return found


def _check_runnable(table: Table, rows: Sequence[Row], not_run: Mapping[str, str]) -> None:
    """Raise if a requested row cannot be run."""
    for row in rows:
        why = not_run.get(row.name) if row.run.is_model else row.run.reason
        if why:
            raise ModelError(f"{row.name} of {table.name} cannot be run: {why}")


def _run(
    table: Table, rows: Sequence[Row], requests: Mapping[str, Request], out: Path, scoring: Mapping[str, Any]
) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Run the models; returns the predictions and the errors by row name."""
    paths, failed = {}, {}
    for row in rows:
        if row.name in requests:
            model, settings = requests[row.name]
            try:
                paths[row.name] = predict(model, table.tasks(row), out=out / row.folder, settings=settings, **scoring)
            except ModelError as error:
                failed[row.name] = str(error)
    return paths, failed


def _find_predictions(
    folder: Path, table: Table, rows: Sequence[Row], requests: Mapping[str, Request]
) -> dict[str, list[Path]]:
    """The predictions of each row in a folder, by the row's name."""
    if not folder.is_dir():
        raise PredictionsError(f"there is no folder {folder} to take predictions from")
    folders = {row.folder for row in table.rows}
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.rglob("*.parquet")):
        if ".unfinished" in path.parts:
            continue
        predictions = read_predictions(path)
        task, place = f"{predictions.benchmark}/{predictions.task}", path.parent.name
        for row in rows:
            if not row.run.is_model or task not in table.tasks(row):
                continue
            if place == row.folder if place in folders else _belongs_to(row, predictions.metadata["model"], requests):
                other = found.setdefault(row.name, {}).setdefault(task, path)
                if other != path:
                    raise PredictionsError(f"{other} and {path} are both of {row.name} on {task}; remove one of them")
    return {name: list(by_task.values()) for name, by_task in found.items()}


def _belongs_to(row: Row, model: Mapping[str, Any], requests: Mapping[str, Request]) -> bool:
    """Whether the model in the metadata of predictions is that of a row."""
    if model["name"] in (row.name, row.label):
        return True
    request = requests.get(row.name)
    if request is None:
        return False
    family, separator, checkpoint = request.model.partition(":")
    if not separator:
        family, checkpoint = model.get("family"), request.model
    if Path(checkpoint).expanduser().exists():
        checkpoint = Path(checkpoint).expanduser().resolve().name
    settings = dict(request.settings)
    if "pretrained" in settings:
        checkpoint += f" (pretrained={Path(settings.pop('pretrained')).name})"
    used = model.get("settings") or {}
    return (model.get("family"), model.get("checkpoint")) == (family, checkpoint) and settings.items() <= used.items()


def _compare(table: Table, row: Row, results: Sequence[Result] | None) -> Iterator[Comparison]:
    """The published values of a row that was run, each with ours."""
    for column, printed in zip(table.columns, row.printed, strict=True):
        if results is not None and printed != NOTHING:
            published = float(printed.partition("±")[0]) / table.unit
            rounding = 0.5 * 10**-table.decimals / table.unit
            yield _with_ours(Comparison(row, column, printed, published, rounding), results)


def _with_ours(cell: Comparison, results: Sequence[Result]) -> Comparison:
    column = cell.column
    if not column.task:
        return replace(cell, why=column.reason)
    benchmark, _, task = column.task.partition("/")
    for result in results:
        if (result.benchmark["name"], result.benchmark["task"], result.metric) == (benchmark, task, column.metric):
            break
    else:
        return replace(cell, why=f"no predictions of {column.task}")
    lacking = set(get_task(benchmark, task).configs) - set(result.benchmark.get("configs", ()))
    if lacking and column.average != "category":
        return replace(cell, why=f"the predictions lack {', '.join(sorted(lacking))}")
    part: Any = result.scores
    *path, name = column.score
    for key in path:
        part = part.get(key, {})
    if part.get(name) is None:
        return replace(cell, why="the predictions have no such examples")
    interval = part.get(f"{name}_interval")
    return replace(
        cell,
        ours=part[name],
        interval=interval and (interval[0], interval[1]),
        n=part["n"],
        tie_rate=part.get("tie_rate"),
        predictions=result.predictions,
    )


def _remarks(by_model: Mapping[str, Sequence[Result]], comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Properties of our predictions: other numbers of examples, missing images, ties, precision, activations."""
    counts = {(one.column.name, one.n, one.column.n) for one in comparisons if one.n and one.column.n}
    for column, n, published in sorted(counts):
        if n != published:
            yield f"{column}: {n:,} examples here, {published:,} in the paper."
    for name, results in by_model.items():
        facts = list(dict.fromkeys(fact for result in results for fact in _facts(result)))
        if facts:
            yield f"{name}: {'; '.join(facts)}."


def _facts(result: Result) -> Iterator[str]:
    task, model = f"{result.benchmark['name']}/{result.benchmark['task']}", result.model
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples of {task} lack their image"
    if result.scores.get("tie_rate"):
        share, ties = 100 * result.scores["tie_rate"], result.options.get("ties")
        yield f"ties decide {share:.2g} % of {task} and count as {ties} ({result.metric})"
    if result.run.get("truncated_captions"):
        yield f"{result.run['truncated_captions']:,} captions were truncated"
    if model.get("dtype") in ("float16", "bfloat16"):
        yield f"scored in {model['dtype']}"
    if (model.get("settings") or {}).get("activation_mismatch") == "yes":
        yield f"computed with {model['settings']['activation']}, which its weights were not trained with"
