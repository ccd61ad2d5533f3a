"""What a metric gives besides its scores, as tables: shares and means by label, groups of categories, further numbers.

They are known by their structure in a metric's results, not by their names: a mapping of labels to numbers is a table
of its own, a mapping of labels to scores has the averages of parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..common.documents import INTERVAL, Cell, Column, Table, TableRow
from ..common.formatting import interval, percent, words
from ..records.results import Result

_ALL = "all"
_CATEGORIES = "per_category"
_SUM_ROUNDING = 1e-9
# Terminals and plots show the numbers of no more categories beside those of all examples.
MOST_CATEGORIES = 6


def part_tables(result: Result) -> list[Table]:
    """The tables that go with the scores of a result; see the module's text."""
    found = [_label_table(result, name) for name in label_tables(result)]
    found += [_score_parts(result, name, parts) for name, parts in _groups(result).items()]
    found += [table for table in (_other_scores(result), _category_numbers(result)) if table is not None]
    return found


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


def is_share(values: Mapping[str, float]) -> bool:
    """Whether the numbers of a table are shares of a whole."""
    return abs(sum(values.values()) - 1) < _SUM_ROUNDING and min(values.values()) >= 0


def percent_cell(value: float | None) -> str:
    """A fraction in per cent, as it stands in tables; empty where there is none."""
    return "" if value is None else f"{percent(value)} %"


def interval_cell(bounds: Sequence[float] | None) -> str:
    """An interval of fractions, as it stands in tables; empty where there is none."""
    return "" if bounds is None else interval(bounds)


def _label_table(result: Result, name: str) -> Table:
    """A column for each label, a row for each category and one for all examples; in a terminal the other way round."""
    whole = result.scores
    parts = {**whole.get(_CATEGORIES, {}), _ALL: whole}
    if len(parts) == 2:
        del parts[_ALL]
    shares = is_share(whole[name])
    rows = []
    for place, part in parts.items():
        bounds = part.get(f"{name}_interval", {})
        cells = (_number_cell(part[name].get(label), bounds.get(label), shares) for label in whole[name])
        rows.append(TableRow(place, tuple(cells), is_average=place == _ALL and len(parts) > 1))
    columns = tuple(Column(label, (INTERVAL,)) for label in whole[name])
    return _with_compact(Table(words(name), columns, tuple(rows), is_part=True))


def _with_compact(table: Table) -> Table:
    """The table with a row for each column in a terminal, without the categories where there are many."""
    *categories, whole = table.rows
    shown = [whole, *(categories if len(categories) <= MOST_CATEGORIES else [])]
    columns = (Column(whole.name, (INTERVAL,)), *(Column(row.name.replace("_", " ")) for row in shown[1:]))
    rows = tuple(
        TableRow(column.header, (whole.cells[index], *(Cell(row.cells[index].value) for row in shown[1:])))
        for index, column in enumerate(table.columns)
    )
    return replace(table, compact=replace(table, columns=columns, rows=rows))


def _number_cell(value: float | None, bounds: Sequence[float] | None, as_percent: bool) -> Cell:
    if as_percent:
        return Cell(percent_cell(value), (interval_cell(bounds),))
    limits = "" if bounds is None else " – ".join(map(_number, bounds))
    return Cell("" if value is None else _number(value), (limits,))


def _number(value: float) -> str:
    """A number on a scale of its own, such as a mean score or a rank."""
    return f"{value:#.4g}".rstrip(".")


def _groups(result: Result) -> dict[str, dict[str, Any]]:
    """The mappings of labels to scores in a result, but for those of categories."""
    return {
        name: parts
        for name, parts in result.scores.items()
        if name != _CATEGORIES
        and isinstance(parts, dict)
        and parts
        and all(isinstance(part, dict) and "n" in part for part in parts.values())
    }


def _score_parts(result: Result, name: str, parts: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each group of examples, with the scores that tables show and their macro averages."""
    every = [key for score in result.table_scores for key in (score, f"macro_{score}")]
    keys = [key for key in every if any(key in part for part in parts.values())]
    columns = [*(Column(words(key), (INTERVAL,)) for key in keys), Column("ties", repeated=True)]
    rows = []
    for label, part in parts.items():
        cells = [_score_cell(part, key) for key in keys]
        cells += [Cell(percent_cell(part.get("tie_rate"))), Cell(f"{part['n']:,}")]
        rows.append(TableRow(label, tuple(cells)))
    return Table(words(name), (*columns, Column("n", repeated=True)), tuple(rows), is_part=True)


def _score_cell(part: Mapping[str, Any], key: str) -> Cell:
    """A score with its interval and, of several seeds, its standard deviation over them."""
    spread = part.get(f"{key}_std")
    value = percent_cell(part.get(key))
    if spread is not None and value:
        value = f"{value.removesuffix(' %')} ± {percent(spread)} %"
    return Cell(value, (interval_cell(part.get(f"{key}_interval")),))


def _other_scores(result: Result) -> Table | None:
    """The scores of the metric that its table leaves out; those without intervals, such as ranks, are no fractions."""
    whole = result.scores
    keys = [key for key in whole if key not in result.table_scores and _is_score(result, key)]
    if not keys:
        return None
    parts = {**whole.get(_CATEGORIES, {}), _ALL: whole}
    if len(parts) == 2:
        del parts[_ALL]
    rows = []
    for place, part in parts.items():
        cells = (_number_cell(part.get(key), part.get(f"{key}_interval"), f"{key}_interval" in whole) for key in keys)
        rows.append(TableRow(place, tuple(cells), is_average=place == _ALL and len(parts) > 1))
    columns = tuple(Column(words(key), (INTERVAL,)) for key in keys)
    return _with_compact(Table("further scores", columns, tuple(rows), is_part=True))


def _is_score(result: Result, key: str) -> bool:
    value = result.scores[key]
    is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    return is_number and not key.startswith("macro_") and result.spec.score(key) is not None


def _category_numbers(result: Result) -> Table | None:
    """Fractions that the metric gives for each category and that are no scores, such as shares of all errors."""
    parts = result.scores.get(_CATEGORIES, {})
    keys = dict.fromkeys(key for part in parts.values() for key in part if _is_fraction(result, key, parts))
    if not keys:
        return None
    rows = [TableRow(name, tuple(Cell(percent_cell(part.get(key))) for key in keys)) for name, part in parts.items()]
    return Table("by category", tuple(Column(words(key)) for key in keys), tuple(rows), is_part=True)


def _is_fraction(result: Result, key: str, parts: Mapping[str, Mapping[str, Any]]) -> bool:
    if key == "tie_rate" or key.endswith(("_interval", "_std")) or result.spec.score(key) is not None:
        return False
    values = [part.get(key) for part in parts.values()]
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, float) and 0 <= value <= 1 for value in known)
