"""Plausibility checks: signs of a blind or broken model. Each is a flag for a person to judge, never a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...metrics.functional.boxes import box_iou
from .copies import FEWEST_EXAMPLES, margins, numbers

if TYPE_CHECKING:
    from ...hub_datasets import Example, TaskData
    from ...metrics.records.predictions import Predictions
    from ...metrics.records.schema import DetectionRow

MOST_AGREEMENT = 0.99
# No released model comes near; who makes scores from the labels does.
MOST_ACCURACY = 0.995
# Of the size of the scores: what rounding leaves in single precision.
ROUNDING = 1e-6
# Intersection over union with a box of the labels; detectors reach it for a few boxes in a hundred.
EXACT = 0.95

# Properties of a caption that need neither the image nor the meaning.
_RULES: dict[str, Callable[[str], float]] = {
    "length in characters": len,
    "number of words": lambda caption: len(caption.split()),
    "number of commas": lambda caption: caption.count(","),
}


def find_flags(predictions: Predictions, data: TaskData) -> list[str]:
    """Find implausible properties of a predictions file.

    Args:
        predictions: as ``check_upload`` returned it.
        data: the examples of its task.

    Returns:
        A sentence for each finding: scores that are all equal, or equal within each example; choices that follow a rule
        about the form of the captions; examples without scores; nearly all choices or boxes right; margins as small
        as rounding errors; boxes that equal the labels.
    """
    name = f"{predictions.benchmark}/{predictions.task}"
    sentences = [*_constant(predictions), *_blind(predictions, data), *_labels(predictions)]
    if lacking := sum(not row.is_scored for row in predictions.rows):
        sentences.append(
            f"{lacking:,} of the {len(predictions.rows):,} examples lack their image, and are in no score."
        )
    return [f"{name}: {sentence}" for sentence in sentences]


def _constant(predictions: Predictions) -> Iterator[str]:
    per_row = [numbers(_scores(row)) for row in predictions.rows]
    spans = [(scores.min(), scores.max()) for scores in per_row if len(scores)]
    if not spans:
        yield "The model drew no box at all."
    elif (lowest := min(low for low, _ in spans)) == max(high for _, high in spans):
        yield f"All {sum(map(len, per_row)):,} scores are the same, {lowest:g}."
    elif predictions.task_type in ("matching", "text_similarity") and all(low == high for low, high in spans):
        yield "In every example all captions have the same score, so that none is preferred."


def _scores(row: Any) -> Any:
    return row.score if row.task_type == "vqa" else row.scores


def _labels(predictions: Predictions) -> Iterator[str]:
    """Yield signs that the scores or boxes were derived from the labels."""
    rows: list[Any] = [row for row in predictions.rows if row.is_scored]
    if len(rows) < FEWEST_EXAMPLES:
        return
    if predictions.task_type == "detection":
        yield from _labels_of_boxes(rows)
        return
    values = margins(rows)
    if predictions.task_type == "vqa":
        values *= [1 if row.correct else -1 for row in rows]
    # Below the least size all is rounding.
    sizes = np.array([np.abs(numbers(_scores(row))).max(initial=1e-20) for row in rows])
    if (share := np.mean(values > 0)) >= MOST_ACCURACY:
        yield f"{100 * share:.1f} % of the {len(rows):,} examples are right, more than of any known model."
    tiny = (np.abs(values) <= ROUNDING * sizes) & (values != 0)
    if tiny.mean() > 0.5:
        yield f"The correct captions differ from the others by no more than rounding in {tiny.sum():,} examples."


def _labels_of_boxes(rows: Sequence[DetectionRow]) -> Iterator[str]:
    """Yield signs in the position of the best box of each phrase."""
    overlaps: list[float] = []
    for row in rows:
        for truth, boxes, scores in zip(row.truth, row.boxes or (), row.scores or (), strict=True):
            if truth:
                best = [boxes[int(np.argmax(scores))]] if scores else []
                overlaps.append(float(box_iou(np.array(best * len(truth)), np.array(truth)).max()) if best else 0.0)
    count = len(overlaps)
    if count < FEWEST_EXAMPLES:
        return
    if (right := np.mean(np.array(overlaps) >= 0.5)) >= MOST_ACCURACY:
        yield f"{100 * right:.1f} % of the {count:,} phrases' best boxes are right, more than of any known model."
    if (exact := np.mean(np.array(overlaps) >= EXACT)) > 0.5:
        yield f"{100 * exact:.1f} % of the phrases' best boxes overlap those of the labels by {EXACT} or more."


def _blind(predictions: Predictions, data: TaskData) -> Iterator[str]:
    """Yield rules that make the same choices as the model."""
    if predictions.task_type != "matching":
        return
    by_id = {row.id: row for row in predictions.rows}
    examples = [example for example in data.examples if by_id[example.id].is_scored]
    pairs = [  # an image's index is that of its caption
        (number, image, caption)
        for number, example in enumerate(examples)
        for image, caption in product(example.correct, range(len(example.captions)))
        if caption != image
    ]
    if len({number for number, _, _ in pairs}) < FEWEST_EXAMPLES:
        return
    rows: list[Any] = [by_id[example.id] for example in examples]
    # Halved first: the difference of two finite scores may be infinite.
    gaps = np.array(
        [rows[n].scores[image][image] / 2 - rows[n].scores[image][caption] / 2 for n, image, caption in pairs]
    )
    owners = np.array([number for number, _, _ in pairs])
    for rule, values in _rule_values(examples):
        rule_gaps = np.array([values[n][image] - values[n][caption] for n, image, caption in pairs])
        if agreement := _same_choices(gaps, rule_gaps, owners):
            yield (
                f"The scores cannot be told from a rule that sees no image, the caption's {rule}: {agreement}, of "
                f"{len(pairs):,} comparisons of a right caption with another."
            )


def _rule_values(examples: Sequence[Example]) -> Iterator[tuple[str, list[list[float]]]]:
    for name, rule in _RULES.items():
        yield name, [[rule(caption) for caption in example.captions] for example in examples]
    ordered = sorted({caption for example in examples for caption in example.captions}, key=lambda c: (c.lower(), c))
    positions = {caption: position for position, caption in enumerate(ordered)}
    yield "place in the alphabet", [[positions[caption] for caption in example.captions] for example in examples]


def _same_choices(gaps: np.ndarray, rule_gaps: np.ndarray, owners: np.ndarray) -> str | None:
    """Return the agreement of the model with the rule, or with its opposite, if that is high.

    Rules that decide fewer than half of the comparisons are ignored: every accurate model may agree with them.
    """
    decides = rule_gaps != 0
    if decides.mean() < 0.5 or len(np.unique(owners[decides])) < FEWEST_EXAMPLES:
        return None
    model_choices, rule_choices = np.sign(gaps[decides]), np.sign(rule_gaps[decides])
    agreement = max(np.mean(model_choices == rule_choices), np.mean(model_choices == -rule_choices))
    if agreement < MOST_AGREEMENT:
        return None
    return f"the same choices in {100 * agreement:.1f} % of the {decides.sum():,} that the rule decides"
