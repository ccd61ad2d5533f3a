"""The Errors page: the examples that one or more models get wrong, as cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gradio as gr

from ...hub_datasets.core.benchmarks import get_task
from ...hub_datasets.core.example_data import describe
from ...metrics.common.errors import PredictionsError, VLAssayError
from ...metrics.evaluation.errors import ExampleData, TaskErrors, gallery_html, letters, task_errors
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..submissions.uploads import expected
from .address import View
from .common import OnOpen, message, note
from .pictures import may_show
from .plots import MOST

AT_ONCE = 12
_SHOW = {"any": "some model errs", "all": "all models err", "disagree": "models disagree", "none": "no model errs"}
_CHOOSE = "Choose a task and one to five models."
_SIDE = 160


def gallery_tab(catalogue: Catalogue) -> OnOpen:
    """The components of the page and their events; what to do when it opens, with a model's errors."""
    with gr.Row():
        task = gr.Dropdown(label="Task", elem_id="errors-task", value=None, min_width=200)
        models = gr.Dropdown(
            label="One to five models", multiselect=True, max_choices=MOST, elem_id="errors-models", min_width=300
        )
        show = gr.Dropdown([], label="Show", elem_id="errors-show", value="any", min_width=160)
        category = gr.Dropdown([("all", "")], label="Category", elem_id="errors-category", value="", min_width=160)
    answer = gr.HTML(elem_id="gallery")
    with gr.Row():
        back, forward = gr.Button("Previous", elem_id="errors-back"), gr.Button("Next", elem_id="errors-next")
    start = gr.State(0)
    view = View("errors", task=task, models=models, show=show, category=category)
    chosen, drawn = [task, models, show, category], [show, category, answer, back, forward, start]
    load = lru_cache(maxsize=16)(lambda name, *files: load_errors(catalogue, name, dict(files)))

    def draw(name: str | None, labels: Sequence[str] | None, who: str, part: str, first: int = 0) -> list[Any]:
        known = recomputed_of(catalogue.board, name)
        files = [(label, known[label]) for label in labels or () if label in known][:MOST]
        hidden = [gr.update(visible=False)] * 2
        if not name or not files:
            return [gr.update(), gr.update(), note(_CHOOSE), *hidden, 0]
        try:
            found = load(name, *files)
        except VLAssayError as error:
            return [gr.update(), gr.update(), message(str(error), is_error=True), *hidden, 0]
        shows = _shows(found)
        who = who if who in shows.values() else "any"
        part = part if part in found.category_names else ""
        number = int(who) if who.isdigit() else who
        total = len(found.select(number, part))
        return [
            gr.update(choices=list(shows.items()), value=who),
            gr.update(choices=[("all", ""), *((each, each) for each in found.category_names)], value=part),
            gallery_html(found, number, part, first, AT_ONCE),
            gr.update(visible=first > 0),
            gr.update(visible=first + AT_ONCE < total),
            first,
        ]

    def on_open(request: gr.Request) -> list[Any]:
        asked, names = view.read(request), task_names(catalogue.board)
        name = asked.one("task", names) or next(iter(names), None)
        known = recomputed_of(catalogue.board, name)
        labels = asked.many("models", known, MOST) or list(known)[:1]
        shown = draw(name, labels, asked.text("show") or "any", asked.text("category"))
        return [gr.update(choices=names, value=name), gr.update(choices=list(known), value=labels), *shown]

    def on_task(name: str | None, labels: Sequence[str] | None, who: str) -> list[Any]:
        known = recomputed_of(catalogue.board, name)
        kept = [label for label in labels or () if label in known] or list(known)[:1]
        return [gr.update(choices=list(known), value=kept), *draw(name, kept, who, "")]

    def on_page(step: int) -> Any:
        return lambda *values: draw(*values[:-1], first=max(values[-1] + step, 0))

    quiet: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
    task.input(on_task, [task, models, show], [models, *drawn], **quiet)
    for each in (models, show, category):
        each.input(draw, chosen, drawn, **quiet)
    scroll = "() => document.getElementById('gallery').scrollIntoView()"
    for button, step in ((back, -AT_ONCE), (forward, AT_ONCE)):
        button.click(on_page(step), [*chosen, start], drawn, **quiet).then(None, None, None, js=scroll)
    return on_open, None, [task, models, *drawn]


def task_names(board: Board) -> list[str]:
    """The tasks with predictions of some model, as ``benchmark/task``."""
    found = dict.fromkeys(
        f"{column.benchmark}/{column.task}" for column in board.columns if column.task_type and board.recomputed(column)
    )
    return list(found)


def recomputed_of(board: Board, name: str | None) -> dict[str, str]:
    """The predictions on a task by the name of their model, the best first."""
    found: dict[str, str] = {}
    for column in board.columns:
        if f"{column.benchmark}/{column.task}" == name:
            best_first = [entry.model for entry in board.entries(column)]
            predictions = board.recomputed(column)
            for model in sorted(predictions, key=lambda each: best_first.index(each) if each in best_first else MOST):
                found.setdefault(model, predictions[model])
    return found


def load_errors(catalogue: Catalogue, name: str, files: Mapping[str, str]) -> TaskErrors:
    """The errors of some predictions, by their model, on one task.

    Raises:
        PredictionsError: no example of the task has a score of its own.
        StorageError: predictions are damaged.
    """
    benchmark, _, task = name.partition("/")
    predictions = {model: catalogue.predictions(sha256) for model, sha256 in files.items()}
    data = _data(next(iter(predictions.values())).metadata)
    found = task_errors(f"{benchmark} ({task})", predictions, get_task(benchmark, task).metrics, data=data)
    if found is None:
        raise PredictionsError("no example of this task has a score of its own, so there are no errors to look at")
    return found


def _shows(task: TaskErrors) -> dict[str, str]:
    """The choices of examples, by their labels."""
    if len(task.models) == 1:
        return {"errors": "any", "no errors": "none", "all examples": "every"}
    models = {
        f"{letter} errs: {label}": str(n)
        for n, (letter, label) in enumerate(zip(letters(task), task.labels, strict=True))
    }
    return {label: who for who, label in _SHOW.items()} | models | {"all examples": "every"}


def _data(metadata: Mapping[str, Any]) -> ExampleData:
    """Captions and, if they may be shown, images; a note on what is missing."""
    try:
        data = expected(metadata)
    except PredictionsError as error:
        return ExampleData(note=f"Shown without captions and images: {error}")
    found = describe([data], _SIDE)
    if may_show(data.benchmark):
        return found
    text = "Its images are photographs of others, whose licences do not allow a leaderboard to show them."
    return replace(found, thumbnails=lambda keys: {}, note=text)
