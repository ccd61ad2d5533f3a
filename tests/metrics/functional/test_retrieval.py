"""Retrieval: against sorting written out, by arithmetic, and invalid inputs."""

from __future__ import annotations

import math
import statistics
import tracemalloc

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
    """Credit at each k, rank, and whether a tie decides it, of (score, is right) pairs: sort and look."""

    def first(wrong_first):
        ordered = sorted(candidates, key=lambda pair: (-pair[0], pair[1] == wrong_first))
        return [hit for _, hit in ordered].index(True) + 1

    worst, best = first(True), first(False)
    if ties != "half":
        place = worst if ties == "wrong" else best
        return [float(place <= k) for k in ks], place, worst != best
    level = max(score for score, hit in candidates if hit)
    size = sum(score == level for score, _ in candidates)
    rights = sum(score == level for score, hit in candidates if hit)
    places = [min(max(k - best + 1, 0), size) for k in ks]
    values = [1 - math.comb(size - rights, j) / math.comb(size, j) for j in places]
    return values, best - 1 + (size + 1) / (rights + 1), worst != best


def mean_scores(queries, ks, ties, prefix=""):
    scored = [one_query(candidates, ks, ties) for candidates in queries]
    ranks = [place for _, place, _ in scored]
    return {
        **{f"{prefix}recall_at_{k}": statistics.fmean(values[i] for values, _, _ in scored) for i, k in enumerate(ks)},
        f"{prefix}mean_rank": statistics.fmean(ranks),
        f"{prefix}median_rank": statistics.median(ranks),
        f"{prefix}tie_rate": statistics.fmean(tie for _, _, tie in scored),
    }


def shared_queries(scores, right):
    captions = range(len(scores[0]))
    texts = [[(row[c], c in mine) for c in captions] for row, mine in zip(scores, right, strict=True)]
    asking = [c for c in captions if any(c in mine for mine in right)]
    images = [[(row[c], c in mine) for row, mine in zip(scores, right, strict=True)] for c in asking]
    return texts, images


def shared_by_hand(scores, right, ks=KS, ties="wrong"):
    texts, images = shared_queries(scores, right)
    counts = {"n": len(scores), "n_images": len(scores), "n_captions": len(scores[0])}
    counts["n_captions_without_image"] = len(scores[0]) - len(images)
    return {**mean_scores(texts, ks, ties, "text_"), **mean_scores(images, ks, ties, "image_"), **counts}


@pytest.mark.parametrize("ties", TIES)
@given(case=shared_pools())
def test_a_shared_pool_is_scored_as_sorting_says(ties, case):
    result = retrieval_recall(*case, ks=KS, ties=ties)
    assert result.pop("per_category") == {}
    assert result == pytest.approx(shared_by_hand(*case, ties=ties))


@pytest.mark.parametrize("ties", TIES)
@given(case=own_pools(), data=st.data())
def test_candidate_sets_are_scored_as_sorting_says(ties, case, data):
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
    images, captions = 40, 80
    right = np.arange(captions).reshape(images, 2)
    scores = rng.random((images, captions)) + 0.5 * np.repeat(np.eye(images), 2, axis=1)
    photo = [f"photo {row // 2}" for row in range(images)]
    result = retrieval_recall(scores, right, ks=[1, 5], confidence=0.9, resamples=500, seed=3, clusters=photo)
    own = retrieval_recall(
        scores, right, pool="own", ks=[5], confidence=0.9, resamples=500, seed=3, clusters=photo, categories=photo
    )
    assert (result["confidence"], own["confidence"]) == (0.9, 0.9)
    for k in (1, 5):
        best = np.array([scores[row, right[row]].max() for row in range(images)])
        text = (scores > best[:, None]).sum(axis=1) < k
        image = np.array([(scores[:, c] > scores[c // 2, c]).sum() < k for c in range(captions)])
        caption_photo = [photo[c // 2] for c in range(captions)]
        assert result[f"text_recall_at_{k}_interval"] == list(
            stats.cluster_bootstrap(text, photo, None, 0.9, 500, 3).micro
        )
        assert result[f"image_recall_at_{k}_interval"] == list(
            stats.cluster_bootstrap(image, caption_photo, None, 0.9, 500, 3).micro
        )
    expected = stats.cluster_bootstrap(text, photo, photo, 0.9, 500, 3)
    assert own["recall_at_5_interval"] == list(expected.micro)
    assert {name: tuple(part["recall_at_5_interval"]) for name, part in own["per_category"].items()} == (
        expected.categories
    )
    # Captions of one image are one cluster by default too: they do not count as independent.
    default = retrieval_recall(scores, right, ks=[5], confidence=0.9, resamples=500, seed=3)
    by_image = stats.cluster_bootstrap(image, np.arange(captions) // 2, None, 0.9, 500, 3)
    assert default["image_recall_at_5_interval"] == list(by_image.micro)


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


@pytest.mark.parametrize(
    ("scores", "right", "options", "message"),
    [
        ([[1, 2], [1, 2, 3]], [0, 0], {}, r"row 0 has 2 scores, but another number .* row 1 .*: 3;.*pool=\"own\""),
        ([[1, 2]], [0], {}, r"shape \(1, 2\).*at least two of each"),
        (np.ones((2, 3)), [0, 1], {"categories": "ab"}, r'got categories with pool="shared".*pool="own"'),
        (np.ones((2, 3)), [0, 1], {"ks": []}, r"ks is \[\]; pass a list of whole numbers"),
        (np.ones((2, 3)), [0, 1], {"ks": [2.5]}, "k is 2.5"),
        ([[1, 2], [1]], [0, 0], {"pool": "own"}, "every candidate is right in row 1 .*at least one wrong candidate"),
    ],
)
def test_a_set_that_is_invalid_is_rejected(scores, right, options, message):
    with pytest.raises(ScoresError, match=message):
        retrieval_recall(scores, right, **options)
