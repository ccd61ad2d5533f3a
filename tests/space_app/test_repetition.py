"""Predictions that were made again, compared with the first ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vl_assay.metrics.common.errors import PredictionsError
from vl_assay.metrics.records.predictions import Predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, VQARow
from vl_assay.space_app.reruns.repetition import repetition

FACTS = ("c", "", ["i"])  # config, category and images of a row
# Their mean is 2 and their variance (4 · 1 + 4) / 8 = 1, so a tenth of their standard deviation is 0.1.
SCORES = ([3.0, 1.0], [1.0, 2.0], [2.0, 4.0], [2.0, 1.0])


def predictions(rows, **benchmark):
    return Predictions(list(rows), {"benchmark": {"name": "b", "task": "t", "fingerprint": "f", **benchmark}})


def again(rows, *changed, **benchmark):
    """The repetition of rows when the first ones of them become others."""
    both = rows, [*changed, *rows[len(changed) :]][::-1]
    return repetition(*(predictions(each, **benchmark) for each in both))


def test_an_example_is_repeated_if_its_scores_are_near_and_decide_the_same():
    rows = [MatchingRow(str(number), *FACTS, [0], [scores]) for number, scores in enumerate(SCORES)]
    assert again(rows) == (1.0, 4, 0.0)
    near = again(rows, replace(rows[0], scores=[[3.09, 1.0]]))
    assert near == (1.0, 4, pytest.approx(0.09))
    assert again(rows, replace(rows[0], scores=[[3.2, 1.0]])) == (0.75, 4, pytest.approx(0.2))  # the decision stays
    close = [replace(rows[0], scores=[[2.0, 1.96]]), *rows[1:]]
    assert again(close, replace(rows[0], scores=[[1.96, 2.0]])).same == 0.75  # the scores stay
    # Without an image in one of them it counts, and is not repeated; without one in both it does not count.
    missing = replace(rows[0], images=[""], scores=None)
    assert again(rows, missing) == again([missing, *rows[1:]], rows[0]) == (0.75, 4, 0.0)
    assert again([missing, *rows[1:]]) == (1.0, 3, 0.0)


def test_questions_are_repeated_by_their_answers():
    rows = [VQARow(str(number), *FACTS, "is it", True, score) for number, score in enumerate((0.1, -3.0, 2.0, 4.0))]
    assert again(rows, replace(rows[0], score=-0.1)) == (0.75, 4, pytest.approx(0.2))
    assert again(rows, replace(rows[0], score=0.3)) == (1.0, 4, pytest.approx(0.2))


def test_of_a_retrieval_set_the_correct_and_the_highest_scores_count():
    rng = np.random.default_rng(0)
    rows = [RetrievalRow(str(number), *FACTS, [0], np.sort(rng.normal(size=50))) for number in range(4)]
    for place, same in ((0, 0.75), (49, 0.75), (40, 0.75), (39, 1.0)):  # correct, highest, tenth, eleventh
        scores = rows[0].scores.copy()
        scores[place] -= 1
        assert again(rows, replace(rows[0], scores=scores)).same == same, place
    raised = rows[0].scores.copy()
    raised[20] += 5  # it was not among the highest, and is now
    assert again(rows, replace(rows[0], scores=raised)).same == 0.75
    with pytest.raises(PredictionsError, match="make them with the same data"):
        repetition(predictions(rows), predictions(rows, fingerprint="another"))
    with pytest.raises(PredictionsError, match="make them with the same data"):
        repetition(predictions(rows), predictions(rows[1:]))


def test_of_a_retrieval_set_the_ranks_that_recalls_depend_on_count():
    # Each image has its own caption first, far above others but for one that is nearly as high.
    scores = np.eye(4) * 5 + np.eye(4, k=1) * 4.99
    rows = [RetrievalRow(str(number), *FACTS, [number], each) for number, each in enumerate(scores)]

    def same(row, column, change, **benchmark):
        moved = scores.copy()
        moved[row, column] += change
        changed = [replace(each, scores=values) for each, values in zip(rows, moved, strict=True)]
        return again(rows, *changed, **benchmark).same

    assert same(0, 0, 0.1) == same(0, 1, -0.1) == 1.0
    # The wrong caption comes first, by as little as rounding may give: an honest model in half precision does so, too.
    assert same(0, 1, 0.1) == 1.0
    # An image that was first for its caption is second, by a score that is not among the highest of its row.
    wide = [replace(row, scores=np.concatenate([row.scores, np.full(20, 9.0)])) for row in rows]
    raised = wide[2].scores.copy()
    raised[0] = 6.0
    assert again(wide, *wide[:2], replace(wide[2], scores=raised)).same == 0.75
    nearly = wide[2].scores.copy()
    nearly[0] = 5.05
    assert again(wide, *wide[:2], replace(wide[2], scores=nearly)).same == 1.0
    # Where captions are classes no image is looked for.
    classes = {"metrics": {"zero_shot_accuracy": {}}}
    assert again(wide, *wide[:2], replace(wide[2], scores=raised), **classes).same == 1.0


def test_of_detections_the_best_box_of_each_phrase_counts():
    boxes = [[[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]], []]
    phrases = [{"text": "a", "start": 0, "end": 1}, {"text": "b", "start": 2, "end": 3}]
    rows = [
        DetectionRow(str(number), *FACTS, True, "p", phrases, [[], []], boxes, [[score, 0.1], []])
        for number, score in enumerate((0.5, 0.9, 0.3, 0.8))
    ]
    assert again(rows) == (1.0, 4, 0.0)
    moved = [[[0.0, 0.0, 10.0, 7.0], boxes[0][1]], []]  # 70 / 100
    assert again(rows, replace(rows[0], boxes=moved)).same == 1.0
    moved = [[[0.0, 0.0, 10.0, 4.0], boxes[0][1]], []]  # 40 / 100
    assert again(rows, replace(rows[0], boxes=moved)) == (0.75, 4, 0.0)
    assert again(rows, replace(rows[0], scores=[[0.4, 0.1], []])) == (0.75, 4, pytest.approx(0.1))
    more = replace(rows[0], boxes=[boxes[0], [[0.0, 0.0, 1.0, 1.0]]], scores=[[0.5, 0.1], [0.2]])
    assert again(rows, more).same == again([more, *rows[1:]], rows[0]).same == 0.75
    assert again(rows, replace(rows[0], boxes=[[], []], scores=[[], []])).same == 0.75
