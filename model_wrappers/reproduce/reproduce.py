"""Reproduce a table of a paper: run its models and compare our values with the published ones.

The tables are in `hub_datasets.published`. A row whose model no family loads is reported with the reason; ``use`` gives
such a row another model, such as ``precomputed:FILE`` with scores that were computed elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...hub_datasets import report
from ...hub_datasets.core.benchmarks import get_task
from ...hub_datasets.published.tables import NOTHING, Row, Table, all_tables, get_table
from ...metrics.common.errors import ModelError, PredictionsError, UnknownNameError
from ...metrics.common.storage import write_text
from ...metrics.evaluation import check_options
from ...metrics.records.predictions import read_predictions
from ...metrics.records.results import Result
from ..engine.distributed import join
from ..engine.families import get_family
from ..engine.runner import default_folder, predict
from .report import Comparison, Reproduction, as_json, to_markdown

NEEDS = ("nothing", "a library", "weights", "predictions")


class Plan(NamedTuple):
    """How a row is run: the model with the settings of its family; and what it needs first, one of `NEEDS`, and why."""

    model: str
    settings: Mapping[str, str]
    need: str = NEEDS[0]
    why: str = ""


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
    plans = plan(found, models, use, weights)
    folder = Path(out or predictions or default_folder(table)).expanduser()
    rows = [row for row in found.rows if row.name in plans]
    if predictions is not None:
        paths, failed = _find_predictions(Path(predictions).expanduser(), found, rows, plans), {}
        not_run = {row.name: "no predictions" for row in rows if row.run.is_model and row.name not in paths}
    else:
        blocked = {name: each.why for name, each in plans.items() if each.why}
        if models is not None and blocked:
            name, why = next(iter(blocked.items()))
            raise ModelError(f"{name} of {table} cannot be run: {why}")
        paths, failed = {}, {}
        for row in (row for row in rows if row.name not in blocked):
            model, settings = plans[row.name][:2]
            try:
                paths[row.name] = predict(
                    model, found.tasks(row), out=folder / row.folder, settings=settings, **scoring
                )
            except ModelError as error:
                failed[row.name] = str(error)
        not_run = {name: why for name, why in blocked.items() if plans[name].need}  # people are not models
    if not paths:
        reasons = "; ".join(f"{name}: {why}" for name, why in {**failed, **not_run}.items())
        raise ModelError(f"no model of {table} to compare with. {reasons}")
    if not join().is_main:
        return None
    results = {
        name: [
            result
            for result in report(files, ties=ties or _ties(found, name, files), confidence=confidence)
            if result.metric in found.metrics
        ]
        for name, files in paths.items()
    }
    comparisons = [one for row in rows for one in _compare(found, row, results.get(row.name))]
    options = {"ties": ties, "confidence": confidence}
    result = Reproduction(found, options, comparisons, not_run, failed, [*_remarks(results, comparisons)])
    write_text(folder / f"{table}.json", as_json(result) + "\n")
    write_text(folder / f"{table}.md", to_markdown(result))
    return result


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
        why = f'{run.reason}; score it elsewhere and use --use "{row.name}=precomputed:FILE"'
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
    try:
        get_family(run.model.partition(":")[0])
    except ModelError as error:
        return found._replace(need="a library", why=str(error))
    return found


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
        rows = [row for row in table.rows if model.casefold() in {name.casefold() for name in _names(row)}]
        if not rows:
            raise UnknownNameError(f"model of {table.name}", model, [row.name for row in table.rows])
        chosen += rows
    return [row for row in table.rows if row in chosen]


def _ties(table: Table, name: str, files: Iterable[Path]) -> str | None:
    """The tie policy of a row's values, which applies to means over several orders of the captions."""
    [row] = [row for row in table.rows if row.name == name]
    orders = [read_predictions(file).metadata["run"].get("orders", 1) for file in files] if row.run.ties else []
    return row.run.ties if any(count > 1 for count in orders) else None


def _names(row: Row) -> tuple[str, ...]:
    """What a row may be called: its name, its label, and that without the paper's reference, such as " [33]"."""
    return row.name, row.label, re.sub(r" \[\d+\]$", "", row.label)


def _find_predictions(
    folder: Path, table: Table, rows: Sequence[Row], plans: Mapping[str, Plan]
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
            if (
                place == row.folder
                if place in folders
                else _belongs_to(row, predictions.metadata["model"], plans[row.name])
            ):
                other = found.setdefault(row.name, {}).setdefault(task, path)
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


def _compare(table: Table, row: Row, results: Sequence[Result] | None) -> Iterator[Comparison]:
    """The published values of a row that was run, each with ours."""
    for column, printed in zip(table.columns, row.printed, strict=True):
        if results is not None and printed != NOTHING:
            published = float(printed.partition("±")[0]) / table.unit
            rounding = 0.5 * 10**-table.decimals / table.unit
            cell = Comparison(row, column, printed, published, rounding, is_comparable=table.is_comparable)
            yield _with_ours(cell, results)


def _with_ours(cell: Comparison, results: Sequence[Result]) -> Comparison:
    column = cell.column
    if not column.task:
        return replace(cell, why=column.reason)
    benchmark, _, task = column.task.partition("/")
    known = {(each.benchmark["name"], each.benchmark["task"], each.metric): each for each in reversed(results)}
    result = known.get((benchmark, task, column.metric))
    if result is None:
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
    if result.run.get("orders") == 1:
        yield "answers to one order of the captions alone"
    if result.run.get("truncated_captions"):
        yield f"{result.run['truncated_captions']:,} captions were truncated"
    if model.get("dtype") in ("float16", "bfloat16"):
        yield f"scored in {model['dtype']}"
    if (model.get("settings") or {}).get("activation_mismatch") == "yes":
        yield f"computed with {model['settings']['activation']}, which its weights were not trained with"
