"""Rows of boxes, TRICD's released ones, and their overlap counted by hand, for the tests of detection."""

import functools
import json
import math

import numpy as np

NOTHING = {"boxes": [], "scores": [], "phrase_ids": []}
NO_TRUTH = {"boxes": [], "phrase_ids": []}
HERE, THERE = [0, 0, 4, 4], [6, 6, 9, 9]


def boxes_of(*found):
    """A row of predictions from (box, score, phrase)."""
    boxes, scores, phrases = (list(part) for part in zip(*found, strict=True)) if found else ([], [], [])
    return {"boxes": boxes, "scores": scores, "phrase_ids": phrases}


def truth_of(*given):
    """A row of references from (box, phrase)."""
    boxes, phrases = (list(part) for part in zip(*given, strict=True)) if given else ([], [])
    return {"boxes": boxes, "phrase_ids": phrases}


def iou_by_hand(box, other):
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    shared = width * height if width > 0 and height > 0 else 0
    union = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (box, other)) - shared
    return shared / union if union else 0


def row_outcomes(found, truth, threshold, max_boxes=100, ties="wrong"):
    """(score, matched) of the boxes of a row that count, best first, matched greedily in plain loops.

    With ``ties="wrong"`` equal scores start with the boxes that overlap their ground truth least.
    """

    def worst_first(place):
        overlaps = [
            iou_by_hand(found["boxes"][place], box)
            for box, phrase in zip(truth["boxes"], truth["phrase_ids"], strict=True)
            if phrase == found["phrase_ids"][place]
        ]
        best = max((value for value in overlaps if value >= 0.5), default=0)
        return best, found["phrase_ids"][place], tuple(reversed(found["boxes"][place]))

    places = list(range(len(found["boxes"])))
    if ties == "wrong":
        places.sort(key=worst_first)
    places = sorted(places, key=lambda place: -found["scores"][place])[:max_boxes]
    free, result = list(range(len(truth["boxes"]))), []
    for place in places:
        close = [
            (iou_by_hand(found["boxes"][place], truth["boxes"][number]), number)
            for number in free
            if truth["phrase_ids"][number] == found["phrase_ids"][place]
        ]
        best = max(close, default=(0, None))
        if matched := best[0] >= threshold:
            free.remove(best[1])
        result.append((found["scores"][place], matched))
    return result


@functools.cache
def _area_by_hand(outcome, positives, ties):
    ordered = sorted(outcome, key=lambda pair: (-pair[0], pair[1]) if ties == "wrong" else -pair[0])
    points, hits = [], 0
    for seen, (_, matched) in enumerate(ordered, start=1):
        hits += matched
        points.append((hits / positives, hits / seen))
    recalls = np.linspace(0, 1, 101).tolist()
    return math.fsum(max((p for r, p in points if r >= recall), default=0) for recall in recalls) / 101


def precisions_by_hand(predictions, references, ties="wrong", max_boxes=100):
    """The ten average precisions of boxes that are all XYXY; NaN without ground truth."""
    positives = sum(len(reference["boxes"]) for reference in references)
    rows = list(zip(predictions, references, strict=True))
    return [
        _area_by_hand(
            tuple(pair for row in rows for pair in row_outcomes(*row, threshold, max_boxes, ties)), positives, ties
        )
        if positives
        else math.nan
        for threshold in np.linspace(0.5, 0.95, 10).tolist()
    ]


class Tricd:
    """TRICD's validation set as the metrics take it.

    Attributes:
        references: the ground truth, XYWH.
        perfect: the same boxes as predictions, XYXY, of one confidence.
        pairs: what `group_recall_at_1` takes besides.
        types: the split of each row.
    """

    def __init__(self, folder):
        released = json.loads((folder / "TRICD_grounding_val.json").read_text(encoding="utf-8"))
        images = released["images"]
        rows = {image["id"]: {"boxes": [], "phrase_ids": []} for image in images}
        for annotation in released["annotations"]:
            rows[annotation["image_id"]]["boxes"].append(annotation["bbox"])
            rows[annotation["image_id"]]["phrase_ids"].append(annotation["phrase_id"])
        self.references = list(rows.values())
        corners = ([[x, y, x + width, y + height] for x, y, width, height in row["boxes"]] for row in self.references)
        self.perfect = [
            row | {"boxes": boxes, "scores": [0.5] * len(boxes)}
            for row, boxes in zip(self.references, corners, strict=True)
        ]
        self.pairs = {
            "pair_ids": [f"{image['original_id'].split('_')[0]} {image['caption']}" for image in images],
            "positive": [image["positive"] for image in images],
            "phrase_keys": [image["phrases"] for image in images],
        }
        self.types = [image["coco_type"] for image in images]

    def on_distractors(self, score=0.5):
        """The boxes of each positive row on its distractors, and nothing on the positive rows."""
        pair_ids, positive, keys = self.pairs.values()
        source = {pair: row for row, pair in enumerate(pair_ids) if positive[row]}
        copies = []
        for row, pair in enumerate(pair_ids):
            if positive[row]:
                copies.append(NOTHING)
                continue
            by_spans = {str(spans): int(phrase) for phrase, spans in keys[row].items()}
            found = self.perfect[source[pair]]
            phrases = [by_spans[str(keys[source[pair]][str(phrase)])] for phrase in found["phrase_ids"]]
            copies.append(found | {"scores": [score] * len(phrases), "phrase_ids": phrases})
        return copies

    def on_both(self, score=0.5):
        """Perfect predictions, and the same boxes on each distractor."""
        sides = zip(self.perfect, self.on_distractors(score), strict=True)
        return [{key: row[key] + other[key] for key in row} for row, other in sides]
