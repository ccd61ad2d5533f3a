"""Models side by side, as papers print them: a row for each model, the best marked by paired tests.

The first table has the scores of all tasks, and one for each metric follows with its categories: seven categories of
five metrics fit no page beside each other. A single task and metric is one table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..common.documents import BEST, EQUAL, INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import percent, words
from ..estimation.differences import p_value
from ..estimation.paired import holm
from ..records.results import Result
from ._scored import Scored, common, permutations
from ._tables import CATEGORIES, MACRO, MICRO, Line, best, interval_cell, labels, lines, overall, partial_sentence

# A page holds no more columns of numbers than this.
MOST_COLUMNS = 9


class _Column(NamedTuple):
    """A score of some results, by the label of the model: over all examples, as macro average, or of a category."""

    results: dict[str, Result]
    score: str
    header: str
    group: str = ""
    category: str = ""
    prefix: str = ""

    @property
    def first(self) -> Result:
        """One of the results."""
        return next(iter(self.results.values()))

    @property
    def is_higher_better(self) -> bool:
        """Return whether the better model has the higher score."""
        return self.first.spec.is_higher_better(self.score)


class Overview:
    """The tables of results with models as rows.

    Args:
        results: those of all models, among which may be baselines, which are set apart and not marked.
        scored: reads the examples of a result.
    """

    def __init__(self, results: Sequence[Result], scored: Callable[[Result], Scored]) -> None:
        self._results, self._scored = results, scored
        self._groups: dict[tuple[str, str, str], dict[str, Result]] = {}
        for result, label in zip(results, labels(results), strict=True):
            where = (result.benchmark["name"], result.benchmark["task"], result.metric)
            self._groups.setdefault(where, {})[label] = result
        self._lines: dict[int, dict[str, Line]] = {}
        for result in results:
            every = lines(result, results)
            self._lines[id(result)] = {line.name: line for line in every} | {"": overall(every)}
        self._read: dict[int, Scored] = {}

    def tables(self) -> list[Table]:
        """The table of all scores, split where it is too wide, and those by category."""
        by_category = [table for where, group in self._groups.items() for table in self._by_category(where, group)]
        if len(self._groups) == 1 and by_category:
            [group] = self._groups.values()
            if len(next(iter(group.values())).table_scores) == 1:
                return by_category
        found = []
        names = list(dict.fromkeys(benchmark for benchmark, _, _ in self._groups))
        for number, columns in enumerate(self._pages()):
            title = f"Scores on {' and '.join(names)}" if len(names) < 3 else "Scores"
            title += f", continued ({number + 1})" * bool(number)
            found.append(self._table(title, columns))
        return found + by_category

    def _pages(self) -> list[list[_Column]]:
        """The columns of each table of all scores; only main scores where all scores fill more than one table."""
        columns = []
        for (benchmark, task, _), group in self._groups.items():
            label = next(iter(group.values())).spec.label
            above = task if len({name for name, _, _ in self._groups}) == 1 else f"{benchmark} ({task})"
            scores = dict.fromkeys(name for result in group.values() for name in result.table_scores)
            columns += [_Column(group, score, f"{label} {words(score)}".strip(), above) for score in scores]
        if len(columns) > MOST_COLUMNS:
            columns = [column for column in columns if column.score == column.first.main_score]
        return [columns[start : start + MOST_COLUMNS] for start in range(0, len(columns), MOST_COLUMNS)]

    def _by_category(self, where: tuple[str, str, str], group: dict[str, Result]) -> list[Table]:
        """The main score by category, with its averages; none for one category, or for more than fit a page."""
        names = list(dict.fromkeys(name for result in group.values() for name in result.scores.get(CATEGORIES, {})))
        if not 1 < len(names) <= MOST_COLUMNS:
            return []
        score = next(iter(group.values())).main_score
        columns = [_Column(group, score, *_split(name, names), category=name) for name in names]
        columns.append(_Column(group, score, MICRO))
        if any(f"macro_{score}" in result.scores for result in group.values()):
            columns.append(_Column(group, score, MACRO, prefix="macro_"))
        benchmark, task, metric = where
        return [self._table(f"{benchmark} ({task}): {metric}, {words(score)} by category", columns)]

    def _table(self, title: str, columns: Sequence[_Column]) -> Table:
        names = list(dict.fromkeys(label for column in columns for label in column.results))
        own = {name: [column.results[name] for column in columns if name in column.results] for name in names}
        names.sort(key=lambda name: _is_baseline(own[name][0]))
        baselines = [name for name in names if _is_baseline(own[name][0])]
        marks = [self._marks(column) for column in columns]
        cut = {name: _cut_captions(own[name]) for name in names}
        any_cut = any(cut.values())
        rows = []
        for name in names:
            marked = zip(columns, marks, strict=True)
            cells = [self._cell(column, name, found.get(name, "")) for column, found in marked]
            cells += [Cell(f"{cut[name]:,}")] * any_cut
            rows.append(TableRow(name, tuple(cells), starts_group=name in baselines[:1] and name != names[0]))
        rows += self._levels(columns, [Cell()] * any_cut)
        shown = [Column(column.header, (INTERVAL,), group=column.group) for column in columns]
        shown += [Column("captions cut", repeated=True)] * any_cut
        note = _note(columns, any(marks), any_cut)
        return Table(title, tuple(shown), tuple(rows), note, corner="model", has_details_below=True)

    def _line(self, column: _Column, label: str) -> Line | None:
        """The line of a model's result that a column shows."""
        if label not in column.results:
            return None
        return self._lines[id(column.results[label])].get(MACRO if column.prefix else column.category)

    def _cell(self, column: _Column, label: str, mark: str) -> Cell:
        line = self._line(column, label)
        score = line.scores.get(column.score) if line else None
        if score is None or score.value is None:
            return Cell("–", ("",))
        return Cell(percent(score.value), (interval_cell(score.interval),), mark)

    def _levels(self, columns: Sequence[_Column], further: Sequence[Cell]) -> list[TableRow]:
        """Return the rows below the models: the score without images, and chance."""
        blind: list[float | None] = []
        for column in columns:
            found = [line.scores.get(column.score) for label in column.results if (line := self._line(column, label))]
            blind.append(best([score.blind for score in found if score], column.is_higher_better))
        chance = [column.first.chance.get(column.score) for column in columns]
        rows = []
        for name, levels in (("blind (text only)", blind), ("chance", chance)):
            if any(level is not None for level in levels):
                cells = [Cell("" if level is None else percent(level), ("",)) for level in levels]
                rows.append(TableRow(name, (*cells, *further), starts_group=not rows))
        return rows

    def _marks(self, column: _Column) -> dict[str, str]:
        """The best model of a column, and those that cannot be told from it; none where models had other data."""
        values = {}
        for label, result in column.results.items():
            line = self._line(column, label)
            value = line.scores[column.score].value if line and column.score in line.scores else None
            if value is not None and not _is_baseline(result):
                values[label] = value
        shared = {_data(column.results[label]) for label in values}
        if len(values) < 2 or len(shared) > 1:
            return {}
        first = (max if column.is_higher_better else min)(values, key=values.__getitem__)
        others = [label for label in values if label != first]
        found = [self._p_value(column, first, label, len(others)) for label in others]
        return {first: BEST} | {
            name: EQUAL for name, p in zip(others, holm(found), strict=True) if p > 1 - _level(column.first)
        }

    def _p_value(self, column: _Column, first: str, second: str, tests: int) -> float:
        pair = common(self._examples(column.results[first]), self._examples(column.results[second]))
        if pair is None:
            return 1.0
        one, two = (each.examples for each in pair)
        count = permutations(one, column.score, tests)
        return p_value(one, two, column.prefix + column.score, column.category, count)

    def _examples(self, result: Result) -> Scored:
        if id(result) not in self._read:
            self._read[id(result)] = self._scored(result)
        return self._read[id(result)]


def _split(name: str, names: Sequence[str]) -> tuple[str, str]:
    """The header of a category and its group, the part before the first underscore where all names have one."""
    if not all("_" in each.strip("_") for each in names):
        return words(name), ""
    group, _, rest = name.partition("_")
    return words(rest), words(group)


def _note(columns: Sequence[_Column], has_marks: bool, any_cut: bool) -> str:
    """Return the note that explains a table."""
    level = 100 * _level(columns[0].first)
    has_intervals = bool(columns[0].first.options.get("confidence"))
    text = "Scores in per cent" + f", below them {level:g} % intervals (bootstrap over images)" * has_intervals + "."
    falling = dict.fromkeys(words(column.score) for column in columns if not column.is_higher_better)
    if falling:
        text += f" Lower is better for {', '.join(falling)}."
    if has_marks:
        text += (
            " Bold: the best of a column. †: cannot be told from the best (paired permutation test over images, "
            f"corrected by Holm for the number of models, {100 - level:g} %)."
        )
    text += " Captions cut: those longer than the model reads." * any_cut
    partial = partial_sentence(result.benchmark for column in columns for result in column.results.values())
    return f"{text} {partial}".strip()


def _level(result: Result) -> float:
    """The confidence of a result's intervals, or that of tests without them."""
    return result.options.get("confidence") or 0.95


def _is_baseline(result: Result) -> bool:
    return result.model.get("is_baseline") is True


def _data(result: Result) -> str:
    return json.dumps([result.benchmark.get("fingerprint"), result.options.get("ties")])


def _cut_captions(results: Sequence[Result]) -> int:
    """Return the number of captions that were cut in the runs behind some results; files of one run share it."""
    runs = {json.dumps(result.run, sort_keys=True, default=str): result.run for result in results}
    return sum(run.get("truncated_captions", 0) for run in runs.values())
