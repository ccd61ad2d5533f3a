"""Ranks with ties: against every order that equal scores can take, and invalid inputs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional import ranking

CANDIDATES = st.lists(st.tuples(st.integers(-1, 1), st.booleans()), max_size=6)


@st.composite
def candidates(draw):
    """Candidates of a few queries, in any order; a query may have no right candidate, or none at all."""
    queries = draw(st.lists(CANDIDATES, min_size=1, max_size=3))
    flat = [(number, *candidate) for number, query in enumerate(queries) for candidate in query]
    return queries, draw(st.permutations(flat))


def ranks_of(flat, n_queries):
    columns = list(zip(*flat, strict=True)) or [[], [], []]
    return ranking.hit_ranks(*columns, n_queries)


def first_hits(query):
    """The rank of the first right candidate under every order of the candidates that their scores allow."""
    everything = (sorted(order, key=lambda candidate: -candidate[0]) for order in permutations(query))
    return [[hit for _, hit in order].index(True) + 1 for order in everything]


@given(case=candidates())
def test_ranks_are_those_of_all_orders_of_equal_scores(case):
    queries, flat = case
    ranks = ranks_of(flat, len(queries))
    assert ranks.found.tolist() == [any(hit for _, hit in query) for query in queries]
    worst, mean, best = (ranking.rank(ranks, ties).tolist() for ties in ("wrong", "half", "right"))
    for number, query in enumerate(queries):
        if not ranks.found[number]:
            assert worst[number] == mean[number] == best[number] == math.inf
            continue
        ways = first_hits(query)
        assert (worst[number], best[number]) == (max(ways), min(ways))
        assert mean[number] == pytest.approx(sum(ways) / len(ways))
        assert ranking.tied(ranks)[number] == (max(ways) > min(ways))


@given(case=candidates(), k=st.integers(1, 8))
def test_recall_at_k_is_that_of_all_orders_of_equal_scores(case, k):
    queries, flat = case
    ranks = ranks_of(flat, len(queries))
    worst, mean, best = (ranking.recall_at(ranks, k, ties).tolist() for ties in ("wrong", "half", "right"))
    for number, query in enumerate(queries):
        ways = [way <= k for way in first_hits(query)] if ranks.found[number] else [False]
        assert (worst[number], best[number]) == (min(ways), max(ways))
        assert mean[number] == pytest.approx(sum(ways) / len(ways), abs=1e-12)
        assert ranking.tied_at(ranks, k)[number] == (max(ways) > min(ways))


def test_probabilities_stay_exact_for_thousands_of_tied_candidates():
    cases = [(4999, 1, 1), (4999, 1, 2500), (4995, 5, 10), (3000, 2000, 3), (2500, 2500, 2000), (9999, 1, 9999)]
    wrong, right, _ = np.array(cases).T
    for number, (w, r, k) in enumerate(cases):
        ranks = ranking.HitRanks(np.zeros_like(wrong), wrong, right, right > 0)
        exact = 1 - Fraction(math.comb(w, k), math.comb(w + r, k))
        values = ranking.recall_at(ranks, k, "half")
        assert values[number] == pytest.approx(float(exact), rel=1e-11)
        assert values.max() <= 1


@pytest.mark.parametrize("k", [0, 1.0, True])
def test_depths_that_are_no_whole_number_from_one_are_rejected(k):
    ranks = ranking.hit_ranks([0], [1], [True], 1)
    for function in (ranking.recall_at, ranking.tied_at):
        with pytest.raises(ScoresError, match="must be a whole number from 1"):
            function(ranks, k)


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ([0], "got right candidates for 1 rows, but scores for 3; pass them for each row"),
        (0, "are 0; pass a list or array"),
        ([0, [], 0], r"no candidate is right in row 1 \(1 of 3 rows"),
        ([0, 0, 2], "is 2 in row 2 .*whole numbers from 0, below the row's number of candidates, here 2"),
        ([[0, -1], 0, 0], "is -1 in row 0 "),
        ([0, None, 0], "is nan in row 1 "),
        ([0, 0.5, 0], r"is 0\.5 in row 1 "),
        ([0, [1, 0, 1], 0], "comes twice in row 1 .*name each of them once"),
        ([0, [True, False, False], 0], "booleans in row 1 .*not a mask"),
        ([0, [[1], [1, 2]], 0], "cannot be read .*a whole number or a list for each row"),
    ],
)
def test_right_candidates_that_cannot_be_used_are_rejected(right, message):
    with pytest.raises(ScoresError, match=message):
        ranking.right_candidates(right, np.array([2, 3, 2]))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "there are no scores"),
        ([[1, 2], 1], r"shape \(\) in row 1 .*flat list"),
        ([[1, 2], ["a"]], "scores of row 1 cannot be read as numbers"),
        ([[1, 2], [3, math.nan]], r"NaN or infinite in row 1 \(1 of 2 rows.*: nan;.*Score these candidates again"),
    ],
)
def test_candidate_sets_that_cannot_be_used_are_rejected(scores, message):
    with pytest.raises(ScoresError, match=message):
        ranking.candidate_sets(scores)
