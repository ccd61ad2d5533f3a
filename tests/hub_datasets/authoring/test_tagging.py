"""Tags, articles and forms of words: by hand, for any text, and with or without spaCy, TextBlob and inflect."""

import importlib.metadata
import importlib.util
import sys
import types

import pytest
from audit_support import negclip_rows, sugarcrepe_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from vl_assay.hub_datasets.authoring.generate.rules import make_by_rule
from vl_assay.hub_datasets.authoring.text import articles, perturb, tagging, words
from vl_assay.hub_datasets.authoring.text.articles import adapt_articles, article, wrong_articles
from vl_assay.hub_datasets.authoring.text.tagging import tag, tagger_name
from vl_assay.hub_datasets.toy_order.builder import shuffle_caption
from vl_assay.metrics.common.errors import ModelError

# Right after a correction of TextBlob: teddy bears, stop signs, "next to", "on top of", "pets a horse" and others.
TAGGED_BY_HAND = [
    "A/DT teddy/NN bear/NN next/RB to/TO a/DT red/JJ stop/NN sign/NN on/IN top/NN of/IN the/DT sink/NN ./.",
    "A/DT man/NN pets/VBZ a/DT horse/NN in/IN the/DT back/NN of/IN a/DT living/NN room/NN",
    "A/DT close/NN up/IN of/IN stuffed/JJ animals/NNS that/WDT are/VBP close/RB together/RB",
    "a/DT silver/JJ laptop/NN and/CC a/DT remote/NN on/IN the/DT handle/NN of/IN a/DT cutting/NN board/NN",
    "two/CD people/NNS skiing/VBG down/RP a/DT hill/NN near/IN three/CD bears/NNS",
    "She/PRP is/VBZ slowly/RB walking/VBG her/PRP$ dog/NN to/TO catch/VB a/DT red/JJ frisbee/NN",
    "the/DT man/NN 's/POS bigger/JJR dog/NN did/VBD n't/RB break/VB it/PRP",
]


@pytest.mark.parametrize("line", TAGGED_BY_HAND)
def test_tags_by_hand(line):
    expected = [tuple(part.rsplit("/", 1)) for part in line.split()]
    text = " ".join(word for word, _ in expected).replace(" 's", "'s").replace(" n't", "n't")
    (tagged,) = tag([text], "textblob")
    assert list(zip(tagged.words, tagged.tags, strict=True)) == expected


@pytest.mark.parametrize(
    ("text", "nouns", "verbs"),
    [
        (
            "All the people in a very tall, bright red school bus are slowly driving away.",
            ["All the people", "a very tall, bright red school bus"],
            ["are slowly driving"],
        ),
        ("The girl's dog has eaten a snow-covered cake", ["The girl's dog", "a snow-covered cake"], ["has eaten"]),
        ("A man has snow covered skis - a dog waits", ["A man", "snow covered skis", "a dog"], ["has", "covered"]),
    ],
)
def test_phrases_by_hand(text, nouns, verbs):
    (tagged,) = tag([text], "textblob")

    def texts(phrases):
        return [text[tagged.spans[first][0] : tagged.spans[last - 1][1]] for first, last in phrases]

    assert texts(tagged.noun_phrases) == nouns
    assert texts(tagged.verb_phrases)[: len(verbs)] == verbs


@settings(max_examples=25)
@given(st.text(max_size=60))
def test_any_text_can_be_tagged_and_its_tokens_are_all_but_its_spaces(text):
    (tagged,) = tag([text], "textblob")
    assert "".join(tagged.words) == "".join(text.split())
    assert len(tagged.tags) == len(tagged.spans)
    assert all(last > first for first, last in (*tagged.noun_phrases, *tagged.verb_phrases))


class FakeDocument(list):
    """A stand-in for spaCy's Doc: every token is a noun, the first two a noun phrase."""

    def __init__(self, vocab, words, spaces):
        assert len(words) == len(spaces)
        super().__init__(types.SimpleNamespace(tag_="NN") for _ in words)
        self.noun_chunks = [types.SimpleNamespace(start=0, end=2)]


@pytest.fixture(autouse=True)
def looked_up_again():
    """What is installed is looked up once for a process."""
    for known in (tagging._is_installed, tagging._version):
        known.cache_clear()
    yield
    for known in (tagging._is_installed, tagging._version):
        known.cache_clear()


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
def test_spacy_is_used_if_it_is_installed_and_named_with_its_version():
    assert tagger_name("auto") == tagger_name("spacy") == "spacy 3.8.7, en_core_web_sm 3.8.0"
    for tagger in ("auto", "spacy"):
        tagged, empty = tag(["a man's  dog.", ""], tagger)
        assert tagged.words == ["a", "man", "'s", "dog", "."]
        assert tagged.tags == ("NN",) * 5
        assert tagged.noun_phrases == ((0, 2),)
        assert empty == ("", (), (), ())
    assert tag(["a dog"], "textblob")[0].tags == ("DT", "NN")
    assert perturb.perturb(["a dog"]).perturbed["shuffle_nouns_and_adjectives"] == ["dog a"]


def test_without_spacy_textblob_is_used_and_spacy_is_refused_with_a_cure(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "spacy" in name else find(name))
    assert tagger_name("auto") == tagger_name("textblob")
    assert tag(["a dog"])[0].tags == ("DT", "NN")
    with pytest.raises(ModelError, match=r"needs spacy and en_core_web_sm.*python -m spacy download en_core_web_sm"):
        tag(["a dog"], "spacy")


def test_without_the_extra_errors_name_it_and_what_needs_no_tags_still_works(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for module in ("textblob", "inflect", "nltk.tokenize"):
        monkeypatch.setitem(sys.modules, module, None)
    words._load_engine.cache_clear()
    perturb._nltk_tokenizer.cache_clear()
    article.cache_clear()
    for needs_extra in (
        lambda: tag(["a dog"]),
        lambda: make_by_rule("swap_obj", ["a dog and a cat"]),
        lambda: article("dog"),
        lambda: perturb.perturb([], ["shuffle_trigrams"], units="tokens"),
        lambda: perturb.perturb([], ["shuffle_nouns_and_adjectives"]),
    ):
        with pytest.raises(ModelError, match=r"pip install 'vl-assay\[authoring\]'"):
            needs_extra()
    assert perturb.perturb(["a dog"], ["shuffle_all_words"]).perturbed == {"shuffle_all_words": ["dog a"]}
    assert shuffle_caption("shuffle_trigrams", "a red disc above a star", 0) == "above a star a red disc"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("an", "elephant owl hour honest heir unimpressed urn 8 80s 11th 18-wheeler MP3 HD lcd x-ray SUV étude"),
        ("a", "dog house unicorn uniform useful utensil European one one-eyed once 1 110 UFO TV u-turn t-shirt St."),
    ],
)
def test_the_article_follows_the_sound(form, words):
    assert {word: article(word) for word in words.split()} == dict.fromkeys(words.split(), form)
    assert wrong_articles(" ".join(f"{form} {word}" for word in words.split())) == []


@pytest.mark.parametrize(
    ("text", "adapted"),
    [
        ("behind a elephant, an fence", "behind an elephant, a fence"),
        ('A "old" dog and an (new) cat', 'An "old" dog and a (new) cat'),
        ("AN MAN ON A OLD BUS", "A MAN ON An OLD BUS"),
        ("an NBA game, a NASA rocket, a 1800s house", None),
        ("vitamin A is in a cat's ear at 5 a.m. on plan-a early", None),
        ("a a a", None),
        ("a", None),
        ("a $5 bill", None),
    ],
)
def test_only_wrong_articles_are_adapted(text, adapted):
    assert adapt_articles(text) == (adapted or text)
    assert bool(wrong_articles(text)) == bool(adapted)


def test_articles_agree_with_what_people_wrote_as_the_module_says(shared_data):
    captions = [row["title"] for row in negclip_rows(shared_data)]
    captions += [row["caption"] for row in sugarcrepe_rows(shared_data)]
    captions = list(dict.fromkeys(captions))
    wrong = sum(len(wrong_articles(caption)) for caption in captions)
    assert f"articles in {len(captions):,} captions" in articles.__doc__
    assert f" {wrong} are wrong by them" in articles.__doc__
