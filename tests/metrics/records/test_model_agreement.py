"""The agreement of two models: the same decisions, and scores on one scale."""

import numpy as np
import pytest

from vl_assay.metrics.records.agreement import agreement, decisions
from vl_assay.metrics.records.schema import MatchingRow, VQARow


def row(*scores, correct=None):
    return MatchingRow("a", "c", "c", ["i"] * len(scores), correct or list(range(len(scores))), [*map(list, scores)])


def question(score):
    return VQARow("a", "c", "c", ["i"], "is it", True, score)


def test_decisions_change_with_who_is_first_and_not_with_by_how_much():
    assert decisions(row([0.9, 0.1])) == decisions(row([0.2, 0.1])) != decisions(row([0.1, 0.2]))
    assert decisions(row([0.9, 0.1])) != decisions(row([0.1, 0.1]))  # a tie is no win
    # Three captions of one image: whether the second, not the first, is above the third.
    assert decisions(row([3, 4, 2])) != decisions(row([3, 4, 5]))
    # Both images prefer their captions; in the second case one caption prefers the wrong image.
    assert decisions(row([0.9, 0.1], [0.2, 0.8])) != decisions(row([0.3, 0.1], [0.4, 0.8]))
    assert decisions(question(0.5)) == 1
    assert np.sign(-0.1) == decisions(question(-0.1))


def test_scores_on_one_scale_have_a_largest_difference():
    ours = [row([1.0, 2.0]), row([3.0, 1.0]), row([2.0, 2.5]), row([0.0, 4.0])]
    theirs = [row([1.01, 2.0]), row([3.0, 1.02]), row([2.5, 2.0]), row([0.0, 4.0])]
    # The third is decided otherwise: 3 of 4; the largest difference is 0.5.
    assert agreement(ours, theirs) == (0.75, 4, pytest.approx(0.5))
    tenfold = [row([10 * score for score in each.scores[0]]) for each in ours]
    assert agreement(ours, tenfold) == (1.0, 4, None)


def test_questions_agree_by_their_answers_and_other_rows_are_not_compared():
    assert agreement([question(1.0), question(-2.0)], [question(1.0), question(2.0)]).same == 0.5
    assert agreement([question(None)], [question(None)]) is None
