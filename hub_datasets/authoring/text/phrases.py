"""Phrases of captions for contextual phrase detection: their noun phrases, and what differs in two captions.

Source: TRICD (Kamath, Price et al., 2023), section 4.1.1, steps 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from .tagging import Span, Tagged, tag
from .words import count_shared

_LEFT_OUT = ("DT", "PRP$", "PDT", "WDT")
# "on top of", "in front of": the noun is part of a preposition.
_PLACES = frozenset(["top", "front", "infront", "back", "side", "middle", "edge", "next"])
_NOUNS, _RELATIONS = ("NN", "CD", "JJ"), ("VB", "IN", "TO", "RP")


def noun_phrases(captions: Sequence[str], tagger: str = "auto") -> list[list[Span]]:
    """Return the noun phrases of each caption, from left to right, as (start, end) in characters; at least one.

    As in the release, nouns of prepositions ("on top of") do not count, phrases have no articles and possessives, and a
    caption without a noun phrase is one phrase. Nouns that cannot be grounded ("at war") are also returned: annotators
    exclude them by drawing no boxes. TRICD used spaCy. For arguments and errors see `tagging.tag`.

    >>> text = "a dog on top of the red car"
    >>> [text[start:end] for start, end in noun_phrases([text], "textblob")[0]]
    ['dog', 'red car']
    """
    return [_phrases(tagged) for tagged in tag(captions, tagger)]


def differing_parts(caption: str, other: str) -> int:
    """Count the parts in which two captions of a subject, verb and object differ, 3 for all.

    Verbs and prepositions are one part, so that "on a horse" and "next to a horse" differ in one. Words are compared
    without articles.

    >>> differing_parts("zebras fighting", "zebras eating")
    1
    >>> differing_parts("dog drinking a beer", "dog holding a remote")
    2
    """
    parts, other_parts = (_parts(tagged) for tagged in tag([caption, other], "textblob"))
    first, last = count_shared(parts, other_parts)
    return min(3, max(len(parts), len(other_parts)) - first - last)


def _phrases(tagged: Tagged) -> list[Span]:
    phrases = []
    for first, end in tagged.noun_phrases:
        while first < end and tagged.tags[first] in _LEFT_OUT:
            first += 1
        words = [word.lower() for word in tagged.words[first:end]]
        is_place = len(words) == 1 and words[0] in _PLACES and tagged.words[end : end + 1] == ["of"]
        if words and not is_place:
            phrases.append((tagged.spans[first][0], tagged.spans[end - 1][1]))
    text = tagged.text.strip()
    start = tagged.text.index(text)
    return phrases or [(start, start + len(text.rstrip(".!?")))]


def _parts(tagged: Tagged) -> list[str]:
    """Return the runs of nouns with their attributes, and of verbs with prepositions, in lower case."""
    parts, kind_before = list[list[str]](), ""
    for word, name in zip(tagged.words, tagged.tags, strict=True):
        is_place = word.lower() in _PLACES
        is_noun = name.startswith(_NOUNS) and not is_place
        kind = "noun" if is_noun else "relation" if is_place or name.startswith(_RELATIONS) else kind_before
        if name in _LEFT_OUT or not word.isalnum():
            continue
        if kind != kind_before or not parts:
            parts.append([])
        parts[-1].append(word.lower())
        kind_before = kind
    return [" ".join(part) for part in parts]
