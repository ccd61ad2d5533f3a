"""Tables as text: for the terminal, Markdown, LaTeX and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple

# Of a name that is longer, so many characters stay on a line before a terminal breaks it.
_SHORTEST_NAME = 18
# What a terminal draws around the text of a column: a line, and a space on both sides.
_FRAME = 3
INTERVAL = "interval"


class Cell(NamedTuple):
    """A value as text, and what belongs to it, such as its interval, in the order of the column's `details`."""

    value: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of values.

    Args:
        header: what the values are.
        details: what belongs to each value: columns of their own where there is room, or lines below the value.
        repeated: whether each part of a table that is too wide for a terminal has it.
    """

    header: str
    details: tuple[str, ...] = ()
    repeated: bool = False


@dataclass(frozen=True)
class TableRow:
    """A row: its name, a cell for each column, and whether it is an average of the rows before."""

    name: str
    cells: tuple[Cell, ...]
    is_average: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its title and what there is to know of it.

    Args:
        title: what it shows, in a line.
        columns: those after the first one, which has the rows' names.
        rows: its rows.
        note: how its numbers were made.
        is_part: whether it belongs to the table before it, so that its title is less of a heading.
        compact: the same for a terminal; None where that is the table itself.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    is_part: bool = False
    compact: Table | None = None


def transposed(table: Table, rows: Sequence[TableRow]) -> Table:
    """A table with a row for each column; of its rows those given become columns, the first with its details."""
    first = rows[0]
    details = table.columns[0].details
    return replace(
        table,
        columns=(Column(first.name, details), *(Column(row.name.replace("_", " ")) for row in rows[1:])),
        rows=tuple(
            TableRow(column.header, (first.cells[place], *(Cell(row.cells[place].value) for row in rows[1:])))
            for place, column in enumerate(table.columns)
        ),
        compact=None,
    )


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables to the terminal, in parts where they are too wide for it: no column is cut."""
    from rich.console import Console
    from rich.markup import escape as escape_markup

    console = Console(highlight=False)
    for place, table in enumerate(tables):
        shown = table.compact or table
        if place and not shown.is_part:
            console.print()
        console.print(escape_markup(shown.title), style="italic")
        for part in _fitting(shown, console.width):
            console.print(_for_terminal(part, shown))
        if shown.note:
            console.print(escape_markup(shown.note), style="dim italic")


def to_markdown(tables: Sequence[Table]) -> str:
    """Tables as Markdown, each under a heading."""
    blocks = []
    for table in tables:
        headers, *rows = _spread(table)
        lines = ["| " + " | ".join(map(_for_markdown, headers)) + " |", "|---" + "|---:" * (len(headers) - 1) + "|"]
        lines += ["| " + " | ".join(map(_for_markdown, row)) + " |" for row in rows]
        note = f"\n\n{table.note}" if table.note else ""
        heading = "####" if table.is_part else "###"
        blocks.append(f"{heading} {table.title}\n\n" + "\n".join(lines) + f"{note}\n")
    return "\n".join(blocks)


def to_latex(tables: Sequence[Table]) -> str:
    """Tables as LaTeX, for the package booktabs."""
    blocks, heading = [], ""
    for table in tables:
        heading = heading if table.is_part else table.title
        title = f"{heading}, {table.title}" if table.is_part else table.title
        headers, *rows = _spread(table)
        body = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(headers) - 1)}}}", r"\toprule"]
        body += [" & ".join(map(_for_latex, headers)) + r" \\", r"\midrule"]
        for row, starts_averages in zip(rows, _breaks(table), strict=True):
            body += [r"\midrule"] * starts_averages
            body.append(" & ".join(map(_for_latex, row)) + r" \\")
        body += [r"\bottomrule", r"\end{tabular}"]
        caption = ". ".join(text.rstrip(".") for text in (title, table.note) if text)
        body += [rf"\caption{{{_for_latex(caption)}.}}", r"\end{table}"]
        blocks.append("\n".join(body) + "\n")
    return "\n".join(blocks)


def to_html(tables: Sequence[Table]) -> str:
    """Tables as HTML, for notebooks."""
    blocks = []
    for table in tables:
        headers, *rows = _spread(table)
        head = "".join(f"<th>{escape(header)}</th>" for header in headers)
        body = "".join(
            f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
            for row in rows
        )
        heading = "h5" if table.is_part else "h4"
        note = f"<p><small>{escape(table.note)}</small></p>" if table.note else ""
        blocks.append(
            f"<{heading}>{escape(table.title)}</{heading}>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
        )
    return "".join(blocks)


class _Text(NamedTuple):
    """A column as text: its header, its cells, and whether each part of a wide table has it."""

    header: str
    cells: list[str]
    repeated: bool

    @property
    def width(self) -> int:
        """The width in a terminal, with what is drawn around it."""
        return max(len(line) for text in (self.header, *self.cells) for line in text.split("\n")) + _FRAME


def _spread(table: Table) -> Iterator[list[str]]:
    """The headers and then the rows, every detail in a column of its own."""
    columns = _columns(table, stacked=False)
    yield ["", *(column.header for column in columns)]
    for place, row in enumerate(table.rows):
        yield [row.name, *(column.cells[place] for column in columns)]


def _columns(table: Table, *, stacked: bool) -> list[_Text]:
    """The columns as text, details below their values or in columns of their own."""
    found = []
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        if stacked:
            texts = ["\n".join([cell.value, *_labelled(column, cell)]) for cell in cells]
            found.append(_Text(column.header, texts, column.repeated))
            continue
        found.append(_Text(column.header, [cell.value for cell in cells], column.repeated))
        for number, detail in enumerate(column.details):
            texts = [cell.details[number] if cell.details else "" for cell in cells]
            found.append(_Text(detail, texts, column.repeated))
    return found


def _labelled(column: Column, cell: Cell) -> list[str]:
    """The details of a cell, without a sign of per cent; each says what it is, but for intervals, as one sees it."""
    named = zip(column.details, cell.details, strict=False)
    return [text if name == INTERVAL or not text else f"{name} {text.removesuffix(' %')}" for name, text in named]


def _fitting(table: Table, width: int) -> list[list[_Text]]:
    """The columns of each part of a table that fits a width: one part where details fit beside or below the values."""
    longest = max((len(row.name) for row in table.rows), default=0)
    room = width - 1 - _FRAME - min(longest, _SHORTEST_NAME)
    spread = [_split_header(column) for column in _columns(table, stacked=False)]
    with_details = sum(bool(column.details) for column in table.columns)
    if with_details < 2 and sum(column.width for column in spread) <= room:
        return [spread]
    columns = [_split_header(column) for column in _columns(table, stacked=True)]
    room -= sum(column.width for column in columns if column.repeated)
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
    repeated = [column for column in columns if column.repeated]
    return [[*part, *repeated] for part in parts] or [repeated]


def _split_header(column: _Text) -> _Text:
    return column._replace(header=column.header.replace(" ", "\n"))


def _for_terminal(columns: Sequence[_Text], table: Table) -> object:
    from rich.markup import escape as escape_markup
    from rich.table import Table as RichTable

    found = RichTable()
    found.add_column("", overflow="fold")
    for column in columns:
        found.add_column(escape_markup(column.header), justify="right", no_wrap=True)
    for place, (row, starts_averages) in enumerate(zip(table.rows, _breaks(table), strict=True)):
        if starts_averages:
            found.add_section()
        cells = (escape_markup(text) for text in (row.name, *(column.cells[place] for column in columns)))
        found.add_row(*cells, style="bold" if row.is_average else None)
    return found


def _breaks(table: Table) -> list[bool]:
    """For each row whether the averages start there."""
    flags = [row.is_average for row in table.rows]
    return [place > 0 and flag and not flags[place - 1] for place, flag in enumerate(flags)]


def _for_markdown(text: str) -> str:
    return text.replace("|", "\\|")


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
    }
)


def _for_latex(text: str) -> str:
    return text.translate(_LATEX)
