"""The Compare page: a verdict on some models, their differences by category, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...metrics.common.errors import PredictionsError
from ...metrics.common.formatting import words
from ...metrics.modules.discovery import get_spec
from ...metrics.results.pairs import LEVEL
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.entries import RECOMPUTED, BoardColumn, BoardEntry
from ..board.views import main_places
from .address import View
from .common import QUIET, OnOpen, address_of, columns_of, known_once, note, render
from .plots import MOST, Axis, profile

_CHOOSE = "Choose a score and two to five models."


def compare_tab(catalogue: Catalogue) -> OnOpen:
    """Build the page's components and events; return the update for its opening, which compares two models."""
    with gr.Row():
        score = gr.Dropdown(label="Score", elem_id="compare-score", value=None, min_width=300)
        models = gr.Dropdown(
            label="Two to five models that have it",
            multiselect=True,
            max_choices=MOST,
            elem_id="compare-models",
            min_width=300,
        )
    answer = gr.HTML(elem_id="differences")
    view = View("compare", score=score, models=models)

    def on_open(request: gr.Request) -> list[Any]:
        board, asked = catalogue.board, view.read(request)
        headings = [column.heading for column in board.columns]
        heading, labels = asked.one("score", headings), list[str]()
        if heading is not None:
            labels = asked.many("models", models_with(catalogue, columns_of(board, [heading])[0]), MOST)
        elif opening_pair := opening(board):
            heading, labels = opening_pair[0].heading, [_label(entry) for entry in opening_pair[1]]
        first = gr.update(choices=headings, value=heading)
        return [first, *on_score(heading, labels)]

    def on_score(heading: str | None, labels: Sequence[str] | None) -> list[Any]:
        """Keep the models that have the score; the best take the places of the others."""
        column = next(iter(columns_of(catalogue.board, [heading])), None)
        known = models_with(catalogue, column) if column else {}
        shown_labels = known_once(labels, known, MOST)
        best = sorted(known, key=lambda label: (not known[label].predictions, known[label].is_reference))
        shown_labels += [label for label in best if label not in shown_labels][: max(2 - len(shown_labels), 0)]
        return [gr.update(choices=[*known], value=shown_labels), draw(heading, shown_labels)]

    def draw(heading: str | None, labels: Sequence[str] | None) -> Markup:
        column = next(iter(columns_of(catalogue.board, [heading])), None)
        known = models_with(catalogue, column) if column else {}
        entries = [known[label] for label in known_once(labels, known, MOST)]
        return comparison_html(catalogue, column, entries) if column and len(entries) > 1 else note(_CHOOSE)

    # Most tests are done or take a second, but those of average precision take some.
    quick: dict[str, Any] = QUIET | {"show_progress": "minimal"}
    score.input(on_score, [score, models], [models, answer], **quick)
    models.input(draw, [score, models], answer, **quick)
    return on_open, None, [score, models, answer]


@lru_cache(maxsize=2)
def opening(board: Board) -> tuple[BoardColumn, list[BoardEntry]] | None:
    """Return the first main score that two recomputed models have, and the best two; references only if need be."""
    for with_references in (False, True):
        for place in main_places(board):
            models = [
                entry for entry in _recomputed(board.entries(place.column)) if with_references or not entry.is_reference
            ]
            if len(models) > 1:
                return place.column, models[:2]
    return None


def models_with(catalogue: Catalogue, column: BoardColumn) -> dict[str, BoardEntry]:
    """Return the entries of a score by the label of their model, in the board's order."""
    return {_label(entry): entry for entry in catalogue.board.entries(column)}


def with_categories(board: Board, column: BoardColumn, models: Sequence[BoardEntry]) -> list[BoardEntry]:
    """Return the entries of the chosen models by category, and over all categories last."""
    columns = [*board.categories(column), column]
    entries = (board.entry(category, entry.model, entry.origin) for entry in models for category in columns)
    return [entry for entry in entries if entry is not None]


def comparison_html(catalogue: Catalogue, column: BoardColumn, entries: Sequence[BoardEntry]) -> Markup:
    """Render the verdict, the first two models' differences, all scores by category, and all pairs."""
    parts = [
        verdict_html(catalogue, column, entries),
        disagreements_link(column, entries),
        differences_html(catalogue, column, entries),
        profile(column, with_categories(catalogue.board, column, entries)),
        pairs_html(catalogue, column, entries),
    ]
    return Markup("").join(parts)


def verdict_html(catalogue: Catalogue, column: BoardColumn, entries: Sequence[BoardEntry]) -> Markup:
    """Render sentences that compare the best of the chosen models with each other model.

    The comparison uses the examples that two models share; the best model over all examples may be worse on them.
    Each pair is tested by itself.
    """
    sign = 1 if column.is_higher_better else -1
    models = sorted(_recomputed(entries), key=lambda entry: -sign * entry.value)
    if len(models) < 2:
        untested = sorted(entries[:2], key=lambda entry: -sign * entry.value)
        bounds = unpaired_interval(catalogue.board, untested[0], untested[1])
        if bounds is not None and sign < 0:
            bounds = -bounds[1], -bounds[0]
        return render("verdict.html", column=column, untested=untested, bounds=bounds, verdicts=[], tests=[])
    results = [(other_model, _tested(catalogue, column, models[0], other_model)) for other_model in models[1:]]
    tests = [result for _, result in results if isinstance(result, dict) and result["difference"] is not None]
    verdicts: list[dict[str, Any]] = []
    for other_model, result in results:
        problem = result if isinstance(result, str) else f"{words(column.score)} is not defined for one of the models"
        if isinstance(result, str) or result["difference"] is None:
            verdicts.append({"better": models[0], "worse": other_model, "problem": problem})
            continue
        difference, bounds, p = result["difference"], result["difference_interval"], result["permutation_p_value"]
        better, worse = (models[0], other_model) if sign * difference >= 0 else (other_model, models[0])
        if bounds is not None and difference < 0:
            bounds = [-bounds[1], -bounds[0]]
        test = {"difference": abs(difference), "bounds": bounds, "p": p, "is_better": p <= LEVEL}
        verdicts.append({"better": better, "worse": worse, "problem": "", **test})
    return render("verdict.html", column=column, untested=None, verdicts=verdicts, tests=tests)


def unpaired_interval(board: Board, first: BoardEntry, second: BoardEntry) -> tuple[float, float] | None:
    """Return a 95 % interval of the difference of two scores from their numbers of examples alone.

    For shares of n examples: the normal approximation with variance p (1 - p) / n of each model, without a covariance.
    Of a macro average it is the mean over categories.

    Returns:
        (low, high) of first minus second; None if a number of examples is not known, the score is no share, or a share
        is 0 or 1, where the approximation has no width.
    """
    variances = [_variance(board, entry) for entry in (first, second)]
    if None in variances:
        return None
    difference, reach = first.value - second.value, 1.96 * sum(filter(None, variances)) ** 0.5
    return max(difference - reach, -1.0), min(difference + reach, 1.0)


def _variance(board: Board, entry: BoardEntry) -> float | None:
    column = entry.column
    # Other scores than the main one may be differences of shares.
    is_main = column.whole.score.removeprefix("macro_") == get_spec(column.metric).main_score
    if column.task_type != "matching" or not is_main:
        return None
    is_macro = column.score.startswith("macro_") and not column.category
    columns = board.categories(column) if is_macro else [column]
    parts = [board.entry(category_column, entry.model, entry.origin) for category_column in columns]
    variances = [
        category_entry.value * (1 - category_entry.value) / category_entry.n
        for category_entry in parts
        if category_entry and category_entry.n and 0 < category_entry.value < 1
    ]
    return sum(variances) / len(parts) ** 2 if parts and len(variances) == len(parts) else None


def differences_html(catalogue: Catalogue, column: BoardColumn, entries: Sequence[BoardEntry]) -> Markup:
    """Render the differences of the first two recomputed models as bars with intervals, by category and over all."""
    models = _recomputed(entries)[:2]
    result = _tested(catalogue, column, *models) if len(models) == 2 else ""
    if isinstance(result, str):
        return Markup("")
    rows = [(words(name), row) for name, row in result["per_category"].items()] + [("all", result)]
    rows = [(name, row) for name, row in rows if row["difference"] is not None]
    if not rows:
        return Markup("")
    reach = max(abs(bound) for _, row in rows for bound in (row["difference"], *(row["difference_interval"] or ())))
    # To the right the first model is better, whichever direction the score has.
    sign = 1 if column.is_higher_better else -1
    return render(
        "differences.html", column=column, models=models, axis=Axis.of([-reach, reach]), parts=rows, sign=sign
    )


def pairs_html(catalogue: Catalogue, column: BoardColumn, entries: Sequence[BoardEntry]) -> Markup:
    """Paired differences of all pairs of the chosen models that were recomputed, folded."""
    pairs = combinations(_recomputed(entries), 2)
    return render("pairs.html", pairs=[(*pair, _tested(catalogue, column, *pair)) for pair in pairs])


def disagreements_link(column: BoardColumn, entries: Sequence[BoardEntry]) -> Markup:
    """Render a link to the examples on which the recomputed models disagree; empty without two of them."""
    models = [entry.model for entry in _recomputed(entries)]
    if len(models) < 2:
        return Markup("")
    address = address_of("errors", task=[f"{column.benchmark}/{column.task}"], models=models, show=["disagree"])
    return Markup('<p><a href="{}">Look at the examples on which they disagree</a></p>').format(address)


def _label(entry: BoardEntry) -> str:
    return f"{entry.model} ({entry.origin})"


def _recomputed(entries: Sequence[BoardEntry]) -> list[BoardEntry]:
    return [entry for entry in entries if entry.origin == RECOMPUTED and entry.predictions]


def _tested(catalogue: Catalogue, column: BoardColumn, first: BoardEntry, second: BoardEntry) -> dict[str, Any] | str:
    """Return the paired difference of two models, or the reason why it cannot be computed."""
    try:
        return catalogue.paired.difference(first.predictions, second.predictions, column)
    except PredictionsError as error:
        return str(error)
