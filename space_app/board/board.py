"""The leaderboard's table: models × scores, with filters, sorting, marks and a CSV download."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypedDict, Unpack
from urllib.parse import unquote

import numpy as np

from ...metrics.common.errors import UnknownNameError
from ...metrics.common.model_sizes import NOT_STATED, SIZES, size_class
from .entries import CHANCE, ORIGINS, RECOMPUTED, REFERENCE, SKILL, BoardColumn, BoardEntry

BEST, TIE = "best", "tie"
_CSV = (
    *("model", "family", "parameters", "training_data"),
    *("benchmark", "task", "metric", "score", "category", "value", "low", "high", "n"),
    *("origin", "source", "status", "predictions"),
)

# What the models are filtered by, see `Choice`.
_FACTS: Mapping[str, Callable[[BoardEntry], str]] = {
    "families": lambda entry: entry.family or NOT_STATED,
    "sizes": lambda entry: size_class(entry.parameters),
    "training_data": lambda entry: entry.training_data or NOT_STATED,
    "origins": lambda entry: entry.origin,
}
_Key = tuple[str, str]  # model and origin


class Choice(TypedDict, total=False):
    """A choice of models to show. All keys are optional; None selects all.

    Keys:
        search: part of the model's name, case-insensitive.
        families, training_data: as in the entries; `NOT_STATED` for models without.
        sizes: of `SIZES`.
        origins: of ``entries.ORIGINS``.
        with_empty: also rows without a value in any of the columns.
    """

    search: str
    families: Collection[str] | None
    sizes: Collection[str] | None
    training_data: Collection[str] | None
    origins: Collection[str] | None
    with_empty: bool


class Board:
    """The table of models × scores.

    A row is a model with one origin: published and recomputed values are never in one row. If several entries belong to
    one cell, the first one counts. The first entry of a model also gives its family, parameters and training data, so a
    later submission under the same name changes nothing.

    Args:
        entries: in order of precedence.
    """

    def __init__(self, entries: Iterable[BoardEntry]) -> None:
        self._cells: dict[BoardColumn, dict[_Key, BoardEntry]] = {}
        self._rows: dict[_Key, BoardEntry] = {}
        for entry in entries:
            key = entry.model, entry.origin
            self._rows.setdefault(key, entry)
            self._cells.setdefault(entry.column, {}).setdefault(key, entry)
        self._parts: dict[tuple[str, ...], list[BoardColumn]] = {}
        for column in self._cells:
            if column.category and not column.category.startswith(SKILL):
                self._parts.setdefault(column[:4], []).append(column)

    @cached_property
    def columns(self) -> list[BoardColumn]:
        """All scores over whole tasks, in the order of the entries."""
        return [column for column in self._cells if not column.category]

    def categories(self, column: BoardColumn) -> list[BoardColumn]:
        """Return the columns for the categories of a score, or of the score that a macro average is based on."""
        columns = self._parts.get(column[:4], [])
        return columns or self._parts.get(column.whole[:4], [])

    def choices(self, name: str) -> list[str]:
        """Return the values of ``"families"``, ``"sizes"``, ``"training_data"`` or ``"origins"`` to choose from."""
        values = set(map(_FACTS[name], self._rows.values()))
        known = {"sizes": SIZES, "origins": ORIGINS}.get(name, (*sorted(values - {NOT_STATED}), NOT_STATED))
        return [value for value in known if value in values]

    def rows(
        self, columns: Sequence[BoardColumn], *, sort: BoardColumn | str | None = None, **choice: Unpack[Choice]
    ) -> list[BoardEntry]:
        """Return the first entry of each row that has a value in at least one of the columns; it has the model's facts.

        Args:
            columns: which scores.
            sort: a column, best value first, or ``"model"`` or ``"parameters"``; the first column by default.
            choice: which models, see `Choice`. References are filtered by ``search`` and ``origins`` only.

        Returns:
            References come last; within either part rows without a value in the column of `sort` come last.

        Raises:
            UnknownNameError: a column that the board does not have.
        """
        keys = self._order(self._chosen(columns, choice), sort or (columns[0] if columns else "model"))
        return [self._rows[key] for key in keys]

    def marks(
        self, rows: Iterable[BoardEntry], column: BoardColumn, tied: Collection[str] = ()
    ) -> dict[tuple[str, str], str]:
        """Return `BEST` or `TIE`, by model and origin, for the rows that are marked in a column.

        The best row is the best of `rows`, without references; equal rows are all marked.

        Args:
            rows: rows that `rows` returned.
            column: which score.
            tied: the recomputed models that do not differ significantly from the best recomputed one, see
                ``paired.PairedTests.shared``. They get `TIE` if that model is among the rows as the best.
        """
        cells = self._cells.get(column, {})
        keys = [(row.model, row.origin) for row in rows if not row.is_reference]
        values = {key: cells[key].value for key in keys if key in cells}
        pick = max if column.is_higher_better else min
        top = pick(values.values(), default=None)
        best = {key: BEST for key, value in values.items() if value == top}
        shared = {(model, RECOMPUTED): TIE for model in tied if (model, RECOMPUTED) in values}
        compared = [cells[model, RECOMPUTED].value for model in self.recomputed(column)]
        return shared | best if best.keys() & shared and top == pick(compared, default=None) else best

    def ranks(self, column: BoardColumn, tied: Collection[str] = ()) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the best and worst possible rank of each model in a column, by model and origin, without references.

        A model ranks above another if their intervals do not overlap. A value without an interval, as papers print it,
        counts as an interval of width zero.

        Args:
            column: which score.
            tied: recomputed models that do not differ significantly from the best one, see `marks`; they may share
                its rank.
        """
        cells = {key: entry for key, entry in self._cells.get(column, {}).items() if not self._rows[key].is_reference}
        sign = 1 if column.is_higher_better else -1
        bounds = [sorted(sign * bound for bound in entry.bounds) for entry in cells.values()]
        low, high = np.array(bounds, dtype=float).reshape(-1, 2).T
        best = 1 + len(low) - np.searchsorted(np.sort(low), high, side="right")
        worst = len(low) - np.searchsorted(np.sort(high), low, side="left")
        tops = [rank for key, rank in zip(cells, best.tolist(), strict=True) if key[1] == RECOMPUTED and key[0] in tied]
        return {
            key: (min(rank, *tops) if key[1] == RECOMPUTED and key[0] in tied else rank, last)
            for key, rank, last in zip(cells, best.tolist(), worst.tolist(), strict=True)
        }

    def count(self, column: BoardColumn) -> int:
        """Return the number of rows that have a value in a column, without references."""
        return sum(not self._rows[key].is_reference for key in self._cells.get(column, ()))

    def models(self, origin: str | None = None) -> list[str]:
        """Return the names of all models, or of those with rows of an origin, in the order of the entries."""
        rows = self._rows.items()
        return list(dict.fromkeys(key[0] for key, row in rows if not row.is_reference and origin in (None, row.origin)))

    def of_model(self, model: str) -> list[BoardEntry]:
        """Return the entries of a model, categories included, in the order of the board."""
        return [entry for cells in self._cells.values() for key, entry in cells.items() if key[0] == model]

    def chance(self, column: BoardColumn) -> float | None:
        """Return the chance level of a column: the board's own, or what the metric declares."""
        entry = self.entry(column, CHANCE, REFERENCE) or self.entry(column.whole, CHANCE, REFERENCE)
        return entry.value if entry else column.chance

    def recomputed(self, column: BoardColumn) -> dict[str, str]:
        """Return the SHA-256 of the predictions of each recomputed model of a column, without references."""
        return {
            key[0]: entry.predictions
            for key, entry in self._cells.get(column, {}).items()
            if key[1] == RECOMPUTED and entry.predictions and not self._rows[key].is_reference
        }

    def entries(self, column: BoardColumn) -> list[BoardEntry]:
        """Return the entries of a column, in the order of `rows`."""
        return [self._cells[column][key] for key in self._order(self._chosen([column], {}), column)]

    def entry(self, column: BoardColumn, model: str, origin: str) -> BoardEntry | None:
        """Return the entry behind a cell, with its source; None if the cell is empty."""
        return self._cells.get(column, {}).get((model, origin))

    def csv(self, columns: Sequence[BoardColumn], **choice: Unpack[Choice]) -> str:
        """Return the entries behind a table as CSV, one per line, with unrounded fractions and sources.

        An apostrophe is put before texts that a spreadsheet would read as formulas.

        Raises:
            UnknownNameError: a column that the board does not have.
        """
        rows = sorted(self._chosen(columns, choice), key=lambda key: self._rows[key].is_reference)
        cells = (self._cells[column].get(key) for key in rows for column in columns)
        return self.csv_of(entry for entry in cells if entry is not None)

    @staticmethod
    def csv_of(entries: Iterable[BoardEntry]) -> str:
        """Return entries as CSV, see `csv`."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_CSV)
        writer.writerows(map(_csv_line, entries))
        return file.getvalue()

    def _check(self, columns: Iterable[BoardColumn]) -> None:
        for column in columns:
            if column not in self._cells:
                raise UnknownNameError("column", column.heading, [known.heading for known in self.columns])

    def _chosen(self, columns: Sequence[BoardColumn], choice: Choice) -> list[_Key]:
        """Return the rows that are chosen and have a value in at least one column."""
        self._check(columns)
        search = choice.get("search", "").strip().casefold()
        is_empty_shown = choice.get("with_empty", False)
        filters = [(name, fact, choice[name]) for name, fact in _FACTS.items() if choice.get(name) is not None]
        return [
            key
            for key, row in self._rows.items()
            if search in row.model.casefold()
            and (not columns or is_empty_shown or any(key in self._cells[column] for column in columns))
            and all(fact(row) in allowed or (row.is_reference and name != "origins") for name, fact, allowed in filters)
        ]

    def _order(self, keys: Sequence[_Key], sort: BoardColumn | str) -> list[_Key]:
        """Return the sorted rows, with rows without a value after the others and references last."""
        is_descending = isinstance(sort, BoardColumn) and sort.is_higher_better
        if isinstance(sort, BoardColumn):
            self._check([sort])
            values: dict[_Key, Any] = {key: entry.value for key, entry in self._cells[sort].items()}
        elif sort == "model":
            values = {key: key[0].casefold() for key in keys}
        elif sort == "parameters":
            values = {key: self._rows[key].parameters for key in keys if self._rows[key].parameters is not None}
        else:
            raise UnknownNameError("column to sort by", str(sort), ["model", "parameters", "a column of the board"])
        ordered = sorted((key for key in keys if key in values), key=values.__getitem__, reverse=is_descending)
        ordered += [key for key in keys if key not in values]
        return sorted(ordered, key=lambda key: self._rows[key].is_reference)


def _csv_line(entry: BoardEntry) -> list[Any]:
    low, high = entry.interval or (None, None)
    fields = {**vars(entry), "low": low, "high": high}
    values = (fields[name] for name in _CSV)
    return [f"'{value}" if isinstance(value, str) and _is_formula(value) else value for value in values]


def _is_formula(text: str) -> bool:
    """Return whether a spreadsheet may read a cell as a formula; spreadsheets skip blanks and know full-width signs."""
    start = unicodedata.normalize("NFKC", unquote(text)).lstrip()[:1]
    return text != text.lstrip() or start in ("=", "+", "-", "@", "|", "%")
