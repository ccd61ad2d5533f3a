"""Paraphrases of captions: one word or phrase is replaced by a synonym from ``synonyms.yaml``.

A word of a caption is replaced only if its sense is known:

- nouns and adjectives are found by TextBlob's tags: nouns that are not part of a compound ("fire truck"), and
  adjectives before a noun. A noun that occurs twice is kept, since two words would seem to name two things;
- a guarded word is replaced only between the words that its guard names. ``previous`` and ``next`` are the words around
  it, ``subject`` is the last noun before it, skipping clothes ("a man in a suit sitting"), and ``object`` the head of
  the noun phrase right after it; items are words, lists, or tags in capitals. ``opening`` requires it to come before
  any verb or preposition;
- no word is replaced within a name ("Big Ben", "Little Italy") or a longer phrase of ``except``, or by a word that the
  caption already has.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ..text.negatives import put_in
from ..text.tagging import Tagged
from ..text.words import FOLLOWING, find, split

_WORDS = yaml.safe_load(Path(__file__).with_name("synonyms.yaml").read_text(encoding="utf-8"))
_LISTS: Mapping[str, frozenset[str]] = {name: frozenset(words.split()) for name, words in _WORDS["lists"].items()}
_EXCEPT = [phrase.split() for line in _WORDS["except"] for phrase in line.split(" | ")]
_BESIDE: Mapping[str, frozenset[str]] = {word: frozenset(others.split()) for word, others in _WORDS["beside"].items()}
_NOUNS = ("NN", "NNS")
_BEFORE_OPENING = ("VB", "IN", "TO", "RP")


class _Rule(NamedTuple):
    old: list[str]
    new: str
    guard: Mapping[str, Any]


def _read() -> Iterator[_Rule]:
    for section in ("phrases", "nouns", "adjectives"):
        guards = {"phrases": {}, "nouns": {"noun": True}, "adjectives": {"adjective": True}}
        for olds, new in _WORDS[section].items():
            yield from (_Rule(old.split(), new, guards[section]) for old in olds.split(" | "))
    for entry in _WORDS["guarded"]:
        guard = {name: value for name, value in entry.items() if name not in ("old", "new")}
        yield from (_Rule(old.split(), entry["new"], guard) for old in entry["old"].split(" | "))


_RULES = {
    word: list(rules)
    for word, rules in itertools.groupby(sorted(_read(), key=lambda rule: rule.old[0]), lambda rule: rule.old[0])
}
# Each word or phrase and its replacement.
SYNONYMS: list[tuple[str, str]] = [(" ".join(rule.old), rule.new) for rules in _RULES.values() for rule in rules]


class _Words(NamedTuple):
    """The words of a tagged caption."""

    tagged: Tagged
    lower: list[str]

    def matches(self, at: int, items: str) -> bool:
        """Return whether the word at a place is one of a guard's items."""
        if not 0 <= at < len(self.lower):
            return False
        word, tag = self.lower[at], self.tagged.tags[at]
        singulars = {word, re.sub("s$", "", word), re.sub("es$", "", word), re.sub("ies$", "y", word)}
        return any(
            tag == item
            if item.isupper()
            else bool(_LISTS.get(item, frozenset([item])) & (singulars if item in _LISTS else {word}))
            for item in items.split()
        )

    def subject(self, at: int) -> int:
        """Return the index of the last noun before index `at`, skipping clothes; -1 if no such noun exists."""
        heads = [end - 1 for _, end in self.tagged.noun_phrases if end <= at]
        return next((head for head in reversed(heads) if not self.matches(head, "garment")), -1)

    def object(self, at: int) -> int:
        """Return the index of the head of the noun phrase that begins or continues at index `at`; -1 if none does."""
        return next((end - 1 for first, end in self.tagged.noun_phrases if first <= at < end), -1)

    def is_name(self, start: int, end: int) -> bool:
        """Return whether a capital within the caption marks one of the words, or the first and the next one."""
        words = self.tagged.words
        if self.tagged.text.upper() == self.tagged.text:
            return False
        capitals = [
            words[index][0].isupper() and words[index].lower() != "tv"
            for index in range(start, min(end + 1, len(words)))
        ]
        within = capitals[: end - start]
        return any(within[1:] if start == 0 else within) or (within[0] and capitals[-1] and len(capitals) > end - start)


def paraphrases(tagged: Tagged) -> Iterator[tuple[str, str, str]]:
    """Return each caption in which one word or phrase is replaced, with the old and the new text.

    Args:
        tagged: a caption with TextBlob's tags.
    """
    words = _Words(tagged, [word.lower() for word in tagged.words])
    taken = [(at, at + len(phrase)) for phrase in _EXCEPT for at in find(words.lower, phrase)]
    for at, word in enumerate(words.lower):
        for rule in _RULES.get(word, ()):
            end = at + len(rule.old)
            if words.lower[at:end] != rule.old or any(a <= at and end <= b and (at, end) != (a, b) for a, b in taken):
                continue
            if _is_allowed(words, at, end, rule) and not words.is_name(at, end):
                span = (tagged.spans[at][0], tagged.spans[end - 1][1])
                yield put_in(tagged.text, span, rule.new), " ".join(rule.old), rule.new


def _is_allowed(words: _Words, at: int, end: int, rule: _Rule) -> bool:
    tags, guard = words.tagged.tags, rule.guard
    rest = {*words.lower[:at], *words.lower[end:]}
    if any(word in rest for word in split(rule.new).lower if word not in FOLLOWING and len(word) > 3):
        return False
    if rest & _BESIDE.get(" ".join(rule.old), frozenset()):
        return False
    if "noun" in guard:
        around = [tags[index] if 0 <= index < len(tags) else "" for index in (at - 1, end)]
        return tags[at] in _NOUNS and not {*_NOUNS, "POS"} & {*around} and words.lower.count(rule.old[0]) == 1
    if "adjective" in guard:
        return tags[at] == "JJ" and words.matches(end, "NN NNS JJ VBN ,")
    if "opening" in guard and any(name.startswith(_BEFORE_OPENING) for name in tags[:at]):
        return False
    index_of = {"previous": at - 1, "next": end, "subject": words.subject(at), "object": words.object(end)}
    return all(
        (name not in guard or words.matches(index, guard[name]))
        and not (f"not {name}" in guard and words.matches(index, guard[f"not {name}"]))
        for name, index in index_of.items()
    )
