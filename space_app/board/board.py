"""The leaderboard's table: models × scores, with filters, sorting, marks and a CSV download."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import unquote

import numpy as np
import pandas
from numpy.typing import NDArray

from ...metrics.common.errors import UnknownNameError
from .entries import ORIGINS, RECOMPUTED, Column, Entry

BEST, TIE, APART = "best", "tie", "reference"
NOT_STATED = "not stated"
SIZES = ("up to 200 M", "200 M to 1 B", "over 1 B", NOT_STATED)
_CSV = (
    *("model", "family", "parameters", "training_data"),
    *("benchmark", "task", "metric", "score", "category", "value", "low", "high", "n"),
    *("origin", "source", "status", "predictions"),
)


class Choice(TypedDict, total=False):
    """Which models to show. All keys are optional; None chooses all.

    Keys:
        search: part of the model's name, case-insensitive.
        families, training_data: as in the entries; `NOT_STATED` for models without.
        sizes: of `SIZES`.
        origins: of ``entries.ORIGINS``.
    """

    search: str
    families: Collection[str] | None
    sizes: Collection[str] | None
    training_data: Collection[str] | None
    origins: Collection[str] | None


class Board:
    """Models × scores.

    A row is a model with one origin: a value that a paper prints and one that was recomputed are never in one row.
    If several entries belong to one cell the first counts, and the first entry of a model gives its family, parameters
    and training data, so a later submission under the same name changes nothing.

    Args:
        entries: in order of precedence.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._cells: dict[Column, dict[tuple[str, str], Entry]] = {}
        rows: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            rows.setdefault((entry.model, entry.origin), entry)
            self._cells.setdefault(entry.column, {}).setdefault((entry.model, entry.origin), entry)
        self._keys = [*rows]
        self._rows = pandas.DataFrame(
            {
                "model": [entry.model for entry in rows.values()],
                "origin": [entry.origin for entry in rows.values()],
                "family": [entry.family for entry in rows.values()],
                "parameters": pandas.array([entry.parameters for entry in rows.values()], dtype="Int64"),
                "training data": [entry.training_data for entry in rows.values()],
                "is_reference": np.array([entry.is_reference for entry in rows.values()], dtype=bool),
            }
        )
        self._values = {
            column: np.array([100 * cells[key].value if key in cells else math.nan for key in rows])
            for column, cells in self._cells.items()
        }
        # What the models are filtered by, see `Choice`.
        self._facts: dict[str, list[str]] = {
            "search": [entry.model.casefold() for entry in rows.values()],
            "families": [entry.family or NOT_STATED for entry in rows.values()],
            "sizes": [_size(entry.parameters) for entry in rows.values()],
            "training_data": [entry.training_data or NOT_STATED for entry in rows.values()],
            "origins": [entry.origin for entry in rows.values()],
        }

    @property
    def columns(self) -> list[Column]:
        """All scores over whole tasks, in the order of the entries."""
        return [column for column in self._cells if not column.category]

    def categories(self, column: Column) -> list[Column]:
        """The columns of the categories of a score."""
        return [other for other in self._cells if other[:4] == column[:4] and other.category]

    def choices(self, name: str) -> list[str]:
        """The values of ``"families"``, ``"sizes"``, ``"training_data"`` or ``"origins"`` to choose from, sorted."""
        known = {"sizes": SIZES, "origins": ORIGINS}.get(name, ())
        found = set(self._facts[name])
        return [value for value in known if value in found] or sorted(
            found, key=lambda text: (text == NOT_STATED, text)
        )

    def table(
        self,
        columns: Sequence[Column],
        *,
        intervals: bool = False,
        sort: Column | str | None = None,
        descending: bool | None = None,
        **choice: Unpack[Choice],
    ) -> pandas.DataFrame:
        """The rows that have a value in at least one of the columns.

        Args:
            columns: which scores, in order.
            intervals: add a column with the text of the interval after each score.
            sort: a column, or ``"model"`` or ``"parameters"``; the first column by default.
            descending: highest first; by default better scores first, and names and parameters ascending.
            choice: which models, see `Choice`. References are filtered by ``search`` and ``origins`` only.

        Returns:
            The columns ``model`` and ``origin``, a column of per cent (float, NaN if missing) under each heading,
            ``family``, ``parameters`` (Int64, NA if not known) and ``training data``. References come last; within
            either part rows without a value in the column of `sort` come last. Texts are not escaped.

        Raises:
            UnknownNameError: a column that the board does not have.
        """
        self._check([*columns, *([sort] if isinstance(sort, Column) else [])])
        order = self._order(self._chosen(columns, choice), sort or (columns[0] if columns else "model"), descending)
        rows = self._rows.iloc[order].reset_index(drop=True)
        data: dict[str, Any] = {"model": rows["model"], "origin": rows["origin"]}
        for column in columns:
            data[column.heading] = self._values[column][order]
            if intervals:
                cells = self._cells[column]
                data[f"{column.heading}, interval"] = [_interval(cells.get(self._keys[number])) for number in order]
        return pandas.DataFrame(data | {name: rows[name] for name in ("family", "parameters", "training data")})

    def marks(
        self,
        frame: pandas.DataFrame,
        columns: Sequence[Column],
        ties: Mapping[Column, Collection[str]] | None = None,
    ) -> pandas.DataFrame:
        """The mark of each cell of a table: `BEST`, `TIE`, `APART` in all cells of a reference, or "".

        The best of a column is the best of the models in the table, references aside; equal ones are all marked.

        Args:
            frame: what `table` returned for these columns.
            columns: which scores.
            ties: for each column the recomputed models that do not differ significantly from its best recomputed
                model, see ``paired.PairedTests.shared``. They get `TIE` if that model is in the table as the best.

        Returns:
            Texts, of the same shape, index and columns as `frame`.
        """
        marks = pandas.DataFrame("", index=frame.index, columns=frame.columns, dtype=object)
        keys = list(zip(frame["model"], frame["origin"], strict=True))
        apart = {key for key, is_reference in zip(self._keys, self._rows["is_reference"], strict=True) if is_reference}
        reference = np.array([key in apart for key in keys], dtype=bool)
        for column in columns:
            values = frame[column.heading].to_numpy(dtype=float, copy=True)
            values[reference] = math.nan
            if np.isnan(values).all():
                continue
            pick = np.nanmax if column.is_higher_better else np.nanmin
            best = values == pick(values)
            marks.loc[best, column.heading] = BEST
            tied = (ties or {}).get(column, ())
            shared = np.array([origin == RECOMPUTED and model in tied for model, origin in keys], dtype=bool)
            compared = [100 * self._cells[column][model, RECOMPUTED].value for model in self.recomputed(column)]
            if compared and pick(compared) in values[shared & best]:
                marks.loc[shared & ~best & ~np.isnan(values), column.heading] = TIE
        marks.loc[reference, :] = APART
        return marks

    def recomputed(self, column: Column) -> dict[str, str]:
        """SHA-256 of the predictions of each recomputed model of a column, references aside."""
        apart = dict(zip(self._keys, self._rows["is_reference"], strict=True))
        return {
            key[0]: entry.predictions
            for key, entry in self._cells.get(column, {}).items()
            if key[1] == RECOMPUTED and entry.predictions and not apart[key]
        }

    def entries(self, column: Column) -> list[Entry]:
        """The entries of a column, in the order of `table`."""
        frame = self.table([column])
        return [self._cells[column][key] for key in zip(frame["model"], frame["origin"], strict=True)]

    def entry(self, column: Column, model: str, origin: str) -> Entry | None:
        """The entry behind a cell, with its source; None if the cell is empty."""
        return self._cells.get(column, {}).get((model, origin))

    def csv(self, columns: Sequence[Column], **choice: Unpack[Choice]) -> str:
        """The entries behind a table as CSV, one per line, with unrounded fractions and sources.

        An apostrophe is put before texts that a spreadsheet would read as formulas.

        Raises:
            UnknownNameError: a column that the board does not have.
        """
        self._check(columns)
        rows = self._order(self._chosen(columns, choice), "", None)
        found = (self._cells[column].get(self._keys[number]) for number in rows for column in columns)
        lines = [_csv_line(entry) for entry in found if entry is not None]
        return pandas.DataFrame(lines, columns=list(_CSV), dtype=object).to_csv(index=False, lineterminator="\n")

    def _check(self, columns: Iterable[Column]) -> None:
        for column in columns:
            if column not in self._cells:
                raise UnknownNameError("column", column.heading, [known.heading for known in self.columns])

    def _chosen(self, columns: Sequence[Column], choice: Choice) -> NDArray[np.bool_]:
        """A mask of the rows that are chosen and have a value in at least one column."""
        search = choice.get("search", "").strip().casefold()
        kept = np.array([search in name for name in self._facts["search"]], dtype=bool)
        for name in ("families", "sizes", "training_data", "origins"):
            wanted = choice.get(name)
            if wanted is not None:
                found = np.array([value in wanted for value in self._facts[name]], dtype=bool)
                kept &= found if name == "origins" else found | self._rows["is_reference"].to_numpy()
        if columns:
            kept &= ~np.all([np.isnan(self._values[column]) for column in columns], axis=0)
        return kept

    def _order(self, kept: NDArray[np.bool_], sort: Column | str, descending: bool | None) -> NDArray[np.intp]:
        """The numbers of the rows that are kept, sorted; with "" in the order of the entries, references last."""
        if isinstance(sort, Column):
            keys: Any = self._values[sort]
            descending = sort.is_higher_better if descending is None else descending
        elif sort in ("model", "parameters", ""):
            keys = {"model": self._facts["search"], "parameters": self._rows["parameters"]}.get(sort, 0)
        else:
            raise UnknownNameError("column to sort by", str(sort), ["model", "parameters", "a column of the board"])
        frame = pandas.DataFrame({"key": keys, "is_reference": self._rows["is_reference"]}).loc[kept]
        return frame.sort_values(by=["is_reference", "key"], ascending=[True, not descending]).index.to_numpy()


def _size(parameters: int | None) -> str:
    if parameters is None:
        return NOT_STATED
    return SIZES[0] if parameters <= 200e6 else SIZES[1] if parameters <= 1e9 else SIZES[2]


def _interval(entry: Entry | None) -> str:
    return f"{100 * entry.interval[0]:.1f} – {100 * entry.interval[1]:.1f}" if entry and entry.interval else ""


def _csv_line(entry: Entry) -> list[Any]:
    low, high = entry.interval or (None, None)
    fields = {**vars(entry), "low": low, "high": high}
    values = (fields[name] for name in _CSV)
    return [f"'{value}" if isinstance(value, str) and _is_formula(value) else value for value in values]


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may read a cell as a formula: it skips blanks and knows full-width signs."""
    start = unicodedata.normalize("NFKC", unquote(text)).lstrip()[:1]
    return text != text.lstrip() or start in ("=", "+", "-", "@", "|", "%")
