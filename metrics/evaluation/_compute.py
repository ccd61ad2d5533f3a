"""From predictions to results, through the metrics that the predictions declare."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.errors import PredictionsError, check_known
from ..common.formatting import words
from ..estimation.aggregate import RESAMPLES, aggregate, option_names
from ..estimation.bootstrap import FEW_CLUSTERS, effective_clusters
from ..estimation.bootstrap import check_options as check_resampling
from ..estimation.checks import component_codes
from ..estimation.differences import averaged, pooled
from ..estimation.spec import Examples, MetricSpec
from ..modules.discovery import get_spec, metric_names
from ..records.predictions import Predictions, file_hash, read_predictions
from ..records.results import Result
from ..records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, TextSimilarityRow, VQARow

DEFAULTS: dict[str, Any] = {"ties": None, "confidence": 0.95, "resamples": None, "seed": 0}

# Of fewer images resamples of scores that are no means, such as F1, do not spread enough.
_FEW_FOR_RESAMPLES = 30

Metrics = Mapping[str, Mapping[str, Any]]
# From predictions to those of further tasks whose rows are among theirs.
Parts = Callable[[Predictions], Iterable[Predictions]]


def declared_metrics(predictions: Predictions) -> Metrics:
    """Return the metrics that evaluate predictions, each with the settings of the task, as their metadata say.

    Raises:
        PredictionsError: the metadata name no metric, or one that does not exist.
    """
    found = predictions.metadata["benchmark"].get("metrics")
    if not isinstance(found, dict) or not found:
        raise PredictionsError(
            f"the predictions of {predictions.benchmark} ({predictions.task}) name no metrics in their metadata; run "
            "the model again"
        )
    for name, settings in found.items():
        if name not in metric_names() or not isinstance(settings, dict):
            raise PredictionsError(
                f"the predictions of {predictions.benchmark} ({predictions.task}) name the metric {name!r:.80}, which "
                f"does not exist or has no settings; known: {', '.join(metric_names())}"
            )
    return found


def no_parts(_: Any) -> tuple[()]:
    """No further tasks, or no main scores."""
    return ()


def compute(
    predictions: str | Path | Iterable[str | Path],
    *,
    metrics: Callable[[Predictions], Metrics] = declared_metrics,
    parts: Parts = no_parts,
    **options: Any,
) -> list[Result]:
    """Compute the scores of predictions.

    Args:
        predictions: path of a file of predictions, or of several.
        metrics: which metrics evaluate a file, with their settings; by default those that its metadata declare.
        parts: finds further tasks in the predictions of a file; by default none.
        options: passed on to the metrics that have them: `ties`, `confidence`, `resamples`, `seed` (see `DEFAULTS`).
            Without `ties` and `resamples` each metric takes its own default, for ties that of its paper; a metric that
            does not know the policy keeps its own, which the result names.

    Returns:
        One result for each file, part and metric, in their order. Examples whose image was missing are in no score;
        their number is in the result. A file of which all images were missing has no result.

    Raises:
        PredictionsError: a file holds no predictions, or nothing in any of them can be evaluated.
        UnknownNameError, ScoresError: an option or its value does not exist.
    """
    check_options(**options)
    chosen = {**DEFAULTS, **options}
    results: list[Result] = []
    unscored = ""
    for path in map(Path, [predictions] if isinstance(predictions, str | Path) else predictions):
        found = read_predictions(path)
        rows = scored_rows(found.rows)
        if not rows:
            unscored = unscored or no_scores(path, found)
            continue
        file = {"file": path.name, "sha256": file_hash(path)}
        for part in (found, *parts(found)):
            scored = rows if part is found else scored_rows(part.rows)
            for metric, settings in metrics(part).items() if scored else ():
                results.append(_compute_metric(part, scored, file, metric, settings, chosen))
    if unscored and not results:
        raise PredictionsError(unscored)
    return results


def no_scores(path: Path, predictions: Predictions) -> str:
    """What is to be said of a file whose examples all lack their image."""
    return f"{path} holds no scores: all of its {len(predictions.rows):,} examples lack their image"


def check_options(**options: Any) -> None:
    """Validate the options of `compute`, before any file is read.

    Raises:
        UnknownNameError: an option that does not exist, or a tie policy that no metric knows.
        ScoresError: a value outside its range.
    """
    check_known("option of evaluation", options, DEFAULTS)
    chosen: dict[str, Any] = {**DEFAULTS, **options}
    policies = dict.fromkeys(policy for name in metric_names() for policy in get_spec(name).tie_policies)
    if chosen["ties"] is not None:
        check_known("tie policy", [str(chosen["ties"])], policies)
    resamples = RESAMPLES if chosen["resamples"] is None else chosen["resamples"]
    check_resampling(chosen["confidence"], resamples, chosen["seed"])


def tie_policy(spec: MetricSpec, ties: str | None) -> str | None:
    """The tie policy of a metric: the one asked for if the metric knows it, else that of its paper."""
    return ties if ties in spec.tie_policies and spec.ties is not None else spec.ties


def examples_of(
    rows: Sequence[Row],
    metric: str,
    settings: Mapping[str, Any],
    *,
    ties: str | None = None,
    clusters: Sequence[Any] | None = None,
) -> Examples:
    """The per-example scores of a metric on rows of predictions.

    Args:
        rows: rows with scores, all of one task type.
        metric: the metric's name.
        settings: those of the task.
        ties: the tie policy; by default that of the metric's paper.
        clusters: one label per row; by default rows that share an image, or their `cluster`.

    Raises:
        PredictionsError: the metric cannot evaluate such rows.
    """
    spec = get_spec(metric)
    columns, labels = metric_inputs(rows, spec, metric)
    per_example = spec.function.per_example
    accepted = option_names(per_example)
    parameters = inspect.signature(per_example).parameters.values()
    columns = columns[: sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)]
    if len(columns) == 1 and any(
        isinstance(row, MatchingRow) and row.correct != list(range(len(row.correct))) for row in rows
    ):
        raise PredictionsError(
            f"{metric} expects the first caption to be the right one; in these predictions some rows have another"
        )
    if clusters is not None:
        labels["clusters"] = clusters
    policy = {"ties": tie_policy(spec, ties)} if "ties" in accepted else {}
    known = {name: value for name, value in labels.items() if name in accepted}
    found = per_example(*columns, **known, **settings, **policy)
    tags = {tag for row in rows for tag in row.tags}.difference(row.category for row in rows)
    if not tags:
        return found
    # Tags divide the examples once more: a macro average over both would count each example twice.
    return replace(found, rare={**dict.fromkeys(sorted(tags & found.categories.keys()), "tags"), **found.rare})


def pooled_examples(
    versions: Sequence[Sequence[Sequence[Row]]],
    clusters: NDArray[np.intp],
    metric: str,
    settings: Sequence[Mapping[str, Any]],
    ties: str | None,
) -> Examples:
    """The examples of one model over versions of the data: its runs on each averaged, and the versions pooled.

    Args:
        versions: for each version the rows of each run.
        clusters: one for each row of all versions, so that examples of one image are one cluster across versions.
        metric, ties: see `examples_of`.
        settings: those of the metric, for each version.
    """
    parts, indices, start = [], [], 0
    left_out: dict[int, str] = {}
    for runs, chosen in zip(versions, settings, strict=True):
        own = clusters[start : start + len(runs[0])].tolist()
        made = [examples_of(run, metric, chosen, ties=ties, clusters=own) for run in runs]
        parts.append(made[0] if len(made) == 1 else averaged(made))
        indices.append(start + parts[-1].rows)
        left_out |= {start + row: why for row, why in parts[-1].left_out.items()}
        start += len(runs[0])
    rows = np.concatenate(indices)
    return parts[0] if len(parts) == 1 else replace(pooled(parts, clusters[rows], rows), left_out=left_out)


def scored_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows with scores; a detection pair of which one image is missing is left out as a whole."""
    broken = {row.pair for row in rows if isinstance(row, DetectionRow) and not row.is_scored}
    return [row for row in rows if row.is_scored and not (isinstance(row, DetectionRow) and row.pair in broken)]


def cluster_numbers(rows: Sequence[Row]) -> list[int]:
    """The cluster of each row: rows that share an image or their `cluster`, directly or through others, are one."""
    images = ([("image", image) for image in row.images] for row in rows)
    own = ([] if row.cluster is None else [("cluster", f"{row.config}/{row.cluster}")] for row in rows)
    return component_codes(map(chain, images, own)).tolist()


def metric_inputs(rows: Sequence[Row], spec: MetricSpec, metric: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a metric, from rows of predictions.

    Returns:
        The columns, predictions and references, and further facts by the names of options; a metric takes those that
        it knows.

    Raises:
        PredictionsError: the metric cannot evaluate such rows.
    """
    makers: dict[tuple[str, str], Callable[[Any], tuple[list[Any], dict[str, Any]]]] = {
        (MatchingRow.task_type, "groups"): lambda rows: ([[row.scores for row in rows]], {}),
        (MatchingRow.task_type, "matching"): _single_rows,
        (MatchingRow.task_type, "retrieval"): _single_rows,
        (TextSimilarityRow.task_type, "matching"): _single_rows,
        (RetrievalRow.task_type, "retrieval"): _shared_pool,
        (RetrievalRow.task_type, "matching"): _classes,
        (DetectionRow.task_type, "detection"): _boxes,
        (VQARow.task_type, "vqa"): _answers,
    }
    make = makers.get((rows[0].task_type, spec.task_type))
    if make is None:
        raise PredictionsError(
            f"the metric {metric} is for the task type {spec.task_type}; it cannot evaluate predictions of the type "
            f"{rows[0].task_type}"
        )
    columns, labels = make(rows)
    categories: list[Any] = [row.category for row in rows]
    if any(row.tags for row in rows):
        categories = [list(dict.fromkeys([row.category, *row.tags])) for row in rows]
    sets = [row.id if row.cluster is None else f"{row.config}/{row.cluster}" for row in rows]
    return columns, {"categories": categories, "clusters": cluster_numbers(rows), "sets": sets, **labels}


def _compute_metric(
    predictions: Predictions,
    rows: Sequence[Row],
    file: dict[str, str],
    metric: str,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Result:
    """The result of one metric on the scored rows of predictions."""
    spec = get_spec(metric)
    examples = examples_of(rows, metric, settings, ties=options["ties"])
    accepted = option_names(spec.function)
    defaults = {name: each.default for name, each in inspect.signature(spec.function).parameters.items()}
    how = {
        name: defaults[name] if options[name] is None and name != "confidence" else options[name]
        for name in ("confidence", "resamples", "seed")
        if name in accepted
    }
    ties = {"ties": tie_policy(spec, options["ties"])} if "ties" in accepted else {}
    scores = aggregate(examples, **how, subsamples=defaults.get("subsamples", 0))
    table_scores = spec.table_scores([name for name in scores if not name.endswith(("_interval", "_std"))])
    if not table_scores:
        raise PredictionsError(
            f"tables would show no score of the metric {metric}; mark one as `in_tables` in its specification"
        )
    chance = {score.name: score.chance for score in spec.scores if score.chance is not None} | dict(examples.chance)
    return Result(
        model=predictions.metadata["model"],
        benchmark=predictions.metadata["benchmark"],
        run=predictions.metadata.get("run", {}),
        predictions=file,
        metric=metric,
        options=ties | how,
        missing=len(predictions.rows) - len(rows),
        scores=scores,
        table_scores=table_scores,
        main_score=spec.main_score if spec.main_score in table_scores else table_scores[0],
        higher_is_better={name: spec.is_higher_better(name) for name in table_scores},
        chance={name: level for name, level in chance.items() if name in examples.scores},
        rare=dict(examples.rare),
        left_out=dict(Counter(examples.left_out.values())),
        notes=list(_interval_notes(examples)) if how.get("confidence") else [],
    )


def _interval_notes(examples: Examples) -> Iterator[str]:
    """How intervals allow for few images, in sentences."""
    clusters = float(effective_clusters(np.bincount(examples.clusters)))
    if clusters < FEW_CLUSTERS:
        yield f"The examples weigh as {clusters:.0f} images of equal size do, so intervals of means are Wilson's."
    others = [name for each in examples.estimators if each.with_interval for name in each.names]
    if clusters < _FEW_FOR_RESAMPLES and others:
        named = ", ".join(map(words, others))
        yield f"With fewer than {_FEW_FOR_RESAMPLES} images intervals of {named} may be too narrow."


def _single_rows(rows: Sequence[MatchingRow]) -> tuple[list[Any], dict[str, Any]]:
    options = [row.options for row in rows]
    found = [each for each in options if each is not None]
    if len(found) < len(rows):
        row = rows[options.index(None)]
        raise PredictionsError(
            f"the example {row.id!r} has {len(row.images)} images with several captions; this metric takes one image "
            "at a time, or one caption with several images"
        )
    return [[scores for scores, _ in found], [correct for _, correct in found]], {}


def _shared_pool(rows: Sequence[RetrievalRow]) -> tuple[list[Any], dict[str, Any]]:
    scores = np.stack([row.scores for row in rows if row.scores is not None])
    return [scores, [row.correct for row in rows]], {"categories": None}


def _classes(rows: Sequence[RetrievalRow]) -> tuple[list[Any], dict[str, Any]]:
    several = next((row for row in rows if len(row.correct) != 1), None)
    if several is not None:
        raise PredictionsError(
            f"the example {several.id!r} has {len(several.correct)} correct captions; this metric takes one"
        )
    return [np.stack([row.scores for row in rows if row.scores is not None]), [row.correct[0] for row in rows]], {}


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


def _answers(rows: Sequence[VQARow]) -> tuple[list[Any], dict[str, Any]]:
    """Yes above 0 and no below; 0 is no answer and counts as wrong."""
    answers = [row.score > 0 if row.score else not row.correct for row in rows]
    return [answers, [row.correct for row in rows]], {}
