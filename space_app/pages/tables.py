"""The leaderboard's table as HTML: the model stays in view, the best is bold, what ties with it is marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..board.board import APART, BEST, TIE, Board, Column
from ..board.entries import PUBLISHED

if TYPE_CHECKING:
    import pandas

# Of so many rows a browser lays out a table at once.
ROWS_AT_ONCE = 100
CSS = """
.assay-board { overflow: auto; max-height: 75vh; border: 1px solid var(--border-color-primary); border-radius: 8px; }
.assay-board table { border-collapse: separate; border-spacing: 0; width: max-content; min-width: 100%;
  margin: 0 !important; padding: 0 !important; border: 0 !important; }
#board .html-container { padding: 0; }
.assay-board th, .assay-board td { padding: 6px 10px; text-align: right; white-space: nowrap; font-size: 14px;
  color: var(--body-text-color); background: var(--background-fill-primary);
  border: 0; border-bottom: 1px solid var(--border-color-primary); font-weight: normal; }
.assay-board thead th { position: sticky; top: 0; z-index: 2; white-space: normal; min-width: 92px; max-width: 150px;
  vertical-align: bottom; background: var(--background-fill-secondary); }
.assay-board thead button { all: unset; cursor: pointer; color: inherit; }
.assay-board thead button:focus-visible { outline: 2px solid var(--color-accent); }
.assay-board th:first-child { position: sticky; left: 0; z-index: 1; text-align: left; max-width: 40vw;
  overflow: hidden; text-overflow: ellipsis; border-right: 1px solid var(--border-color-primary); }
.assay-board thead th:first-child { z-index: 3; }
.assay-board .best { font-weight: bold; }
.assay-board .wide { white-space: normal; text-align: left; min-width: 240px; }
.assay-board .interval { display: block; font-size: 11px; opacity: 0.75; }
.assay-board .reference th, .assay-board .reference td { font-style: italic;
  background: var(--background-fill-secondary); }
.assay-board .paper { opacity: 0.75; font-size: 11px; }
.assay-legend { font-size: 13px; color: var(--body-text-color-subdued); margin: 4px 0; }
"""
# A click on a heading sorts by it.
JS = """
element.addEventListener('click', (event) => {
  const heading = event.target.closest('button[data-column]');
  if (heading) trigger('click', {column: heading.dataset.column});
});
"""
LEGEND = """<p class='assay-legend'><b>Bold</b>: the best of the rows shown. <b>=</b>: cannot be told from the best
recomputed model at the 5 % level (paired permutation tests over images, corrected by Holm for the number of models).
<b>†</b>: printed in a paper, not recomputed. Italics: references. Point at a number to read where it is from.</p>"""


def board_html(
    board: Board,
    frame: pandas.DataFrame,
    marks: pandas.DataFrame,
    columns: Sequence[Column],
    sort: Column | str | None = None,
    *,
    intervals: bool = False,
    most: int | None = ROWS_AT_ONCE,
) -> str:
    """A table of what ``Board.table`` returned, with a legend; every text from outside is escaped.

    Args:
        board: for the source of each number.
        frame, marks, columns: what is shown.
        sort: by which column the rows are sorted.
        intervals: whether the frame has them.
        most: how many rows at the most; None for all.
    """
    heads = [_heading("model", "model", sort == "model")]
    heads += [
        _heading(str(number), column.heading, column == sort, lower=not column.is_higher_better)
        for number, column in enumerate(columns)
    ]
    heads.append(_heading("parameters", "parameters", sort == "parameters"))
    heads += ["<th scope='col'>family</th>", "<th scope='col'>training data</th>"]
    shown = frame if most is None else frame.head(most)
    lines = [
        _line(board, row, mark, columns, intervals)
        for row, mark in zip(shown.to_dict("records"), marks.head(len(shown)).to_dict("records"), strict=True)
    ]
    left = len(frame) - len(shown)
    note = f"<p class='assay-legend'>{left:,} more rows: narrow the choice, or show all rows.</p>" if left else ""
    empty = "" if lines else "<p class='assay-legend'>No model has these scores and passes these filters.</p>"
    table = f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div class='assay-board' tabindex='0'>{table}</div>{empty}{note}{LEGEND}"


def _heading(key: str, text: str, is_sorted: bool, *, lower: bool = False) -> str:
    order = f" aria-sort='{'ascending' if lower or key == 'model' else 'descending'}'" if is_sorted else ""
    mark = " ●" if is_sorted else ""
    return f"<th scope='col'{order}><button data-column='{escape(key)}'>{escape(text)}{mark}</button></th>"


def _line(board: Board, row: dict[str, Any], mark: dict[str, Any], columns: Sequence[Column], intervals: bool) -> str:
    name, origin = row["model"], row["origin"]
    paper = " <span class='paper' title='printed in a paper, not recomputed'>†</span>" if origin == PUBLISHED else ""
    cells = [f"<th scope='row' title='{escape(name)}'>{escape(name)}{paper}</th>"]
    cells += [_cell(board, row, mark, column, intervals) for column in columns]
    size = row["parameters"]
    cells.append(f"<td>{'' if _is_missing(size) else f'{size / 1e6:,.0f} M'}</td>")
    cells += [f"<td>{escape(row[key])}</td>" for key in ("family", "training data")]
    kind = " class='reference'" if mark["model"] == APART else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _cell(board: Board, row: dict[str, Any], mark: dict[str, Any], column: Column, intervals: bool) -> str:
    value = row[column.heading]
    if _is_missing(value):
        return "<td></td>"
    entry = board.entry(column, row["model"], row["origin"])
    source = escape(entry.source) if entry else ""
    set_as = " class='best'" if mark[column.heading] == BEST else ""
    tie = " =" if mark[column.heading] == TIE else ""
    text = row.get(f"{column.heading}, interval", "") if intervals else ""
    interval = f"<span class='interval'>{escape(text)}</span>" if text else ""
    return f"<td{set_as} title='{source}'>{value:.1f}{tie}{interval}</td>"


def _is_missing(value: Any) -> bool:
    import pandas

    return value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value))
