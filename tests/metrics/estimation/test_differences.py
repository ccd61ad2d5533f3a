"""Differences between two models in any score: against resampling written out, and tests derived independently."""

import itertools

import numpy as np
import pytest
from box_rows import HERE, boxes_of, truth_of
from intervals import expanded_tails

from vl_assay.metrics.estimation.aggregate import aggregate
from vl_assay.metrics.estimation.differences import Resampling, differences, p_value
from vl_assay.metrics.estimation.spec import make_examples
from vl_assay.metrics.functional.aro import aro_accuracy
from vl_assay.metrics.functional.cpd import cpd_ap
from vl_assay.metrics.functional.vqa import yes_no_f1

AWAY = [50, 50, 60, 60]
QUICK = Resampling(resamples=100, permutations=200)


def sides(rows):
    return zip(*rows, strict=True)


def detector_rows(rng, n):
    """Rows with one true box each, or none, and three boxes of coarse scores."""
    return [
        (
            boxes_of(*((HERE if rng.random() < 0.5 else AWAY, rng.integers(1, 9) / 8, 1) for _ in range(3))),
            truth_of((HERE, 1)) if row % 2 == 0 else truth_of(),
        )
        for row in range(n)
    ]


def ap_of(rows):
    return cpd_ap(*sides(rows), box_format="xyxy", subsamples=0)["ap"]


def two_detectors(n=12, seed=0):
    rng = np.random.default_rng(seed)
    first = detector_rows(rng, n)
    second = [(found, truth) for (found, _), (_, truth) in zip(detector_rows(rng, n), first, strict=True)]
    examples = [
        cpd_ap.per_example(*sides(rows), box_format="xyxy", clusters=[row // 2 for row in range(n)])
        for rows in (first, second)
    ]
    return first, second, examples


def test_a_paired_difference_in_ap_is_that_of_resampling_written_out():
    first, second, examples = two_detectors()
    result = differences(*examples, QUICK)["ap"]
    assert result["difference"] == pytest.approx(ap_of(first) - ap_of(second))
    generator, drawn = np.random.default_rng(QUICK.seed), []
    for _ in range(QUICK.resamples):
        rows = [row for pair in generator.integers(6, size=6) for row in (2 * pair, 2 * pair + 1)]
        drawn.append(ap_of([first[row] for row in rows]) - ap_of([second[row] for row in rows]))
    assert result["difference_interval"] == pytest.approx(
        np.quantile(drawn, expanded_tails([2] * 6, 0.95)).tolist(), abs=1e-12
    )
    assert result["standard_error"] == pytest.approx(np.std(drawn, ddof=1))


def test_the_p_value_of_ap_counts_exchanges_of_whole_clusters():
    first, second, examples = two_detectors(n=10, seed=3)
    observed = abs(ap_of(first) - ap_of(second))
    gaps = []
    for swaps in itertools.product((False, True), repeat=5):
        pairs = [(b, a) if swaps[row // 2] else (a, b) for row, (a, b) in enumerate(zip(first, second, strict=True))]
        one, two = zip(*pairs, strict=True)
        gaps.append(abs(ap_of(one) - ap_of(two)))
    exact = np.mean([gap >= observed - 1e-12 for gap in gaps])
    found = p_value(*examples, "ap", permutations=2_000)
    assert 0.05 < exact < 0.95
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2_000))
    assert differences(*examples, QUICK)["ap"]["permutation_p_value"] == pytest.approx(exact, abs=0.15)


def test_a_macro_average_is_compared_with_each_category_weighing_alike():
    rng = np.random.default_rng(2)
    categories = ["a"] * 900 + ["b"] * 600
    values = [rng.integers(0, 2, 1_500).astype(float) for _ in range(2)]
    examples = [make_examples({"accuracy": each}, np.zeros(1_500), categories=categories) for each in values]
    macro = differences(*examples, Resampling(resamples=2_000))["accuracy"]["macro"]
    means = [aggregate(each)["macro_accuracy"] for each in examples]
    assert (macro["score1"], macro["score2"]) == pytest.approx(tuple(means))
    assert macro["difference"] == pytest.approx(means[0] - means[1])
    low, high = macro["difference_interval"]
    # Two independent means: their variances add, each a quarter of its category's.
    gaps = values[0] - values[1]
    expected = np.sqrt(sum(gaps[part].var() / len(gaps[part]) for part in (slice(900), slice(900, 1_500))) / 4)
    assert macro["standard_error"] == pytest.approx(expected, rel=0.02)
    assert (high - low) / 2 == pytest.approx(1.96 * expected, rel=0.15)
    weighted = [[*(gaps[:900] / 900), *(gaps[900:] / 600)]]
    flips = rng.choice([-1, 1], (4_000, 1_500)) @ np.array(weighted).T
    share = np.mean(np.abs(flips) >= abs(np.sum(weighted)) - 1e-12)
    assert p_value(*examples, "macro_accuracy", permutations=4_000) == pytest.approx(share, abs=0.04)


def test_rare_and_left_out_examples_stay_out_of_the_macro_difference():
    scores = np.array([[2, 1], [1, 2], [2, 1], [2, 1]])
    labels = ["on", "on", "eating", "next to"]
    one, two = (aro_accuracy.per_example(each, [0] * 4, categories=labels, min_count=2) for each in (scores, -scores))
    result = differences(one, two, QUICK)["accuracy"]
    assert (result["n"], result["macro"]["score1"], result["macro"]["score2"]) == (3, 0.5, 0.5)


@pytest.mark.slow
def test_ninety_five_per_cent_intervals_cover_what_is_true_in_93_to_97_of_a_hundred_sets():
    covered = dict.fromkeys(("accuracy", "macro_f1"), 0)
    rng, sets, images = np.random.default_rng(0), 400, 150
    for _ in range(sets):
        # Two questions for each image, whose difficulty they share: 0.7 is the mean chance of a right answer.
        chance = np.repeat(rng.beta(7, 3, images), 2)
        right = np.tile([True, False], images)
        said = np.where(rng.random(2 * images) < chance, right, ~right)
        clusters = np.repeat(np.arange(images), 2)
        result = aggregate(yes_no_f1.per_example(said, right, clusters=clusters), confidence=0.95, resamples=1_000)
        for name in covered:
            low, high = result[f"{name}_interval"]
            covered[name] += low <= 0.7 <= high
    assert all(0.93 <= count / sets <= 0.97 for count in covered.values()), covered


def test_models_of_equal_predictions_do_not_differ():
    _, _, (one, _) = two_detectors()
    result = differences(one, one, QUICK)["ap"]
    assert (result["difference"], result["difference_interval"], result["standard_error"]) == (0, None, None)
    assert result["permutation_p_value"] == 1
