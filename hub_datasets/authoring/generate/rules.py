"""Candidates made by rule, without a language model, such as the negatives of ARO and CREPE, for comparison.

Rules know neither the image nor what is plausible, so such candidates can often be distinguished from human captions
(SugarCrepe, section 3 and Table 5). Words are exchanged within the lists of ``lexicon.yaml``. If at least two terms of
a list occur in the captions, only these terms are used, so that no candidate has a word that no caption has.
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
# The attributes that are added to objects.
_ADDED: Lists = {name: ATTRIBUTES[name] for name in ("colour", "size")}
_NO_OBJECTS, _OF_THE_SECOND, _REFERRING, _PICTURES = (
    frozenset(_WORDS[name].split()) for name in ("places", "of the second", "referring", "pictures")
)

# A candidate and its detail.
_Made = tuple[str, dict[str, Any]]


def make_by_rule(kind: str, captions: Sequence[str], seed: int = 0, *, most: int = 1) -> list[list[_Made | Rejected]]:
    """Make the candidates of one kind of captions by rule, with TextBlob's tags.

    Args:
        kind: one of ``RULE_KINDS``.
        captions: n texts.
        seed: any integer; a caption's candidates depend on it and on the words of the other captions.
        most: the largest number of candidates for a caption, at least 1.

    Returns:
        For each caption one to `most` candidates with their details, or the reason why none could be made.

    Raises:
        DataError: a caption that is not text.
        UnknownNameError: an unknown kind.
        ScoresError: ``most`` below 1.
        ModelError: TextBlob or inflect is not installed.
    """
    check_known("kind of candidates", [kind], RULE_KINDS)
    if most < 1:
        raise ScoresError(f"most is {most}; expected at least 1 candidate of a caption")
    unchecked = _make(kind, captions, seed, most)
    return [_checked(kind, caption, candidates) for caption, candidates in zip(captions, unchecked, strict=True)]


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
                for text, detail in results
                if _directions(text) == _directions(caption)
            ]
            for results, caption in zip(swapped, captions, strict=True)
        ]
    if kind == "negate":
        groups = (
            {kind_of_negation: negations(tagged, kind_of_negation) for kind_of_negation in NEGATIONS}
            for tagged in all_tagged
        )
        return _draw("{} negated", "negate", groups, captions, seed, most)
    rule, texts = {
        "add_obj": ("an object added", partial(_add_objects, _in_use(OBJECTS, captions))),
        "add_att": ("an attribute added", partial(_add_attributes, _in_use(_ADDED, captions))),
        "positive_replace": ("a synonym", _paraphrase),
        "positive_swap": ("order around 'and'", _swap_joined),
    }[kind]
    results = []
    for tagged in all_tagged:
        candidates = list(dict(texts(tagged)).items())
        order = caption_rng(seed, kind, tagged.text).permutation(len(candidates))[:most]
        results.append([(candidates[index][0], {"rule": rule, **candidates[index][1]}) for index in order.tolist()])
    return results


def _draw(
    rule: str,
    purpose: str,
    groups: Iterable[Mapping[str, Sequence[str]]],
    captions: Sequence[str],
    seed: int,
    most: int,
) -> list[list[_Made]]:
    return [
        [
            (negative.caption, {"rule": rule.format(negative.kind)})
            for negative in choose(texts, caption, purpose, seed, most)
        ]
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
    return {kind: terms_used if len(terms_used) > 1 else lists[kind] for kind, terms_used in used.items()}


def _directions(caption: str) -> list[tuple[int, str]]:
    return [(index, word) for index, word in enumerate(split(caption).lower) if word in _NO_OBJECTS]


def _add_objects(lists: Lists, tagged: Tagged) -> Iterator[_Made]:
    """Add "and a dog" after a noun phrase with a noun of the same list."""
    words = [word.lower() for word in tagged.words]
    for first, end in tagged.noun_phrases:
        if words[first] not in ("a", "an", "the", "one"):
            continue
        insertion = tagged.spans[end - 1][1]
        for term in itertools.chain.from_iterable(terms for terms in lists.values() if words[end - 1] in terms):
            if term not in words:
                yield f"{tagged.text[:insertion]} and {article(term)} {term}{tagged.text[insertion:]}", {"new": term}


def _add_attributes(lists: Lists, tagged: Tagged) -> Iterator[_Made]:
    """Add a colour or size right after an article: a dog becomes a red dog."""
    for first, end in tagged.noun_phrases:
        inside = [word.lower() for word in tagged.words[first:end]]
        if inside[0] not in ("a", "an", "the") or end - first < 2 or _NO_OBJECTS & set(inside):
            continue
        (start, after), following = tagged.spans[first], tagged.spans[first + 1][0]
        for term in itertools.chain.from_iterable(terms for terms in lists.values() if not set(terms) & set(inside)):
            determiner = inside[0] if inside[0] == "the" else article(term)
            rest = f"{tagged.text[after:following]}{term} {tagged.text[following:]}"
            yield tagged.text[:start] + determiner + rest, {"new": term}


def _paraphrase(tagged: Tagged) -> Iterator[_Made]:
    for text, old, new in paraphrases(tagged):
        yield text, {"old": old, "new": new}


def _swap_joined(tagged: Tagged) -> Iterator[_Made]:
    """Exchange noun phrases, or adjectives before a noun, on both sides of "and"."""
    adjectives = [(at, at + 1) for at, name in enumerate(tagged.tags) if name == "JJ"]
    for at, word in enumerate(tagged.words):
        for parts in (tagged.noun_phrases, adjectives) if word.lower() == "and" else ():
            first = next((phrase for phrase in parts if phrase[1] == at), None)
            right = next((phrase for phrase in parts if phrase[0] == at + 1), None)
            if first and right and _means_the_same(tagged, first, right, is_adjective=parts is adjectives):
                yield adapt_articles(exchange(tagged, first, right), tagged.text), {}


def _means_the_same(tagged: Tagged, left: Span, right: Span, *, is_adjective: bool) -> bool:
    """Return whether two joined parts can be exchanged: by the surrounding words, no modifier belongs to only one.

    "A man in a hat and a dog" joins the man and the dog, not the hat and the dog; in "a horse and a dog running", only
    the dog may be running.
    """
    words, tags = [word.lower() for word in tagged.words], tagged.tags
    parts = {*words[left[0] : left[1]], *words[right[0] : right[1]]}
    after = words[right[1]] if right[1] < len(words) else ""
    if is_adjective:
        # "Black and white" of a photograph is a fixed phrase: nobody writes "white and black".
        return (
            bool(after) and tags[right[1]].startswith("NN") and not (parts == {"black", "white"} and after in _PICTURES)
        )
    if parts & _REFERRING or "POS" in tags[left[0] : right[1]] or after in _OF_THE_SECOND:
        return False
    if left[0] == 0:
        return True
    follows = tags[left[0] - 1].startswith("VB") or words[left[0] - 1] == "with"
    return follows and not any(tag.startswith("VB") for tag in tags[right[1] :])
