"""From score sheets to results, through the metric modules that the benchmarks name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..metrics.errors import SheetError, UnknownNameError
from ..metrics.groups import CHANCE as GROUP_CHANCE
from ..metrics.hard_positives import CHANCE as TRIPLE_CHANCE
from ..metrics.matching import matching_accuracy
from ..metrics.modules import load_metric
from ..metrics.results import Result
from ..metrics.sheets import Row, Sheet, file_hash, read_sheet
from .benchmarks import get_task

if TYPE_CHECKING:
    import evaluate

DEFAULTS: dict[str, Any] = {"ties": None, "confidence": 0.95, "resamples": 10_000, "seed": 0}
# The papers' inequalities are strict: with a tie an example is not right, but not brittle either.
_DEFAULT_TIES = {"brittleness": "right"}


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
    # One example is judged as thousands would be.
    settings: dict[str, Any] = {**DEFAULTS, **options, "resamples": min(options.get("resamples", 100), 100)}
    settings["ties"] = settings["ties"] or "wrong"
    matching_accuracy([[1.0, 0.0]], [0], **settings)


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
    module = load_metric(metric)
    inputs = metric_inputs(rows, module)
    options = {**options, "ties": options["ties"] or _DEFAULT_TIES.get(metric, "wrong")}
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
        chance={name: level for name, level in _chance(inputs["predictions"]).items() if name in scores},
    )


def metric_inputs(rows: list[Row], module: evaluate.EvaluationModule) -> dict[str, list[Any]]:
    """The arguments of a metric: of each example the matrix of scores, or its only row where the metric wants one.

    Raises:
        SheetError: an example of several images for a metric that judges one at a time.
    """
    features: Any = module.features
    takes_matrices = hasattr(features["predictions"].feature, "feature")
    inputs: dict[str, list[Any]] = {
        "categories": [row.category for row in rows],
        "clusters": [" ".join(row.images) for row in rows],
    }
    if takes_matrices:
        return inputs | {"predictions": [row.scores for row in rows]}
    for row in rows:
        if len(row.images) != 1:
            raise SheetError(f"the example {row.id!r} has {len(row.images)} images; this metric judges one at a time")
    inputs["predictions"] = [row.scores[0] for row in rows if row.scores]
    return inputs | ({"references": [row.correct[0] for row in rows]} if "references" in features else {})


def _chance(predictions: list[Any]) -> dict[str, float]:
    """What random scores would get, by score."""
    accuracy = sum(1 / len(row) for row in predictions) / len(predictions)
    return {"accuracy": accuracy, **TRIPLE_CHANCE, **GROUP_CHANCE}
