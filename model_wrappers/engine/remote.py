"""Scoring by models behind servers: many requests at once. The model's own journal keeps the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...hub_datasets.core.images import open_checked, portable
from ...metrics.common.errors import ModelError
from .arrays import as_array, as_column
from .distributed import Processes
from .embeddings import Scores
from .loader import in_threads
from .plan import Pairs, ScoringPlan, by_anchor
from .progress import Progress
from .protocol import RemoteImage, RemoteItem, RemoteModel, RequestPlan

# The texts of an item are asked one after the other, and its image is read once for them.
_TEXTS_PER_ITEM = 4

# Images by number, each with the numbers of its texts; and the index of each pair among all their scores.
_Items = tuple[Sequence[tuple[int, Sequence[int] | np.ndarray]], np.ndarray]


def plan_requests(model: RemoteModel, plan: ScoringPlan) -> RequestPlan:
    """Return what has to be sent to score everything in a plan; raises ModelError if it is over the model's limit."""
    return model.plan(_all_items(model, plan))


def ask_remotely(
    model: RemoteModel, plan: ScoringPlan, processes: Processes, progress: Progress
) -> tuple[Scores, Scores, dict[str, Any]]:
    """Return scores of all captions and of all questions of a plan, and counts for the metadata.

    The main process of several asks for all.
    """
    result: Any = None
    with processes.raise_on_all_ranks():
        if processes.is_main:
            scores = [
                _ask(model, plan, pairs, progress, title)
                for pairs, title in ((plan.captions, "asking about captions"), (plan.questions, "asking questions"))
            ]
            result = scores, model.facts(_all_items(model, plan))
    (captions, answers), facts = processes.from_main(result)
    return (
        Scores(*plan.captions.split(captions), {}),
        Scores(*plan.questions.split(answers), {}),
        facts,
    )


def _ask(model: RemoteModel, plan: ScoringPlan, pairs: Pairs, progress: Progress, title: str) -> np.ndarray:
    """Return the scores of all pairs, followed by the scores of the retrieval sets."""
    if not len(pairs):
        return np.empty(0)
    items, positions = _items_of(model, plan, pairs)

    def ask(item: tuple[int, Any]) -> np.ndarray:
        remote = _item(plan, pairs, *item)
        scores = as_array(model.info.name, as_column(model.info.name, model.ask(remote), len(remote.texts)))
        if not np.isfinite(scores).all():
            raise ModelError(f"{model.info.name} gave NaN or infinity for {remote.texts!r}")
        return scores

    rows = []
    with progress.bar(title, len(items)) as advance:
        # All are under way at once, so that an answer that takes long keeps no thread idle.
        for scores in in_threads(items, ask, threads=model.threads, ahead=len(items), on_error=model.stop):
            rows.append(scores)
            advance(1)
    return np.concatenate(rows)[positions, 0]


def _all_items(model: RemoteModel, plan: ScoringPlan) -> Iterator[RemoteItem]:
    for pairs in (plan.captions, plan.questions):
        if len(pairs):
            for image, texts in _items_of(model, plan, pairs)[0]:
                yield _item(plan, pairs, image, texts)


def _items_of(model: RemoteModel, plan: ScoringPlan, pairs: Pairs) -> _Items:
    if model.compares_texts and pairs is plan.captions:
        return _by_example(pairs)
    (anchors, texts), inverse = pairs.distinct()
    groups = by_anchor(anchors, np.arange(len(anchors)), _TEXTS_PER_ITEM)
    return [(int(anchors[group[0]]), texts[group]) for group in groups], inverse


def _by_example(pairs: Pairs) -> _Items:
    """Return items with all texts of an example, each once; models that compare texts are given no pools."""
    starts: dict[tuple[int, tuple[int, ...]], int] = {}
    positions, count = np.empty(len(pairs.anchor), np.int64), 0
    for row, item in pairs.by_example():
        if item not in starts:
            starts[item], count = count, count + len(row)
        positions[row] = np.arange(starts[item], starts[item] + len(row))
    return list(starts), positions


def _item(plan: ScoringPlan, pairs: Pairs, image: int, texts: Sequence[int] | np.ndarray) -> RemoteItem:
    file = partial(plan.read_image, image, portable)
    size = partial(plan.read_image, image, lambda content: open_checked(content).size)
    known = RemoteImage(plan.images[image], size, file)
    return RemoteItem(known, [pairs.texts[text] for text in texts], pairs is plan.questions)
