"""NegCLIP's and CREPE's negatives: the papers' examples, laws, and the captions that the authors released."""

import ast
import re
from collections import Counter

import pytest
from audit_support import negclip_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets.authoring.text import negatives
from vl_assay.hub_datasets.authoring.text.negatives import (
    KINDS,
    NEGCLIP_KINDS,
    RELEASED_KINDS,
    negations,
    negclip_negatives,
    replacements,
    swaps,
)
from vl_assay.hub_datasets.authoring.text.tagging import tag
from vl_assay.metrics.common.errors import ScoresError, UnknownNameError

HORSES = "The horse is eating the grass and the zebra is drinking the water"
COLOURS = ["red", "orange", "sky blue", "blue"]


def swaps_of(caption, kind):
    return swaps(tag([caption], "textblob")[0], kind)


def negclip(captions, seed=0, **options):
    return negclip_negatives(captions, seed, tagger="textblob", **options)


@pytest.mark.parametrize(
    ("kind", "negative"),
    [
        # The two examples of ARO, section 4.
        ("noun", "The zebra is eating the grass and the horse is drinking the water"),
        ("verb_phrase", "The horse is drinking the grass and the zebra is eating the water"),
        ("gerund", "The horse is drinking the grass and the zebra is eating the water"),
    ],
)
def test_the_paper_s_examples_are_among_the_swaps(kind, negative):
    assert negative in swaps_of(HORSES, kind)


@pytest.mark.parametrize(
    ("kind", "caption", "expected"),
    [
        ("noun", "A dog, two cats.", ["A cats, two dog."]),
        ("plural_noun", "A dog, two cats.", []),
        ("singular_noun", "A dog on a mat, two cats.", ["A mat on a dog, two cats."]),
        ("noun", "Cats watch a TV.", ["TV watch a cats."]),
        ("noun", "A cat on the mat's cat", ["A mat on the cat's cat", "A cat on the cat's mat"]),
        ("adjective", "A Red bus and the blue sky", ["A blue bus and the Red sky"]),
        ("adverb", "very close together", ["close very together", "together close very", "very together close"]),
        ("verb_phrase", "A man is slowly walking, dogs run.", ["A man run, dogs is slowly walking."]),
        ("noun_phrase", "A big red bus near the old house.", ["The old house near a big red bus."]),
        ("noun_phrase", "a red bus near the bridge and two dogs", []),
        # Phrases that differ in one word are left to the swap of that word.
        ("noun_phrase", "a tennis player on a tennis court", []),
    ],
)
def test_swaps_by_hand(kind, caption, expected):
    assert swaps_of(caption, kind) == expected


def test_negclip_takes_one_swap_of_each_kind_in_the_order_of_the_kinds():
    caption = "A very old man slowly walking a small dog is holding the big red umbrella."
    (found,) = negclip([caption])
    assert [negative.kind for negative in found] == list(NEGCLIP_KINDS)
    assert all(negative.caption in swaps_of(caption, negative.kind) for negative in found)
    (few,) = negclip([caption], most=2)
    assert set(few) < set(found)
    assert len(few) == 2
    assert [n.kind for n in negclip([caption], kinds=["adverb", "noun"])[0]] == ["adverb", "noun"]
    # Captions without two elements of a kind have no negatives.
    assert negclip(["", "a dog", "running", "!"]) == [[], [], [], []]
    assert negclip([]) == []


WORDS = ["A", "the", "man", "dogs", "red", "big", "very", "slowly", "is", "riding", "sits", "on", "and", ",", "."]
captions = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@settings(max_examples=25)
@given(captions, st.integers(0, 3))
def test_negatives_have_the_caption_s_words_in_another_order_and_never_repeat(caption, seed):
    (found,) = negclip([caption], seed, kinds=KINDS, most=len(KINDS))
    texts = [negative.caption.lower() for negative in found]
    assert len(set(texts) | {caption.lower()}) == len(texts) + 1
    for negative in found:
        assert sorted(negative.caption.lower().split()) == sorted(caption.lower().split())


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A red box", ["An orange box", "A sky blue box", "A blue box"]),
        # The longest term counts, not the "blue" in it; what the caption has already is no foil.
        ("Sky blue and red", ["Orange and red", "Blue and red", "Sky blue and orange", "Sky blue and blue"]),
        ("A covered redwood", []),
        ("RED, blue and sky blue", ["orange, blue and sky blue", "RED, orange and sky blue", "RED, blue and orange"]),
        ("It is an orange", ["It is a red", "It is a sky blue", "It is a blue"]),
        ("Red, orange, blue, sky blue", []),
        ("", []),
    ],
)
def test_replacements_by_hand(caption, expected):
    assert set(replacements(caption, COLOURS)) == set(expected)


@pytest.mark.parametrize(
    ("kind", "caption", "expected"),
    [
        ("caption", " The man sits", ["There is no man sits"]),
        ("caption", "A man in a hat", ["There is no man in a hat"]),
        ("caption", "Men sit", []),
        (
            "object",
            "A man in a hat near an old tree",
            ["A man in no hat near an old tree", "A man in a hat near no old tree"],
        ),
        ("relation", "A man riding a bus of his", ["A man not riding a bus of his"]),
        ("relation", "Three men on a bus", ["Three men not on a bus"]),
        ("relation", "the man is slowly walking", ["the man is slowly not walking"]),
        ("relation", "A knotted rope on a note", ["A knotted rope not on a note"]),
        *[("relation", f"A man {word} riding a horse", []) for word in ("no", "not", "isn't", "without", "Not")],
    ],
)
def test_negations_by_hand(kind, caption, expected):
    assert negations(tag([caption], "textblob")[0], kind) == expected


def test_wrong_arguments_are_named():
    with pytest.raises(UnknownNameError, match="unknown kind of element 'verb'; known: noun, singular_noun"):
        negclip(["a dog"], kinds=["verb"])
    with pytest.raises(UnknownNameError, match="unknown kind of negation 'x'; known: caption, object, relation"):
        negations(tag(["a dog"], "textblob")[0], "x")
    with pytest.raises(ScoresError, match="most is 0; expected at least 1"):
        negclip(["a dog"], most=0)


def parts_of(text):
    return tuple(re.findall(r"n't|'\w+|\w+(?=n't)|\w+|[^\w\s]", text.lower()))


def test_what_was_released_can_be_made_again(shared_data):
    # TextBlob's tags were corrected with the other half of the captions in view.
    rows = negclip_rows(shared_data)[1::2]
    tagged = tag([row["title"] for row in rows], "textblob")
    made = negclip([one.text for one in tagged], kinds=RELEASED_KINDS)
    released = [list(ast.literal_eval(row["neg_caption"])) for row in rows]
    among = sum(
        parts_of(text) in {parts_of(swap) for kind in RELEASED_KINDS for swap in swaps(one, kind)}
        for one, texts in zip(tagged, released, strict=True)
        for text in texts
    )
    counts = [sum(map(len, side)) for side in (released, made)]
    said = f"released: {counts[0]:,}, made: {counts[1]:,}, released ones among `swaps`: {among / counts[0]:.1%}"
    assert said in " ".join(negatives.__doc__.split()), said
    numbers = [Counter(map(len, side)) for side in (released, made)]
    for number in range(6):
        assert numbers[1][number] == pytest.approx(numbers[0][number], abs=0.02 * len(rows))
