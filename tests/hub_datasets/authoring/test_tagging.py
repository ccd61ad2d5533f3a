"""Tags of captions: by hand, for any text, and by spaCy or without it."""

from __future__ import annotations

import importlib.util
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vl_assay.hub_datasets.authoring.text import perturb, tagging
from vl_assay.hub_datasets.authoring.text.tagging import tag, tagger_name
from vl_assay.metrics.common.errors import ModelError

TAGGED_BY_HAND = [
    "Two/CD men/NNS in/IN wetsuits/NNS carry/VBP surfboards/NNS toward/IN the/DT ocean/NN ./.",
    "A/DT group/NN of/IN young/JJ children/NNS sit/VBP around/IN a/DT table/NN eating/VBG pizza/NN ./.",
    "A/DT boy/NN rides/VBZ his/PRP$ skateboard/NN down/IN a/DT ramp/NN while/IN people/NNS watch/VBP ./.",
    "There/EX is/VBZ an/DT orange/NN on/IN top/NN of/IN the/DT orange/JJ plate/NN ./.",
    "three/CD zebras/NNS graze/VBP in/IN a/DT field/NN next/RB to/TO some/DT very/RB tall/JJ trees/NNS",
    "She/PRP is/VBZ cutting/VBG a/DT cake/NN that/WDT looks/VBZ delicious/JJ ./.",
    "A/DT traffic/NN light/NN turns/VBZ green/JJ in/IN the/DT living/NN room/NN ,/, not/RB here/RB",
    "the/DT man/NN 's/POS bigger/JJR half/JJ -/: pipe/NN did/VBD n't/RB break/VB",
    "A/DT parked/JJ car/NN is/VBZ covered/VBN in/IN snow/NN and/CC 2/CD inches/NNS of/IN ice/NN !/.",
    "She/PRP will/MD walk/VB her/PRP$ dog/NN to/TO catch/VB a/DT red/JJ frisbee/NN",
]


@pytest.mark.parametrize("line", TAGGED_BY_HAND)
def test_plain_tags_by_hand(line):
    words, tags = zip(*(part.rsplit("/", 1) for part in line.split()), strict=True)
    text = " ".join(words).replace(" 's", "'s").replace(" n't", "n't").replace(" - ", "-").replace(" ,", ",")
    (tagged,) = tag([text], "plain")
    assert list(zip(tagged.words, tagged.tags, strict=True)) == list(zip(words, tags, strict=True))


@pytest.mark.parametrize(
    ("text", "nouns", "verbs"),
    [
        (
            "All the people in a very tall, bright red school bus are slowly driving away.",
            ["All the people", "a very tall, bright red school bus"],
            ["are slowly driving"],
        ),
        (
            "The girl's dog has eaten a snow-covered cake",
            ["The girl's dog", "a snow-covered cake"],
            ["has eaten", "covered"],
        ),
        (
            "A man has snow covered skis - a dog waits",
            ["A man", "snow covered skis", "a dog"],
            ["has", "covered", "waits"],
        ),
    ],
)
def test_phrases_by_hand(text, nouns, verbs):
    (tagged,) = tag([text], "plain")

    def texts(phrases):
        return [text[tagged.spans[first][0] : tagged.spans[last - 1][1]] for first, last in phrases]

    assert texts(tagged.noun_phrases) == nouns
    assert texts(tagged.verb_phrases) == verbs


@given(st.text(max_size=60))
def test_any_text_can_be_tagged_and_its_tokens_are_all_but_its_spaces(text):
    (tagged,) = tag([text], "plain")
    assert "".join(tagged.words) == "".join(text.split())
    assert len(tagged.tags) == len(tagged.spans)
    assert all(last > first for first, last in (*tagged.noun_phrases, *tagged.verb_phrases))


class FakeDocument(list):
    """Stands for spaCy's Doc: every token is a noun, the first two a noun phrase."""

    def __init__(self, vocab, words, spaces):
        assert len(words) == len(spaces)
        super().__init__(types.SimpleNamespace(tag_="NN") for _ in words)
        self.noun_chunks = [types.SimpleNamespace(start=0, end=2)]


@pytest.fixture
def fake_spacy(monkeypatch):
    def model(document):
        return document

    model.vocab = None
    spacy = types.ModuleType("spacy")
    spacy.load = lambda name, exclude: model if name == "en_core_web_sm" else None
    tokens = types.ModuleType("spacy.tokens")
    tokens.Doc = FakeDocument
    for name, module in {"spacy": spacy, "spacy.tokens": tokens, "en_core_web_sm": spacy}.items():
        module.__spec__ = importlib.util.spec_from_loader(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(importlib.metadata, "version", {"spacy": "3.8.7", "en_core_web_sm": "3.8.0"}.__getitem__)
    tagging._load_spacy.cache_clear()
    yield
    tagging._load_spacy.cache_clear()


@pytest.mark.usefixtures("fake_spacy")
def test_spacy_is_used_where_it_is_installed_and_named_with_its_version():
    assert tagger_name("auto") == tagger_name("spacy") == "spacy 3.8.7, en_core_web_sm 3.8.0"
    for tagger in ("auto", "spacy"):
        tagged, empty = tag(["a man's  dog.", ""], tagger)
        assert tagged.words == ["a", "man", "'s", "dog", "."]
        assert tagged.tags == ("NN",) * 5
        assert tagged.noun_phrases == ((0, 2),)
        assert empty == ("", (), (), ())
    assert tag(["a dog"], "plain")[0].tags == ("DT", "NN")
    assert perturb.perturb(["a dog"]).perturbed["shuffle_nouns_and_adjectives"] == ["dog a"]


def test_without_spacy_the_plain_tagger_is_used_and_spacy_is_refused_with_a_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert tagger_name("auto") == "plain 1"
    assert tag(["a dog"])[0].tags == ("DT", "NN")
    with pytest.raises(ModelError, match=r"needs spacy and en_core_web_sm.*python -m spacy download en_core_web_sm"):
        tag(["a dog"], "spacy")


def test_spacy_itself_where_it_is_installed():
    pytest.importorskip("spacy")
    pytest.importorskip("en_core_web_sm")
    (tagged,) = tag(["a brown cat is looking at a gray dog and sitting in a white bathtub"], "spacy")
    assert [w for w, t in zip(tagged.words, tagged.tags, strict=True) if t == "NN"] == ["cat", "dog", "bathtub"]
