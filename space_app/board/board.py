"""The leaderboard's table: models × scores, with filters, sorting, marks and a download."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from ...hub_datasets.core.benchmarks import benchmark_names, get_card
from ...metrics.common.errors import UnknownNameError
from ...metrics.evaluation import words
from ...metrics.modules.discovery import get_spec
from .entries import ORIGINS, RECOMPUTED, Entry

if TYPE_CHECKING:
    import pandas

    from ...metrics.contract.spec import MetricSpec

BEST, TIE, APART = "best", "tie", "reference"
NOT_STATED = "not stated"
SIZES = ("up to 200 M", "200 M to 1 B", "over 1 B", NOT_STATED)
_CSV = (
    *("model", "family", "parameters", "training_data"),
    *("benchmark", "task", "metric", "score", "category", "value", "low", "high", "n"),
    *("origin", "source", "status", "predictions"),
)


class Column(NamedTuple):
    """A score of the board, or of one category where that is not empty."""

    benchmark: str
    task: str
    metric: str
    score: str
    category: str = ""

    @property
    def heading(self) -> str:
        """What a reader sees above it, such as "SugarCrepe itm · macro accuracy"; an arrow where lower is better."""
        what = [f"{_title(self.benchmark)} {words(self.task)}".strip(), _what(self.metric, self.score)]
        arrow = "" if self.is_higher_better else " ↓"
        return " · ".join([*what, *([words(self.category)] if self.category else [])]) + arrow

    @property
    def is_higher_better(self) -> bool:
        """Whether the better model has the higher value; so it is in papers' columns that no metric here computes."""
        spec = _spec(self.metric)
        return spec is None or spec.score(self.score) is None or spec.is_higher_better(self.score)

    @property
    def task_type(self) -> str:
        """What the metric takes, such as "matching"; empty for what no metric here computes."""
        spec = _spec(self.metric)
        return spec.task_type if spec else ""


class Choice(TypedDict, total=False):
    """Which models to show; all of it is optional, and None chooses all.

    Keys:
        search: part of the model's name, in any case.
        families, training_data: as they stand in the entries; `NOT_STATED` for those that have none.
        sizes: of `SIZES`.
        origins: of ``_entries.ORIGINS``.
    """

    search: str
    families: Collection[str] | None
    sizes: Collection[str] | None
    training_data: Collection[str] | None
    origins: Collection[str] | None


class Board:
    """Models × scores, made once of all entries.

    A row is a model of one origin: what a paper prints of a model never stands in the row of what was recomputed of it.
    Of several entries for one cell the first counts, and of a model the first for its family, parameters and training
    data, so that a later submission under a model's name changes nothing of it.

    Args:
        entries: in order of precedence. Those that are withdrawn are the caller's to leave out.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._cells: dict[Column, dict[tuple[str, str], Entry]] = {}
        rows: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            key = (entry.model, entry.origin)
            rows.setdefault(key, entry)
            column = Column(entry.benchmark, entry.task, entry.metric, entry.score, entry.category)
            self._cells.setdefault(column, {}).setdefault(key, entry)
        # References last, where the stable sorts of `table` leave them.
        self._rows = sorted(rows.values(), key=lambda entry: entry.is_reference)
        self._number = {(entry.model, entry.origin): number for number, entry in enumerate(self._rows)}
        self._values = {column: self._vector(cells) for column, cells in self._cells.items()}
        self._is_reference = np.array([entry.is_reference for entry in self._rows], dtype=bool)
        self._facts = {
            "search": np.array([entry.model.casefold() for entry in self._rows], dtype=object),
            "families": np.array([entry.family or NOT_STATED for entry in self._rows], dtype=object),
            "sizes": np.array([_size(entry.parameters) for entry in self._rows], dtype=object),
            "training_data": np.array([entry.training_data or NOT_STATED for entry in self._rows], dtype=object),
            "origins": np.array([entry.origin for entry in self._rows], dtype=object),
        }

    @property
    def columns(self) -> list[Column]:
        """All scores over whole tasks, in the order of the entries."""
        return [column for column in self._cells if not column.category]

    def categories(self, column: Column) -> list[Column]:
        """The columns of the categories of a score."""
        return [other for other in self._cells if other[:4] == column[:4] and other.category]

    def choices(self, name: str) -> list[str]:
        """What one can choose of ``"families"``, ``"sizes"``, ``"training_data"`` or ``"origins"``, sorted."""
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
        """The rows that have a value in some of the columns.

        Args:
            columns: which scores, in order.
            intervals: add the text of the interval after each score.
            sort: a column, or ``"model"`` or ``"parameters"``; the first column by default.
            descending: highest first; by default the better first, and names from A.
            choice: which models, see `Choice`; references stay for comparison, unless ``search`` or ``origins`` leaves
                them out.

        Returns:
            The columns ``model`` and ``origin``, a column of per cent (float, NaN where there is none) under each
            heading, ``family``, ``parameters`` (Int64, missing where not known) and ``training data``. References
            come last, and so does, in either part, what has no value in the column of `sort`. Texts are as they came:
            escape them where they become HTML.

        Raises:
            UnknownNameError: a column that the board does not have.
        """
        import pandas

        self._check([*columns, *([sort] if isinstance(sort, Column) else [])])
        kept = self._chosen(columns, choice)
        order = self._order(kept, sort or (columns[0] if columns else "model"), descending)
        rows = [self._rows[number] for number in order]
        data: dict[str, Any] = {"model": [row.model for row in rows], "origin": [row.origin for row in rows]}
        for column in columns:
            data[column.heading] = 100 * self._values[column][order]
            if intervals:
                data[f"{column.heading}, interval"] = [_interval(self._entry(column, row)) for row in rows]
        data["family"] = [row.family for row in rows]
        data["parameters"] = pandas.array([row.parameters for row in rows], dtype="Int64")
        data["training data"] = [row.training_data for row in rows]
        return pandas.DataFrame(data)

    def marks(
        self,
        frame: pandas.DataFrame,
        columns: Sequence[Column],
        ties: Mapping[Column, Collection[str]] | None = None,
    ) -> pandas.DataFrame:
        """How to set the cells of a table: `BEST`, `TIE`, `APART` for all of a reference's row, or nothing.

        The best of a column is the best of the models that the table shows, references aside; of equal ones all are.

        Args:
            frame: what `table` returned for these columns.
            columns: which scores.
            ties: for each column the recomputed models that are not separable from its best recomputed one, as
                ``_paired.PairedTests.shared`` tells them. Those that are not `BEST` themselves get `TIE`, where that
                one is shown, and as the best.

        Returns:
            Texts, of the same shape, index and columns as `frame`.
        """
        import pandas

        marks = pandas.DataFrame("", index=frame.index, columns=frame.columns, dtype=object)
        keys = list(zip(frame["model"], frame["origin"], strict=True))
        reference = np.array([self._is_reference[self._number[key]] for key in keys], dtype=bool)
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
            compared = [self._cells[column][model, RECOMPUTED].value for model in self.recomputed(column)]
            if compared and 100 * pick(compared) in values[shared & best]:
                marks.loc[shared & ~best & ~np.isnan(values), column.heading] = TIE
        marks.loc[reference, :] = APART
        return marks

    def recomputed(self, column: Column) -> dict[str, str]:
        """SHA-256 of the predictions file of each recomputed model of a column, references aside."""
        return {
            model: entry.predictions
            for (model, origin), entry in self._cells.get(column, {}).items()
            if origin == RECOMPUTED and entry.predictions and not self._is_reference[self._number[model, origin]]
        }

    def entry(self, column: Column, model: str, origin: str) -> Entry | None:
        """The entry behind a cell, with its source; None where there is none."""
        return self._cells.get(column, {}).get((model, origin))

    def csv(self, columns: Sequence[Column], **choice: Unpack[Choice]) -> str:
        """The entries behind a table as CSV, one for each line, with fractions in full and the source of each.

        A text that a spreadsheet would take for a formula gets an apostrophe before it.

        Raises:
            UnknownNameError: a column that the board does not have.
        """
        self._check(columns)
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_CSV)
        for number in np.flatnonzero(self._chosen(columns, choice)):
            for column in columns:
                entry = self._entry(column, self._rows[number])
                if entry is not None:
                    writer.writerow([_harmless(value) for value in _csv_values(entry)])
        return file.getvalue()

    def _vector(self, cells: Mapping[tuple[str, str], Entry]) -> NDArray[np.float64]:
        values = np.full(len(self._number), math.nan)
        for key, entry in cells.items():
            values[self._number[key]] = entry.value
        return values

    def _entry(self, column: Column, row: Entry) -> Entry | None:
        return self._cells[column].get((row.model, row.origin))

    def _check(self, columns: Iterable[Column]) -> None:
        for column in columns:
            if column not in self._cells:
                raise UnknownNameError("column", column.heading, [known.heading for known in self.columns])

    def _chosen(self, columns: Sequence[Column], choice: Choice) -> NDArray[np.bool_]:
        """Which rows are chosen and have a value in some column."""
        search = choice.get("search", "").strip().casefold()
        kept = np.array([search in name for name in self._facts["search"]], dtype=bool)
        for name in ("families", "sizes", "training_data", "origins"):
            wanted = choice.get(name)
            if wanted is not None:
                wanted = set(wanted)
                found = np.array([value in wanted for value in self._facts[name]], dtype=bool)
                kept &= found if name == "origins" else found | self._is_reference
        if columns:
            kept &= ~np.all([np.isnan(self._values[column]) for column in columns], axis=0)
        return kept

    def _order(self, kept: NDArray[np.bool_], sort: Column | str, descending: bool | None) -> NDArray[np.intp]:
        rows = np.flatnonzero(kept)
        if isinstance(sort, Column):
            keys = self._values[sort]
            descending = sort.is_higher_better if descending is None else descending
        elif sort == "parameters":
            keys = np.array([math.nan if row.parameters is None else row.parameters for row in self._rows], dtype=float)
        elif sort == "model":
            keys = np.argsort(np.argsort(self._facts["search"].astype(str), kind="stable")).astype(float)
        else:
            raise UnknownNameError("column to sort by", str(sort), ["model", "parameters", "a column of the board"])
        keys = keys[rows]
        signed = -keys if descending else keys
        return rows[np.lexsort((signed, np.isnan(keys), self._is_reference[rows]))]


def _size(parameters: int | None) -> str:
    if parameters is None:
        return NOT_STATED
    return SIZES[0] if parameters <= 200e6 else SIZES[1] if parameters <= 1e9 else SIZES[2]


def _interval(entry: Entry | None) -> str:
    return f"{100 * entry.interval[0]:.1f} – {100 * entry.interval[1]:.1f}" if entry and entry.interval else ""


def _csv_values(entry: Entry) -> Iterator[Any]:
    low, high = entry.interval or (None, None)
    every = {**vars(entry), "low": low, "high": high}
    return (every[name] for name in _CSV)


def _harmless(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


@cache
def _what(metric: str, score: str) -> str:
    """A score in words; with its metric where the score alone would not tell."""
    spec = _spec(metric)
    text = re.sub(r"\b(ap\d*|f1)\b", lambda match: match[0].upper(), words(score)).replace(" at ", "@")
    return f"{spec.label if spec else ''} {text}".strip()


@cache
def _spec(metric: str) -> MetricSpec | None:
    with suppress(UnknownNameError):
        return get_spec(metric)
    return None


@cache
def _title(benchmark: str) -> str:
    """The benchmark's name in its card where that is short, else its own."""
    if benchmark not in benchmark_names():
        return benchmark
    [title] = re.findall(r"^pretty_name: (.+)$", get_card(benchmark), re.MULTILINE)
    return title if len(title) <= 20 else words(benchmark).capitalize()
