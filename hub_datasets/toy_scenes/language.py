"""The grammar of toy_scenes: a lexicon with synonyms, statements, their text, and whether a scene makes them true.

    caption   = phrase relation phrase {"and" phrase} | phrase "and" phrase {"and" phrase}
    phrase    = ("a" | "an") {adjective} noun          adjectives in the order size, texture, colour

A statement is true of a scene if different objects can be assigned to its phrases such that each has all attributes of
its phrase, and the relation holds between the first and the second.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .world import ATTRIBUTES, RELATIONS, SHAPES, Scene, Thing, holds

# Each meaning has two synonyms.
SYNONYMS: dict[str, tuple[str, str]] = {
    meaning: tuple(words)
    for meaning, words in json.loads(Path(__file__).with_name("synonyms.json").read_text(encoding="utf-8")).items()
}
MEANING: dict[str, str] = {word: meaning for meaning, words in SYNONYMS.items() for word in words}
KIND: dict[str, str] = {
    **dict.fromkeys(SHAPES, "shape"),
    **{value: kind for kind, values in ATTRIBUTES.items() for value in values},
    **dict.fromkeys(RELATIONS, "relation"),
}
FUNCTION_WORDS = frozenset({"a", "an", "and", "of", "to", "the", "than"})
# The content word of each relation phrase: "to the left of" → "left".
RELATION_WORDS: dict[str, str] = {
    next(w for w in phrase.split() if w not in FUNCTION_WORDS): meaning
    for phrase, meaning in MEANING.items()
    if KIND[meaning] == "relation"
}


def synonym(word: str) -> str:
    """Return the other word with the same meaning."""
    first, second = SYNONYMS[MEANING[word]]
    return second if word == first else first


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase, in words: ``Phrase(("striped", "crimson"), "disc")`` is "a striped crimson disc"."""

    adjectives: tuple[str, ...]
    noun: str

    @property
    def text(self) -> str:
        """The phrase with its article."""
        words = (*self.adjectives, self.noun)
        return " ".join(("an" if words[0][0] in "aeiou" else "a", *words))

    def word(self, kind: str) -> str | None:
        """Return the word of an attribute kind or of ``"shape"``, None if the phrase has none."""
        words = (*self.adjectives, self.noun)
        return next((word for word in words if KIND[MEANING[word]] == kind), None)

    def with_word(self, word: str) -> NounPhrase:
        """Return the phrase with `word` in place of its word of the same kind, or added if it has no such word."""
        kind = KIND[MEANING[word]]
        if kind == "shape":
            return NounPhrase(self.adjectives, word)
        words = (word if k == kind else self.word(k) for k in ATTRIBUTES)
        return NounPhrase(tuple(w for w in words if w), self.noun)

    def fits(self, thing: Thing) -> bool:
        """Return whether every word of the phrase applies to `thing`."""
        meanings = (MEANING[word] for word in (*self.adjectives, self.noun))
        return all(getattr(thing, KIND[meaning]) == meaning for meaning in meanings)


@dataclass(frozen=True)
class Statement:
    """A parsed caption: phrases, the first two joined by `relation` (in words), or by "and" if it is None."""

    phrases: tuple[NounPhrase, ...]
    relation: str | None = None

    @property
    def text(self) -> str:
        """The caption."""
        first, *rest = (phrase.text for phrase in self.phrases)
        if self.relation is None:
            return " and ".join((first, *rest))
        return " and ".join((f"{first} {self.relation} {rest[0]}", *rest[1:]))

    def is_true_of(self, scene: Scene) -> bool:
        """Return whether the statement is true of the scene."""
        return any(True for _ in self.readings(scene))

    def readings(self, scene: Scene) -> Iterator[tuple[Thing, ...]]:
        """Yield the assignments of objects to the phrases that make the statement true of a scene."""
        for things in itertools.permutations(scene.things, len(self.phrases)):
            fit = all(phrase.fits(thing) for phrase, thing in zip(self.phrases, things, strict=True))
            if fit and (self.relation is None or holds(MEANING[self.relation], things[0], things[1])):
                yield things


def _one_of(kind: str) -> str:
    return "|".join(word for meaning, words in SYNONYMS.items() if KIND[meaning] == kind for word in words)


_PHRASE = re.compile("an? " + "".join(f"(?:({_one_of(kind)}) )?" for kind in ATTRIBUTES) + f"({_one_of('shape')})")
_RELATION = re.compile(f" ({_one_of('relation')}) (?=an? )")


def parse(text: str) -> Statement | None:
    """Return the statement that a caption makes, or None if the text does not follow the grammar."""
    head, *tail = " ".join(text.split()).split(" and ")
    first, *rest = _RELATION.split(head)
    texts = [first, *rest[1:], *tail]
    matches = [match for phrase in texts if (match := _PHRASE.fullmatch(phrase))]
    if len(rest) not in (0, 2) or not 2 <= len(texts) == len(matches):
        return None
    phrases = tuple(NounPhrase(tuple(filter(None, match.groups()[:-1])), match.groups()[-1]) for match in matches)
    # The article fits the word after it.
    if [phrase.text for phrase in phrases] != texts:
        return None
    return Statement(phrases, rest[0] if rest else None)


def applies(word: str, scene: Scene) -> bool:
    """Return whether a single word applies to any object of the scene, which is all that a bag of words can check.

    A relation word applies if the relation holds between any two objects; function words always apply, words outside
    the lexicon never.
    """
    if word in FUNCTION_WORDS:
        return True
    if word in RELATION_WORDS:
        pairs = itertools.permutations(scene.things, 2)
        return any(holds(RELATION_WORDS[word], a, b) for a, b in pairs)
    meaning = MEANING.get(word)
    return meaning is not None and meaning in scene.values(KIND[meaning])
