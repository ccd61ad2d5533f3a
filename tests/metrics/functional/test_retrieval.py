"""Retrieval: against every order that equal scores can take, by arithmetic, and invalid inputs."""

import math
import statistics
import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.estimation import bootstrap as stats
from vl_assay.metrics.estimation.checks import TIES
from vl_assay.metrics.functional import retrieval
from vl_assay.metrics.functional.retrieval import retrieval_recall

KS = (1, 2, 4)


@st.composite
def shared_pools(draw):
    """Scores on a coarse grid, several captions an image, captions of several images and of none."""
    images, captions = draw(st.integers(2, 5)), draw(st.integers(2, 6))
    scores = draw(st.lists(st.lists(st.integers(-1, 1), min_size=captions, max_size=captions), min_size=images,
                           max_size=images))  # fmt: skip
    columns = st.lists(st.integers(0, captions - 1), min_size=1, max_size=3, unique=True)
    return scores, draw(st.lists(columns, min_size=images, max_size=images))


@st.composite
def own_pools(draw):
    """Candidate sets of unequal size, each with one or more right candidates and at least one wrong one."""
    rows = draw(st.lists(st.lists(st.integers(-1, 1), min_size=2, max_size=6), min_size=1, max_size=6))
    right = [draw(st.lists(st.integers(0, len(row) - 1), min_size=1, max_size=len(row) - 1, unique=True))
             for row in rows]  # fmt: skip
    return rows, right


def one_query(candidates, ks, ties):
    """Credit at each k, rank, and whether a tie decides it, over all places of tied candidates (score, is right)."""
    level = max(score for score, hit in candidates if hit)
    higher = sum(score > level for score, _ in candidates)
    tied = [hit for score, hit in candidates if score == level]
    ranks = [higher + 1 + min(places) for places in combinations(range(len(tied)), sum(tied))]
    chosen = {"wrong": [max(ranks)], "half": ranks, "right": [min(ranks)]}[ties]
    credits = [statistics.fmean(rank <= k for rank in chosen) for k in ks]
    return credits, statistics.fmean(chosen), max(ranks) > min(ranks)


def mean_scores(queries, ks, ties, prefix=""):
    scored = [one_query(candidates, ks, ties) for candidates in queries]
    ranks = [place for _, place, _ in scored]
    return {
        **{f"{prefix}recall_at_{k}": statistics.fmean(values[i] for values, _, _ in scored) for i, k in enumerate(ks)},
        f"{prefix}mean_rank": statistics.fmean(ranks),
        f"{prefix}median_rank": statistics.median(ranks),
        f"{prefix}tie_rate": statistics.fmean(tie for _, _, tie in scored),
    }


def shared_by_hand(scores, right, ties):
    captions = range(len(scores[0]))
    texts = [[(row[c], c in mine) for c in captions] for row, mine in zip(scores, right, strict=True)]
    asking = [c for c in captions if any(c in mine for mine in right)]
    images = [[(row[c], c in mine) for row, mine in zip(scores, right, strict=True)] for c in asking]
    counts = {"n": len(scores), "n_images": len(scores), "n_captions": len(scores[0])}
    counts["n_captions_without_image"] = len(scores[0]) - len(images)
    return {**mean_scores(texts, KS, ties, "text_"), **mean_scores(images, KS, ties, "image_"), **counts}


@pytest.mark.parametrize("ties", TIES)
@given(case=shared_pools())
def test_a_shared_pool_is_scored_as_all_orders_of_equal_scores_say(ties, case):
    result = retrieval_recall(*case, ks=KS, ties=ties)
    assert result.pop("per_category") == {}
    assert result == pytest.approx(shared_by_hand(*case, ties=ties))


@pytest.mark.parametrize("ties", TIES)
@given(case=own_pools(), data=st.data())
def test_candidate_sets_are_scored_as_all_orders_of_equal_scores_say(ties, case, data):
    rows, right = case
    labels = data.draw(st.lists(st.sampled_from([4, 5]), min_size=len(rows), max_size=len(rows)))
    result = retrieval_recall(rows, right, pool="own", ks=KS, ties=ties, categories=labels)
    parts = result.pop("per_category")
    assert list(parts) == [str(label) for label in dict.fromkeys(labels)]
    for label, part in [(None, result), *parts.items()]:
        chosen = [i for i in range(len(rows)) if label in (None, str(labels[i]))]
        queries = [[(score, c in right[i]) for c, score in enumerate(rows[i])] for i in chosen]
        blind = [[(0, hit) for _, hit in query] for query in queries]
        chance = mean_scores(blind, KS, "half", "chance_")
        expected = mean_scores(queries, KS, ties)
        expected["mean_candidates"] = statistics.fmean(len(query) for query in queries)
        expected |= {name: value for name, value in chance.items() if "recall" in name}
        assert part == pytest.approx({**expected, "n": len(chosen)})


@pytest.mark.parametrize(
    ("wrong", "right", "k"),
    [(4999, 1, 1), (4999, 1, 2500), (4995, 5, 10), (3000, 2000, 3), (2500, 2500, 2000), (9999, 1, 9999)],
)
def test_probabilities_stay_exact_for_thousands_of_tied_candidates(wrong, right, k):
    scores, places = np.zeros((1, wrong + right)), [list(range(right))]
    result = retrieval_recall(scores, places, pool="own", ks=[k], ties="half")
    exact = 1 - Fraction(math.comb(wrong, k), math.comb(wrong + right, k))
    assert result[f"recall_at_{k}"] == pytest.approx(float(exact), rel=1e-11)
    assert result[f"recall_at_{k}"] <= 1


def test_many_blocks_give_what_one_comparison_gives_in_flat_memory():
    scores = np.random.default_rng(0).random((800, 4000), dtype=np.float32).round(3)  # 12.8 MB, with ties
    right = np.arange(4000).reshape(800, 5)
    retrieval_recall(scores[:10], right[:10])
    tracemalloc.start()
    result = retrieval_recall(scores, right, ties="right")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block is 1 MB and its mask 0.25 MB; lists of 4,000 places and their arrays take the rest.
    assert peak < 6e6
    texts = 1 + (scores > scores[np.arange(800)[:, np.newaxis], right].max(axis=1)[:, np.newaxis]).sum(axis=1)
    images = 1 + (scores > scores[np.arange(4000) // 5, np.arange(4000)]).sum(axis=0)
    assert (result["text_mean_rank"], result["image_mean_rank"]) == (texts.mean(), images.mean())


def test_intervals_are_those_of_the_bootstrap_by_image():
    rng = np.random.default_rng(1)
    right = np.arange(80).reshape(40, 2)
    scores = rng.random((40, 80)) + 0.5 * np.repeat(np.eye(40), 2, axis=1)
    photo = [f"photo {row // 2}" for row in range(40)]
    options = {"ks": [5], "confidence": 0.9, "resamples": 200, "seed": 3}
    text = (scores > scores[np.arange(40)[:, None], right].max(axis=1)[:, None]).sum(axis=1) < 5
    image = (scores > scores[np.arange(80) // 2, np.arange(80)]).sum(axis=0) < 5

    def expected(values, clusters, categories=None):
        return stats.cluster_bootstrap(values, clusters, categories, 0.9, 200, 3)

    result = retrieval_recall(scores, right, clusters=photo, **options)
    assert result["text_recall_at_5_interval"] == list(expected(text, photo).micro)
    assert result["image_recall_at_5_interval"] == list(expected(image, np.repeat(photo, 2)).micro)
    own = retrieval_recall(scores, right, pool="own", clusters=photo, categories=photo, **options)
    by_photo = expected(text, photo, photo)
    assert own["recall_at_5_interval"] == list(by_photo.micro)
    parts = {name: tuple(part["recall_at_5_interval"]) for name, part in own["per_category"].items()}
    assert parts == by_photo.categories
    # Captions of one image are one cluster by default too: they do not count as independent.
    default = retrieval_recall(scores, right, **options)
    assert default["image_recall_at_5_interval"] == list(expected(image, np.arange(80) // 2).micro)


def test_a_caption_of_several_images_is_in_the_cluster_of_the_first():
    rng = np.random.default_rng(0)
    scores = rng.random((20, 60))
    right = [sorted({*rng.integers(0, 60, 5), 3 * image}) for image in range(20)]
    photo = [f"photo {image}" for image in rng.integers(0, 6, 20)]
    result = retrieval_recall(scores, right, ks=[5], confidence=0.9, resamples=200, clusters=photo)
    asking = [c for c in range(60) if any(c in mine for mine in right)]
    owners = {c: [image for image in range(20) if c in right[image]] for c in asking}
    assert max(map(len, owners.values())) > 1
    values = [sum(scores[:, c] > scores[owners[c], c].max()) < 5 for c in asking]
    expected = stats.cluster_bootstrap(values, [photo[owners[c][0]] for c in asking], None, 0.9, 200, 0).micro
    assert result["image_recall_at_5_interval"] == list(expected)
    last = stats.cluster_bootstrap(values, [photo[owners[c][-1]] for c in asking], None, 0.9, 200, 0).micro
    assert last != expected


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
@pytest.mark.parametrize("pool", retrieval.POOLS)
def test_a_score_that_is_not_finite_is_rejected_and_its_row_named(pool, bad):
    scores = np.ones((600, 1000), dtype=np.float32)  # the rows are in the second and third block
    scores[305, 999] = scores[555, 1] = bad
    message = rf"NaN or infinite in rows 305, 555 \(2 of 600 rows.*: {bad};.*Score these candidates again"
    with pytest.raises(ScoresError, match=message):
        retrieval_recall(scores, [0] * 600, pool=pool)


OWN = {"pool": "own"}
TRIPLES = [[1, 2, 0], [1, 2, 0], [1, 2, 0]]


@pytest.mark.parametrize(
    ("scores", "right", "options", "message"),
    [
        ([[1, 2], [1, 2, 3]], [0, 0], {}, r"row 0 has 2 scores, but another number .* row 1 .*: 3;.*pool=\"own\""),
        ([[1, 2]], [0], {}, r"shape \(1, 2\).*at least two of each"),
        (np.ones((2, 3)), [0, 1], {"categories": "ab"}, r'got categories with pool="shared".*pool="own"'),
        (np.ones((2, 3)), [0, 1], {"ks": []}, r"ks is \[\]; pass a list of whole numbers"),
        (np.ones((2, 3)), [0, 1], {"ks": [2.5]}, "k is 2.5; it must be a whole number from 1"),
        (np.ones((2, 3)), [0, 1], {"ks": [0]}, "k is 0"),
        (np.ones((2, 3)), [0, 1], {"ks": [True]}, "k is True"),
        ([[1, 2], [1]], [0, 0], OWN, "every candidate is right in row 1 .*at least one wrong candidate"),
        ([], [], OWN, "there are no scores"),
        ([[1, 2], 1], [0, 0], OWN, r"shape \(\) in row 1 .*flat list"),
        ([[1, 2], ["a"]], [0, 0], OWN, "scores of row 1 cannot be read as numbers"),
        (TRIPLES, [0, 0], OWN, "got right candidates for 2 rows, but scores for 3; pass them for each row"),
        (TRIPLES, 0, OWN, "are 0; pass a list or array"),
        (TRIPLES, [0, [], 0], OWN, r"no candidate is right in row 1 \(1 of 3 rows"),
        (TRIPLES, [0, 0, 3], OWN, "is 3 in row 2 .*from 0, below the row's number of candidates, here 3"),
        (TRIPLES, [[0, -1], 0, 0], OWN, "is -1 in row 0 "),
        (TRIPLES, [0, None, 0], OWN, "is nan in row 1 "),
        (TRIPLES, [0, 0.5, 0], OWN, r"is 0\.5 in row 1 "),
        (TRIPLES, [0, [1, 0, 1], 0], OWN, "comes twice in row 1 .*name each of them once"),
        (TRIPLES, [0, [True, False, False], 0], OWN, "booleans in row 1 .*not a mask"),
        (TRIPLES, [0, [[1], [1, 2]], 0], OWN, "cannot be read .*a whole number or a list for each row"),
    ],
)
def test_a_set_that_is_invalid_is_rejected(scores, right, options, message):
    with pytest.raises(ScoresError, match=message):
        retrieval_recall(scores, right, **options)
