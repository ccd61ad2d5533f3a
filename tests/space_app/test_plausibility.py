"""Plausibility: blind rules, constants and copies are flagged, honest predictions are not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from vl_assay.hub_datasets import Example, TaskData
from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.metrics.records.predictions import Predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, RetrievalRow, VQARow
from vl_assay.space_app.submissions.copies import scores_hash
from vl_assay.space_app.submissions.plausibility import find_flags

WORDS = ("red", "Blue", "ring", "star", "left", "of", "enormous", "a", "cross,", "tiny", "Above", "and,")


def data(rows=100, captions=2, images=1, task="itm", seed=0):
    """Examples with captions of random words."""
    rng = np.random.default_rng(seed)
    found = TaskData("toy_scenes", get_task("toy_scenes", task), ("itm",), "test", needs_images=False)
    for number in range(rows):
        texts = tuple(" ".join(rng.choice(WORDS, rng.integers(3, 12))) for _ in range(captions))
        keys = tuple(f"{number}-{image}" for image in range(images))
        found.examples.append(Example(f"e{number:03d}", "itm", "c", keys, texts))
    return found


def predictions(examples, scores):
    """A predictions file whose scores a function gives of each example's number, image and caption."""
    rows = []
    for number, example in enumerate(examples.examples):
        correct = list(range(len(example.images)))
        matrix = [[float(scores(number, image, text)) for text in example.captions] for image in correct]
        rows.append(MatchingRow(example.id, "itm", "c", list(example.images), correct, matrix))
    return Predictions(rows, {"benchmark": {"name": "toy_scenes", "task": examples.task.name}, "model": {"name": "m"}})


def is_right(examples, number, image, text):
    return examples.examples[number].captions[image] == text


RULES = {
    "length in characters": len,
    "number of words": lambda text: len(text.split()),
    "length of words": lambda text: len(text.replace(" ", "")) / len(text.split()),
    "number of commas": lambda text: text.count(","),
    "number of capital letters": lambda text: sum(map(str.isupper, text)),
    "place in the alphabet": lambda text: [ord(letter) for letter in text.lower()[:9].ljust(9)],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("shape", [(2, 1), (5, 1), (2, 2)])
def test_a_blind_rule_is_told_either_way_round_whatever_the_captions(rule, sign, shape):
    examples = data(captions=shape[0], images=shape[1])
    values = RULES[rule]
    if rule == "place in the alphabet":
        texts = sorted({text for each in examples.examples for text in each.captions}, key=str.lower)
        values = texts.index
    flags = find_flags(predictions(examples, lambda n, i, text: sign * values(text)), examples)
    assert any(f"the caption's {rule}: the same choices in 100.0 %" in flag for flag in flags)


def test_a_rule_hidden_by_noise_is_told_by_its_choices_and_one_by_its_order():
    examples = data(rows=300)
    noise = np.random.default_rng(1).random(300)
    [flag] = find_flags(
        predictions(examples, lambda n, i, text: -len(text) + noise[n] + 0.1 * ord(text[0]) / 256), examples
    )
    assert flag.startswith("toy_scenes/itm: The scores cannot be told from a rule that sees no image, the caption's")
    assert flag.endswith("of 300 comparisons of a right caption with another.")
    commas = data(rows=300, captions=2)
    # Commas decide fewer than half of these, but the differences of the scores have their order.
    commas.examples = [
        dataclasses.replace(each, captions=("a b", "c d" + "," * (n % 3 == 0)))
        for n, each in enumerate(commas.examples)
    ]
    flags = find_flags(predictions(commas, lambda n, i, text: text.count(",") ** 3), commas)
    assert any("number of commas: differences of scores with a rank correlation of 1.000" in flag for flag in flags)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(2, 1), (5, 1), (2, 2)])
def test_honest_scores_are_not_flagged(seed, shape):
    rng = np.random.default_rng(seed)
    examples = data(captions=shape[0], images=shape[1], seed=seed)
    assert find_flags(predictions(examples, lambda *key: is_right(examples, *key) + rng.normal(0, 0.6)), examples) == []
    assert find_flags(predictions(examples, lambda *key: rng.random()), examples) == []


def test_a_rule_agrees_with_ninety_eight_of_a_hundred_and_is_not_told():
    examples = data(rows=200)
    wrong = set(range(0, 200, 50)) | {7}
    scores = {text: len(text) for each in examples.examples for text in each.captions}
    assert find_flags(predictions(examples, lambda n, i, t: scores[t] * (-1 if n in wrong else 1)), examples) == []


def test_fewer_than_thirty_examples_are_not_compared_with_rules():
    for rows, told in ((29, False), (40, True)):
        examples = data(rows=rows)
        assert bool(find_flags(predictions(examples, lambda n, i, text: len(text)), examples)) == told


@pytest.mark.parametrize("shape", [(2, 1), (5, 1), (2, 2)])
def test_scores_that_were_made_from_the_labels_are_told(shape):
    examples = data(captions=shape[0], images=shape[1])
    [flag] = find_flags(predictions(examples, lambda *key: is_right(examples, *key)), examples)
    assert flag == "toy_scenes/itm: 100.0 % of the 100 examples are right, more than of any known model."


@pytest.mark.parametrize(
    ("lowest", "size", "is_told"), [(0, 1e-12, False), (0.3, 1e-4, False), (0, 5e-324, True), (0.3, 1e-9, True)]
)
def test_margins_as_small_as_rounding_are_told(lowest, size, is_told):
    examples = data()

    def score(number, image, text):
        return lowest + size * (is_right(examples, number, image, text) != (number % 9 == 0))

    told = "toy_scenes/itm: The correct captions differ from the others by no more than rounding in 100 examples."
    assert find_flags(predictions(examples, score), examples) == [told] * is_told


def test_constant_scores_are_told():
    examples = data()
    [same] = find_flags(predictions(examples, lambda n, i, t: 0.5), examples)
    [undecided] = find_flags(predictions(examples, lambda n, i, t: n), examples)
    assert same == "toy_scenes/itm: All 200 scores are the same, 0.5."
    assert undecided.endswith("In every example all captions have the same score, so that none is preferred.")


def test_huge_scores_are_compared_without_overflow():
    examples = data()
    with np.errstate(all="raise"):
        find_flags(predictions(examples, lambda n, i, t: 1.7e308 * (-1) ** len(t)), examples)
        scores_hash(predictions(examples, lambda n, i, t: 1.7e308 * (-1) ** len(t)))


LABELLED = {
    "the boxes themselves": {},
    "boxes a little off": {"off": 0.2},
    "boxes clearly off": {"off": 1.5},
    "the boxes, of half of the phrases": {"found": 0.6},
    "the boxes, unsure": {"surer": 0},
    "other boxes, surer where the caption is true": {"off": 30},
}


@pytest.mark.parametrize("how", LABELLED)
def test_detections_that_were_made_from_the_labels_are_told(how):
    assert any("labels" in flag or "more than of any known model" in flag for flag in flags_of_boxes(**LABELLED[how]))


def test_detections_of_a_detector_are_not_flagged():
    assert flags_of_boxes(off=2.5, found=0.9, surer=0.3) == []


def flags_of_boxes(off=0.0, found=1.0, surer=9.0):
    """The flags for boxes moved by `off` of 20 pixels, for a share of the phrases, surer where true."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(200):
        true = n % 2 == 0
        box = [*(corner := rng.integers(0, 99, 2)), *(corner + 20)]
        boxes = [[float(each) for each in np.array(box) + rng.choice([-1, 1]) * off]] * bool(rng.random() < found)
        phrases = [{"text": "cat", "start": 0, "end": 3}]
        scores = [float(rng.random() + surer * true)] * len(boxes)
        row = DetectionRow(
            f"{n}", "c", "x", [f"i{n}"], true, f"p{n // 2}", phrases, [[box]] if true else [[]], [boxes], [scores]
        )
        rows.append(row)
    made = Predictions(rows, {"benchmark": {"name": "toy_scenes", "task": "detection"}, "model": {"name": "m"}})
    return find_flags(made, data(rows=0))


@pytest.mark.parametrize("size", [1.0, 0.3, 1e-3, 40.0])
def test_answers_that_were_made_from_the_labels_are_told_whatever_their_size(size):
    rows = [
        VQARow(f"{n}", "c", "x", [f"i{n}"], "is it", n % 3 == 0, size * (1 if n % 3 == 0 else -1)) for n in range(90)
    ]
    made = Predictions(rows, {"benchmark": {"name": "toy_scenes", "task": "vqa"}, "model": {"name": "m"}})
    assert any("100.0 % of the 90 examples are right" in flag for flag in find_flags(made, data(rows=0)))


def test_missing_examples_are_told():
    examples = data()
    made = predictions(examples, lambda n, i, t: hash((n, t)) % 1000)
    rows = [dataclasses.replace(row, images=[""], scores=None) for row in made.rows[:3]] + list(made.rows[3:])
    assert find_flags(Predictions(rows, made.metadata), examples) == [
        "toy_scenes/itm: 3 of the 100 examples lack their image, and are in no score."
    ]


def other_kinds():
    common = ("a", "c", "x", ["i"])
    phrases = [{"text": "cat", "start": 0, "end": 3}]
    yield lambda s: VQARow(*common, "is it", True, s)
    yield lambda s: RetrievalRow(*common, [0], np.array([0.5, s], np.float32))
    yield lambda s: DetectionRow(*common, True, "p", phrases, [[]], [[[0.0, 0.0, 4.0, 4.0]]], [[s]])
    yield lambda s: DetectionRow(*common, True, "p", phrases, [[]], [[[0.0, 0.0, 4.0, s]]], [[0.5]])
    yield lambda s: MatchingRow(*common, [0], [[0.5, s]])


@pytest.mark.parametrize("make", other_kinds())
def test_equal_scores_have_one_hash_whatever_the_order_and_the_labels_and_others_another(make):
    rows = [dataclasses.replace(make(0.25 * n), id=f"{n}") for n in range(1, 5)]
    described = {"benchmark": {"name": "b", "task": "t"}, "model": {"name": "m"}}
    ours = scores_hash(Predictions(rows, described))
    renamed = [dataclasses.replace(row, category="y") for row in reversed(rows)]
    assert scores_hash(Predictions(renamed, described | {"model": {"name": "other"}})) == ours
    assert scores_hash(Predictions([dataclasses.replace(make(9.0), id="1"), *rows[1:]], described)) != ours
    assert scores_hash(Predictions(rows[1:], described)) != ours


def test_a_detector_without_a_box_is_told():
    phrases = [{"text": "cat", "start": 0, "end": 3}]
    row = DetectionRow("a", "c", "x", ["i"], True, "p", phrases, [[]], [[]], [[]])
    made = Predictions([row], {"benchmark": {"name": "toy_scenes", "task": "detection"}, "model": {"name": "m"}})
    assert find_flags(made, data(rows=0)) == ["toy_scenes/detection: The model drew no box at all."]
