"""Statistics of datasets that papers print: counts and averages over the rows of a task, without images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...hub_datasets.core.build import sources_folder
from ...hub_datasets.core.examples import Example, load_examples
from ...hub_datasets.core.network import check_sources
from ...hub_datasets.published.tables import Table
from .comparing import published_cells
from .report import Comparison

Statistic = Callable[[Sequence[Example]], float]


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers)


def unique_words(examples: Sequence[Example]) -> int:
    """Different strings between single spaces, as TRICD's Table 7 counts words: a trailing space adds an empty one."""
    return len({word for example in examples for caption in example.captions for word in caption.split(" ")})


STATISTICS: dict[str, Statistic] = {
    "pairs": len,
    "images": lambda examples: len({image for example in examples for image in example.images}),
    "words": unique_words,
    "words_per_caption": lambda examples: _mean([len(text.split()) for each in examples for text in each.captions]),
    "phrases": lambda examples: len({phrase.text for example in examples for phrase in example.phrases}),
    "phrases_per_image": lambda examples: _mean([len(example.phrases) for example in examples]),
    "boxes": lambda examples: sum(len(phrase.boxes) for example in examples for phrase in example.phrases),
    # Phrases of a negative row have no box.
    "boxes_per_phrase": lambda examples: _mean(
        [len(phrase.boxes) for example in examples for phrase in example.phrases if phrase.boxes]
    ),
}


def compare_statistics(
    table: Table, *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> Iterator[Comparison]:
    """The printed statistics of a dataset, each with that of our rows.

    Args:
        table: whose columns all have the average ``"statistic"``.
        data_dir: the user's copy of the sources, or a folder with one for each benchmark.
        options: fields of the builder's configuration.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    examples = {
        task: examples_of(task, data_dir=data_dir, options=options)
        for task in dict.fromkeys(column.task for column in table.columns)
    }
    for row in table.rows:
        category = row.run.settings.get("category")
        for cell in published_cells(table, row):
            chosen = [each for each in examples[cell.column.task] if category in (None, each.category)]
            value = float(STATISTICS[cell.column.score[0]](chosen)) if chosen else None
            yield replace(cell, ours=value, n=len(chosen), why="" if chosen else f"the data have no {category} part")


def examples_of(
    task: str, *, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> list[Example]:
    """The examples of a task, without images; the arguments are those of `compare_statistics`.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    folder = sources_folder(task.partition("/")[0], data_dir)
    check_sources([task], data_dir=folder, options=options)
    [found] = load_examples(task, data_dir=folder, options=options, needs_images=False)
    return found.examples
