"""Scoring by models behind servers: many requests at once. The model's own journal keeps the answers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...hub_datasets.core.images import open_checked, portable
from ...metrics.common.errors import ModelError
from .arrays import as_array, as_column
from .embeddings import Scores
from .loader import in_threads
from .plan import Pairs, ScoringPlan, by_anchor
from .protocol import RemoteImage, RemoteItem, RemoteModel, RequestPlan
from .stages import Stages

# The texts of an item are asked one after the other, and its image is read once for them.
_TEXTS_PER_ITEM = 4


def plan_requests(model: RemoteModel, plan: ScoringPlan) -> RequestPlan:
    """Return what has to be sent to score everything in a plan; raises ModelError if it is over the model's limit."""
    return model.plan(item for pairs in (plan.captions, plan.questions) for item in _items(model, plan, pairs)[0])


def ask_remotely(model: RemoteModel, plan: ScoringPlan, stages: Stages) -> tuple[Scores, Scores, dict[str, Any]]:
    """Return scores of all captions and of all questions of a plan, and counts for the metadata.

    The main process of several asks for all.
    """
    result: Any = None
    asked = [_items(model, plan, pairs) for pairs in (plan.captions, plan.questions)]

    def ask(item: RemoteItem) -> np.ndarray:
        scores = as_array(model.info.name, as_column(model.info.name, model.ask(item), len(item.texts)))
        if not np.isfinite(scores).all():
            raise ModelError(f"{model.info.name} gave NaN or infinity for {item.texts!r}")
        return scores

    with stages.processes.raise_on_all_ranks():
        if stages.processes.is_main:
            columns = []
            for (items, positions), title in zip(asked, ("asking about captions", "asking questions"), strict=True):
                rows = [np.empty((0, 1))]
                if items:
                    with stages.progress.bar(title, len(items)) as advance:
                        # All are under way at once, so that an answer that takes long keeps no thread idle.
                        options = {"threads": model.threads, "ahead": len(items), "on_error": model.stop}
                        for scores in in_threads(items, ask, **options):
                            rows.append(scores)
                            advance(1)
                columns.append(np.concatenate(rows)[positions, 0])
            result = columns, model.facts(item for items, _ in asked for item in items)
    (captions, answers), facts = stages.processes.from_main(result)
    return Scores(*plan.captions.split(captions)), Scores(*plan.questions.split(answers)), facts


def _items(model: RemoteModel, plan: ScoringPlan, pairs: Pairs) -> tuple[list[RemoteItem], np.ndarray]:
    """Return the items of some pairs, and the index of each pair of `Pairs.everything` among all their texts."""
    if model.compares_texts and pairs is plan.captions:  # all texts of an example, each once; it is given no pools
        starts: dict[tuple[int, tuple[int, ...]], int] = {}
        positions, count = np.empty(len(pairs.anchor), np.int64), 0
        for row, item in pairs.by_example():
            if item not in starts:
                starts[item], count = count, count + len(row)
            positions[row] = np.arange(starts[item], starts[item] + len(row))
        rows: Any = list(starts)
    else:
        (anchors, texts), positions = pairs.distinct()
        groups = by_anchor(anchors, np.arange(len(anchors)), _TEXTS_PER_ITEM)
        rows = [(int(anchors[group[0]]), texts[group].tolist()) for group in groups]
    items = []
    for image, texts in rows:
        size = partial(plan.read_image, image, lambda content: open_checked(content).size)
        remote_image = RemoteImage(plan.images[image], size, partial(plan.read_image, image, portable))
        items.append(RemoteItem(remote_image, [pairs.texts[text] for text in texts], pairs is plan.questions))
    return items, positions
