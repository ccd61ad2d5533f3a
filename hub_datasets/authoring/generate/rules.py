"""Candidates made by rule, without a language model, such as the negatives of ARO and CREPE, for comparison.

Rules know neither the image nor what makes sense, so such candidates can often be told from what people write
(SugarCrepe, section 3 and Table 5). Words are exchanged within the lists of ``lexicon.yaml``. If at least two terms of
a list occur in the captions, only those are used, so that no candidate has a word that no caption has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from ....metrics.common.errors import ScoresError, check_known
from ..text.articles import adapt_articles, article
from ..text.negatives import NEGATIONS, choose, exchange, negations, replacements, swaps
from ..text.perturb import caption_rng, perturb
from ..text.tagging import Span, Tagged, tag
from ..text.words import split
from .checks import KINDS
from .formatting import accept, conform
from .paraphrases import paraphrases
from .rejected import Rejected

# SugarCrepe's Table 5 has negated and shuffled captions, too.
RULE_KINDS = (*KINDS, "negate", "shuffle")

_WORDS = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8"))
Lists = Mapping[str, Sequence[str]]
OBJECTS: Lists = _WORDS["objects"]
ATTRIBUTES: Lists = _WORDS["attributes"]
RELATIONS: Lists = _WORDS["relations"]
_REPLACED = {"replace_obj": OBJECTS, "replace_att": ATTRIBUTES, "replace_rel": RELATIONS}
# The attributes that are added to objects, and nouns of places, such as "the right", that are not objects.
_ADDED: Lists = {name: ATTRIBUTES[name] for name in ("colour", "size")}
_NO_OBJECTS = frozenset(["left", "right", "top", "front", "back", "side", "middle", "center", "edge", "end", "rear"])

# A candidate and its detail.
_Made = tuple[str, dict[str, Any]]


def make_by_rule(kind: str, captions: Sequence[str], seed: int = 0, *, most: int = 1) -> list[list[_Made | Rejected]]:
    """Make the candidates of one kind of captions by rule, with TextBlob's tags.

    Args:
        kind: one of ``RULE_KINDS``.
        captions: n texts.
        seed: any integer; a caption's candidates depend on it and on the words of the other captions.
        most: at most so many candidates for a caption, at least 1.

    Returns:
        For each caption one to `most` candidates with their details, or the reason why there are none.

    Raises:
        DataError: a caption that is not text.
        UnknownNameError: an unknown kind.
        ScoresError: ``most`` below 1.
        ModelError: TextBlob or inflect is not installed.
    """
    check_known("kind of candidates", [kind], RULE_KINDS)
    if most < 1:
        raise ScoresError(f"most is {most}; expected at least 1 candidate of a caption")
    made = _make(kind, captions, seed, most)
    return [_checked(kind, caption, candidates) for caption, candidates in zip(captions, made, strict=True)]


def _make(kind: str, captions: Sequence[str], seed: int, most: int) -> list[list[_Made]]:
    """Make the candidates of each caption, unchecked."""
    if kind == "shuffle":
        [shuffled] = perturb(captions, ["shuffle_all_words"], seed=seed, max_words=None).perturbed.values()
        return [[] if text is None else [(text, {"rule": "words shuffled"})] for text in shuffled]
    if kind in _REPLACED:
        lists = _in_use(_REPLACED[kind], captions)
        groups = ({name: replacements(caption, terms) for name, terms in lists.items()} for caption in captions)
        return _draw("replaced by another {}", "replace", groups, captions, seed, most)
    all_tagged = tag(captions, "textblob")
    if kind in ("swap_obj", "swap_att"):
        element = "noun" if kind == "swap_obj" else "adjective"
        groups = ({element: swaps(tagged, element)} for tagged in all_tagged)
        swapped = _draw("two {}s exchanged", "negclip", groups, captions, seed, most)
        # To the tagger words of place are nouns, but "a ring of a left" is not a swap of objects.
        return [
            [
                (adapt_articles(text, caption), detail)
                for text, detail in made
                if _directions(text) == _directions(caption)
            ]
            for made, caption in zip(swapped, captions, strict=True)
        ]
    if kind == "negate":
        groups = ({each: negations(tagged, each) for each in NEGATIONS} for tagged in all_tagged)
        return _draw("{} negated", "negate", groups, captions, seed, most)
    rule, texts = {
        "add_obj": ("an object added", partial(_add_objects, _in_use(OBJECTS, captions))),
        "add_att": ("an attribute added", partial(_add_attributes, _in_use(_ADDED, captions))),
        "positive_replace": ("a synonym", _paraphrase),
        "positive_swap": ("order around 'and'", _swap_joined),
    }[kind]
    made = []
    for tagged in all_tagged:
        candidates = list(dict(texts(tagged)).items())
        order = caption_rng(seed, kind, tagged.text).permutation(len(candidates))[:most]
        made.append([(candidates[place][0], {"rule": rule, **candidates[place][1]}) for place in order.tolist()])
    return made


def _draw(
    rule: str,
    purpose: str,
    groups: Iterable[Mapping[str, Sequence[str]]],
    captions: Sequence[str],
    seed: int,
    most: int,
) -> list[list[_Made]]:
    return [
        [(each.caption, {"rule": rule.format(each.kind)}) for each in choose(texts, caption, purpose, seed, most)]
        for texts, caption in zip(groups, captions, strict=True)
    ]


def _checked(kind: str, caption: str, candidates: list[_Made]) -> list[_Made | Rejected]:
    if not candidates:
        return [Rejected("not possible", "no rule fits")]
    outcomes: list[_Made | Rejected] = []
    for text, detail in candidates:
        try:
            old, new = [detail["old"]] if "old" in detail else [], detail.get("new", "")
            outcomes.append(
                (accept(kind, caption, text, old, new) if kind in KINDS else conform(caption, text), detail)
            )
        except Rejected as error:
            outcomes.append(error)
    return outcomes


def _in_use(lists: Lists, captions: Sequence[str]) -> Lists:
    """Return the terms of each list that occur in captions, if at least two do; else all of them."""
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


def _add_objects(lists: Lists, tagged: Tagged) -> Iterator[_Made]:
    """ "and a dog" after a noun phrase with a noun of the same list."""
    words = [word.lower() for word in tagged.words]
    for first, end in tagged.noun_phrases:
        if words[first] not in ("a", "an", "the", "one"):
            continue
        place = tagged.spans[end - 1][1]
        for term in itertools.chain.from_iterable(terms for terms in lists.values() if words[end - 1] in terms):
            if term not in words:
                yield f"{tagged.text[:place]} and {article(term)} {term}{tagged.text[place:]}", {"new": term}


def _add_attributes(lists: Lists, tagged: Tagged) -> Iterator[_Made]:
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


def _paraphrase(tagged: Tagged) -> Iterator[_Made]:
    for text, old, new in paraphrases(tagged):
        yield text, {"old": old, "new": new}


# What stands right behind two joined phrases and belongs to the second alone, as in "a bed and a desk with a lamp".
_OF_THE_SECOND = frozenset(("with", "of", "that", "which", "who", "whose"))
# "His dog and a man" and "another dog and a dog" lose what they refer to.
_REFERRING = frozenset(("his", "her", "their", "its", "my", "your", "our", "another", "other", "one"))
_BLACK_AND_WHITE = frozenset(("black", "white"))
_PICTURES = frozenset(("photo", "photos", "photograph", "picture", "pictures", "image", "images", "portrait", "shot"))


def _swap_joined(tagged: Tagged) -> Iterator[_Made]:
    """Exchange noun phrases, or adjectives before a noun, on both sides of "and"."""
    adjectives = [(at, at + 1) for at, name in enumerate(tagged.tags) if name == "JJ"]
    for at, word in enumerate(tagged.words):
        for parts in (tagged.noun_phrases, adjectives) if word.lower() == "and" else ():
            left = next((part for part in parts if part[1] == at), None)
            right = next((part for part in parts if part[0] == at + 1), None)
            if left and right and _means_the_same(tagged, left, right, is_adjective=parts is adjectives):
                yield adapt_articles(exchange(tagged, left, right), tagged.text), {}


def _means_the_same(tagged: Tagged, left: Span, right: Span, *, is_adjective: bool) -> bool:
    """Return whether nothing else belongs to only one of two joined parts, as far as the words around them tell.

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
