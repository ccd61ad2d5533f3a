"""From score sheets to results, through the metric modules that the benchmarks name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..metrics.errors import SheetError, UnknownNameError
from ..metrics.matching import matching_accuracy
from ..metrics.modules import load_metric
from ..metrics.results import Result
from ..metrics.sheets import Sheet, file_hash, read_sheet
from .benchmarks import get_task

DEFAULTS: dict[str, Any] = {"ties": "wrong", "confidence": 0.95, "resamples": 10_000, "seed": 0}


def judge(sheets: str | Path | Iterable[str | Path], **options: Any) -> list[Result]:
    """Compute the scores of score sheets.

    Args:
        sheets: path of a sheet, or of several.
        options: passed on to the metrics: `ties`, `confidence`, `resamples`, `seed` (see `DEFAULTS`).

    Returns:
        One result for each sheet, in their order. Examples whose image was missing are in no score; their number is
        in the result.

    Raises:
        SheetError: a file is no sheet, or nothing in it can be judged.
        UnknownNameError, ScoresError: an option or its value does not exist.
    """
    check_options(**options)
    paths = [sheets] if isinstance(sheets, str | Path) else sheets
    return [_judge_one(Path(path), {**DEFAULTS, **options}) for path in paths]


def check_options(**options: Any) -> None:
    """Refuse options that `judge` would refuse, without a sheet.

    Raises:
        UnknownNameError: an option or a tie policy that does not exist.
        ScoresError: a value outside its range.
    """
    for name in options:
        if name not in DEFAULTS:
            raise UnknownNameError("option of judge", name, DEFAULTS)
    # One example is judged as thousands would be.
    settings = {**DEFAULTS, **options, "resamples": min(options.get("resamples", 100), 100)}
    matching_accuracy([[1.0, 0.0]], [0], **settings)


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
    """The arguments of a metric for examples of one image and its captions; `SheetError` for any other example."""
    rows = [row for row in sheet.rows if row.scores is not None]
    for row in rows:
        if len(row.images) != 1:
            raise SheetError(f"the example {row.id!r} has {len(row.images)} images; this metric judges one at a time")
    return {
        "predictions": [row.scores[0] for row in rows if row.scores],
        "references": [row.correct[0] for row in rows],
        "categories": [row.category for row in rows],
        "clusters": [row.images[0] for row in rows],
    }
