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
from ..estimation.spec import Examples, MetricSpec
from ..modules.discovery import get_spec, metric_names
from ..records.predictions import Predictions, file_hash, read_predictions
from ..records.results import Result
from ..records.schema import DetectionRow, MatchingRow, RetrievalRow, Row, TextSimilarityRow, VQARow

DEFAULTS: dict[str, Any] = {"ties": None, "confidence": 0.95, "resamples": None, "seed": 0}

# With fewer images resamples of scores that are no means, such as F1, do not spread enough.
_FEW_FOR_RESAMPLES = 30

# Metrics by name, each with its settings.
Metrics = Mapping[str, Mapping[str, Any]]
# Finds further tasks in predictions: those whose rows are among the rows of the predictions.
Parts = Callable[[Predictions], Iterable[Predictions]]
# The columns of a metric, and its labels by option.
_Inputs = tuple[list[Any], dict[str, Any]]


def declared_metrics(predictions: Predictions) -> Metrics:
    """Return the metrics that the metadata of predictions declare, each with its settings.

    Raises:
        PredictionsError: the metadata name no metric, or one that does not exist.
    """
    metrics = predictions.metadata["benchmark"].get("metrics")
    if not isinstance(metrics, dict) or not metrics:
        raise PredictionsError(
            f"the predictions of {predictions.benchmark} ({predictions.task}) name no metrics in their metadata; run "
            "the model again"
        )
    for name, settings in metrics.items():
        if name not in metric_names() or not isinstance(settings, dict):
            raise PredictionsError(
                f"the predictions of {predictions.benchmark} ({predictions.task}) name the metric {name!r:.80}, which "
                f"does not exist or has no settings; known: {', '.join(metric_names())}"
            )
    return metrics


def no_parts(_: Any) -> tuple[()]:
    """Find no further tasks."""
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
        metrics: chooses the metrics of a file, with their settings; by default those that its metadata declare.
        parts: finds further tasks in the predictions of a file; by default none.
        options: passed on to the metrics that have them: `ties`, `confidence`, `resamples`, `seed` (see `DEFAULTS`).
            Without `ties` and `resamples` each metric takes its own default, for ties its paper's; a metric that
            does not know the policy keeps its own, which the result names.

    Returns:
        One result for each file, part and metric, in their order. Examples whose image was missing are in no score;
        the result has their number. A file of which all images were missing has no result.

    Raises:
        PredictionsError: a file holds no predictions, or nothing in any of them can be evaluated.
        UnknownNameError, ScoresError: an option or its value does not exist.
    """
    check_options(**options)
    options = {**DEFAULTS, **options}
    results: list[Result] = []
    unscored: list[str] = []
    for path in map(Path, [predictions] if isinstance(predictions, str | Path) else predictions):
        whole = read_predictions(path)
        if not scored_rows(whole.rows):
            unscored.append(no_scores(path, whole))
            continue
        file = {"file": path.name, "sha256": file_hash(path)}
        for task in (whole, *parts(whole)):
            if rows := scored_rows(task.rows):
                results += _results(task, rows, metrics(task), options, file)
    if unscored and not results:
        raise PredictionsError(unscored[0])
    return results


def no_scores(path: Path, predictions: Predictions) -> str:
    """Return the message for a file in which no example has an image."""
    return f"{path} holds no scores: all of its {len(predictions.rows):,} examples lack their image"


def check_options(**options: Any) -> None:
    """Validate the options of `compute`, before any file is read.

    Raises:
        UnknownNameError: an option that does not exist, or a tie policy that no metric knows.
        ScoresError: a value outside its range.
    """
    check_known("option of evaluation", options, DEFAULTS)
    options = {**DEFAULTS, **options}
    if options["ties"] is not None:
        policies = dict.fromkeys(policy for name in metric_names() for policy in get_spec(name).tie_policies)
        check_known("tie policy", [str(options["ties"])], policies)
    resamples = RESAMPLES if options["resamples"] is None else options["resamples"]
    check_resampling(options["confidence"], resamples, options["seed"])


def tie_policy(spec: MetricSpec, ties: str | None) -> str | None:
    """Return the tie policy of a metric: `ties` if the metric knows it, else its paper's."""
    return ties if ties in spec.tie_policies and spec.ties is not None else spec.ties


def examples_of(
    rows: Sequence[Row],
    metric: str,
    settings: Mapping[str, Any],
    *,
    ties: str | None = None,
    clusters: Sequence[Any] | None = None,
) -> Examples:
    """Compute the per-example scores of a metric on rows of predictions.

    Args:
        rows: rows with scores, all of one task type.
        metric: the metric's name.
        settings: the metric's settings in the task.
        ties: the tie policy; by default the metric's paper decides.
        clusters: one label per row; by default rows that share an image, or their `cluster`.

    Raises:
        PredictionsError: the metric cannot evaluate such rows.
    """
    spec = get_spec(metric)
    columns, labels = metric_inputs(rows, spec, metric)
    per_example = spec.per_example
    accepted = option_names(per_example)
    parameters = inspect.signature(per_example).parameters.values()
    columns = columns[: sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)]
    if len(columns) == 1 and any(
        isinstance(row, MatchingRow) and row.correct != list(range(len(row.correct))) for row in rows
    ):
        raise PredictionsError(
            f"{metric} expects the first caption to be the right one; in these predictions some rows have another"
        )
    if clusters is not None:
        labels["clusters"] = clusters
    options = {name: label for name, label in labels.items() if name in accepted}
    if "ties" in accepted:
        options["ties"] = tie_policy(spec, ties)
    examples = per_example(*columns, **options, **settings)
    tags = {tag for row in rows for tag in row.tags}.difference(row.category for row in rows)
    if not tags:
        return examples
    # Tags divide the examples once more: a macro average over both would count each example twice.
    tagged = dict.fromkeys(sorted(tags & examples.categories.keys()), "tags")
    return replace(examples, rare={**tagged, **examples.rare})


def scored_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with scores; a detection pair of which one image is missing is left out as a whole."""
    broken = {row.pair for row in rows if isinstance(row, DetectionRow) and not row.is_scored}
    return [row for row in rows if row.is_scored and not (isinstance(row, DetectionRow) and row.pair in broken)]


def cluster_numbers(rows: Sequence[Row]) -> list[int]:
    """Return the cluster of each row: rows that share an image or their `cluster`, directly or through others."""
    images = ([("image", image) for image in row.images] for row in rows)
    clusters = ([] if row.cluster is None else [("cluster", f"{row.config}/{row.cluster}")] for row in rows)
    return component_codes(map(chain, images, clusters)).tolist()


def metric_inputs(rows: Sequence[Row], spec: MetricSpec, metric: str) -> _Inputs:
    """Return the arguments of a metric, from rows of predictions.

    Returns:
        The columns, predictions and references, and labels by the names of options; a metric takes those that it knows.

    Raises:
        PredictionsError: the metric cannot evaluate such rows.
    """
    converters: dict[tuple[str, str], Callable[[Any], _Inputs]] = {
        (MatchingRow.task_type, "groups"): lambda rows: ([[row.scores for row in rows]], {}),
        (MatchingRow.task_type, "matching"): _matching_inputs,
        (MatchingRow.task_type, "retrieval"): _matching_inputs,
        (TextSimilarityRow.task_type, "matching"): _matching_inputs,
        (RetrievalRow.task_type, "retrieval"): _retrieval_inputs,
        (RetrievalRow.task_type, "matching"): _class_inputs,
        (DetectionRow.task_type, "detection"): _box_inputs,
        (VQARow.task_type, "vqa"): _answer_inputs,
    }
    convert = converters.get((rows[0].task_type, spec.task_type))
    if convert is None:
        raise PredictionsError(
            f"the metric {metric} is for the task type {spec.task_type}; it cannot evaluate predictions of the type "
            f"{rows[0].task_type}"
        )
    columns, labels = convert(rows)
    categories: list[Any] = [row.category for row in rows]
    if any(row.tags for row in rows):
        categories = [list(dict.fromkeys([row.category, *row.tags])) for row in rows]
    sets = [row.id if row.cluster is None else f"{row.config}/{row.cluster}" for row in rows]
    return columns, {"categories": categories, "clusters": cluster_numbers(rows), "sets": sets, **labels}


def _results(
    predictions: Predictions, rows: Sequence[Row], metrics: Metrics, options: Mapping[str, Any], file: dict[str, str]
) -> Iterator[Result]:
    """Yield the result of each metric, with its settings, on the scored rows of predictions."""
    for metric, settings in metrics.items():
        spec = get_spec(metric)
        examples = examples_of(rows, metric, settings, ties=options["ties"])
        accepted = option_names(spec.function)
        defaults = {name: parameter.default for name, parameter in inspect.signature(spec.function).parameters.items()}
        resampling = {
            name: defaults[name] if options[name] is None and name != "confidence" else options[name]
            for name in ("confidence", "resamples", "seed")
            if name in accepted
        }
        ties = {"ties": tie_policy(spec, options["ties"])} if "ties" in accepted else {}
        scores = aggregate(examples, **resampling, subsamples=defaults.get("subsamples", 0))
        table_scores = spec.table_scores([name for name in scores if not name.endswith(("_interval", "_std"))])
        if not table_scores:
            raise PredictionsError(
                f"tables would show no score of the metric {metric}; mark one as `in_tables` in its specification"
            )
        chance = {score.name: score.chance for score in spec.scores if score.chance is not None} | dict(examples.chance)
        yield Result(
            model=predictions.metadata["model"],
            benchmark=predictions.metadata["benchmark"],
            run=predictions.metadata.get("run", {}),
            predictions=file,
            metric=metric,
            options=ties | resampling,
            missing=len(predictions.rows) - len(rows),
            scores=scores,
            table_scores=table_scores,
            main_score=spec.main_score if spec.main_score in table_scores else table_scores[0],
            higher_is_better={name: spec.is_higher_better(name) for name in table_scores},
            chance={name: level for name, level in chance.items() if name in examples.scores},
            rare=dict(examples.rare),
            left_out=dict(Counter(examples.left_out.values())),
            notes=list(_interval_notes(examples)) if resampling.get("confidence") else [],
        )


def _interval_notes(examples: Examples) -> Iterator[str]:
    """Yield sentences on intervals that rest on few images."""
    clusters = float(effective_clusters(np.bincount(examples.clusters)))
    if clusters < FEW_CLUSTERS:
        yield f"The examples weigh as {clusters:.0f} images of equal size do, so intervals of means are Wilson's."
    names = [name for estimator in examples.estimators if estimator.with_interval for name in estimator.names]
    if clusters < _FEW_FOR_RESAMPLES and names:
        scores = ", ".join(map(words, names))
        yield f"With fewer than {_FEW_FOR_RESAMPLES} images intervals of {scores} may be too narrow."


def _matching_inputs(rows: Sequence[MatchingRow]) -> _Inputs:
    options = [row.options for row in rows]
    known = [option for option in options if option is not None]
    if len(known) < len(rows):
        row = rows[options.index(None)]
        raise PredictionsError(
            f"the example {row.id!r} has {len(row.images)} images with several captions; this metric takes one image "
            "at a time, or one caption with several images"
        )
    return [[scores for scores, _ in known], [correct for _, correct in known]], {}


def _retrieval_inputs(rows: Sequence[RetrievalRow]) -> _Inputs:
    return [_stacked(rows), [row.correct for row in rows]], {"categories": None}


def _class_inputs(rows: Sequence[RetrievalRow]) -> _Inputs:
    several = next((row for row in rows if len(row.correct) != 1), None)
    if several is not None:
        raise PredictionsError(
            f"the example {several.id!r} has {len(several.correct)} correct captions; this metric takes one"
        )
    return [_stacked(rows), [row.correct[0] for row in rows]], {}


def _stacked(rows: Sequence[RetrievalRow]) -> NDArray[np.floating[Any]]:
    return np.stack([row.scores for row in rows if row.scores is not None])


def _box_inputs(rows: Sequence[DetectionRow]) -> _Inputs:
    labels = {
        "box_format": "xyxy",
        "positive": [row.positive for row in rows],
        "pair_ids": [row.pair for row in rows],
        "phrase_keys": [
            {number: [phrase["start"], phrase["end"]] for number, phrase in enumerate(row.phrases)} for row in rows
        ],
    }
    predictions = [{**_flat(row.boxes or []), "scores": list(chain(*(row.scores or [])))} for row in rows]
    return [predictions, [_flat(row.truth) for row in rows]], labels


def _flat(boxes: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return boxes by phrase as one list, with the number of each box's phrase."""
    phrase_ids = [number for number, of_phrase in enumerate(boxes) for _ in of_phrase]
    return {"boxes": list(chain(*boxes)), "phrase_ids": phrase_ids}


def _answer_inputs(rows: Sequence[VQARow]) -> _Inputs:
    """Read a score above 0 as yes and below as no; 0 is no answer and counts as wrong."""
    answers = [row.score > 0 if row.score else not row.correct for row in rows]
    return [answers, [row.correct for row in rows]], {}
