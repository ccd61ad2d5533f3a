"""N-gram models against a recursion written out, laws, and that no caption is scored by a model that saw it."""

import math
import re
from collections import Counter

import numpy as np
import pytest
from audit_support import clean_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets.authoring.data.pairs import Pair
from vl_assay.hub_datasets.authoring.refine.ngrams import UNITS, NGramModel, blind_scores
from vl_assay.metrics.common.errors import DataError, ScoresError, UnknownNameError

START, END = object(), object()
CAPTIONS = st.lists(st.text("ab .", max_size=8), min_size=1, max_size=6)


def split(caption, unit):
    return re.findall(r"\w+|[^\w\s]", caption) if unit == "word" else list(caption)


def padded(caption, unit, order):
    return [START] * (order - 1) + split(caption, unit) + [END]


class WrittenOut:
    """Witten and Bell's recursion, with a dictionary for each length of history."""

    def __init__(self, captions, unit, order):
        self.unit, self.order = unit, order
        self.followers = {}
        for caption in captions:
            units = padded(caption, unit, order)
            for place in range(order - 1, len(units)):
                for length in range(order):
                    history = tuple(units[place - length : place])
                    self.followers.setdefault(history, Counter())[units[place]] += 1
        self.known = {unit for followers in self.followers.values() for unit in followers}

    def probability(self, unit, history):
        if history is None:
            return 1 / (len(self.known) + 1)
        below = self.probability(unit, history[1:] if history else None)
        seen = self.followers.get(history, Counter())
        if not seen:
            return below
        return (seen[unit] + len(seen) * below) / (seen.total() + len(seen))

    def score(self, caption):
        units = padded(caption, self.unit, self.order)
        logarithms = [
            math.log(self.probability(units[place], tuple(units[place - self.order + 1 : place])))
            for place in range(self.order - 1, len(units))
        ]
        return sum(logarithms) / len(logarithms)


@settings(max_examples=25)
@given(CAPTIONS, CAPTIONS, st.sampled_from(UNITS), st.integers(1, 4))
def test_scores_are_those_of_the_recursion_written_out(learned, scored, unit, order):
    expected = WrittenOut(learned, unit, order)
    found = NGramModel(learned, unit=unit, order=order).score(scored)
    np.testing.assert_allclose(found, [expected.score(caption) for caption in scored], rtol=1e-12)


@pytest.mark.parametrize("unit", UNITS)
def test_any_text_has_a_finite_score_below_zero(unit):
    odd = ["", " ", "\n", "ünseen wörds", "\ud800", "a" * 10_000, "犬", "a dog"]
    scores = NGramModel(["a dog sees a cat"], unit=unit).score(odd)
    assert (np.isfinite(scores) & (scores < 0)).all()
    assert NGramModel(["a dog"], unit=unit).score([]).shape == (0,)


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ScoresError, match="at least one"):
        NGramModel([])
    with pytest.raises(ScoresError, match="order is 0"):
        NGramModel(["a"], order=0)
    with pytest.raises(UnknownNameError, match="known: word, character"):
        NGramModel(["a"], unit="line")
    with pytest.raises(DataError, match="of one image"):
        blind_scores(clean_pairs(10, 0, per_image=10), "words")
    with pytest.raises(UnknownNameError, match="known: words, characters"):
        blind_scores(clean_pairs(10, 0), "letters")


def test_no_caption_is_scored_by_a_model_that_saw_it_its_image_or_a_caption_it_shares():
    # Each image has a word of its own, which a model knows only if it saw one of the image's captions.
    pairs = [Pair(f"{n}", f"{n // 3}.jpg", f"a w{n // 3} box {n}", f"box a w{n // 3} {n}", "") for n in range(60)]
    # The negative of the first pair is a true caption of another image, typed otherwise.
    pairs[0] = pairs[0]._replace(negative=" A w10 box 30.")
    before = blind_scores(pairs, "words")
    for changed, untouched in ((1, [0, 1, 2]), (31, [0, 1, 2, 30, 31, 32])):
        others = list(pairs)
        others[changed] = others[changed]._replace(positive=f"a red box {changed}")
        after = blind_scores(others, "words")
        same = (after == before).all(axis=1)
        assert same[[row for row in untouched if row != changed]].all()
        assert not same.all()
