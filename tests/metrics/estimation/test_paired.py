"""Two models on the same examples: the difference, its interval and its tests, against other libraries and by hand."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation.differences import Resampling, differences
from vl_assay.metrics.estimation.paired import holm, mcnemar
from vl_assay.metrics.estimation.permutation import cluster_permutation_test
from vl_assay.metrics.estimation.spec import make_examples


def paired_difference(first, second, *, clusters=None, categories=None, **options):
    sides = (
        make_examples({"accuracy": side}, np.zeros(len(side), bool), clusters=clusters, categories=categories)
        for side in (first, second)
    )
    return differences(*sides, Resampling(**options))["accuracy"]


def two_models(seed, images=60, per_image=5, halves=0.1):
    """Credits of two models that find the same images easy, in images of unequal size, and categories."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, images, images * per_image)
    ability = rng.beta(2, 1, images)[clusters]
    both = []
    for gain in (0.05, 0.0):
        values = (rng.random(len(clusters)) < ability + gain).astype(float)
        values[rng.random(len(clusters)) < halves] = 0.5
        both.append(values)
    return *both, clusters, rng.choice(["swap", "add", "replace"], len(clusters), p=[0.1, 0.3, 0.6])


def flips_by_hand(differences, clusters):
    """The share of all 2 ** G exchanges whose sum is at least as far from zero as what was seen."""
    parts = {}
    for difference, cluster in zip(differences, clusters, strict=True):
        parts.setdefault(cluster, []).append(difference)
    sums = [math.fsum(part) for part in parts.values()]
    exchanges = itertools.product((-1, 1), repeat=len(sums))
    totals = [abs(math.fsum(sign * value for sign, value in zip(signs, sums, strict=True))) for signs in exchanges]
    return sum(total >= abs(math.fsum(sums)) - 1e-9 for total in totals) / len(totals)


@pytest.mark.parametrize(("wins", "losses"), [(3, 3), (0, 24), (7, 17), (5, 20), (300, 250)])
def test_mcnemar_agrees_with_statsmodels(wins, losses):
    p_value, method = mcnemar(wins, losses)
    exact = wins + losses < 25
    other = statsmodels_mcnemar([[7, wins], [losses, 5]], exact=exact, correction=True)
    assert p_value == pytest.approx(other.pvalue, rel=1e-9)
    assert method == ("exact" if exact else "chi-square")


def test_mcnemar_needs_right_or_wrong():
    result = paired_difference([1, 0.5, 0], [0, 0, 0], categories=["plain", "half", "plain"])
    assert (result["mcnemar_p_value"], result["mcnemar_method"]) == (None, None)
    assert result["per_category"]["half"]["mcnemar_p_value"] is None
    assert result["per_category"]["plain"]["mcnemar_p_value"] == 1.0


@given(p_values=st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02, 0.05]), min_size=1, max_size=12))
def test_holm_is_the_step_down_rule_written_out(p_values):
    ranked = list(enumerate(sorted(p_values)))
    raised = [max((len(ranked) - rank) * other for rank, other in ranked if other <= value) for value in p_values]
    assert holm(p_values).tolist() == [min(1.0, value) for value in raised]


@pytest.mark.parametrize("clustered", [True, False])
def test_the_standard_error_is_that_of_statsmodels(clustered):
    first, second, clusters, _ = two_models(seed=2)
    groups = clusters if clustered else np.arange(len(first))
    fit = OLS(first - second, np.ones(len(first))).fit(cov_type="cluster", cov_kwds={"groups": groups})
    result = paired_difference(first, second, clusters=clusters if clustered else None)
    assert result["standard_error"] == pytest.approx(fit.bse[0], rel=1e-9)


@st.composite
def few_clusters(draw):
    """Differences of both that are thirds, fifths and halves, in at most eight clusters."""
    steps = [0, 1, -1, 1 / 2, -1 / 2, 1 / 3, -1 / 3, 1 / 5, 1 / 3 - 1 / 2, 1 - 1 / 3]
    n = draw(st.integers(1, 14))
    differences = draw(st.lists(st.sampled_from(steps), min_size=n, max_size=n))
    return differences, draw(st.lists(st.sampled_from("abcdefgh"), min_size=n, max_size=n))


@given(case=few_clusters())
def test_the_exact_p_value_counts_every_exchange(case):
    assert cluster_permutation_test(*case) == pytest.approx(flips_by_hand(*case), abs=1e-12)


def test_of_right_and_wrong_it_is_the_exact_sign_test():
    # 1,200 wins and 1,100 losses make 2,301 cases, told exactly: the binomial test of 1,200 in 2,300.
    differences = np.repeat([1.0, -1.0, 0.0], [1_200, 1_100, 5_000])
    assert cluster_permutation_test(differences) == pytest.approx(binomtest(1_200, 2_300).pvalue, rel=1e-9)
    assert cluster_permutation_test([1.0] * 10) == 2 / 2**10


@pytest.mark.parametrize("values", [np.repeat([1.0, 2.0, 5.0], 30), np.arange(1, 16) ** 1.5], ids=["kinds", "coins"])
def test_random_flips_come_close_to_the_exact_p_value(values):
    # 31 ** 3 = 29,791 and 2 ** 15 = 32,768 cases: more than 10,000 flips, fewer than 40,000.
    differences = values * np.where(np.arange(len(values))[::-1] % 5 < 3, 1, -1)
    exact = cluster_permutation_test(differences, permutations=40_000)
    assert 0.05 < exact < 0.5
    assert cluster_permutation_test(differences, permutations=40_000, seed=1) == exact
    estimates = {cluster_permutation_test(differences, permutations=10_000, seed=seed) for seed in range(3)}
    assert len(estimates) > 1
    assert cluster_permutation_test(np.arange(1, 31) ** 1.5, permutations=999) == 1 / 1_000  # never 0
    for estimate in estimates:
        assert estimate == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))


def test_rounding_never_decides():
    # Three thirds of an image equal one whole of another: of the sums of ±1 ±1 all are 2, 0, 0 or -2, and 0 >= 0.
    assert cluster_permutation_test([1 / 3, 1 / 3, 1 / 3, -1], ["a", "a", "a", "b"]) == 1.0
    # 0.1 + 0.2 - 0.3 is 5.6e-17, and the exchanges of that sign are no nearer to zero than the others of 0.
    assert cluster_permutation_test([0.1, 0.2, -0.3]) == 1.0
    # All of one sign, in many kinds of sums that add up in another order: 2 of 2 ** 12 cases.
    tenths = [k / 10 for k in range(1, 13)]
    assert cluster_permutation_test(tenths, permutations=5_000) == 2 / 2**12


def test_clusters_whose_sums_differ_by_rounding_are_of_one_kind():
    # 0.1 + 0.2 is 0.30000000000000004. As one kind, 200 sums make 201 cases: the binomial test of 115 in 200. As two
    # they would make 101 ** 2 = 10,201, and the p-value an estimate. The last image, of 1 and -1, changes nothing.
    differences = np.concatenate([np.tile([0.1, 0.2], 100), np.repeat(0.3, 100), [1, -1]])
    clusters = np.concatenate([np.repeat(np.arange(100), 2), np.arange(100, 200), [200, 200]])
    differences[clusters % 40 >= 23] *= -1
    assert cluster_permutation_test(differences, clusters) == pytest.approx(binomtest(115, 200).pvalue, rel=1e-9)


def test_equal_models_leave_room_for_what_no_image_showed():
    # 20 images of 20 without a difference: another kind may have a share of 1 - 0.025 ** (1 / 20) = 0.168.
    clusters = np.repeat(np.arange(20), 3)
    values = np.tile([1, 0, 1], 20)
    result = paired_difference(values, values, clusters=clusters)
    bound = binomtest(0, 20).proportion_ci(method="exact").high
    assert result["difference_interval"] == pytest.approx([-bound, bound])
    assert (result["difference"], result["agreement"]) == (0.0, 1.0)
    assert (result["permutation_p_value"], result["mcnemar_p_value"]) == (1.0, 1.0)
    assert result["standard_error"] is result["smallest_detectable_difference"] is None


@pytest.mark.parametrize(("first", "second"), [([1, 0, 1], [0, 1, 1]), ([1, 1], [0, 0])])
def test_one_image_says_nothing(first, second):
    result = paired_difference(first, second, clusters=["a"] * len(first))
    assert result["difference_interval"] == [-1.0, 1.0]
    assert result["standard_error"] is result["smallest_detectable_difference"] is None
    assert result["permutation_p_value"] == 1.0


@pytest.mark.parametrize("power", [0.8, 0.5])
def test_the_smallest_detectable_difference_is_detected_with_the_power_asked_for(power):
    first, second, clusters, _ = two_models(seed=10)
    options = {"confidence": 0.9, "power": power, "resamples": 100, "permutations": 100}
    result = paired_difference(first, second, clusters=clusters, **options)
    # A two-sided test at 10 % rejects from 1.645 standard errors on, with that chance where the mean is z higher.
    least, error = result["smallest_detectable_difference"], result["standard_error"]
    assert scipy.stats.norm.sf(1.644854, least / error) == pytest.approx(power, abs=1e-6)


def test_memory_stays_flat():
    # The signs of 8,000 clusters in 10,000 flips would be 80 MB at once, and 640 MB as floats.
    rng = np.random.default_rng(15)
    differences = rng.integers(-1, 2, 16_000) * rng.random(16_000)
    clusters = rng.integers(0, 8_000, 16_000)
    tracemalloc.start()
    cluster_permutation_test(differences, clusters)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 * 2**20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_difference([1, 0], [1]), "got 2 examples of model 1 and 1 of model 2; pass the same examples"),
        (
            lambda: paired_difference([1], [1], permutations=9),
            "permutations is 9; it must be a whole number of at least",
        ),
        (lambda: paired_difference([1], [1], power=1.0), r"power is 1\.0; it must lie strictly between 0 and 1"),
        (lambda: holm([0.1, math.nan]), "the p-value is nan in row 1 .*without NaN: leave out tests"),
        (lambda: holm([[0.1]]), r"the p-values have shape \(1, 1\); pass a flat list"),
        (lambda: mcnemar(-1, 3), "wins is -1; it must be a whole number of at least 0"),
        (lambda: cluster_permutation_test([]), r"the differences have shape \(0,\); pass one per example"),
        (lambda: cluster_permutation_test([0, math.inf]), "the difference is inf in row 1 .*leave these examples out"),
    ],
)
def test_unusable_input_is_rejected_with_a_remedy(call, message):
    with pytest.raises(ScoresError, match=message):
        call()
