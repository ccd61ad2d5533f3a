"""Group match: against every order of four scores, on the released tags, and its card."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from fractions import Fraction

import pytest
from cards import card_table, card_text

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.checks import TIES
from vl_assay.metrics.functional.groups import group_match
from vl_assay.metrics.modules.discovery import load_metric

CARD = card_text("group_match")
SCORES = ("text_score", "image_score", "group_score")
RIGHT, WRONG = [[2, 1], [1, 2]], [[1, 2], [2, 1]]
# All groups whose scores are 0, 1 or 2: every way in which four scores can be tied.
ALL_GROUPS = [[[a, b], [c, d]] for a, b, c, d in itertools.product(range(3), repeat=4)]


def compute(predictions, **options):
    return load_metric("group_match").compute(predictions=predictions, **options)


def scores_by_hand(group):
    """Winoground's three equations for one group, and nothing else."""
    (c0_i0, c1_i0), (c0_i1, c1_i1) = group
    text = c0_i0 > c1_i0 and c1_i1 > c0_i1
    image = c0_i0 > c0_i1 and c1_i1 > c1_i0
    return text, image, text and image


def over_all_orders(group):
    """The scores under each strict order of four scores that contradicts none of their differences."""
    flat = [score for row in group for score in row]
    outcomes = [
        scores_by_hand([ranks[:2], ranks[2:]])
        for ranks in itertools.permutations(range(4))
        if all(ranks[i] > ranks[j] for i in range(4) for j in range(4) if flat[i] > flat[j])
    ]
    return list(zip(*outcomes, strict=True))


def scores_of(part):
    return [part[name] for name in SCORES]


@pytest.mark.parametrize("ties", TIES)
def test_ties_are_those_of_all_orders_of_equal_scores(ties):
    result = compute(ALL_GROUPS, ties=ties, categories=list(range(len(ALL_GROUPS))))
    for number, group in enumerate(ALL_GROUPS):
        for found, outcomes in zip(scores_of(result["per_category"][str(number)]), over_all_orders(group), strict=True):
            expected = {
                "wrong": float(all(outcomes)),
                "half": float(Fraction(sum(outcomes), len(outcomes))),
                "right": float(any(outcomes)),
            }[ties]
            assert found == pytest.approx(expected, abs=1e-12), group


def test_chance_is_a_quarter_a_quarter_and_a_sixth():
    # All 24 orders: image and caption must agree in 6 and 6, and both in 4.
    orders = [[order[:2], order[2:]] for order in itertools.permutations(range(4))]
    assert (
        scores_of(compute(orders))
        == [6 / 24, 6 / 24, 4 / 24]
        == [score.chance for score in load_metric("group_match").spec.scores]
    )
    assert "| chance | 25.00 | 25.00 | 16.67 |" in CARD


def test_a_group_of_winoground_counts_in_each_of_its_tags_but_once_overall(shared_data):
    path = shared_data / "data" / "winoground" / "new_tag_assignments.json"
    by_group = json.loads(path.read_text(encoding="utf-8"))
    labels = [by_group[str(number)] or ["no tag"] for number in range(len(by_group))]
    right = [number % 3 == 0 for number in range(400)]
    result = compute([RIGHT if hit else WRONG for hit in right], categories=labels)
    assert (result["n"], result["group_score"]) == (400, 134 / 400)  # 0, 3, … 399
    sizes = {name: int(size) for name, (size,) in card_table("group_match", "tag").items()}
    assert {name: part["n"] for name, part in result["per_category"].items()} == sizes
    assert sum(sizes.values()) == 298 + 172  # tags, and groups without any
    means = {
        name: statistics.fmean(hit for hit, tags in zip(right, labels, strict=True) if name in tags) for name in sizes
    }
    assert {name: part["group_score"] for name, part in result["per_category"].items()} == pytest.approx(means)
    assert result["macro_group_score"] == pytest.approx(statistics.fmean(means.values()))


REMEDY = r"; pass a 2×2 matrix for each group: rows images, columns captions, the right pairs on the diagonal"


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[[1, 2, 3], [1, 2, 3]]], r"shape \(1, 2, 3\)" + REMEDY),
        ([[[1, 2], [3]], RIGHT, []], r"not 2×2 matrices in rows 0, 2 \(2 of 3" + ".*" + REMEDY),
        ([RIGHT, [[1, math.nan], [1, 2]]], r"NaN or infinite in row 1 .*\[\[1\.0, nan\].*Score these groups again"),
    ],
)
def test_unusable_scores_are_rejected_with_a_remedy(scores, message):
    with pytest.raises(ScoresError, match=message):
        group_match(scores)


def test_a_tie_decides_nothing_where_the_other_comparison_is_lost():
    # Text: 1 = 1 ties for the first image, and 0 < 2 is lost for the second; image: 1 < 2 and 0 < 1 are lost.
    for ties in ("wrong", "half", "right"):
        assert group_match([[[1, 1], [2, 0]]], ties=ties)["tie_rate"] == 0
    assert group_match([[[1, 1], [0, 2]]])["tie_rate"] == 1
