"""The values that papers print, as numbers and as a table."""

from __future__ import annotations

from ....hub_datasets.published.tables import NOTHING, Row, Table
from ....metrics.common.documents import Part, simple_table


def values_of(table: Table, row: Row) -> dict[str, float]:
    """The printed values of a row by column, without deviations, as they are printed."""
    cells = zip(table.columns, row.printed, strict=True)
    return {column.name: float(text.partition("±")[0]) for column, text in cells if text != NOTHING}


def printed_table(table: Table) -> Part:
    """A table as the paper prints it, by row."""
    headings = ("", *(column.name for column in table.columns))
    return simple_table(headings, [(row.name, *row.printed) for row in table.rows], title="As printed")
