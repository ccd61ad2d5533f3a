"""Do two scores rise together over models? Reads predictions, and correlates with intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..common.errors import PredictionsError, UnknownNameError, check_known
from ..common.formatting import distinct_labels
from ..estimation.aggregate import aggregate, option_names
from ..estimation.bootstrap import cluster_counts, percentile_interval
from ..estimation.correlation import correlation
from ..estimation.spec import Examples
from ..modules.discovery import get_spec
from ..records.predictions import prediction_files, read_predictions
from ..records.schema import Row
from ._compute import Parts, check_options, cluster_numbers, declared_metrics, examples_of, no_parts, scored_rows
from ._correlation import Correlation, Found, Point, ScoreName, Value
from ._model_facts import check_facts, check_group, group_of, read_facts
from ._scored import base_score, is_costly
from ._tables import partial_sentence

MACRO = "macro_"
# Resamples; of scores such as average precision, each of which has to be computed again, fewer.
RESAMPLES, COSTLY_RESAMPLES = 1_000, 200

Floats = NDArray[np.float64]
# From a benchmark's name to its main scores: task, metric, and name or pattern of the score.
MainScores = Callable[[str], Sequence[tuple[str, str, str]]]


class _Run(NamedTuple):
    """The examples of a metric in a file of predictions, and what identifies each of its rows among all files."""

    model: dict[str, Any]
    benchmark: dict[str, Any]
    metric: str
    examples: Examples
    keys: list[tuple[str, str]]
    scores: dict[str, Any]
    missing: int

    def path(self, name: ScoreName) -> tuple[str, ...]:
        return (self.examples.category_key, name.category, name.score) if name.category else (name.score,)

    def value(self, name: ScoreName) -> Value | None:
        """A score with its interval."""
        *path, last = self.path(name)
        part: Any = self.scores
        for key in path:
            part = part.get(key, {})
        if not isinstance(part.get(last), int | float):
            return None
        bounds = part.get(f"{last}_interval")
        return Value(float(part[last]), (bounds[0], bounds[1]) if bounds else None)

    def has(self, name: ScoreName) -> bool:
        """Whether it is of the task, and of the metric if that is chosen."""
        about = self.benchmark["name"], self.benchmark["task"]
        return about == (name.benchmark, name.task) and name.metric in ("", self.metric)


def correlate(
    *predictions: str | Path,
    across: str | ScoreName = "",
    up: str | ScoreName | Sequence[str | ScoreName] = (),
    by: str = "",
    facts: str | Path | None = None,
    parts: Parts = no_parts,
    main_scores: MainScores = no_parts,
    with_baselines: bool = False,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Correlation:
    """Correlate scores over models.

    Two things are resampled for the intervals. Models, because the question is about models in general; and examples,
    because each score is an estimate: whole clusters of examples that share an image are drawn, the same for all models
    and both scores, so that what models have in common on easy images is kept. The second interval holds the models
    fixed. See ``estimation.correlation.correlation`` for what that assumes.

    Args:
        predictions: files of predictions, or folders of them, of several models. Several of one model and task, such as
            of several seeds, are averaged.
        across: one score, as ``ScoreName.parse`` takes it; by default the predictions have to be of two tasks.
        up: one or several scores, each correlated with it.
        by: ``"size"``, ``"family"``, or a column of `facts`; groups have a colour and correlations of their own.
        facts: a CSV with the column ``model`` and further ones, such as ``data``, ``parameters`` and ``family``, which
            replace what predictions say of the model.
        parts: see ``compute``.
        main_scores: finds the scores that count where none is named.
        with_baselines: whether baselines, such as the mocks, are in the correlations.
        ties: the tie policy; by default that of each metric's paper.
        confidence, resamples, seed: of all intervals.

    Raises:
        PredictionsError: no file, no task for a score, or no model that has all scores.
        UnknownNameError: a score, a group or an option's value that does not exist.
        DataError: `facts` cannot be read, or names no model of the predictions.
        ScoresError: an option outside its range.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    told = read_facts(Path(facts)) if facts is not None else {}
    check_group(by, told)
    every = [across, *([up] if isinstance(up, str | ScoreName) else up)]
    asked = [ScoreName.parse(each) if isinstance(each, str) else each for each in every if each]
    if across and len(asked) == 1:
        raise PredictionsError(f"{asked[0]} is one score; name another to correlate it with (up)")
    paths = prediction_files(*predictions)
    rows: dict[tuple[str, str], Row] = {}
    options = {"confidence": confidence, "resamples": resamples, "seed": seed, "ties": ties}
    runs = [run for path in paths for run in _runs(path, asked, parts, options, rows)]
    names = [_resolve(name, runs, main_scores) for name in asked or _both_tasks(runs)]
    by_model, notes = _by_model(runs, names)
    left_out = {label: _lacking(own, names) for label, own in by_model.items()}
    chosen = {label: own for label, own in by_model.items() if not left_out[label]}
    if not chosen:
        lacking = "; ".join(f"{label} lacks {why}" for label, why in left_out.items())
        raise PredictionsError(f"no model has {' and '.join(map(str, names))}: {lacking}")
    costly = any(
        is_costly(run.examples, base_score(run.examples, n.score)) for run in runs for n in names if run.has(n)
    )
    resamples = min(resamples, COSTLY_RESAMPLES) if costly else resamples
    drawn = _drawn(chosen, names, rows, resamples, seed)  # (models, scores, resamples)
    check_facts(told, [str(own[0].model["name"]) for own in chosen.values()])
    points = []
    for place, (label, own) in enumerate(chosen.items()):
        values = tuple(_mean(own, name, drawn[place, n], confidence) for n, name in enumerate(names))
        is_baseline = not with_baselines and own[0].model.get("is_baseline") is True
        points.append(Point(label, group_of(own[0].model, by, told), values, is_baseline))
    counted = [n for n, point in enumerate(points) if not point.is_baseline]
    found = []
    how: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    for number, name in enumerate(names[1:], start=1):
        for group in ["", *dict.fromkeys(points[n].group for n in counted if by)]:
            own = [n for n in counted if group in ("", points[n].group)]
            x, y = ([points[n].values[side].value for n in own] for side in (0, number))
            both = (drawn[own, 0].T, drawn[own, number].T)
            found.append(Found(name, group, correlation(x, y, drawn=both, **how)))
    return Correlation(
        across=names[0],
        up=names[1:],
        points=sorted(points, key=lambda point: (point.is_baseline, point.group, -point.values[0].value)),
        found=found,
        by=by,
        left_out={label: why for label, why in left_out.items() if why},
        notes=[*notes, *_data_notes(chosen, names)],
        options=how,
    )


def _runs(
    path: Path, asked: Sequence[ScoreName], parts: Parts, options: Mapping[str, Any], seen: dict[tuple[str, str], Row]
) -> Iterator[_Run]:
    """The examples of each task of a file that is asked for; their rows, without predictions, join those seen."""
    whole = read_predictions(path)
    # Parts, such as sugarcrepe/v2, are looked for only where one may be asked for by its name.
    is_part = any(name.benchmark == whole.benchmark and name.task not in ("", whole.task) for name in asked)
    for part in (whole, *(parts(whole) if is_part else ())):
        rows = scored_rows(part.rows) if not asked or any(name.is_of(part) for name in asked) else []
        if not rows:
            continue
        keys = [(str(part.metadata["benchmark"].get("fingerprint") or path), row.id) for row in rows]
        for key, row in zip(keys, rows, strict=True):
            if key not in seen:
                seen[key] = replace(row, **{name: None for name in ("scores", "score", "boxes") if hasattr(row, name)})
        for metric, settings in declared_metrics(part).items():
            examples = examples_of(rows, metric, settings, ties=options["ties"])
            accepted = option_names(get_spec(metric).function)
            how = {name: options[name] for name in ("confidence", "resamples", "seed") if name in accepted}
            if any(each.with_interval and is_costly(examples, each.names[0]) for each in examples.estimators):
                how["resamples"] = min(options["resamples"], COSTLY_RESAMPLES)
            scores = aggregate(examples, **how)
            about = part.metadata["model"], part.metadata["benchmark"]
            missing = len(part.rows) - len(rows)
            yield _Run(*about, metric, examples, [keys[row] for row in examples.rows.tolist()], scores, missing)


def _both_tasks(runs: Sequence[_Run]) -> list[ScoreName]:
    """The two tasks of the predictions, where they are of two."""
    tasks = list(dict.fromkeys((run.benchmark["name"], run.benchmark["task"]) for run in runs))
    if len(tasks) != 2:
        known = ", ".join(f"{benchmark}/{task}" for benchmark, task in tasks)
        raise PredictionsError(
            f"the predictions are of {len(tasks)} tasks ({known}); name the two scores to correlate: "
            "--across BENCHMARK/TASK --up BENCHMARK/TASK"
        )
    return [ScoreName(*task) for task in tasks]


def _resolve(name: ScoreName, runs: Sequence[_Run], main_scores: MainScores) -> ScoreName:
    """A score with its task, metric and name."""
    tasks = dict.fromkeys(run.benchmark["task"] for run in runs if run.benchmark["name"] == name.benchmark)
    main = main_scores(name.benchmark)
    task = name.task or next((task for task, *_ in main if task in tasks), next(iter(tasks), ""))
    own = [run for run in runs if run.has(name._replace(task=task))]
    if not own:
        known = sorted({f"{run.benchmark['name']}/{run.benchmark['task']}" for run in runs})
        raise PredictionsError(
            f"there are no predictions of {name}" + f"; the predictions are of {', '.join(known)}" * bool(known)
        )
    metrics = dict.fromkeys(run.metric for run in own)
    if not name.score:
        wanted = [(metric, score) for at, metric, score in main if at == task and metric in metrics]
        wanted += [(metric, get_spec(metric).main_score) for metric in metrics]
        named = [(m, score) for m, pattern in wanted for score in _known(own, m) if fnmatchcase(score, pattern)]
        metric, score = named[0] if named else next((m, s) for m in metrics for s in _known(own, m))
        return name._replace(task=task, metric=metric, score=score)
    for metric in metrics:
        found = name._replace(task=task, metric=metric)
        has_value = any(run.metric == metric and run.value(found) is not None for run in own)
        if has_value and found.score in _known(own, metric):
            return found
    known = dict.fromkeys(score for metric in metrics for score in _known(own, metric))
    categories = dict.fromkeys(category for run in own for category in run.examples.categories)
    if name.category:
        check_known(f"category of {name.benchmark}/{task}", [name.category], categories)
    raise UnknownNameError(f"score of {name.benchmark}/{task}", name.score, known)


def _known(runs: Iterable[_Run], metric: str) -> dict[str, None]:
    """The scores of a metric, with macro averages."""
    found: dict[str, None] = {}
    for run in runs:
        if run.metric == metric:
            every = [*run.examples.scores, *(f"{MACRO}{score}" for score in run.examples.values)]
            found |= {score: None for score in every if isinstance(run.scores.get(score), int | float)}
    return found


def _by_model(runs: Sequence[_Run], names: Sequence[ScoreName]) -> tuple[dict[str, list[_Run]], list[str]]:
    """The runs of each model, by its label, and remarks.

    Descriptions with the same name are one model where they are of different tasks, as those of released predictions
    are, which name their file; else each is a model.
    """
    by_name: dict[str, dict[str, list[_Run]]] = {}
    for run in runs:
        if any(run.has(name) for name in names):
            identity = json.dumps(run.model, sort_keys=True, default=str)
            by_name.setdefault(str(run.model["name"]), {}).setdefault(identity, []).append(run)
    groups, merged = [], []
    for name, own in by_name.items():
        tasks = [{(run.benchmark["name"], run.benchmark["task"]) for run in each} for each in own.values()]
        if len(own) > 1 and sum(map(len, tasks)) == len(set().union(*tasks)):
            merged.append(name)
            groups.append([run for each in own.values() for run in each])
        else:
            groups += own.values()
    note = f"Described differently on different tasks, and taken as one model each: {', '.join(merged)}."
    labels = distinct_labels([group[0].model for group in groups])
    return dict(zip(labels, groups, strict=True)), [note] if merged else []


def _lacking(runs: Sequence[_Run], names: Sequence[ScoreName]) -> str:
    """The scores that a model does not have."""
    missing = [
        str(name)
        for name in names
        if not any(run.has(name) for run in runs) or any(run.value(name) is None for run in runs if run.has(name))
    ]
    return " and ".join(missing)


def _mean(runs: Sequence[_Run], name: ScoreName, drawn: Floats, confidence: float) -> Value:
    """A score, over several runs their mean, whose interval is over the same resamples as that of the correlation."""
    values = [value for run in runs if run.has(name) and (value := run.value(name)) is not None]
    if len(values) == 1:
        return values[0]
    spreads = np.isfinite(drawn).any() and np.nanmax(drawn) > np.nanmin(drawn)
    bounds = percentile_interval(drawn, confidence) if spreads else None
    return Value(float(np.mean([each.value for each in values])), bounds)


def _drawn(
    models: Mapping[str, Sequence[_Run]],
    names: Sequence[ScoreName],
    rows: Mapping[tuple[str, str], Row],
    resamples: int,
    seed: int,
) -> Floats:
    """The scores of the models in resamples of clusters of examples, of shape (models, scores, resamples)."""
    codes = dict(zip(rows, cluster_numbers(list(rows.values())), strict=True))
    own = [[[run for run in runs if run.has(name)] for name in names] for runs in models.values()]
    places = {id(run): np.array([codes[key] for key in run.keys]) for each in own for runs in each for run in runs}
    found, start = np.empty((len(own), len(names), resamples)), 0
    for weights in cluster_counts(max(codes.values()) + 1, resamples, seed):
        stop = start + len(weights)
        for model, by_name in enumerate(own):
            for number, (name, runs) in enumerate(zip(names, by_name, strict=True)):
                drawn = [_weighted(run.examples, name, weights[:, places[id(run)]]) for run in runs]
                found[model, number, start:stop] = np.mean(drawn, axis=0)
        start = stop
    return found


def _weighted(examples: Examples, name: ScoreName, weights: Floats) -> Floats:
    """A score with each example counted as often as each row of weights says; NaN where none counts."""
    score = base_score(examples, name.score)
    if score in examples.values:
        if score == name.score or not examples.categories:
            numbers = examples.categories[name.category] if name.category else np.arange(len(examples))
            return _mean_of(examples.values[score], numbers, weights)
        parts = [_mean_of(examples.values[score], each, weights) for each in examples.macro_categories.values()]
        counts = np.isfinite(parts).sum(axis=0)
        return np.divide(np.nansum(parts, axis=0), counts, out=np.full(len(weights), np.nan), where=counts > 0)
    estimator = examples.estimator(score)
    place = estimator.names.index(score)
    if name.category:
        numbers = examples.categories[name.category]
        estimator, weights = estimator.select(numbers), weights[:, numbers]
    return np.array([estimator(each)[place] for each in weights])


def _mean_of(values: Floats, numbers: NDArray[np.intp], weights: Floats) -> Floats:
    kept = numbers[np.isfinite(values[numbers])]
    chosen = weights[:, kept]
    counts = chosen.sum(axis=1)
    return np.divide(chosen @ values[kept], counts, out=np.full(len(weights), np.nan), where=counts > 0)


def _data_notes(models: Mapping[str, Sequence[_Run]], names: Sequence[ScoreName]) -> Iterator[str]:
    """What readers should know of the data: parts of tasks, other versions, missing images."""
    every = [run for runs in models.values() for run in runs if any(run.has(name) for name in names)]
    partial = partial_sentence(run.benchmark for run in every)
    if partial:
        yield partial
    for name in dict.fromkeys((each.benchmark, each.task) for each in names):
        own = [[run for run in runs if run.has(ScoreName(*name))] for runs in models.values()]
        if len({tuple(sorted({str(run.benchmark.get("fingerprint")) for run in runs})) for runs in own}) > 1:
            yield f"Not all models were scored on the same data of {name[0]} ({name[1]})."
        if missing := max(run.missing for runs in own for run in runs):
            yield f"Up to {missing:,} examples of {name[0]} ({name[1]}) lack their image and are in no score."
