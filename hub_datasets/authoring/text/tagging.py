"""Part-of-speech tags of English image captions, by spaCy where it is installed, else by the plain tagger.

The plain tagger needs no download and gives the same tags everywhere. It has word lists (``plain_words.yaml``),
endings of words and some thirty rules about neighbouring words, made for short captions such as those of COCO: unknown
words and names are common nouns. `negatives` measures its agreement with spaCy.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.common.errors import DataError, ModelError, check_known
from ....metrics.functional.checks import name_rows

TAGGERS = ("auto", "spacy", "plain")
SPACY_MODEL = "en_core_web_sm"
# Raised with every change of the word lists or rules, as cards record it.
PLAIN_VERSION = 1

Span = tuple[int, int]

_BE = frozenset(["is", "are", "was", "were", "be", "been", "being", "am"])
_HAVE_OR_DO = frozenset(["has", "have", "had", "do", "does", "did"])

# Punctuation, hyphens and clitics (n't, 's) stand by themselves, as in the Penn Treebank and with spaCy.
_TOKEN = re.compile(
    r"(?:(?!n['’]t\b)[^\W_])+(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,:]\d+)+|[^\W_]+|\S", re.IGNORECASE
)


class Tagged(NamedTuple):
    """A caption with the tags of its tokens.

    Attributes:
        text: the caption.
        spans: of each token, its first character and the one after its last.
        tags: of each token, its Penn Treebank tag: ``NN``, ``NNS``, ``JJ``, ``VBG`` …
        noun_phrases: (first token, one after the last) of each, without prepositional phrases, from left to right.
    """

    text: str
    spans: tuple[Span, ...]
    tags: tuple[str, ...]
    noun_phrases: tuple[Span, ...]

    @property
    def words(self) -> list[str]:
        """The text of each token."""
        return [self.text[start:end] for start, end in self.spans]

    @property
    def verb_phrases(self) -> list[Span]:
        """Verbs with the auxiliaries and adverbs before them, as ranges of tokens: "is slowly walking"."""
        letters = ""
        for word, tag, following in zip(self.words, self.tags, [*self.tags[1:], ""], strict=False):
            verb_follows = following.startswith(("VB", "RB"))
            helps = tag == "MD" or word.lower() in _BE or (word.lower() in _HAVE_OR_DO and verb_follows)
            letters += "h" if helps else tag[:1] if tag.startswith(("VB", "RB")) else " "
        return [match.span() for match in re.finditer("(?:[hR]*V)+", letters)]


def tag(captions: Sequence[str], tagger: str = "auto") -> list[Tagged]:
    """Tag captions, each independently of the others.

    Args:
        captions: n texts, as released: case and punctuation help.
        tagger: ``"spacy"`` is spaCy with the model ``en_core_web_sm``; ``"plain"`` is the tagger of this module;
            ``"auto"`` is spaCy where both are installed and ``"plain"`` otherwise (see `tagger_name`).

    Returns:
        The n tagged captions. Both taggers get the same tokens.

    Raises:
        DataError: a caption that is not a string; the message names the rows.
        UnknownNameError: a ``tagger`` that is not one of ``TAGGERS``.
        ModelError: ``"spacy"`` where spaCy or its model is not installed.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 2.2, for spaCy.

    >>> first, = tag(["a man is riding a brown horse"], "plain")
    >>> first.tags
    ('DT', 'NN', 'VBZ', 'VBG', 'DT', 'JJ', 'NN')
    >>> first.noun_phrases, first.verb_phrases
    (((0, 2), (4, 7)), [(2, 4)])
    """
    check_captions(captions)
    if _choose(tagger) == "spacy":
        return list(_tag_with_spacy(captions))
    return [_tag_plainly(text) for text in captions]


def tagger_name(tagger: str = "auto") -> str:
    """The tagger that `tag` uses for that choice, with versions; raises as `tag` does.

    >>> tagger_name("plain")
    'plain 1'
    """
    if _choose(tagger) == "plain":
        return f"plain {PLAIN_VERSION}"
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("spacy", SPACY_MODEL))


def check_captions(captions: Sequence[str]) -> None:
    """Raise a `DataError` unless the captions are a list of texts."""
    if isinstance(captions, str):
        raise DataError(f"one text came, {captions[:40]!r}; pass a list of captions")
    bad = [not isinstance(caption, str) for caption in captions]
    if any(bad):
        raise DataError(f"a caption is {captions[bad.index(True)]!r} in {name_rows(bad)}; expected strings")


def _choose(tagger: str) -> str:
    check_known("tagger", [tagger], TAGGERS)
    missing = [name for name in ("spacy", SPACY_MODEL) if tagger != "plain" and not importlib.util.find_spec(name)]
    if tagger == "spacy" and missing:
        raise ModelError(
            f"the tagger 'spacy' needs {' and '.join(missing)}, which this Python does not have; run "
            f"'pip install spacy' and 'python -m spacy download {SPACY_MODEL}', or choose the tagger 'plain'"
        )
    return "plain" if tagger == "plain" or missing else "spacy"


def _split(text: str) -> tuple[Span, ...]:
    return tuple(match.span() for match in _TOKEN.finditer(text))


@functools.cache
def _load_spacy() -> Any:
    return importlib.import_module("spacy").load(SPACY_MODEL, exclude=["ner", "lemmatizer"])


def _tag_with_spacy(captions: Sequence[str]) -> Iterator[Tagged]:
    model = _load_spacy()
    document = importlib.import_module("spacy.tokens").Doc
    for text in captions:
        spans = _split(text)
        words, spaces = [text[start:end] for start, end in spans], [text[end : end + 1].isspace() for _, end in spans]
        # One caption at a time, as the batch could change close decisions.
        parsed = model(document(model.vocab, words, spaces))
        phrases = tuple((phrase.start, phrase.end) for phrase in parsed.noun_chunks) if words else ()
        yield Tagged(text, spans, tuple(token.tag_ for token in parsed), phrases)


# From here on the plain tagger: its words, then rules about their neighbours.
_ADJECTIVE_ENDINGS = ("ful", "ous", "less", "ish", "ical", "able", "ible", "tive", "sive", "ular", "esque")


@functools.cache
def _lexicon() -> dict[str, str]:
    """The tag of each known word, or two tags with a bar between them where the neighbours decide."""
    import yaml

    words = yaml.safe_load(Path(__file__).with_name("plain_words.yaml").read_text(encoding="utf-8"))
    tags: dict[str, str] = {}
    for verbs, base, third in (("verbs", "VB|NN", "VBZ|NNS"), ("nouns or verbs", "NN|VB", "NNS|VBZ")):
        for verb in words[verbs].split():
            stem = re.sub("(?<=[^aeiou])y$", "i", verb)
            es = stem != verb or verb.endswith(("s", "x", "z", "ch", "sh", "o"))
            tags[verb], tags[stem + ("es" if es else "s")] = base, third
    lists = {"activities": "NN|VBG", "singulars": "NN", "adjectives": "JJ", "adjectives or nouns": "JJ|NN"}
    for name, tag in lists.items():
        tags |= dict.fromkeys(words[name].split(), tag)
    return tags | {word: tag for tag, listed in words["tags"].items() for word in listed.split()}


@functools.lru_cache(100_000)
def _class_of(word: str) -> str:
    """The entry of the lexicon, or a guess by the word's ending."""
    lexicon = _lexicon()
    if word in lexicon:
        return lexicon[word]
    if not word[0].isalnum():
        return {"?": ".", "!": ".", ".": ".", ",": ","}.get(word, ":")
    if word[0].isdigit():
        return "CD"
    for ending, tag in (("er", "JJR"), ("est", "JJS")):
        stem = re.sub("i$", "y", word.removesuffix(ending))
        forms = (stem, stem + "e", re.sub(r"(.)\1$", r"\1", stem))
        if word.endswith(ending) and any(lexicon.get(form, "").startswith("JJ") for form in forms):
            return tag
    for tag, endings in (("VBG", "ing"), ("VBN", "ed"), ("RB", "ly"), ("JJ", _ADJECTIVE_ENDINGS)):
        if word.endswith(endings) and len(word) > 3 + (tag != "VBN") and not word.endswith("eed"):
            return tag
    return "NNS" if len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else "NN"


_NOUNS = ("NN", "NNS")
_NOUN_LIKE = ("NN", "NNS", "JJ|NN", "NN|VB", "NNS|VBZ", "VB|NN", "NN|VBG")
_OPENERS = ("DT", "PRP$", "JJ", "JJR", "JJS", "CD", "POS")
_COMPLEMENTS = ("DT", "PRP$", "PRP", "IN", "TO", "RP", "RB", "VBG", "CD")


class _Place(NamedTuple):
    """A word's class, the class after it, and the words and tags before it."""

    kind: str
    following: str
    tags: list[str]
    words: list[str]
    before: str
    subject: str
    opened: bool
    noun_follows: bool


def _tag_plainly(text: str) -> Tagged:
    spans = _split(text)
    lowered = [text[start:end].lower().replace("’", "'") for start, end in spans]
    classes = [_class_of(word) for word in lowered]
    tags: list[str] = []
    for number, (word, kind, following) in enumerate(zip(lowered, classes, [*classes[1:], ""], strict=False)):
        before = tags[-1] if tags else ""
        subject = next((tag for tag in reversed(tags) if tag != "RB"), "")
        opened, noun_follows = before in _OPENERS, following in _NOUN_LIKE
        place = _Place(kind, following, tags, ["", *lowered[:number]], before, subject, opened, noun_follows)
        tags.append(_by_word(word, place) or _by_class(place))
    return Tagged(text, spans, tuple(tags), _noun_phrases(text, spans, tags))


def _by_word(word: str, place: _Place) -> str:
    """The tag of a word with rules of its own, or nothing."""
    before, following, noun_follows = place.before, place.following, place.noun_follows
    match word:
        case "'s":
            is_verb = before in ("PRP", "EX", "WP") and not noun_follows
            return "VBZ" if is_verb or following == "VBG" else "POS"
        case "that":
            return "DT" if noun_follows and before not in _NOUNS else "WDT"
        case "her":
            return "PRP$" if noun_follows or following in ("JJ", "VBN") else "PRP"
        case "there":
            return "EX" if following in ("VBZ", "VBP", "VBD", "MD") else "RB"
        case "one":
            return "NN" if following in ("VBZ", "MD", "VBD") else "CD"
        case "back":
            return "NN" if place.opened else "RB"
        case "outside" | "inside":
            return "JJ" if before == "DT" and noun_follows else "RB" if word == "outside" or following == "IN" else "IN"
        case "close" | "nearby" | "next":
            return "JJ" if noun_follows and before else "NN" if before == "DT" and following == "RP" else "RB"
        case "front" | "light":
            return "JJ" if following.startswith("JJ") or (noun_follows and word == "front") else "NN"
        case "fast" | "hard" | "high" | "low" if not noun_follows and before in ("VBG", "RB", "VBZ"):
            return "RB"
        case "straight":
            return "JJ" if noun_follows else "RB"
        case "down":
            return "RB" if place.words[-1] == "upside" else "IN" if noun_follows or following in _OPENERS else "RP"
        case "left" | "right":
            return "JJ" if noun_follows else "NN" if place.opened else "VBN" if word == "left" else "RB"
    return ""


def _by_class(place: _Place) -> str:
    before, following, noun_follows = place.before, place.following, place.noun_follows
    match place.kind:
        case "JJ|NN":
            alone = not noun_follows and following not in ("JJ", "VBN", "VBG", "CC", ",", ":")
            return "NN" if alone and (place.opened or place.words[-1] == "of") else "JJ"
        case "NN|VB" | "VB|NN":
            return _noun_or_base(place)
        case "NNS|VBZ" | "VBZ|NNS":
            return _plural_or_third(place)
        case "NN|VBG":
            names_it = noun_follows and before not in ("VBZ", "VBP") and place.words[-1] != "while"
            return "NN" if names_it or place.opened else "VBG"
        case "VBG" if before in ("DT", "PRP$") and not noun_follows and following != "JJ":
            return "NN"
        case "VBN" if place.opened or before in ("", "IN", "CC", ","):
            return "JJ" if noun_follows or following == "JJ" else "VBN"
        case "VBN" if following in ("DT", "PRP$") and before in _NOUNS:
            return "VBD"
        case "NNS" if following in ("DT", "PRP$") and before in ("NN", "WDT") and "VBZ" not in place.tags:
            return "VBZ"
    return place.kind


def _noun_or_base(place: _Place) -> str:
    verbal = place.kind == "VB|NN"
    infinitive = place.before == "TO" and place.following and place.words[-2] != "next"
    if infinitive or place.subject == "MD" or place.words[-1] in ("not", "n't"):
        return "VB"
    if place.subject in ("NNS", "PRP", "WP", "WDT") and (verbal or place.following in _COMPLEMENTS):
        return "VBP"
    if place.before == "CC" and "VBP" in place.tags and place.following in _COMPLEMENTS:
        return "VBP"
    return "VBP" if verbal and place.following in ("DT", "PRP$") and not place.opened else "NN"


def _plural_or_third(place: _Place) -> str:
    before, following, acting = place.before, place.following, place.subject in ("NN", "NNS", "PRP", "WP", "WDT")
    if place.opened or before == "IN":
        return "NNS"
    acts = place.kind == "VBZ|NNS" and acting
    governs = following in ("DT", "PRP$", "PRP", "JJ", "JJ|NN", "CD") and (acting or before == "CC")
    goes_on = before == "CC" and "VBZ" in place.tags and following in _COMPLEMENTS
    return "VBZ" if acts or governs or goes_on or before in ("PRP", "WP", "WDT", "RB") else "NNS"


_LETTERS = {"DT": "D", "PRP$": "D", "NN": "N", "NNS": "N", "POS": "P", "RB": "R", "CC": "C", ",": "C", "VBN": "E"}
_LETTERS |= {"VBG": "G", "JJ": "J", "JJR": "J", "JJS": "J", "CD": "J"}
# An opening, modifiers, a noun, and more nouns with what may stand between them: a well-known, bright red school bus.
_NOUN_PHRASE = re.compile("D*(?:J|H|R(?=[JE])|E(?=[NJH])|(?<=[DJ])G(?=[NJ])|(?<=J)C(?=J))*N(?:(?:[PH][JE]*|E)?N)*")


def _noun_phrases(text: str, spans: Sequence[Span], tags: Sequence[str]) -> tuple[Span, ...]:
    letters = ""
    for place, ((start, end), tag) in enumerate(zip(spans, tags, strict=True)):
        hyphen = text[start:end] == "-" and place > 0 and spans[place - 1][1] == start
        # In "snow covered trees" a participle stands between nouns, whatever its tag.
        participle = tag == "JJ" and text[start:end].endswith("ed") and letters.endswith("N")
        letters += "H" if hyphen else "E" if participle else _LETTERS.get(tag, " ")
    return tuple(match.span() for match in _NOUN_PHRASE.finditer(letters))
