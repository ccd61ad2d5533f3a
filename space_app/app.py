"""The leaderboard Space: what the pages are made of and what a click does; everything else is in plain modules.

Started by ``vl-assay leaderboard``, or by a Space whose ``app_file`` this is.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import gradio as gr
from gradio.themes import Default
from gradio.themes.utils.fonts import Font, LocalFont

from vl_assay.metrics.common.errors import PredictionsError, ScoresError, VLAssayError
from vl_assay.metrics.common.storage import write_text
from vl_assay.space_app.board.board import Board, Choice, Column
from vl_assay.space_app.board.catalogue import Catalogue
from vl_assay.space_app.pages import cards as _cards
from vl_assay.space_app.pages import compare as _compare_page
from vl_assay.space_app.pages import plots as _plots
from vl_assay.space_app.pages import tables as _tables
from vl_assay.space_app.storage.storage import Storage, open_storage
from vl_assay.space_app.submissions import login as _login
from vl_assay.space_app.submissions import receipts as _receipts
from vl_assay.space_app.submissions.submissions import MODEL_FIELDS, Receipt, finish, preview, submit

TITLE = "VL-Assay: what vision-language models understand of composition"
INTRODUCTION = """# VL-Assay
Does a model know who does what to whom, and which colour belongs to which object? Every number here is computed from
raw scores, or names the table of the paper that prints it."""
SUBMITTING = """Make predictions with `vl-assay predict MODEL BENCHMARK…` and upload them here. They are checked against
the benchmark, row by row, and every figure is computed anew. **Check** stores nothing; **Send** does, and gives a
receipt."""
CSS = (
    _tables.CSS
    + """
.assay-message { padding: 10px 14px; border-left: 4px solid var(--color-accent); overflow-wrap: anywhere;
  background: var(--background-fill-secondary); color: var(--body-text-color); }
.assay-message.bad { border-left-color: var(--error-border-color, #b91c1c); }
"""
)
_FILTERS = {"families": "Family", "sizes": "Size", "training_data": "Training data", "origins": "Origin"}
_FIRST_COLUMNS = 8
# The file of the theme's own bold, of the weight 600, has but a few letters.
_FONTS = [LocalFont("Source Sans Pro", weights=(400, 700)), Font("system-ui"), Font("sans-serif")]
_QUIET: dict[str, Any] = {"show_progress": "hidden", "queue": False, "api_visibility": "private"}


def build(catalogue: Catalogue) -> gr.Blocks:
    """The pages over a catalogue."""
    with gr.Blocks(title=TITLE, analytics_enabled=False) as blocks:
        gr.Markdown(INTRODUCTION)
        with gr.Tabs(overflow_behavior="wrap"):
            with gr.Tab("Leaderboard", id="leaderboard"):
                page = _Leaderboard(catalogue)
            with gr.Tab("Compare", id="compare"):
                compared = _compare(catalogue)
            with gr.Tab("Benchmarks", id="benchmarks"):
                _benchmarks(catalogue)
            with gr.Tab("Insights", id="insights") as insights:
                _insights(catalogue, insights)
            with gr.Tab("Submit", id="submit"):
                shown = _submit(catalogue, page)
        blocks.load(page.open, outputs=page.outputs, **_QUIET)
        blocks.load(*compared, **_QUIET)
        if shown:
            blocks.load(*shown, **_QUIET)
    catalogue.warm()
    return blocks


def launch(blocks: gr.Blocks, **options: Any) -> Any:
    """Serve the pages that `build` made; `options` go to gradio's ``launch``."""
    return blocks.launch(css=CSS, theme=Default(font=_FONTS), footer_links=["api"], **options)


class _Leaderboard:
    """The page with the table: its components, and what redraws it.

    Attributes:
        inputs: what the table depends on.
        outputs: what `open` and `add` give.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        board = catalogue.board
        self._search = gr.Textbox(label="Search", placeholder="part of a model's name", elem_id="search")
        with gr.Accordion("Scores and filters", open=False, elem_id="choices"):
            self._scores = gr.Dropdown(
                [column.heading for column in board.columns],
                value=_opening(board),
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
        self._table = gr.HTML(js_on_load=_tables.JS, elem_id="board")
        # The file is made when a choice changes: a click downloads what is there.
        gr.DownloadButton("Download as CSV", value=self._write_csv, inputs=self.inputs, size="sm", elem_id="download")
        self.outputs = [self._scores, *self._filters, self._table]
        gr.on([each.change for each in watched], self._draw, self.inputs, self._table, **_QUIET)
        self._table.click(self._click, self.inputs, [self._table, sort], **_QUIET)

    def open(self) -> list[Any]:
        """What a page shows that has just been opened."""
        return self._show(_opening(self._catalogue.board), "", *[None] * len(_FILTERS), False, False, "")

    def add(self, tasks: Sequence[Sequence[str]], scores: Sequence[str], *rest: Any) -> list[Any]:
        """The page with a score of each of these tasks (benchmark, task) shown too."""
        columns = self._catalogue.board.columns
        chosen = [column.heading for column in _columns(columns, scores)]
        for task in tasks:
            of_task = [column.heading for column in columns if [column.benchmark, column.task] == list(task)]
            if of_task and not set(of_task) & set(chosen):
                chosen.append(of_task[0])
        return self._show(chosen, *rest)

    def _show(self, chosen: list[str], *rest: Any) -> list[Any]:
        board = self._catalogue.board
        choices = [gr.update(choices=board.choices(name)) for name in _FILTERS]
        scores = gr.update(choices=[column.heading for column in board.columns], value=chosen)
        return [scores, *choices, self._draw(chosen, *rest)]

    def _draw(self, scores: Sequence[str], search: str, *rest: Any) -> str:
        *chosen, intervals, every, sort = rest
        board = self._catalogue.board
        columns = _columns(board.columns, scores)
        by = _sorted_by(columns, sort)
        frame = board.table(columns, intervals=intervals, sort=by, **_choice(search, chosen))
        marks = board.marks(frame, columns, self._catalogue.ties(columns))
        most = None if every else _tables.ROWS_AT_ONCE
        return _tables.board_html(board, frame, marks, columns, by, intervals=intervals, most=most)

    def _click(self, event: gr.EventData, *values: Any) -> tuple[str, str]:
        key = str(event._data.get("column", ""))
        return self._draw(*values[:-1], key), key

    def _write_csv(self, scores: Sequence[str], search: str, *rest: Any) -> str:
        board = self._catalogue.board
        text = board.csv(_columns(board.columns, scores), **_choice(search, rest[: len(_FILTERS)]))
        # One file for each content, so that those of many visits do not pile up.
        path = Path(gettempdir()) / f"vl-assay-{hashlib.sha256(text.encode()).hexdigest()[:16]}.csv"
        write_text(path, text)
        return str(path)


def _compare(catalogue: Catalogue) -> tuple[Callable[[], Any], None, Any]:
    """The page that sets models side by side; returns what a page does when it has just been opened."""
    score = gr.Dropdown(label="Score", elem_id="compare-score", value=None)
    models = gr.Dropdown(
        label="Two to five models",
        info="Of those that have the score; choose that first.",
        multiselect=True,
        max_choices=5,
        elem_id="compare-models",
    )
    bars, radar = gr.Plot(elem_id="bars", visible=False), gr.Plot(elem_id="radar", visible=False)
    differences, examples = gr.HTML(elem_id="differences"), gr.HTML(elem_id="disagreements")
    outputs = [bars, radar, differences, examples]

    def on_open() -> Any:
        return gr.update(choices=[column.heading for column in catalogue.board.columns])

    def on_score(heading: str | None) -> Any:
        columns = _columns(catalogue.board.columns, [heading] if heading else [])
        return gr.update(choices=[*_compare_page.contestants(catalogue.board, columns[0])] if columns else [], value=[])

    def on_models(heading: str | None, labels: Sequence[str] | None, request: gr.Request) -> list[Any]:
        columns = _columns(catalogue.board.columns, [heading] if heading else [])
        known = _compare_page.contestants(catalogue.board, columns[0]) if columns else {}
        chosen = [known[label] for label in labels or () if label in known]
        if len(chosen) < 2:
            lacking = "<p>One more model makes a comparison.</p>" if chosen else ""
            return [gr.update(visible=False)] * 2 + [lacking, ""]
        entries = _compare_page.entries_of(catalogue.board, columns[0], chosen)
        figures = [_figure(draw, entries, dark=_is_dark(request)) for draw in (_plots.bars, _plots.radar)]
        texts = [
            write(catalogue, columns[0], chosen)
            for write in (_compare_page.differences_html, _compare_page.disagreements_html)
        ]
        return [*figures, *texts]

    score.change(on_score, score, models, **_QUIET)
    models.change(on_models, [score, models], outputs, api_visibility="private")
    return on_open, None, score


def _benchmarks(catalogue: Catalogue) -> None:
    """The page with the benchmarks' cards, examples, and what is reached without seeing the images."""
    known = _cards.titles()
    chosen = gr.Dropdown([*known], label="Benchmark", elem_id="benchmark", value=None)
    essentials = gr.Markdown(elem_id="essentials")
    levels, examples = gr.HTML(elem_id="levels"), gr.HTML(elem_id="examples")
    with gr.Accordion("The rest of its card", open=False, elem_id="card"):
        rest = gr.Markdown()

    def on_choice(title: str | None) -> tuple[str, str, str, str]:
        name = known.get(title or "")
        if not name:
            return "", "", "", ""
        reached = _cards.references_html(catalogue.board, name) + _cards.audit_html(name)
        return (*_cards.card(name), reached, _cards.examples_html(name))

    chosen.change(on_choice, chosen, [essentials, rest, levels, examples], api_visibility="private")


def _insights(catalogue: Catalogue, tab: gr.Tab) -> None:
    """The page with figures over all models, some of which it opens with."""
    ready = gr.Radio([], label="Show", elem_id="ready")
    with gr.Row():
        across = gr.Dropdown(label="Across", elem_id="across", value=None)
        up = gr.Dropdown(label="Up", elem_id="up", value=None)
    points = gr.Plot(elem_id="points", visible=False)
    model = gr.Dropdown(label="Score gaps of", elem_id="gaps-of", value=None)
    gaps = gr.Plot(elem_id="gaps", visible=False)

    def on_open(shown: str | None, one: str | None, two: str | None, label: str | None) -> list[Any]:
        headings = [column.heading for column in catalogue.board.columns]
        found, all_predictions = _plots.ready_pairs(catalogue.board), [*_gap_predictions(catalogue)]
        if not (one or two) and found:
            shown, (one, two) = next(iter(found.items()))
        values = [(one, headings), (two, headings), (label or next(iter(all_predictions), None), all_predictions)]
        return [gr.update(choices=choices, value=value) for value, choices in [(shown, [*found]), *values]]

    def on_ready(shown: str | None) -> Any:
        return _plots.ready_pairs(catalogue.board).get(shown or "", (gr.skip(), gr.skip()))

    def on_scores(one: str | None, two: str | None, request: gr.Request) -> Any:
        board = catalogue.board
        columns = [*_columns(board.columns, [one or ""]), *_columns(board.columns, [two or ""])]
        if len(columns) < 2:
            return gr.update(visible=False)
        sides = [
            _compare_page.entries_of(board, column, [*_compare_page.contestants(board, column).values()])
            for column in columns
        ]
        whole = [[entry for entry in side if not entry.category] for side in sides]
        return _figure(_plots.scatter, *whole, dark=_is_dark(request))

    def on_model(label: str | None, request: gr.Request) -> Any:
        predictions = _gap_predictions(catalogue).get(label or "")
        if predictions is None:
            return gr.update(visible=False)
        return _figure(_plots.gap_histogram, catalogue.predictions(predictions), dark=_is_dark(request))

    for score in (across, up):
        score.change(on_scores, [across, up], points, api_visibility="private")
    model.change(on_model, model, gaps, api_visibility="private")
    ready.input(on_ready, ready, [across, up], **_QUIET)
    tab.select(on_open, [ready, across, up, model], [ready, across, up, model], **_QUIET)


def _gap_predictions(catalogue: Catalogue) -> dict[str, str]:
    """SHA-256 of each recomputed matching predictions, by model, benchmark and task."""
    found = {}
    for column in catalogue.board.columns:
        if column.task_type in ("matching", "groups"):  # the right caption has a gap to the others
            for name, predictions in catalogue.board.recomputed(column).items():
                found.setdefault(f"{name} on {column.benchmark}/{column.task}", predictions)
    return found


def _is_dark(request: gr.Request) -> bool:
    return request.query_params.get("__theme") == "dark"


def _figure(draw: Callable[..., Any], *what: Any, dark: bool) -> Any:
    """A figure, or nothing where there is none to draw, such as a radar of two categories."""
    try:
        return gr.update(value=draw(*what, dark=dark), visible=True)
    except ScoresError:
        return gr.update(visible=False)


def _submit(catalogue: Catalogue, page: _Leaderboard) -> tuple[Callable[..., Any], None, Any] | None:
    """The page for submissions; returns what it does when it has just been opened, where visitors can log in."""
    gr.Markdown(SUBMITTING)
    _login.button()
    uploads = gr.File(label="predictions", file_count="multiple", file_types=[".parquet"], elem_id="predictions")
    with gr.Row():
        name = gr.Textbox(
            label="Model's name", placeholder="that of the predictions, unless you type one", elem_id="name"
        )
        family = gr.Textbox(label="Family", placeholder="such as clip", elem_id="family")
        parameters = gr.Textbox(label="Parameters", placeholder="such as 151M", elem_id="parameters")
    with gr.Row():
        data = gr.Textbox(label="Training data", placeholder="such as LAION-2B", elem_id="training-data")
        link = gr.Textbox(label="Link", placeholder="https://…", elem_id="link")
    with gr.Row():
        check = gr.Button("Check", elem_id="check")
        send = gr.Button("Send", variant="primary", elem_id="send")
    message = gr.HTML(elem_id="receipt")
    inputs = [uploads, name, family, parameters, data, link]
    sent = gr.State(())

    def receive(
        function: Callable[..., Receipt], files: Sequence[str] | None, typed: Sequence[str], user: str
    ) -> Receipt:
        paths = [Path(file) for file in files or ()]
        if not paths:
            raise PredictionsError(
                "no predictions file was uploaded; choose one or more files that `vl-assay predict` wrote"
            )
        model = {key: value.strip() for key, value in zip(MODEL_FIELDS, typed, strict=True) if value}
        contents = [path.read_bytes() for path in paths]
        return function(catalogue.storage, contents, model, user, names=[path.name for path in paths])

    def on_check(files: Sequence[str] | None, profile: gr.OAuthProfile | None, *typed: str) -> str:
        try:
            receipt = receive(preview, files, typed, _login.visitor(profile))
            return _receipts.receipt_html(receipt, is_stored=False)
        except VLAssayError as error:
            return _receipts.problem(str(error))

    def on_send(
        files: Sequence[str] | None, profile: gr.OAuthProfile | None, *typed: str
    ) -> tuple[str, list[tuple[str, str]]]:
        try:
            receipt = receive(submit, files, typed, _login.sender(profile))
        except VLAssayError as error:
            return _receipts.problem(str(error)), []
        catalogue.refresh()
        tasks = [(predictions["benchmark"], predictions["task"]) for predictions in receipt.predictions]
        return _receipts.receipt_html(receipt, is_stored=True), tasks

    def on_api(
        files: Sequence[str] | None, profile: gr.OAuthProfile | None, token: gr.OAuthToken | None, *typed: str
    ) -> dict[str, Any]:
        try:
            receipt = receive(submit, files, typed, _login.sender(profile, token))
        except VLAssayError as error:
            return {"error": str(error)}
        catalogue.refresh()
        return _receipts.as_json(receipt)

    check.click(on_check, inputs, message, api_visibility="private")
    redraw: Any = (page.add, [sent, *page.inputs], page.outputs)
    sending = send.click(on_send, inputs, [message, sent], api_visibility="private").then(*redraw, **_QUIET)
    # For programs. It takes files through the component above, which lets none be named that was not uploaded.
    gr.Button(visible=False).click(
        on_api, inputs, gr.JSON(visible=False), api_name="submit", api_description="Submit predictions of one model."
    )
    if not _login.is_offered():
        return None
    show, parts, withdrawn = _login.withdrawal(catalogue)
    sending.then(show, None, parts, **_QUIET)
    withdrawn.then(show, None, parts, **_QUIET).then(*redraw, **_QUIET)
    return show, None, parts


def _opening(board: Board) -> list[str]:
    """The headings that the board opens with: a score of each task, those of the most models first, one recomputed."""
    first: dict[tuple[str, str], Column] = {}
    for column in sorted(board.columns, key=lambda column: not column.score.startswith("macro_")):
        first.setdefault((column.benchmark, column.task), column)
    filled = sorted(first.values(), key=lambda column: -len(board.table([column])))
    shown, others = filled[:_FIRST_COLUMNS], filled[_FIRST_COLUMNS:]
    if not any(map(board.recomputed, shown)):
        shown[-1:] = [column for column in others if board.recomputed(column)][:1] or shown[-1:]
    return [column.heading for column in shown]


def _columns(known: Sequence[Column], headings: Sequence[str]) -> list[Column]:
    by_heading = {column.heading: column for column in known}
    return [by_heading[heading] for heading in headings or () if heading in by_heading]


def _choice(search: str, chosen: Sequence[Sequence[str] | None]) -> Choice:
    filters: Any = {name: values or None for name, values in zip(_FILTERS, chosen, strict=True)}
    return Choice(search=search or "", **filters)


def _sorted_by(columns: Sequence[Column], key: str) -> Column | str | None:
    if key in ("model", "parameters"):
        return key
    return columns[int(key)] if key.isdecimal() and int(key) < len(columns) else (columns[0] if columns else "model")


def serve(storage: Storage, **options: Any) -> None:
    """Finish what a crash has left in a storage, and serve its leaderboard until Ctrl-C."""
    problems = finish(storage)
    catalogue = Catalogue(storage)
    for problem in dict.fromkeys([*problems, *catalogue.problems]):
        print(f"warning: {problem}", file=sys.stderr)
    launch(build(catalogue), **options)


if __name__ == "__main__":
    serve(open_storage(), server_name=os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0"))
