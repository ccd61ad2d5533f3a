"""The Compare page: models side by side in figures, paired differences, and examples on which two models disagree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import gradio as gr
import numpy as np
from markupsafe import Markup

from ...metrics.common.errors import PredictionsError, VLAssayError
from ...metrics.evaluation import interval, p_value, percent, points
from ...metrics.records.schema import MatchingRow, Row, VQARow
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.entries import RECOMPUTED, Column, Entry
from ..board.paired import base_score
from ..submissions.uploads import expected
from .common import QUIET, OnOpen, columns_of, figure, note, table
from .pictures import examples_table, pictures_html
from .plots import bars, radar

_MOST_EXAMPLES = 20


def compare_tab(catalogue: Catalogue) -> OnOpen:
    """The components of the page and their events."""
    score = gr.Dropdown(label="Score", elem_id="compare-score", value=None)
    models = gr.Dropdown(
        label="Two to five models",
        info="Models that have the score; choose that first.",
        multiselect=True,
        max_choices=5,
        elem_id="compare-models",
    )
    figures = [gr.Plot(elem_id="bars", visible=False), gr.Plot(elem_id="radar", visible=False)]
    texts = [gr.HTML(elem_id="differences"), gr.HTML(elem_id="disagreements")]

    def on_open() -> Any:
        return gr.update(choices=[column.heading for column in catalogue.board.columns])

    def on_score(heading: str | None) -> Any:
        columns = columns_of(catalogue.board, [heading])
        return gr.update(choices=[label for column in columns for label in models_with(catalogue, column)], value=[])

    def on_models(heading: str | None, labels: Sequence[str] | None, request: gr.Request) -> list[Any]:
        column = next(iter(columns_of(catalogue.board, [heading])), None)
        known = models_with(catalogue, column) if column else {}
        chosen = [known[label] for label in labels or () if label in known]
        if column is None or len(chosen) < 2:
            return [gr.update(visible=False)] * 2 + ["<p>Choose one more model.</p>" if chosen else "", ""]
        entries = with_categories(catalogue.board, column, chosen)
        return [
            *(figure(request, draw, entries) for draw in (bars, radar)),
            differences_html(catalogue, column, chosen),
            disagreements_html(catalogue, column, chosen),
        ]

    score.change(on_score, score, models, **QUIET)
    models.change(on_models, [score, models], [*figures, *texts], api_visibility="private")
    return on_open, None, score


def models_with(catalogue: Catalogue, column: Column) -> dict[str, Entry]:
    """The entries of a score by the label of their model, in the board's order."""
    return {f"{entry.model} ({entry.origin})": entry for entry in catalogue.board.entries(column)}


def with_categories(board: Board, column: Column, chosen: Sequence[Entry]) -> list[Entry]:
    """The entries of the chosen models by category, and over all categories last."""
    columns = [*board.categories(column), column]
    found = (board.entry(each, entry.model, entry.origin) for entry in chosen for each in columns)
    return [entry for entry in found if entry is not None]


def differences_html(catalogue: Catalogue, column: Column, chosen: Sequence[Entry]) -> Markup:
    """The paired differences of all pairs of the chosen models that were recomputed."""
    models = _recomputed(chosen)
    if len(models) < 2:
        return note("Paired differences need two recomputed models; there are no predictions behind a paper's values.")
    heads = ("models", "difference, points", "95 % interval", "p", "wins", "losses", "agreement, %")
    return table(
        heads,
        [_difference(catalogue, column, *pair) for pair in combinations(models, 2)],
        note="First minus second, over all examples. Intervals by bootstrap over images; p by permutation of the "
        "models on whole images, not corrected for the number of pairs. A win is an example on which the first model "
        "is better; only means over examples have wins.",
    )


def disagreements_html(catalogue: Catalogue, column: Column, chosen: Sequence[Entry]) -> Markup:
    """Examples on which the first two recomputed models have different scores; see ``pictures`` for images."""
    models = _recomputed(chosen)[:2]
    if len(models) < 2:
        return Markup("")
    try:
        pair = catalogue.paired.pair(models[0].predictions, models[1].predictions, column.metric)
        examples = pair[0].examples
        score = base_score(examples, column.score)
        if score not in examples.values:
            return Markup("")
        first, second = (catalogue.predictions(entry.predictions) for entry in models)
        data = expected(first.metadata)
    except VLAssayError as error:
        return note(str(error))
    values = [scored.examples.values[score] for scored in pair]
    counted = ~np.isnan(values[0])
    differ = np.flatnonzero((values[0] != values[1]) & counted).tolist()
    if not differ:
        return note("They agree on every example.")
    known = {example.id: example for example in data.examples}
    rows = [{row.id: row for row in predictions.rows} for predictions in (first, second)]
    lines = []
    for number in differ[:_MOST_EXAMPLES]:
        id, part = pair[0].ids[number]
        if id in known:
            both = zip(rows, values, strict=True)
            predicted = [_predicted(by_id[id], float(scores[number])) for by_id, scores in both]
            label = f"{id}, {part}" if part else id
            lines.append((label, pictures_html(data, known[id]), [list(known[id].captions), *predicted]))
    first_ones = f", the first {_MOST_EXAMPLES}" if len(differ) > _MOST_EXAMPLES else ""
    title = f"{len(differ):,} of {counted.sum():,} examples on which they disagree{first_ones}"
    return examples_table(column.benchmark, ["captions or question", *(entry.model for entry in models)], lines, title)


def _recomputed(chosen: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in chosen if entry.origin == RECOMPUTED and entry.predictions]


def _difference(catalogue: Catalogue, column: Column, one: Entry, two: Entry) -> tuple[str, list[Any]]:
    label = f"{one.model} − {two.model}"
    try:
        found = catalogue.paired.difference(one.predictions, two.predictions, column.metric, column.score)
    except PredictionsError as error:
        return label, [[str(error)]]
    counts = ["" if found[name] is None else f"{found[name]:,}" for name in ("wins", "losses")]
    agreement = "" if found["agreement"] is None else percent(found["agreement"])
    difference = [points(found["difference"]), interval(found["difference_interval"], signed=True)]
    return label, [*difference, p_value(found["permutation_p_value"]), *counts, agreement]


def _predicted(row: Row, value: float) -> Any:
    """The scores that a model gave, or the example's score if there are too many to show."""
    if isinstance(row, VQARow) and row.score is not None:
        return f"{row.score:.4g}"
    if isinstance(row, MatchingRow) and row.scores is not None:
        return [", ".join(f"{score:.4g}" for score in scores) for scores in row.scores]
    return f"{value:.4g}"
