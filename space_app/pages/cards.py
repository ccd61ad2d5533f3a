"""The Benchmarks page: a card for each benchmark; an opened card shows reference levels, audit and examples."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr
from markupsafe import Markup

from ...hub_datasets import benchmark_names, get_benchmark
from ...hub_datasets.authoring.audit.blind import shipped_levels
from ...hub_datasets.authoring.audit.summaries import read_audit, verdict
from ...hub_datasets.core.benchmarks import get_card, main_scores
from ...hub_datasets.core.image_keys import MISSING
from ...hub_datasets.core.images import DECODING_ERRORS, decode
from ...hub_datasets.core.repository import card_counts
from ...metrics.common.errors import VLAssayError
from ...metrics.modules.discovery import get_spec
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.entries import CHANCE, BoardColumn, card_title
from ..board.views import main_places
from ..submissions.uploads import known_examples
from .address import View
from .common import QUIET, OnOpen, note, render, table

if TYPE_CHECKING:
    from ...hub_datasets import Example, Task, TaskData

_MOST_EXAMPLES = 5
_MOST_CAPTIONS = 6
NOT_SHOWN = "Its images are photographs of others, whose licences do not allow a leaderboard to show them."
_SIDE = 128
_TEXT_ALONE = "text alone"
_CARD_JS = Path(__file__).with_name("templates").joinpath("cards.js").read_text(encoding="utf-8")


def benchmarks_tab(catalogue: Catalogue) -> OnOpen:
    """Build the page's components and events; return the update for its opening."""
    names = benchmark_names()
    known = [("All benchmarks", ""), *((card_title(name), name) for name in names)]
    benchmark = gr.Dropdown(known, label="Benchmark", elem_id="benchmark", value="")
    grid = gr.HTML(js_on_load=_CARD_JS, elem_id="grid")
    with gr.Column(visible=False) as details:
        essentials = gr.Markdown(elem_id="essentials")
        levels, examples = (gr.HTML(elem_id=name) for name in ("levels", "examples"))
        with gr.Accordion("The rest of its card", open=False, elem_id="card"):
            rest = gr.Markdown()
    view = View("benchmarks", benchmark=benchmark)
    shown = [grid, details, essentials, rest, levels]

    def on_benchmark(name: str | None) -> list[Any]:
        if not name:
            return [gr.update(value=grid_html(catalogue.board), visible=True), gr.update(visible=False), "", "", ""]
        facts = references_html(catalogue.board, name) + audit_html(name)
        return [gr.update(visible=False), gr.update(visible=True), *card(name), facts]

    def on_open(request: gr.Request) -> list[Any]:
        name = view.read(request).one("benchmark", names) or ""
        return [name, *on_benchmark(name)]

    def on_click(event: gr.EventData) -> list[Any]:
        name = str(event._data.get("benchmark", ""))
        return [name, *on_benchmark(name)] if name in names else [gr.skip()] * (1 + len(shown))

    benchmark.input(on_benchmark, benchmark, shown, **QUIET)
    grid.click(on_click, None, [benchmark, *shown], **QUIET)
    benchmark.change(lambda name: examples_html(name) if name else "", benchmark, examples, api_visibility="private")
    return on_open, None, [benchmark, *shown]


def card(name: str) -> tuple[str, str]:
    """Return the card of a benchmark as Markdown: its introduction, and its sections."""
    text = get_card(name).split("---", 2)[2].strip()
    essentials, section, rest = text.partition("\n## ")
    return f"#{essentials}", section.strip() + " " + rest


def question(name: str) -> str:
    """Return the question that a benchmark asks: the first one in its card's introduction, else its first sentence."""
    _, _, text = card(name)[0].partition("\n")
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z*])", " ".join(text.strip().split("\n\n")[0].split()))
    return next((sentence for sentence in sentences if sentence.endswith("?")), sentences[0])


@lru_cache(maxsize=4)
def grid_html(board: Board) -> Markup:
    """Render a card for each benchmark, with the facts that are known. Nothing is built or downloaded for it."""
    return render("grid.html", benchmarks=[_summary(board, name) for name in benchmark_names()])


def _summary(board: Board, name: str) -> dict[str, Any]:
    """Collect the facts on the card of a benchmark; None or empty if not known."""
    column = _main_column(board, name)
    split, counts = get_benchmark(name).split_of, card_counts(name)
    rows = [counts.get((config, split(config)), (None,))[0] for task in _tasks(name) for config in task.configs]
    entries = board.entries(column) if column and column in board.columns else []
    return {
        "name": name,
        "title": card_title(name),
        "question": question(name),
        "size": None if None in rows else sum(row or 0 for row in rows),
        "column": column,
        "chance": column and board.chance(column),
        "blind": column and blind_level(column),
        "best": next((entry for entry in entries if not entry.is_reference), None),
        "audit": _verdict(name),
        "caution": get_benchmark(name).caution,
    }


def _main_column(board: Board, name: str) -> BoardColumn | None:
    """Return the main score that most models have, else the first one; None for scores with any cut-off."""
    columns = [place.column for place in main_places(board) if place.column.benchmark == name]
    if columns:
        return max(columns, key=board.count)
    task, metric, score = main_scores(name)[0]
    return None if score.endswith("*") else BoardColumn(name, task, metric, score)


def blind_level(column: BoardColumn) -> float | None:
    """Return the score of the best scorer that sees only the captions; None if the task was not audited."""
    return (
        shipped_levels(column.benchmark)
        .get(column.task, {})
        .get("metrics", {})
        .get(column.metric, {})
        .get(column.score)
    )


def references_html(board: Board, name: str) -> Markup:
    """Render the levels of chance, of text only, of people and of baselines, one line per score."""
    on_board = [column for column in board.columns if column.benchmark == name]
    # A macro average only if the score over all examples is not known.
    columns = [column for column in on_board if column == column.whole or column.whole not in on_board]
    mains = {column.whole: column for column in (BoardColumn(name, *score) for score in main_scores(name))}
    declared = [
        BoardColumn(name, task.name, metric, score.name)
        for task in get_benchmark(name).tasks
        for metric in task.metrics
        for score in get_spec(metric).scores
    ]
    columns_by_whole = {column.whole: column for column in (*mains.values(), *columns)}
    lines: dict[BoardColumn, Mapping[str, float]] = {}
    for column in dict.fromkeys([*columns, *(columns_by_whole.get(column, column) for column in declared)]):
        known = {CHANCE: board.chance(column), _TEXT_ALONE: blind_level(column)}
        if column in on_board:
            known |= {entry.model: entry.value for entry in board.entries(column) if entry.is_reference}
        if levels := {model: value for model, value in known.items() if value is not None}:
            lines[column] = levels
    if not lines:
        return Markup("")
    models = list(dict.fromkeys([CHANCE, *(model for levels in lines.values() for model in levels)]))
    return render("references.html", models=models, levels=lines)


def _verdict(name: str) -> tuple[str, bool] | None:
    """Return the verdict of the audits of the default tasks, and whether it is unfavourable to the benchmark."""
    references = {name, *(f"{name}/{task.name}" for task in _tasks(name))}
    audits = [audit for reference, audit in (read_audit(name) or {}).items() if reference in references]
    return verdict(*audits) if audits else None


def audit_html(name: str) -> Markup:
    """Render the accuracy of rules, probes and blind models, which see no image; empty without an audit."""
    audits, conclusion = read_audit(name), _verdict(name)
    return render("audit.html", name=name, verdict=conclusion and conclusion[0], audits=audits) if audits else Markup()


def examples_html(name: str) -> Markup:
    """Render the first examples of each default task, or a message if the data are not on this server."""
    try:
        lines = [line for task in _tasks(name) for line in _preview(name, task.name)]
    except (VLAssayError, OSError):
        return note(f"This server has no copy of its data; vl-assay build {name} makes one.")
    heads = ["example", *["image"] * may_show(name), "captions, the positive one first", "task", "category"]
    return table(heads, lines, title="Examples", note="" if may_show(name) else NOT_SHOWN)


@lru_cache(maxsize=128)
def _preview(name: str, task: str) -> list[tuple[str, list[Any]]]:
    """Return the name and the cells of a task's first examples; their images only if they may be shown."""
    data = known_examples(f"{name}/{task}")
    lines = []
    for example in data.examples[:_MOST_EXAMPLES]:
        images = [pictures_html(data, example)] if may_show(name) else []
        lines.append((example.id, [*images, list(example.captions[:_MOST_CAPTIONS]), task, example.category]))
    return lines


def _tasks(name: str) -> list[Task]:
    return [task for task in get_benchmark(name).tasks if task.by_default]


def may_show(benchmark: str) -> bool:
    """Return whether the images may be shown: this project rendered them; other benchmarks have photographs."""
    return not get_benchmark(benchmark).source


def pictures_html(data: TaskData, example: Example) -> Markup:
    """Render the images of an example, at most 128 × 128 pixels; missing and protected images are left out."""
    if not may_show(data.benchmark):
        return Markup("")
    shown = Markup("")
    for key in example.images:
        if key != MISSING:
            with suppress(VLAssayError, *DECODING_ERRORS):
                shown += picture_html(data.image_bytes(key), f"image of {example.id}")
    return shown


def picture_html(content: bytes, alt: str) -> Markup:
    """Render an image in at most 128 × 128 pixels; one of `DECODING_ERRORS` if it is damaged."""
    return Markup('<img src="{}" alt="{}" width="64">').format(_thumbnail(content), alt)


@lru_cache(maxsize=512)
def _thumbnail(content: bytes) -> str:
    image = decode(content)
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
