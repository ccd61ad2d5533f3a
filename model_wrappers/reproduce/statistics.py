"""Statistics of datasets that papers print: counts and averages over the rows of a task, without images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...hub_datasets.core.examples import Example, load_examples
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
    table: Table, *, data_dir: str | Path | None, options: Mapping[str, Any] | None
) -> Iterator[Comparison]:
    """The printed statistics of a dataset, each with that of our rows.

    Raises:
        DataError: the dataset is missing or damaged.
    """
    tasks = dict.fromkeys(column.task for column in table.columns)
    examples = {
        task: [example for each in found for example in each.examples]
        for task in tasks
        for found in [load_examples(task, data_dir=data_dir, options=options, needs_images=False)]
    }
    for row in table.rows:
        category = row.run.settings.get("category")
        for cell in published_cells(table, row):
            chosen = [each for each in examples[cell.column.task] if category in (None, each.category)]
            value = STATISTICS[cell.column.score[0]](chosen) if chosen else None
            why = "" if chosen else f"the data have no examples of {category}"
            yield replace(cell, ours=None if value is None else float(value), n=len(chosen), why=why)
