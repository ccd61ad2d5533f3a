"""The language of toy_scenes: what is written is read back, nothing else is, and words mean what the checker says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_scenes_checker import ADJECTIVES, MEANINGS, things_of, understand, word_applies

from vl_assay.hub_datasets.toy_scenes import language
from vl_assay.hub_datasets.toy_scenes.language import NounPhrase, Statement, parse
from vl_assay.hub_datasets.toy_scenes.tasks import sample_episode

words = {kind: st.sampled_from(sorted(MEANINGS[kind])) for kind in MEANINGS}


@st.composite
def statements(draw):
    def phrase():
        adjectives = [draw(st.none() | words[kind]) for kind in ADJECTIVES]
        return NounPhrase(tuple(word for word in adjectives if word), draw(words["shape"]))

    phrases = tuple(phrase() for _ in range(draw(st.integers(2, 4))))
    return Statement(phrases, draw(st.none() | words["relation"]))


@settings(max_examples=40)
@given(statements())
def test_what_is_written_is_read_back_as_the_checker_reads_it(statement):
    assert parse(statement.text) == statement
    phrases, relation = understand(statement.text)
    assert relation == statement.relation
    assert [tuple(phrase.values()) for phrase in phrases] == [(*p.adjectives, p.noun) for p in statement.phrases]


NOT_IN_THE_GRAMMAR = """
a | a ring | ring above star | a ring above | a ring above a star and | a ring above a star now |
and a ring above a star | a ring a star | a ring above below a star | a ring above a star above a circle |
a ring and a star above a circle | a azure ring above a star | an red ring above a star | the ring above a star |
a red blue ring above a star | a red red ring above a star | a red striped ring above a star |
a red big ring above a star | a ring red above a star | a red above a star | a ring left a star |
a ring to the left a star | a ring the left of a star | a ring larger a star | a grey ring above a star |
a ring, a star | A ring above a star
"""


@pytest.mark.parametrize("text", ["", *(text.strip() for text in NOT_IN_THE_GRAMMAR.split("|"))])
def test_what_is_not_in_the_grammar_does_not_parse(text):
    assert parse(text) is None
    assert understand(text) is None


def test_single_words_apply_as_the_checker_says():
    vocabulary = sorted({w for kind in MEANINGS.values() for phrase in kind for w in phrase.split()})
    for index in range(30):
        scene = sample_episode(0, "test", index).scene
        for word in vocabulary:
            assert language.applies(word, scene) == word_applies(word, things_of(scene)), word
    assert not language.applies("grey", scene)
