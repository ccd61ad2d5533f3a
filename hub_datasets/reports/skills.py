"""A model's profile over all benchmarks: its accuracy for each skill that their examples test.

Tasks declare which skill their examples test (`Task.skills`). The first metric of a task decides whether an example (a
pair, a group, or a choice among captions) is right. An example of a skill counts once: if a later benchmark has the
same image and caption, its example is left out and reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics.common.documents import Part, Verdict, simple_table
from ...metrics.common.errors import PredictionsError
from ...metrics.common.formatting import percent
from ...metrics.estimation.bootstrap import percentile_interval, resampled_totals, unseen_share
from ...metrics.modules.discovery import get_spec
from ...metrics.records.predictions import Predictions, read_predictions
from ...metrics.records.schema import Row
from ...metrics.results.compute import cluster_numbers, declared_metrics, examples_of, scored_rows
from ..authoring.audit.blind import known_levels
from ..authoring.audit.summaries import Levels
from ..core.benchmarks import SKILLS, benchmark_names, get_task


@dataclass(frozen=True)
class SkillScore:
    """A model's accuracy for one skill.

    Args:
        skill: one of `SKILLS`.
        parts: the tasks with such examples, as ``benchmark/task``.
        right, examples: how many are right (a tie may count in part), of how many.
        corrected: the mean over tasks of (accuracy - chance) / (1 - chance): 1 is perfect, 0 chance, below 0 worse.
        interval: of `corrected`, from resampling images; an image is one cluster in all benchmarks.
        text_alone: the level of the best known text-only scorers, as `corrected`; None if none is known for any task.
    """

    skill: str
    parts: tuple[str, ...]
    right: float
    examples: int
    corrected: float
    interval: tuple[float, float]
    text_alone: float | None = None

    @property
    def beats_text(self) -> bool:
        """True if the interval lies above the text-only level, or if no such level is known."""
        return self.text_alone is None or self.interval[0] > self.text_alone

    @property
    def accuracy(self) -> float:
        """The share of all examples that is right, in [0, 1]; a large benchmark counts more."""
        return self.right / self.examples


@dataclass(frozen=True)
class SkillProfile:
    """The accuracy of a model by skill, in the order of `SKILLS`, and what is not in it.

    Args:
        model: its name.
        scores: one for each skill that is tested.
        left_out: rows without a skill, or without a value, by task and reason.
        duplicates: rows that count in another benchmark, by both tasks.
    """

    model: str
    scores: tuple[SkillScore, ...]
    left_out: dict[str, int]
    duplicates: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Scored:
    """Examples of one skill in one task: whether each is right, the place of its row, and the chance level.

    `text_levels` has the blind level by category, see `_text_levels`.
    """

    skill: str
    part: str
    values: NDArray[np.float64]
    rows: NDArray[np.intp]
    chance: float
    text_levels: Levels


def skill_profile(
    predictions: Sequence[Predictions],
    *,
    ties: str | None = None,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> SkillProfile:
    """Compute the accuracy by skill from the predictions of one model.

    Args:
        predictions: of one model, one for each task.
        ties: the tie policy; by default each metric's paper decides.
        confidence, resamples, seed: of the intervals, see `cluster_bootstrap`.

    Raises:
        PredictionsError: several models, or two files for one task.
    """
    models = {file.model for file in predictions}
    if len(models) != 1:
        raise PredictionsError(f"a skill profile is of one model; these are of {', '.join(sorted(models)) or 'none'}")
    tasks = Counter(f"{file.benchmark}/{file.task}" for file in predictions)
    if twice := [name for name, count in tasks.items() if count > 1]:
        raise PredictionsError(f"more than one file of predictions for {', '.join(twice)}; give one for each task")
    rows: list[Row] = []
    scored: list[_Scored] = []
    left_out: Counter[str] = Counter()
    for file in predictions:
        if (whole := _whole_of(file)) in tasks:
            left_out[f"{file.benchmark}/{file.task}: counted in {whole}"] += len(file.rows)
            continue
        task_scores = _of_task(file, len(rows), ties, left_out)
        scored += task_scores
        # Two benchmarks may use the same names for configurations and crops.
        rows += [replace(row, config=f"{file.benchmark}/{row.config}") for row in file.rows]
    clusters = np.array(cluster_numbers(rows), dtype=np.intp)
    scores = []
    duplicates: Counter[tuple[str, str]] = Counter()
    for skill in SKILLS:
        skill_scores = _without_duplicates([score for score in scored if score.skill == skill], rows, duplicates)
        if skill_scores:
            scores.append(_score(skill, skill_scores, rows, clusters, confidence, resamples, seed))
    return SkillProfile(models.pop(), tuple(scores), dict(left_out), dict(duplicates))


def read_skill_profile(files: Iterable[Path], **options: Any) -> SkillProfile:
    """Compute the profile of files of predictions, see `skill_profile`."""
    return skill_profile([read_predictions(path) for path in files], **options)


def profile_parts(profile: SkillProfile) -> list[Part]:
    """Return a profile as a document: the verdict, the table, and the rows that count in no skill."""
    table = simple_table(
        ("skill", "above chance", "interval", "text alone", "right", "examples", "tasks"),
        [
            (
                score.skill,
                percent(score.corrected),
                " to ".join(percent(bound) for bound in score.interval),
                percent(score.text_alone),
                percent(score.accuracy),
                f"{score.examples:,}",
                ", ".join(score.parts),
            )
            for score in profile.scores
        ],
        title=f"Skills of {profile.model}",
        note="Above chance: (accuracy - chance) / (1 - chance) in per cent, averaged over tasks; 0 is chance, 100 "
        "perfect. Text alone: the same of the best known rule or probe that sees no image, at least. Right: per cent "
        "of all examples. Intervals resample images.",
    )
    return [Verdict(verdict(profile)), *([table] if profile.scores else []), *notes(profile)]


def notes(profile: SkillProfile) -> list[str]:
    """Return a line for each reason why rows are in no skill, and for each benchmark that repeats rows of another."""
    left_out = [f"in no skill: {count:,} rows of {reason}" for reason, count in profile.left_out.items()]
    return left_out + [
        f"counted once: {count:,} rows of {part} have the image and the caption of rows of {home}"
        for (part, home), count in profile.duplicates.items()
    ]


def verdict(profile: SkillProfile) -> str:
    """Return a sentence on the strongest and the weakest skill, and on skills that text-only scorers reach too."""
    if not profile.scores:
        return "No example of these predictions tests a skill that its benchmark declares."
    weakest, *_, strongest = sorted([*profile.scores, profile.scores[0]], key=lambda score: score.corrected)
    blind = [score.skill for score in profile.scores if not score.beats_text]
    below = f" It is not better than text alone in {', '.join(blind)}." if blind else ""
    if weakest.interval[1] >= strongest.interval[0]:
        return f"No skill of {profile.model} stands out: the intervals of the strongest and the weakest overlap.{below}"
    low, high = (
        f"{score.skill} ({percent(score.corrected)} above chance"
        + (")" if score.text_alone is None else f", text alone {percent(score.text_alone)})")
        for score in (weakest, strongest)
    )
    return f"{profile.model} is strongest in {high} and weakest in {low}; their intervals do not overlap.{below}"


def _whole_of(predictions: Predictions) -> str | None:
    """Return the task of which these predictions are a part, such as sugarcrepe/itm for sugarcrepe/v2; else None."""
    if predictions.benchmark not in benchmark_names():
        return None
    whole = get_task(predictions.benchmark, predictions.task).part_of
    return f"{predictions.benchmark}/{whole}" if whole else None


def _of_task(predictions: Predictions, start: int, ties: str | None, left_out: Counter[str]) -> list[_Scored]:
    """Return the examples of a task by skill, with row indices from `start`; count the other examples in `left_out`."""
    part = f"{predictions.benchmark}/{predictions.task}"
    if predictions.benchmark not in benchmark_names():
        left_out[f"{part}: no benchmark of that name declares its skills"] += len(predictions.rows)
        return []
    task = get_task(predictions.benchmark, predictions.task)
    metric, settings = next(iter(declared_metrics(predictions).items()))
    usable = {id(row) for row in scored_rows(predictions.rows)}
    places: dict[str, list[int]] = {}
    for number, row in enumerate(predictions.rows):
        skill = task.skill_of(row.category)
        if skill is None:
            left_out[f"{part}: no skill declared for {row.category}"] += 1
        elif id(row) not in usable:
            left_out[f"{part}: image missing"] += 1
        else:
            places.setdefault(skill, []).append(number)
    scored = []
    for skill, row_numbers in places.items():
        examples = examples_of([predictions.rows[number] for number in row_numbers], metric, settings, ties=ties)
        spec = get_spec(metric)
        name = spec.main_score if spec.main_score in examples.values else next(iter(examples.values), None)
        chance = None if name is None else examples.chance.get(name, getattr(spec.score(name), "chance", None))
        if name is None or chance is None:
            left_out[f"{part}: {metric} has no chance level of single examples"] += len(row_numbers)
            continue
        for reason in examples.left_out.values():
            left_out[f"{part}: {reason}"] += 1
        counts = ~np.isnan(examples.values[name])
        if counts.any():
            rows = start + np.array(row_numbers, dtype=np.intp)[examples.rows[counts]]
            levels = _text_levels(predictions, metric, name)
            scored.append(_Scored(skill, part, examples.values[name][counts], rows, float(chance), levels))
    return scored


def _text_levels(predictions: Predictions, metric: str, score: str) -> Levels:
    """Return the blind levels by category that come with the package, else those in the predictions' metadata."""
    about = predictions.metadata["benchmark"]
    known = known_levels(predictions.benchmark, predictions.task, about.get("options") or {})
    # A file's metadata may be of anybody.
    levels: Any = known or about.get("blind")
    for key in (metric, "per_category"):
        levels = levels.get(key) if isinstance(levels, dict) else None
    parts = levels.items() if isinstance(levels, dict) else ()
    levels_by_category = {
        name: category_levels.get(score) for name, category_levels in parts if isinstance(category_levels, dict)
    }
    return {
        name: value for name, value in levels_by_category.items() if isinstance(value, int | float) and 0 <= value <= 1
    }


def _without_duplicates(
    own: Sequence[_Scored], rows: Sequence[Row], duplicates: Counter[tuple[str, str]]
) -> list[_Scored]:
    """Drop and count the examples of one skill whose image and caption are in an earlier benchmark."""
    first: dict[tuple[str, str], str] = {}
    kept_scores = []
    for scored in own:
        benchmark = scored.part.partition("/")[0]
        keys = [(rows[row].images[0], rows[row].caption_key) for row in scored.rows.tolist()]
        homes = [first.setdefault(key, scored.part) for key in keys]
        kept = np.array([home.partition("/")[0] == benchmark for home in homes])
        duplicates.update((scored.part, home) for home in np.array(homes)[~kept].tolist())
        if kept.any():
            kept_scores.append(replace(scored, values=scored.values[kept], rows=scored.rows[kept]))
    return kept_scores


def _text_alone(own: Sequence[_Scored], rows: Sequence[Row]) -> float | None:
    """Return the blind level above chance, averaged over the tasks; a task without one counts as chance."""
    if not any(scored.text_levels for scored in own):
        return None
    reached = []
    for scored in own:
        counts = Counter(rows[row].category for row in scored.rows.tolist())
        mean = sum(count * scored.text_levels.get(name, scored.chance) for name, count in counts.items()) / len(
            scored.rows
        )
        reached.append((mean - scored.chance) / (1 - scored.chance))
    return float(np.mean(reached))


def _score(
    skill: str,
    own: Sequence[_Scored],
    rows: Sequence[Row],
    clusters: NDArray[np.intp],
    confidence: float,
    resamples: int,
    seed: int,
) -> SkillScore:
    values = np.concatenate([scored.values for scored in own])
    cluster = clusters[np.concatenate([scored.rows for scored in own])]
    task = np.repeat(np.arange(len(own)), [len(scored.values) for scored in own])
    chance = np.array([scored.chance for scored in own])
    belongs = np.eye(len(own))[task]

    def corrected(accuracy: Any) -> Any:
        return np.nanmean((accuracy - chance) / (1 - chance), axis=-1)

    accuracy = np.array([scored.values.mean() for scored in own])
    totals = resampled_totals(np.hstack([belongs * values[:, None], belongs]), cluster, resamples, seed)
    with np.errstate(invalid="ignore"):
        resampled = totals[:, : len(own)] / totals[:, len(own) :]  # NaN where a resample lacks the task
    low, high = percentile_interval(corrected(resampled), confidence, cluster)
    if np.ptp(values) == 0:  # all right or all wrong: resamples cannot spread
        unseen = np.array([unseen_share(len(np.unique(cluster[task == number])), confidence) for number in set(task)])
        low, high = float(corrected((1 - unseen) * accuracy)), float(corrected((1 - unseen) * accuracy + unseen))
    return SkillScore(
        skill,
        tuple(scored.part for scored in own),
        float(values.sum()),
        len(values),
        float(corrected(accuracy)),
        (low, high),
        _text_alone(own, rows),
    )
