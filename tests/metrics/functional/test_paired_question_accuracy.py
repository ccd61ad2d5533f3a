"""Paired questions: by hand, against every way of breaking ties, by baselines, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.questions import paired_question_accuracy
from vl_assay.metrics.modules.discovery import load_metric
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.metrics.results.errors.outcomes import matching_margin

SCORES = ("accuracy", "question_accuracy", "image_accuracy", "group_accuracy")
RIGHT = [[1, 0, 0, 1], [0, 1, 1, 0]]


def scores_of(result):
    return [result[name] for name in SCORES]


def table(answers):
    """Scores with which image i gives question j the answer that is right of image `answers[i][j]`; None for a tie."""
    rows = []
    for answer in answers:
        own = [0.5 if given is None else float(given == question) for question, given in enumerate(answer)]
        rows.append([*own, *(1 - score for score in own)])
    return rows


def by_the_definition(answers):
    """Accuracy, question, image and group accuracy of one group, counted from who was answered what."""
    right = [[answers[image][question] == image for question in (0, 1)] for image in (0, 1)]
    questions = sum(all(right[image][question] for image in (0, 1)) for question in (0, 1))
    images = sum(all(right[image]) for image in (0, 1))
    correct = sum(map(sum, right))
    return [correct / 4, questions / 2, images / 2, float(correct == 4)]


def test_all_ways_to_answer_and_to_tie_count_as_the_definition_says():
    for flat in itertools.product((0, 1, None), repeat=4):
        broken = [
            by_the_definition([ways[:2], ways[2:]])
            for ways in itertools.product(*((0, 1) if given is None else (given,) for given in flat))
        ]
        group = table([flat[:2], flat[2:]])
        expected = {
            # A tied answer is the wrong one, which of all ways of breaking ties gives the least of every score.
            "wrong": [min(column) for column in zip(*broken, strict=True)],
            "half": [sum(column) / len(broken) for column in zip(*broken, strict=True)],
            "right": [max(column) for column in zip(*broken, strict=True)],
        }
        for ties, values in expected.items():
            result = paired_question_accuracy([group], ties=ties)
            assert scores_of(result) == pytest.approx(values), (flat, ties)
            assert result["tie_rate"] == (None in flat)


def test_chance_is_that_of_answers_by_coin():
    ways = [table([ways[:2], ways[2:]]) for ways in itertools.product((0, 1), repeat=4)]
    result = paired_question_accuracy(ways)
    assert scores_of(result) == [1 / 2, 1 / 4, 1 / 4, 1 / 16]
    specified = {score.name: score.chance for score in load_metric("paired_question_accuracy").spec.scores}
    assert [specified[name] for name in SCORES] == scores_of(result)


def test_the_margin_of_an_example_is_that_of_its_worst_answer():
    rng = np.random.default_rng(2)
    for scores in rng.normal(size=(50, 2, 4)).tolist():
        row = MatchingRow("x/0", "x", "x", ["0", "1"], [0, 1], scores)
        assert (matching_margin(row, 1) > 0) == bool(paired_question_accuracy([scores])["group_accuracy"])
    assert matching_margin(MatchingRow("x/0", "x", "x", ["0", "1"], [0, 1], [[1, 0, 0, 1], [0, 5, 3, 0]]), 1) == 1


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[[1, 2], [3, 4]]], r"shape \(1, 2, 2\); pass a 2×4 matrix for each group"),
        ([RIGHT, [[1, 2]]], r"not 2×4 matrices in row 1 \(1 of 2 rows, counted from 0\); pass a 2×4 matrix"),
    ],
)
def test_unusable_scores_are_refused_with_a_remedy(scores, message):
    with pytest.raises(ScoresError, match=message):
        paired_question_accuracy(scores)
