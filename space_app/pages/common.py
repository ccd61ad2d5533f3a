"""Code shared by the pages: HTML from templates, which escape every text, and options of gradio's events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...metrics import common as metrics_common
from ...metrics.common.figures import COLOURS
from ...metrics.common.formatting import interval, p_value, percent, points, words
from ...metrics.results.errors.cards import styles
from ..board.board import Board
from ..board.entries import BoardColumn

# For events that take milliseconds.
QUIET: dict[str, Any] = {"show_progress": "hidden", "queue": False, "api_visibility": "private"}
# What `Blocks.load` needs for a page: a function, its inputs and its outputs.
OnOpen = tuple[Callable[..., Any], Any, Any]


def size_text(parameters: int) -> str:
    """Return a number of parameters, such as "151 M" or "1.4 B".

    >>> size_text(151_277_313), size_text(1_367_000_000)
    ('151 M', '1.4 B')
    """
    return f"{parameters / 1e9:.1f} B" if parameters >= 1e9 else f"{parameters / 1e6:,.0f} M"


def address_of(tab: str, **choices: Sequence[str]) -> str:
    """Return the address of a tab with some choices, in the form that the browser writes when a visitor makes them."""
    return "?" + urlencode([("tab", tab), *((name, value) for name, values in choices.items() for value in values)])


_TEMPLATES = Path(__file__).with_name("templates")
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_ENVIRONMENT.filters |= {
    **{function.__name__: function for function in (interval, p_value, percent, points, words)},
    "size": size_text,
}
_ENVIRONMENT.globals["address_of"] = address_of
_TOKENS = files(metrics_common).joinpath("tokens.css").read_text(encoding="utf-8")
_COLOURS = " ".join(f"--assay-model-{number}: {colour};" for number, colour in enumerate(COLOURS))
CSS = f"{_TOKENS}:root {{ {_COLOURS} }}\n" + "".join(
    [*((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "pages.css")), styles()]
)


def render(template: str, **values: Any) -> Markup:
    """Render a template filled with values; all texts except `Markup` are escaped."""
    return Markup(_ENVIRONMENT.get_template(template).render(values))


def table(
    heads: Sequence[str], lines: Iterable[tuple[str, Sequence[Any]]], *, title: str = "", note: str = ""
) -> Markup:
    """Render a table as HTML.

    Args:
        heads: the headings.
        lines: for each line its name and its cells; a cell is a text, or a list of texts to put below each other.
        title: a heading above the table.
        note: a remark below it.
    """
    return render("table.html", heads=heads, lines=list(lines), title=title, note=note)


def note(text: str) -> Markup:
    """Render a remark."""
    return Markup('<p class="assay-legend">{}</p>').format(text)


def message(text: str, *, is_error: bool = False) -> Markup:
    """Render a message that answers a click."""
    kind = ("assay-message bad", "alert") if is_error else ("assay-message", "status")
    return Markup('<div class="{}" role="{}">{}</div>').format(*kind, text)


def known_once(values: Iterable[str | None] | None, known: Collection[str], most: int = 100) -> list[str]:
    """Return the known values of a request, each once, at most `most`; a request may repeat them endlessly."""
    return [value for value in dict.fromkeys(values or ()) if value is not None and value in known][:most]


def columns_of(board: Board, headings: Iterable[str | None] | None) -> list[BoardColumn]:
    """Return the columns with these headings, as `known_once`."""
    by_heading = {column.heading: column for column in board.columns}
    return [by_heading[heading] for heading in known_once(headings, by_heading)]


def csv_button(label: str, text: Callable[..., str], inputs: Any, elem_id: str) -> None:
    """Add a button that downloads a CSV file; its text is made from the values of `inputs` when it is clicked."""
    button = gr.Button(label, size="sm", elem_id=elem_id)
    file = gr.DownloadButton(visible="hidden", elem_id=f"{elem_id}-file")

    def write(*values: Any) -> str:
        # In a folder named by its content, which gradio cleans.
        return save_bytes_to_cache(text(*values).encode(), "vl-assay.csv", file.GRADIO_CACHE)

    written = button.click(write, inputs, file, **QUIET)
    written.then(None, None, None, js=f"() => setTimeout(() => document.getElementById('{elem_id}-file').click(), 50)")
