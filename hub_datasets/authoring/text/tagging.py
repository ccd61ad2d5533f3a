"""Part-of-speech tags of English image captions, by spaCy if its model is installed, else by TextBlob.

TextBlob's `PatternTagger` needs no download: its lexicon is in its wheel. It was made for newspapers, so a few rules
correct words that captions use otherwise ("a teddy bear", "a stop sign", "on top of"). `negatives` measures the tags
against spaCy's.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ....metrics.common.errors import DataError, ModelError, check_known
from ....metrics.estimation.checks import name_rows
from .words import LOADING

TAGGERS = ("auto", "spacy", "textblob")
SPACY_MODEL = "en_core_web_sm"
# Raised with every change of the corrections, as cards record it.
CORRECTIONS_VERSION = 1

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
        spans: for each token, the indices of its first character and of the one after its last.
        tags: for each token, its Penn Treebank tag: ``NN``, ``NNS``, ``JJ``, ``VBG`` …
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
        """Return verbs with the auxiliaries and adverbs before them, as ranges of tokens: "is slowly walking"."""
        letters = ""
        for word, tag, following in zip(self.words, self.tags, [*self.tags[1:], ""], strict=False):
            verb_follows = following.startswith(("VB", "RB"))
            helps = tag == "MD" or word.lower() in _BE or (word.lower() in _HAVE_OR_DO and verb_follows)
            letters += "h" if helps else tag[:1] if tag.startswith(("VB", "RB")) else " "
        return [match.span() for match in re.finditer("(?:[hR]*V)+", letters)]


def tag(captions: Sequence[str], tagger: str = "auto") -> list[Tagged]:
    """Tag captions, each independently of the others.

    Args:
        captions: n texts, as released: punctuation helps.
        tagger: ``"spacy"`` is spaCy with the model ``en_core_web_sm``; ``"textblob"`` is TextBlob; ``"auto"`` is spaCy
            if it and its model are installed and TextBlob otherwise (see `tagger_name`).

    Returns:
        The n tagged captions. Both taggers get the same tokens.

    Raises:
        DataError: a caption is not a string; the message names the rows.
        UnknownNameError: ``tagger`` is not one of ``TAGGERS``.
        ModelError: the tagger is not installed.

    Source: ARO (Yuksekgonul et al., ICLR 2023), section 2.2, for spaCy.

    >>> first, = tag(["a man is riding a brown horse"], "textblob")
    >>> first.tags
    ('DT', 'NN', 'VBZ', 'VBG', 'DT', 'JJ', 'NN')
    >>> first.noun_phrases, first.verb_phrases
    (((0, 2), (4, 7)), [(2, 4)])
    """
    check_captions(captions)
    return list((_tag_with_spacy if _choose(tagger) == "spacy" else _tag_with_textblob)(captions))


def tagger_name(tagger: str = "auto") -> str:
    """Return the name and version of the tagger that `tag` uses; raises as `tag` does.

    >>> tagger_name("textblob")
    'textblob 0.20.1, corrections 1'
    """
    if _choose(tagger) == "spacy":
        return ", ".join(f"{name} {_version(name)}" for name in ("spacy", SPACY_MODEL))
    return f"textblob {_version('textblob')}, corrections {CORRECTIONS_VERSION}"


def check_captions(captions: Sequence[str]) -> None:
    """Raise a `DataError` unless the captions are a list of texts."""
    if isinstance(captions, str):
        raise DataError(f"one text came, {captions[:40]!r}; pass a list of captions")
    bad = [not isinstance(caption, str) for caption in captions]
    if any(bad):
        raise DataError(f"a caption is {captions[bad.index(True)]!r} in {name_rows(bad)}; expected strings")


def _choose(tagger: str) -> str:
    check_known("tagger", [tagger], TAGGERS)
    missing = [name for name in ("spacy", SPACY_MODEL) if tagger != "textblob" and not _is_installed(name)]
    if tagger == "spacy" and missing:
        raise ModelError(
            f"the tagger 'spacy' needs {' and '.join(missing)}, which this Python does not have; run "
            f"'pip install spacy' and 'python -m spacy download {SPACY_MODEL}', or choose the tagger 'textblob'"
        )
    if tagger != "textblob" and not missing:
        return "spacy"
    if not _is_installed("textblob"):
        raise ModelError("tags of words need TextBlob: pip install 'vl-assay[authoring]'")
    return "textblob"


# Looking for a package takes as long as tagging a caption.
@functools.cache
def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@functools.cache
def _version(name: str) -> str:
    return importlib.metadata.version(name)


def _split(text: str) -> tuple[Span, ...]:
    return tuple(match.span() for match in _TOKEN.finditer(text))


@functools.cache
def _load_spacy() -> Any:
    return importlib.import_module("spacy").load(SPACY_MODEL, exclude=["ner", "lemmatizer"])


@functools.cache
def _load_textblob() -> Any:
    model = importlib.import_module("textblob.en.taggers").PatternTagger()
    model.tag("a dog", tokenize=False)  # reads its lexicon
    return model


@functools.cache
def _load_corrections() -> list[tuple[re.Pattern[str], str]]:
    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return [(re.compile(pattern), correct) for pattern, correct in rows]


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


def _tag_with_textblob(captions: Sequence[str]) -> Iterator[Tagged]:
    with LOADING:
        model, corrections = _load_textblob(), _load_corrections()
    for text in captions:
        spans = _split(text)
        # Capitals would make names of the first words of sentences.
        words = " ".join(text[start:end].lower().replace("’", "'") for start, end in spans)
        tagged = " ".join(["", *(f"{word}/{name}" for word, name in model.tag(words, tokenize=False) if word), ""])
        for pattern, correct in corrections:
            tagged = pattern.sub(correct, tagged)
        tags = tuple(token.rpartition("/")[2] for token in tagged.split())
        yield Tagged(text, spans, tags, _noun_phrases(text, spans, tags))


_LETTERS = {"DT": "D", "PRP$": "D", "NN": "N", "NNS": "N", "NNP": "N", "NNPS": "N", "POS": "P", "RB": "R", "CC": "C"}
_LETTERS |= {",": "C", "VBN": "E", "VBD": "E", "VBG": "G", "JJ": "J", "JJR": "J", "JJS": "J", "CD": "J"}
# An opening, modifiers, a noun, and more nouns with what may stand between them: a well-known, bright red school bus.
_NOUN_PHRASE = re.compile("D*(?:J|H|R(?=[JE])|E(?=[NJH])|(?<=[DJ])G(?=[NJ])|(?<=J)C(?=J))*N(?:(?:[PH][JE]*|E)?N)*")


def _noun_phrases(text: str, spans: Sequence[Span], tags: Sequence[str]) -> tuple[Span, ...]:
    letters = ""
    for index, ((start, end), tag) in enumerate(zip(spans, tags, strict=True)):
        hyphen = text[start:end] == "-" and index > 0 and spans[index - 1][1] == start
        # In "snow covered trees" a participle stands between nouns, whatever its tag.
        participle = tag == "JJ" and text[start:end].endswith("ed") and letters.endswith("N")
        letters += "H" if hyphen else "E" if participle else _LETTERS.get(tag, " ")
    return tuple(match.span() for match in _NOUN_PHRASE.finditer(letters))
