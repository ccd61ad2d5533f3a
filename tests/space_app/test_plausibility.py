"""Plausibility: blind rules, constants and scores made from the labels are flagged, honest predictions are not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from vl_assay.hub_datasets import Example, TaskData
from vl_assay.hub_datasets.core.benchmarks import get_task
from vl_assay.metrics.records.predictions import Predictions
from vl_assay.metrics.records.schema import DetectionRow, MatchingRow, VQARow
from vl_assay.space_app.submissions.plausibility import find_flags

WORDS = ("red", "Blue", "ring", "star", "left", "of", "enormous", "a", "cross,", "tiny", "Above", "and,")
SHAPES = [(2, 1), (5, 1), (2, 2)]  # captions and images


def data(rows=100, captions=2, images=1, seed=0):
    """Examples with captions of random words."""
    rng = np.random.default_rng(seed)
    found = TaskData("toy_scenes", get_task("toy_scenes", "itm"), ("itm",), "test", needs_images=False)
    for number in range(rows):
        texts = tuple(" ".join(rng.choice(WORDS, rng.integers(3, 12))) for _ in range(captions))
        keys = tuple(f"{number}-{image}" for image in range(images))
        found.examples.append(Example(f"e{number:03d}", "itm", "c", keys, texts))
    return found


def predictions(examples, scores):
    """A predictions file whose scores a function gives of each example's number, image and caption."""
    rows = []
    for number, example in enumerate(examples.examples):
        images = list(example.images)
        matrix = [[float(scores(number, image, text)) for text in example.captions] for image in range(len(images))]
        rows.append(MatchingRow(example.id, "itm", "c", images, example.correct, matrix))
    return made(rows)


def made(rows, task="itm"):
    return Predictions(rows, {"benchmark": {"name": "toy_scenes", "task": task}, "model": {"name": "m"}})


def is_right(examples, number, image, text):
    return examples.examples[number].captions[image] == text


RULES = {
    "length in characters": len,
    "number of words": lambda text: len(text.split()),
    "number of commas": lambda text: text.count(","),
    "place in the alphabet": None,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_blind_rule_is_told_either_way_round_whatever_the_captions(rule, shape):
    examples = data(captions=shape[0], images=shape[1])
    texts = sorted({text for each in examples.examples for text in each.captions}, key=str.lower)
    value = RULES[rule] or texts.index
    for sign in (1, -1):
        flags = find_flags(predictions(examples, lambda n, i, text, sign=sign: sign * value(text)), examples)
        assert any(f"the caption's {rule}: the same choices in 100.0 %" in flag for flag in flags)
    noise = np.random.default_rng(1).random(100)
    [flag] = find_flags(predictions(examples, lambda n, i, text: noise[n] - len(text)), examples)
    assert flag.startswith("toy_scenes/itm: The scores cannot be told from a rule that sees no image, the caption's")


@pytest.mark.parametrize("shape", SHAPES)
def test_honest_scores_are_not_flagged_and_those_made_from_the_labels_are(shape):
    rng = np.random.default_rng(0)
    examples = data(captions=shape[0], images=shape[1])
    assert find_flags(predictions(examples, lambda *key: is_right(examples, *key) + rng.normal(0, 0.6)), examples) == []
    assert find_flags(predictions(examples, lambda *key: rng.random()), examples) == []
    examples_of_one_caption = data(captions=1, images=3)  # as in imagecode: no other caption that a rule could prefer
    assert find_flags(predictions(examples_of_one_caption, lambda *key: rng.random()), examples_of_one_caption) == []
    [flag] = find_flags(predictions(examples, lambda *key: is_right(examples, *key)), examples)
    assert flag == "toy_scenes/itm: 100.0 % of the 100 examples are right, more than of any known model."


def test_a_rule_that_agrees_with_98_of_100_or_is_seen_on_29_examples_is_not_told():
    examples = data(rows=200)
    wrong = set(range(0, 200, 50)) | {7}
    scores = {text: len(text) for each in examples.examples for text in each.captions}
    assert find_flags(predictions(examples, lambda n, i, t: scores[t] * (-1 if n in wrong else 1)), examples) == []
    for rows, told in ((29, False), (40, True)):
        examples = data(rows=rows)
        assert bool(find_flags(predictions(examples, lambda n, i, text: len(text)), examples)) == told


@pytest.mark.parametrize(
    ("lowest", "size", "is_told"), [(0, 1e-12, False), (0.3, 1e-4, False), (0, 5e-324, True), (0.3, 1e-9, True)]
)
def test_margins_as_small_as_rounding_are_told(lowest, size, is_told):
    examples = data()

    def score(number, image, text):
        return lowest + size * (is_right(examples, number, image, text) != (number % 9 == 0))

    told = "toy_scenes/itm: The correct captions differ from the others by no more than rounding in 100 examples."
    assert find_flags(predictions(examples, score), examples) == [told] * is_told


def test_constant_and_missing_scores_are_told_and_huge_ones_do_not_overflow():
    examples = data()
    [same] = find_flags(predictions(examples, lambda n, i, t: 0.5), examples)
    [undecided] = find_flags(predictions(examples, lambda n, i, t: n), examples)
    assert same == "toy_scenes/itm: All 200 scores are the same, 0.5."
    assert undecided.endswith("In every example all captions have the same score, so that none is preferred.")
    with np.errstate(all="raise"):
        find_flags(predictions(examples, lambda n, i, t: 1.7e308 * (-1) ** len(t)), examples)
    rng = np.random.default_rng(0)
    rows = predictions(examples, lambda *key: rng.random()).rows
    rows[:3] = [dataclasses.replace(row, images=[""], scores=None) for row in rows[:3]]
    missing = "toy_scenes/itm: 3 of the 100 examples lack their image, and are in no score."
    assert find_flags(made(rows), examples) == [missing]


def flags_of_boxes(off=0.0, found=1.0):
    """The flags for boxes moved by `off` of 20 pixels, for a share of the phrases."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(200):
        box = [*(corner := rng.integers(0, 99, 2)), *(corner + 20)]
        boxes = [[float(each) for each in np.array(box) + rng.choice([-1, 1]) * off]] * bool(rng.random() < found)
        place = (f"{n}", "c", "x", [f"i{n}"], n % 2 == 0, f"p{n // 2}", [{"text": "cat", "start": 0, "end": 3}])
        scores = [float(rng.random())] * len(boxes)
        rows.append(DetectionRow(*place, [[box]] if n % 2 == 0 else [[]], [boxes], [scores]))
    return find_flags(made(rows, "detection"), data(rows=0))


def test_detections_and_answers_that_were_made_from_the_labels_are_told():
    for how in ({}, {"off": 0.2}, {"off": 1.5}, {"found": 0.6}):
        assert any("labels" in flag or "any known model" in flag for flag in flags_of_boxes(**how)), how
    assert flags_of_boxes(off=2.5, found=0.9) == []
    for size in (1.0, 1e-3, 40.0):
        signs = [1 if n % 3 == 0 else -1 for n in range(90)]
        rows = [VQARow(f"{n}", "c", "x", [f"i{n}"], "is it", s > 0, size * s) for n, s in enumerate(signs)]
        assert any("100.0 % of the 90 examples are right" in flag for flag in find_flags(made(rows, "vqa"), data(0)))
