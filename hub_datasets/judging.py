"""From score sheets to results, through the metric modules that the benchmarks name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..metrics.errors import SheetError, UnknownNameError
from ..metrics.kernels import check_ties
from ..metrics.modules import load_metric
from ..metrics.results import Result
from ..metrics.sheets import Row, Sheet, file_hash, read_sheet
from ..metrics.stats import check_options as check_resampling
from .benchmarks import get_task

DEFAULTS: dict[str, Any] = {"ties": None, "confidence": 0.95, "resamples": 10_000, "seed": 0}


def judge(sheets: str | Path | Iterable[str | Path], **options: Any) -> list[Result]:
    """Compute the scores of score sheets.

    Args:
        sheets: path of a sheet, or of several.
        options: passed on to the metrics: `ties`, `confidence`, `resamples`, `seed` (see `DEFAULTS`). Without `ties`
            each metric treats ties as its paper does.

    Returns:
        One result for each sheet and each metric that judges it, in their order. Examples whose image was missing are
        in no score; their number is in the result.

    Raises:
        SheetError: a file is no sheet, or nothing in it can be judged.
        UnknownNameError, ScoresError: an option or its value does not exist.
    """
    check_options(**options)
    paths = [sheets] if isinstance(sheets, str | Path) else sheets
    return [result for path in paths for result in _judge_one(Path(path), {**DEFAULTS, **options})]


def check_options(**options: Any) -> None:
    """Refuse options that `judge` would refuse, without a sheet.

    Raises:
        UnknownNameError: an option or a tie policy that does not exist.
        ScoresError: a value outside its range.
    """
    for name in options:
        if name not in DEFAULTS:
            raise UnknownNameError("option of judge", name, DEFAULTS)
    settings: dict[str, Any] = {**DEFAULTS, **options}
    if settings.pop("ties") is not None:
        check_ties(options["ties"])
    check_resampling(**settings)


def _judge_one(path: Path, options: dict[str, Any]) -> list[Result]:
    sheet = read_sheet(path)
    task = get_task(sheet.benchmark, sheet.task)
    rows = [row for row in sheet.rows if row.scores is not None]
    if not rows:
        raise SheetError(f"{path} holds no scores: all of its {len(sheet.rows)} examples lack their image")
    file = {"file": path.name, "sha256": file_hash(path)}
    return [_compute(sheet, rows, file, metric, settings, options) for metric, settings in task.metrics.items()]


def _compute(
    sheet: Sheet,
    rows: list[Row],
    file: dict[str, str],
    metric: str,
    settings: Mapping[str, Any],
    options: dict[str, Any],
) -> Result:
    module: Any = load_metric(metric)
    inputs = metric_inputs(rows, getattr(module, "takes", None), metric)
    options = {**options, "ties": options["ties"] or getattr(module, "ties", "wrong")}
    scores = module.compute(**inputs, **settings, **options) or {}
    return Result(
        model=sheet.metadata["model"],
        benchmark=sheet.metadata["benchmark"],
        run=sheet.metadata.get("run", {}),
        sheet=file,
        metric=metric,
        options=options,
        missing=len(sheet.rows) - len(rows),
        scores=scores,
        headline=module.headline,
        chance={name: level for name, level in _chance(module, inputs).items() if name in scores},
    )


def metric_inputs(rows: list[Row], takes: str | None, metric: str) -> dict[str, list[Any]]:
    """The arguments of a metric for the rows of a sheet.

    Args:
        rows: rows with scores.
        takes: "matrix" for the whole matrix of an example, "row" for the scores of its only image; see
            ``metrics.modules``.
        metric: the metric's name, for messages.

    Raises:
        SheetError: an example of several images for a metric that judges one at a time, or a metric that judges no
            sheets.
    """
    inputs: dict[str, list[Any]] = {"categories": [row.category for row in rows], "clusters": _clusters(rows)}
    if takes == "matrix":
        return inputs | {"predictions": [row.scores for row in rows]}
    if takes != "row":
        raise SheetError(f"the metric {metric} judges no score sheets; call it with predictions of your own")
    for row in rows:
        if len(row.images) != 1:
            raise SheetError(f"the example {row.id!r} has {len(row.images)} images; this metric judges one at a time")
    inputs["predictions"] = [row.scores[0] for row in rows if row.scores]
    return inputs | {"references": [row.correct[0] for row in rows]}


def _clusters(rows: list[Row]) -> list[int]:
    """Numbers that are equal for examples that share an image, be it through others."""
    numbers: dict[str, int] = {}
    pairs = [(place, numbers.setdefault(image, len(numbers))) for place, row in enumerate(rows) for image in row.images]
    examples, images = np.array(pairs).T
    shape = (len(rows) + len(numbers),) * 2
    graph = coo_array((np.ones(len(pairs)), (examples, len(rows) + images)), shape=shape)
    return connected_components(graph, directed=False)[1][: len(rows)].tolist()


def _chance(module: Any, inputs: dict[str, list[Any]]) -> dict[str, float]:
    """What random scores would get, by score."""
    captions = [len(row) for row in inputs["predictions"]]
    return {"accuracy": sum(1 / count for count in captions) / len(captions), **getattr(module, "chance", {})}
