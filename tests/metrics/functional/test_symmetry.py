"""Score gaps of blind models: by hand, by brute force, against scipy, and in simulation."""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from vl_assay.metrics.functional.symmetry import artifact_gap


def first_column(scores, **options):
    """The result where the correct caption is always in column 0."""
    return artifact_gap(scores, [0] * len(scores), **options)


def blind_scores(seed, images=60, per_image=4, shift=0.0):
    """Scores (correct, negative) with what the captions of an image share, and unequal images."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, images, images * per_image)
    scores = rng.normal(size=(len(clusters), 2))
    scores[:, 0] += shift + 0.7 * rng.normal(size=images)[clusters]
    return scores, clusters, rng.choice(["swap", "add"], len(clusters), p=[0.3, 0.7])


def asymmetry_by_hand(gaps):
    """The definition, threshold by threshold."""
    return max(
        (
            abs(Fraction(sum(gap >= size for gap in gaps) - sum(gap <= -size for gap in gaps), len(gaps)))
            for size in {abs(gap) for gap in gaps} - {0}
        ),
        default=Fraction(0),
    )


def p_value_by_hand(gaps, clusters):
    """The share of all sign flips of whole clusters that are at least as asymmetric."""
    names = sorted(set(clusters))
    observed, outcomes = asymmetry_by_hand(gaps), []
    for flips in itertools.product((-1, 1), repeat=len(names)):
        sign = dict(zip(names, flips, strict=True))
        outcomes.append(asymmetry_by_hand([gap * sign[name] for gap, name in zip(gaps, clusters, strict=True)]))
    return sum(outcome >= observed for outcome in outcomes) / len(outcomes)


def auc_by_hand(scores):
    wins = [1 if p > n else 0.5 if p == n else 0 for p, n in itertools.product(*zip(*scores, strict=True))]
    return sum(wins) / len(wins)


@st.composite
def few_examples(draw):
    """Coarse scores, so that gaps of one size are common, in at most six clusters."""
    n = draw(st.integers(1, 9))
    scores = draw(st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=n, max_size=n))
    clusters = draw(st.lists(st.sampled_from("abcdef"), min_size=n, max_size=n))
    return scores, clusters, draw(st.sampled_from(["wrong", "half", "right"]))


@given(case=few_examples())
def test_scores_are_what_the_definitions_say(case):
    scores, clusters, ties = case
    gaps = [positive - negative for positive, negative in scores]
    result = first_column(scores, clusters=clusters, ties=ties)
    right, tied = sum(gap > 0 for gap in gaps), gaps.count(0)
    share = {"wrong": 0, "half": 0.5, "right": 1}[ties]
    assert (result["accuracy"], result["tie_rate"]) == ((right + share * tied) / len(gaps), tied / len(gaps))
    assert (result["mean_gap"], result["median_gap"]) == pytest.approx((np.mean(gaps), np.median(gaps)), abs=1e-12)
    assert result["asymmetry"] == pytest.approx(float(asymmetry_by_hand(gaps)), abs=1e-15)
    assert result["symmetry_p_value"] == pytest.approx(p_value_by_hand(gaps, clusters), abs=1e-15)
    assert result["auc"] == pytest.approx(auc_by_hand(scores), abs=1e-12)


def test_random_flips_come_close_to_the_exact_p_value():
    # 12 clusters of unequal size: 4,096 flips.
    scores, clusters, _ = blind_scores(seed=2, images=12, per_image=4, shift=0.4)
    options = {"clusters": clusters}
    exact = first_column(scores, permutations=5_000, **options)["symmetry_p_value"]
    assert exact == first_column(scores, permutations=5_000, seed=1, **options)["symmetry_p_value"]
    assert 0.01 < exact < 0.9
    estimates = {first_column(scores, permutations=4_000, seed=s, **options)["symmetry_p_value"] for s in range(4)}
    assert len(estimates) > 1
    for estimate in estimates:
        assert estimate == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 4_000))


def test_random_flips_never_give_zero():
    scores = np.column_stack([np.arange(1.0, 61.0), np.zeros(60)])
    assert first_column(scores, permutations=199)["symmetry_p_value"] == 1 / 200


def test_gaps_that_differ_by_rounding_are_of_one_size():
    # 0.3 - 0.1 is 2.8e-17 less than 0.4 - 0.2; taken apart, one of them would stand alone: an asymmetry of 1/2.
    assert 0.3 - 0.1 != 0.4 - 0.2
    result = first_column([[0.3, 0.1], [0.2, 0.4]])
    assert (result["asymmetry"], result["symmetry_p_value"]) == (0.0, 1.0)


def test_symmetric_gaps_may_hide_captions_that_can_be_told_apart():
    # Gaps 2 2 -2 -2. Correct 5 5 0 3 against negative 3 3 2 5: 3.5 + 3.5 + 0 + (1/2 + 1/2 + 1) = 9 of 16.
    result = first_column([[5, 3], [5, 3], [0, 2], [3, 5]])
    assert (result["asymmetry"], result["mean_gap"], result["accuracy"]) == (0.0, 0.0, 0.5)
    assert result["auc"] == 9 / 16


def test_where_the_correct_caption_stands_does_not_matter():
    scores, clusters, _ = blind_scores(seed=4)
    columns = np.random.default_rng(4).integers(0, 2, len(scores))
    moved = np.where(columns[:, np.newaxis] == 0, scores, scores[:, ::-1])
    options = {"clusters": clusters, "confidence": 0.9, "resamples": 200}
    assert artifact_gap(moved, columns, **options) == first_column(scores, **options)


def test_each_category_is_computed_as_if_it_were_alone():
    scores, clusters, categories = blind_scores(seed=7)
    options = {"confidence": 0.9, "resamples": 200, "permutations": 200}
    result = first_column(scores, clusters=clusters, categories=categories, **options)
    assert result | {"per_category": {}} == first_column(scores, clusters=clusters, **options)
    assert list(result["per_category"]) == list(dict.fromkeys(categories))
    for name, part in result["per_category"].items():
        rows = categories == name
        alone = first_column(scores[rows], clusters=clusters[rows], **options)
        assert part | {"confidence": 0.9, "per_category": {}} == alone


def test_the_error_of_the_auc_is_that_of_delong():
    # DeLong's variance of a paired comparison, written out: V10 and V01 are the placement values.
    scores = blind_scores(seed=8, images=300, per_image=1, shift=0.3)[0]
    positive, negative = scores.T
    v10 = np.array([np.mean(score > negative) for score in positive])
    v01 = np.array([np.mean(positive > score) for score in negative])
    variance = (v10.var(ddof=1) + v01.var(ddof=1) + 2 * np.cov(v10, v01)[0, 1]) / len(scores)
    reach = 1.644854 * math.sqrt(variance)
    low, high = first_column(scores, confidence=0.9)["auc_interval"]
    assert (low, high) == pytest.approx((v10.mean() - reach, v10.mean() + reach), abs=1e-6)


def test_clustered_intervals_agree_with_a_bootstrap_written_out():
    scores, clusters, _ = blind_scores(seed=9, images=150, per_image=5, shift=0.3)
    members = [np.flatnonzero(clusters == name) for name in sorted(set(clusters))]
    draw = random.Random(9)
    rows = []
    for _ in range(600):
        drawn = scores[np.concatenate(draw.choices(members, k=len(members)))]
        gaps = drawn[:, 0] - drawn[:, 1]
        auc = scipy.stats.mannwhitneyu(*drawn.T, method="asymptotic").statistic / len(drawn) ** 2
        rows.append([np.mean(gaps > 0), gaps.mean(), auc])
    expected = np.quantile(rows, [0.05, 0.95], axis=0).T
    result = first_column(scores, clusters=clusters, confidence=0.9)
    # The 5 % quantile of 600 draws has a standard error near 2 * sd / sqrt(600), 8 % of an sd; an interval is
    # 3.3 sd wide.
    for key, wanted in zip(("accuracy", "mean_gap", "auc"), expected, strict=True):
        assert result[f"{key}_interval"] == pytest.approx(wanted.tolist(), abs=0.08 * np.ptp(wanted))
    naive = first_column(scores, confidence=0.9)
    for key in ("mean_gap_interval", "auc_interval"):
        assert np.ptp(naive[key]) < 0.9 * np.ptp(result[key])


def test_images_of_unequal_size_do_not_widen_the_interval_of_the_mean_gap():
    # Gaps of 100 with an sd of 1 in 40 images of 1 to 20 examples: sums differ by hundreds, means by little.
    rng = np.random.default_rng(10)
    clusters = np.repeat(np.arange(40), np.tile(np.arange(1, 21), 2))
    scores = np.column_stack([rng.normal(100, 1, 420), np.zeros(420)])
    low, high = first_column(scores, clusters=clusters, confidence=0.95)["mean_gap_interval"]
    assert low < scores[:, 0].mean() < high
    assert high - low == pytest.approx(2 * 1.96 / math.sqrt(420), abs=0.08)  # 40 images tell it within some 15 %


def test_perfect_separation_leaves_room_for_what_no_image_showed():
    # 10 images: others may have a share of b = 1 - 0.025 ** (1 / 10), and of two captions drawn both are of the kind
    # seen with a chance of (1 - b) ** 2.
    scores = [[2 + k, 1 - k] for k in range(10)]
    result = first_column(scores, confidence=0.95)
    seen = binomtest(10, 10).proportion_ci(method="exact").low
    assert result["auc_interval"] == pytest.approx([seen**2, 1.0])
    assert result["accuracy_interval"] == pytest.approx([seen, 1.0])
    reverse = artifact_gap(scores, [1] * 10, confidence=0.95)
    assert reverse["auc_interval"] == pytest.approx([0.0, 1 - seen**2])


def test_equal_scores_leave_room_too():
    result = first_column([[1, 1]] * 10, confidence=0.95)
    seen = 0.025 ** (2 / 10)
    assert result["auc_interval"] == pytest.approx([seen / 2, 1 - seen / 2])
    assert result["mean_gap_interval"] is None


def test_one_image_says_nothing():
    result = first_column([[1, 0], [0, 1], [3, 1]], clusters=["a"] * 3, confidence=0.95)
    # Two of three right, and any other image may be all right or all wrong: 0.025 * 2/3, and 0.975 more.
    assert result["accuracy_interval"] == pytest.approx([0.025 * 2 / 3, 0.025 * 2 / 3 + 0.975])
    assert result["auc_interval"] == [0.0, 1.0]
    assert result["mean_gap_interval"] is None
    # Both flips of the only cluster are equally asymmetric.
    assert result["symmetry_p_value"] == 1.0


def test_memory_stays_flat():
    # The signs of 20,000 gaps in 1,000 flips would be 20 MB at once, their sums 80 MB.
    scores, clusters, _ = blind_scores(seed=15, images=5_000, per_image=4)
    tracemalloc.start()
    first_column(scores, clusters=clusters, permutations=1_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * 2**20
