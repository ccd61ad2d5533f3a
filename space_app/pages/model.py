"""The Model page: a model's scores with ranks, what it cannot be told apart from, and where the scores come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...hub_datasets.core.skills import SkillScore, skill_profile, verdict
from ...metrics.common.errors import VLAssayError
from ...metrics.common.formatting import interval, percent, words
from ..board.catalogue import Catalogue
from ..board.entries import ORIGINS, RECOMPUTED, Column, Entry
from ..board.views import BY_SKILL, Place, main_places, places, view
from .address import View, address_of
from .common import QUIET, OnOpen, csv_button, message, note, render, table
from .leaderboard import cell, size_text

_Section = tuple[str, list[tuple[Place, Entry]]]


def model_tab(catalogue: Catalogue, tab: gr.Tab) -> tuple[gr.Dropdown, OnOpen]:
    """The components of the page in its tab and their events.

    Returns:
        The component that names the model, and what ``Blocks.load`` needs when the page opens.
    """
    chosen = gr.Dropdown(catalogue.board.models(), value=None, label="Model", elem_id="model")
    profile = gr.HTML(note("Choose a model."), elem_id="profile")
    alike = gr.HTML(elem_id="alike")
    provenance = gr.HTML(elem_id="provenance")
    address = View("model", model=chosen)

    def as_csv(name: str | None) -> str:
        return catalogue.board.csv_of(catalogue.board.of_model(name or ""))

    csv_button("Download all its scores as CSV", as_csv, chosen, "model-download")

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
        return skills_html(catalogue, name) + alike_html(catalogue, name) if name else ""

    tab.select(on_select, chosen, [chosen, profile], **QUIET)
    shown = chosen.change(on_model, chosen, [profile, alike, provenance], **QUIET)
    # The tests take seconds for large predictions, so they follow what is there at once.
    shown.then(on_shown, chosen, alike, show_progress="minimal", api_visibility="private")
    return chosen, (on_open, None, [chosen, profile])


def _default(catalogue: Catalogue) -> str | None:
    """The model that the page opens with: a recomputed one if there is one."""
    board = catalogue.board
    return next(iter([*board.models(RECOMPUTED), *board.models()]), None)


def profile_html(catalogue: Catalogue, name: str) -> Markup:
    """A model's facts, its main scores with their ranks, and its scores by skill and by category."""
    board = catalogue.board
    own = board.of_model(name)
    if not own:
        return message(f"There is no model {name[:200]!r} on this leaderboard.", is_error=True)
    mains = main_places(board)
    columns = [place.column for place in mains]
    ties = catalogue.ties(columns)
    summary = []
    for place, entry in _with_entries(mains, own):
        rank = board.ranks(place.column, ties[place.column]).get((entry.model, entry.origin))
        shown = f"{'–'.join(map(str, dict.fromkeys(rank)))} of {board.count(place.column):,}" if rank else ""
        summary.append(_row(catalogue, place, entry) | {"rank": shown})
    first = own[0]
    facts = {
        "family": first.family or "not stated",
        "parameters": size_text(first.parameters) if first.parameters else "not stated",
        "training data": first.training_data or "not stated",
    }
    return render(
        "model.html",
        name=name,
        facts=facts,
        tags=list(dict.fromkeys(entry.origin for entry in own)),
        origins=ORIGINS,
        summary=summary,
        sections=[(title, [_row(catalogue, *pair) for pair in pairs]) for title, pairs in _sections(catalogue, own)],
    )


def skills_html(catalogue: Catalogue, name: str) -> Markup:
    """A model's accuracy by skill over benchmarks, from its predictions; empty where none tests a declared skill."""
    own = [entry for entry in catalogue.board.of_model(name) if entry.origin == RECOMPUTED and entry.predictions]
    # A task may have several files, of several seeds; one of them counts.
    files = {(entry.benchmark, entry.task): entry.predictions for entry in reversed(own)}
    try:
        predictions = [catalogue.predictions(sha256) for sha256 in dict.fromkeys(files.values())]
        found = skill_profile(predictions) if predictions else None
    except VLAssayError as error:
        return message(f"The skills could not be computed: {error}", is_error=True)
    if found is None or not found.scores:
        return Markup()
    return table(
        ["skill", "above chance, %", "95 % interval", "text alone, %", "right, %", "examples", "tasks"],
        [(score.skill, _skill_cells(score)) for score in found.scores],
        title="Skills",
        note=f"{verdict(found)} Above chance: (accuracy - chance) / (1 - chance), averaged over tasks. Text alone: the "
        "same of the best known rule or probe that sees no image. "
        f"Rows in no skill: {sum(found.left_out.values()):,}; of examples that count in another benchmark: "
        f"{sum(found.duplicates.values()):,}.",
    )


def _skill_cells(score: SkillScore) -> list[Any]:
    return [
        percent(score.corrected),
        interval(score.interval),
        percent(score.text_alone),
        percent(score.accuracy),
        f"{score.examples:,}",
        list(score.parts),
    ]


def alike_html(catalogue: Catalogue, name: str) -> Markup:
    """For each main score the models that a model cannot be told apart from."""
    lines = []
    for place in main_places(catalogue.board):
        column = place.column
        if name in catalogue.board.recomputed(column):
            try:
                near, found = catalogue.alike(column, name)
            except VLAssayError as error:
                lines.append((column.heading, [[str(error)[:300]]]))
                continue
            if near:
                lines.append((column.heading, [", ".join(found) or "none", str(len(near))]))
    if not lines:
        return note("There is no other recomputed model to compare it with; values of papers come without predictions.")
    return table(
        ["score", "not told apart from", "models compared"],
        lines,
        title="What it cannot be told apart from",
        note="Paired permutation tests over images at the 5 % level with Holm's correction, against the recomputed "
        "models with the nearest values.",
    )


def provenance_html(catalogue: Catalogue, name: str) -> Markup:
    """Where each of a model's scores comes from."""
    own = catalogue.board.of_model(name)
    recomputed = dict.fromkeys(entry.predictions for entry in own if entry.origin == RECOMPUTED)
    files = [_file(catalogue, sha256) for sha256 in recomputed if sha256]
    tasks = dict.fromkeys(f"{each.benchmark}/{each.task}" for each in own if each.origin == RECOMPUTED)
    errors = {task: address_of("errors", task=[task], models=[name]) for task in tasks}
    printed = dict.fromkeys(
        (entry.source, entry.column.heading) for entry in own if entry.origin != RECOMPUTED and not entry.category
    )
    return render("provenance.html", errors=errors, files=[found for found in files if found], printed=list(printed))


def _file(catalogue: Catalogue, sha256: str) -> dict[str, Any] | None:
    """What is known of a predictions file, by the names of the facts."""
    found = catalogue.provenance(sha256)
    if found is None:
        return None
    result, sent = found.result, found.submission
    model, data = result.model, result.benchmark
    names = ("checkpoint", "revision", "dtype")
    facts = {
        "SHA-256 of the predictions": sha256,
        **{words(key): str(model[key]) for key in names if model.get(key)},
        "split and fingerprint of the dataset": f"{data.get('split', '')} {data.get('fingerprint', '')}".strip(),
        "examples": f"{result.scores['n']:,}" + (f", {result.missing:,} without an image" if result.missing else ""),
        "captions cut by the model": f"{result.run.get('truncated_captions', 0):,}",
        "code": str(result.run.get("code", "")),
        "status": f"accepted, submission {sent.id}" if sent else "shipped with VL-Assay",
    }
    if sent:
        facts["sent"] = f"{sent.time[:16].replace('T', ' ')} UTC" + (f" by {sent.user}" if sent.user else "")
        facts["link"] = str((sent.model or {}).get("link") or "")
    return {"title": f"{data['name']}/{data['task']}", "facts": {key: value for key, value in facts.items() if value}}


def _with_entries(shown: Sequence[Place], own: Sequence[Entry]) -> Iterator[tuple[Place, Entry]]:
    """The places at which a model has values, with these; a recomputed one comes before one of a paper."""
    by_column: dict[Column, list[Entry]] = {}
    for entry in own:
        by_column.setdefault(entry.column, []).append(entry)
    for place in shown:
        for entry in sorted(by_column.get(place.column, ()), key=lambda entry: ORIGINS.index(entry.origin)):
            yield place, entry


def _sections(catalogue: Catalogue, own: Sequence[Entry]) -> Iterator[_Section]:
    """The scores by skill, then those of each benchmark with its categories."""
    skills = [*_with_entries(view(catalogue.board, BY_SKILL, most=None), own)]
    for skill in dict.fromkeys(place.group for place, _ in skills):
        yield skill, [pair for pair in skills if pair[0].group == skill]
    every = places(entry.column for entry in own)
    for group in dict.fromkeys(place.group for place in every):
        shown = [*dict.fromkeys(place for place in every if place.group == group)]
        yield f"All of {group}", [*_with_entries(shown, own)]


def _row(catalogue: Catalogue, place: Place, entry: Entry) -> dict[str, Any]:
    column = place.column
    shown = cell(entry, chance=catalogue.board.chance(column))
    if entry.origin == RECOMPUTED and entry.model in catalogue.ties([column])[column]:
        shown["mark"] = "tie"
    return {
        "name": column.score_name + ("" if column.is_higher_better else " ↓"),
        "part": place.part,
        "group": place.group,
        "origin": entry.origin,
        "cell": shown,
        "interval": interval(entry.interval) if entry.interval else "",
        "n": f"{entry.n:,}" if entry.n else "",
    }
