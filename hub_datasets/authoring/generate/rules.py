"""Candidates made by rule, without a language model, such as the negatives of ARO and CREPE, for comparison.

Rules know neither the image nor what makes sense, so such candidates can often be told from what people write
(SugarCrepe, section 3 and Table 5). Words are exchanged within the lists of ``lexicon.yaml``. If at least two terms of
a list occur in the captions, only those are used, so that no candidate has a word that no caption has. With the lexicon
``wordnet``, new objects are the sisters of a noun (other hyponyms of its hypernym), and synonyms those of the first
sense; that needs nltk and its corpus.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ....metrics.common.errors import ModelError, check_known
from ..text.articles import adapt_articles, article
from ..text.negatives import Negative, crepe_negations, crepe_replacements, crepe_swaps, exchange, put_in
from ..text.perturb import caption_rng, perturb
from ..text.tagging import Tagged, tag
from ..text.words import split
from .checks import KINDS
from .formatting import accept, conform
from .paraphrases import paraphrases
from .rejected import Rejected

# SugarCrepe's Table 5 has negated and shuffled captions, too.
RULE_KINDS = (*KINDS, "negate", "shuffle")
LEXICONS = ("builtin", "wordnet")

_WORDS = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8"))
Lists = Mapping[str, Sequence[str]]
OBJECTS: Lists = _WORDS["objects"]
ATTRIBUTES: Lists = _WORDS["attributes"]
RELATIONS: Lists = _WORDS["relations"]
_REPLACED = {"replace_obj": OBJECTS, "replace_att": ATTRIBUTES, "replace_rel": RELATIONS}
# The attributes that are added to objects, and nouns of places, such as "the right", that are not objects.
_ADDED = ("colour", "size")
_NO_OBJECTS = frozenset(["left", "right", "top", "front", "back", "side", "middle", "center", "edge", "end", "rear"])
_WORDNET_POS = {"NN": "n", "JJ": "a"}

# A candidate and its detail.
_Found = tuple[str, dict[str, Any]]


def make_by_rule(
    kind: str, captions: Sequence[str], seed: int = 0, *, most: int = 1, lexicon: str = "builtin"
) -> list[list[_Found | Rejected]]:
    """The candidates of one kind that rules make of captions.

    Args:
        kind: one of ``RULE_KINDS``.
        captions: n texts.
        seed: any integer; a caption's candidates depend on it and on the words of the other captions.
        most: at most so many candidates for a caption, at least 1.
        lexicon: ``"builtin"`` or ``"wordnet"``.

    Returns:
        For each caption one to `most` candidates with their details, or the reason why there are none.

    Raises:
        UnknownNameError: an unknown kind or lexicon.
        ModelError: ``"wordnet"`` without nltk or its corpus; the message says how to get it.
    """
    check_known("kind of candidates", [kind], RULE_KINDS)
    check_known("lexicon", [lexicon], LEXICONS)
    wordnet = _open_wordnet() if lexicon == "wordnet" else None
    made = _make(kind, captions, seed, most, wordnet)
    return [_checked(kind, caption, found) for caption, found in zip(captions, made, strict=True)]


def _make(kind: str, captions: Sequence[str], seed: int, most: int, wordnet: Any) -> list[list[_Found]]:
    """The candidates of each caption."""
    match kind:
        case "replace_obj" if wordnet is not None:
            rule, texts = "a sister in WordNet", partial(_sisters, wordnet)
        case "replace_obj" | "replace_att" | "replace_rel":
            found = crepe_replacements(captions, _in_use(_REPLACED[kind], captions), seed, most=most)
            return _described("replaced by another {}", found)
        case "swap_obj" | "swap_att":
            element = "noun" if kind == "swap_obj" else "adjective"
            found = crepe_swaps(captions, seed, kinds=[element], most=most, tagger="plain")
            # To the tagger words of place are nouns, but "a ring of a left" is not a swap of objects.
            kept = [
                [each for each in own if _directions(each.caption) == _directions(caption)]
                for caption, own in zip(captions, found, strict=True)
            ]
            return _described("two {}s exchanged", kept)
        case "negate":
            return _described("{} negated", crepe_negations(captions, seed, most=most, tagger="plain"))
        case "shuffle":
            [shuffled] = perturb(captions, ["shuffle_all_words"], seed=seed, max_words=None).perturbed.values()
            return [[] if text is None else [(text, {"rule": "words shuffled"})] for text in shuffled]
        case "add_obj":
            rule, texts = "an object added", partial(_add_objects, _in_use(OBJECTS, captions))
        case "add_att":
            lists = _in_use({name: ATTRIBUTES[name] for name in _ADDED}, captions)
            rule, texts = "an attribute added", partial(_add_attributes, lists)
        case "positive_replace":
            rule, texts = "a synonym", partial(_paraphrase, wordnet)
        case _:
            rule, texts = "order around 'and'", _swap_joined
    made = []
    for tagged in tag(captions, "plain"):
        found = list(dict(texts(tagged)).items())
        order: np.ndarray = caption_rng(seed, kind, tagged.text).permutation(len(found))[:most]
        made.append([(found[place][0], {"rule": rule, **found[place][1]}) for place in order.tolist()])
    return made


def _described(rule: str, found: list[list[Negative]]) -> list[list[_Found]]:
    return [[(each.caption, {"rule": rule.format(each.kind)}) for each in own] for own in found]


def _checked(kind: str, caption: str, found: list[_Found]) -> list[_Found | Rejected]:
    if not found:
        return [Rejected("not possible", "no rule fits")]
    outcomes: list[_Found | Rejected] = []
    for text, detail in found:
        try:
            old, new = [detail["old"]] if "old" in detail else [], detail.get("new", "")
            outcomes.append(
                (accept(kind, caption, text, old, new) if kind in KINDS else conform(caption, text), detail)
            )
        except Rejected as error:
            outcomes.append(error)
    return outcomes


def _in_use(lists: Lists, captions: Sequence[str]) -> Lists:
    """The terms of each list that occur in captions, if at least two do; else all of them."""
    grams = {
        " ".join(words[at : at + length])
        for words in (split(caption).lower for caption in captions)
        for length in (1, 2, 3)
        for at in range(len(words) - length + 1)
    }
    used = {kind: [term for term in terms if term in grams] for kind, terms in lists.items()}
    return {kind: found if len(found) > 1 else lists[kind] for kind, found in used.items()}


def _directions(caption: str) -> list[tuple[int, str]]:
    return [(place, word) for place, word in enumerate(split(caption).lower) if word in _NO_OBJECTS]


def _add_objects(lists: Lists, tagged: Tagged) -> Iterator[_Found]:
    """ "and a dog" after a noun phrase with a noun of the same list."""
    words = [word.lower() for word in tagged.words]
    for first, end in tagged.noun_phrases:
        if words[first] not in ("a", "an", "the", "one"):
            continue
        place = tagged.spans[end - 1][1]
        for term in itertools.chain.from_iterable(terms for terms in lists.values() if words[end - 1] in terms):
            if term not in words:
                yield f"{tagged.text[:place]} and {article(term)} {term}{tagged.text[place:]}", {"new": term}


def _add_attributes(lists: Lists, tagged: Tagged) -> Iterator[_Found]:
    """A colour or size right after an article: a dog becomes a red dog."""
    for first, end in tagged.noun_phrases:
        inside = [word.lower() for word in tagged.words[first:end]]
        if inside[0] not in ("a", "an", "the") or end - first < 2 or _NO_OBJECTS & set(inside):
            continue
        (start, after), following = tagged.spans[first], tagged.spans[first + 1][0]
        for term in itertools.chain.from_iterable(terms for terms in lists.values() if not set(terms) & set(inside)):
            own = inside[0] if inside[0] == "the" else article(term)
            rest = f"{tagged.text[after:following]}{term} {tagged.text[following:]}"
            yield tagged.text[:start] + own + rest, {"new": term}


def _paraphrase(wordnet: Any, tagged: Tagged) -> Iterator[_Found]:
    for text, old, new in paraphrases(tagged):
        yield text, {"old": old, "new": new}
    if wordnet is not None:
        for span, word, name in zip(tagged.spans, tagged.words, tagged.tags, strict=True):
            senses = wordnet.synsets(word.lower(), pos=_WORDNET_POS[name])[:1] if name in _WORDNET_POS else ()
            for new in _lemmas(senses):
                if new != word.lower():
                    yield put_in(tagged.text, span, new), {"old": word, "new": new}


# What stands right behind two joined phrases and belongs to the second alone, as in "a bed and a desk with a lamp".
_OF_THE_SECOND = frozenset(("with", "of", "that", "which", "who", "whose"))
# "His dog and a man" and "another dog and a dog" lose what they refer to.
_REFERRING = frozenset(("his", "her", "their", "its", "my", "your", "our", "another", "other", "one"))
_BLACK_AND_WHITE = frozenset(("black", "white"))
_PICTURES = frozenset(("photo", "photos", "photograph", "picture", "pictures", "image", "images", "portrait", "shot"))


def _swap_joined(tagged: Tagged) -> Iterator[_Found]:
    """Exchange noun phrases, or adjectives before a noun, on both sides of "and"."""
    adjectives = [(at, at + 1) for at, name in enumerate(tagged.tags) if name == "JJ"]
    for at, word in enumerate(tagged.words):
        for parts in (tagged.noun_phrases, adjectives) if word.lower() == "and" else ():
            left = next((part for part in parts if part[1] == at), None)
            right = next((part for part in parts if part[0] == at + 1), None)
            if left and right and _means_the_same(tagged, left, right, is_adjective=parts is adjectives):
                yield adapt_articles(exchange(tagged, left, right), tagged.text), {}


def _means_the_same(tagged: Tagged, left: tuple[int, int], right: tuple[int, int], *, is_adjective: bool) -> bool:
    """Whether nothing else hangs on one of two joined parts alone, as far as the words beside them tell.

    "A man in a hat and a dog" joins the man and the dog; "a horse and a dog running" says something of the dog.
    """
    words, tags = [word.lower() for word in tagged.words], tagged.tags
    parts = {*words[left[0] : left[1]], *words[right[0] : right[1]]}
    after = words[right[1]] if right[1] < len(words) else ""
    if is_adjective:
        # A black and white photograph has no colours, and nobody says it the other way round.
        return (
            bool(after) and tags[right[1]].startswith("NN") and not (parts == _BLACK_AND_WHITE and after in _PICTURES)
        )
    if parts & _REFERRING or "POS" in tags[left[0] : right[1]] or after in _OF_THE_SECOND:
        return False
    if left[0] == 0:
        return True
    follows = tags[left[0] - 1].startswith("VB") or words[left[0] - 1] == "with"
    return follows and not any(tag.startswith("VB") for tag in tags[right[1] :])


def _sisters(wordnet: Any, tagged: Tagged) -> Iterator[_Found]:
    for span, word, name in zip(tagged.spans, tagged.words, tagged.tags, strict=True):
        for sense in wordnet.synsets(word.lower(), pos="n")[:1] if name == "NN" else ():
            own = {lemma.lower() for lemma in _lemmas([sense])}
            sisters = [sister for parent in sense.hypernyms() for sister in parent.hyponyms() if sister != sense]
            for new in _lemmas(sisters):
                if new not in own:
                    yield put_in(tagged.text, span, new), {"old": word, "new": new}


def _lemmas(synsets: Sequence[Any]) -> list[str]:
    """The words of synsets, without names and longer phrases."""
    names = [name.replace("_", " ") for synset in synsets for name in synset.lemma_names()]
    return [name for name in names if name == name.lower() and len(name.split()) < 3]


def _open_wordnet() -> Any:
    try:
        from nltk.corpus import wordnet  # pyright: ignore[reportMissingImports]

        wordnet.synsets("dog", pos="n")
    except (ImportError, LookupError) as error:
        raise ModelError(
            "the lexicon 'wordnet' needs nltk and its corpus; run 'pip install nltk' and 'python -m nltk.downloader "
            f"wordnet', or choose the lexicon 'builtin' ({type(error).__name__})"
        ) from error
    return wordnet
