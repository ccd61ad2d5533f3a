"""Per-example scores of matching: against the definition, ties, and rejected inputs."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.checks import TIES
from vl_assay.metrics.functional import matching


@st.composite
def examples(draw):
    """Scores on a coarse grid, so that ties are common, and the index of the correct caption."""
    k = draw(st.integers(2, 5))
    n = draw(st.integers(1, 12))
    scores = draw(st.lists(st.lists(st.integers(-2, 2), min_size=k, max_size=k), min_size=n, max_size=n))
    correct = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    return scores, correct


def by_hand(scores, correct, ties):
    """The definition once more, one row at a time, in exact fractions."""
    values, tied = [], []
    for row, column in zip(scores, correct, strict=True):
        higher = sum(score > row[column] for score in row)
        equal = sum(score == row[column] for score in row)
        is_tie = not higher and equal > 1
        share = {"wrong": Fraction(0), "half": Fraction(1, equal), "right": Fraction(1)}[ties]
        values.append(Fraction(0) if higher else share if is_tie else Fraction(1))
        tied.append(is_tie)
    return values, tied


@pytest.mark.parametrize("ties", TIES)
@given(case=examples())
def test_scores_are_what_the_definition_says(ties, case):
    values, tied = matching.match_scores(*case, ties=ties)
    expected_values, expected_tied = by_hand(*case, ties)
    assert values.tolist() == [float(share) for share in expected_values]
    assert tied.tolist() == expected_tied


@pytest.mark.parametrize(
    ("scores", "correct", "message"),
    [
        ([1.0, 2.0], [0, 0], r"shape \(2,\); pass one row per example"),
        ([[1.0], [2.0]], [0, 0], r"shape \(2, 1\).*at least two captions"),
        ([[1, 2], [1, 2, 3], [1, 2]], [0, 0, 0], r"row 0 has 2 scores.*row 1 \(1 of 3.*: 3; score the same"),
        (np.full((1000, 2), np.nan), np.zeros(1000, int), r"rows 0, 1, 2, 3, 4, … \(1000 of 1000 rows"),
        ([[1, 10**400]], [0], "cannot be read as numbers"),
        (torch.zeros(1, 2, requires_grad=True), [0], r"cannot be read as numbers.*\.detach\(\)"),
        ([[1, 2], [3, 4]], [0], r"shape \(1,\) for 2 examples; pass one index per example"),
        ([[1, 2], [3, 4]], [0, 2], r"caption is 2 in row 1 \(1 of 2 rows.*whole number from 0 to 1"),
        ([[1, 2], [3, 4]], [-1, 0], r"caption is -1 in row 0"),
        ([[1, 2], [3, 4]], [0, None], r"caption is nan in row 1"),
    ],
)
def test_unusable_input_is_rejected_with_a_remedy(scores, correct, message):
    with pytest.raises(ScoresError, match=message):
        matching.match_scores(scores, correct)
