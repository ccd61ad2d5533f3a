"""What the tables of results show: scores by category with their averages, and how they were computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..common import documents
from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import MISSING, distinct_labels, interval, percent, words
from ..records.results import Result
from ._details import interval_cell, part_tables, percent_cell

_ALL, _MICRO, _MACRO = "all", "micro average", "macro average"
BLIND = "blind"
_FEW_NAMES = 3


@dataclass(frozen=True)
class Score:
    """A score, its interval, and the level that is reached without seeing images; fractions, None where not known."""

    value: float | None
    interval: tuple[float, float] | None
    blind: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of a table: scores by name, fractions in [0, 1], over `n` examples."""

    name: str
    scores: dict[str, Score]
    tie_rate: float | None
    n: int
    is_average: bool = False


def lines(result: Result, others: Sequence[Result] = ()) -> list[Line]:
    """The lines of a result: its categories in the metric's order, then the micro and the macro average.

    A set of one category has that line alone. The macro average's `n` counts the examples that it goes over: those of
    the categories that are not rare.

    Args:
        result: the scores of one model by one metric.
        others: results among which may be those of blind models on the same data: levels to compare with.
    """
    scores = result.scores
    levels = _blind_levels(result, others)

    def line(name: str, place: str, prefix: str = "", n: int | None = None, is_average: bool = True) -> Line:
        part = _part(scores, place)
        values = {
            score: Score(
                part.get(prefix + score),
                _pair(part.get(f"{prefix}{score}_interval")),
                _best([_part(each, place).get(prefix + score) for each in levels], result.higher_is_better[score]),
            )
            for score in result.table_scores
        }
        return Line(name, values, None if prefix else part.get("tie_rate"), part["n"] if n is None else n, is_average)

    categories = [line(name, name, is_average=False) for name in scores.get("per_category", {})]
    if len(categories) == 1:
        return categories
    if not categories:
        return [line(_ALL, "")]
    averages = [line(_MICRO, "")]
    if any(f"macro_{score}" in scores for score in result.table_scores):
        averages.append(line(_MACRO, "", prefix="macro_", n=_macro_count(result)))
    return [*categories, *averages]


def whole(every: Sequence[Line]) -> Line:
    """Of the lines of a result the one over all examples."""
    return next((line for line in every if line.is_average), every[0])


def labels(results: Sequence[Result]) -> list[str]:
    """What to call each result: its model, and what distinguishes it from others of this model, task and metric.

    A variant is named by the configurations and the options of the data, such as a seed, and else by its file.
    """
    return [
        f"{model} ({variant})" if variant else model
        for model, variant in zip(model_labels(results), variants(results), strict=True)
    ]


def model_labels(results: Sequence[Result]) -> list[str]:
    """What to call the model of each result: its name, and where several share one what distinguishes them."""
    models = {_key(result.model): result.model for result in results}
    found = dict(zip(models, distinct_labels(list(models.values())), strict=True))
    return [found[_key(result.model)] for result in results]


def variants(results: Sequence[Result]) -> list[str]:
    """What distinguishes each result from others of the same model, task and metric, such as "seed 1"; mostly empty."""
    found = [""] * len(results)
    groups: dict[str, list[int]] = {}
    for number, result in enumerate(results):
        groups.setdefault(_key([result.model, *_where(result), result.metric]), []).append(number)
    for numbers in groups.values():
        for number, variant in zip(numbers, _distinguished([results[n] for n in numbers]), strict=True):
            found[number] = variant
    return found


def title(result: Result, label: str | None = None) -> str:
    """What a result is about, in a line; the label of its model is its name by default."""
    return f"{subject(result, label)}: {result.metric}"


def subject(result: Result, label: str | None = None) -> str:
    """The model and the task of a result, in words; the label of its model is its name by default."""
    benchmark, task = _where(result)
    return f"{label or result.model['name']} on {benchmark} ({task})"


def summary_line(result: Result, label: str | None = None, others: Sequence[Result] = ()) -> str:
    """A result in one line: what it is about, and its main score with interval, n, chance and blind level."""
    over_all = whole(lines(result, others))
    score = over_all.scores[result.main_score]
    bounds = f" [{interval(score.interval)}]" if score.interval else ""
    text = f"{title(result, label)}: {words(result.main_score)} {percent_cell(score.value) or MISSING}{bounds}"
    text += f", n {over_all.n:,}"
    levels = {"chance": result.chance.get(result.main_score), "blind": score.blind}
    return text + "".join(f", {name} {percent_cell(level)}" for name, level in levels.items() if level is not None)


def tie_sentence(result: Result) -> str:
    """What a tie counts in a result, in a sentence; empty where nothing can be tied."""
    policy = result.options.get("ties")
    if policy is None:
        return ""
    score = words(result.main_score)
    said = {
        True: {
            "wrong": "A tie counts as wrong",
            "half": "A tie counts with its chance of being right (half)",
            "right": "A tie counts as right",
        },
        False: {
            "wrong": f"A tie counts against the model (wrong): it adds to {score}",
            "half": f"A tie adds to {score} with its chance (half)",
            "right": f"A tie counts for the model (right): it adds nothing to {score}",
        },
    }[result.higher_is_better[result.main_score]]
    return said.get(policy, f"Ties are decided by the policy {policy!r}") + "."


def footnote(result: Result, others: Sequence[Result] = ()) -> str:
    """How the numbers were made, what to compare them with and what is not in them."""
    return " ".join(sentence for sentence in _sentences(result, lines(result, others)) if sentence)


def tables_of(results: Sequence[Result]) -> list[Table]:
    """The tables of some results: for each its scores by category, then what else its metric gives."""
    found = []
    for result, label in zip(results, labels(results), strict=True):
        note = footnote(result, results)
        found.append(score_table(title(result, label), lines(result, results), note))
        found += part_tables(result)
    return found


def score_table(heading: str, every: Sequence[Line], note: str = "") -> Table:
    """A table of lines: each score with its interval and, where some are known, blind levels; ties; n."""
    with_blind = {name for line in every for name, score in line.scores.items() if score.blind is not None}
    columns = [Column(words(name), (INTERVAL, *([BLIND] if name in with_blind else []))) for name in every[0].scores]
    rows = [
        TableRow(
            line.name,
            (
                *(_cell(score, name in with_blind) for name, score in line.scores.items()),
                Cell(percent_cell(line.tie_rate)),
                Cell(f"{line.n:,}"),
            ),
            line.is_average,
        )
        for line in every
    ]
    return Table(heading, (*columns, Column("ties", repeated=True), Column("n", repeated=True)), tuple(rows), note)


def to_markdown(results: Sequence[Result]) -> str:
    """The tables of some results as Markdown."""
    return documents.to_markdown(tables_of(results))


def _cell(score: Score, with_blind: bool) -> Cell:
    details = [interval_cell(score.interval)]
    return Cell(percent_cell(score.value), (*details, *([percent_cell(score.blind)] if with_blind else [])))


def _sentences(result: Result, every: Sequence[Line]) -> Iterable[str]:
    options = result.options
    yield tie_sentence(result)
    if options.get("confidence"):
        yield f"Intervals: {100 * options['confidence']:g} %, bootstrap over images."
    yield _chance_sentence(result)
    if any(score.blind is not None for line in every for score in line.scores.values()):
        yield "Blind: the best score of a rule or model that sees only the text."
    yield _macro_sentence(result)
    yield _subsample_sentence(result)
    for why, count in result.left_out.items():
        yield f"{count:,} examples are in no score: {why}."
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples lack their image and are in no score."
    truncated = result.run.get("truncated_captions", 0)
    if truncated:
        yield f"{truncated:,} captions were longer than the model reads and were cut."


def _chance_sentence(result: Result) -> str:
    levels = {name: result.chance[name] for name in result.table_scores if name in result.chance}
    if not levels:
        return ""
    if len(result.table_scores) == 1:
        return f"Chance: {percent_cell(*levels.values())}."
    return f"Chance: {', '.join(f'{words(name)} {percent_cell(level)}' for name, level in levels.items())}."


def _macro_sentence(result: Result) -> str:
    """What the macro average goes over, where that is not everything."""
    counts = _macro_counts(result)
    if not result.rare:
        return ""
    by_reason: dict[str, list[str]] = {}
    for name, why in result.rare.items():
        by_reason.setdefault(why, []).append(name)
    left_out = "; ".join(
        f"{', '.join(names) if len(names) <= _FEW_NAMES else f'{len(names):,} categories'} ({why})"
        for why, names in by_reason.items()
    )
    return (
        f"The macro average is over {len(counts):,} of {len(counts) + len(result.rare):,} categories, "
        f"{_macro_count(result):,} of {result.scores['n']:,} examples; not in it: {left_out}."
    )


def _subsample_sentence(result: Result) -> str:
    spread = {name: result.scores.get(f"{name}_subsample_std") for name in result.table_scores}
    shown = [f"{words(name)} ± {percent(value)}" for name, value in spread.items() if value is not None]
    return f"Standard deviation over 90 % subsets, in points: {', '.join(shown)}." if shown else ""


def _macro_counts(result: Result) -> dict[str, int]:
    """The number of examples of each category that the macro averages go over."""
    parts = result.scores.get("per_category", {})
    return {name: part["n"] for name, part in parts.items() if name not in result.rare}


def _macro_count(result: Result) -> int:
    """How many examples the macro averages go over; of categories that overlap at most all."""
    n = result.scores["n"]
    return min(n, sum(_macro_counts(result).values())) if result.rare else n


def _blind_levels(result: Result, others: Sequence[Result]) -> list[dict[str, Any]]:
    """Scores that are reached on the same examples without seeing images, each in the form of a metric's results."""
    models = [
        other.scores
        for other in others
        if other is not result
        and other.model.get("is_baseline") is True
        and other.model.get("sees_images") is False
        and other.metric == result.metric
        and other.options.get("ties") == result.options.get("ties")
        and _where(other) == _where(result)
        and other.benchmark.get("fingerprint") == result.benchmark.get("fingerprint")
    ]
    return [result.blind, *models]


def _part(scores: dict[str, Any], category: str) -> dict[str, Any]:
    """The scores of a category, or of all examples; blind levels come with the predictions and may be anything."""
    if not category:
        return scores
    parts = scores.get("per_category")
    part = parts.get(category) if isinstance(parts, dict) else None
    return part if isinstance(part, dict) else {}


def _best(values: Iterable[Any], is_higher_better: bool) -> float | None:
    known = [value for value in values if isinstance(value, int | float) and 0 <= value <= 1]
    return (max if is_higher_better else min)(known) if known else None


def _distinguished(group: Sequence[Result]) -> list[str]:
    """What distinguishes results of one model, task and metric: configurations and options, or else their files."""
    if len(group) == 1:
        return [""]
    facts: list[dict[str, Any]] = [
        {"configs": "+".join(map(str, result.benchmark.get("configs") or [])), **_options(result)} for result in group
    ]
    if all(each == facts[0] for each in facts):
        facts = [{"file": result.predictions["file"]} for result in group]
    keys = dict.fromkeys(key for each in facts for key in each)
    differ = [key for key in keys if any(each.get(key) != facts[0].get(key) for each in facts)]
    found = [", ".join(f"{key} {each[key]}" for key in differ if key in each) for each in facts]
    return [
        text if found.count(text) == 1 else f"{text} #{number}".strip() for number, text in enumerate(found, start=1)
    ]


def _options(result: Result) -> dict[str, Any]:
    """The options with which the benchmark's data were built."""
    options = result.benchmark.get("options")
    return options if isinstance(options, dict) else {}


def _where(result: Result) -> tuple[str, str]:
    return result.benchmark["name"], result.benchmark["task"]


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _pair(bounds: Any) -> tuple[float, float] | None:
    return None if bounds is None else (float(bounds[0]), float(bounds[1]))
