"""Grounding recall and Group-Recall@1: on TRICD's annotations, against loops, and through `evaluate`."""

import itertools
import statistics

import numpy as np
import pytest
from box_rows import HERE, NO_TRUTH, NOTHING, THERE, boxes_of, iou_by_hand, truth_of
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.metrics.common.errors import ScoresError
from vl_assay.metrics.functional.grounding import grounding_recall, group_recall_at_1
from vl_assay.metrics.modules.discovery import load_metric

TIES = ("wrong", "half", "right")
XYXY = {"box_format": "xyxy"}


@pytest.mark.parametrize("name", ["grounding_recall", "group_recall_at_1"])
def test_perfect_predictions_have_every_recall(name, tricd):
    inputs = {"predictions": tricd.perfect, "references": tricd.references, "categories": tricd.types}
    result = load_metric(name).compute(**inputs, **(tricd.pairs if "group" in name else {}))
    parts = result["per_category"]
    # 43 phrases in 42 rows about objects, 123 in 60 rows about relations.
    assert (result["n"], parts["relation"]["n"], parts["object"]["n"]) == (166, 123, 43)
    assert result["n_positive" if "n_positive" in result else "n_pairs"] == 102
    for part in (result, *parts.values()):
        assert {value for key, value in part.items() if "recall" in key} == {1.0}
        assert part["tie_rate"] == 0


def test_by_default_rows_are_resampled_for_grounding_and_pairs_for_groups(tricd):
    # Where every row is right, all resamples agree.
    predictions = [row if place % 3 else NOTHING for place, row in enumerate(tricd.perfect)]
    inputs = {"predictions": predictions, "references": tricd.references, "confidence": 0.9, "resamples": 200}
    assert grounding_recall(**inputs) == grounding_recall(**inputs, clusters=list(range(204)))
    inputs |= tricd.pairs
    assert group_recall_at_1(**inputs) == group_recall_at_1(**inputs, clusters=tricd.pairs["pair_ids"])
    low, high = group_recall_at_1(**inputs)["recall_at_1_interval"]
    assert low < high


def test_boxes_on_distractors_matter_to_the_group_alone_which_needs_to_know_equal_phrases(tricd):
    above, below = ({"predictions": tricd.on_both(score), "references": tricd.references} for score in (0.6, 0.4))
    assert grounding_recall(**above)["recall_at_1"] == 1.0
    assert group_recall_at_1(**above, **tricd.pairs)["recall_at_1"] == 0.0
    assert group_recall_at_1(**below, **tricd.pairs)["recall_at_1"] == 1.0
    # Without keys of phrases each image would be scored by itself: 1.0 where the right number is 0.
    pairs = dict(tricd.pairs)
    keys = pairs.pop("phrase_keys")
    with pytest.raises(
        ScoresError, match=r"none of the 315 boxes on distractors .* as in TRICD's files, pass phrase_keys"
    ):
        group_recall_at_1(**above, **pairs)
    own = [{phrase: phrase for phrase in row} for row in keys]
    with pytest.raises(ScoresError, match=r"lack a phrase of the positive row .*give equal phrases equal keys"):
        group_recall_at_1(**above, **pairs, phrase_keys=own)


# Overlaps of 1, 0.75, 0.5 (enough), 0.39, 0 with the first one.
POOL = (HERE, [0, 0, 4, 3], [0, 0, 4, 2], [1, 1, 5, 5], THERE)
box, confidence = st.sampled_from(POOL), st.sampled_from([0.2, 0.5, 0.8])


def candidates(found, truth, phrase, key_of=int, wanted=None):
    """(confidence, right) of the boxes of a row that belong to a phrase."""
    wanted = phrase if wanted is None else wanted
    return [
        (
            score,
            any(
                other == number and iou_by_hand(corners, given) >= 0.5
                for given, other in zip(truth["boxes"], truth["phrase_ids"], strict=True)
            ),
        )
        for corners, score, number in zip(found["boxes"], found["scores"], found["phrase_ids"], strict=True)
        if key_of(number) == wanted
    ]


def chances(boxes, k):
    """Worst, mean and best success among the k first boxes over all orders of equal confidences."""
    outcomes = [
        any(right for _, right in sorted(order, key=lambda pair: -pair[0])[:k])
        for order in itertools.permutations(boxes)
    ]
    return {"wrong": min(outcomes), "half": statistics.fmean(outcomes), "right": max(outcomes)}


def naive_recalls(pools, ks, ties):
    """Recall at each k over pools of boxes, one for each phrase, and how many pools a tie decides."""
    everything = [{k: chances(pool, k) for k in ks} for pool in pools]
    decided = [any(found[k]["wrong"] != found[k]["right"] for k in ks) for found in everything]
    return {
        **{f"recall_at_{k}": statistics.fmean(found[k][ties] for found in everything) for k in ks},
        "tie_rate": statistics.fmean(decided),
        "n": len(pools),
        "n_abstained": sum(not pool for pool in pools),
    }


found_row = st.lists(st.tuples(box, confidence, st.integers(1, 3)), max_size=5).map(lambda found: boxes_of(*found))
truth_row = st.lists(st.tuples(box, st.integers(1, 2)), max_size=3).map(lambda given: truth_of(*given))
grounding_rows = st.lists(st.tuples(found_row, truth_row), min_size=1, max_size=3).filter(
    lambda rows: any(truth["boxes"] for _, truth in rows)
)


@given(rows=grounding_rows, ties=st.sampled_from(TIES), ks=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_grounding_recall_is_what_loops_say(rows, ties, ks):
    result = grounding_recall([found for found, _ in rows], [truth for _, truth in rows], ks=ks, ties=ties, **XYXY)
    pools = [candidates(found, truth, phrase) for found, truth in rows for phrase in dict.fromkeys(truth["phrase_ids"])]
    expected = naive_recalls(pools, ks, ties)
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert result["n_positive"] == sum(bool(truth["boxes"]) for _, truth in rows)


@st.composite
def caption_pairs(draw):
    """Pairs of a caption with phrases "a" and "b", numbered anew in each row; (pair, flag, found, truth, keys)."""
    rows = []
    for pair in range(draw(st.integers(1, 3))):
        for place in range(draw(st.integers(2, 3))):
            numbers = draw(st.permutations([3, 5]))
            phrase = st.sampled_from(numbers)
            given = draw(st.lists(st.tuples(box, phrase), max_size=2)) if place == 0 else []
            found = draw(st.lists(st.tuples(box, confidence, phrase), max_size=2))
            keys = dict(zip(map(draw(st.sampled_from([int, str])), numbers), "ab", strict=True))
            rows.append((f"caption {pair}", place == 0, boxes_of(*found), truth_of(*given), keys))
    return draw(st.permutations(rows))


def pair_inputs(rows):
    names = ("pair_ids", "positive", "predictions", "references", "phrase_keys")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


@given(rows=caption_pairs().filter(lambda rows: any(row[3]["boxes"] for row in rows)), ties=st.sampled_from(TIES))
def test_group_recall_is_what_loops_say(rows, ties):
    pools = []
    for pair, flag, _, truth, keys in rows:
        texts = {int(number): text for number, text in keys.items()}
        for text in dict.fromkeys(texts[number] for number in truth["phrase_ids"]) if flag else ():
            pool = []
            for other, _, found, there, others in rows:
                names = {int(number): name for number, name in others.items()}
                if other == pair:
                    pool += candidates(found, there, None, names.get, text)
            pools.append(pool)
    result = group_recall_at_1(**pair_inputs(rows), ties=ties, **XYXY)
    expected = naive_recalls(pools, (1,), ties)
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert result["n_pairs"] == len({row[0] for row in rows})


PAIR = {
    "predictions": [boxes_of((HERE, 0.8, 1), (HERE, 0.8, 2)), boxes_of((HERE, 0.9, 1), (HERE, 0.7, 2))],
    "references": [truth_of((HERE, 1), (HERE, 2)), NO_TRUTH],
    "pair_ids": ["a", "a"],
    "positive": [True, False],
}


@pytest.mark.parametrize("spans", [[[0, 4]], np.array([[0, 4]]), "vase"], ids=["lists", "array", "text"])
def test_phrases_with_equal_keys_are_one(spans):
    inputs = PAIR | {"predictions": [boxes_of((HERE, 0.8, 6)), boxes_of((HERE, 0.9, 7))]}
    inputs["references"] = [truth_of((HERE, 6)), NO_TRUTH]
    # As `datasets` returns a struct: the keys of other rows' phrases are None.
    keys = [{"6": spans, "7": None}, {"6": None, "7": spans}]
    assert group_recall_at_1(**inputs, phrase_keys=keys, **XYXY)["recall_at_1"] == 0.0
    inputs["predictions"] = [*inputs["predictions"][:1], NOTHING]
    assert group_recall_at_1(**inputs, phrase_keys=keys, **XYXY)["recall_at_1"] == 1.0


KEYS = [{1: "cat", 2: "mat"}, {1: "cat", 2: "mat"}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pair_ids": ["a", "b"]}, r"row 1 \(1 of 2.*belong to a pair without exactly one positive row; give the pos"),
        ({"positive": [True, True]}, r"rows 0, 1 \(2 of 2.*belong to a pair without exactly one positive row"),
        ({"references": [NO_TRUTH] * 2}, "no row has a ground-truth box; recall needs the positive rows"),
        (
            {"references": [truth_of((HERE, 1))] * 2},
            r"row 1 \(1 of 2.*got ground-truth boxes, but positive is false; .*leave the boxes out",
        ),
        ({"positive": [True, True], "pair_ids": ["a", "b"]}, r"rows 0, 1 .*belong to a pair without a distractor"),
        ({"pair_ids": ["a", None]}, "pair ids are missing in row 1"),
        ({"phrase_keys": KEYS[:1]}, "got 1 phrase_keys for 2 rows; pass for each row a mapping from phrase id"),
        ({"phrase_keys": [KEYS[0], ["cat"]]}, "no mapping in row 1"),
        ({"phrase_keys": [KEYS[0], {1: "cat"}]}, "phrase 2 of row 1 has no key in phrase_keys; give every phrase"),
        ({"phrase_keys": [{1: "cat", 2: None}, KEYS[1]]}, "phrase 2 of row 0 has no key in phrase_keys"),
        ({"phrase_keys": [{1.5: "cat"}, KEYS[1]]}, r"row 0 cannot be read .1.5 is not a phrase id\); map whole phrase"),
    ],
)
def test_what_a_group_is_invalid_by_is_rejected_with_a_remedy(options, message):
    with pytest.raises(ScoresError, match=message):
        group_recall_at_1(**{**PAIR, **XYXY, **options})
