"""Candidates made by rule, without a language model, such as the negatives of ARO and CREPE, for comparison.

Rules know neither the image nor what makes sense, so such candidates can often be told from what people write
(SugarCrepe, section 3 and Table 5). Words are exchanged within the lists of ``lexicon.yaml``. If at least two terms of
a list occur in the captions, only those are used, so that no candidate has a word that no caption has. With the lexicon
``wordnet``, new objects are the sisters of a noun (other hyponyms of its hypernym), and synonyms those of the first
sense; that needs nltk and its corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ....metrics.common.errors import ModelError, UnknownNameError
from ..text.articles import adapt_articles, article
from ..text.negatives import crepe_negations, crepe_replacements, crepe_swaps, exchange, put_in
from ..text.perturb import caption_rng, perturb
from ..text.tagging import Tagged, tag
from .checks import KINDS, Rejected, check, conform, find, split

# SugarCrepe's Table 5 has negated and shuffled captions, too.
RULE_KINDS = (*KINDS, "negate", "shuffle")
LEXICONS = ("builtin", "wordnet")

_WORDS = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8"))
Lists = Mapping[str, Sequence[str]]
OBJECTS: Lists = _WORDS["objects"]
ATTRIBUTES: Lists = _WORDS["attributes"]
RELATIONS: Lists = _WORDS["relations"]
SYNONYMS: Sequence[Sequence[str]] = _WORDS["synonyms"]
# The attributes that are added to objects, and nouns of places, such as "the right", that are not objects.
_ADDED = ("colour", "size")
_NO_OBJECTS = frozenset(["left", "right", "top", "front", "back", "side", "middle", "center", "edge", "end", "rear"])
_WORDNET_POS = {"NN": "n", "JJ": "a"}

# A candidate and its detail; the candidates of each caption.
_Found = tuple[str, dict[str, Any]]
_Made = list[list[_Found]]


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
    for what, name, known in (("kind of candidates", kind, RULE_KINDS), ("lexicon", lexicon, LEXICONS)):
        if name not in known:
            raise UnknownNameError(what, name, known)
    wordnet = _open_wordnet() if lexicon == "wordnet" else None
    make: Mapping[str, Callable[[Sequence[str], int, int], _Made]] = {
        "replace_obj": partial(_replace, OBJECTS) if wordnet is None else partial(_sisters, wordnet),
        "replace_att": partial(_replace, ATTRIBUTES),
        "replace_rel": partial(_replace, RELATIONS),
        "swap_obj": partial(_swap, "noun"),
        "swap_att": partial(_swap, "adjective"),
        "add_obj": _add_objects,
        "add_att": _add_attributes,
        "positive_replace": partial(_paraphrase, wordnet),
        "positive_swap": _swap_joined,
        "negate": _negate,
        "shuffle": _shuffle,
    }
    made = make[kind](captions, seed, most)
    return [_checked(kind, caption, found) for caption, found in zip(captions, made, strict=True)]


def _checked(kind: str, caption: str, found: list[_Found]) -> list[_Found | Rejected]:
    if not found:
        return [Rejected("not possible", "no rule fits")]
    outcomes: list[_Found | Rejected] = []
    for text, detail in found:
        try:
            if kind in KINDS:
                check(kind, caption, text, [detail["old"]] if "old" in detail else (), detail.get("new", ""))
            outcomes.append((conform(caption, text), detail))
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


def _replace(lists: Lists, captions: Sequence[str], seed: int, most: int) -> _Made:
    found = crepe_replacements(captions, _in_use(lists, captions), seed, most=most)
    return [[(each.caption, {"rule": f"replaced by another {each.kind}"}) for each in own] for own in found]


def _swap(kind: str, captions: Sequence[str], seed: int, most: int) -> _Made:
    def directions(caption: str) -> list[tuple[int, str]]:
        return [(place, word) for place, word in enumerate(split(caption).lower) if word in _NO_OBJECTS]

    # To the tagger words of place are nouns, but "a ring of a left" is not a swap of objects.
    found = crepe_swaps(captions, seed, kinds=[kind], most=most, tagger="plain")
    return [
        [
            (each.caption, {"rule": f"two {each.kind}s exchanged"})
            for each in own
            if directions(each.caption) == directions(caption)
        ]
        for caption, own in zip(captions, found, strict=True)
    ]


def _negate(captions: Sequence[str], seed: int, most: int) -> _Made:
    found = crepe_negations(captions, seed, most=most, tagger="plain")
    return [[(each.caption, {"rule": f"{each.kind} negated"}) for each in own] for own in found]


def _shuffle(captions: Sequence[str], seed: int, most: int) -> _Made:
    [shuffled] = perturb(captions, ["shuffle_all_words"], seed=seed, max_words=None).perturbed.values()
    return [[] if text is None else [(text, {"rule": "words shuffled"})] for text in shuffled]


def _add_objects(captions: Sequence[str], seed: int, most: int) -> _Made:
    """ "and a dog" after a noun phrase with a noun of the same list."""
    lists = _in_use(OBJECTS, captions)

    def texts(tagged: Tagged) -> Iterator[_Found]:
        for first, end in tagged.noun_phrases:
            noun, place = tagged.words[end - 1].lower(), tagged.spans[end - 1][1]
            for terms in lists.values():
                if tagged.words[first].lower() in ("a", "an", "the", "one") and noun in terms:
                    for term in terms:
                        if term not in map(str.lower, tagged.words):
                            added = f"{tagged.text[:place]} and {article(term)} {term}{tagged.text[place:]}"
                            yield added, {"new": term}

    return _sampled(captions, seed, most, "add_obj", "an object added", texts)


def _add_attributes(captions: Sequence[str], seed: int, most: int) -> _Made:
    """A colour or size right after an article: a dog becomes a red dog."""
    lists = _in_use({kind: ATTRIBUTES[kind] for kind in _ADDED}, captions)

    def texts(tagged: Tagged) -> Iterator[_Found]:
        for first, end in tagged.noun_phrases:
            opening = tagged.words[first].lower()
            inside = [word.lower() for word in tagged.words[first:end]]
            if opening not in ("a", "an", "the") or end - first < 2 or _NO_OBJECTS & set(inside):
                continue
            (start, after), following = tagged.spans[first], tagged.spans[first + 1][0]
            for terms in lists.values():
                for term in terms if not set(terms) & set(inside) else ():
                    own = opening if opening == "the" else article(term)
                    rest = f"{tagged.text[after:following]}{term} {tagged.text[following:]}"
                    yield tagged.text[:start] + own + rest, {"new": term}

    return _sampled(captions, seed, most, "add_att", "an attribute added", texts)


def _paraphrase(wordnet: Any, captions: Sequence[str], seed: int, most: int) -> _Made:
    def texts(tagged: Tagged) -> Iterator[_Found]:
        words = split(tagged.text)
        for old, new in [direction for one, other in SYNONYMS for direction in ((one, other), (other, one))]:
            for at in find(words.lower, split(old).lower):
                # "to the left of" contains "left of", which must not become "to the to the left of".
                if old not in new or words.lower[max(at - 2, 0) : at] != ["to", "the"]:
                    start, end = words.spans[at][0], words.spans[at + len(old.split()) - 1][1]
                    yield put_in(tagged.text, (start, end), new), {"old": old, "new": new}
        if wordnet is not None:
            for span, word, name in zip(tagged.spans, tagged.words, tagged.tags, strict=True):
                senses = wordnet.synsets(word.lower(), pos=_WORDNET_POS[name])[:1] if name in _WORDNET_POS else ()
                for new in _lemmas(senses):
                    if new != word.lower():
                        yield put_in(tagged.text, span, new), {"old": word, "new": new}

    return _sampled(captions, seed, most, "positive_replace", "a synonym", texts)


def _swap_joined(captions: Sequence[str], seed: int, most: int) -> _Made:
    """Exchange noun phrases, or adjectives, on both sides of "and"."""

    def texts(tagged: Tagged) -> Iterator[_Found]:
        adjectives = [(at, at + 1) for at, name in enumerate(tagged.tags) if name == "JJ"]
        for at, word in enumerate(tagged.words):
            for parts in (tagged.noun_phrases, adjectives) if word.lower() == "and" else ():
                left = next((part for part in parts if part[1] == at), None)
                right = next((part for part in parts if part[0] == at + 1), None)
                if left and right:
                    yield adapt_articles(exchange(tagged, left, right), tagged.text), {}

    return _sampled(captions, seed, most, "positive_swap", "order around 'and'", texts)


def _sisters(wordnet: Any, captions: Sequence[str], seed: int, most: int) -> _Made:
    def texts(tagged: Tagged) -> Iterator[_Found]:
        for span, word, name in zip(tagged.spans, tagged.words, tagged.tags, strict=True):
            for sense in wordnet.synsets(word.lower(), pos="n")[:1] if name == "NN" else ():
                own = {lemma.lower() for lemma in _lemmas([sense])}
                sisters = [sister for parent in sense.hypernyms() for sister in parent.hyponyms() if sister != sense]
                for new in _lemmas(sisters):
                    if new not in own:
                        yield put_in(tagged.text, span, new), {"old": word, "new": new}

    return _sampled(captions, seed, most, "replace_obj", "a sister in WordNet", texts)


def _sampled(
    captions: Sequence[str],
    seed: int,
    most: int,
    purpose: str,
    rule: str,
    texts: Callable[[Tagged], Iterator[_Found]],
) -> _Made:
    """A random sample of at most so many of the texts made of each caption."""
    made: _Made = []
    for tagged in tag(captions, "plain"):
        found = list(dict(texts(tagged)).items())
        order: np.ndarray = caption_rng(seed, purpose, tagged.text).permutation(len(found))[:most]
        made.append([(found[place][0], {"rule": rule, **found[place][1]}) for place in order.tolist()])
    return made


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
