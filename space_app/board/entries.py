"""The entries of the leaderboard: one score of one model from one source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from ...hub_datasets.core.benchmarks import benchmark_names, get_builder, get_card, get_task
from ...metrics.common.errors import UnknownNameError, VLAssayError
from ...metrics.common.formatting import words
from ...metrics.common.model_sizes import parameter_count
from ...metrics.modules.discovery import get_spec
from ...metrics.records.results import Result
from ...metrics.records.schema import MatchingRow
from ...metrics.results.compute import examples_of

if TYPE_CHECKING:
    from ...metrics.estimation.spec import MetricSpec, ScoreSpec

RECOMPUTED, PUBLISHED, REFERENCE = ORIGINS = ("recomputed", "published", "reference")
CHANCE = "Chance"
# The category of an entry that averages the categories which test one skill begins with this.
SKILL = "skill: "


class BoardColumn(NamedTuple):
    """A score of the leaderboard, over a whole task or, if `category` is not empty, over one category."""

    benchmark: str
    task: str
    metric: str
    score: str
    category: str = ""

    @property
    def heading(self) -> str:
        """A readable name, such as "SugarCrepe itm · macro accuracy"; an arrow follows if lower is better."""
        names = [f"{benchmark_title(self.benchmark)} {words(self.task)}".strip(), self.score_name, words(self.category)]
        return " · ".join(filter(None, names)) + ("" if self.is_higher_better else " ↓")

    @property
    def score_name(self) -> str:
        """The score in words, after the metric's label if it has one, such as "CPD AP"."""
        return _score_name(self.metric, self.score)

    @property
    def whole(self) -> BoardColumn:
        """The score over all examples that corresponds to this macro average or category."""
        return self._replace(score=self.score.removeprefix("macro_"), category="")

    @property
    def meaning(self) -> str:
        """The definition of the score in one line; empty if no metric here computes it."""
        spec = _score_spec(self.metric, self.score)
        text = spec.meaning if spec else ""
        is_macro = spec is not None and self.score.startswith("macro_") and not spec.is_of(self.score)
        return f"Mean over categories: {text[:1].lower()}{text[1:]}" if is_macro and text else text

    @property
    def chance(self) -> float | None:
        """The score of random predictions, by the metric's or the task's declaration; None if it depends on the row."""
        spec = _score_spec(self.metric, self.score)
        if spec is None or spec.chance is not None:
            return spec and spec.chance
        levels = _chance_of_task(self.benchmark, self.task, self.metric)
        return levels.get(self.score, levels.get(self.whole.score))

    @property
    def is_higher_better(self) -> bool:
        """True if a higher value is better; also for papers' columns that no metric here computes."""
        spec = _score_spec(self.metric, self.score)
        return spec is None or spec.higher_is_better

    @property
    def task_type(self) -> str:
        """The task type of the metric, such as "matching"; empty if no metric here computes the column."""
        spec = _spec(self.metric)
        return spec.task_type if spec else ""


@dataclass(frozen=True, kw_only=True)
class BoardEntry:
    """A score of a model and its source.

    Args:
        model, family: names; the family is empty if not known.
        parameters: their number, None if not known.
        training_data: a short description, empty if not known.
        benchmark, task, metric, score: what was measured; ``macro_<score>`` is the unweighted mean over categories.
        category: the part of the task that was measured, empty for all of it.
        value: the score, a fraction in [0, 1].
        interval: its confidence interval (low, high), if known.
        n: number of examples, None if not known.
        origin: one of `ORIGINS`: computed here from predictions, published in a paper, or neither (people, chance).
        source: paper, table, row and column; or the id of the submission.
        status: of the submission; ``"published"`` for values of papers.
        predictions: SHA-256 of the predictions file, empty without one.
        is_baseline: whether the model is a baseline: it reads no image, or is a mock.
    """

    model: str
    family: str = ""
    parameters: int | None = None
    training_data: str = ""
    benchmark: str
    task: str
    metric: str
    score: str
    category: str = ""
    value: float
    interval: tuple[float, float] | None = None
    n: int | None = None
    origin: str
    source: str
    status: str = ""
    predictions: str = ""
    is_baseline: bool = False

    @property
    def column(self) -> BoardColumn:
        """The column that the entry belongs to."""
        return BoardColumn(self.benchmark, self.task, self.metric, self.score, self.category)

    @property
    def bounds(self) -> tuple[float, float]:
        """The confidence interval; without one the value twice."""
        return self.interval or (self.value, self.value)

    @property
    def is_reference(self) -> bool:
        """True if the entry is shown only for comparison: people, chance, or a baseline."""
        return self.origin == REFERENCE or self.is_baseline


def of_results(
    results: Iterable[Result],
    *,
    model: Mapping[str, Any] | None = None,
    source: str = "",
) -> list[BoardEntry]:
    """Make the entries of recomputed results: each score of tables over all, as macro average and by category.

    Predictions of some of a task's configurations have entries by category only: no benchmark here has a category in
    two configurations, but the averages are over all.

    Args:
        results: the results of one model; the results of a file begin with the task that its metadata name.
        model: what its submitter typed: ``name``, ``family``, ``parameters`` and ``training_data``; empty or missing
            fields are taken from the predictions file.
        source: the id of the submission, which is accepted.

    Returns:
        In the order of the results, without values that are missing or not finite, such as the macro average if all
        categories are rare.
    """
    typed = {key: value for key, value in (model or {}).items() if value}
    entries: list[BoardEntry] = []
    is_whole_file: dict[str, bool] = {}
    for result in results:
        fields = {**result.model, **typed}
        is_whole = is_whole_file.setdefault(result.predictions["sha256"], _is_whole(result))
        entries += [
            BoardEntry(
                model=str(fields["name"]),
                family=str(fields.get("family") or ""),
                parameters=parameter_count(fields.get("parameters")),
                training_data=str(fields.get("training_data") or ""),
                **place(result),
                **values,
                origin=RECOMPUTED,
                source=source,
                status="accepted",
                predictions=result.predictions["sha256"],
                is_baseline=result.model.get("is_baseline") is True,
            )
            for values in _values(result)
            if is_whole or values["category"]
        ]
    return entries


def chance_levels(results: Iterable[Result]) -> list[BoardEntry]:
    """Return reference entries with the chance level of each score over all examples, each score once."""
    levels: dict[BoardColumn, BoardEntry] = {}
    for result in results:
        for score in result.table_scores:
            if score in result.chance and _is_whole(result):
                known: dict[str, Any] = {**place(result), "score": score, "value": result.chance[score]}
                entry = BoardEntry(model=CHANCE, origin=REFERENCE, source="expected value of random scores", **known)
                levels.setdefault(entry.column, entry)
    return [*levels.values()]


@cache
def _chance_of_task(benchmark: str, name: str, metric: str) -> Mapping[str, float]:
    """Return the chance levels by score of a task of matching whose rows all have one caption per caption column."""
    with suppress(VLAssayError):  # no task of this package, or a metric that needs the category of a row
        task = get_task(benchmark, name)
        with TemporaryDirectory(prefix="vl-assay-") as folder:
            features = get_builder(benchmark)(cache_dir=folder, config_name=task.configs[0]).info.features
        if task.task_type == "matching" and all(getattr(features[column], "dtype", "") for column in task.captions):
            images = [f"image {number}" for number in range(len(task.images))]
            scores = [[0.0] * len(task.captions) for _ in images]
            row = MatchingRow("any", task.configs[0], task.configs[0], images, [*range(len(images))], scores)
            return examples_of([row], metric, task.metrics[metric]).chance
    return {}


def skill_means(entries: Iterable[BoardEntry]) -> list[BoardEntry]:
    """Return a model's mean over the categories of a task that test the same skill, if there are several.

    The category of such an entry is `SKILL` and the skill. It has no interval, and exists for models with a value in
    each of these categories.
    """
    groups: dict[tuple[str, str, BoardColumn], list[BoardEntry]] = {}
    for entry in entries:
        if entry.category and entry.benchmark in benchmark_names() and entry.metric:
            with suppress(UnknownNameError):
                if skill := get_task(entry.benchmark, entry.task).skill_of(entry.category):
                    column = entry.column._replace(category=SKILL + skill)
                    groups.setdefault((entry.model, entry.origin, column), []).append(entry)
    means = []
    for (_, _, column), group in groups.items():
        values = {entry.category: entry for entry in reversed(group)}  # the first of a category counts
        categories = categories_of_skill(column)
        if {*values} == {*categories} and len(values) > 1:
            value = sum(entry.value for entry in values.values()) / len(values)
            counts = [entry.n for entry in values.values()]
            n = None if None in counts else sum(filter(None, counts))
            parts = " and ".join(map(words, categories))
            sources = "; ".join(dict.fromkeys(values[category].source for category in categories))
            facts = {"category": column.category, "source": f"mean of {parts}, from {sources}"}
            means.append(replace(group[0], **facts, value=value, interval=None, n=n, predictions=""))
    return means


def categories_of_skill(column: BoardColumn) -> list[str]:
    """Return the categories that are averaged in a column whose category begins with `SKILL`."""
    skills = get_task(column.benchmark, column.task).skills
    skill = column.category.removeprefix(SKILL)
    return [category for category, tested in skills.items() if tested == skill] if isinstance(skills, Mapping) else []


def _is_whole(result: Result) -> bool:
    """Return whether a result covers all configurations of its task."""
    benchmark, task, configs = (result.benchmark.get(key) for key in ("name", "task", "configs"))
    return configs is None or list(configs) == list(get_task(str(benchmark), str(task)).configs)


def place(result: Result) -> dict[str, Any]:
    """Return the benchmark, task and metric of a result, by these names."""
    return {"benchmark": result.benchmark["name"], "task": result.benchmark["task"], "metric": result.metric}


def _values(result: Result) -> Iterator[dict[str, Any]]:
    """Yield score, category, value, interval and n of each finite value in a result, macro averages included."""
    categories, n = result.scores.get("per_category", {}), result.scores["n"]
    in_macro = sum(table["n"] for name, table in categories.items() if name not in result.rare)
    parts = [("", result.scores, "", n), ("macro_", result.scores, "", min(n, in_macro) if result.rare else n)]
    parts += [("", table, name, table["n"]) for name, table in categories.items()]
    for prefix, table, category, counted in parts:
        for score in result.table_scores:
            value, interval = table.get(prefix + score), table.get(f"{prefix}{score}_interval")
            if isinstance(value, int | float) and math.isfinite(value):
                bounds = interval and (interval[0], interval[1])
                fields = {"score": prefix + score, "category": category, "value": value}
                yield fields | {"interval": bounds, "n": counted}


@cache
def _score_name(metric: str, score: str) -> str:
    """Return the score in words, after the metric's label if it has one."""
    spec = _spec(metric)
    text = re.sub(r"\b(ap\d*|f1)\b", lambda match: match[0].upper(), words(score)).replace(" at ", "@")
    return f"{spec.label if spec else ''} {text}".strip()


@cache
def _score_spec(metric: str, score: str) -> ScoreSpec | None:
    spec = _spec(metric)
    return spec.score(score) if spec else None


@cache
def _spec(metric: str) -> MetricSpec | None:
    with suppress(UnknownNameError):
        return get_spec(metric)
    return None


@cache
def benchmark_title(benchmark: str) -> str:
    """Return the title of the benchmark's card if that is short, else the benchmark's name."""
    title = card_title(benchmark) if benchmark in benchmark_names() else benchmark
    return title if len(title) <= 20 or title == benchmark else words(benchmark).capitalize()


def card_title(benchmark: str) -> str:
    """Return the title of a benchmark's card."""
    [title] = re.findall(r"^pretty_name: (.+)$", get_card(benchmark), re.MULTILINE)
    return title
