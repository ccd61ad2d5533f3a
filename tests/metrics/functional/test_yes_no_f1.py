"""Yes-or-no answers: F1 from its definition, shares of false answers, intervals, TRICD's table and its card."""

import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from intervals import expanded_tails

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.vqa import yes_no_f1
from vl_assay.metrics.modules.discovery import load_metric


def compute(predictions, references, **options):
    return load_metric("yes_no_f1").compute(predictions=predictions, references=references, **options)


def f1_by_hand(said, right, label):
    """The harmonic mean of precision and recall; 0 where nothing of the class is found."""
    found = sum(one == label for one in said)
    there = sum(one == label for one in right)
    both = sum(one == other == label for one, other in zip(said, right, strict=True))
    if not both:
        return Fraction(0)
    precision, recall = Fraction(both, found), Fraction(both, there)
    return 2 / (1 / precision + 1 / recall)


def macro_f1_by_hand(said, right):
    return float((f1_by_hand(said, right, 1) + f1_by_hand(said, right, 0)) / 2)


# With both kinds of question in both categories.
both_kinds = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from("ab")), max_size=30).map(
    lambda rows: [*rows, (0, 1, "a"), (0, 0, "a"), (1, 1, "b"), (0, 0, "b")]
)


@given(rows=both_kinds)
def test_scores_are_those_of_the_definition_written_out(rows):
    said, right, labels = (list(column) for column in zip(*rows, strict=True))
    result = yes_no_f1(said, right, categories=labels)
    assert result["macro_f1"] == pytest.approx(macro_f1_by_hand(said, right))
    assert result["f1_yes"] == pytest.approx(float(f1_by_hand(said, right, 1)))
    assert result["f1_no"] == pytest.approx(float(f1_by_hand(said, right, 0)))
    assert result["accuracy"] == pytest.approx(np.mean(np.array(said) == right))
    false = {"positive": [s > r for s, r, _ in rows], "negative": [s < r for s, r, _ in rows]}
    for kind, flags in false.items():
        assert result[f"false_{kind}s"] == sum(flags)
        shares = [part[f"false_{kind}_share"] for part in result["per_category"].values()]
        assert shares == [None, None] if not sum(flags) else sum(shares) == pytest.approx(1)
    for label, part in result["per_category"].items():
        mine = [(s, r) for s, r, other in rows if other == label]
        assert part["n"] == len(mine)
        assert part["macro_f1"] == pytest.approx(macro_f1_by_hand(*zip(*mine, strict=True)))
        if result["false_positives"]:
            expected = sum(s > r for s, r in mine) / result["false_positives"]
            assert part["false_positive_share"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "said",
    [
        ["yes", "no", "no"],
        ["Yes", " NO ", "no\n"],
        ["True", "false", "FALSE"],
        ["1", "0", "0.0"],
        [1.0, 0.0, -0.0],
        np.array(["yes", "no", "no"]),
        [np.int8(1), np.bool_(False), np.float32(0)],
        torch.tensor([True, False, False]),
    ],
)
def test_answers_come_in_any_common_form(said):
    for result in (yes_no_f1(said, [True, False, True]), compute(said, ["yes", "no", "yes"])):
        # TP 1, FN 1, TN 1: both F1 are 2/3.
        assert (result["macro_f1"], result["false_negatives"]) == (pytest.approx(2 / 3), 1)


def noisy_answers(seed, images=50):
    """Answers whose quality depends on the image, with images of unequal size and fewer right answers of yes."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, images, 4 * images)
    right = (rng.random(len(clusters)) < 0.3).astype(int)
    correct = rng.random(len(clusters)) < rng.beta(2, 1, images)[clusters]
    return np.where(correct, right, 1 - right), right, clusters


def bootstrap_by_hand(said, right, clusters, resamples, confidence):
    """Quantiles of the macro F1 of images drawn one at a time, where there are questions of both kinds."""
    members = {}
    for row, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(row)
    rng, drawn = random.Random(0), []
    for _ in range(resamples):
        rows = [row for cluster in rng.choices(list(members), k=len(members)) for row in members[cluster]]
        truth = [int(right[row]) for row in rows]
        if len(set(truth)) == 2:
            drawn.append(macro_f1_by_hand([int(said[row]) for row in rows], truth))
    return np.quantile(drawn, expanded_tails([len(rows) for rows in members.values()], confidence)).tolist()


def test_intervals_are_those_of_a_bootstrap_written_out():
    said, right, clusters = noisy_answers(seed=1)
    labels = np.where(clusters % 3 == 0, "a", "b")
    result = compute(said, right, categories=labels.tolist(), clusters=clusters.tolist(), confidence=0.9)
    for part, rows in [(result, np.full(len(said), True)), (result["per_category"]["b"], labels == "b")]:
        expected = bootstrap_by_hand(said[rows], right[rows], clusters[rows], 1_000, 0.9)
        # The 5 % quantile of 1,000 draws has a standard error of 7 % of an sd; an interval is 3.3 sd wide.
        assert part["macro_f1_interval"] == pytest.approx(expected, abs=0.08 * np.ptp(expected))


@pytest.mark.parametrize(("yes", "no", "per_image"), [(1, 1, 1), (3, 9, 1), (40, 60, 1), (4, 4, 4), (10, 10, 4)])
def test_all_right_gets_an_interval_that_reaches_as_low_as_the_accuracy_of_images_allows(yes, no, per_image):
    right, clusters = [1] * yes + [0] * no, np.arange(yes + no) // per_image
    unseen = 1 - 0.05 ** (per_image / (yes + no))  # the exact bound of the accuracy
    result = yes_no_f1(right, right, clusters=clusters, confidence=0.9)
    low, high = result["macro_f1_interval"]
    assert (result["macro_f1"], high) == (1.0, 1.0)
    errors = (yes + no) * unseen

    def macro_f1(missed):
        false = errors - missed
        f1 = [2 * (yes - missed) / (2 * (yes - missed) + errors), 2 * (no - false) / (2 * (no - false) + errors)]
        return sum(f1) / 2

    divisions = np.linspace(max(0, errors - no), min(yes, errors), 1_001)
    assert low == pytest.approx(min(map(macro_f1, divisions)))
    assert 0 < low < 1
    wrong = yes_no_f1([1 - one for one in right], right, clusters=clusters, confidence=0.9)
    assert wrong["macro_f1"] == 0
    # Hits count most in equal halves, and macro F1 is the accuracy then.
    assert wrong["macro_f1_interval"] == pytest.approx([0, unseen])


REMEDY = "pass 1 or 0, or yes or no. Map an answer that is neither to the wrong one, so that it is counted"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            ["yes", "maybe", "no"],
            rf"of the answers, 'maybe' in row 1 \(1 of 3 rows, counted from 0\) is neither yes nor no; {REMEDY}",
        ),
        ([1, 0, 0.7], rf"of the answers, 0\.7 in row 2.*{REMEDY}"),
        ([2, 0, 0], f"of the answers, 2(.0)? in row 0.*{REMEDY}"),
        ([1, None, 0], f"of the answers, (None|nan) in row 1.*{REMEDY}"),
        (["yes", "no", ""], f"of the answers, '' in row 2.*{REMEDY}"),
        ([], r"answers have shape \(0,\); pass one for each question, at least one"),
        ([1, 0], "got 2 answers for 3 right answers; pass one for each question"),
    ],
)
def test_answers_that_are_neither_are_rejected_and_their_rows_named(said, message):
    with pytest.raises(ScoresError, match=message):
        yes_no_f1(said, [1, 0, 1])
    if len(said) == 3:
        with pytest.raises(ScoresError, match=message.replace("the answers", "the right answers")):
            yes_no_f1([1, 0, 1], said)


@pytest.mark.parametrize(
    ("right", "options", "message"),
    [
        ([1, 1, 1, 1], {}, "right answer is 'yes' in all 4 rows of the set; .*Add the others"),
        (["no"] * 4, {}, "right answer is 'no' in all 4 rows of the set"),
        ([1, 0, 0, 0], {"categories": ["a", "a", "b", "b"]}, "is 'no' in all 2 rows of the category 'b'"),
    ],
)
def test_questions_of_one_kind_are_rejected_with_a_remedy(right, options, message):
    with pytest.raises(ScoresError, match=message):
        compute([1, 0, 1, 0], right, **options)


def test_resamples_without_one_kind_of_question_are_left_out():
    # One of five images asks what is to be answered with no: (4/5)^5 = 33 % of resamples lack it.
    said, right, clusters = [1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 0], [0, 1, 2, 3, 4, 4]
    interval = yes_no_f1(said, right, clusters=clusters, confidence=0.9, resamples=20_000)["macro_f1_interval"]
    assert interval == pytest.approx(bootstrap_by_hand(said, right, clusters, 4_000, 0.9), abs=0.02)


def test_a_single_image_says_nothing_unless_all_right_or_all_wrong():
    assert yes_no_f1([1, 0, 0], [1, 0, 1], clusters=["a"] * 3, confidence=0.9)["macro_f1_interval"] == [0.0, 1.0]
