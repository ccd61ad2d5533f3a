"""Detection of phrases, image by image."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...metrics.common.errors import ModelError
from .arrays import as_array
from .loader import Loaded
from .plan import ScoringPlan
from .protocol import Detections, Detector, PhraseQuery
from .stages import Item, Stages, Work
from .store import item_key

# A box in a stored row: number of the query, x1, y1, x2, y2, score.
_WIDTH = 6


def detect(model: Detector, plan: ScoringPlan, stages: Stages) -> dict[tuple[int, PhraseQuery], Detections]:
    """Return the detections of every query of a plan, by image number and query, including queries without boxes."""
    asked = [(number, list(queries)) for number, queries in plan.queries.items()]

    def load(item: Item) -> Loaded:
        return plan.load(asked[item[0]][0], model.prepare_image)

    def compute(items: Sequence[Item], images: list[Any], sizes: list[tuple[int, int]]) -> list[np.ndarray]:
        queries = [asked[item[0]][1] for item in items]
        detections = list(model.detect(images, sizes, queries))
        if len(detections) != len(queries):
            raise ModelError(f"{model.info.name} gave boxes for {len(detections)} of {len(queries)} images")
        return [
            _row(model.info.name, len(image_queries), boxes)
            for image_queries, boxes in zip(queries, detections, strict=True)
        ]

    owners = [item_key(plan.images[number]) for number, _ in asked]
    keys = [item_key(plan.images[number], json.dumps(queries)) for number, queries in asked]
    rows = stages.run(Work("boxes", keys, compute, load=load, owners=owners, ragged=True))
    detections = {}
    for (number, queries), row in zip(asked, rows, strict=True):
        table = np.reshape(row, (-1, _WIDTH))
        for index, query in enumerate(queries):
            query_rows = table[table[:, 0] == index]
            detections[number, query] = Detections(query_rows[:, 1:5], query_rows[:, 5])
    return detections


def _row(model: str, queries: int, detections: Sequence[Detections]) -> np.ndarray:
    """Return the boxes of the queries of one image as one row."""
    if len(detections) != queries:
        raise ModelError(f"{model} gave boxes for {len(detections)} of {queries} phrases")
    rows = [np.empty((0, _WIDTH))]
    for index, (boxes, scores) in enumerate(detections):
        boxes, scores = as_array(model, boxes), as_array(model, scores)
        boxes = boxes.reshape(-1, 4) if not boxes.size else boxes
        if scores.ndim != 1 or boxes.shape != (len(scores), 4):
            raise ModelError(
                f"{model} gave boxes of the shape {boxes.shape} and scores of the shape {scores.shape} for a phrase; "
                "expected (k, 4) and (k,)"
            )
        if not np.isfinite(boxes).all() or (boxes[:, :2] > boxes[:, 2:]).any():
            raise ModelError(f"{model} gave a box that is not x1, y1, x2, y2 with x1 <= x2 and y1 <= y2")
        rows.append(np.column_stack([np.full(len(boxes), index), boxes, scores]))
    return np.concatenate(rows).ravel()
