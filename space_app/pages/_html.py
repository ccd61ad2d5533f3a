"""Plain tables in the leaderboard's style; see ``_tables`` for the board itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(heads: Sequence[str], lines: Iterable[str], *, wide: str = "") -> str:
    """A table as HTML.

    Args:
        heads: texts above the columns.
        lines: what `line` gave.
        wide: the head of the column whose cells are texts.
    """
    of = {wide: " class='wide'"}
    head = "".join(f"<th scope='col'{of.get(text, '')}>{escape(text)}</th>" for text in heads)
    return (
        f"<div class='assay-board'><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def line(name: str, cells: Iterable[str]) -> str:
    """A line of a table: its name, a text that may wrap, and cells as `cell` gives them."""
    style = "white-space: normal; overflow-wrap: anywhere"
    return f"<tr><th scope='row' style='{style}'>{escape(name)}</th>{''.join(cells)}</tr>"


def cell(text: str) -> str:
    """A cell that holds a text."""
    return f"<td>{escape(text)}</td>"


def texts_cell(texts: Iterable[str]) -> str:
    """A cell that holds texts, one below the other."""
    return f"<td class='wide'>{'<br>'.join(map(escape, texts))}</td>"


def note(text: str) -> str:
    """A remark below a table."""
    return f"<p class='assay-legend'>{escape(text)}</p>"
