"""The Benchmarks page: a benchmark's card, the levels to compare with, its audit and a few examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gradio as gr
from markupsafe import Markup

from ...hub_datasets import benchmark_names, get_benchmark, load_examples
from ...hub_datasets.core.audits import read_audit
from ...hub_datasets.core.benchmarks import get_card
from ...metrics.common.errors import VLAssayError
from ...metrics.evaluation import examples_of, interval, percent, words
from ...metrics.modules.discovery import get_spec
from ...metrics.records.schema import MatchingRow
from ..board.board import Board
from ..board.catalogue import Catalogue
from ..board.entries import CHANCE, Column, card_title
from .common import note, table
from .pictures import examples_table, pictures_html

if TYPE_CHECKING:
    from ...hub_datasets import Example, Task

_MOST_EXAMPLES = 5
_MOST_CAPTIONS = 6


def benchmarks_tab(catalogue: Catalogue) -> None:
    """The components of the page and their events."""
    known = {card_title(name): name for name in benchmark_names()}
    chosen = gr.Dropdown([*known], label="Benchmark", elem_id="benchmark", value=None)
    essentials = gr.Markdown(elem_id="essentials")
    levels, examples = gr.HTML(elem_id="levels"), gr.HTML(elem_id="examples")
    with gr.Accordion("The rest of its card", open=False, elem_id="card"):
        rest = gr.Markdown()

    def on_choice(title: str | None) -> tuple[str, str, str, str]:
        name = known.get(title or "")
        if not name:
            return "", "", "", ""
        return (*card(name), references_html(catalogue.board, name) + audit_html(name), examples_html(name))

    chosen.change(on_choice, chosen, [essentials, rest, levels, examples], api_visibility="private")


def card(name: str) -> tuple[str, str]:
    """The card of a benchmark as Markdown: its introduction, and its sections."""
    text = get_card(name).split("---", 2)[2].strip()
    essentials, section, rest = text.partition("\n## ")
    return essentials, section.strip() + " " + rest


def references_html(board: Board, name: str) -> Markup:
    """The levels of chance, people and baselines, one line per score."""
    columns = [column for column in board.columns if column.benchmark == name]
    # A macro average only if the score over all examples is not known.
    columns = [column for column in columns if column == _whole(column) or _whole(column) not in columns]
    found = {
        column: {entry.model: entry.value for entry in board.entries(column) if entry.is_reference}
        for column in columns
    }
    for column, level in chance_levels(name):
        alike = (other for other in found if (other.task, _whole(other).score) == (column.task, column.score))
        found.setdefault(next(alike, column), {}).setdefault(CHANCE, level)
    found = {column: levels for column, levels in found.items() if levels}
    if not found:
        return Markup("")
    models = dict.fromkeys([CHANCE, *(model for levels in found.values() for model in levels)])
    return table(
        ["score", *models],
        [
            (column._replace(benchmark="").heading, [percent(levels.get(model)) for model in models])
            for column, levels in found.items()
        ],
        title="Levels to compare with, %",
        note="Chance, people, models that read the text alone, and mocks: a constant, and a bag of words, which sees "
        "the image and ignores word order.",
    )


def audit_html(name: str) -> Markup:
    """How often rules, probes and blind models find the positive caption without the image, if that was audited."""
    audits = read_audit(name)
    if not audits:
        return Markup("")
    lines = []
    for part, audit in audits.items():
        for scorer, found in sorted(audit["scorers"].items(), key=lambda pair: -pair[1]["accuracy"]):
            normalised = (audit.get("normalised") or {}).get(scorer, {}).get("accuracy")
            accuracy = [percent(found["accuracy"]), interval(found["interval"]), percent(normalised)]
            lines.append((words(f"{part.removeprefix(f'{name}/')}: {scorer}"), [*accuracy, words(found["kind"])]))
    return table(
        ["part and scorer", "accuracy, %", "interval", "captions normalised, %", "kind"],
        lines,
        title="Accuracy without the image",
        note="On pairs of a positive caption and a negative; chance is 50 %. Probes are trained on other images.",
    )


def examples_html(name: str) -> Markup:
    """The first examples of each task that is scored by default, or a message if the data are not on this server."""
    try:
        lines = [line for task in _tasks(name) for line in _preview(name, task.name)[0]]
    except (VLAssayError, OSError) as error:
        return note(f"Its examples are not on this server: {str(error)[:300]}")
    return examples_table(name, ["task", "category", "captions, the positive one first"], lines, "Examples")


@lru_cache(maxsize=128)
def _preview(name: str, task: str) -> tuple[list[tuple[str, Markup, list[Any]]], dict[str, Mapping[str, float]]]:
    """Lines of `examples_table` with a task's first examples, and the chance levels of its metrics."""
    [data] = load_examples(f"{name}/{task}", needs_images=False)
    chance = {}
    if data.task.task_type == MatchingRow.task_type:
        rows = [_constant(example) for example in data.examples]
        chance = {metric: examples_of(rows, metric, how).chance for metric, how in data.task.metrics.items()}
    lines = [
        (example.id, pictures_html(data, example), [task, example.category, list(example.captions[:_MOST_CAPTIONS])])
        for example in data.examples[:_MOST_EXAMPLES]
    ]
    return lines, chance


def _constant(example: Example) -> MatchingRow:
    """The example's predictions by a model that gives every caption the same score."""
    images = len(example.images)
    facts: dict[str, Any] = {**example.facts(), "images": ["-"] * images}
    return MatchingRow(**facts, correct=list(range(images)), scores=[[0.0] * len(example.captions)] * images)


def _tasks(name: str) -> list[Task]:
    return [task for task in get_benchmark(name).tasks if task.by_default]


def _whole(column: Column) -> Column:
    """The score over all examples that a macro average belongs to, or the score itself."""
    return column._replace(score=column.score.removeprefix("macro_"))


def chance_levels(name: str) -> Iterator[tuple[Column, float]]:
    """The chance levels that a benchmark's metrics declare, or compute from examples that are on this server."""
    for task in _tasks(name):
        for metric in task.metrics:
            spec = get_spec(metric)
            levels = {score.name: score.chance for score in spec.scores if score.chance is not None}
            if task.task_type == "matching" and not levels:
                with suppress(VLAssayError, OSError):
                    levels = dict(_preview(name, task.name)[1][metric])
            for score in spec.table_scores([*levels]):
                yield Column(name, task.name, metric, score), levels[score]
