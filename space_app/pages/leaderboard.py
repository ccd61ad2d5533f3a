"""The Leaderboard page: the table of models and scores, its filters and its download."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import gradio as gr
import pandas
from markupsafe import Markup

from ...metrics.common.storage import write_text
from ..board.board import APART, Board, Choice
from ..board.catalogue import Catalogue
from ..board.entries import PUBLISHED, Column
from .address import View
from .common import QUIET, columns_of, render

# As many rows as a browser lays out at once.
ROWS_AT_ONCE = 100
FIRST_COLUMNS = 8
# An open page looks so often for new submissions and reviews, those of other servers among them.
SECONDS = 60
_FILTERS = {"families": "Family", "sizes": "Size", "training_data": "Training data", "origins": "Origin"}
_SORT_JS = Path(__file__).with_name("templates").joinpath("sort.js").read_text(encoding="utf-8")


class Leaderboard:
    """The components of the page and their events.

    Args:
        catalogue: what to show.
        first_columns: the most scores that the page opens with.

    Attributes:
        inputs: what the table depends on.
        outputs: what `add` updates.
        opened: what `open` updates.
    """

    def __init__(self, catalogue: Catalogue, first_columns: int = FIRST_COLUMNS) -> None:
        self._catalogue, self._first_columns = catalogue, first_columns
        board = catalogue.board
        self._search = gr.Textbox(label="Search", placeholder="part of a model's name", elem_id="search")
        with gr.Accordion("Scores and filters", open=False, elem_id="choices"):
            self._scores = gr.Dropdown(
                [column.heading for column in board.columns],
                value=opening_headings(board, first_columns),
                multiselect=True,
                label="Scores",
                elem_id="scores",
            )
            with gr.Row():
                self._filters = [
                    gr.Dropdown(board.choices(name), multiselect=True, label=label, elem_id=name, min_width=140)
                    for name, label in _FILTERS.items()
                ]
            with gr.Row():
                intervals = gr.Checkbox(label="Intervals", elem_id="intervals")
                every = gr.Checkbox(label="All rows", elem_id="all-rows")
        sort = gr.State("")
        watched = [self._scores, self._search, *self._filters, intervals, every]
        self.inputs = [*watched, sort]
        filters = dict(zip(_FILTERS, self._filters, strict=True))
        self._view = View("leaderboard", search=self._search, **filters, intervals=intervals, all_rows=every)
        self._table = gr.HTML(js_on_load=_SORT_JS, elem_id="board")
        # The file is written when a choice changes, because a click downloads what exists.
        gr.DownloadButton("Download as CSV", value=self._write_csv, inputs=self.inputs, size="sm", elem_id="download")
        self.outputs = [self._scores, *self._filters, self._table]
        self.opened = [*watched, self._table]
        gr.on([component.change for component in watched], self._draw, self.inputs, self._table, **QUIET)
        seen = gr.State(catalogue.version)
        gr.Timer(SECONDS).tick(self._tick, [seen, *self.inputs], [seen, *self.outputs], **QUIET)
        self._table.click(self._click, self.inputs, [self._table, sort], **QUIET)

    def open(self, request: gr.Request) -> list[Any]:
        """Updates for a page that was just opened at an address."""
        self._catalogue.update()
        board, asked = self._catalogue.board, self._view.read(request)
        headings = opening_headings(board, self._first_columns)
        search, flags = asked.text("search"), [asked.flag("intervals"), asked.flag("all_rows")]
        chosen = {name: asked.many(name, board.choices(name)) for name in _FILTERS}
        table = self._draw(headings, search, *chosen.values(), *flags, "")
        scores = gr.update(choices=[column.heading for column in board.columns], value=headings)
        filters = [gr.update(choices=board.choices(name), value=values) for name, values in chosen.items()]
        return [scores, search, *filters, *flags, table]

    def add(self, tasks: Sequence[Sequence[str]], scores: Sequence[str], *rest: Any) -> list[Any]:
        """Updates that add a score of each of these tasks (benchmark, task) to the scores shown."""
        board = self._catalogue.board
        chosen = [column.heading for column in columns_of(board, scores)]
        for task in tasks:
            of_task = [column.heading for column in board.columns if [column.benchmark, column.task] == list(task)]
            if of_task and not set(of_task) & set(chosen):
                chosen.append(of_task[0])
        return self._show(chosen, *rest)

    def _tick(self, seen: int, *values: Any) -> list[Any]:
        """Updates for a page that has been open for a while, with the number of the reading that it then shows."""
        self._catalogue.update()
        now = self._catalogue.version
        return [gr.skip()] * (1 + len(self.outputs)) if now == seen else [now, *self.add([], *values)]

    def _show(self, chosen: list[str], *rest: Any) -> list[Any]:
        board = self._catalogue.board
        choices = [gr.update(choices=board.choices(name)) for name in _FILTERS]
        scores = gr.update(choices=[column.heading for column in board.columns], value=chosen)
        return [scores, *choices, self._draw(chosen, *rest)]

    def _draw(self, scores: Sequence[str], search: str, *rest: Any) -> str:
        *chosen, intervals, every, key = rest
        columns = columns_of(self._catalogue.board, scores or ())
        sort: Column | str | None = columns[0] if columns else "model"
        if key in ("model", "parameters"):
            sort = key
        elif key.isdecimal() and int(key) < len(columns):
            sort = columns[int(key)]
        most = None if every else ROWS_AT_ONCE
        return board_html(self._catalogue, columns, sort, intervals=intervals, most=most, **_choice(search, chosen))

    def _click(self, event: gr.EventData, *values: Any) -> tuple[str, str]:
        key = str(event._data.get("column", ""))
        return self._draw(*values[:-1], key), key

    def _write_csv(self, scores: Sequence[str], search: str, *rest: Any) -> str:
        board = self._catalogue.board
        text = board.csv(columns_of(board, scores or ()), **_choice(search, rest[: len(_FILTERS)]))
        # Named by its content, so that the files of many visits do not pile up.
        path = Path(gettempdir()) / f"vl-assay-{hashlib.sha256(text.encode()).hexdigest()[:16]}.csv"
        write_text(path, text)
        return str(path)


def opening_headings(board: Board, most: int = FIRST_COLUMNS) -> list[str]:
    """The scores that the page opens with: one per task, those of the most models first, at least one recomputed."""
    first: dict[tuple[str, str], Column] = {}
    for column in sorted(board.columns, key=lambda column: not column.score.startswith("macro_")):
        first.setdefault((column.benchmark, column.task), column)
    filled = sorted(first.values(), key=lambda column: -len(board.entries(column)))
    shown, others = filled[:most], filled[most:]
    if not any(map(board.recomputed, shown)):
        shown[-1:] = [column for column in others if board.recomputed(column)][:1] or shown[-1:]
    return [column.heading for column in shown]


def board_html(
    catalogue: Catalogue,
    columns: Sequence[Column],
    sort: Column | str | None = None,
    *,
    intervals: bool = False,
    most: int | None = ROWS_AT_ONCE,
    **choice: Any,
) -> Markup:
    """The table of ``Board.table`` as HTML, with marks, sources and a legend.

    Args:
        catalogue: what to show.
        columns, sort, intervals, choice: as for ``Board.table``.
        most: the most rows to show; None for all.
    """
    board = catalogue.board
    frame = board.table(columns, intervals=intervals, sort=sort, **choice)
    marks = board.marks(frame, columns, catalogue.ties(columns)).to_dict("records")
    shown = frame if most is None else frame.head(most)
    heads = [("model", "model", "ascending" if sort == "model" else "")]
    for number, column in enumerate(columns):
        order = "descending" if column.is_higher_better else "ascending"
        heads.append((str(number), column.heading, order if column == sort else ""))
    heads.append(("parameters", "parameters", "ascending" if sort == "parameters" else ""))
    lines = []
    for row, mark in zip(shown.to_dict("records"), marks, strict=False):
        cells = []
        for column in columns:
            entry = board.entry(column, row["model"], row["origin"])
            cell = {"value": f"{row[column.heading]:.1f}", "mark": mark[column.heading]}
            cell["interval"] = row.get(f"{column.heading}, interval", "")
            cells.append(entry and cell | {"source": entry.source})
        size = "" if pandas.isna(row["parameters"]) else f"{row['parameters'] / 1e6:,.0f} M"
        kind = {"is_published": row["origin"] == PUBLISHED, "is_reference": mark["model"] == APART}
        facts = [size, row["family"], row["training data"]]
        lines.append({"model": row["model"], **kind, "cells": cells, "facts": facts})
    heads += [("", "family", ""), ("", "training data", "")]
    return render("board.html", heads=heads, lines=lines, left=len(frame) - len(shown))


def _choice(search: str, chosen: Sequence[Sequence[str] | None]) -> Choice:
    filters: Any = {name: values or None for name, values in zip(_FILTERS, chosen, strict=True)}
    return Choice(search=search or "", **filters)
