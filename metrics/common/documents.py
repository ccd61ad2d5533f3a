"""Tables of reports: described once, and written to the terminal, Markdown, LaTeX, notebooks and HTML pages.

A document is a sequence of parts: a `Table`, an `HtmlFigure`, or a paragraph of text. `simple_table` makes a table from
headings and rows of strings; `Table` itself adds values with details such as intervals. In HTML, text between backticks
is set as code and everything else is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# A terminal keeps at least this much of a row's name, or of a cell of text, on one line.
_SHORTEST_TEXT = 18
# What a terminal draws around the text of a column: a line, and a space on both sides.
_FRAME = 3
INTERVAL = "interval"


class Cell(NamedTuple):
    """A value as text, and its details, such as its interval, in the order of the column's `details`."""

    value: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of values.

    Args:
        header: what the values are.
        details: what belongs to each value: columns of their own where there is room, else lines below the value.
        repeated: whether each part of a table that is too wide for a terminal has it.
        is_text: whether its cells are text, which is aligned left and may wrap, and not numbers.
    """

    header: str
    details: tuple[str, ...] = ()
    repeated: bool = False
    is_text: bool = False


@dataclass(frozen=True)
class TableRow:
    """A row of a table.

    Args:
        name: the cell of the first column.
        cells: one for each column.
        is_average: whether it averages the rows before; averages are bold in a terminal, below a line.
        starts_group: whether a line separates it from the row before.
    """

    name: str
    cells: tuple[Cell, ...]
    is_average: bool = False
    starts_group: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its heading and notes.

    Args:
        title: the heading; empty for none.
        columns: those after the first one, which holds the rows' names.
        rows: its rows.
        note: a paragraph below it.
        is_part: whether it belongs to the table before it, and so has a heading one level below.
        compact: the table for a terminal; by default the same.
        text: a paragraph above it.
        corner: the header of the first column.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    is_part: bool = False
    compact: Table | None = None
    text: str = ""
    corner: str = ""


@dataclass(frozen=True)
class HtmlFigure:
    """A figure of an HTML page, such as ``figures.as_fragment`` returns; other formats leave it out.

    Args:
        html: trusted HTML, inserted as it is.
        title: the heading; empty for none.
        text: a paragraph above it.
    """

    html: str
    title: str = ""
    text: str = ""


Part = Table | HtmlFigure | str


def simple_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str] | None],
    *,
    title: str = "",
    text: str = "",
    note: str = "",
    numbers: bool = False,
) -> Table:
    """A table of strings.

    Args:
        headings: one for each column.
        rows: cells in the order of the headings; None for a line between groups of rows.
        title, text, note: see `Table`.
        numbers: whether all but the first column hold numbers, which are aligned right and do not wrap.
    """
    made, starts_group = [], False
    for row in rows:
        if row is None:
            starts_group = bool(made)
            continue
        made.append(TableRow(row[0], tuple(map(Cell, row[1:])), starts_group=starts_group))
        starts_group = False
    columns = tuple(Column(heading, is_text=not numbers) for heading in headings[1:])
    return Table(title, columns, tuple(made), note, text=text, corner=headings[0])


def print_tables(parts: Sequence[Part]) -> None:
    """Print a document to the terminal; a table too wide for it is printed in parts, with no number cut."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, part in enumerate(parts):
        if isinstance(part, str):
            console.print(Text(part))
        if not isinstance(part, Table):
            continue
        shown = part.compact or part
        if number and not shown.is_part:
            console.print()
        for paragraph, style in ((shown.title, "italic"), (shown.text, "")):
            if paragraph:
                console.print(Text(paragraph, style))
        for columns in _fitting(shown, console.width):
            console.print(_for_terminal(columns, shown))
        if shown.note:
            console.print(Text(shown.note, "dim italic"))


def to_markdown(parts: Sequence[Part], title: str = "", level: int = 3) -> str:
    """A document as Markdown.

    Args:
        parts: its parts; paragraphs are taken as Markdown, as they are, and figures left out.
        title: a heading above all of them, one level above theirs.
        level: that of the tables' headings.
    """
    blocks = [f"{'#' * (level - 1)} {in_a_line(title)}"] if title else []
    for part in parts:
        if isinstance(part, str):
            blocks.append(part)
        elif isinstance(part, Table):
            heading = f"{'#' * (level + part.is_part)} {in_a_line(part.title)}" if part.title else ""
            blocks += [block for block in (heading, part.text, _markdown_table(part), part.note) if block]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def in_a_line(text: str) -> str:
    """Text for Markdown that stays within its line and table cell, and opens no HTML tag, link or image."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text.replace("|", "\\|").replace("](", "]\\(").replace("\n", " "))


def to_latex(tables: Sequence[Table]) -> str:
    """Tables as LaTeX, for the package booktabs."""
    blocks, heading = [], ""
    for table in tables:
        heading = heading if table.is_part else table.title
        title = f"{heading}, {table.title}" if table.is_part else table.title
        headers, *rows = _spread(table)
        alignment = "".join("l" if column.is_text else "r" for column in _columns(table, stacked=False))
        body = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{alignment}}}", r"\toprule"]
        body += [" & ".join(map(_for_latex, headers)) + r" \\", r"\midrule"]
        for row, starts_group in zip(rows, _breaks(table), strict=True):
            body += [r"\midrule"] * starts_group
            body.append(" & ".join(map(_for_latex, row)) + r" \\")
        body += [r"\bottomrule", r"\end{tabular}"]
        caption = ". ".join(text.rstrip(".") for text in (title, table.text, table.note) if text)
        body += [rf"\caption{{{_for_latex(caption)}.}}", r"\end{table}"]
        blocks.append("\n".join(body) + "\n")
    return "\n".join(blocks)


def to_html(parts: Sequence[Part], level: int = 4) -> str:
    """A document as an HTML fragment, as notebooks show it; `level` is that of its headings."""
    return _template("parts").render(parts=[_for_html(part) for part in parts], level=level)


def to_page(title: str, parts: Sequence[Part]) -> str:
    """A document as one HTML page that needs no other file."""
    return _template("page").render(title=title, parts=[_for_html(part) for part in parts], level=2)


class _Text(NamedTuple):
    """A column as text."""

    header: str
    cells: list[str]
    repeated: bool
    is_text: bool

    @property
    def width(self) -> int:
        """The least width in a terminal, with what is drawn around it."""
        longest = max(len(line) for text in (self.header, *self.cells) for line in text.split("\n"))
        return (min(longest, _SHORTEST_TEXT) if self.is_text else longest) + _FRAME


def _spread(table: Table) -> Iterator[list[str]]:
    """The headers and then the rows, every detail in a column of its own."""
    columns = _columns(table, stacked=False)
    yield [table.corner, *(column.header for column in columns)]
    for index, row in enumerate(table.rows):
        yield [row.name, *(column.cells[index] for column in columns)]


def _columns(table: Table, *, stacked: bool) -> list[_Text]:
    """The columns as text, details below their values or in columns of their own."""
    found = []
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        texts = ["\n".join([cell.value, *_labelled(column, cell)]) if stacked else cell.value for cell in cells]
        found.append(_Text(column.header, texts, column.repeated, column.is_text))
        for number, detail in enumerate(() if stacked else column.details):
            texts = [cell.details[number] if cell.details else "" for cell in cells]
            found.append(_Text(detail, texts, column.repeated, column.is_text))
    return found


def _labelled(column: Column, cell: Cell) -> list[str]:
    """The details of a cell with their names, which intervals do not need."""
    named = zip(column.details, cell.details, strict=False)
    return [text if name == INTERVAL or not text else f"{name} {text.removesuffix(' %')}" for name, text in named]


def _fitting(table: Table, width: int) -> list[list[_Text]]:
    """The columns of each part of a table that fits a width; one part where details fit in columns or below values."""
    longest = max((len(row.name) for row in table.rows), default=0)
    room = width - 1 - _FRAME - min(longest, _SHORTEST_TEXT)
    spread = [_split_header(column) for column in _columns(table, stacked=False)]
    with_details = sum(bool(column.details) for column in table.columns)
    if with_details < 2 and sum(column.width for column in spread) <= room:
        return [spread]
    columns = [_split_header(column) for column in _columns(table, stacked=True)]
    repeated = [column for column in columns if column.repeated]
    room -= sum(column.width for column in repeated)
    parts: list[list[_Text]] = []
    left = 0
    for column in columns:
        if column.repeated:
            continue
        if column.width > left or not parts:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= column.width
    return [[*part, *repeated] for part in parts] or [repeated]


def _split_header(column: _Text) -> _Text:
    return column._replace(header=column.header.replace(" ", "\n"))


def _for_terminal(columns: Sequence[_Text], table: Table) -> Any:
    from rich.table import Table as RichTable
    from rich.text import Text

    found = RichTable()
    found.add_column(Text(table.corner), overflow="fold")
    for column in columns:
        options: dict[str, Any] = {"overflow": "fold"} if column.is_text else {"justify": "right", "no_wrap": True}
        found.add_column(Text(column.header), **options)
    for index, (row, starts_group) in enumerate(zip(table.rows, _breaks(table), strict=True)):
        if starts_group:
            found.add_section()
        cells = (Text(text) for text in (row.name, *(column.cells[index] for column in columns)))
        found.add_row(*cells, style="bold" if row.is_average else None)
    return found


def _breaks(table: Table) -> list[bool]:
    """For each row whether a line separates it from the row before."""
    before = [None, *table.rows]
    return [
        last is not None and (row.starts_group or (row.is_average and not last.is_average))
        for last, row in zip(before, table.rows, strict=False)
    ]


def _markdown_table(table: Table) -> str:
    headers, *rows = _spread(table)
    alignment = "".join("---|" if column.is_text else "---:|" for column in _columns(table, stacked=False))
    lines = ["| " + " | ".join(map(in_a_line, row)) + " |" for row in (headers, *rows)]
    return "\n".join([lines[0], f"|---|{alignment}", *lines[1:]])


_LATEX = str.maketrans(
    {
        **{character: "\\" + character for character in "&%$#_{}"},
        "\\": r"\textbackslash ",
        "~": r"\textasciitilde ",
        "^": r"\textasciicircum ",
        "<": r"\textless ",
        ">": r"\textgreater ",
        "±": r"$\pm$",
        "−": "$-$",
        "–": "--",
        "\n": " ",
    }
)


def _for_latex(text: str) -> str:
    return text.translate(_LATEX)


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    environment.filters["marked"] = _marked
    return environment.get_template(f"document_{name}.html")


def _marked(text: str) -> Any:
    """Text escaped for HTML, with code between backticks and a line break for each newline."""
    from markupsafe import Markup, escape

    found = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(found.replace("\n", "<br>"))


def _for_html(part: Part) -> dict[str, Any]:
    empty = {"title": "", "text": "", "note": "", "html": "", "is_part": False, "headers": []}
    if isinstance(part, str):
        return {**empty, "text": part}
    if isinstance(part, HtmlFigure):
        return {**empty, "title": part.title, "text": part.text, "html": part.html}
    headers, *rows = _spread(part)
    found = {"title": part.title, "text": part.text, "note": part.note, "is_part": part.is_part}
    is_text = [column.is_text for column in _columns(part, stacked=False)]
    return {**empty, **found, "headers": headers, "rows": rows, "is_text": is_text}
