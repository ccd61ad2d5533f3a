"""The Leaderboard page: models and their scores, the sort order, filters and the download."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from ..board.board import Choice
from ..board.catalogue import Catalogue
from ..board.entries import RECOMPUTED
from ..board.views import START, Place, places, view, view_names
from .address import View
from .common import QUIET, columns_of, csv_button, render

# As many rows as a browser lays out at once.
ROWS_AT_ONCE = 100
# An open page looks so often for new submissions and reviews, those of other servers among them.
SECONDS = 60
MODEL, PARAMETERS = "Model", "Parameters"
_FILTERS = {"families": "Family", "sizes": "Size", "training_data": "Training data", "origins": "Origin"}
_TABLE_JS = Path(__file__).with_name("templates").joinpath("board.js").read_text(encoding="utf-8")


class Leaderboard:
    """The components of the page and their events.

    Args:
        catalogue: what to show.

    Attributes:
        inputs: what the table depends on.
        outputs: what `add` updates.
        opened: what `open` updates.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        board = catalogue.board
        self._facts = gr.HTML(facts_html(catalogue), elem_id="facts")
        self._view = gr.Radio(
            view_names(board), value=START, label="Scores of", show_label=False, container=False, elem_id="view"
        )
        with gr.Row(elem_id="tools"):
            self._search = gr.Textbox(
                label="Search", placeholder="part of a model's name", elem_id="search", min_width=280
            )
            self._sort = gr.Dropdown(_sorts(view(board, START)), label="Ranked by", elem_id="sort", min_width=280)
        with gr.Accordion("Filters and scores", open=False, elem_id="choices"):
            with gr.Row():
                self._filters = [
                    gr.Dropdown(board.choices(name), multiselect=True, label=label, elem_id=name, min_width=140)
                    for name, label in _FILTERS.items()
                ]
            self._scores = gr.Dropdown(
                [column.heading for column in board.columns],
                multiselect=True,
                label="Scores of your choice",
                info="in place of those above",
                elem_id="scores",
            )
            with gr.Row():
                intervals = gr.Checkbox(label="Intervals in numbers", elem_id="intervals")
                every = gr.Checkbox(label="All rows, also without these scores", elem_id="all-rows")
        choices = [self._scores, self._search, *self._filters, intervals, every]
        self.inputs = [self._view, *choices, self._sort]
        self._table = gr.HTML(js_on_load=_TABLE_JS, elem_id="board")
        csv_button("Download as CSV", self._csv, self.inputs, "download")
        self.outputs = [self._view, self._scores, *self._filters, self._sort, self._table, self._facts]
        self.opened = [*self.inputs, self._table, self._facts]
        self._address = View("leaderboard", **dict(zip(_NAMES, self.inputs, strict=True)))
        changed: list[Any] = [self._view, self._scores]
        gr.on(
            [component.change for component in changed], self._resort, self.inputs, [self._sort, self._table], **QUIET
        )
        redrawn = [*(component.change for component in choices[1:]), self._sort.input]
        gr.on(redrawn, self._draw, self.inputs, self._table, **QUIET)
        version = gr.State(catalogue.version)
        gr.Timer(SECONDS).tick(self._tick, [version, *self.inputs], [version, *self.outputs], **QUIET)
        self._table.click(self._click, self.inputs, [self._sort, self._table], **QUIET)

    def follow(self, model: gr.Dropdown, tabs: gr.Tabs) -> None:
        """Open the page of a model when its name is clicked: `model` names it, in the tab "model" of `tabs`."""

        def on_select(event: gr.EventData) -> tuple[Any, Any]:
            name = str(event._data.get("model", ""))
            known = self._catalogue.board.models()
            if name not in known:
                return gr.skip(), gr.skip()
            return gr.update(choices=known, value=name), gr.update(selected="model")

        self._table.select(on_select, None, [model, tabs], **QUIET)

    def open(self, request: gr.Request) -> list[Any]:
        """Return the updates for a page that was just opened at an address."""
        self._catalogue.update()
        board, asked = self._catalogue.board, self._address.read(request)
        shown = asked.one("view", view_names(board)) or START
        scores = asked.many("scores", {column.heading for column in board.columns}, most=50)
        filters = [asked.many(name, board.choices(name)) for name in _FILTERS]
        flags = [asked.flag("intervals"), asked.flag("all_rows")]
        sort = asked.one("sort", _sorts(self._places(shown, scores)))
        values = [shown, scores, asked.text("search"), *filters, *flags, sort]
        return [*self._updates(*values), self._draw(*values), facts_html(self._catalogue)]

    def add(self, tasks: Sequence[Sequence[str]], shown: str, scores: Sequence[str], *rest: Any) -> list[Any]:
        """Return the updates that add a score of each of these tasks (benchmark, task) to the scores shown."""
        board = self._catalogue.board
        columns = [place.column for place in self._places(shown, scores)]
        missing = [
            next((column for column in board.columns if [column.benchmark, column.task] == list(task)), None)
            for task in tasks
            if not any([column.benchmark, column.task] == list(task) for column in columns)
        ]
        if any(missing):
            scores = [column.heading for column in [*columns, *missing] if column and not column.category]
        values = [shown, scores, *rest]
        updates = dict(zip(self.inputs, self._updates(*values), strict=True))
        return [
            *(updates[component] for component in self.outputs[:-2]),
            self._draw(*values),
            facts_html(self._catalogue),
        ]

    def _updates(self, shown: str, scores: Sequence[str] | None, search: str, *rest: Any) -> list[Any]:
        """Return, for each of `inputs`, an update with its current choices and its value."""
        board = self._catalogue.board
        *filters, intervals, every, sort = rest
        return [
            gr.update(choices=view_names(board), value=shown),
            gr.update(choices=[column.heading for column in board.columns], value=scores or []),
            search,
            *(
                gr.update(choices=board.choices(name), value=selected)
                for name, selected in zip(_FILTERS, filters, strict=True)
            ),
            *(intervals, every),
            self._sort_update(shown, scores, sort),
        ]

    def _sort_update(self, shown: str, scores: Sequence[str] | None, sort: str | None) -> Any:
        known = _sorts(self._places(shown, scores))
        return gr.update(choices=known, value=sort if sort in known else known[0])

    def _tick(self, version: int, *values: Any) -> list[Any]:
        """Return the updates for a page that has been open for a while, and the catalogue's version after them."""
        self._catalogue.update()
        now = self._catalogue.version
        return [gr.skip()] * (1 + len(self.outputs)) if now == version else [now, *self.add([], *values)]

    def _resort(self, shown: str, scores: Sequence[str] | None, *rest: Any) -> tuple[Any, str]:
        return self._sort_update(shown, scores, rest[-1]), self._draw(shown, scores, *rest)

    def _click(self, event: gr.EventData, *values: Any) -> tuple[str, str]:
        sort = str(event._data.get("column", ""))
        return sort, self._draw(*values[:-1], sort)

    def _places(self, shown: str, scores: Sequence[str] | None) -> list[Place]:
        board = self._catalogue.board
        return places(columns_of(board, scores)) if scores else view(board, shown)

    def _draw(self, shown: str, scores: Sequence[str] | None, search: str, *rest: Any) -> str:
        *filters, intervals, every, sort = rest
        most = None if every else ROWS_AT_ONCE
        options: Any = {"intervals": bool(intervals), "most": most, "with_empty": bool(every)}
        return board_html(self._catalogue, self._places(shown, scores), sort, **options, **_choice(search, filters))

    def _csv(self, shown: str, scores: Sequence[str] | None, search: str, *rest: Any) -> str:
        columns = [place.column for place in self._places(shown, scores)]
        return self._catalogue.board.csv(columns, **_choice(search, rest[: len(_FILTERS)]))


# The names of `Leaderboard.inputs` in an address.
_NAMES = ("view", "scores", "search", *_FILTERS, "intervals", "all_rows", "sort")


def facts_html(catalogue: Catalogue) -> Markup:
    """Render the numbers of models and benchmarks, and the day of the last submission."""
    board = catalogue.board
    facts = {
        "models": f"{len(board.models()):,}",
        "benchmarks": str(len({column.benchmark for column in board.columns})),
        "recomputed": f"{len(board.models(RECOMPUTED)):,}",
    }
    if catalogue.latest:
        facts["last submission"] = ago(catalogue.latest)
    return render("facts.html", facts=facts)


def ago(time: str, now: datetime | None = None) -> str:
    """Return the days since a time as text, such as "2 days ago".

    >>> ago("2026-01-01T12:00:00+00:00", datetime(2026, 1, 3, tzinfo=UTC))
    '2 days ago'
    """
    days = ((now or datetime.now(UTC)).date() - datetime.fromisoformat(time).astimezone(UTC).date()).days
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days:,} days ago"


def board_html(
    catalogue: Catalogue,
    shown: Sequence[Place],
    sort: str | None = None,
    *,
    intervals: bool = False,
    most: int | None = ROWS_AT_ONCE,
    **choice: Any,
) -> Markup:
    """Render the rows of ``Board.rows`` as an HTML table, and as a list of one score for narrow windows.

    Args:
        catalogue: what to show.
        shown: the columns and their headings.
        sort: what to rank by: the heading of one of the columns, by default the first, `MODEL` or `PARAMETERS`.
        intervals: write the intervals below the scores.
        most: the most rows to show; None for all.
        choice: as for ``Board.rows``.
    """
    board = catalogue.board
    columns = [place.column for place in shown]
    ranked = next((column for column in columns if column.heading == sort), columns[0] if columns else None)
    key = {MODEL: "model", PARAMETERS: "parameters"}.get(sort or "", ranked)
    ties = catalogue.ties(columns)
    rows = board.rows(columns, sort=key, **choice)
    ranks = board.ranks(ranked, ties[ranked]) if ranked else {}
    lines = [
        (row, [board.entry(column, row.model, row.origin) for column in columns], ranks.get((row.model, row.origin)))
        for row in rows[:most]
    ]
    every: dict[str, Any] = {**choice, "with_empty": True}
    return render(
        "board.html",
        shown=shown,
        groups=[(group, len([*members])) for group, members in groupby(place.group for place in shown)],
        lines=lines,
        marks={column: board.marks(rows, column, ties[column]) for column in columns},
        chance={column: board.chance(column) for column in columns},
        intervals=intervals,
        left=len(rows) - len(lines),
        left_out=len(board.rows(columns, **every)) - len(rows),
        key=key,
        place=columns.index(ranked) if ranked else None,
        names=(MODEL, PARAMETERS),
        ranked=ranked,
        with_empty=choice.get("with_empty", False),
    )


def _sorts(shown: Sequence[Place]) -> list[str]:
    return [*(place.column.heading for place in shown), MODEL, PARAMETERS]


def _choice(search: str, selected: Sequence[Sequence[str] | None]) -> Choice:
    filters: Any = {name: frozenset(values or ()) or None for name, values in zip(_FILTERS, selected, strict=True)}
    return Choice(search=search or "", **filters)
