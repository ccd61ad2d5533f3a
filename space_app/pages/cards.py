"""The Benchmarks page: a card for each benchmark, and for one its levels to compare with, its audit and examples."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gradio as gr
from huggingface_hub import constants
from huggingface_hub.errors import OfflineModeIsEnabled
from markupsafe import Markup

from ...hub_datasets import benchmark_names, get_benchmark
from ...hub_datasets.authoring.audit.summaries import read_audit, verdict
from ...hub_datasets.core.benchmarks import get_builder, get_card, get_task, main_scores
from ...hub_datasets.core.image_keys import MISSING
from ...hub_datasets.core.images import DECODING_ERRORS, decode
from ...hub_datasets.core.repository import card_counts
from ...metrics.common.errors import VLAssayError
from ...metrics.modules.discovery import get_spec
from ...metrics.records.schema import MatchingRow
from ...metrics.results.compute import examples_of
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.community import MOST_ROWS, Community, reported_results
from ..board.entries import CHANCE, PUBLISHED, BoardColumn, card_title
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
_CARD_JS = Path(__file__).with_name("templates").joinpath("cards.js").read_text(encoding="utf-8")


def benchmarks_tab(catalogue: Catalogue) -> OnOpen:
    """Build the page's components and events; return the update for its opening."""
    names = benchmark_names()
    known = [("All benchmarks", ""), *((card_title(name), name) for name in names)]
    benchmark = gr.Dropdown(known, label="Benchmark", elem_id="benchmark", value="")
    grid = gr.HTML(js_on_load=_CARD_JS, elem_id="grid")
    with gr.Column(visible=False) as details:
        essentials = gr.Markdown(elem_id="essentials")
        levels, examples, reported = (gr.HTML(elem_id=name) for name in ("levels", "examples", "reported"))
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

    def on_choice(name: str | None) -> str:
        return examples_html(name) if name else ""

    def on_reported(name: str | None) -> str:
        return reported_html(name) if name in names else ""

    benchmark.input(on_benchmark, benchmark, shown, **QUIET)
    grid.click(on_click, None, [benchmark, *shown], **QUIET)
    benchmark.change(on_choice, benchmark, examples, api_visibility="private")
    if not constants.HF_HUB_OFFLINE:  # there would be nothing to show, after a question to the server
        benchmark.change(on_reported, benchmark, reported, api_visibility="private")
    return on_open, None, [benchmark, *shown]


def card(name: str) -> tuple[str, str]:
    """Return the card of a benchmark as Markdown: its introduction, and its sections."""
    text = get_card(name).split("---", 2)[2].strip()
    essentials, section, rest = text.partition("\n## ")
    return f"#{essentials}", section.strip() + " " + rest


def question(name: str) -> str:
    """Return the question that a benchmark asks: the first in its card's introduction, or its first sentence."""
    _, _, text = card(name)[0].partition("\n")
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z*])", " ".join(text.strip().split("\n\n")[0].split()))
    return next((sentence for sentence in sentences if sentence.endswith("?")), sentences[0])


@lru_cache(maxsize=4)
def grid_html(board: Board) -> Markup:
    """Render a card for each benchmark. Nothing is built or downloaded for it."""
    return render("grid.html", benchmarks=[_summary(board, name) for name in benchmark_names()])


def reported_html(name: str, api: Any = None) -> Markup:
    """Render the results that others report for a benchmark on the Hub; empty without results or without the Hub.

    Args:
        name: the benchmark's.
        api: as for `reported_results`.
    """
    community = reported_results(name, api)
    if community.problem == OfflineModeIsEnabled.__name__ or community == Community():
        return Markup()
    return render("reported.html", found=community, most=MOST_ROWS)


def _summary(board: Board, name: str) -> dict[str, Any]:
    """Collect the facts on the card of a benchmark."""
    column = _main_column(board, name)
    captions, picture = _example(name)
    split, counts = get_benchmark(name).split_of, card_counts(name)
    rows = [counts.get((config, split(config)), (None,))[0] for task in _tasks(name) for config in task.configs]
    entries = board.entries(column) if column and column in board.columns else []
    chance = board.chance(column) if column else None
    if chance is None and column:
        chance = {known.whole: level for known, level in chance_levels(name)}.get(column.whole)
    return {
        "name": name,
        "title": card_title(name),
        "question": question(name),
        "captions": captions,
        "picture": picture,
        "size": None if None in rows else sum(row or 0 for row in rows),
        "column": column,
        "chance": chance,
        "blind": next((entry for entry in entries if entry.is_baseline and entry.origin == PUBLISHED), None),
        "best": next((entry for entry in entries if not entry.is_reference), None),
        "audit": _verdict(name),
        "caution": get_benchmark(name).caution,
    }


def _main_column(board: Board, name: str) -> BoardColumn | None:
    """Return the main score that most models have, else the first one; None for scores of any cut-off."""
    columns = [place.column for place in main_places(board) if place.column.benchmark == name]
    if columns:
        return max(columns, key=board.count)
    task, metric, score = main_scores(name)[0]
    return None if score.endswith("*") else BoardColumn(name, task, metric, score)


def _example(name: str) -> tuple[list[tuple[str, str]], Markup]:
    """Captions of an example, each with what it is true of, and its picture.

    The rendered benchmarks make their first example on the spot; of all others it is the one that their card prints.
    """
    row = _first_row(name)
    captions = [(key, value) for key, value in row.items() if "caption" in key and isinstance(value, str)]
    picture = Markup("")
    with suppress(KeyError, TypeError, *DECODING_ERRORS):
        picture = picture_html(row["image"]["bytes"], f"an example of {card_title(name)}")
    if not captions:
        printed = get_card(name).partition("\n## A row\n")[2].partition("```python\n")[2].partition("```")[0]
        captions_by_row = [
            re.findall(r"'(\w*caption\w*|\w*negatives?)': \[?'([^'\n]+)'", row) for row in printed.split("\n>>> ")
        ]
        captions = max(captions_by_row, key=lambda pairs: min(len(pairs), 2))
    return [(_truth(key), text) for key, text in captions if text != "..."], picture


def _truth(column: str) -> str:
    """Return the image that a caption is true of, or "true" or "false", by the name of its column."""
    number = re.fullmatch(r".*_(\d)", column)
    return f"image {int(number[1]) + 1}" if number else "false" if "negative" in column else "true"


@cache
def _first_row(name: str) -> Mapping[str, Any]:
    """Return the first row of a rendered benchmark's first task; empty for benchmarks that have sources."""
    if get_benchmark(name).source:
        return {}
    with TemporaryDirectory(prefix="vl-assay-") as folder:
        builder = get_builder(name)(cache_dir=folder, config_name=get_benchmark(name).tasks[0].configs[0])
        splits = {split.name: split for split in builder._split_generators(None)}
        rows = builder._generate_examples(**splits[get_benchmark(name).split].gen_kwargs)
        return next(iter(rows))[1]


def references_html(board: Board, name: str) -> Markup:
    """Render the levels of chance, people and baselines, one line per score."""
    columns = [column for column in board.columns if column.benchmark == name]
    # A macro average only if the score over all examples is not known.
    columns = [column for column in columns if column == column.whole or column.whole not in columns]
    levels_by_column = {
        column: {entry.model: entry.value for entry in board.entries(column) if entry.is_reference}
        for column in columns
    }
    for column, level in chance_levels(name):
        same_score = (shown for shown in levels_by_column if (shown.task, shown.whole.score) == column[1:4:2])
        levels_by_column.setdefault(next(same_score, column), {}).setdefault(CHANCE, level)
    levels_by_column = {column: levels for column, levels in levels_by_column.items() if levels}
    if not levels_by_column:
        return Markup("")
    models = list(dict.fromkeys([CHANCE, *(model for levels in levels_by_column.values() for model in levels)]))
    return render("references.html", models=models, levels=levels_by_column)


def _verdict(name: str) -> tuple[str, bool]:
    """Return the verdict of the audits of the default tasks, and whether it speaks against the benchmark."""
    references = {name, *(f"{name}/{task.name}" for task in _tasks(name))}
    audits = [audit for reference, audit in (read_audit(name) or {}).items() if reference in references]
    return verdict(*audits) if audits else ("Not audited yet.", False)


def audit_html(name: str) -> Markup:
    """Render the accuracy of rules, probes and blind models, which see no image, if the benchmark was audited."""
    audits = read_audit(name)
    if not audits:
        return note("No audit has measured yet whether it can be solved without the image.")
    return render("audit.html", name=name, verdict=_verdict(name)[0], audits=audits)


def examples_html(name: str) -> Markup:
    """Render the first examples of each default task, or a message if the data are not on this server."""
    try:
        lines = [line for task in _tasks(name) for line in _preview(name, task.name)]
    except (VLAssayError, OSError) as error:
        return note(f"Its examples are not on this server: {str(error)[:300]}")
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
    """Render the images of an example, at most 128 × 128 pixels, without missing and protected ones."""
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


def chance_levels(name: str) -> Iterator[tuple[BoardColumn, float]]:
    """Yield the chance levels that the metrics declare, or that follow from the number of captions of a row."""
    for task in _tasks(name):
        for metric, settings in task.metrics.items():
            spec = get_spec(metric)
            levels = {score.name: score.chance for score in spec.scores if score.chance is not None}
            if not levels and task.task_type == MatchingRow.task_type and _has_single_captions(name, task.name):
                # A metric may not know the example's category.
                with suppress(VLAssayError):
                    levels = dict(examples_of([_constant(name, task)], metric, settings).chance)
            for score in spec.table_scores([*levels]):
                yield BoardColumn(name, task.name, metric, score), levels[score]


def _constant(name: str, task: Task) -> MatchingRow:
    """Return an example whose captions all have the same score."""
    images = [f"image {number}" for number in range(len(task.images))]
    scores = [[0.0] * len(task.captions) for _ in images]
    category = str(_first_row(name).get(task.category or "", task.configs[0]))
    return MatchingRow("any", task.configs[0], category, images, [*range(len(images))], scores)


@cache
def _has_single_captions(name: str, task_name: str) -> bool:
    """Return whether each caption column of a task holds one caption, so that all rows have the same number."""
    task = get_task(name, task_name)
    with TemporaryDirectory(prefix="vl-assay-") as folder:
        features = get_builder(name)(cache_dir=folder, config_name=task.configs[0]).info.features
    return all(getattr(features[column], "dtype", "") == "string" for column in task.captions)
