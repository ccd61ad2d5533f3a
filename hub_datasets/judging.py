"""From score sheets to results, through the metric modules that the benchmarks name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..metrics.errors import SheetError
from ..metrics.modules import load_metric
from ..metrics.results import Result
from ..metrics.sheets import Sheet, file_hash, read_sheet
from .benchmarks import get_task

DEFAULTS: dict[str, Any] = {"ties": "wrong", "confidence": 0.95, "resamples": 10_000, "seed": 0}


def judge(sheets: Iterable[str | Path], **options: Any) -> list[Result]:
    """Compute the scores of score sheets.

    Args:
        sheets: paths of sheets.
        options: passed on to the metrics: `ties`, `confidence`, `resamples`, `seed` (see `DEFAULTS`).

    Returns:
        One result for each sheet, in their order. Examples whose image was missing are in no score; their number is
        in the result.

    Raises:
        SheetError: a file is no sheet, or nothing in it can be judged.
    """
    return [_judge_one(Path(path), {**DEFAULTS, **options}) for path in sheets]


def _judge_one(path: Path, options: dict[str, Any]) -> Result:
    sheet = read_sheet(path)
    task = get_task(sheet.benchmark, sheet.task)
    inputs = matching_inputs(sheet)
    if not inputs["predictions"]:
        raise SheetError(f"{path} holds no scores: all of its {len(sheet.rows)} examples lack their image")
    scores = load_metric(task.metric).compute(**inputs, **options)
    return Result(
        model=sheet.metadata["model"],
        benchmark=sheet.metadata["benchmark"],
        run=sheet.metadata.get("run", {}),
        sheet={"file": path.name, "sha256": file_hash(path)},
        metric=task.metric,
        options=options,
        missing=len(sheet.rows) - len(inputs["predictions"]),
        scores=scores or {},
    )


def matching_inputs(sheet: Sheet) -> dict[str, list[Any]]:
    """The arguments of a metric for examples of one image and its captions."""
    rows = [row for row in sheet.rows if row.scores is not None]
    return {
        "predictions": [row.scores[0] for row in rows if row.scores],
        "references": [row.correct[0] for row in rows],
        "categories": [row.category for row in rows],
        "clusters": [row.images[0] for row in rows],
    }
