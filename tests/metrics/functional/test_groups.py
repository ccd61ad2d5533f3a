"""Groups of two images, with two captions or two questions: against every way of breaking ties, and released tags."""

import itertools
import json
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from cards import card_table, card_text

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.checks import TIES
from vl_assay.metrics.functional.groups import group_match
from vl_assay.metrics.functional.questions import paired_question_accuracy
from vl_assay.metrics.modules.discovery import get_spec
from vl_assay.metrics.records.schema import MatchingRow
from vl_assay.metrics.results.errors.outcomes import matching_margin

SCORES = {
    "group_match": ("text_score", "image_score", "group_score"),
    "paired_question_accuracy": ("accuracy", "question_accuracy", "image_accuracy", "group_accuracy"),
}
RIGHT, WRONG = [[2, 1], [1, 2]], [[1, 2], [2, 1]]
# All groups whose scores are 0, 1 or 2: every way in which four scores can be tied.
ALL_GROUPS = [[[a, b], [c, d]] for a, b, c, d in itertools.product(range(3), repeat=4)]


def scores_of(part):
    names = SCORES["group_match"] if "group_score" in part else SCORES["paired_question_accuracy"]
    return [part[name] for name in names]


def over_ways(outcomes, ties):
    """Each score over the ways of breaking ties: the least, the mean or the most."""
    kinds = {
        "wrong": min,
        "half": lambda column: float(Fraction(sum(map(Fraction, column)), len(column))),
        "right": max,
    }
    return [float(kinds[ties](column)) for column in zip(*outcomes, strict=True)]


def scores_by_hand(group):
    """Winoground's three equations for one group, and nothing else."""
    (c0_i0, c1_i0), (c0_i1, c1_i1) = group
    text = c0_i0 > c1_i0 and c1_i1 > c0_i1
    image = c0_i0 > c0_i1 and c1_i1 > c1_i0
    return text, image, text and image


def over_all_orders(group):
    """The scores under each strict order of four scores that contradicts none of their differences."""
    flat = [score for row in group for score in row]
    return [
        scores_by_hand([ranks[:2], ranks[2:]])
        for ranks in itertools.permutations(range(4))
        if all(ranks[i] > ranks[j] for i in range(4) for j in range(4) if flat[i] > flat[j])
    ]


@pytest.mark.parametrize("ties", TIES)
def test_ties_are_those_of_all_orders_of_equal_scores(ties):
    result = group_match(ALL_GROUPS, ties=ties, categories=list(range(len(ALL_GROUPS))))
    for group, part in zip(ALL_GROUPS, result["per_category"].values(), strict=True):
        assert scores_of(part) == pytest.approx(over_ways(over_all_orders(group), ties), abs=1e-12), group


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
        for ties in TIES:
            result = paired_question_accuracy([table([flat[:2], flat[2:]])], ties=ties)
            assert scores_of(result) == pytest.approx(over_ways(broken, ties)), (flat, ties)
            assert result["tie_rate"] == (None in flat)


def test_chance_is_that_of_all_orders_and_of_answers_by_coin():
    # Of 24 orders image and caption agree in 6 and 6, and both in 4.
    orders = [[order[:2], order[2:]] for order in itertools.permutations(range(4))]
    answers = [table([ways[:2], ways[2:]]) for ways in itertools.product((0, 1), repeat=4)]
    expected = {"group_match": [6 / 24, 6 / 24, 4 / 24], "paired_question_accuracy": [1 / 2, 1 / 4, 1 / 4, 1 / 16]}
    assert scores_of(group_match(orders)) == expected["group_match"]
    assert scores_of(paired_question_accuracy(answers)) == expected["paired_question_accuracy"]
    for name, levels in expected.items():
        specified = {score.name: score.chance for score in get_spec(name).scores}
        assert [specified[score] for score in SCORES[name]] == levels
    assert "| chance | 25.00 | 25.00 | 16.67 |" in card_text("group_match")


def test_the_margin_of_an_example_is_that_of_its_worst_answer():
    rng = np.random.default_rng(2)
    for scores in rng.normal(size=(50, 2, 4)).tolist():
        row = MatchingRow("x/0", "x", "x", ["0", "1"], [0, 1], scores)
        assert (matching_margin(row, 1) > 0) == bool(paired_question_accuracy([scores])["group_accuracy"])
    assert matching_margin(MatchingRow("x/0", "x", "x", ["0", "1"], [0, 1], [[1, 0, 0, 1], [0, 5, 3, 0]]), 1) == 1


def test_a_group_of_winoground_counts_in_each_of_its_tags_but_once_overall(shared_data):
    path = shared_data / "data" / "winoground" / "new_tag_assignments.json"
    by_group = json.loads(path.read_text(encoding="utf-8"))
    labels = [by_group[str(number)] or ["no tag"] for number in range(len(by_group))]
    right = [number % 3 == 0 for number in range(400)]
    result = group_match([RIGHT if hit else WRONG for hit in right], categories=labels)
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
    ("metric", "scores", "message"),
    [
        (group_match, [[[1, 2, 3], [1, 2, 3]]], r"shape \(1, 2, 3\)" + REMEDY),
        (group_match, [[[1, 2], [3]], RIGHT, []], r"not 2×2 matrices in rows 0, 2 \(2 of 3" + ".*" + REMEDY),
        (
            group_match,
            [RIGHT, [[1, math.nan], [1, 2]]],
            r"infinite in row 1 .*\[\[1\.0, nan\].*Score these groups again",
        ),
        (paired_question_accuracy, [RIGHT], r"shape \(1, 2, 2\); pass a 2×4 matrix for each group"),
        (paired_question_accuracy, [table(RIGHT), [[1, 2]]], r"not 2×4 matrices in row 1 \(1 of 2 .*pass a 2×4 matrix"),
    ],
)
def test_unusable_scores_are_rejected_with_a_remedy(metric, scores, message):
    with pytest.raises(ScoresError, match=message):
        metric(scores)


def test_a_tie_decides_nothing_where_the_other_comparison_is_lost():
    # Text: 1 = 1 ties for the first image, and 0 < 2 is lost for the second; image: 1 < 2 and 0 < 1 are lost.
    for ties in ("wrong", "half", "right"):
        assert group_match([[[1, 1], [2, 0]]], ties=ties)["tie_rate"] == 0
    assert group_match([[[1, 1], [0, 2]]])["tie_rate"] == 1
