"""The Insights page: scatter plots of two scores over all models, and the distribution of one model's score gaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...metrics.common.errors import ScoresError, VLAssayError
from ...metrics.estimation.correlation import FEWEST, FEWEST_WITH_INTERVAL, correlation
from ..board.catalogue import Catalogue
from ..board.entries import REFERENCE, BoardEntry
from .address import View
from .common import QUIET, OnOpen, columns_of, note, render
from .plots import gap_histogram, kind, pairs_of, ready_pairs, scatter

_LEAD = (
    "Do models that are good at one thing fail at another? Each point is a model; point at it, or tap it, for its name."
)
_GAPS = (
    "How sure is a model? The score of the positive caption, or of the worse of two, minus that of the best negative, "
    "over all examples."
)


def insights_tab(catalogue: Catalogue) -> OnOpen:
    """Build the page's components and events; return the update for its opening, which draws a figure."""
    gr.HTML(f'<h2>Two scores of all models</h2><p class="assay-lead">{_LEAD}</p>')
    ready = gr.Radio([], label="Pairs to begin with", elem_id="ready")
    with gr.Row():
        across = gr.Dropdown(label="Across", elem_id="across", value=None, min_width=300)
        up = gr.Dropdown(label="Up", elem_id="up", value=None, min_width=300)
    points = gr.HTML(elem_id="points")
    gr.HTML(f'<h2>Score gaps of one model</h2><p class="assay-lead">{_GAPS}</p>')
    model = gr.Dropdown(label="Model and task", elem_id="gaps-of", value=None)
    gaps = gr.HTML(elem_id="gaps")
    view = View("insights", across=across, up=up, gaps=model)

    def on_open(request: gr.Request) -> list[Any]:
        asked = view.read(request)
        headings = [column.heading for column in catalogue.board.columns]
        pairs, labels = ready_pairs(catalogue.board), [*with_gaps(catalogue)]
        first, second = (asked.one(name, headings) for name in ("across", "up"))
        if not (first and second):
            first, second = next(iter(pairs.values()), (first, second))
        shown = next((title for title, pair in pairs.items() if pair == (first, second)), None)
        label = asked.one("gaps", labels) or next(iter(labels), None)
        values = [(shown, [*pairs]), (first, headings), (second, headings), (label, labels)]
        updates = [gr.update(choices=choices, value=value) for value, choices in values]
        return [*updates, on_scores(first, second), on_model(label)]

    def on_ready(shown: str | None) -> list[Any]:
        first, second = ready_pairs(catalogue.board).get(shown or "", (None, None))
        return [first, second, on_scores(first, second)]

    def on_scores(first: str | None, second: str | None) -> str:
        columns = [column for heading in (first, second) for column in columns_of(catalogue.board, [heading])]
        if len(columns) < 2:
            return note("Choose two scores.")
        return points_html(*map(catalogue.board.entries, columns))

    def on_model(label: str | None) -> str:
        source = with_gaps(catalogue).get(label or "")
        if source is None:
            return note("No predictions of a task with captions to choose from were submitted yet.")
        try:
            return _gaps_html(catalogue, *source)
        except VLAssayError as error:
            return note(str(error))

    gr.on([across.input, up.input], on_scores, [across, up], points, **QUIET)
    ready.input(on_ready, ready, [across, up, points], **QUIET)
    model.input(on_model, model, gaps, **QUIET)
    return on_open, None, [ready, across, up, model, points, gaps]


def points_html(across: Sequence[BoardEntry], up: Sequence[BoardEntry]) -> Markup:
    """Render the figure of two scores, and their correlation over models."""
    pairs = pairs_of(across, up)
    try:
        return scatter(pairs) + correlations_html(pairs)
    except ScoresError as error:
        return note(str(error))


def correlations_html(pairs: Sequence[tuple[BoardEntry, BoardEntry]]) -> Markup:
    """Render Pearson's, Spearman's and Kendall's correlation of two scores, for published and recomputed values."""
    values = {
        origin: tuple((x.value, y.value) for x, y in pairs if kind(x) == origin)
        for origin in dict.fromkeys(kind(x) for x, _ in pairs)
        if origin != REFERENCE
    }
    lines = [(origin, _correlation(points)) for origin, points in values.items()]
    return render("correlations.html", lines=lines, fewest=FEWEST, fewest_with_interval=FEWEST_WITH_INTERVAL)


@lru_cache(maxsize=256)
def _correlation(values: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    return correlation([x for x, _ in values], [y for _, y in values])


def with_gaps(catalogue: Catalogue) -> dict[str, tuple[str, str]]:
    """Return SHA-256 and task of recomputed predictions of matching tasks, by model, benchmark and task."""
    files: dict[str, tuple[str, str]] = {}
    for column in catalogue.board.columns:
        if column.task_type in ("matching", "groups"):
            for model, sha256 in catalogue.board.recomputed(column).items():
                files.setdefault(f"{model} on {column.benchmark}/{column.task}", (sha256, column.task))
    return files


@lru_cache(maxsize=64)
def _gaps_html(catalogue: Catalogue, sha256: str, task: str) -> Markup:
    return gap_histogram(catalogue.predictions(sha256, task))
