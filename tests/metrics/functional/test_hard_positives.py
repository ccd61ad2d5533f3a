"""Augmented test accuracy and brittleness: rankings, ties, and the arithmetic of the paper's tables."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.hard_positives import augmented_accuracy, brittleness
from vl_assay.metrics.modules.discovery import load_metric

TIES = ("wrong", "half", "right")

# The scores of [c, c_p, c_n] for each ranking, and for the ties of the hard negative.
RANKED = {
    "c>c_p>c_n": [3, 2, 1],
    "c_p>c>c_n": [2, 3, 1],
    "c>c_n>c_p": [3, 1, 2],
    "c_p>c_n>c": [1, 3, 2],
    "c_n>c>c_p": [2, 1, 3],
    "c_n>c_p>c": [1, 2, 3],
}


def test_each_ranking_scores_what_the_equations_say():
    found = {}
    for ranking, row in RANKED.items():
        accuracy, brittle = augmented_accuracy([row]), brittleness([row])
        found[ranking] = tuple(accuracy[key] for key in ("original_accuracy", "augmented_accuracy", "gap"))
        found[ranking] += tuple(brittle[key] for key in ("brittleness", "both_wrong"))
        assert accuracy["tie_rate"] == brittle["tie_rate"] == 0
        assert brittle["rankings"] == {**dict.fromkeys(RANKED, 0.0), "tied": 0.0, ranking: 1.0}
    # original, augmented, gap; brittle, both wrong
    assert found == {
        "c>c_p>c_n": (1, 1, 0, 0, 0),
        "c_p>c>c_n": (1, 1, 0, 0, 0),
        "c>c_n>c_p": (1, 0, 1, 1, 0),
        "c_p>c_n>c": (0, 0, 0, 1, 0),
        "c_n>c>c_p": (0, 0, 0, 0, 1),
        "c_n>c_p>c": (0, 0, 0, 0, 1),
    }


def test_mean_scores_stay_finite_however_large_the_scores():
    rows = [[1.7e308, -1.7e308, 1e-300]] * 3
    assert brittleness(rows)["mean_scores"] == pytest.approx({"c": 1.7e308, "c_p": -1.7e308, "c_n": 0})
    assert brittleness([[5e-324, 0, 0]])["mean_scores"] == {"c": 5e-324, "c_p": 0, "c_n": 0}


GRID = st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=10)


def ways(row):
    """For each way to break the ties: is c above c_n, are both above, just one, none?"""
    outcomes = []
    for ranking in itertools.permutations(range(3)):  # from best to worst
        if all(row[better] >= row[worse] for better, worse in itertools.pairwise(ranking)):
            place = {caption: ranking.index(caption) for caption in range(3)}
            above = [place[0] < place[2], place[1] < place[2]]
            outcomes.append((above[0], all(above), sum(above) == 1, not any(above)))
    return outcomes


def mean(values):
    values = list(values)
    return float(sum(map(Fraction, values)) / len(values))


@given(rows=GRID, ties=st.sampled_from(TIES))
def test_scores_are_what_breaking_ties_in_every_way_gives(rows, ties):
    average = {"wrong": min, "half": lambda column: Fraction(sum(column), len(column)), "right": max}[ties]
    columns = [[average(column) for column in zip(*ways(row), strict=True)] for row in rows]
    result = augmented_accuracy(rows, ties=ties)
    assert result["original_accuracy"] == pytest.approx(mean(column[0] for column in columns))
    assert result["augmented_accuracy"] == pytest.approx(mean(column[1] for column in columns))
    assert result["gap"] == pytest.approx(result["original_accuracy"] - result["augmented_accuracy"])
    # To be brittle is bad: a tie is right where it is not.
    reverse = {"wrong": max, "half": average, "right": min}[ties]
    columns = [[reverse(column) for column in zip(*ways(row), strict=True)] for row in rows]
    assert brittleness(rows, ties=ties)["brittleness"] == pytest.approx(mean(column[2] for column in columns))
    never_above = [min(column[3] for column in ways(row)) for row in rows]
    assert brittleness(rows, ties=ties)["both_wrong"] == pytest.approx(mean(never_above))
    decided = [any(len(set(column)) > 1 for column in list(zip(*ways(row), strict=True))[:2]) for row in rows]
    assert result["tie_rate"] == pytest.approx(mean(decided))
    assert brittleness(rows, ties=ties)["tie_rate"] == pytest.approx(mean(row[2] in row[:2] for row in rows))
    assert brittleness(rows)["rankings"]["tied"] == pytest.approx(mean(len(set(row)) < 3 for row in rows))


@pytest.mark.parametrize("name", ["augmented_accuracy", "brittleness"])
def test_rows_of_another_number_of_captions_are_rejected_with_a_remedy(name):
    for row in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(ScoresError, match=rf"have {len(row)} scores; pass three .*\[s\(c\), s\(c_p\), s\(c_n\)\]"):
            load_metric(name).compute(predictions=[row])
