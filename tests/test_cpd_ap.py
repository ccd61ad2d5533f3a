"""Contextual phrase detection AP: on TRICD's annotations, against loops, and as a user of `evaluate` calls it."""

from __future__ import annotations

import copy
import doctest
import itertools
import json
import math
import statistics
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics import cpd
from vl_assay.metrics import cpd_ap as folder
from vl_assay.metrics.cpd import cpd_ap
from vl_assay.metrics.errors import ScoresError, UnknownNameError, VLAssayError
from vl_assay.metrics.grounding import group_recall_at_1
from vl_assay.metrics.modules import load_metric

CARD = (Path(next(iter(folder.__path__))) / "README.md").read_text(encoding="utf-8")
SCORES = ("ap", "ap50", "ap75", "ap_positives")
NOTHING = {"boxes": [], "scores": [], "phrase_ids": []}
NO_TRUTH = {"boxes": [], "phrase_ids": []}
QUICK = {"subsamples": 0, "box_format": "xyxy"}


def boxes_of(*found):
    """A row of predictions from (box, score, phrase)."""
    return {
        "boxes": [box for box, _, _ in found],
        "scores": [score for _, score, _ in found],
        "phrase_ids": [phrase for _, _, phrase in found],
    }


def truth_of(*given):
    """A row of references from (box, phrase)."""
    return {"boxes": [box for box, _ in given], "phrase_ids": [phrase for _, phrase in given]}


HERE, THERE = [0, 0, 4, 4], [6, 6, 9, 9]
PREDICTIONS = [boxes_of((HERE, 0.9, 1)), boxes_of((THERE, 0.8, 1)), boxes_of((HERE, 0.7, 2)), NOTHING]
REFERENCES = [truth_of((HERE, 1)), NO_TRUTH, truth_of((HERE, 2)), NO_TRUTH]


# --- TRICD's released annotations -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tricd(shared_data):
    """The images of TRICD val, their references (XYWH), and the same boxes as predictions (XYXY)."""
    path = shared_data / "data" / "tricd" / "TRICD_grounding_val.json"
    released = json.loads(path.read_text(encoding="utf-8"))
    rows = {image["id"]: {"boxes": [], "phrase_ids": []} for image in released["images"]}
    for annotation in released["annotations"]:
        rows[annotation["image_id"]]["boxes"].append(annotation["bbox"])
        rows[annotation["image_id"]]["phrase_ids"].append(annotation["phrase_id"])
    references = list(rows.values())
    perfect = [
        {
            "boxes": [[x, y, x + width, y + height] for x, y, width, height in row["boxes"]],
            "scores": [0.5] * len(row["boxes"]),
            "phrase_ids": list(row["phrase_ids"]),
        }
        for row in references
    ]
    return released["images"], references, perfect


def on_distractors(images, perfect):
    """The boxes of each positive row on its distractor: the row of the same group and caption that is not positive."""
    pairs = [(image["original_id"].split("_")[0], image["caption"]) for image in images]
    source = {pair: row for row, pair in enumerate(pairs) if images[row]["positive"]}
    copies = []
    for row, image in enumerate(images):
        if image["positive"]:
            copies.append(NOTHING)
            continue
        there = {str(spans): int(phrase) for phrase, spans in image["phrases"].items()}
        here = images[source[pairs[row]]]["phrases"]
        found = perfect[source[pairs[row]]]
        copies.append(found | {"phrase_ids": [there[str(here[str(phrase)])] for phrase in found["phrase_ids"]]})
    return copies


def both_of(first, second):
    return [{key: row[key] + other[key] for key in row} for row, other in zip(first, second, strict=True)]


def noisy(images, perfect, seed=0):
    """Boxes near the truth, and near where it would be on distractors, of any confidence."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in both_of(perfect, on_distractors(images, perfect)):
        n = len(row["boxes"])
        boxes = np.array(row["boxes"]) + rng.normal(0, 1, (n, 4)) * rng.choice([1, 10, 40], (n, 1))
        boxes = np.hstack([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])])
        rows.append(row | {"boxes": boxes.tolist(), "scores": rng.random(n).round(2).tolist()})
    return rows


def test_tricd_is_as_the_paper_counts_it(tricd):
    images, references, _ = tricd
    assert (len(images), sum(image["positive"] for image in images)) == (204, 102)
    boxes = Counter()
    for image, row in zip(images, references, strict=True):
        assert image["positive"] == bool(row["boxes"])
        boxes[image["coco_type"]] += len(row["boxes"])
    assert boxes == {"object": 83, "relation": 232}  # Table 7; 83 + 232 = 315
    assert Counter(image["coco_type"] for image in images) == {"object": 84, "relation": 120}


def test_perfect_predictions_score_one_everywhere(tricd):
    images, references, perfect = tricd
    result = load_metric("cpd_ap").compute(
        predictions=perfect, references=references, categories=[image["coco_type"] for image in images]
    )
    assert result == {
        **dict.fromkeys(SCORES, 1.0),
        "ap_subsample_std": 0.0,
        "tie_rate": 0.0,
        "n": 204,
        "n_positive": 102,
        "n_boxes": 315,
        "per_category": {
            "relation": {**dict.fromkeys(SCORES, 1.0), "n": 120, "n_boxes": 232},
            "object": {**dict.fromkeys(SCORES, 1.0), "n": 84, "n_boxes": 83},
        },
    }


def test_no_predictions_and_boxes_on_distractors_alone_score_zero(tricd):
    images, references, perfect = tricd
    for predictions in ([NOTHING] * 204, on_distractors(images, perfect)):
        result = load_metric("cpd_ap").compute(predictions=predictions, references=references, subsamples=10)
        assert [result[score] for score in SCORES] == [0.0] * 4
        assert (result["ap_subsample_std"], result["tie_rate"], result["n_boxes"]) == (0.0, 0.0, 315)


def test_perfect_boxes_on_distractors_too_halve_it(tricd):
    images, references, perfect = tricd
    predictions = both_of(perfect, on_distractors(images, perfect))
    assert sum(len(row["boxes"]) for row in predictions) == 630
    result = load_metric("cpd_ap").compute(predictions=predictions, references=references, subsamples=0)
    # 315 matches among 630 boxes of one confidence: precision 1/2 at every recall.
    assert [result[score] for score in SCORES] == pytest.approx([0.5, 0.5, 0.5, 1.0])
    assert result["tie_rate"] == 1.0
    by_order = cpd_ap(predictions, references, ties="coco", subsamples=0)
    assert by_order["ap"] == pytest.approx(0.56, abs=0.005)  # as the card says


def test_group_recall_computed_first_leaves_ap_alone(tricd):
    images, references, perfect = tricd
    predictions = noisy(images, perfect)
    before = copy.deepcopy((predictions, references))
    expected = load_metric("cpd_ap").compute(predictions=predictions, references=references, subsamples=5)
    group_recall_at_1(
        predictions,
        references,
        pair_ids=[f"{image['original_id'].split('_')[0]} {image['caption']}" for image in images],
        positive=[image["positive"] for image in images],
        phrase_keys=[image["phrases"] for image in images],
    )
    assert load_metric("cpd_ap").compute(predictions=predictions, references=references, subsamples=5) == expected
    assert (predictions, references) == before
    assert 0.05 < expected["ap"] < expected["ap_positives"] < 0.95


# --- against loops --------------------------------------------------------------------------------------------

# Overlaps of 1, 0.89, 0.75, 0.5, 0.39, 0 with the first one, and 0.67 among the others.
POOL = (HERE, [0, 0, 4, 4.5], [0, 0, 4, 3], [0, 0, 4, 2], [1, 1, 5, 5], THERE)
box, phrase, confidence = st.sampled_from(POOL), st.integers(1, 2), st.sampled_from([0.2, 0.5, 0.8])
found_row = st.lists(st.tuples(box, confidence, phrase), max_size=5).map(lambda found: boxes_of(*found))
# At most 9 truths: no recall then falls between 0.01 i and what floats make of it.
truth_row = st.lists(st.tuples(box, phrase), max_size=3).map(lambda given: truth_of(*given))
row_lists = st.lists(st.tuples(found_row, truth_row), min_size=1, max_size=3)
small_sets = row_lists.filter(lambda rows: any(truth["boxes"] for _, truth in rows))


def overlap(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)]
    return width * height / (sum(areas) - width * height)


def worst_first(found, truth, place):
    """What orders boxes of one confidence: their overlap with the truth, if it may count, then what they are."""
    overlaps = [
        overlap(found["boxes"][place], box)
        for box, phrase in zip(truth["boxes"], truth["phrase_ids"], strict=True)
        if phrase == found["phrase_ids"][place]
    ]
    best = max((value for value in overlaps if value >= 0.5), default=0)
    return best, found["phrase_ids"][place], tuple(reversed(found["boxes"][place]))


def outcomes(rows, threshold, max_boxes=100, ties="wrong"):
    """(confidence, matched) of each box that counts, row by row and in a row by confidence."""
    result = []
    for found, truth in rows:
        places = list(range(len(found["boxes"])))
        if ties == "wrong":
            places.sort(key=lambda place: worst_first(found, truth, place))
        places = sorted(places, key=lambda place: -found["scores"][place])[:max_boxes]
        free = set(range(len(truth["boxes"])))
        for place in places:
            close = [
                (overlap(found["boxes"][place], truth["boxes"][number]), number)
                for number in free
                if truth["phrase_ids"][number] == found["phrase_ids"][place]
            ]
            best = max(close, default=(0, None))
            if matched := best[0] >= threshold:
                free.remove(best[1])
            result.append((found["scores"][place], matched))
    return result


def naive_ap(rows, threshold, ties="wrong", max_boxes=100):
    positives = sum(len(truth["boxes"]) for _, truth in rows)
    ordered = sorted(outcomes(rows, threshold, max_boxes, ties), key=lambda pair: -pair[0])
    cuts = range(1, len(ordered) + 1)
    if ties == "wrong":
        cuts = [cut for cut in cuts if cut == len(ordered) or ordered[cut][0] != ordered[cut - 1][0]]
    hits = [sum(matched for _, matched in ordered[:cut]) for cut in cuts]
    points = [(Fraction(hit, positives), Fraction(hit, cut)) for hit, cut in zip(hits, cuts, strict=True)]
    best = [max((p for r, p in points if r >= Fraction(i, 100)), default=Fraction(0)) for i in range(101)]
    return float(sum(best) / 101)


def naive_scores(rows, ties="wrong", max_boxes=100):
    by_threshold = [naive_ap(rows, 0.5 + 0.05 * step, ties, max_boxes) for step in range(10)]
    positives = [(found, truth) for found, truth in rows if truth["boxes"]]
    return {
        "ap": statistics.fmean(by_threshold),
        "ap50": by_threshold[0],
        "ap75": by_threshold[5],
        "ap_positives": statistics.fmean(naive_ap(positives, 0.5 + 0.05 * k, ties, max_boxes) for k in range(10)),
    }


def naive_tie_rate(rows, max_boxes=100):
    boxes = outcomes(rows, 0.5, max_boxes)
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


@given(rows=small_sets, seed=st.integers(0, 99), max_boxes=st.sampled_from([1, 2, 100]))
def test_the_order_of_boxes_in_a_row_does_not_matter(rows, seed, max_boxes):
    rng = np.random.default_rng(seed)
    shuffled = []
    for found, truth in rows:
        order = rng.permutation(len(found["boxes"]))
        shuffled.append(({key: [values[place] for place in order] for key, values in found.items()}, truth))
    assert cpd_ap(*sides(shuffled), max_boxes=max_boxes, **QUICK) == cpd_ap(*sides(rows), max_boxes=max_boxes, **QUICK)


def test_a_tie_within_a_row_wins_nothing():
    # The loose box overlaps the first truth by 80 / 120 and the second by 70 / 130; going first, it takes the first
    # one, and the tight box finds none: recall 1/2, so 51 of 101 points, at precision 1, or 1/2 where the tie is wrong.
    truth = truth_of(([0, 0, 10, 10], 0), ([0, 5, 10, 15], 0))
    tight, loose = ([0, 0, 10, 10], 0.5, 0), ([0, 2, 10, 12], 0.5, 0)
    for found in (boxes_of(tight, loose), boxes_of(loose, tight)):
        assert cpd_ap([found], [truth], **QUICK)["ap50"] == pytest.approx(51 / 101 / 2)
    for found, expected in ((boxes_of(tight, loose), 1.0), (boxes_of(loose, tight), 51 / 101)):
        assert cpd_ap([found], [truth], ties="coco", **QUICK)["ap50"] == pytest.approx(expected)


@given(rows=small_sets, fixed=confidence)
def test_a_constant_gets_its_share_of_matches_up_to_its_recall(rows, fixed):
    rows = [(found | {"scores": [fixed] * len(found["scores"])}, truth) for found, truth in rows]
    boxes = outcomes(rows, 0.5)
    hits, positives = sum(matched for _, matched in boxes), sum(len(truth["boxes"]) for _, truth in rows)
    reached = math.floor(100 * Fraction(hits, positives)) + 1 if hits else 0
    expected = hits / len(boxes) * reached / 101 if boxes else 0.0
    assert cpd_ap(*sides(rows), **QUICK)["ap50"] == pytest.approx(expected)


# --- by arithmetic, and every option --------------------------------------------------------------------------


def test_results_by_arithmetic():
    result = load_metric("cpd_ap").compute(
        predictions=PREDICTIONS,
        references=REFERENCES,
        box_format="xyxy",
        categories=["relation", "relation", "object", "object"],
        subsamples=0,
    )
    # hit, miss, hit of 2 truths: precision 1 up to recall 1/2 (51 points), 2/3 at the other 50.
    pooled = (51 + 50 * 2 / 3) / 101
    perfect = {**dict.fromkeys(SCORES, 1.0), "n": 2, "n_boxes": 1}  # the miss of "relation" comes after its hit
    assert result == {
        **dict.fromkeys(("ap", "ap50", "ap75"), pytest.approx(pooled)),
        "ap_positives": 1.0,
        "ap_subsample_std": None,
        "tie_rate": 0.0,
        "n": 4,
        "n_positive": 2,
        "n_boxes": 2,
        "per_category": {"relation": perfect, "object": perfect},
    }


def test_a_box_of_another_phrase_is_a_miss_that_all_phrases_feel():
    rows = [(boxes_of((HERE, 0.9, 2), (HERE, 0.8, 1)), truth_of((HERE, 1)))]
    assert cpd_ap(*sides(rows), **QUICK)["ap"] == pytest.approx(0.5)  # a miss, then the only hit: precision 1/2


@pytest.mark.parametrize(
    ("height", "expected"),
    [
        (3, [0.6, 1, 1, 0.6]),  # an IoU of 12/16 = 0.75 suffices at 0.50, 0.55 … 0.75, six of ten thresholds
        (2.9, [0.5, 1, 0, 0.5]),  # 11.6/16 = 0.725, at five
        (1.9, [0, 0, 0, 0]),
    ],
)
def test_ap_at_one_threshold_and_over_all(height, expected):
    rows = [(boxes_of(([0, 0, 4, height], 0.9, 1)), truth_of((HERE, 1)))]
    result = cpd_ap(*sides(rows), **QUICK)
    assert [result[score] for score in SCORES] == pytest.approx(expected)


def test_of_each_row_only_the_surest_boxes_count():
    rows = [(boxes_of((THERE, 0.9, 1), (HERE, 0.8, 1)), truth_of((HERE, 1)))]
    assert cpd_ap(*sides(rows), max_boxes=1, **QUICK)["ap"] == 0.0
    assert cpd_ap(*sides(rows), max_boxes=2, **QUICK)["ap"] == pytest.approx(0.5)
    crowded = [(boxes_of(*[(THERE, 0.9, 1)] * 100, (HERE, 0.8, 1)), truth_of((HERE, 1)))]
    assert cpd_ap(*sides(crowded), **QUICK)["ap"] == 0.0
    assert cpd_ap(*sides(crowded), max_boxes=101, **QUICK)["ap"] == pytest.approx(1 / 101)


def test_the_order_of_rows_decides_ties_only_where_asked():
    rows = [(boxes_of((HERE, 0.5, 1)), truth_of((HERE, 1))), (boxes_of((THERE, 0.5, 1)), NO_TRUTH)]
    for order in (rows, rows[::-1]):
        assert cpd_ap(*sides(order), **QUICK)["ap"] == pytest.approx(0.5)
    assert cpd_ap(*sides(rows), ties="coco", **QUICK)["ap"] == 1.0
    assert cpd_ap(*sides(rows[::-1]), ties="coco", **QUICK)["ap"] == pytest.approx(0.5)


@pytest.mark.parametrize("flags", [[True, True, False], [1.0, 1.0, 0.0], np.array([1, 1, 0], dtype=bool)])
def test_a_positive_row_can_be_without_ground_truth(flags):
    rows = [
        (boxes_of((HERE, 0.8, 1)), truth_of((HERE, 1))),
        (boxes_of((HERE, 0.9, 1)), NO_TRUTH),
        (boxes_of((HERE, 0.95, 1)), NO_TRUTH),
    ]
    known = cpd_ap(*sides(rows), positive=flags, **QUICK)
    # The hit comes third of all, second of the two positive rows, first of those with ground truth.
    assert (known["ap"], known["ap_positives"], known["n_positive"]) == (pytest.approx(1 / 3), pytest.approx(0.5), 2)
    guessed = cpd_ap(*sides(rows), **QUICK)
    assert (guessed["ap"], guessed["ap_positives"], guessed["n_positive"]) == (pytest.approx(1 / 3), 1.0, 1)


def as_xywh(rows):
    return [row | {"boxes": [[x, y, right - x, low - y] for x, y, right, low in row["boxes"]]} for row in rows]


@given(rows=small_sets)
def test_the_same_boxes_in_any_declared_format_score_the_same(rows):
    found, truth = sides(rows)
    expected = cpd_ap(found, truth, box_format="xyxy", subsamples=0)
    formats = {"xyxy": lambda side: side, "xywh": as_xywh}
    for first, second in itertools.product(formats, formats):
        declared = {"predictions": first, "references": second}
        assert cpd_ap(formats[first](found), formats[second](truth), box_format=declared, subsamples=0) == expected
    assert cpd_ap(as_xywh(found), as_xywh(truth), box_format="xywh", subsamples=0) == expected
    assert cpd_ap(found, as_xywh(truth), subsamples=0) == expected  # the default, as in the released files


def test_a_wrong_declaration_is_refused_where_it_shows(tricd):
    _, references, perfect = tricd
    with pytest.raises(
        ScoresError, match=r"x2 must not be below x1.*pass 'xywh' for .*references break this in rows 0"
    ):
        cpd_ap(perfect, references, box_format="xyxy")


def test_the_module_and_the_plain_function_agree(tricd):
    images, references, perfect = tricd
    inputs = {"predictions": noisy(images, perfect, seed=1), "references": references}
    options = {
        "box_format": {"predictions": "xyxy", "references": "xywh"},
        "ties": "coco",
        "max_boxes": 3,
        "positive": [image["positive"] for image in images],
        "subsamples": 7,
        "categories": [image["coco_type"] for image in images],
        "confidence": 0.8,
        "clusters": [image["file_name"] for image in images],
        "resamples": 100,
        "seed": 3,
    }
    module = load_metric("cpd_ap")
    expected = cpd_ap(**inputs, **options)
    assert module.compute(**inputs, **options) == expected
    for part in (slice(0, 100), slice(100, None)):
        module.add_batch(**{side: rows[part] for side, rows in inputs.items()})
    assert module.compute(**options) == expected
    assert json.loads(json.dumps(expected, allow_nan=False)) == expected


# --- subsets and intervals ------------------------------------------------------------------------------------


def many_rows(n, seed=0):
    """Rows of which every other one has ground truth."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in range(n):
        found = [(POOL[rng.integers(6)], round(float(rng.random()), 1), 1) for _ in range(rng.integers(5))]
        given = [(POOL[rng.integers(3)], 1)] * int(row % 2 == 0)
        rows.append((boxes_of(*found), truth_of(*given)))
    return rows


@pytest.mark.parametrize(("n", "size"), [(30, 27), (7, 6), (4, 4)])  # 0.9 n, rounded
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


def test_subsets_without_ground_truth_say_nothing():
    # The only positive row is left out of 1 subset in 10; the others all score the same.
    rows = [(boxes_of((HERE, 0.5, 1)), truth_of((HERE, 1)))] + [(NOTHING, NO_TRUTH)] * 9
    generator = np.random.default_rng(0)
    assert 0 < sum(0 not in generator.choice(10, 9, replace=False) for _ in range(100)) < 50
    assert cpd_ap(*sides(rows), box_format="xyxy")["ap_subsample_std"] == 0.0
    for subsamples in (0, 1):
        assert cpd_ap(*sides(rows), box_format="xyxy", subsamples=subsamples)["ap_subsample_std"] is None


def test_the_seed_chooses_the_subsets():
    rows = many_rows(30)
    spreads = [cpd_ap(*sides(rows), box_format="xyxy", seed=seed)["ap_subsample_std"] for seed in (0, 0, 1)]
    assert spreads[0] == spreads[1] != spreads[2]


@pytest.mark.parametrize("clusters", [None, [f"image {row % 5}" for row in range(12)]], ids=["rows", "images"])
def test_intervals_are_those_of_rows_really_repeated(clusters):
    rows = many_rows(12, seed=1)
    labels = ["odd one" if row in (0, 3, 4) else "other" for row in range(12)]
    result = cpd_ap(*sides(rows), categories=labels, clusters=clusters, confidence=0.8, resamples=100, seed=2, **QUICK)
    images = 12 if clusters is None else 5
    groups = [[row for row in range(12) if row % images == image] for image in range(images)]
    generator = np.random.default_rng(2)
    values = {name: [] for name in ("all", "odd one", "other")}
    for _ in range(100):
        drawn = [row for group in generator.integers(len(groups), size=len(groups)) for row in groups[group]]
        for name, scores in values.items():
            chosen = [rows[row] for row in drawn if name in ("all", labels[row])]
            if any(truth["boxes"] for _, truth in chosen):
                scores.append([cpd_ap(*sides(chosen), **QUICK)[score] for score in SCORES])
    assert len(values["odd one"]) < 100  # some resamples have no truth in it, and say nothing of it
    for name, scores in values.items():
        part = result if name == "all" else result["per_category"][name]
        for place, score in enumerate(SCORES):
            expected = np.quantile([value[place] for value in scores], [0.1, 0.9])
            assert part[f"{score}_interval"] == pytest.approx(expected.tolist(), abs=1e-9)
    assert result["confidence"] == 0.8


def test_every_option_reaches_the_intervals():
    rows = many_rows(40)
    plain = {"clusters": [row // 4 for row in range(40)], "confidence": 0.9, "resamples": 100, "seed": 0, **QUICK}
    expected = cpd_ap(*sides(rows), **plain)
    assert expected["ap_interval"][0] < expected["ap"] < expected["ap_interval"][1]
    for change in ({"clusters": None}, {"confidence": 0.5}, {"resamples": 101}, {"seed": 1}):
        assert cpd_ap(*sides(rows), **{**plain, **change})["ap_interval"] != expected["ap_interval"]
    without = cpd_ap(*sides(rows), **{**plain, "confidence": None})
    assert not any("interval" in key or key == "confidence" for key in without)


def test_where_all_resamples_agree_there_is_no_interval():
    rows = [(boxes_of((HERE, 0.5, 1)), truth_of((HERE, 1)))] * 5
    assert cpd_ap(*sides(rows), confidence=0.95, **QUICK)["ap_interval"] is None


def test_the_spread_of_subsets_is_about_a_third_of_that_of_resamples(tricd):
    images, references, perfect = tricd
    result = cpd_ap(noisy(images, perfect), references, confidence=0.6827, resamples=300, subsamples=300)
    low, high = result["ap_interval"]
    # sqrt(0.1 / 0.9) = 1/3 for a mean, which AP is not quite; half of a 68 % interval is one standard error.
    assert result["ap_subsample_std"] / ((high - low) / 2) == pytest.approx(1 / 3, abs=0.1)


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"references": [NO_TRUTH] * 4}, "no row of the set has a ground-truth box; .* Add the positive rows"),
        ({"categories": ["a", "b", "a", "b"]}, "no row of the category 'b' has a ground-truth box"),
        ({"categories": ["a"] * 3}, "3 categories came for 4 examples; pass a list with one label per example"),
        ({"categories": ["a", None, "a", "a"]}, r"categories are missing in row 1 \(1 of 4"),
        ({"clusters": ["a"] * 5, "confidence": 0.9}, "5 clusters came for 4 examples"),
        ({"clusters": ["a"] * 5}, "5 clusters came for 4 examples"),
        ({"positive": [True, False, False, False]}, r"^row 2 \(1 of 4.*positive is false.*Set the flag to true"),
        ({"positive": [True, False, True]}, r"positive has shape \(3,\) for 4 rows; pass true or false for each"),
        ({"positive": [1, 2, 1, None]}, r"positive is 2 in rows 1, 3 \(2 of 4.*pass true or false"),
        ({"positive": "yes"}, "flags in positive cannot be read"),
        ({"subsamples": -1}, "subsamples is -1; it must be a whole number, 0 for none"),
        ({"subsamples": 2.5}, "subsamples is 2.5"),
        ({"max_boxes": 0}, "max_boxes is 0; it must be a whole number of at least 1"),
        ({"confidence": 95}, "confidence is 95; it must lie strictly between 0 and 1"),
        ({"confidence": 0.9, "resamples": 99}, "resamples is 99; it must be a whole number of at least 100"),
        ({"seed": -1}, "seed is -1"),
        ({"predictions": PREDICTIONS[:3]}, "3 rows of predictions came for 4 rows of references"),
        ({"box_format": "xywh"}, None),
        ({"box_format": ["xyxy"]}, "pass 'xyxy' or 'xywh', or a mapping"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_its_cure(options, message):
    inputs = {"predictions": PREDICTIONS, "references": REFERENCES, "box_format": "xyxy"} | options
    if message is None:
        assert cpd_ap(**inputs)["n"] == 4  # no box shows that this declaration is wrong
        return
    with pytest.raises(ScoresError, match=message):
        cpd_ap(**inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ties": "half"}, "unknown tie policy 'half'; known: wrong, coco"),
        ({"box_format": "cxcywh"}, "unknown box format 'cxcywh'; known: xyxy, xywh"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(options, message):
    with pytest.raises(UnknownNameError, match=message):
        load_metric("cpd_ap").compute(predictions=PREDICTIONS, references=REFERENCES, **options)


def test_through_evaluate_too_a_bad_box_is_named():
    broken = [*PREDICTIONS[:2], boxes_of((HERE, 0.5, 2), ([4, 0, 2, 2], 0.4, 2)), NOTHING]
    with pytest.raises(ScoresError, match=r"pass 'xywh'.*predictions break this in row 2 .*first in box 1 of row 2"):
        load_metric("cpd_ap").compute(predictions=broken, references=REFERENCES)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda values: st.lists(values, max_size=5) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=6,
)


@given(option=st.sampled_from(["positive", "subsamples", "max_boxes", "ties", "box_format", "seed"]), value=junk)
def test_junk_is_used_or_refused_with_an_error_of_ours(option, value):
    if option == "subsamples" and isinstance(value, int):
        value = min(value, 3)
    try:
        result = cpd_ap(PREDICTIONS, REFERENCES, **{**QUICK, option: value})
    except VLAssayError:
        return
    assert 0 <= result["ap"] <= 1


def test_the_examples_in_the_documentation_run():
    outcome = doctest.testmod(cpd)
    assert (outcome.failed, outcome.attempted > 0) == (0, True)


# --- the paper ------------------------------------------------------------------------------------------------


def printed(paper, caption):
    """The rows of the paper's table that ends before its caption: numbers by model."""
    rows = {}
    for line in reversed(paper.split(caption)[0].splitlines()):
        name, *cells = line.split("\t")
        if name == "Model":
            return rows
        if name and cells[:1] != [""] and cells:
            rows[name.upper()] = cells
    raise AssertionError(caption)


def quoted(card, suffix=""):
    """The rows of the card's table of models: cells by model."""
    lines = [line.strip("| ").split(" | ") for line in card.split("## Reference values")[1].splitlines() if "|" in line]
    return {name.removesuffix(suffix).upper(): cells for name, *cells in lines if name.endswith(suffix)}


@pytest.fixture(scope="module")
def paper(shared_data):
    (path,) = (shared_data / "papers").glob("002_*.txt")
    return path.read_text(encoding="utf-8")


def test_the_card_quotes_the_paper(paper):
    test_set = printed(paper, "Table 3. Average Precision")
    validation = printed(paper, "Table 8. Average Precision")
    assert len(test_set) == len(validation) == 6
    card = quoted(CARD)
    assert {model: card[model] for model in test_set} == test_set
    card = quoted(CARD, ", validation set")
    assert {model: card[model] for model in validation} == validation


def test_all_is_one_curve_and_no_average_of_the_splits(paper):
    outside = []
    for model, cells in printed(paper, "Table 8. Average Precision").items():
        *splits, everything = map(float, cells)
        outside += [model] * (not min(splits) <= everything <= max(splits))
    assert sorted(outside, reverse=True) == ["GLIP-T", "GLIP-L"]  # 21.4 of 22.8 and 22.6; 26.0 of 30.2 and 26.3


def test_all_models_lie_further_apart_than_the_spread_of_subsets(paper):
    everything = sorted(float(cells[-1]) for cells in printed(paper, "Table 3. Average Precision").values())
    assert min(high - low for low, high in itertools.pairwise(everything)) > 0.5
    assert "around 0.5 AP" in paper
