"""Scoring by models behind servers: many images at once, each with its texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...hub_datasets.core.images import open_checked, portable
from .chunks import chunk_size, cut_by_cost
from .embeddings import Scores, as_column
from .pipeline import Pipeline
from .plan import Pairs, ScoringPlan
from .protocol import RemoteImage, RemoteItem, RemoteModel, RequestPlan

# The texts of an item are asked one after the other, and its image is read once for them.
_TEXTS_PER_ITEM = 4
# Scores in a chunk, of which two are under way: so many that an answer that takes long keeps no thread idle.
_LEAST, _MOST = 256, 2048

# Images by number, each with the numbers of its texts; and the index of each pair among all their scores.
_Items = tuple[Sequence[tuple[int, Sequence[int] | np.ndarray]], np.ndarray]


def plan_requests(model: RemoteModel, plan: ScoringPlan) -> RequestPlan:
    """What has to be sent to score everything in a plan; raises ModelError if that is over the model's limit."""
    return model.plan(_all_items(model, plan))


def ask_remotely(model: RemoteModel, plan: ScoringPlan, pipeline: Pipeline) -> tuple[Scores, Scores, dict[str, Any]]:
    """Scores of all captions and of all questions of a plan, and counts for the metadata."""
    captions, answers = (
        Scores(*pairs.split(_ask(model, plan, pipeline, stage, pairs)), {})
        for stage, pairs in (("pairs", plan.captions), ("questions", plan.questions))
    )
    return captions, answers, model.facts(_all_items(model, plan))


def _ask(model: RemoteModel, plan: ScoringPlan, pipeline: Pipeline, stage: str, pairs: Pairs) -> np.ndarray:
    """Scores of all pairs, followed by those of the pools."""
    if not len(pairs):
        return np.empty(0)
    items, places = _items_of(model, plan, pairs)

    def load(number: int) -> np.ndarray:
        item = _item(plan, pairs, *items[number])
        return as_column(model.info.name, model.ask(item), len(item.texts))

    costs = [len(texts) for _, texts in items]
    chunks = cut_by_cost(costs, chunk_size(sum(costs), _LEAST, _MOST))
    scores = pipeline.run(stage, chunks, load, np.concatenate, batch_size=1, rows=sum(costs), remote=model)
    return scores[places, 0]


def _all_items(model: RemoteModel, plan: ScoringPlan) -> Iterator[RemoteItem]:
    for pairs in (plan.captions, plan.questions):
        if len(pairs):
            for image, texts in _items_of(model, plan, pairs)[0]:
                yield _item(plan, pairs, image, texts)


def _items_of(model: RemoteModel, plan: ScoringPlan, pairs: Pairs) -> _Items:
    return _by_example(pairs) if model.compares_texts and pairs is plan.captions else pairs.items(_TEXTS_PER_ITEM)


def _by_example(pairs: Pairs) -> _Items:
    """Items with all texts of an example, each once; models that compare texts are given no pools."""
    starts: dict[tuple[int, tuple[int, ...]], int] = {}
    places, count = np.empty(len(pairs.anchor), np.int64), 0
    for row, item in pairs.by_example():
        if item not in starts:
            starts[item], count = count, count + len(row)
        places[row] = np.arange(starts[item], starts[item] + len(row))
    return list(starts), places


def _item(plan: ScoringPlan, pairs: Pairs, image: int, texts: Sequence[int] | np.ndarray) -> RemoteItem:
    file = partial(plan.read_image, image, portable)
    size = partial(plan.read_image, image, lambda content: open_checked(content).size)
    known = RemoteImage(plan.images[image], size, file)
    return RemoteItem(known, [pairs.texts[text] for text in texts], pairs is plan.questions)
