"""The long table of results: a row for each score, over all examples, as macro average or of a category.

Reports, overviews, plots and pages are views of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..common.formatting import distinct_labels, distinguished, interval, percent, words
from ..records.results import Result

ALL, MICRO, MACRO = "all", "micro average", "macro average"
CATEGORIES = "per_category"
# How a tie counts, by policy and direction of the score.
_TIES = {
    ("wrong", True): "A tie counts as wrong",
    ("half", True): "A tie counts with its chance of being right (half)",
    ("right", True): "A tie counts as right",
    ("wrong", False): "A tie counts against the model (wrong): it adds to {score}",
    ("half", False): "A tie adds to {score} with its chance (half)",
    ("right", False): "A tie counts for the model (right): it adds nothing to {score}",
}


@dataclass(frozen=True)
class ScoreRow:
    """A score of a result in one category or average.

    Args:
        result: the result.
        model, variant: the labels of its model and, among results of the model, of its data; see `variants`.
        score: the score.
        category: a category, or `ALL`, `MICRO` or `MACRO`.
        value, interval, tie_rate: fractions; None if unknown.
        n: the number of examples.
        blind: the best score of a rule, a probe or a model without images, a fraction; None if unknown.
    """

    result: Result
    model: str
    variant: str
    score: str
    category: str
    value: float | None
    interval: tuple[float, float] | None
    tie_rate: float | None
    n: int
    blind: float | None
    is_average: bool

    @property
    def label(self) -> str:
        """The model, with the variant in brackets."""
        return f"{self.model} ({self.variant})" if self.variant else self.model

    @property
    def higher_is_better(self) -> bool:
        """Return whether the better model has the higher value."""
        return self.result.higher_is_better[self.score]

    @property
    def is_main(self) -> bool:
        """Return whether the score is the metric's main score."""
        return self.score == self.result.main_score

    @property
    def chance(self) -> float | None:
        """The score of random predictions, a fraction; None if unknown."""
        return self.result.chance.get(self.score)

    @property
    def blind_text(self) -> str:
        """The blind level as a percentage; ≥ (or ≤) precedes it if only rules and no learned probes were tried."""
        if not (text := percent_cell(self.blind)) or self.result.blind.get("kind") in ("probe", "exact"):
            return text
        return f"{'≥' if self.higher_is_better else '≤'} {text}"

    def record(self) -> dict[str, Any]:
        """Return the row as a record for data frames."""
        low, high = self.interval or (None, None)
        benchmark, task = task_of(self.result)
        record = {"model": self.model, "variant": self.variant, "benchmark": benchmark, "task": task}
        record |= {"metric": self.result.metric, "score": self.score, "category": self.category, "value": self.value}
        names = ("tie_rate", "n", "chance", "blind", "higher_is_better")
        return {**record, "low": low, "high": high, **{name: getattr(self, name) for name in names}}


def long_table(results: Sequence[Result]) -> list[ScoreRow]:
    """Return the rows of all results in their order; see `score_rows`."""
    labelled = zip(results, model_labels(results), variants(results), strict=True)
    return [row for result, model, variant in labelled for row in score_rows(result, results, model, variant)]


def by_result(rows: Iterable[ScoreRow]) -> list[list[ScoreRow]]:
    """Split the rows of a long table by result."""
    return [list(group) for _, group in groupby(rows, key=lambda row: id(row.result))]


def by_category(rows: Iterable[ScoreRow]) -> dict[str, dict[str, ScoreRow]]:
    """Return the rows of one result by category, or average, and score."""
    table: dict[str, dict[str, ScoreRow]] = {}
    for row in rows:
        table.setdefault(row.category, {})[row.score] = row
    return table


def overall(rows: Iterable[ScoreRow]) -> dict[str, ScoreRow]:
    """Return the rows over all examples of one result, by score."""
    table = list(by_category(rows).values())
    return next((row for row in table if next(iter(row.values())).is_average), table[0])


def score_rows(
    result: Result, others: Sequence[Result] = (), model: str | None = None, variant: str = ""
) -> list[ScoreRow]:
    """Return the rows of a result: its categories in the metric's order, then the micro and the macro average.

    A single category has no averages, unless the macro average is over something else, such as classes. The macro
    average's `n` counts the examples of the categories that it averages, which leave out rare ones.

    Args:
        result: the scores of one model by one metric.
        others: results to search for blind models on the same data.
        model, variant: labels; by default the model's name.
    """
    blind_scores = _blind_scores(result, others)
    macros = {score: f"macro_{score}" for score in result.table_scores if f"macro_{score}" in result.scores}
    categories = list(result.scores.get(CATEGORIES, {}))

    def rows(name: str, category: str = "", prefix: str = "", n: int | None = None) -> list[ScoreRow]:
        scores = _of_category(result.scores, category)
        return [
            ScoreRow(
                result=result,
                model=model or result.model["name"],
                variant=variant,
                score=score,
                category=name,
                value=scores.get(prefix + score),
                interval=_bounds(scores.get(f"{prefix}{score}_interval")),
                tie_rate=None if prefix else scores.get("tie_rate"),
                n=scores["n"] if n is None else n,
                blind=best(
                    [_of_category(level, category).get(prefix + score) for level in blind_scores],
                    result.higher_is_better[score],
                ),
                is_average=not category,
            )
            for score in result.table_scores
        ]

    averages = [*rows(MICRO), *(rows(MACRO, prefix="macro_", n=macro_count(result)) if macros else [])]
    if len(categories) > 1:
        return [*(row for name in categories for row in rows(name, name)), *averages]
    if not result.rare and any(result.scores[macro] != result.scores[score] for score, macro in macros.items()):
        return averages  # over the classes of zero-shot classification
    return rows(categories[0], categories[0]) if categories else rows(ALL)


def labels(results: Sequence[Result]) -> list[str]:
    """Return a label for each result: its model, followed by its variant in brackets."""
    labelled = zip(model_labels(results), variants(results), strict=True)
    return [f"{model} ({variant})" if variant else model for model, variant in labelled]


def model_labels(results: Sequence[Result]) -> list[str]:
    """Return a label for the model of each result: its name, with what distinguishes models of the same name."""
    models = {_key(result.model): result.model for result in results}
    label_of = dict(zip(models, distinct_labels(list(models.values())), strict=True))
    return [label_of[_key(result.model)] for result in results]


def variants(results: Sequence[Result]) -> list[str]:
    """Return a label, such as "seed 1", that distinguishes results of one model, task and metric; mostly empty.

    Labels name the configurations and the options of the data, or the files if these are equal.
    """
    texts = [""] * len(results)
    groups: dict[str, list[int]] = {}
    for index, result in enumerate(results):
        groups.setdefault(_key([result.model, *task_of(result), result.metric]), []).append(index)
    for indices in groups.values():
        facts = [data_facts(results[index].benchmark) for index in indices]
        if all(fact == facts[0] for fact in facts):
            facts = [{"file": results[index].predictions["file"]} for index in indices]
        for index, text in zip(indices, distinguished(facts), strict=True):
            texts[index] = text
    return texts


def data_facts(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts in which data of one task may differ: their configurations and options."""
    options, configs = benchmark.get("options"), benchmark.get("configs")
    facts = {"configs": "+".join(map(str, configs)) if isinstance(configs, list) else ""}
    return facts | (options if isinstance(options, dict) else {})


def task_of(result: Result) -> tuple[str, str]:
    """Return the benchmark and the task of a result."""
    return result.benchmark["name"], result.benchmark["task"]


def title(result: Result, label: str | None = None) -> str:
    """Return the model, the task and the metric of a result as text; `label` replaces the model's name."""
    benchmark, task = task_of(result)
    return f"{label or result.model['name']} on {benchmark} ({task}): {result.metric}"


def percent_cell(value: float | None) -> str:
    """Format a fraction for a table; empty for None."""
    return "" if value is None else f"{percent(value)} %"


def interval_cell(bounds: Sequence[float] | None) -> str:
    """Format an interval of fractions for a table; empty for None."""
    return "" if bounds is None else interval(bounds)


def tie_sentence(result: Result) -> str:
    """Return a sentence on how ties were counted; empty for metrics without ties."""
    policy = result.options.get("ties")
    if policy is None:
        return ""
    text = _TIES.get((policy, result.higher_is_better[result.main_score]), "Ties are decided by the policy {policy!r}")
    return text.format(score=words(result.main_score), policy=policy) + "."


def partial_sentence(benchmarks: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence if predictions, by their metadata, cover a part of their task; else an empty text."""
    limited = {benchmark["rows"] for benchmark in benchmarks if benchmark.get("limit")}
    most = "at most " * (len(limited) > 1)
    return f"Partial: {most}{max(limited):,} examples of the task only (--limit)." if limited else ""


def macro_count(result: Result) -> int:
    """Return the number of examples that the macro averages cover; with overlapping categories at most all."""
    n, categories = result.scores["n"], result.scores.get(CATEGORIES, {})
    averaged = sum(scores["n"] for name, scores in categories.items() if name not in result.rare)
    return min(n, averaged) if result.rare else n


def best(values: Iterable[Any], is_higher_better: bool) -> float | None:
    """Return the best of some fractions; None if none is known."""
    known = [value for value in values if isinstance(value, int | float) and 0 <= value <= 1]
    return (max if is_higher_better else min)(known) if known else None


def _blind_scores(result: Result, others: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the scores of scorers and models that see no image, on the same examples, as metrics return them."""
    models = [
        candidate.scores
        for candidate in others
        if candidate is not result
        and candidate.model.get("is_baseline") is True
        and candidate.model.get("sees_images") is False
        and candidate.metric == result.metric
        and candidate.options.get("ties") == result.options.get("ties")
        and task_of(candidate) == task_of(result)
        and candidate.benchmark.get("fingerprint") == result.benchmark.get("fingerprint")
    ]
    return [result.blind, *models]


def _of_category(scores: Mapping[str, Any], category: str) -> Mapping[str, Any]:
    """Return the scores of a category, or of all examples; blind levels are read from files and may be malformed."""
    if not category:
        return scores
    categories = scores.get(CATEGORIES)
    of_category = categories.get(category) if isinstance(categories, dict) else None
    return of_category if isinstance(of_category, dict) else {}


def _bounds(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
