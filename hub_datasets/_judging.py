"""From score sheets to results, through the metric modules that the benchmarks name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..metrics.errors import SheetError, UnknownNameError
from ..metrics.inputs import option_names
from ..metrics.kernels import check_ties
from ..metrics.modules import load_metric
from ..metrics.results import Result
from ..metrics.sheet_rows import AnswerRow, DetectionRow, MatchingRow, RetrievalRow, Row
from ..metrics.sheets import Sheet, file_hash, read_sheet
from ..metrics.stats import check_options as check_resampling
from ._benchmarks import get_task

DEFAULTS: dict[str, Any] = {"ties": None, "confidence": 0.95, "resamples": None, "seed": 0}
RESAMPLES = 10_000


def judge(sheets: str | Path | Iterable[str | Path], **options: Any) -> list[Result]:
    """Compute the scores of score sheets.

    Args:
        sheets: path of a sheet, or of several.
        options: passed on to the metrics that have them: `ties`, `confidence`, `resamples`, `seed` (see `DEFAULTS`).
            Without `ties` and `resamples` each metric takes its own default, for ties that of its paper.

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
    chosen: dict[str, Any] = {**DEFAULTS, **options}
    if chosen["ties"] is not None:
        check_ties(chosen["ties"])
    resamples = RESAMPLES if chosen["resamples"] is None else chosen["resamples"]
    check_resampling(chosen["confidence"], resamples, chosen["seed"])


def _judge_one(path: Path, options: dict[str, Any]) -> list[Result]:
    sheet = read_sheet(path)
    task = get_task(sheet.benchmark, sheet.task)
    if task.kind != sheet.kind:
        raise SheetError(
            f"{path} is a sheet of the kind {sheet.kind}, but the task {task.name} of {sheet.benchmark} is of the kind "
            f"{task.kind}"
        )
    rows = _judged(sheet.rows)
    if not rows:
        raise SheetError(f"{path} holds no scores: all of its {len(sheet.rows)} examples lack their image")
    file = {"file": path.name, "sha256": file_hash(path)}
    return [_compute(sheet, rows, file, metric, settings, options) for metric, settings in task.metrics.items()]


def _judged(rows: Sequence[Row]) -> list[Row]:
    """The rows that count: those with scores, and of a caption's image and distractors all or none."""
    broken = {row.pair for row in rows if isinstance(row, DetectionRow) and not row.is_scored}
    return [row for row in rows if row.is_scored and not (isinstance(row, DetectionRow) and row.pair in broken)]


def _compute(
    sheet: Sheet,
    rows: Sequence[Row],
    file: dict[str, str],
    metric: str,
    settings: Mapping[str, Any],
    options: dict[str, Any],
) -> Result:
    module: Any = load_metric(metric)
    columns, labels = metric_inputs(rows, getattr(module, "takes", None), metric)
    parameters = inspect.signature(module.function).parameters
    columns = columns[: sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters.values())]
    if len(columns) == 1 and any(
        isinstance(row, MatchingRow) and row.correct != list(range(len(row.images))) for row in rows
    ):
        raise SheetError(f"{metric} takes the first caption for the right one; this sheet has rows with another")
    accepted = option_names(module.function)
    own = {
        "ties": getattr(module, "ties", "wrong"),
        "resamples": parameters["resamples"].default if "resamples" in parameters else RESAMPLES,
    }
    options = {name: own.get(name) if value is None else value for name, value in options.items() if name in accepted}
    labels = {name: value for name, value in labels.items() if name in accepted}
    # The function itself, not `compute`: a sheet's rows are checked, and `evaluate` would copy them twice.
    scores = module.function(*columns, **labels, **settings, **options)
    shown = _shown(module, scores)
    if not shown:
        raise SheetError(f"tables would show no score of the metric {metric}; its class may name some in `shown`")
    return Result(
        model=sheet.metadata["model"],
        benchmark=sheet.metadata["benchmark"],
        run=sheet.metadata.get("run", {}),
        sheet=file,
        metric=metric,
        options=options,
        missing=len(sheet.rows) - len(rows),
        scores=scores,
        shown=shown,
        headline=getattr(module, "headline", shown[0]),
        chance={name: level for name, level in _chance(module, rows, scores).items() if name in scores},
    )


def metric_inputs(rows: Sequence[Row], takes: str | None, metric: str) -> tuple[list[Any], dict[str, Any]]:
    """What a metric is given of the rows of a sheet.

    Args:
        rows: rows with scores, all of one kind.
        takes: what the metric takes; see ``metrics.modules``.
        metric: the metric's name, for messages.

    Returns:
        The columns, predictions and references, and what is known of the rows by the names of options. A metric need
        not have them all.

    Raises:
        SheetError: the metric cannot judge such rows, or judges no sheets.
    """
    makers: dict[tuple[str, str | None], Callable[[Any], tuple[list[Any], dict[str, Any]]]] = {
        (MatchingRow.kind, "matrix"): _matrices,
        (MatchingRow.kind, "row"): _single_rows,
        (RetrievalRow.kind, "row"): _shared_pool,
        (DetectionRow.kind, "detection"): _boxes,
        (AnswerRow.kind, "answers"): _answers,
    }
    make = makers.get((rows[0].kind, takes))
    if make is None:
        raise SheetError(
            f"the metric {metric} judges no sheets of the kind {rows[0].kind}: its class says that it takes {takes!r} "
            "(see metrics/modules.py)"
        )
    columns, labels = make(rows)
    return columns, {"categories": _categories(rows), "clusters": _clusters(rows), **labels}


def _matrices(rows: Sequence[MatchingRow]) -> tuple[list[Any], dict[str, Any]]:
    return [[row.scores for row in rows]], {}


def _single_rows(rows: Sequence[MatchingRow]) -> tuple[list[Any], dict[str, Any]]:
    for row in rows:
        if len(row.images) != 1:
            raise SheetError(f"the example {row.id!r} has {len(row.images)} images; this metric judges one at a time")
    return [[row.scores[0] for row in rows if row.scores], [row.correct[0] for row in rows]], {}


def _shared_pool(rows: Sequence[RetrievalRow]) -> tuple[list[Any], dict[str, Any]]:
    scores = np.stack([row.scores for row in rows if row.scores is not None])
    return [scores, [row.correct for row in rows]], {"categories": None}


def _boxes(rows: Sequence[DetectionRow]) -> tuple[list[Any], dict[str, Any]]:
    labels = {
        "box_format": "xyxy",
        "positive": [row.positive for row in rows],
        "pair_ids": [row.pair for row in rows],
        "phrase_keys": [
            {number: [phrase["start"], phrase["end"]] for number, phrase in enumerate(row.phrases)} for row in rows
        ],
    }
    predictions = [
        {**_flat(row.boxes or []), "scores": [s for found in row.scores or [] for s in found]} for row in rows
    ]
    return [predictions, [_flat(row.truth) for row in rows]], labels


def _flat(boxes: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Boxes by phrase as one list, with the number of each one's phrase."""
    return {
        "boxes": [box for found in boxes for box in found],
        "phrase_ids": [number for number, found in enumerate(boxes) for _ in found],
    }


def _answers(rows: Sequence[AnswerRow]) -> tuple[list[Any], dict[str, Any]]:
    """Yes above 0, no below; 0 is neither, and so the wrong answer of the two."""
    said = [row.score > 0 if row.score else not row.correct for row in rows]
    return [said, [row.correct for row in rows]], {}


def _categories(rows: Sequence[Row]) -> list[Any]:
    if not any(row.tags for row in rows):
        return [row.category for row in rows]
    return [list(dict.fromkeys([row.category, *row.tags])) for row in rows]


def _clusters(rows: Sequence[Row]) -> list[int]:
    """Numbers that are equal for examples that share an image or their `cluster`, be it through others."""
    numbers: dict[tuple[str, str], int] = {}
    pairs = []
    for place, row in enumerate(rows):
        shared = [("image", image) for image in row.images]
        if row.cluster is not None:
            shared.append(("cluster", f"{row.config}/{row.cluster}"))
        pairs += [(place, numbers.setdefault(key, len(numbers))) for key in shared]
    examples, shared_by = np.array(pairs).T
    shape = (len(rows) + len(numbers),) * 2
    graph = coo_array((np.ones(len(pairs)), (examples, len(rows) + shared_by)), shape=shape)
    return connected_components(graph, directed=False)[1][: len(rows)].tolist()


def _shown(module: Any, scores: Mapping[str, Any]) -> list[str]:
    """The names of the scores that tables show, in the metric's order."""
    patterns = getattr(module, "shown", None)
    names = [name for name in scores if not name.endswith("_interval")]
    if patterns is None:
        return [name for name in names if f"macro_{name}" in scores]
    return [name for pattern in patterns for name in names if fnmatchcase(name, pattern)]


def _chance(module: Any, rows: Sequence[Row], scores: Mapping[str, Any]) -> dict[str, float]:
    """What random scores would get, by score."""
    chance = {name.removeprefix("chance_"): level for name, level in scores.items() if name.startswith("chance_")}
    captions = [len(row.scores[0]) for row in rows if isinstance(row, MatchingRow) and row.scores]
    if captions:
        chance["accuracy"] = sum(1 / count for count in captions) / len(captions)
    return {**chance, **getattr(module, "chance", {})}
