"""What the Benchmarks page shows of a benchmark: its card, what is reached without seeing, and a few examples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...hub_datasets import benchmark_names, get_benchmark, load_examples
from ...hub_datasets.core.audits import read_audit
from ...hub_datasets.core.benchmarks import get_card
from ...metrics.common.errors import VLAssayError
from ...metrics.evaluation import examples_of, interval, percent, words
from ...metrics.modules.discovery import get_spec
from ...metrics.records.schema import MatchingRow
from ..board.board import Column
from ..board.entries import CHANCE
from ._html import cell, line, note, table, texts_cell
from .pictures import NOT_SHOWN, may_show, pictures_html

if TYPE_CHECKING:
    from ...hub_datasets import Example, Task, TaskData
    from ..board.board import Board

_MOST_EXAMPLES = 5
_MOST_TEXTS = 6
_TEXTS = "texts, the right one first"


def titles() -> dict[str, str]:
    """The benchmarks' names by what their cards call them, in the order of the names."""
    return {_pretty(name): name for name in benchmark_names()}


def card(name: str) -> tuple[str, str]:
    """The card of a benchmark as Markdown: what it is, and all the rest from its first section on."""
    text = get_card(name).split("---", 2)[2].strip()
    essentials, section, rest = text.partition("\n## ")
    return essentials, section.strip() + " " + rest


def references_html(board: Board, name: str) -> str:
    """What chance, people, and models that do not see the image or the order of words reach: a line for each score."""
    columns = [column for column in board.columns if column.benchmark == name]
    # A macro average only where nothing is known of the score over all examples.
    columns = [column for column in columns if column == _whole(column) or _whole(column) not in columns]
    found = {column: dict(_references(board, column)) for column in columns}
    for column, level in _chances(name):
        alike = (each for each in found if (each.task, _whole(each).score) == (column.task, column.score))
        found.setdefault(next(alike, column), {}).setdefault(CHANCE, level)
    found = {column: levels for column, levels in found.items() if levels}
    if not found:
        return ""
    models = dict.fromkeys([CHANCE, *(model for levels in found.values() for model in levels)])
    lines = [
        line(column._replace(benchmark="").heading, [cell(percent(levels.get(model))) for model in models])
        for column, levels in found.items()
    ]
    told = note(
        "Chance, people, models that read the text alone, and mock models: a constant, and a bag of words, which sees "
        "the image and ignores the order of words."
    )
    return f"<h4>Levels to compare with, %</h4>{table(['score', *models], lines)}{told}"


def audit_html(name: str) -> str:
    """How often rules, probes and blind models tell the right caption without the image, where that was audited."""
    audits = read_audit(name)
    if not audits:
        return ""
    lines = [
        _audit_line(part.removeprefix(f"{name}/"), scorer, found, (audit.get("normalised") or {}).get(scorer, {}))
        for part, audit in audits.items()
        for scorer, found in sorted(audit["scorers"].items(), key=lambda pair: -pair[1]["accuracy"])
    ]
    heads = ["part and scorer", "right, %", "interval", "captions normalised, %", "kind"]
    told = note("Of pairs of a right and a wrong caption; 50 % is chance. A probe has learned from other images only.")
    return f"<h4>How much can be known without the image</h4>{table(heads, lines)}{told}"


def examples_html(name: str) -> str:
    """The texts of the first examples of each task that is scored by default, as an HTML table.

    Images are shown where their licence allows. Where the sources are neither here nor to be had, it says so in a line.
    """
    try:
        rows = [row for task in _tasks(name) for row in _look(name, task.name).rows]
    except (VLAssayError, OSError) as error:
        return note(f"Its examples are not on this server: {str(error)[:300]}")
    heads = ["example", *(["image"] if may_show(name) else []), "task", "category", _TEXTS]
    why = "" if may_show(name) else note(NOT_SHOWN)
    return f"<h4>Examples</h4>{table(heads, rows, wide=_TEXTS)}{why}"


class _Look(NamedTuple):
    """What a look at the data of a task tells: rows of its first examples, and for each metric what chance gets."""

    rows: list[str]
    chance: dict[str, Mapping[str, float]]


@lru_cache(maxsize=128)
def _look(name: str, task: str) -> _Look:
    [data] = load_examples(f"{name}/{task}", needs_images=False)
    chance = {}
    if data.task.task_type == MatchingRow.task_type:
        rows = [_unscored(example) for example in data.examples]
        chance = {metric: examples_of(rows, metric, how).chance for metric, how in data.task.metrics.items()}
    return _Look([_example(data, example) for example in data.examples[:_MOST_EXAMPLES]], chance)


def _unscored(example: Example) -> MatchingRow:
    """The example's predictions by a model that gives every caption the same score."""
    images = len(example.images)
    scores = [[0.0] * len(example.captions)] * images
    return MatchingRow(example.id, example.config, example.category, ["-"] * images, list(range(images)), scores)


def _example(data: TaskData, example: Example) -> str:
    image = [f"<td>{pictures_html(data, example)}</td>"] if may_show(data.benchmark) else []
    what = [cell(data.task.name), cell(example.category), texts_cell(example.captions[:_MOST_TEXTS])]
    return line(example.id, [*image, *what])


def _tasks(name: str) -> list[Task]:
    return [task for task in get_benchmark(name).tasks if task.by_default]


def _whole(column: Column) -> Column:
    """The score over all examples that a macro average is of, or the score itself."""
    return column._replace(score=column.score.removeprefix("macro_"))


def _references(board: Board, column: Column) -> Iterator[tuple[str, float]]:
    """Models and values of the references of a score, the first of each model."""
    frame = board.table([column])
    for who in zip(frame["model"], frame["origin"], strict=True):
        entry = board.entry(column, *who)
        if entry is not None and entry.is_reference:
            yield entry.model, entry.value


def _chances(name: str) -> Iterator[tuple[Column, float]]:
    """What scoring at random gets, as the metrics say of themselves, or of examples that are on this server."""
    for task in _tasks(name):
        for metric in task.metrics:
            spec = get_spec(metric)
            levels = {score.name: score.chance for score in spec.scores if score.chance is not None}
            if task.task_type == "matching" and not levels:
                with suppress(VLAssayError, OSError):
                    levels = _look(name, task.name).chance[metric]
            for score in spec.table_scores([*levels]):
                yield Column(name, task.name, metric, score), levels[score]


def _audit_line(part: str, scorer: str, found: Mapping[str, Any], normalised: Mapping[str, Any]) -> str:
    texts = (
        percent(found["accuracy"]),
        interval(found["interval"]),
        percent(normalised.get("accuracy")),
        words(found["kind"]),
    )
    return line(words(f"{part}: {scorer}"), map(cell, texts))


def _pretty(name: str) -> str:
    [title] = re.findall(r"^pretty_name: (.+)$", get_card(name), re.MULTILINE)
    return title
