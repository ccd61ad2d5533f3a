"""Why a detector's average precision is what it is: negatives, calibration, and how many negatives there are.

The average precision (AP) of contextual phrase detection depends on finding boxes, on knowing which images show what a
caption says, and on confidences that are comparable across phrases. The diagnosis computes AP without each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.figures import colours
from ..common.formatting import interval, points, words
from ..estimation.bootstrap import cluster_bootstrap, percentile_interval, resampled_weights
from ..estimation.spec import Estimator, Examples, Floats
from ..functional.grounding import grounding_recall, group_recall_at_1
from ..modules.discovery import get_spec
from ..records.schema import DetectionRow, Row
from ._compute import examples_of
from ._tables import score_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DETECTION = "detection"
RESAMPLES = 200
# How often each negative row counts in the curve.
NEGATIVE_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)

_BASIS = "as predicted"
_POSITIVES = "positive rows alone"
_CLASSIFIER = "no boxes on negative rows (oracle)"
_PHRASES = "no boxes of absent phrases (oracle)"
_RANKS = "calibrated across phrases (ranks)"
_IMAGE = "Recall@1, image alone"
_PAIR = "Group-Recall@1, with its distractors"
_NOTE = (
    "Change: to the first row of the same score, in points. Without their boxes negative rows are in no precision and "
    "no recall, so that a perfect classifier of images gives the same as the positive rows alone. Ranks: every phrase "
    "has the same confidences, and the order of its boxes stays."
)


@dataclass(frozen=True)
class Measure:
    """A score, a fraction, higher is better, under the condition `name`, and its change from that of the basis.

    Intervals are None where resamples do not spread, or there are none.
    """

    name: str
    value: float
    interval: list[float] | None
    basis: str = ""
    change: float | None = None
    change_interval: list[float] | None = None


@dataclass(frozen=True)
class CurvePoint:
    """AP with negative rows weighted so that there are `negatives_per_positive`."""

    negatives_per_positive: float
    value: float
    interval: list[float] | None


@dataclass(frozen=True)
class Diagnosis:
    """Why the average precision of a detector is what it is; see `diagnose`.

    Args:
        metric, score: the metric, and its name for AP.
        precision: AP under several conditions, as predicted first.
        recall: Recall@1 on the image alone and with its distractors; empty where the predictions do not declare both
            metrics.
        curve: AP by the number of negative rows for each positive one.
        n_positive, n_negative: rows.
        has_absent_phrases: whether positive rows have phrases without ground truth; if not, both oracles equal the
            positive rows alone.
        options: confidence, resamples and seed.
    """

    metric: str
    score: str
    precision: list[Measure]
    recall: list[Measure]
    curve: list[CurvePoint]
    n_positive: int
    n_negative: int
    has_absent_phrases: bool
    options: dict[str, Any]

    def tables(self, label: str) -> list[Table]:
        """The measures, and AP by the number of negative rows, as tables; `label` names model and task."""
        note = f"{self.n_positive:,} positive and {self.n_negative:,} negative rows. {_NOTE}"
        if self.options["confidence"] is not None:
            level = 100 * self.options["confidence"]
            note += f" Intervals: {level:g} %, {self.options['resamples']:,} resamples of images."
        rows = []
        for each in (*self.precision, *self.recall):
            bounds = "" if each.change_interval is None else interval(each.change_interval, signed=True)
            change = Cell("" if each.change is None else points(each.change), (bounds,))
            rows.append(TableRow(each.name, (score_cell(each.value, each.interval), change)))
        columns = (Column("value", (INTERVAL,)), Column("change", (INTERVAL,)))
        measures = Table(f"{label}: diagnosis of {words(self.score)}", columns, tuple(rows), note)
        cells = {f"{each.negatives_per_positive:g}": score_cell(each.value, each.interval) for each in self.curve}
        shown = tuple(TableRow(name, (cell,)) for name, cell in cells.items())
        column = Column(words(self.score), (INTERVAL,))
        return [measures, Table("by negative rows for each positive row", (column,), shown, is_part=True)]

    def plot(self) -> Figure:
        """AP against the number of negative rows for each positive row, with intervals."""
        return plot_curves({"": self})


def plot_curves(diagnoses: Mapping[str, Diagnosis]) -> Figure:
    """AP against the number of negative rows for each positive row: a line for each label."""
    from matplotlib.figure import Figure

    colour = colours(list(diagnoses))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, diagnosis in diagnoses.items():
        x = [point.negatives_per_positive for point in diagnosis.curve]
        axes.plot(x, [100 * point.value for point in diagnosis.curve], "o-", color=colour[label], label=label)
        bounds = np.array([point.interval or (point.value, point.value) for point in diagnosis.curve])
        axes.fill_between(x, *(100 * bounds.T), color=colour[label], alpha=0.2, linewidth=0)
    names = dict.fromkeys(f"{words(each.score)}, %" for each in diagnoses.values())
    axes.set(xlabel="negative rows for each positive row", ylabel=" · ".join(names))
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if any(diagnoses):
        figure.legend(loc="outside lower center", ncols=min(len(diagnoses), 4), frameon=False)
    return figure


def diagnose(
    rows: Sequence[Row],
    metrics: Mapping[str, Mapping[str, Any]],
    *,
    ties: str | None = None,
    confidence: float | None = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Diagnosis | None:
    """Decompose the average precision of a detector.

    Conditions of AP, all from the boxes and confidences that were predicted:

    - positive rows alone: the rows whose caption is true of the image. A perfect classifier of image and caption, which
      removes the boxes of negative rows, gives the same: without boxes and without ground truth a negative row is in
      no precision and no recall;
    - no boxes of absent phrases: boxes of phrases without ground truth are removed, on positive rows too. It differs
      from the former only if true captions have phrases without a box;
    - ranks within phrases: each confidence is replaced by minus its rank among all boxes of its phrase, over the images
      of a caption. This keeps the order within a phrase, and so its calibration across images, and removes differences
      of level between phrases. A gain is what calibration across phrases lacks; a loss means that the levels separate
      phrases that the model finds from those that it does not.

    Recall of the most confident box is computed on the image alone and over the image and its distractors; the drop is
    what calibration within a phrase, across images, lacks.

    The curve counts each negative row 0 to 4 times; at 0 it is AP on positive rows alone, at 1 AP.

    Args:
        rows: rows with predictions.
        metrics: the metrics that the predictions declare, with their settings.
        ties: the tie policy; by default that of each metric's paper.
        confidence: coverage of the intervals, in (0, 1); None for none.
        resamples: of whole clusters of images; every measure is computed on each, so that changes are paired.
        seed: of the resampling.

    Returns:
        None if no detection metric with an average precision is declared, or no row is positive or none negative.

    Source: TRICD (Kamath, Price et al., 2023), section 3.2 for AP with negative rows, and appendix A on calibration
    within phrases (Group-Recall@1) and across phrases (AP).
    """
    found = [row for row in rows if isinstance(row, DetectionRow)]
    flags = np.array([row.positive for row in found], dtype=bool)
    chosen = _precision_metric(found, metrics, ties) if flags.any() and not flags.all() else None
    if chosen is None:
        return None
    metric, examples = chosen
    absent = any(row.positive and not all(row.truth) for row in found)
    precision = _precision(found, metric, metrics[metric], ties, examples)
    recalls = _recalls(found, metrics, ties)
    curve = {_at(weight): _with_negatives(precision, flags, weight) for weight in NEGATIVE_WEIGHTS}
    scores = precision | {name: _weighted_mean(each) for name, each in recalls.items()} | curve
    # A function that has several names is computed once.
    functions = list(dict.fromkeys(scores.values()))
    place = {name: functions.index(score) for name, score in scores.items()}
    values = [score(np.ones(len(found))) for score in functions]
    draws = [] if confidence is None else resampled_weights(examples.clusters, resamples, seed)
    drawn = np.array([[score(weights) for score in functions] for weights in draws]).reshape(-1, len(functions)).T

    def bounds(name: str, basis: str = "") -> list[float] | None:
        column = drawn[place[name]] - (drawn[place[basis]] if basis else 0)
        column = column[np.isfinite(column)]
        if confidence is None or len(column) < 2 or not np.ptp(column):
            return None
        return list(percentile_interval(column, confidence, examples.clusters))

    def measure(name: str, basis: str) -> Measure:
        value = values[place[name]]
        if name == basis:
            return Measure(name, value, bounds(name))
        return Measure(name, value, bounds(name), basis, value - values[place[basis]], bounds(name, basis))

    return Diagnosis(
        metric=metric,
        score=get_spec(metric).main_score,
        precision=[measure(name, _BASIS) for name in precision],
        recall=[
            replace(measure(name, _IMAGE), interval=_mean_interval(each, confidence, seed))
            for name, each in recalls.items()
        ],
        curve=[
            CurvePoint(float(weight * (~flags).sum() / flags.sum()), values[place[_at(weight)]], bounds(_at(weight)))
            for weight in NEGATIVE_WEIGHTS
        ],
        n_positive=int(flags.sum()),
        n_negative=int((~flags).sum()),
        has_absent_phrases=absent,
        options={"confidence": confidence, "resamples": resamples, "seed": seed},
    )


# A score as a function of how often each row counts.
_Score = Callable[[Floats], float]


def _precision_metric(
    rows: Sequence[DetectionRow], metrics: Mapping[str, Mapping[str, Any]], ties: str | None
) -> tuple[str, Examples] | None:
    """The first declared detection metric whose main score is not a mean over examples."""
    for name, settings in metrics.items():
        spec = get_spec(name)
        if spec.task_type == DETECTION:
            examples = examples_of(rows, name, settings, ties=ties)
            if any(spec.main_score in estimator.names for estimator in examples.estimators):
                return name, examples
    return None


def _precision(
    rows: Sequence[DetectionRow], metric: str, settings: Mapping[str, Any], ties: str | None, examples: Examples
) -> dict[str, _Score]:
    """AP by condition; positive rows alone and the oracle on negative rows are the same function."""
    score = get_spec(metric).main_score
    index = examples.estimator(score).names.index(score)
    flags = np.array([row.positive for row in rows], dtype=bool)

    def of(estimator: Estimator) -> _Score:
        return lambda weights: float(estimator(weights)[index])

    positives = of(examples.estimator(score).select(np.flatnonzero(flags)))
    found = {_BASIS: of(examples.estimator(score)), _POSITIVES: lambda weights: positives(weights[flags])}
    found[_CLASSIFIER] = found[_POSITIVES]
    if any(row.positive and not all(row.truth) for row in rows):
        found[_PHRASES] = of(examples_of(_without_absent(rows), metric, settings, ties=ties).estimator(score))
    return found | {_RANKS: of(examples_of(_ranked(rows), metric, settings, ties=ties).estimator(score))}


def _with_negatives(precision: Mapping[str, _Score], positive: NDArray[np.bool_], weight: float) -> _Score:
    """AP with every negative row counted `weight` times."""
    if weight in (0.0, 1.0):
        return precision[_BASIS if weight else _POSITIVES]
    return lambda weights: precision[_BASIS](np.where(positive, weights, weight * weights))


def _recalls(
    rows: Sequence[DetectionRow], metrics: Mapping[str, Mapping[str, Any]], ties: str | None
) -> dict[str, Examples]:
    """Whether the top box of each phrase is right; empty unless both metrics are declared."""
    found = {}
    for condition, function in ((_IMAGE, grounding_recall), (_PAIR, group_recall_at_1)):
        for name, settings in metrics.items():
            if get_spec(name).function is function:
                top = {**settings, "ks": (1,)} if function is grounding_recall else settings
                found[condition] = examples_of(rows, name, top, ties=ties)
    return found if len(found) == 2 else {}


def _weighted_mean(examples: Examples) -> _Score:
    """The mean of the only score of some examples."""
    [values] = examples.values.values()

    def score(weights: Floats) -> float:
        counts = weights[examples.rows]
        return float(counts @ values / counts.sum()) if counts.any() else float("nan")

    return score


def _mean_interval(examples: Examples, confidence: float | None, seed: int) -> list[float] | None:
    """The interval of a mean, as reports compute it."""
    if confidence is None:
        return None
    [values] = examples.values.values()
    return list(cluster_bootstrap(values, examples.clusters, None, confidence, seed=seed).micro)


def _ranked(rows: Sequence[DetectionRow]) -> list[DetectionRow]:
    """The rows with confidences replaced by minus their rank among all boxes of the phrase, over a caption's images."""
    import pandas

    boxes = pandas.DataFrame(
        [
            (row.pair, phrase["start"], phrase["end"], score)
            for row in rows
            for phrase, found in zip(row.phrases, row.scores or [], strict=True)
            for score in found
        ],
        columns=["pair", "start", "end", "score"],
    ).astype({"score": float})
    ranks = iter(boxes.groupby(["pair", "start", "end"])["score"].rank(method="min", ascending=False).tolist())
    return [replace(row, scores=[[-next(ranks) for _ in found] for found in row.scores or []]) for row in rows]


def _without_absent(rows: Sequence[DetectionRow]) -> list[DetectionRow]:
    """The rows without the boxes of phrases that have no ground truth."""

    def kept(found: list[list[Any]] | None, row: DetectionRow) -> list[list[Any]]:
        return [each if truth else [] for each, truth in zip(found or [], row.truth, strict=True)]

    return [replace(row, boxes=kept(row.boxes, row), scores=kept(row.scores, row)) for row in rows]


def _at(weight: float) -> str:
    return f"negatives x {weight:g}"
