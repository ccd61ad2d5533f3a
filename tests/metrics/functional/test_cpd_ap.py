"""Contextual phrase detection AP: on TRICD's annotations, against loops, pycocotools and rows really repeated."""

import contextlib
import functools
import io
import statistics

import numpy as np
import pytest
from box_rows import HERE, NO_TRUTH, NOTHING, THERE, boxes_of, precisions_by_hand, row_outcomes, truth_of
from intervals import expanded_tails
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

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


def draw_rows(rng, rows=4, boxes=7, truths=4, phrases=3, size=5):
    """Rows of boxes on a coarse grid, so that overlaps, scores and whole boxes are often equal."""

    def corners(n):
        low = rng.integers(0, size, (n, 2))
        return np.hstack([low, low + rng.integers(0, size, (n, 2))]).tolist()

    drawn = []
    for _ in range(rng.integers(1, rows + 1)):
        given, found = rng.integers(0, truths + 1), rng.integers(0, boxes + 1)
        truth = {"boxes": corners(given), "phrase_ids": rng.integers(0, phrases, given).tolist()}
        prediction = {
            "boxes": corners(found),
            "scores": (rng.integers(0, 4, found) / 8).tolist(),
            "phrase_ids": rng.integers(0, phrases, found).tolist(),
        }
        for place in range(found):
            if given and rng.random() < 0.6:
                chosen = rng.integers(given)
                prediction["boxes"][place] = list(truth["boxes"][chosen])
                prediction["boxes"][place][2] += int(rng.integers(0, 2))
                prediction["phrase_ids"][place] = truth["phrase_ids"][chosen]
        drawn.append((prediction, truth))
    return drawn


def draw_sets(seed, count, **options):
    """So many sets of rows with some ground truth."""
    rng = np.random.default_rng(seed)
    drawn = (draw_rows(rng, **options) for _ in range(2 * count))
    return [rows for rows in drawn if any(truth["boxes"] for _, truth in rows)][:count]


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


@pytest.mark.parametrize("max_boxes", [3, 100])
def test_it_is_what_loops_say(max_boxes):
    distinct = split_by_ties = 0
    for rows in draw_sets(max_boxes, 40):
        expected = {ties: naive_scores(rows, ties, max_boxes) for ties in ("coco", "wrong")}
        for ties, wanted in expected.items():
            result = cpd_ap(*sides(rows), ties=ties, max_boxes=max_boxes, **QUICK)
            assert {score: result[score] for score in SCORES} == pytest.approx(wanted, abs=1e-9)
        assert result["tie_rate"] == pytest.approx(naive_tie_rate(rows, max_boxes))
        assert (result["n"], result["n_boxes"]) == (len(rows), sum(len(truth["boxes"]) for _, truth in rows))
        assert result["n_positive"] == sum(bool(truth["boxes"]) for _, truth in rows)
        distinct += len(set(expected["coco"].values())) > 2
        split_by_ties += expected["wrong"]["ap50"] < expected["coco"]["ap50"]
    # The sets are of every kind: with overlaps between the thresholds, decided by ties.
    assert min(distinct, split_by_ties) > 5


def scores_of_pycocotools(rows):
    """The first three numbers of its summary; each row is an image with one phrase."""

    def index(side, **extra):
        boxes = [(row, place, box) for row, found in enumerate(side) for place, box in enumerate(found["boxes"])]
        coco = COCO()
        coco.dataset = {
            "images": [{"id": row} for row in range(len(side))],
            "categories": [{"id": 1}],
            "annotations": [
                {
                    "id": number,
                    "image_id": row,
                    "category_id": 1,
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": (x2 - x1) * (y2 - y1),
                    "iscrowd": 0,
                    **{key: side[row][name][place] for key, name in extra.items()},
                }
                for number, (row, place, (x1, y1, x2, y2)) in enumerate(boxes, start=1)
            ],
        }
        coco.createIndex()
        return coco

    predictions, references = sides(rows)
    with contextlib.redirect_stdout(io.StringIO()):
        evaluator = COCOeval(index(references), index(predictions, score="scores"), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return evaluator.stats[:3].tolist()


@pytest.mark.parametrize(
    ("count", "options"),
    [(15, {}), (2, {"boxes": 250, "truths": 12, "size": 8}), (5, {"rows": 20})],
    ids=["tied", "more than 100 boxes", "many rows"],
)
def test_one_phrase_a_row_is_what_pycocotools_computes(count, options):
    for rows in draw_sets(count, count, phrases=1, **options):
        result = cpd_ap(*sides(rows), ties="coco", **QUICK)
        assert [result[score] for score in SCORES[:3]] == pytest.approx(scores_of_pycocotools(rows), abs=1e-9)


def test_a_threshold_is_reached_by_equality():
    # 8 / 10, 5 / 10 and 4 / 10 of the truth: 7, 1 and none of the thresholds 0.5, 0.55, … 0.95.
    for width, reached in ((8, 7), (5, 1), (4, 0)):
        result = cpd_ap([boxes_of(([0, 0, width, 1], 1, 0))], [truth_of(([0, 0, 10, 1], 0))], **QUICK)
        assert result["ap"] == pytest.approx(reached / 10)


def test_a_category_scores_what_its_rows_score_by_themselves():
    for rows, other in zip(draw_sets(1, 8), draw_sets(2, 8), strict=True):
        labels = [["all", "one"]] * len(rows) + [["all", "two"]] * len(other)
        result = cpd_ap(*sides(rows + other), categories=labels, **QUICK)
        for name, part in (("one", rows), ("two", other), ("all", rows + other)):
            assert result["per_category"][name] == pytest.approx(
                {**naive_scores(part), "n": len(part), "n_boxes": sum(len(truth["boxes"]) for _, truth in part)}
            )


def test_pairs_beyond_one_chunk_are_matched_alike():
    # 30 rows of 100 boxes and 100 truths are 300,000 pairs; a chunk has 2**18.
    rng = np.random.default_rng(6)
    corners = rng.integers(0, 6, (2, 30, 100, 2))
    boxes = np.concatenate([corners, corners + rng.integers(1, 5, corners.shape)], axis=3).tolist()
    rows = [
        (
            {"boxes": found, "scores": rng.random(100).tolist(), "phrase_ids": [0] * 100},
            truth_of(*((box, 0) for box in given)),
        )
        for found, given in zip(*boxes, strict=True)
    ]
    parts = cpd_ap(*sides(rows), categories=list(range(30)), **QUICK)["per_category"]
    for row, part in zip(rows, parts.values(), strict=True):
        alone = cpd_ap(*sides([row]), **QUICK)
        assert part == {key: alone[key] for key in part}


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


POOL = (HERE, [0, 0, 4, 4.5], [0, 0, 4, 3], [0, 0, 4, 2], [1, 1, 5, 5], THERE)


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
    assert cpd_ap(*sides(rows), confidence=0.95, resamples=100, **QUICK)["ap_interval"] is None
