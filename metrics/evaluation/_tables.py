"""The tables of results: scores by category with their averages, what else a metric gives, and how it was computed.

What a metric gives besides its scores is recognised by its structure, not by its name: a mapping of labels to numbers,
such as shares or means, is a table; so is a mapping of labels to scores, such as the averages of groups of categories.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..common import documents
from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import MISSING, distinct_labels, distinguished, interval, percent, words
from ..records.results import Result

ALL, MICRO, MACRO = "all", "micro average", "macro average"
CATEGORIES = "per_category"
# Terminals and plots show tables by category for no more categories than this.
MOST_CATEGORIES = 6
_BLIND = "blind"
_FEW_NAMES = 3
_SUM_ROUNDING = 1e-9
# How a tie counts, by its policy and whether a higher score is better.
_TIES = {
    ("wrong", True): "A tie counts as wrong",
    ("half", True): "A tie counts with its chance of being right (half)",
    ("right", True): "A tie counts as right",
    ("wrong", False): "A tie counts against the model (wrong): it adds to {score}",
    ("half", False): "A tie adds to {score} with its chance (half)",
    ("right", False): "A tie counts for the model (right): it adds nothing to {score}",
}


@dataclass(frozen=True)
class Score:
    """A score, its interval, and what a model that sees no image reaches; fractions, None where unknown."""

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

    With a single category there is one line; or the averages, where the macro average is over something else, such as
    classes. The macro average's `n` counts the examples of the categories that it averages, which leave out rare ones.

    Args:
        result: the scores of one model by one metric.
        others: results among which may be those of blind models on the same data.
    """
    levels = _blind_levels(result, others)

    def line(name: str, category: str = "", prefix: str = "", n: int | None = None, is_average: bool = True) -> Line:
        part = _part(result.scores, category)
        scores = {}
        for score in result.table_scores:
            bounds = part.get(f"{prefix}{score}_interval")
            scores[score] = Score(
                part.get(prefix + score),
                None if bounds is None else (float(bounds[0]), float(bounds[1])),
                best([_part(each, category).get(prefix + score) for each in levels], result.higher_is_better[score]),
            )
        return Line(name, scores, None if prefix else part.get("tie_rate"), part["n"] if n is None else n, is_average)

    categories = [line(name, name, is_average=False) for name in result.scores.get(CATEGORIES, {})]
    macros = {score: f"macro_{score}" for score in result.table_scores if f"macro_{score}" in result.scores}
    averages = [line(MICRO)]
    if macros:
        averages.append(line(MACRO, prefix="macro_", n=_macro_count(result)))
    if len(categories) > 1:
        return [*categories, *averages]
    if not result.rare and any(result.scores[macro] != result.scores[score] for score, macro in macros.items()):
        return averages  # over the classes of zero-shot classification
    return categories or [line(ALL)]


def overall(every: Sequence[Line]) -> Line:
    """The line over all examples, among those of a result."""
    return next((line for line in every if line.is_average), every[0])


def labels(results: Sequence[Result]) -> list[str]:
    """A label for each result: its model, and in brackets what `variants` gives."""
    named = zip(model_labels(results), variants(results), strict=True)
    return [f"{model} ({variant})" if variant else model for model, variant in named]


def model_labels(results: Sequence[Result]) -> list[str]:
    """A label for the model of each result: its name, and where models share it what distinguishes them."""
    models = {_key(result.model): result.model for result in results}
    found = dict(zip(models, distinct_labels(list(models.values())), strict=True))
    return [found[_key(result.model)] for result in results]


def variants(results: Sequence[Result]) -> list[str]:
    """What distinguishes each result from others of the same model, task and metric, such as "seed 1"; mostly empty.

    These are the configurations and the options of the data, or else the files.
    """
    found = [""] * len(results)
    groups: dict[str, list[int]] = {}
    for index, result in enumerate(results):
        groups.setdefault(_key([result.model, *_where(result), result.metric]), []).append(index)
    for indices in groups.values():
        facts = [data_facts(results[index].benchmark) for index in indices]
        if all(each == facts[0] for each in facts):
            facts = [{"file": results[index].predictions["file"]} for index in indices]
        for index, variant in zip(indices, distinguished(facts), strict=True):
            found[index] = variant
    return found


def data_facts(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """What may tell data of one task from others, from the metadata of predictions: configurations and options."""
    options, configs = benchmark.get("options"), benchmark.get("configs")
    found = {"configs": "+".join(map(str, configs)) if isinstance(configs, list) else ""}
    return found | (options if isinstance(options, dict) else {})


def title(result: Result, label: str | None = None) -> str:
    """Model, task and metric of a result; `label` replaces the model's name."""
    return f"{subject(result, label)}: {result.metric}"


def subject(result: Result, label: str | None = None) -> str:
    """Model and task of a result; `label` replaces the model's name."""
    benchmark, task = _where(result)
    return f"{label or result.model['name']} on {benchmark} ({task})"


def summary_line(result: Result, label: str | None = None, others: Sequence[Result] = ()) -> str:
    """A result in one line: its title, and the main score with interval, n, chance and blind level."""
    line = overall(lines(result, others))
    score = line.scores[result.main_score]
    bounds = f" [{interval(score.interval)}]" if score.interval else ""
    text = f"{title(result, label)}: {words(result.main_score)} {percent_cell(score.value) or MISSING}{bounds}"
    text += f", n {line.n:,}"
    levels = {"chance": result.chance.get(result.main_score), _BLIND: score.blind}
    return text + "".join(f", {name} {percent_cell(level)}" for name, level in levels.items() if level is not None)


def tables_of(results: Sequence[Result]) -> list[Table]:
    """The tables of some results: for each its scores by category, then what else its metric gives."""
    found = []
    for result, label in zip(results, labels(results), strict=True):
        every = lines(result, results)
        note = " ".join(sentence for sentence in _sentences(result, every) if sentence)
        found.append(_score_table(title(result, label), every, note, result.run.get("truncated_captions", 0)))
        found += [_label_table(result, name) for name in label_tables(result)]
        found += [_group_table(result, name, parts) for name, parts in _groups(result).items()]
        found += [table for table in (_further_scores(result), _category_shares(result)) if table is not None]
    return found


def to_markdown(results: Sequence[Result]) -> str:
    """The tables of some results as Markdown."""
    return documents.to_markdown(tables_of(results))


def label_tables(result: Result) -> list[str]:
    """The names of the mappings of labels to numbers in a result, such as shares that sum to 1."""
    return [
        name
        for name, value in result.scores.items()
        if isinstance(value, dict)
        and value
        and not name.endswith("_interval")
        and all(isinstance(number, float) for number in value.values())
    ]


def is_share(values: Mapping[str, float], n: int) -> bool:
    """Return whether the numbers of a table are shares of n examples, and not means that sum to 1, as of a softmax."""
    counts = [n * value for value in values.values()]
    is_whole = all(abs(count - round(count)) < _SUM_ROUNDING * n and count >= 0 for count in counts)
    return is_whole and abs(sum(values.values()) - 1) < _SUM_ROUNDING


def percent_cell(value: float | None) -> str:
    """A fraction in per cent for a table; empty for None."""
    return "" if value is None else f"{percent(value)} %"


def interval_cell(bounds: Sequence[float] | None) -> str:
    """An interval of fractions for a table; empty for None."""
    return "" if bounds is None else interval(bounds)


def score_cell(value: float | None, bounds: Sequence[float] | None) -> Cell:
    """A fraction in per cent with its interval."""
    return Cell(percent_cell(value), (interval_cell(bounds),))


def tie_sentence(result: Result) -> str:
    """How ties were counted, in a sentence; empty for metrics without ties."""
    policy = result.options.get("ties")
    if policy is None:
        return ""
    is_higher_better = result.higher_is_better[result.main_score]
    text = _TIES.get((policy, is_higher_better), "Ties are decided by the policy {policy!r}")
    return text.format(score=words(result.main_score), policy=policy) + "."


def partial_sentence(benchmarks: Iterable[Mapping[str, Any]]) -> str:
    """That predictions are of a part of their task, in a sentence, from their metadata; empty for whole tasks."""
    rows = {each["rows"] for each in benchmarks if each.get("limit")}
    most = "at most " * (len(rows) > 1)
    return f"Partial: {most}{max(rows):,} examples of the task only (--limit)." if rows else ""


def _sentences(result: Result, every: Sequence[Line]) -> Iterable[str]:
    """How the numbers were computed, what to compare them with, and what is not in them."""
    options = result.options
    yield partial_sentence([result.benchmark])
    yield tie_sentence(result)
    if options.get("confidence"):
        yield f"Intervals: {100 * options['confidence']:g} %, bootstrap over images."
    yield from result.notes
    levels = {words(name): percent_cell(result.chance[name]) for name in result.table_scores if name in result.chance}
    if levels:
        named = [f"{name} {level}" if len(result.table_scores) > 1 else level for name, level in levels.items()]
        yield f"Chance: {', '.join(named)}."
    if any(score.blind is not None for line in every for score in line.scores.values()):
        by = f", of rules that with the best {words(result.main_score)}" if len(result.table_scores) > 1 else ""
        yield f"Blind: the best score of a rule or model that sees only the text{by}."
    yield _macro_sentence(result)
    spread = {name: result.scores.get(f"{name}_subsample_std") for name in result.table_scores}
    shown = [f"{words(name)} ± {percent(value)}" for name, value in spread.items() if value is not None]
    yield f"Standard deviation over 90 % subsets, in points: {', '.join(shown)}." if shown else ""
    if bound := result.run.get("bfloat16_bound"):
        yield f"Computed in bfloat16; what that may turn, up to {bound:.2g} apart, is decided in float32 (dtype auto)."
    for why, count in result.left_out.items():
        yield f"{count:,} examples are in no score: {why}."
    if result.missing:
        yield f"{result.missing:,} of {result.benchmark['rows']:,} examples lack their image and are in no score."


def _macro_sentence(result: Result) -> str:
    """Which categories the macro average leaves out, and why; empty where it averages all."""
    if not result.rare:
        return ""
    by_reason: dict[str, list[str]] = {}
    for name, why in result.rare.items():
        by_reason.setdefault(why, []).append(name)
    left_out = "; ".join(
        f"{', '.join(names) if len(names) <= _FEW_NAMES else f'{len(names):,} categories'} ({why})"
        for why, names in by_reason.items()
    )
    count = sum(name not in result.rare for name in result.scores.get(CATEGORIES, {}))
    return (
        f"The macro average is over {count:,} of {count + len(result.rare):,} categories, "
        f"{_macro_count(result):,} of {result.scores['n']:,} examples; not in it: {left_out}."
    )


def _macro_count(result: Result) -> int:
    """The number of examples that the macro averages go over; with overlapping categories at most all."""
    n, parts = result.scores["n"], result.scores.get(CATEGORIES, {})
    return min(n, sum(part["n"] for name, part in parts.items() if name not in result.rare)) if result.rare else n


def _blind_levels(result: Result, others: Sequence[Result]) -> list[dict[str, Any]]:
    """Scores reached on the same examples without seeing images, each in the form of a metric's results."""
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
    """The scores of a category, or of all examples; blind levels come with the predictions and may be malformed."""
    if not category:
        return scores
    parts = scores.get(CATEGORIES)
    part = parts.get(category) if isinstance(parts, dict) else None
    return part if isinstance(part, dict) else {}


def best(values: Iterable[Any], is_higher_better: bool) -> float | None:
    """The best of some fractions; None where none is known."""
    known = [value for value in values if isinstance(value, int | float) and 0 <= value <= 1]
    return (max if is_higher_better else min)(known) if known else None


def _where(result: Result) -> tuple[str, str]:
    return result.benchmark["name"], result.benchmark["task"]


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _score_table(heading: str, every: Sequence[Line], note: str, cut: int) -> Table:
    """Each score with its interval and, where some are known, blind levels; ties; n; captions that were cut, if any."""
    with_blind = {name for line in every for name, score in line.scores.items() if score.blind is not None}
    columns = [Column(words(name), (INTERVAL, *([_BLIND] if name in with_blind else []))) for name in every[0].scores]
    rows = []
    for line in every:
        cells = []
        for name, score in line.scores.items():
            blind = [percent_cell(score.blind)] * (name in with_blind)
            cells.append(Cell(percent_cell(score.value), (interval_cell(score.interval), *blind)))
        cells += [Cell(percent_cell(line.tie_rate)), Cell(f"{line.n:,}")]
        cells += [Cell(f"{cut:,}" if line is overall(every) else "")] if cut else []
        rows.append(TableRow(line.name, tuple(cells), line.is_average))
    columns += [Column("ties", repeated=True), Column("n", repeated=True)]
    columns += [Column("captions cut", repeated=True)] if cut else []
    return Table(heading, tuple(columns), tuple(rows), note)


def _label_table(result: Result, name: str) -> Table:
    """A column for each label of a mapping of labels to numbers."""
    shares = is_share(result.scores[name], result.scores["n"])

    def cells(part: Mapping[str, Any]) -> list[Cell]:
        bounds = part.get(f"{name}_interval", {})
        return [_number_cell(part[name].get(label), bounds.get(label), shares) for label in result.scores[name]]

    return _by_category(result, words(name), list(result.scores[name]), cells)


def _further_scores(result: Result) -> Table | None:
    """The scores that the metric's main table leaves out; those without intervals, such as ranks, are not fractions."""
    whole = result.scores
    keys = [
        key
        for key, value in whole.items()
        if (value is None or (isinstance(value, int | float) and not isinstance(value, bool)))
        and not (key in result.table_scores or key.startswith("macro_") or result.spec.score(key) is None)
    ]

    def cells(part: Mapping[str, Any]) -> list[Cell]:
        return [_number_cell(part.get(key), part.get(f"{key}_interval"), f"{key}_interval" in whole) for key in keys]

    return _by_category(result, "further scores", [words(key) for key in keys], cells) if keys else None


def _by_category(
    result: Result, heading: str, headers: Sequence[str], cells: Callable[[Mapping[str, Any]], list[Cell]]
) -> Table:
    """A table with a row for each category and one for all examples; in a terminal with a row for each header."""
    parts = {**result.scores.get(CATEGORIES, {}), ALL: result.scores}
    if len(parts) == 2:
        del parts[ALL]
    rows = [TableRow(name, tuple(cells(part)), name == ALL and len(parts) > 1) for name, part in parts.items()]
    table = Table(heading, tuple(Column(header, (INTERVAL,)) for header in headers), tuple(rows), is_part=True)
    *categories, whole = rows
    shown = categories if len(categories) <= MOST_CATEGORIES else []
    turned = [
        TableRow(header, (whole.cells[index], *(Cell(row.cells[index].value) for row in shown)))
        for index, header in enumerate(headers)
    ]
    columns = (Column(whole.name, (INTERVAL,)), *(Column(words(row.name)) for row in shown))
    return replace(table, compact=replace(table, columns=columns, rows=tuple(turned)))


def _number_cell(value: float | None, bounds: Sequence[float] | None, as_percent: bool) -> Cell:
    """A fraction, or a number on another scale, such as a mean score or a rank, with four digits."""
    if as_percent:
        return score_cell(value, bounds)
    low_and_high = "" if bounds is None else " – ".join(map(_digits, bounds))
    return Cell("" if value is None else _digits(value), (low_and_high,))


def _digits(value: float) -> str:
    return f"{value:#.4g}".rstrip(".")


def _groups(result: Result) -> dict[str, dict[str, Any]]:
    """The mappings of labels to scores in a result, without that of categories."""
    return {
        name: parts
        for name, parts in result.scores.items()
        if name != CATEGORIES
        and isinstance(parts, dict)
        and parts
        and all(isinstance(part, dict) and "n" in part for part in parts.values())
    }


def _group_table(result: Result, name: str, parts: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each group of examples, with the scores that tables show and their macro averages."""
    every = [key for score in result.table_scores for key in (score, f"macro_{score}")]
    keys = [key for key in every if any(key in part for part in parts.values())]
    columns = [*(Column(words(key), (INTERVAL,)) for key in keys), Column("ties", repeated=True)]
    rows = []
    for label, part in parts.items():
        cells = []
        for key in keys:
            value, spread = percent_cell(part.get(key)), part.get(f"{key}_std")
            if spread is not None and value:
                value = f"{value.removesuffix(' %')} ± {percent(spread)} %"
            cells.append(Cell(value, (interval_cell(part.get(f"{key}_interval")),)))
        cells += [Cell(percent_cell(part.get("tie_rate"))), Cell(f"{part['n']:,}")]
        rows.append(TableRow(label, tuple(cells)))
    return Table(words(name), (*columns, Column("n", repeated=True)), tuple(rows), is_part=True)


def _category_shares(result: Result) -> Table | None:
    """Fractions by category that are not scores, such as shares of all errors."""
    parts = result.scores.get(CATEGORIES, {})
    keys = []
    for key in dict.fromkeys(key for part in parts.values() for key in part):
        known = [part[key] for part in parts.values() if part.get(key) is not None]
        is_other = key == "tie_rate" or key.endswith(("_interval", "_std")) or result.spec.score(key) is not None
        if known and not is_other and all(isinstance(value, float) and 0 <= value <= 1 for value in known):
            keys.append(key)
    if not keys:
        return None
    rows = [TableRow(name, tuple(Cell(percent_cell(part.get(key))) for key in keys)) for name, part in parts.items()]
    return Table("by category", tuple(Column(words(key)) for key in keys), tuple(rows), is_part=True)
