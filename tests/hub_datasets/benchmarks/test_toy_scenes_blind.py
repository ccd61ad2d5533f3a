"""Readers of captions alone find no negatives of toy_scenes, but those that the card says."""

import itertools
from collections import Counter

import numpy as np
import pytest

from vl_assay.hub_datasets.toy_scenes.tasks import task_rows


@pytest.fixture(scope="module")
def pairs():
    """(caption, negative) of 1,200 scenes by category of itm; (hard positive, negative) as "hard <category>"."""
    found = {}
    for index in range(1200):
        for row in task_rows("itm", 7, "train", index)[1]:
            found.setdefault(row["category"], []).append((row["caption"], row["negative_caption"]))
        for row in task_rows("hard_positives", 7, "train", index)[1]:
            pair = row["positive_caption"], row["negative_caption"]
            found.setdefault(f"hard {row['category']}", []).append(pair)
    return found


def features(text):
    """The words of a caption and its ordered pairs of words: more than most blind models see."""
    found = text.split()
    return {*found, *itertools.combinations(found, 2), ("words", len(found))}


def blind_accuracy(pairs, trained):
    """How often naive Bayes, trained on the first pairs, prefers the caption in the others; a tie counts half."""
    counts = [Counter(), Counter()]
    for pair in pairs[:trained]:
        for count, text in zip(counts, pair, strict=True):
            count.update(features(text))
    odds = {f: np.log((counts[0][f] + 1) / (counts[1][f] + 1)) for f in counts[0] | counts[1]}
    gaps = [np.subtract(*(sum(odds.get(f, 0) for f in features(text)) for text in pair)) for pair in pairs[trained:]]
    return float(np.mean(np.where(np.abs(gaps) < 1e-9, 0.5, np.greater(gaps, 0))))


BALANCED = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
HARD = ("hard replace_att", "hard replace_obj", "hard replace_rel", "hard swap")


@pytest.mark.parametrize("category", BALANCED + HARD)
def test_a_trained_blind_reader_is_at_chance(category, pairs):
    # 600 pairs: a standard deviation of 2 points.
    assert blind_accuracy(pairs[category], 600) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("category", ["add_att", "add_obj"])
def test_length_gives_added_words_away_as_the_card_says(category, pairs):
    assert all(len(caption.split()) < len(negative.split()) for caption, negative in pairs[category])
    assert blind_accuracy(pairs[category], 600) > 0.99


@pytest.mark.slow
def test_a_trained_blind_reader_is_at_chance_with_one_negative_of_a_set():
    rows = [task_rows("sets", 7, "train", index)[1][0] for index in range(3000)]
    one_negative = [(row["caption"], row["hard_negatives"][0]) for row in rows]
    # 1,000 pairs: a standard deviation of 1.6 points.
    assert blind_accuracy(one_negative, 2000) == pytest.approx(0.5, abs=0.05)
