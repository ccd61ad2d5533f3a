"""Models on the same examples: for every score the paired difference and its tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..common.errors import PredictionsError
from ..common.formatting import distinct_labels
from ..modules.discovery import get_spec
from ..records.predictions import Predictions, file_hash, prediction_files, read_predictions
from ..records.schema import DetectionRow, Row
from ..statistics.differences import PERMUTATIONS, POWER, Resampling, averaged, differences, pooled
from ._comparison import Comparison, Difference, Side
from ._compute import (
    RESAMPLES,
    Declared,
    Metrics,
    check_options,
    cluster_numbers,
    declared_metrics,
    examples_of,
    tie_policy,
)
from ._seeds import data_variant

if TYPE_CHECKING:
    pass

_PREDICTED = ("scores", "score", "boxes", "images")


def compare(
    *predictions: str | Path,
    metrics: Declared = declared_metrics,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Comparison:
    """Compare two or more models on the examples that they have in common.

    Args:
        predictions: files of predictions, or folders of them, of two or more models. Several files of one model and
            task are averaged: over versions of the data (seeds of a builder), and over runs of the model on one.
        metrics: which metrics evaluate a file; by default those that it declares.
        ties: what a tie counts; by default, and for metrics that do not know the policy, as each metric's paper has it.
        confidence, resamples, permutations, seed: see ``differences.Resampling``.

    Returns:
        The differences of every pair of models in every task that both were evaluated on, over all examples, as macro
        averages and by category, with intervals and tests that take the examples of one image together.

    Raises:
        PredictionsError: fewer than two models, no task in common, or files of one task with other data or examples.
        UnknownNameError, ScoresError: an option's value does not exist.
    """
    check_options(ties=ties, confidence=confidence, resamples=resamples, seed=seed)
    how = Resampling(confidence, resamples, permutations, POWER, seed)
    models = _models([Path(path) for path in predictions])
    labels = list(models)
    found: list[Difference] = []
    sides: list[Side] = []
    for one, two in combinations(labels, 2):
        tasks = [task for task in models[one] if task in models[two]]
        for task in tasks:
            for difference, side in _compare_task(models[one][task], models[two][task], (one, two), metrics, ties, how):
                found.append(difference)
                if side is not None:
                    sides.append(side)
    if not found:
        _refuse_without_task(models)
    return Comparison(
        models=labels,
        files={
            label: [
                {"file": file.path.name, "sha256": file_hash(file.path)} for files in tasks.values() for file in files
            ]
            for label, tasks in models.items()
        },
        options=how._asdict(),
        differences=found,
        sides=sides,
    )


class _File(NamedTuple):
    path: Path
    predictions: Predictions


# The files of a task, by its benchmark, name and type.
_Tasks = dict[tuple[str, str, str], list[_File]]


def _models(paths: Sequence[Path]) -> dict[str, _Tasks]:
    """The files of each model, by its label and task."""
    arguments = [[_File(file, read_predictions(file)) for file in prediction_files(path)] for path in paths]
    described = [(file, number) for number, files in enumerate(arguments) for file in files]
    identities = [json.dumps(file.predictions.metadata["model"], sort_keys=True) for file, _ in described]
    if len(set(identities)) == 1:  # a model with itself: the arguments are what is compared
        identities = [f"{identity} {number}" for identity, (_, number) in zip(identities, described, strict=True)]
    groups: dict[str, list[_File]] = {}
    for identity, (file, _) in zip(identities, described, strict=True):
        group = groups.setdefault(identity, [])
        if all(file.path.resolve() != other.path.resolve() for other in group):
            group.append(file)
    if len(groups) < 2:
        raise PredictionsError(f"predictions of {len(groups)} model came; name those of two or more")
    labels = distinct_labels([files[0].predictions.metadata["model"] for files in groups.values()])
    found: dict[str, _Tasks] = {}
    for label, files in zip(labels, groups.values(), strict=True):
        tasks: _Tasks = {}
        for file in files:
            each = file.predictions
            tasks.setdefault((each.benchmark, each.task, each.task_type), []).append(file)
        found[label] = tasks
    return found


def _refuse_without_task(models: dict[str, _Tasks]) -> None:
    said = "; ".join(
        f"{label}: {', '.join(f'{benchmark} ({task}, {task_type})' for benchmark, task, task_type in tasks)}"
        for label, tasks in models.items()
    )
    raise PredictionsError(
        f"no two models were evaluated on the same task ({said}); compare predictions of the same task"
    )


def _compare_task(
    first: list[_File],
    second: list[_File],
    labels: tuple[str, str],
    metrics: Declared,
    ties: str | None,
    how: Resampling,
) -> Iterator[tuple[Difference, Side | None]]:
    """The differences of one task; with the first of each metric the examples behind them.

    Versions of the data that differ in their seed are averaged; others are compared each by themselves.
    """
    versions = _versions(first, second)
    used = sum(len(one) + len(two) for one, two in versions)
    variants: dict[str, list[tuple[list[_File], list[_File]]]] = {}
    for version in versions:
        variants.setdefault(data_variant(version[0][0].predictions.metadata["benchmark"]), []).append(version)
    for same in variants.values():
        found = _compare_versions(same, labels, metrics, ties, how)
        where = _where(same[0][0][0].predictions, len(variants) > 1)
        for difference, side in found:
            yield replace(difference, task=where, unused=len(first) + len(second) - used), side


def _where(predictions: Predictions, with_configs: bool) -> str:
    """The task, with its configurations where they tell it from others."""
    configs = predictions.metadata["benchmark"].get("configs")
    return f"{predictions.task}: {', '.join(map(str, configs))}" if with_configs and configs else predictions.task


def _declared(files: Sequence[_File], metrics: Declared) -> Metrics:
    """The metrics that one of the files declares."""
    for file in files[:-1]:
        try:
            return metrics(file.predictions)
        except PredictionsError:
            continue
    return metrics(files[-1].predictions)


def _compare_versions(
    versions: list[tuple[list[_File], list[_File]]],
    labels: tuple[str, str],
    metrics: Declared,
    ties: str | None,
    how: Resampling,
) -> Iterator[tuple[Difference, Side | None]]:
    runs = [_shared_rows(one, two) for one, two in versions]
    unscored = sum(len(one[0].predictions.rows) for one, _ in versions) - sum(len(each[0][0]) for each in runs)
    rows = [row for each in runs for row in each[0][0]]
    clusters = np.array(cluster_numbers(rows))
    starts = np.cumsum([0, *(len(each[0][0]) for each in runs)])
    predictions = versions[0][0][0].predictions
    about = {"benchmark": predictions.benchmark, "task": predictions.task, "first": labels[0], "second": labels[1]}
    for metric, settings in _declared([files[0] for files in versions[0]], metrics).items():
        spec = get_spec(metric)
        sides = []
        left_out: Counter[str] = Counter()
        for model in (0, 1):
            parts, numbers = [], []
            for start, each in zip(starts, runs, strict=False):
                own = clusters[start : start + len(each[0][0])]
                made = [examples_of(run, metric, settings, ties=ties, clusters=own.tolist()) for run in each[model]]
                parts.append(made[0] if _is_single(runs) else averaged(made))
                numbers.append(start + parts[-1].rows)
            places = np.concatenate(numbers)
            sides.append(parts[0] if len(parts) == 1 else pooled(parts, clusters[places], places))
            left_out = Counter(why for part in parts for why in part.left_out.values())
        one, two = sides
        side = Side({**about, "metric": metric}, rows, one, two)
        names = list(differences(one, two, how).items())
        main = [name for name, _ in names if name == spec.main_score] or spec.table_scores([name for name, _ in names])
        for number, (name, result) in enumerate(names):
            score = spec.score(name)
            if score is None or not score.in_tables:
                continue
            if not score.higher_is_better:
                for part in (result, *result["per_category"].values()):
                    part["wins"], part["losses"] = part["losses"], part["wins"]
            difference = Difference(
                benchmark=predictions.benchmark,
                task=predictions.task,
                models=labels,
                metric=metric,
                score=name,
                higher_is_better=score.higher_is_better,
                is_main=name == main[0],
                ties=tie_policy(spec, ties),
                left_out=dict(left_out),
                unscored=unscored,
                seeds=len(versions),
                result=result,
            )
            yield difference, side if number == 0 else None


def _is_single(runs: Sequence[Any]) -> bool:
    """Whether there is one run of each model on one version of the data, so that nothing is averaged."""
    return len(runs) == 1 and all(len(side) == 1 for side in runs[0])


def _versions(first: list[_File], second: list[_File]) -> list[tuple[list[_File], list[_File]]]:
    """The runs of both models on each version of the data that both have."""
    by_data = []
    for files in (first, second):
        found: dict[Any, list[_File]] = {}
        for file in files:
            found.setdefault(file.predictions.metadata["benchmark"].get("fingerprint"), []).append(file)
        by_data.append(found)
    # As many runs of both: a mean of several has less spread than one, and exchanging them would be no fair test.
    shared = [
        (runs[: len(by_data[1][data])], by_data[1][data][: len(runs)])
        for data, runs in by_data[0].items()
        if data in by_data[1]
    ]
    if not shared:
        prints = [next(iter(found)) for found in by_data]
        raise PredictionsError(
            f"{first[0].path} and {second[0].path} are of different data (fingerprints {prints[0]!s:.12} and "
            f"{prints[1]!s:.12}); evaluate both models on the same build of the benchmark"
        )
    return shared


def _shared_rows(first: list[_File], second: list[_File]) -> tuple[list[list[Row]], list[list[Row]]]:
    """The rows of each run that all runs of both models scored, in the first file's order, after all checks."""
    leader = first[0]
    runs = [{row.id: row for row in file.predictions.rows} for file in (*first, *second)]
    for file, rows in zip((*first, *second), runs, strict=True):
        for mine, others, path in ((runs[0], rows, leader.path), (rows, runs[0], file.path)):
            alone = [name for name in mine if name not in others]
            if alone:
                raise PredictionsError(
                    f"{len(alone):,} of the {len(mine):,} examples of {path} are not in the other file, such as "
                    f"{alone[0]!r}; evaluate both models on the same configurations"
                )
    kept = [name for name in runs[0] if all(rows[name].is_scored for rows in runs)]
    for file, rows in zip((*first, *second), runs, strict=True):
        for name in kept:
            if _question(runs[0][name]) != _question(rows[name]):
                raise PredictionsError(
                    f"the example {name!r} is another in {leader.path} than in {file.path} (its category, label or "
                    "number of captions differs); evaluate both models on the same build of the benchmark"
                )
    kept_names = set(kept)
    broken = {row.pair for row in runs[0].values() if isinstance(row, DetectionRow) and row.id not in kept_names}
    kept = [name for name in kept if getattr(runs[0][name], "pair", None) not in broken]
    if not kept:
        raise PredictionsError(
            f"{first[0].path} and {second[0].path} share no example that both scored; each lacks the other's images"
        )
    chosen = [[rows[name] for name in kept] for rows in runs]
    return chosen[: len(first)], chosen[len(first) :]


def _question(row: Row) -> dict[str, Any]:
    """What was asked of a model, but for the names of the images."""
    asked = {name: value for name, value in vars(row).items() if name not in _PREDICTED}
    shape = () if isinstance(row, DetectionRow) else np.shape(getattr(row, "scores", ()))
    return {**asked, "images": len(row.images), "shape": shape}
