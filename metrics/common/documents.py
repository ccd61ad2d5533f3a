"""Tables of reports: described once, and written to the terminal, Markdown, LaTeX, notebooks and HTML pages.

A document is a sequence of parts: a `Table`, an `HtmlFigure`, a `Verdict`, a `Fold` of further parts, or a paragraph of
text. `simple_table` makes a table from headings and rows of strings; `Table` itself adds values with details such as
intervals. In HTML, text between backticks is set as code and everything else is escaped; in Markdown no text opens a
tag or a link, unless it is `Markdown`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas

# A terminal keeps at least this much of a row's name, or of a cell of text, on one line.
_SHORTEST_TEXT = 18
# What a terminal draws around the text of a column: a line, and a space on both sides.
_FRAME = 3
INTERVAL = "interval"
# Marks of cells.
BEST, EQUAL = "best", "equal"
_DAGGER = " †"


class Cell(NamedTuple):
    """A table cell: a value as text, with details such as its interval.

    Attributes:
        value: the text.
        details: what belongs to it, such as its interval, in the order of the column's `details`.
        mark: `BEST` for bold, `EQUAL` for a dagger, or empty.
    """

    value: str = ""
    details: tuple[str, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """A table column with its header and format.

    Args:
        header: what the values are.
        details: names of the details of each value: further columns if there is room, else lines below the value.
        repeated: whether each part of a table that is too wide for a terminal has it.
        is_text: whether its cells are text, which is aligned left and may wrap, and not numbers.
        group: what adjacent columns share, such as their task; LaTeX prints it above them.
    """

    header: str
    details: tuple[str, ...] = ()
    repeated: bool = False
    is_text: bool = False
    group: str = ""


@dataclass(frozen=True)
class TableRow:
    """A table row.

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
    """A table with a heading and notes.

    Args:
        title: the heading; empty for none.
        columns: those after the first one, which holds the rows' names.
        rows: its rows.
        note: a paragraph below it.
        is_part: whether it belongs to the table before it; its heading is then one level lower.
        compact: the table for a terminal; by default the same.
        text: a paragraph above it.
        corner: the header of the first column.
        has_details_below: whether all formats print details below their values, instead of in further columns.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    note: str = ""
    is_part: bool = False
    compact: Table | None = None
    text: str = ""
    corner: str = ""
    has_details_below: bool = False


@dataclass(frozen=True)
class HtmlFigure:
    """A figure of an HTML page, such as ``figures.bars_html`` returns; other formats leave it out.

    Args:
        html: trusted HTML, inserted unchanged.
        title: the heading; empty for none.
        text: a paragraph above it.
    """

    html: str
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class Verdict:
    """The conclusion of a document in one or two sentences; `is_warning` if it is unfavourable."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True)
class Fold:
    """Document parts that an HTML page shows when their title is clicked; other formats always show them."""

    title: str
    parts: tuple[Part, ...]


Part = Table | HtmlFigure | Verdict | Fold | str


def simple_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str] | None],
    *,
    title: str = "",
    text: str = "",
    note: str = "",
    numbers: bool = False,
) -> Table:
    """Make a table of strings.

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


def bullets(sentences: Sequence[str]) -> list[Part]:
    """Return sentences as a bulleted list: one Markdown paragraph, or nothing if there are no sentences."""
    return ["\n".join(f"- {sentence}" for sentence in sentences)] if sentences else []


class Markdown(str):
    """A paragraph that is already Markdown, such as a link to a file of a report; `to_markdown` does not escape it."""


class Document(ABC):
    """A result that is shown in a terminal, as Markdown or in a notebook, and converts to a data frame."""

    @abstractmethod
    def parts(self) -> Sequence[Part]:
        """Return the parts to show."""

    @abstractmethod
    def data(self) -> list[dict[str, Any]]:
        """Return the numbers behind the parts: one record for each row of a data frame."""

    def print(self) -> None:
        """Print the document to the terminal."""
        print_tables(self.parts())

    def to_markdown(self) -> str:
        """Return the document as Markdown."""
        return to_markdown(self.parts())

    def to_pandas(self) -> pandas.DataFrame:
        """Return `data` as a data frame."""
        import pandas

        return pandas.DataFrame(self.data())

    def _repr_html_(self) -> str:
        return to_html(self.parts())


def print_tables(parts: Sequence[Part]) -> None:
    """Print a document to the terminal; a table that is too wide is split into parts, and no number is truncated."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, part in enumerate(_unfolded(parts)):
        if isinstance(part, str | Verdict):
            console.print(Text(part) if isinstance(part, str) else Text(part.text, "bold"))
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
    """Convert a document to Markdown.

    Args:
        parts: its parts; figures are left out.
        title: a heading above all of them, one level above theirs.
        level: the heading level of the tables.
    """
    blocks = [f"{'#' * (level - 1)} {in_a_line(title)}"] if title else []
    for part in _unfolded(parts):
        if isinstance(part, str | Verdict):
            blocks.append(_harmless(part) if isinstance(part, str) else f"**{in_a_line(part.text)}**")
        elif isinstance(part, Table):
            heading = f"{'#' * (level + part.is_part)} {in_a_line(part.title)}" if part.title else ""
            text, note = map(_harmless, (part.text, part.note))
            blocks += [block for block in (heading, text, _markdown_table(part), note) if block]
    return "\n\n".join(blocks) + "\n" if blocks else ""


def in_a_line(text: str) -> str:
    """Escape text for Markdown: it stays in its line and table cell, and opens no HTML tag, link or image."""
    return _harmless(text).replace("|", "\\|").replace("\n", " ")


def _harmless(text: str) -> str:
    """Escape text for Markdown: it opens no HTML tag, link or image, and addresses do not become links."""
    if isinstance(text, Markdown):
        return text
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
    return re.sub(r"(\](?=[(\[:])|\b(?:https?|ftp)(?=://)|\bwww(?=\.))", r"\1\\", text, flags=re.IGNORECASE)


def to_latex(tables: Sequence[Table]) -> str:
    """Convert tables to LaTeX, for the packages booktabs and graphicx.

    Each table has a caption above it, and a label from its title: ``tab:toy-scenes-itm``. Wider tables are scaled to
    the line. Details below values, such as intervals, are lines of small type.
    """
    blocks = [r"% Needs \usepackage{booktabs,graphicx}"]
    used: Counter[str] = Counter()
    for table in tables:
        label = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-") or "table"
        used[label] += 1
        label += f"-{used[label]}" if used[label] > 1 else ""
        caption = ". ".join(text.rstrip(".") for text in (table.title, table.text, table.note) if text)
        columns = _columns(table)
        body = [r"\begin{table}", r"\centering", rf"\caption{{{_for_latex(caption)}.}}", rf"\label{{tab:{label}}}"]
        body.append(r"\smallskip\setlength{\tabcolsep}{3pt}")
        body.append(r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%")
        body.append(rf"\begin{{tabular}}{{l{''.join('l' if column.is_text else 'r' for column in columns)}}}")
        body += [r"\toprule", *_latex_headers(table, columns), r"\midrule"]
        for index, (row, starts_group) in enumerate(zip(table.rows, _breaks(table), strict=True)):
            body += [r"\midrule"] * starts_group + _latex_lines(row, columns, index)
        body += [r"\bottomrule", r"\end{tabular}}", r"\end{table}"]
        blocks.append("\n".join(body) + "\n")
    return "\n".join(blocks)


def _latex_headers(table: Table, columns: Sequence[_Text]) -> list[str]:
    """Return the line of headers; if columns have groups, a line of groups with rules comes before it."""
    lines = []
    if any(column.group for column in columns):
        cells, rules, first_column = [""], [], 2
        for group, members in groupby(column.group for column in columns):
            count = len(list(members))
            cells.append(rf"\multicolumn{{{count}}}{{c}}{{{_for_latex(group)}}}")
            rules += [rf"\cmidrule(lr){{{first_column}-{first_column + count - 1}}}"] * bool(group)
            first_column += count
        lines = [" & ".join(cells) + r" \\", "".join(rules)]
    # Words below each other, so that numbers decide how wide a column is.
    headers = [r"\\".join(map(_for_latex, column.header.split())) for column in columns]
    stacked = [rf"\shortstack[r]{{{header}}}" if r"\\" in header else header for header in headers]
    return [*lines, " & ".join([_for_latex(table.corner), *stacked]) + r" \\"]


def _latex_lines(row: TableRow, columns: Sequence[_Text], index: int) -> list[str]:
    """Return the LaTeX lines of a row: the values, and their details in small type below."""
    cells = [column.cells[index] for column in columns]
    forms = {BEST: r"\textbf{{{}}}", EQUAL: r"{}\rlap{{$^\dagger$}}"}
    values = [forms.get(mark, "{}").format(_for_latex(value)) for value, _, mark in cells]
    lines = [" & ".join([_for_latex(row.name), *values]) + r" \\"]
    if any(details for _, details, _ in cells):
        shown = (_for_latex(details.replace(" – ", "–")) for _, details, _ in cells)
        small = [rf"\scriptsize {details}" if details else "" for details in shown]
        lines = [lines[0] + "[-3pt]", " & ".join(["", *small]) + r" \\"]
    return lines


def _unfolded(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield from _unfolded(part.parts) if isinstance(part, Fold) else [part]


def to_html(parts: Sequence[Part], level: int = 4) -> str:
    """Convert a document to an HTML fragment, as notebooks show it; `level` is the heading level of the tables."""
    return _template("parts").render(parts=[_for_html(part) for part in parts], level=level)


def to_page(title: str, parts: Sequence[Part]) -> str:
    """Convert a document to a self-contained HTML page."""
    return _template("page").render(title=title, parts=[_for_html(part) for part in parts], level=2)


class _Text(NamedTuple):
    """A column as text: for each row the value, the details below it, and the mark."""

    header: str
    cells: list[tuple[str, str, str]]
    repeated: bool
    is_text: bool
    group: str = ""

    @property
    def width(self) -> int:
        """The minimum width in a terminal, including borders."""
        texts = (self.full_header, *(text for value, details, _ in self.cells for text in (value, details)))
        longest = max(len(line) for text in texts for line in text.split("\n"))
        has_dagger = any(mark == EQUAL for _, _, mark in self.cells)
        return (min(longest, _SHORTEST_TEXT) if self.is_text else longest) + _FRAME + 2 * has_dagger

    @property
    def full_header(self) -> str:
        """The header, including its group."""
        return f"{self.group} {self.header}".strip()


def _columns(table: Table, *, stacked: bool | None = None) -> list[_Text]:
    """Return the columns as text, with details below the values or as further columns; by default the table decides."""
    stacked = table.has_details_below if stacked is None else stacked
    columns = []
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        texts = [(cell.value, "\n".join(_labelled(column, cell)) if stacked else "", cell.mark) for cell in cells]
        columns.append(_Text(column.header, texts, column.repeated, column.is_text, column.group))
        for number, detail in enumerate(() if stacked else column.details):
            texts = [(cell.details[number] if cell.details else "", "", "") for cell in cells]
            columns.append(_Text(detail, texts, column.repeated, column.is_text))
    return columns


def _labelled(column: Column, cell: Cell) -> list[str]:
    """Return the details of a cell with their names; intervals need no name."""
    details = [(name, text) for name, text in zip(column.details, cell.details, strict=False) if text]
    return [text if name == INTERVAL else f"{name} {text.removesuffix(' %')}" for name, text in details]


def _fitting(table: Table, width: int) -> list[list[_Text]]:
    """Split a table's columns into parts that fit a width; one part if the details fit as columns or below values."""
    longest = max((len(row.name) for row in table.rows), default=0)
    room = width - 1 - _FRAME - min(longest, _SHORTEST_TEXT)
    spread = [_split_header(column) for column in _columns(table, stacked=False)]
    with_details = sum(bool(column.details) for column in table.columns)
    if not table.has_details_below and with_details < 2 and sum(column.width for column in spread) <= room:
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
    return [[*group, *repeated] for group in parts] or [repeated]


def _split_header(column: _Text) -> _Text:
    return column._replace(header=column.full_header.replace(" ", "\n"), group="")


def _for_terminal(columns: Sequence[_Text], table: Table) -> Any:
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable()
    rich_table.add_column(Text(table.corner), overflow="fold")
    for column in columns:
        options: dict[str, Any] = {"overflow": "fold"} if column.is_text else {"justify": "right", "no_wrap": True}
        rich_table.add_column(Text(column.header), **options)
    for index, (row, starts_group) in enumerate(zip(table.rows, _breaks(table), strict=True)):
        if starts_group:
            rich_table.add_section()
        cells = [Text(row.name)]
        for column in columns:
            value, details, mark = column.cells[index]
            text = Text(value + _DAGGER * (mark == EQUAL), "bold" if mark == BEST else "")
            cells.append(text + Text(f"\n{details}" if details else "", "dim"))
        rich_table.add_row(*cells, style="bold" if row.is_average else None)
    return rich_table


def _breaks(table: Table) -> list[bool]:
    """Return for each row whether a line separates it from the previous row."""
    before = [None, *table.rows]
    return [
        last is not None and (row.starts_group or (row.is_average and not last.is_average))
        for last, row in zip(before, table.rows, strict=False)
    ]


def _markdown_table(table: Table) -> str:
    columns = _columns(table)
    alignment = "".join("---|" if column.is_text else "---:|" for column in columns)
    lines = ["| " + " | ".join(map(in_a_line, [table.corner, *(column.full_header for column in columns)])) + " |"]
    lines.append(f"|---|{alignment}")
    for index, row in enumerate(table.rows):
        cells = []
        for column in columns:
            value, details, mark = column.cells[index]
            form = {BEST: "**{}**", EQUAL: f"{{}}{_DAGGER}"}.get(mark, "{}")
            cells.append(form.format(in_a_line(value)) + "<br>" * bool(details) + in_a_line(details))
        lines.append("| " + " | ".join([in_a_line(row.name), *cells]) + " |")
    return "\n".join(lines)


_LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "†": r"$^\dagger$",
    "\n": " ",
}
# What the default fonts of pdflatex have beyond ASCII: Latin letters with accents.
_LATIN = re.compile(r"[À-ÖØ-öø-ž]")


def _for_latex(text: str) -> str:
    """Escape text for LaTeX: hyphens form no dash, and a character that pdflatex rejects becomes its code point."""
    escaped = []
    for before, character in pairwise(f" {text}"):
        if character == before == "-":
            escaped.append("{}")
        is_known = character.isascii() or _LATIN.match(character)
        escaped.append(_LATEX.get(character, character if is_known else f"U+{ord(character):04X}"))
    return "".join(escaped)


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    environment.filters["marked"] = _marked
    return environment.get_template(f"document_{name}.html")


def _marked(text: str) -> Any:
    """Escape text for HTML; text between backticks becomes code and each newline a line break."""
    from markupsafe import Markup, escape

    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(html.replace("\n", "<br>"))


def _for_html(part: Part) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(("title", "text", "note", "html", "verdict", "headers", "parts"), "")
    empty["is_part"] = False
    if isinstance(part, str):
        return {**empty, "text": part}
    if isinstance(part, Verdict):
        return {**empty, "verdict": part.text, "is_warning": part.is_warning}
    if isinstance(part, Fold):
        return {**empty, "summary": part.title, "parts": [_for_html(child) for child in part.parts]}
    if isinstance(part, HtmlFigure):
        return {**empty, **vars(part)}
    columns = _columns(part)
    groups = [(name, len(list(members))) for name, members in groupby(column.group for column in columns)]
    return empty | {
        **{name: getattr(part, name) for name in ("title", "text", "note", "is_part")},
        "groups": groups if any(name for name, _ in groups) else [],
        "headers": [(part.corner, True), *((column.header, column.is_text) for column in columns)],
        "rows": [
            (row.name, [(*column.cells[index], column.is_text) for column in columns])
            for index, row in enumerate(part.rows)
        ],
    }
