"""Statistics of the study: mean and deviation over seeds, paired drops, what is kept without order, and verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....metrics.records.results import code_version
from ....metrics.statistics.bootstrap import cluster_bootstrap, resampled_totals
from ....metrics.statistics.paired import paired_difference
from .design import CONDITIONS, LABELS, STRONGEST, Design, baseline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ....metrics.records.results import Result

SCHEMA = "vl-assay/study-order"
VERSION = 1
# The columns of ARO's Tables 3 and 4.
SCORES = ("text_recall_at_1", "text_recall_at_5", "image_recall_at_1", "image_recall_at_5")
_TEXT, _IMAGE = SCORES[::2]
ORDER_SCORE = "accuracy"
ORDER_CHANCE = 0.2
CONFIDENCE = 0.95
_RESAMPLES = 2000
# A model that keeps more of its recall without order hardly needs it, one that keeps less needs it. In the paper (COCO,
# recall@1 of both directions) CLIP keeps 68 % and BLIP 82 % with all words shuffled, 61 and 75 % with nine patches.
KEEPS_MOST, KEEPS_LITTLE = 2 / 3, 1 / 3


@dataclass(frozen=True)
class Values:
    """What each example of a file of predictions is worth.

    Args:
        ids: what identifies each of n examples.
        scores: by name, float64 of shape (n,) in [0, 1]; NaN for an example that is not of the score.
        clusters: int array of shape (n,), the image of each.
    """

    ids: list[tuple[str, str]]
    scores: Mapping[str, NDArray[np.float64]]
    clusters: NDArray[np.intp]

    def of(self, score: str, ids: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """A score of some examples, in their order."""
        place = {id: number for number, id in enumerate(self.ids)}
        return self.scores[score][[place[id] for id in ids]]


@dataclass(frozen=True)
class Measured:
    """What a model's predictions are worth: by condition and in the order task for each seed, and of composition."""

    retrieval: Mapping[str, Sequence[Values]]
    order: Sequence[Values]
    composition: Sequence[Result]


def document(design: Design, measured: Mapping[str, Measured], models: Mapping[str, str]) -> dict[str, Any]:
    """All numbers of the study, as in ``study.json``; scores are fractions in [0, 1].

    Args:
        design: what was measured.
        measured: by the model's label.
        models: the model of each label.
    """
    found = {}
    for label, each in measured.items():
        kept = {
            kind: kept_share(each.retrieval[base], each.retrieval[name]) for kind, (name, base) in STRONGEST.items()
        }
        found[label] = {
            "model": models[label],
            "conditions": {name: _condition(name, each.retrieval) for name in CONDITIONS},
            "kept": kept,
            "order": over_seeds(each.order, ORDER_SCORE) | {"chance": ORDER_CHANCE},
            "composition": [_composition(result) for result in each.composition],
            "verdict": verdict({kind: share["interval"] for kind, share in kept.items()}),
        }
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "code": code_version(),
        "design": asdict(design),
        "confidence": CONFIDENCE,
        "images": _image_count(next(iter(measured.values()))),
        "models": found,
    }


def _image_count(measured: Measured) -> int:
    return len(np.unique(measured.retrieval[CONDITIONS[0]][0].clusters))


def _condition(name: str, retrieval: Mapping[str, Sequence[Values]]) -> dict[str, Any]:
    """The scores under a condition, and how much lower they are than what it is compared with."""
    base = baseline(name)
    scores = {}
    for score in SCORES:
        scores[score] = over_seeds(retrieval[name], score)
        if base is not None:
            scores[score] |= drop(retrieval[base], retrieval[name], score)
    return {"label": LABELS[name], "baseline": base, "scores": scores}


def over_seeds(seeds: Sequence[Values], score: str) -> dict[str, Any]:
    """Mean of a score over the seeds, and its spread.

    Returns:
        ``mean``; ``std``, the sample standard deviation over seeds (divided by their number less one), None for one;
        ``by_seed``; and ``interval``, of the mean over images, for these seeds.
    """
    by_seed = [float(np.nanmean(each.scores[score])) for each in seeds]
    ids, clusters = _asked(seeds, score)
    means = np.mean([each.of(score, ids) for each in seeds], axis=0)
    low, high = cluster_bootstrap(means, clusters, confidence=CONFIDENCE, resamples=_RESAMPLES).micro
    return {
        "mean": statistics.fmean(by_seed),
        "std": statistics.stdev(by_seed) if len(by_seed) > 1 else None,
        "by_seed": by_seed,
        "interval": [low, high],
    }


def drop(before: Sequence[Values], after: Sequence[Values], score: str) -> dict[str, Any]:
    """How much lower a score is without order: the paired difference of each query's mean over the seeds.

    Returns:
        ``drop``, positive where order helps, and ``drop_interval``, over images, for these seeds.
    """
    ids, clusters = _asked([*before, *after], score)
    first, second = (np.mean([each.of(score, ids) for each in seeds], axis=0) for seeds in (before, after))
    options = {"confidence": CONFIDENCE, "resamples": _RESAMPLES, "permutations": 100}
    found = paired_difference(first, second, clusters=clusters, **options)
    return {"drop": found["difference"], "drop_interval": found["difference_interval"]}


def kept_share(before: Sequence[Values], after: Sequence[Values]) -> dict[str, Any]:
    """The share of recall@1, the mean of both directions, that is left without order.

    Returns:
        ``share``, None where there is no recall to lose, and ``interval``: percentiles over resampled images of the
        ratio, None where some resample has nothing to lose.
    """
    columns, clusters = [], []
    for score in (_TEXT, _IMAGE):
        ids, own = _asked([*before, *after], score)
        values = [np.mean([each.of(score, ids) for each in seeds], axis=0) for seeds in (before, after)]
        columns.append(np.stack([*values, np.ones(len(ids))], axis=1))
        clusters.append(own)
    text, image = columns
    table = np.block([[text, np.zeros_like(text)], [np.zeros_like(image), image]])
    totals = np.vstack([table.sum(axis=0), resampled_totals(table, np.concatenate(clusters), _RESAMPLES)])
    with np.errstate(invalid="ignore"):  # a resample without queries of one direction
        recall = totals[:, [0, 1]] / totals[:, [2]] + totals[:, [3, 4]] / totals[:, [5]]
    if not recall[0, 0]:
        return {"share": None, "interval": None}
    if not (recall[:, 0] > 0).all():
        return {"share": float(recall[0, 1] / recall[0, 0]), "interval": None}
    shares = recall[:, 1] / recall[:, 0]
    tail = (1 - CONFIDENCE) / 2
    return {"share": float(shares[0]), "interval": np.quantile(shares[1:], [tail, 1 - tail]).tolist()}


def _asked(every: Sequence[Values], score: str) -> tuple[list[tuple[str, str]], NDArray[np.intp]]:
    """The examples of a score that all files have, and the image of each."""
    first, *others = every
    common = set(first.ids).intersection(*(each.ids for each in others))
    kept = [n for n, id in enumerate(first.ids) if id in common and not np.isnan(first.scores[score][n])]
    return [first.ids[n] for n in kept], first.clusters[kept]


def _composition(result: Result) -> dict[str, Any]:
    """The main score of a result with its interval, and by category."""
    score, scores = result.main_score, result.scores
    base = score.removeprefix("macro_")
    return {
        "task": f"{result.benchmark['name']}/{result.benchmark['task']}",
        "score": score,
        "value": scores[score],
        "interval": scores.get(f"{score}_interval"),
        "chance": result.chance.get(base),
        "per_category": {name: part[base] for name, part in scores.get("per_category", {}).items() if base in part},
    }


def verdict(intervals: Mapping[str, Sequence[float] | None]) -> dict[str, str]:
    """For each kind of order whether retrieval needs it: by the interval of the share of recall@1 that is kept.

    "hardly needed" where the whole interval lies above `KEEPS_MOST`, "needed" where it lies below `KEEPS_LITTLE`,
    "needed in part" where it lies between them, else "open": the sample does not decide.
    """
    found = {}
    for kind, bounds in intervals.items():
        low, high = bounds or (0.0, 1.0)
        if low > KEEPS_MOST:
            found[kind] = "hardly needed"
        elif high < KEEPS_LITTLE:
            found[kind] = "needed"
        elif low > KEEPS_LITTLE and high < KEEPS_MOST:
            found[kind] = "needed in part"
        else:
            found[kind] = "open"
    return found
