"""Tables with a row for each model, as in papers; paired tests decide which models are marked as best.

The first table has the scores of all tasks; a table with categories follows for each metric. A single task and metric
needs only one table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..common.documents import BEST, EQUAL, INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import percent, words
from ..records.results import Result
from .pairs import LEVEL, Scored, best_models, p_by_category, p_overall
from .scores import (
    MACRO,
    MICRO,
    ScoreRow,
    best,
    by_category,
    by_result,
    interval_cell,
    overall,
    partial_sentence,
    task_of,
)

# A page holds no more columns of numbers than this.
MOST_COLUMNS = 9


class _Column(NamedTuple):
    """A score by the label of the model: over all examples, as macro average, or of a category."""

    rows: dict[str, ScoreRow]
    header: str
    group: str = ""
    category: str = ""

    @property
    def first(self) -> ScoreRow:
        """The row of one of the models."""
        return next(iter(self.rows.values()))


# The rows of one result by category or average, under "" over all examples, and by score.
_Pivot = dict[str, dict[str, ScoreRow]]


class Overview:
    """The tables of results with models as rows.

    Args:
        rows: the long table of all results; baselines among them come last and are not marked.
        scored: reads the examples of a result.
    """

    def __init__(self, rows: Sequence[ScoreRow], scored: Callable[[Result], Scored]) -> None:
        self._scored = scored
        self._groups: dict[tuple[str, str, str], dict[str, _Pivot]] = {}
        for result_rows in by_result(rows):
            first = result_rows[0]
            pivot = by_category(result_rows) | {"": overall(result_rows)}
            self._groups.setdefault((*task_of(first.result), first.result.metric), {})[first.label] = pivot
        self._examples: dict[int, Scored] = {}
        self._p_values: dict[tuple[int, int, str], dict[str, float]] = {}

    def tables(self) -> list[Table]:
        """Return the table of all scores, split if it is too wide, and the tables by category."""
        details = [table for task, group in self._groups.items() for table in self._by_category(task, group)]
        scores = [column for task, group in self._groups.items() for column in self._columns(task, group)]
        if len(scores) == 1 and details:
            return details
        if len(scores) > MOST_COLUMNS:
            scores = [column for column in scores if column.first.is_main]
        benchmarks = list(dict.fromkeys(benchmark for benchmark, _, _ in self._groups))
        title = f"Scores on {' and '.join(benchmarks)}" if len(benchmarks) < 3 else "Scores"
        pages = [scores[start : start + MOST_COLUMNS] for start in range(0, len(scores), MOST_COLUMNS)]
        titles = [title + f", continued ({number})" * (number > 1) for number in range(1, len(pages) + 1)]
        return [*map(self._table, titles, pages), *details]

    def _columns(self, task: tuple[str, str, str], group: dict[str, _Pivot]) -> list[_Column]:
        """Return a column for each score over all examples."""
        benchmark, name, _ = task
        several = len({benchmark for benchmark, _, _ in self._groups}) > 1
        above = f"{benchmark} ({name})" if several else name
        columns = []
        for score in dict.fromkeys(score for pivot in group.values() for score in pivot[""]):
            rows = {label: pivot[""][score] for label, pivot in group.items() if score in pivot[""]}
            label = next(iter(rows.values())).result.spec.label
            columns.append(_Column(rows, f"{label} {words(score)}".strip(), above))
        return columns

    def _by_category(self, task: tuple[str, str, str], group: dict[str, _Pivot]) -> list[Table]:
        """Tabulate the main score by category with its averages, unless there is one category or too many."""
        results = [next(iter(pivot[""].values())).result for pivot in group.values()]
        names = list(dict.fromkeys(name for result in results for name in result.scores.get("per_category", {})))
        if not 1 < len(names) <= MOST_COLUMNS:
            return []
        score = results[0].main_score
        columns = []
        for category in (*names, "", MACRO):
            rows = {label: pivot[category][score] for label, pivot in group.items() if score in pivot.get(category, {})}
            header, above = _split(category, names) if category in names else (category or MICRO, "")
            columns += [_Column(rows, header, above, category)] * bool(rows)
        benchmark, name, metric = task
        return [self._table(f"{benchmark} ({name}): {metric}, {words(score)} by category", columns)]

    def _table(self, title: str, columns: Sequence[_Column]) -> Table:
        results: dict[str, list[Result]] = {}
        for column in columns:
            for label, row in column.rows.items():
                results.setdefault(label, []).append(row.result)
        labels = sorted(results, key=lambda label: _is_baseline(results[label][0]))
        baselines = [label for label in labels if _is_baseline(results[label][0])]
        marks = [self._marks(column) for column in columns]
        cut = {label: _cut_captions(results[label]) for label in labels}
        any_cut = any(cut.values())
        rows = []
        for label in labels:
            marked = zip(columns, marks, strict=True)
            cells = [_cell(column.rows.get(label), mark.get(label, "")) for column, mark in marked]
            cells += [Cell(f"{cut[label]:,}")] * any_cut
            rows.append(TableRow(label, tuple(cells), starts_group=label in baselines[:1] and label != labels[0]))
        rows += _levels(columns, [Cell()] * any_cut)
        headers = [Column(column.header, (INTERVAL,), group=column.group) for column in columns]
        headers += [Column("captions cut", repeated=True)] * any_cut
        note = _note(columns, any(marks), any_cut)
        return Table(title, tuple(headers), tuple(rows), note, corner="model", has_details_below=True)

    def _marks(self, column: _Column) -> dict[str, str]:
        """Mark the best models of a column and those that do not differ significantly; none if their data differ."""
        rows = {label: row for label, row in column.rows.items() if not _is_baseline(row.result)}
        values = {label: row.value for label, row in rows.items() if row.value is not None}
        results = [rows[label].result for label in values]
        data = {json.dumps([result.benchmark.get("fingerprint"), result.options.get("ties")]) for result in results}
        if len(values) < 2 or len(data) > 1:
            return {}
        level = 1 - _confidence(column.first.result)
        best, equal = best_models(values, column.first.higher_is_better, partial(self._p_value, column), level)
        return dict.fromkeys(best, BEST) | dict.fromkeys(equal, EQUAL)

    def _p_value(self, column: _Column, one: str, two: str) -> float:
        first, second = (self._examples_of(column.rows[label].result) for label in (one, two))
        score = column.first.score
        if column.category in ("", MACRO):
            return p_overall(first, second, "macro_" * (column.category == MACRO) + score)
        key = (id(first), id(second), score)
        if key not in self._p_values:
            self._p_values[key] = p_by_category(first, second, score)
        return self._p_values[key].get(column.category, 1.0)

    def _examples_of(self, result: Result) -> Scored:
        if id(result) not in self._examples:
            self._examples[id(result)] = self._scored(result)
        return self._examples[id(result)]


def _cell(row: ScoreRow | None, mark: str) -> Cell:
    if row is None or row.value is None:
        return Cell("–", ("",))
    return Cell(percent(row.value), (interval_cell(row.interval),), mark)


def _levels(columns: Sequence[_Column], further: Sequence[Cell]) -> list[TableRow]:
    """Return the reference rows below the models: the score without images, and chance."""
    blind = [best((row.blind for row in column.rows.values()), column.first.higher_is_better) for column in columns]
    rows = []
    for name, levels in (("blind (text only)", blind), ("chance", [column.first.chance for column in columns])):
        if any(level is not None for level in levels):
            cells = [Cell("" if level is None else percent(level), ("",)) for level in levels]
            rows.append(TableRow(name, (*cells, *further), starts_group=not rows))
    return rows


def _split(name: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the header of a category and its group: the text before the first underscore, if all names have one."""
    if not all("_" in name.strip("_") for name in names):
        return words(name), ""
    group, _, rest = name.partition("_")
    return words(rest), words(group)


def _note(columns: Sequence[_Column], has_marks: bool, any_cut: bool) -> str:
    """Return the note that explains a table."""
    first = columns[0].first.result
    confidence = 100 * _confidence(first)
    has_intervals = bool(first.options.get("confidence"))
    text = (
        "Scores in per cent" + f", below them {confidence:g} % intervals (bootstrap over images)" * has_intervals + "."
    )
    falling = dict.fromkeys(
        words(row.score) for row in (column.first for column in columns) if not row.higher_is_better
    )
    if falling:
        text += f" Lower is better for {', '.join(falling)}."
    if has_marks:
        text += (
            f" Bold: the best of a column. †: not significantly different from the best at {100 - confidence:g} % by "
            "the paired test of `compare`, which corrects for the number of categories and not of models."
        )
    text += " Captions cut: those longer than the model reads." * any_cut
    benchmarks = (row.result.benchmark for column in columns for row in column.rows.values())
    return f"{text} {partial_sentence(benchmarks)}".strip()


def _confidence(result: Result) -> float:
    """Return the confidence of a result's intervals; without intervals, the confidence of the tests."""
    return result.options.get("confidence") or 1 - LEVEL


def _is_baseline(result: Result) -> bool:
    return result.model.get("is_baseline") is True


def _cut_captions(results: Sequence[Result]) -> int:
    """Return the number of captions that were cut in the runs behind some results; files of one run share it."""
    runs = {json.dumps(result.run, sort_keys=True, default=str): result.run for result in results}
    return sum(run.get("truncated_captions", 0) for run in runs.values())
