"""The first screen of a run: a row for each task, and three sentences with the conclusions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..common.documents import INTERVAL, Cell, Column, Part, Table, TableRow, Verdict
from ..common.formatting import percent, words
from ..records.results import Result
from .scores import ALL, ScoreRow, interval_cell, labels, overall, partial_sentence, percent_cell, score_rows, task_of

# A terminal shows the table, the sentences and what the command prints below them without scrolling.
_MOST_ROWS = 20
_NAMED = 3


class _Category(NamedTuple):
    """The main score of a category, and the level reached without the image: blind, or chance."""

    name: str
    value: float
    low: float
    high: float
    level: float
    higher_is_better: bool

    @property
    def margin(self) -> float:
        """The distance of the score to `level`, positive if it is better."""
        return self.value - self.level if self.higher_is_better else self.level - self.value

    @property
    def is_above(self) -> bool:
        """Return whether the whole interval is better than `level`."""
        return self.low > self.level if self.higher_is_better else self.high < self.level

    def __str__(self) -> str:
        return f"{self.name} ({percent(self.value)} against {percent(self.level)})"


def screen(results: Sequence[Result]) -> list[Part]:
    """Return a table with a row for each task and metric, and sentences that conclude from the categories."""
    models = labels(results)
    several = len(set(models)) > 1
    benchmarks = {result.benchmark["name"] for result in results}
    scores = list(dict.fromkeys(map(_score, results)))
    table_rows, categories = [], []
    for result, model in zip(results, models, strict=True):
        rows = [row for row in score_rows(result) if row.is_main]
        name = rows[0].category if len(rows) == 1 and rows[0].category != ALL else task_of(result)[1]
        name = name if len(benchmarks) == 1 else f"{task_of(result)[0]}/{name}"
        name = f"{model}: {name}" if several else name
        whole = overall(rows)[result.main_score]
        value = Cell(percent_cell(whole.value) or "–", (interval_cell(whole.interval),))
        levels = (whole.blind_text, percent_cell(whole.chance), f"{whole.n:,}")
        table_rows.append(TableRow(name, (*[Cell(_score(result))] * (len(scores) > 1), value, *map(Cell, levels))))
        categories += _categories(name, rows, whole)
    title = "Main scores" if several else f"{models[0]}: main scores"
    columns_of_scores = (Column("score", is_text=True), Column("result", (INTERVAL,)))
    columns = columns_of_scores if len(scores) > 1 else (Column(scores[0], (INTERVAL,)),)
    columns += (Column("blind"), Column("chance"), Column("n"))
    table = Table(title, columns, tuple(table_rows[:_MOST_ROWS]), _note(results), corner="task")
    return [table, *map(Verdict, _sentences(categories))]


def _score(result: Result) -> str:
    return words(result.main_score) + ("" if result.higher_is_better[result.main_score] else " ↓")


def _note(results: Sequence[Result]) -> str:
    sentences = [partial_sentence(result.benchmark for result in results)]
    if level := results[0].options.get("confidence"):
        sentences.append(f"Intervals: {100 * level:g} %.")
    if not all(result.higher_is_better[result.main_score] for result in results):
        sentences.append("↓: lower is better.")
    sentences.append("Blind: the best of the scorers that see only the captions.")
    levels = {result.blind.get("kind") for result in results if result.blind}
    if levels - {"probe", "exact"}:
        sentences.append("≥: no probes were trained, which `vl-assay audit` does.")
    sentences += list(dict.fromkeys(note for result in results for note in result.notes))[:_NAMED]
    if len(results) > _MOST_ROWS:
        sentences.append(f"{len(results) - _MOST_ROWS} more rows are in report.md.")
    return " ".join(filter(None, sentences))


def _categories(name: str, rows: Sequence[ScoreRow], whole: ScoreRow) -> Iterator[_Category]:
    """Yield the categories of a task with an interval and a level; the task itself if it has no categories."""
    single = [row for row in rows if not row.is_average] or [whole]
    for row in single:
        known = [level for level in (row.blind, row.chance) if level is not None]
        if row.value is None or row.interval is None or not known:
            continue
        level = max(known) if row.higher_is_better else min(known)
        text = name if len(single) == 1 else f"{name}/{row.category}"
        text += "" if row.higher_is_better else f" {words(row.score)}"
        yield _Category(text, row.value, *row.interval, level, row.higher_is_better)


def _sentences(categories: Sequence[_Category]) -> Iterator[str]:
    """Conclude from the categories where models use the image, where they do not, and where the evidence is weakest."""
    if not categories:
        return
    above = sorted((category for category in categories if category.is_above), key=lambda category: -category.margin)
    below = sorted((category for category in categories if not category.is_above), key=lambda category: category.margin)
    strongest = ", ".join(f"{category.name} (+{percent(category.margin)} points)" for category in above[:_NAMED])
    of = f"{len(above)} of {len(categories)} categories" if len(categories) > 1 else "the one category"
    if above:
        yield f"Better than blind and chance in {of}, most clearly {strongest}."
    if below:
        yield f"Not better in {_list(below)}: there the score does not show that the model uses the image."
    if len(above) > _NAMED:
        yield f"Weakest of the others: {_list(above[:-_NAMED:-1])}."


def _list(categories: Iterable[_Category]) -> str:
    names = list(map(str, categories))
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
