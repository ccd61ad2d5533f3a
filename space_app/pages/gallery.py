"""The Errors page: the examples that one or more models get wrong, as cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gradio as gr

from ...hub_datasets.core.benchmarks import get_task
from ...hub_datasets.reports.evaluation import task_in
from ...hub_datasets.reports.example_data import describe
from ...metrics.common.errors import PredictionsError, VLAssayError
from ...metrics.results.errors.cards import gallery_html
from ...metrics.results.errors.outcomes import FILTERS, ExampleData, TaskErrors, task_errors
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.entries import RECOMPUTED
from ..submissions.uploads import expected
from .address import View, parse_query
from .cards import NOT_SHOWN, may_show
from .common import OnOpen, known_once, message, note
from .plots import MOST

AT_ONCE = 12
_CHOOSE = "Choose a task and one to five models."
_UNSEEN = -1


def gallery_tab(catalogue: Catalogue, tab: gr.Tab) -> OnOpen:
    """Build the page's components and events in its tab; return the update for the Space's opening."""
    with gr.Row():
        task = gr.Dropdown(label="Task", elem_id="errors-task", value=None, min_width=200)
        models = gr.Dropdown(
            label="One to five models", multiselect=True, max_choices=MOST, elem_id="errors-models", min_width=300
        )
        show = gr.Dropdown([("errors", "any")], label="Show", elem_id="errors-show", value="any", min_width=160)
        category = gr.Dropdown([("all", "")], label="Category", elem_id="errors-category", value="", min_width=160)
    answer = gr.HTML(elem_id="gallery")
    with gr.Row():
        back = gr.Button("Previous", elem_id="errors-back", visible=False)
        forward = gr.Button("Next", elem_id="errors-next", visible=False)
    start = gr.State(_UNSEEN)
    view = View("errors", task=task, models=models, show=show, category=category)
    inputs, drawn = [task, models, show, category], [show, category, answer, back, forward, start]
    load = lru_cache(maxsize=16)(lambda name, *files: load_errors(catalogue, name, dict(files)))

    def draw(name: str | None, labels: Sequence[str] | None, who: str, category_name: str, first: int = 0) -> list[Any]:
        known = recomputed(catalogue.board).get(name or "", {})
        files = [(label, known[label]) for label in known_once(labels, known, MOST)]
        hidden = [gr.update(visible=False)] * 2
        if not name or not files:
            return [gr.skip(), gr.skip(), note(_CHOOSE), *hidden, 0]
        try:
            errors = load(name, *files)
        except VLAssayError as error:
            return [gr.skip(), gr.skip(), message(str(error), is_error=True), *hidden, 0]
        shows = _shows(errors)
        who = who if who in shows.values() else "any"
        category_name = category_name if category_name in errors.category_names else ""
        number = int(who) if who.isdigit() else who
        return [
            gr.update(choices=list(shows.items()), value=who),
            gr.update(
                choices=[("all", ""), *((label, label) for label in errors.category_names)],
                value=category_name,
            ),
            gallery_html(errors, number, category_name, first, AT_ONCE),
            gr.update(visible=first > 0),
            gr.update(visible=first + AT_ONCE < len(errors.select(number, category_name))),
            first,
        ]

    def on_open(request: gr.Request, is_open: bool = False) -> list[Any]:
        asked, known = view.read(request), recomputed(catalogue.board)
        name = asked.one("task", known) or next(iter(known), None)
        names = known.get(name or "", {})
        labels = asked.many("models", names, MOST) or list(names)[:1]
        choices = [gr.update(choices=list(known), value=name), gr.update(choices=list(names), value=labels)]
        # Other pages open sooner without the predictions and images of this one.
        if not is_open and "errors" not in parse_query(request).get("tab", ()):
            return [*choices, *([gr.skip()] * len(drawn))]
        return [*choices, *draw(name, labels, asked.text("show") or "any", asked.text("category"))]

    def on_select(
        name: str | None, labels: Sequence[str] | None, who: str, category_name: str, first: int, request: gr.Request
    ) -> list[Any]:
        if first != _UNSEEN:
            return [gr.skip()] * (2 + len(drawn))
        if not name:  # no task is chosen until `on_open` has answered
            return on_open(request, is_open=True)
        return [gr.skip(), gr.skip(), *draw(name, labels, who, category_name)]

    def on_task(name: str | None, labels: Sequence[str] | None, who: str) -> list[Any]:
        names = recomputed(catalogue.board).get(name or "", {})
        shown_labels = known_once(labels, names, MOST) or list(names)[:1]
        return [gr.update(choices=list(names), value=shown_labels), *draw(name, shown_labels, who, "")]

    def on_page(step: int) -> Any:
        return lambda *values: draw(*values[:-1], first=max(values[-1] + step, 0))

    quiet: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
    tab.select(on_select, [*inputs, start], [task, models, *drawn], queue=False, **quiet)
    task.input(on_task, [task, models, show], [models, *drawn], **quiet)
    for component in (models, show, category):
        component.input(draw, inputs, drawn, **quiet)
    scroll = "() => document.getElementById('gallery').scrollIntoView()"
    for button, step in ((back, -AT_ONCE), (forward, AT_ONCE)):
        button.click(on_page(step), [*inputs, start], drawn, **quiet).then(None, None, None, js=scroll)
    return on_open, None, [task, models, *drawn]


@lru_cache(maxsize=2)
def recomputed(board: Board) -> dict[str, dict[str, str]]:
    """Return for each task (``benchmark/task``) the predictions by the name of their model, references last."""
    files: dict[str, dict[str, str]] = {}
    for column in board.columns:
        for entry in sorted(board.entries(column), key=lambda entry: entry.is_reference):
            if entry.origin == RECOMPUTED and entry.predictions:
                files.setdefault(f"{column.benchmark}/{column.task}", {}).setdefault(entry.model, entry.predictions)
    return files


def load_errors(catalogue: Catalogue, name: str, files: Mapping[str, str]) -> TaskErrors:
    """Return the errors of some predictions, by their model, on one task.

    Raises:
        PredictionsError: no metric of the task scores single examples, or predictions have none of its examples.
        StorageError: predictions are damaged.
    """
    benchmark, _, task = name.partition("/")
    submitted = {model: catalogue.predictions(sha256) for model, sha256 in files.items()}
    # One of a single configuration has the examples of no other; a part has those of its whole.
    data = _data(max(submitted.values(), key=lambda file: len(file.rows)).metadata)
    predictions = {model: task_in(file, task) for model, file in submitted.items()}
    errors = task_errors(f"{benchmark} ({task})", predictions, get_task(benchmark, task).metrics, data=data)
    if errors is None:
        raise PredictionsError("no metric of this task scores single examples, so there are no errors to look at")
    return errors


def _shows(task: TaskErrors) -> dict[str, str]:
    """Return the choices of examples, by their labels."""
    if len(task.models) == 1:
        return {"errors": "any", "no errors": "none", FILTERS["every"]: "every"}
    models = {
        f"{letter} errs: {label}": str(n)
        for n, (letter, label) in enumerate(zip(task.letters, task.labels, strict=True))
    }
    return {label: who for who, label in FILTERS.items()} | models


def _data(metadata: Mapping[str, Any]) -> ExampleData:
    """Return captions and, if they may be shown, images, with a note on missing data."""
    try:
        data = expected(metadata)
    except PredictionsError as error:
        return ExampleData(note=f"Shown without captions and images: {error}")
    shown = describe([data])
    return shown if may_show(data.benchmark) else replace(shown, thumbnails=lambda keys: {}, note=NOT_SHOWN)
