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
from ...metrics.evaluation.errors import FILTERS, ExampleData, TaskErrors, gallery_html, task_errors
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
_SIDE = 160
_UNSEEN = -1


def gallery_tab(catalogue: Catalogue, tab: gr.Tab) -> OnOpen:
    """The components of the page in its tab and their events; what to do when the Space opens."""
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
    chosen, drawn = [task, models, show, category], [show, category, answer, back, forward, start]
    load = lru_cache(maxsize=16)(lambda name, *files: load_errors(catalogue, name, dict(files)))

    def draw(name: str | None, labels: Sequence[str] | None, who: str, part: str, first: int = 0) -> list[Any]:
        known = recomputed(catalogue.board).get(name or "", {})
        files = [(label, known[label]) for label in known_once(labels, known, MOST)]
        hidden = [gr.update(visible=False)] * 2
        if not name or not files:
            return [gr.skip(), gr.skip(), note(_CHOOSE), *hidden, 0]
        try:
            found = load(name, *files)
        except VLAssayError as error:
            return [gr.skip(), gr.skip(), message(str(error), is_error=True), *hidden, 0]
        shows = _shows(found)
        who = who if who in shows.values() else "any"
        part = part if part in found.category_names else ""
        number = int(who) if who.isdigit() else who
        return [
            gr.update(choices=list(shows.items()), value=who),
            gr.update(choices=[("all", ""), *((each, each) for each in found.category_names)], value=part),
            gallery_html(found, number, part, first, AT_ONCE),
            gr.update(visible=first > 0),
            gr.update(visible=first + AT_ONCE < len(found.select(number, part))),
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
        name: str | None, labels: Sequence[str] | None, who: str, part: str, first: int, request: gr.Request
    ) -> list[Any]:
        if first != _UNSEEN:
            return [gr.skip()] * (2 + len(drawn))
        # No task is chosen until `on_open` has answered.
        return [gr.skip(), gr.skip(), *draw(name, labels, who, part)] if name else on_open(request, is_open=True)

    def on_task(name: str | None, labels: Sequence[str] | None, who: str) -> list[Any]:
        names = recomputed(catalogue.board).get(name or "", {})
        kept = known_once(labels, names, MOST) or list(names)[:1]
        return [gr.update(choices=list(names), value=kept), *draw(name, kept, who, "")]

    def on_page(step: int) -> Any:
        return lambda *values: draw(*values[:-1], first=max(values[-1] + step, 0))

    quiet: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
    tab.select(on_select, [*chosen, start], [task, models, *drawn], queue=False, **quiet)
    task.input(on_task, [task, models, show], [models, *drawn], **quiet)
    for each in (models, show, category):
        each.input(draw, chosen, drawn, **quiet)
    scroll = "() => document.getElementById('gallery').scrollIntoView()"
    for button, step in ((back, -AT_ONCE), (forward, AT_ONCE)):
        button.click(on_page(step), [*chosen, start], drawn, **quiet).then(None, None, None, js=scroll)
    return on_open, None, [task, models, *drawn]


@lru_cache(maxsize=2)
def recomputed(board: Board) -> dict[str, dict[str, str]]:
    """For each task (``benchmark/task``) the predictions by the name of their model, references last."""
    found: dict[str, dict[str, str]] = {}
    for column in board.columns:
        entries = [each for each in board.entries(column) if each.origin == RECOMPUTED and each.predictions]
        for entry in sorted(entries, key=lambda each: each.is_reference):
            found.setdefault(f"{column.benchmark}/{column.task}", {}).setdefault(entry.model, entry.predictions)
    return found


def load_errors(catalogue: Catalogue, name: str, files: Mapping[str, str]) -> TaskErrors:
    """The errors of some predictions, by their model, on one task.

    Raises:
        PredictionsError: no metric of the task scores single examples, or predictions have none of its examples.
        StorageError: predictions are damaged.
    """
    benchmark, _, task = name.partition("/")
    whole = {model: catalogue.predictions(sha256) for model, sha256 in files.items()}
    # One of a single configuration has the examples of no other; a part has those of its whole.
    data = _data(max(whole.values(), key=lambda each: len(each.rows)).metadata)
    predictions = {model: task_in(each, task) for model, each in whole.items()}
    found = task_errors(f"{benchmark} ({task})", predictions, get_task(benchmark, task).metrics, data=data)
    if found is None:
        raise PredictionsError("no metric of this task scores single examples, so there are no errors to look at")
    return found


def _shows(task: TaskErrors) -> dict[str, str]:
    """The choices of examples, by their labels."""
    if len(task.models) == 1:
        return {"errors": "any", "no errors": "none", FILTERS["every"]: "every"}
    models = {
        f"{letter} errs: {label}": str(n)
        for n, (letter, label) in enumerate(zip(task.letters, task.labels, strict=True))
    }
    return {label: who for who, label in FILTERS.items()} | models


def _data(metadata: Mapping[str, Any]) -> ExampleData:
    """Captions and, if they may be shown, images; a note on what is missing."""
    try:
        data = expected(metadata)
    except PredictionsError as error:
        return ExampleData(note=f"Shown without captions and images: {error}")
    found = describe([data], _SIDE)
    return found if may_show(data.benchmark) else replace(found, thumbnails=lambda keys: {}, note=NOT_SHOWN)
