"""The Model page: a model's scores with ranks, its accuracy by skill, and the scores' sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...hub_datasets.reports.skills import skill_profile, verdict
from ...metrics.common.errors import VLAssayError
from ..board.catalogue import Catalogue
from ..board.entries import ORIGINS, RECOMPUTED, BoardColumn, BoardEntry
from ..board.views import Place, main_places, places
from .address import View
from .common import QUIET, OnOpen, csv_button, message, note, render

_Section = tuple[str, list[tuple[Place, BoardEntry]]]
# Place, entry, chance level, mark, and the best and the worst rank.
_Row = tuple[Place, BoardEntry, float | None, str, tuple[int, int] | None]


def model_tab(catalogue: Catalogue, tab: gr.Tab) -> tuple[gr.Dropdown, OnOpen]:
    """Build the page's components and events in its tab.

    Returns:
        The component that names the model, and what ``Blocks.load`` needs when the page opens.
    """
    model = gr.Dropdown(catalogue.board.models(), value=None, label="Model", elem_id="model")
    profile = gr.HTML(note("Choose a model."), elem_id="profile")
    skills = gr.HTML(elem_id="skills")
    provenance = gr.HTML(elem_id="provenance")
    address = View("model", model=model)

    def as_csv(name: str | None) -> str:
        return catalogue.board.csv_of(catalogue.board.of_model(name or ""))

    csv_button("Download all its scores as CSV", as_csv, model, "model-download")

    def on_open(request: gr.Request, default: str | None = None) -> list[Any]:
        known, asked = catalogue.board.models(), address.read(request)
        text = asked.text("model")
        name = asked.one("model", known) or (None if text else default)
        # Without a value the choices leave the model that is chosen.
        choices = gr.update(choices=known, value=name) if name else gr.update(choices=known)
        return [choices, profile_html(catalogue, text) if text and not name else gr.skip()]

    def on_select(name: str | None, request: gr.Request) -> list[Any]:
        # A tab that the address names is selected before `on_open` has answered.
        return [gr.skip(), gr.skip()] if name else on_open(request, _default(catalogue))

    def on_model(name: str | None) -> tuple[str, str, str]:
        if not name:
            return note("Choose a model."), "", ""
        return profile_html(catalogue, name), "", provenance_html(catalogue, name)

    def on_shown(name: str | None) -> str:
        return skills_html(catalogue, name) if name else ""

    tab.select(on_select, model, [model, profile], **QUIET)
    shown = model.change(on_model, model, [profile, skills, provenance], **QUIET)
    # The skills of large predictions take seconds, so they follow what is there at once.
    shown.then(on_shown, model, skills, show_progress="minimal", api_visibility="private")
    return model, (on_open, None, [model, profile])


def _default(catalogue: Catalogue) -> str | None:
    """Return the model that the page shows first: a recomputed model if there is one."""
    board = catalogue.board
    return next(iter([*board.models(RECOMPUTED), *board.models()]), None)


def profile_html(catalogue: Catalogue, name: str) -> Markup:
    """Render a model's facts, its main scores with their ranks, and its scores by benchmark and category."""
    board = catalogue.board
    entries = board.of_model(name)
    if not entries:
        return message(f"There is no model {name[:200]!r} on this leaderboard.", is_error=True)
    mains = main_places(board)
    ties = catalogue.ties([place.column for place in mains])
    summary = []
    for place, entry in _with_entries(mains, entries):
        rank = board.ranks(place.column, ties[place.column]).get((entry.model, entry.origin))
        summary.append(_row(catalogue, place, entry, rank))
    return render(
        "model.html",
        name=name,
        first=entries[0],
        tags=list(dict.fromkeys(entry.origin for entry in entries)),
        summary=summary,
        counts={place.column: board.count(place.column) for place in mains},
        sections=[(title, [_row(catalogue, *pair) for pair in pairs]) for title, pairs in _sections(entries)],
    )


def skills_html(catalogue: Catalogue, name: str) -> Markup:
    """Render a model's accuracy by skill from its predictions; empty if no example tests a declared skill."""
    entries = [entry for entry in catalogue.board.of_model(name) if entry.origin == RECOMPUTED and entry.predictions]
    # A task may have several files, of several seeds; one of them counts.
    files = {(entry.benchmark, entry.task): entry.predictions for entry in reversed(entries)}
    try:
        predictions = [catalogue.predictions(sha256) for sha256 in dict.fromkeys(files.values())]
        profile = skill_profile(predictions) if predictions else None
    except VLAssayError as error:
        return message(f"The skills could not be computed: {error}", is_error=True)
    if profile is None or not profile.scores:
        return Markup()
    return render("skills.html", verdict=verdict(profile), profile=profile)


def provenance_html(catalogue: Catalogue, name: str) -> Markup:
    """Return the origin of each of a model's scores."""
    entries = catalogue.board.of_model(name)
    recomputed = [entry for entry in entries if entry.origin == RECOMPUTED]
    files = [catalogue.provenance(sha256) for sha256 in dict.fromkeys(entry.predictions for entry in recomputed)]
    printed = dict.fromkeys(
        (entry.source, entry.column.heading) for entry in entries if entry.origin != RECOMPUTED and not entry.category
    )
    return render(
        "provenance.html",
        name=name,
        errors=list(dict.fromkeys(f"{entry.benchmark}/{entry.task}" for entry in recomputed)),
        files=[(source.result, source.submission) for source in files if source],
        printed=list(printed),
    )


def _with_entries(shown: Sequence[Place], entries: Sequence[BoardEntry]) -> Iterator[tuple[Place, BoardEntry]]:
    """Yield the columns in which a model has values, with its entries; recomputed before published ones."""
    by_column: dict[BoardColumn, list[BoardEntry]] = {}
    for entry in entries:
        by_column.setdefault(entry.column, []).append(entry)
    for place in shown:
        for entry in sorted(by_column.get(place.column, ()), key=lambda entry: ORIGINS.index(entry.origin)):
            yield place, entry


def _sections(entries: Sequence[BoardEntry]) -> Iterator[_Section]:
    """Yield the scores of each benchmark, with its categories."""
    columns = places(entry.column for entry in entries)
    for group in dict.fromkeys(place.group for place in columns):
        shown = [*dict.fromkeys(place for place in columns if place.group == group)]
        yield group, [*_with_entries(shown, entries)]


def _row(catalogue: Catalogue, place: Place, entry: BoardEntry, rank: tuple[int, int] | None = None) -> _Row:
    is_tied = entry.origin == RECOMPUTED and entry.model in catalogue.ties([place.column])[place.column]
    return place, entry, catalogue.board.chance(place.column), "tie" if is_tied else "", rank
