"""Detection of phrases, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...metrics.common.errors import ModelError
from .chunks import chunk_size, cut_by_cost
from .pipeline import Pipeline
from .plan import ScoringPlan
from .protocol import Detections, Detector, PhraseQuery

_QUERIES_PER_CHUNK = 256
# Columns of a finished chunk: number of image and query, x1, y1, x2, y2, score.
_WIDTH = 7


class _Item(NamedTuple):
    number: int
    image: Any
    size: tuple[int, int]
    queries: list[PhraseQuery]


def detect(model: Detector, plan: ScoringPlan, pipeline: Pipeline) -> dict[tuple[int, PhraseQuery], Detections]:
    """The detections of every query of a plan, by image number and query, including queries without boxes."""
    numbers = list(plan.queries)
    asked = [list(plan.queries[number]) for number in numbers]

    def load(place: int) -> _Item:
        image, size = pipeline.decoder.prepare(model, plan, numbers[place])
        return _Item(place, image, size, asked[place])

    def compute(batch: Sequence[_Item]) -> np.ndarray:
        given = model.detect(
            [item.image for item in batch], [item.size for item in batch], [item.queries for item in batch]
        )
        rows = [_rows(model.info.name, item, found) for item, found in zip(batch, given, strict=True)]
        return np.concatenate(rows)

    costs = [len(queries) for queries in asked]
    chunks = cut_by_cost(costs, chunk_size(sum(costs), 16, _QUERIES_PER_CHUNK))
    boxes = pipeline.run("boxes", chunks, load, compute, rows=0)
    found = {(number, query): [] for number, queries in zip(numbers, asked, strict=True) for query in queries}
    for row in boxes:
        place = int(row[0])
        found[numbers[place], asked[place][int(row[1])]].append(row[2:])
    tables = {key: np.array(rows).reshape(-1, 5) for key, rows in found.items()}
    return {key: Detections(table[:, :4], table[:, 4]) for key, table in tables.items()}


def _rows(model: str, item: _Item, found: Sequence[Detections]) -> np.ndarray:
    if len(found) != len(item.queries):
        raise ModelError(f"{model} gave boxes for {len(found)} of {len(item.queries)} phrases")
    rows = [np.empty((0, _WIDTH))]
    for number, (boxes, scores) in enumerate(found):
        boxes, scores = np.asarray(boxes, np.float64).reshape(-1, 4), np.asarray(scores, np.float64)
        if len(boxes) != len(scores):
            raise ModelError(f"{model} gave {len(boxes)} boxes and {len(scores)} scores for a phrase")
        if not np.isfinite(boxes).all() or (boxes[:, :2] > boxes[:, 2:]).any():
            raise ModelError(f"{model} gave a box that is not x1, y1, x2, y2 with x1 <= x2 and y1 <= y2")
        places = np.broadcast_to([item.number, number], (len(boxes), 2))
        rows.append(np.column_stack([places, boxes, scores]))
    return np.concatenate(rows)
