"""The Insights page: two scores of all models against each other, and how the score gaps of one model spread."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ..board.catalogue import Catalogue
from .common import QUIET, columns_of, figure
from .plots import gap_histogram, ready_pairs, scatter


def insights_tab(catalogue: Catalogue, tab: gr.Tab) -> None:
    """The components of the page and their events; it opens with a figure."""
    ready = gr.Radio([], label="Show", elem_id="ready")
    with gr.Row():
        across = gr.Dropdown(label="Across", elem_id="across", value=None)
        up = gr.Dropdown(label="Up", elem_id="up", value=None)
    points = gr.Plot(elem_id="points", visible=False)
    model = gr.Dropdown(label="Score gaps of", elem_id="gaps-of", value=None)
    gaps = gr.Plot(elem_id="gaps", visible=False)

    def on_open(shown: str | None, one: str | None, two: str | None, label: str | None) -> list[Any]:
        headings = [column.heading for column in catalogue.board.columns]
        pairs, labels = ready_pairs(catalogue.board), [*_with_gaps(catalogue)]
        if not (one or two) and pairs:
            shown, (one, two) = next(iter(pairs.items()))
        label = label or next(iter(labels), None)
        values = [(shown, [*pairs]), (one, headings), (two, headings), (label, labels)]
        return [gr.update(choices=choices, value=value) for value, choices in values]

    def on_ready(shown: str | None) -> Any:
        return ready_pairs(catalogue.board).get(shown or "", (gr.skip(), gr.skip()))

    def on_scores(one: str | None, two: str | None, request: gr.Request) -> Any:
        columns = columns_of(catalogue.board, [one, two])
        if len(columns) < 2:
            return gr.update(visible=False)
        return figure(request, scatter, *map(catalogue.board.entries, columns))

    def on_model(label: str | None, request: gr.Request) -> Any:
        sha256 = _with_gaps(catalogue).get(label or "")
        if sha256 is None:
            return gr.update(visible=False)
        return figure(request, gap_histogram, catalogue.predictions(sha256))

    for score in (across, up):
        score.change(on_scores, [across, up], points, api_visibility="private")
    model.change(on_model, model, gaps, api_visibility="private")
    ready.input(on_ready, ready, [across, up], **QUIET)
    tab.select(on_open, [ready, across, up, model], [ready, across, up, model], **QUIET)


def _with_gaps(catalogue: Catalogue) -> dict[str, str]:
    """SHA-256 of recomputed predictions of matching tasks, by model, benchmark and task."""
    found: dict[str, str] = {}
    for column in catalogue.board.columns:
        if column.task_type in ("matching", "groups"):
            for model, sha256 in catalogue.board.recomputed(column).items():
                found.setdefault(f"{model} on {column.benchmark}/{column.task}", sha256)
    return found
