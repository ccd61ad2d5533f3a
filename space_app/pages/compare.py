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
from ...metrics.estimation.paired import holm
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.entries import RECOMPUTED, Column, Entry
from ..board.paired import LEVEL
from ..board.views import main_places
from .address import View
from .common import QUIET, OnOpen, address_of, columns_of, known_once, note, render
from .plots import MOST, Axis, profile

_CHOOSE = "Choose a score and two to five models."


def compare_tab(catalogue: Catalogue) -> OnOpen:
    """The components of the page and their events; what to do when it opens, with two models compared."""
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
        elif found := opening(board):
            heading, labels = found[0].heading, [_label(entry) for entry in found[1]]
        first = gr.update(choices=headings, value=heading)
        return [first, *on_score(heading, labels)]

    def on_score(heading: str | None, labels: Sequence[str] | None) -> list[Any]:
        """Keep the models that have the score; the best take the places of the others."""
        column = next(iter(columns_of(catalogue.board, [heading])), None)
        known = models_with(catalogue, column) if column else {}
        kept = known_once(labels, known, MOST)
        best = sorted(known, key=lambda label: (not known[label].predictions, known[label].is_reference))
        kept += [label for label in best if label not in kept][: max(2 - len(kept), 0)]
        return [gr.update(choices=[*known], value=kept), draw(heading, kept)]

    def draw(heading: str | None, labels: Sequence[str] | None) -> Markup:
        column = next(iter(columns_of(catalogue.board, [heading])), None)
        known = models_with(catalogue, column) if column else {}
        chosen = [known[label] for label in known_once(labels, known, MOST)]
        return comparison_html(catalogue, column, chosen) if column and len(chosen) > 1 else note(_CHOOSE)

    # Most tests are done or take a second, but those of average precision take some.
    quick: dict[str, Any] = QUIET | {"show_progress": "minimal"}
    score.input(on_score, [score, models], [models, answer], **quick)
    models.input(draw, [score, models], answer, **quick)
    return on_open, None, [score, models, answer]


@lru_cache(maxsize=2)
def opening(board: Board) -> tuple[Column, list[Entry]] | None:
    """Return the first main score that two recomputed models have, and the best two; references only if need be."""
    for with_references in (False, True):
        for place in main_places(board):
            models = [
                entry for entry in _recomputed(board.entries(place.column)) if with_references or not entry.is_reference
            ]
            if len(models) > 1:
                return place.column, models[:2]
    return None


def models_with(catalogue: Catalogue, column: Column) -> dict[str, Entry]:
    """The entries of a score by the label of their model, in the board's order."""
    return {_label(entry): entry for entry in catalogue.board.entries(column)}


def with_categories(board: Board, column: Column, chosen: Sequence[Entry]) -> list[Entry]:
    """The entries of the chosen models by category, and over all categories last."""
    columns = [*board.categories(column), column]
    found = (board.entry(each, entry.model, entry.origin) for entry in chosen for each in columns)
    return [entry for entry in found if entry is not None]


def comparison_html(catalogue: Catalogue, column: Column, chosen: Sequence[Entry]) -> Markup:
    """The verdict, the differences of the first two by category, the scores of all by category, and all pairs."""
    parts = [
        verdict_html(catalogue, column, chosen),
        disagreements_link(column, chosen),
        differences_html(catalogue, column, chosen),
        profile(column, with_categories(catalogue.board, column, chosen)),
        pairs_html(catalogue, column, chosen),
    ]
    return Markup("").join(parts)


def verdict_html(catalogue: Catalogue, column: Column, chosen: Sequence[Entry]) -> Markup:
    """Whether the best of the chosen models is better than each other one, in sentences.

    The best over all examples may be worse on those that two models share, which are the ones compared. The p-values
    are corrected by Holm's method for the number of tests.
    """
    sign = 1 if column.is_higher_better else -1
    models = sorted(_recomputed(chosen), key=lambda entry: -sign * entry.value)
    if len(models) < 2:
        untested = sorted(chosen[:2], key=lambda entry: -sign * entry.value)
        return render("verdict.html", column=column, untested=untested, verdicts=[], tests=[])
    found = [(other, _tested(catalogue, column, models[0], other)) for other in models[1:]]
    tests = [each for _, each in found if isinstance(each, dict) and each["difference"] is not None]
    corrected = iter(holm([each["permutation_p_value"] for each in tests]).tolist())
    verdicts: list[dict[str, Any]] = []
    for other, each in found:
        problem = each if isinstance(each, str) else f"{words(column.score)} is not defined for one of the models"
        if isinstance(each, str) or each["difference"] is None:
            verdicts.append({"better": models[0], "worse": other, "problem": problem})
            continue
        difference, bounds, p = each["difference"], each["difference_interval"], next(corrected)
        better, worse = (models[0], other) if sign * difference >= 0 else (other, models[0])
        if bounds is not None and difference < 0:
            bounds = [-bounds[1], -bounds[0]]
        test = {"difference": abs(difference), "bounds": bounds, "p": p, "is_better": p <= LEVEL}
        verdicts.append({"better": better, "worse": worse, "problem": "", **test})
    return render("verdict.html", column=column, untested=None, verdicts=verdicts, tests=tests)


def differences_html(catalogue: Catalogue, column: Column, chosen: Sequence[Entry]) -> Markup:
    """The differences of the first two recomputed models as bars with intervals, by category and over all."""
    models = _recomputed(chosen)[:2]
    found = _tested(catalogue, column, *models) if len(models) == 2 else ""
    if isinstance(found, str):
        return Markup("")
    parts = [(words(name), part) for name, part in found["per_category"].items()] + [("all", found)]
    parts = [(name, part) for name, part in parts if part["difference"] is not None]
    if not parts:
        return Markup("")
    reach = max(abs(bound) for _, part in parts for bound in (part["difference"], *(part["difference_interval"] or ())))
    # To the right the first model is better, whichever direction the score has.
    sign = 1 if column.is_higher_better else -1
    return render(
        "differences.html", column=column, models=models, axis=Axis.of([-reach, reach]), parts=parts, sign=sign
    )


def pairs_html(catalogue: Catalogue, column: Column, chosen: Sequence[Entry]) -> Markup:
    """Paired differences of all pairs of the chosen models that were recomputed, folded."""
    pairs = combinations(_recomputed(chosen), 2)
    return render("pairs.html", pairs=[(*pair, _tested(catalogue, column, *pair)) for pair in pairs])


def disagreements_link(column: Column, chosen: Sequence[Entry]) -> Markup:
    """A link to the examples on which the recomputed models disagree; empty without two of them."""
    models = [entry.model for entry in _recomputed(chosen)]
    if len(models) < 2:
        return Markup("")
    address = address_of("errors", task=[f"{column.benchmark}/{column.task}"], models=models, show=["disagree"])
    return Markup('<p><a href="{}">Look at the examples on which they disagree</a></p>').format(address)


def _label(entry: Entry) -> str:
    return f"{entry.model} ({entry.origin})"


def _recomputed(chosen: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in chosen if entry.origin == RECOMPUTED and entry.predictions]


def _tested(catalogue: Catalogue, column: Column, one: Entry, two: Entry) -> dict[str, Any] | str:
    """The paired difference of two models, or why there is none."""
    try:
        return catalogue.paired.difference(one.predictions, two.predictions, column)
    except PredictionsError as error:
        return str(error)
