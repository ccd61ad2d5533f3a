"""Contextual phrase detection AP: on TRICD's annotations, against loops, and as a user of `evaluate` calls it."""

from __future__ import annotations

import functools
import statistics

import numpy as np
import pytest
from box_rows import HERE, NO_TRUTH, NOTHING, THERE, boxes_of, precisions_by_hand, row_outcomes, truth_of
from hypothesis import given
from hypothesis import strategies as st
from intervals import expanded_tails

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.cpd import cpd_ap
from vl_assay.metrics.modules.discovery import load_metric

SCORES = ("ap", "ap50", "ap75", "ap_positives")
QUICK = {"subsamples": 0, "box_format": "xyxy"}


PREDICTIONS = [boxes_of((HERE, 0.9, 1)), boxes_of((THERE, 0.8, 1)), boxes_of((HERE, 0.7, 2)), NOTHING]
REFERENCES = [truth_of((HERE, 1)), NO_TRUTH, truth_of((HERE, 2)), NO_TRUTH]


def test_perfect_predictions_score_one_everywhere_and_none_or_those_on_distractors_zero(tricd):
    inputs = {"references": tricd.references, "categories": tricd.types, "subsamples": 10}
    result = cpd_ap(tricd.perfect, **inputs)
    parts = {"relation": (120, 232), "object": (84, 83)}
    assert (result["n"], result["n_positive"], result["n_boxes"], result["tie_rate"]) == (204, 102, 315, 0)
    assert {name: (part["n"], part["n_boxes"]) for name, part in result["per_category"].items()} == parts
    for part in (result, *result["per_category"].values()):
        assert [part[score] for score in SCORES] == [1.0] * 4
    assert {result[f"{score}_subsample_std"] for score in SCORES} == {0.0}
    for predictions in ([NOTHING] * 204, tricd.on_distractors()):
        result = cpd_ap(predictions, **inputs)
        assert [result[score] for score in SCORES] == [0.0] * 4
        assert (result["ap_subsample_std"], result["tie_rate"], result["n_boxes"]) == (0.0, 0.0, 315)


def test_perfect_boxes_on_distractors_too_halve_it(tricd):
    predictions, references = tricd.on_both(), tricd.references
    assert sum(len(row["boxes"]) for row in predictions) == 630
    result = load_metric("cpd_ap").compute(predictions=predictions, references=references, subsamples=0)
    # 315 matches among 630 boxes of one confidence: precision 1/2 at every recall.
    assert [result[score] for score in SCORES] == pytest.approx([0.5, 0.5, 0.5, 1.0])
    assert result["tie_rate"] == 1.0
    by_order = cpd_ap(predictions, references, ties="coco", subsamples=0)
    assert by_order["ap"] == pytest.approx(0.56, abs=0.005)  # as the card says


# Overlaps of 1, 0.89, 0.75, 0.5, 0.39, 0 with the first one, and 0.67 among the others.
POOL = (HERE, [0, 0, 4, 4.5], [0, 0, 4, 3], [0, 0, 4, 2], [1, 1, 5, 5], THERE)
box, phrase, confidence = st.sampled_from(POOL), st.integers(1, 2), st.sampled_from([0.2, 0.5, 0.8])
found_row = st.lists(st.tuples(box, confidence, phrase), max_size=5).map(lambda found: boxes_of(*found))
# At most 9 truths: no recall then falls between 0.01 i and what floats make of it.
truth_row = st.lists(st.tuples(box, phrase), max_size=3).map(lambda given: truth_of(*given))
row_lists = st.lists(st.tuples(found_row, truth_row), min_size=1, max_size=3)
small_sets = row_lists.filter(lambda rows: any(truth["boxes"] for _, truth in rows))


def naive_scores(rows, ties="wrong", max_boxes=100):
    everything = precisions_by_hand(*sides(rows), ties, max_boxes)
    positives = precisions_by_hand(*sides([row for row in rows if row[1]["boxes"]]), ties, max_boxes)
    found = (statistics.fmean(everything), everything[0], everything[5], statistics.fmean(positives))
    return dict(zip(SCORES, found, strict=True))


def naive_tie_rate(rows, max_boxes=100):
    boxes = [pair for row in rows for pair in row_outcomes(*row, 0.5, max_boxes)]
    tied = [score for score, _ in boxes if {(score, True), (score, False)} <= set(boxes)]
    return len(tied) / len(boxes) if boxes else 0.0


def sides(rows):
    return [found for found, _ in rows], [truth for _, truth in rows]


@given(rows=small_sets, ties=st.sampled_from(["wrong", "coco"]), max_boxes=st.sampled_from([1, 2, 100]))
def test_it_is_what_loops_say(rows, ties, max_boxes):
    result = cpd_ap(*sides(rows), ties=ties, max_boxes=max_boxes, **QUICK)
    expected = naive_scores(rows, ties, max_boxes)
    assert {score: result[score] for score in SCORES} == pytest.approx(expected, abs=1e-9)
    assert result["tie_rate"] == pytest.approx(naive_tie_rate(rows, max_boxes))
    assert (result["n"], result["n_boxes"]) == (len(rows), sum(len(truth["boxes"]) for _, truth in rows))
    assert result["n_positive"] == sum(bool(truth["boxes"]) for _, truth in rows)


@given(rows=small_sets, other=small_sets)
def test_a_category_scores_what_its_rows_score_by_themselves(rows, other):
    labels = ["one"] * len(rows) + ["two"] * len(other)
    result = cpd_ap(*sides(rows + other), categories=labels, **QUICK)
    for name, part in (("one", rows), ("two", other)):
        assert result["per_category"][name] == pytest.approx(
            {**naive_scores(part), "n": len(part), "n_boxes": sum(len(truth["boxes"]) for _, truth in part)}
        )
    overlapping = [["all", label] for label in labels]
    assert cpd_ap(*sides(rows + other), categories=overlapping, **QUICK)["per_category"]["all"] == {
        key: result[key] for key in (*SCORES, "n", "n_boxes")
    }


def test_a_positive_row_can_be_without_ground_truth():
    rows = [
        (boxes_of((HERE, 0.8, 1)), truth_of((HERE, 1))),
        (boxes_of((HERE, 0.9, 1)), NO_TRUTH),
        (boxes_of((HERE, 0.95, 1)), NO_TRUTH),
    ]
    known = cpd_ap(*sides(rows), positive=[True, True, False], **QUICK)
    # The hit comes third of all, second of the two positive rows, first of those with ground truth.
    assert (known["ap"], known["ap_positives"], known["n_positive"]) == (pytest.approx(1 / 3), pytest.approx(0.5), 2)
    guessed = cpd_ap(*sides(rows), **QUICK)
    assert (guessed["ap"], guessed["ap_positives"], guessed["n_positive"]) == (pytest.approx(1 / 3), 1.0, 1)


def many_rows(n, seed=0):
    """Rows of which every other one has ground truth."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in range(n):
        found = [(POOL[rng.integers(6)], round(float(rng.random()), 1), 1) for _ in range(rng.integers(5))]
        given = [(POOL[rng.integers(3)], 1)] * int(row % 2 == 0)
        rows.append((boxes_of(*found), truth_of(*given)))
    return rows


@pytest.mark.parametrize(("n", "size"), [(7, 6), (4, 4)])  # 0.9 n, rounded
def test_the_spread_of_subsets_is_that_of_reduced_inputs(n, size):
    rows = many_rows(n)
    generator = np.random.default_rng(5)
    values = []
    for _ in range(20):
        chosen = generator.choice(n, size, replace=False)
        values.append(naive_scores([rows[row] for row in sorted(chosen)])["ap"])
    result = cpd_ap(*sides(rows), box_format="xyxy", subsamples=20, seed=5)
    if size == n:  # the subsets are the set itself, and say nothing
        assert result["ap_subsample_std"] is None
    else:
        assert result["ap_subsample_std"] == pytest.approx(statistics.stdev(values), abs=1e-12) != 0
    assert cpd_ap(*sides(rows), box_format="xyxy", subsamples=20, seed=6)["n_boxes"] == result["n_boxes"]


def test_intervals_are_those_of_rows_really_repeated():
    rows, clusters = many_rows(9, seed=1), [f"image {row % 3}" for row in range(9)]
    labels = ["odd one" if row in (0, 3, 4) else "other" for row in range(9)]
    result = cpd_ap(*sides(rows), categories=labels, clusters=clusters, confidence=0.8, resamples=100, seed=2, **QUICK)
    groups = [[row for row in range(9) if row % 3 == image] for image in range(3)]
    generator = np.random.default_rng(2)
    values = {name: [] for name in ("all", "odd one", "other")}

    @functools.cache
    def scores_of(name, drawn):
        chosen = [rows[row] for row in drawn if name in ("all", labels[row])]
        has_truth = any(truth["boxes"] for _, truth in chosen)
        return [cpd_ap(*sides(chosen), **QUICK)[score] for score in SCORES] if has_truth else None

    for _ in range(100):
        drawn = sorted(row for group in generator.integers(3, size=3) for row in groups[group])
        for name, scores in values.items():
            scores += filter(None, [scores_of(name, tuple(drawn))])
    assert len(values["odd one"]) < 100  # some resamples have no truth in it, and say nothing of it
    for name, scores in values.items():
        part = result if name == "all" else result["per_category"][name]
        kept = [[row for row in group if name in ("all", labels[row])] for group in groups]
        for place, score in enumerate(SCORES):
            own = [len(group) for group in kept if group]
            expected = np.quantile([value[place] for value in scores], expanded_tails(own, 0.8))
            assert part[f"{score}_interval"] == pytest.approx(expected.tolist(), abs=1e-9)
    assert result["confidence"] == 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"references": [NO_TRUTH] * 4}, "no row of the set has a ground-truth box; .* Add the positive rows"),
        ({"categories": ["a", "b", "a", "b"]}, "no row of the category 'b' has a ground-truth box"),
        ({"positive": [True, False, False, False]}, r"^row 2 \(1 of 4.*positive is false.*Set the flag to true"),
        ({"positive": [True, False, True]}, r"positive has shape \(3,\) for 4 rows; pass true or false for each"),
        ({"positive": [1, 2, 1, None]}, r"positive is 2 in rows 1, 3 \(2 of 4.*pass true or false"),
        ({"subsamples": -1}, "subsamples is -1; it must be a whole number of at least 0"),
        ({"max_boxes": 0}, "max_boxes is 0; it must be a whole number of at least 1"),
    ],
)
def test_what_is_invalid_is_rejected_with_a_remedy(options, message):
    inputs = {"predictions": PREDICTIONS, "references": REFERENCES, "box_format": "xyxy"} | options
    with pytest.raises(ScoresError, match=message):
        cpd_ap(**inputs)


def test_subsets_without_ground_truth_say_nothing():
    # The only positive row is left out of 1 subset in 10; the others all score the same.
    rows = [(boxes_of((HERE, 0.5, 1)), truth_of((HERE, 1)))] + [(NOTHING, NO_TRUTH)] * 9
    generator = np.random.default_rng(0)
    assert 0 < sum(0 not in generator.choice(10, 9, replace=False) for _ in range(100)) < 50
    assert cpd_ap(*sides(rows), box_format="xyxy")["ap_subsample_std"] == 0.0
    assert cpd_ap(*sides(rows), box_format="xyxy", subsamples=1)["ap_subsample_std"] is None
    assert "ap_subsample_std" not in cpd_ap(*sides(rows), box_format="xyxy", subsamples=0)


def test_where_all_resamples_agree_there_is_no_interval():
    rows = [(boxes_of((HERE, 0.5, 1)), truth_of((HERE, 1)))] * 5
    assert cpd_ap(*sides(rows), confidence=0.95, **QUICK)["ap_interval"] is None
