"""The first screen of a run: a row for each task, and what it shows in three sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..common.documents import INTERVAL, Cell, Column, Part, Table, TableRow, Verdict
from ..common.formatting import percent, words
from ..records.results import Result
from ._tables import ALL, Line, interval_cell, labels, lines, overall, partial_sentence, percent_cell

# A terminal shows the table, the sentences and what the command prints below them without scrolling.
_MOST_ROWS = 20
_NAMED = 3


class _Category(NamedTuple):
    """The main score of a category, and what can be reached without the image: the best text rule, or chance."""

    name: str
    value: float
    low: float
    high: float
    level: float
    is_higher_better: bool

    @property
    def margin(self) -> float:
        """The distance of the score to `level`, positive if it is better."""
        return self.value - self.level if self.is_higher_better else self.level - self.value

    @property
    def is_above(self) -> bool:
        """Return whether the whole interval is better than `level`."""
        return self.low > self.level if self.is_higher_better else self.high < self.level

    def __str__(self) -> str:
        return f"{self.name} ({percent(self.value)} against {percent(self.level)})"


def screen(results: Sequence[Result]) -> list[Part]:
    """Return a table with a row for each task and metric, and sentences that conclude from the categories."""
    shown = list(zip(results, labels(results), strict=True))
    models = dict.fromkeys(label for _, label in shown)
    scores = list(dict.fromkeys(map(_score, results)))
    rows, categories = [], []
    for result, label in shown:
        every = lines(result)  # without baselines among the results, which are no rules
        name = _name(result, every, results)
        rows.append(_row(name if len(models) == 1 else f"{label}: {name}", result, overall(every), len(scores) > 1))
        categories += _categories(name if len(models) == 1 else f"{label}: {name}", result, every)
    title = f"{next(iter(models))}: main scores" if len(models) == 1 else "Main scores"
    named = (Column("score", is_text=True), Column("result", (INTERVAL,)))
    columns = named if len(scores) > 1 else (Column(scores[0], (INTERVAL,)),)
    columns += (Column("text rule"), Column("chance"), Column("n"))
    table = Table(title, columns, tuple(rows[:_MOST_ROWS]), _note(results), corner="task")
    return [table, *map(Verdict, _sentences(categories))]


def _score(result: Result) -> str:
    return words(result.main_score) + ("" if result.higher_is_better[result.main_score] else " ↓")


def _row(name: str, result: Result, line: Line, with_score: bool) -> TableRow:
    score = line.scores[result.main_score]
    value = Cell(percent_cell(score.value) or "–", (interval_cell(score.interval),))
    levels = (percent_cell(level) for level in (score.blind, result.chance.get(result.main_score)))
    return TableRow(name, (*[Cell(_score(result))] * with_score, value, *map(Cell, (*levels, f"{line.n:,}"))))


def _note(results: Sequence[Result]) -> str:
    sentences = [partial_sentence(result.benchmark for result in results)]
    if level := results[0].options.get("confidence"):
        sentences.append(f"Intervals: {100 * level:g} %.")
    if not all(result.higher_is_better[result.main_score] for result in results):
        sentences.append("↓: lower is better.")
    sentences.append("Text rule: the best rule that sees only the captions, by length and form.")
    sentences += list(dict.fromkeys(note for result in results for note in result.notes))[:_NAMED]
    if len(results) > _MOST_ROWS:
        sentences.append(f"{len(results) - _MOST_ROWS} more rows are in report.md.")
    return " ".join(filter(None, sentences))


def _categories(name: str, result: Result, every: Sequence[Line]) -> Iterator[_Category]:
    """Yield the categories of a task; the task itself if it has no categories."""
    is_higher_better = result.higher_is_better[result.main_score]
    single = [line for line in every if not line.is_average] or [overall(every)]
    for line in single:
        score = line.scores[result.main_score]
        known = [level for level in (score.blind, result.chance.get(result.main_score)) if level is not None]
        if score.value is None or score.interval is None or not known:
            continue
        level = max(known) if is_higher_better else min(known)
        part = name if len(single) == 1 else f"{name}/{line.name}"
        if not is_higher_better:
            part += f" {words(result.main_score)}"
        yield _Category(part, score.value, *score.interval, level, is_higher_better)


def _sentences(categories: Sequence[_Category]) -> Iterator[str]:
    """Conclude from the categories: where the image counts, where it does not, and where least."""
    if not categories:
        return
    above = sorted((each for each in categories if each.is_above), key=lambda each: -each.margin)
    below = sorted((each for each in categories if not each.is_above), key=lambda each: each.margin)
    strongest = ", ".join(f"{each.name} (+{percent(each.margin)} points)" for each in above[:_NAMED])
    of = f"{len(above)} of {len(categories)} categories" if len(categories) > 1 else "the one category"
    if above:
        yield f"Better than text rules and chance in {of}, most clearly {strongest}."
    if below:
        yield f"Not better in {_list(below)}: there the score does not show that the model uses the image."
    if len(above) > _NAMED:
        yield f"Weakest of the others: {_list(above[:-_NAMED:-1])}."


def _list(categories: Sequence[_Category]) -> str:
    named = ", ".join(map(str, categories[:_NAMED]))
    return named + (f" and {len(categories) - _NAMED} more" if len(categories) > _NAMED else "")


def _name(result: Result, every: Sequence[Line], results: Iterable[Result]) -> str:
    """Return the task, or its only category, with the benchmark if there are several."""
    benchmarks = {each.benchmark["name"] for each in results}
    task = every[0].name if len(every) == 1 and every[0].name != ALL else result.benchmark["task"]
    return task if len(benchmarks) == 1 else f"{result.benchmark['name']}/{task}"
