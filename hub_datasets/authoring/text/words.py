"""Texts as words, for comparing candidates with their captions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_WORD = re.compile(r"['’]s\b|\w+(?:-\w+|['’](?!s\b)\w+)*|[^\w\s]", re.IGNORECASE)
_STOPS = (".", "!", "?")
BE = ("is", "are", "was", "were")
_PRONOUNS = ("he", "she", "it", "they", "him", "her", "them", "his", "its", "their")
# Words that may follow a change.
FOLLOWING = frozenset(["a", "an", "the", *BE, *_PRONOUNS])


class Words(NamedTuple):
    """A text as words, without final stops: start and end of each word or sign, and these in lower case."""

    text: str
    spans: list[tuple[int, int]]
    lower: list[str]

    @property
    def content(self) -> list[str]:
        """The words that are compared, without the s of plurals and verbs, articles, pronouns and forms of "be"."""
        # Of few words the expressions can match.
        words = (word for word in self.lower if word not in FOLLOWING)
        words = (re.sub("(?<=..)ies$", "y", word) if word.endswith("ies") else word for word in words)
        return [re.sub("(?<=...)s$", "", word) if word.endswith("s") else word for word in words]


def split(text: str) -> Words:
    """The words of a text.

    >>> split("Two dogs, an ox.").content
    ['two', 'dog', ',', 'ox']
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    while spans and text[slice(*spans[-1])] in _STOPS:
        spans.pop()
    return Words(text, spans, [text[start:end].lower().replace("’", "'") for start, end in spans])


def find(words: Sequence[str], part: Sequence[str]) -> Iterator[int]:
    """The indices at which a part occurs in words.

    >>> list(find(["a", "b", "a"], ["a"]))
    [0, 2]
    """
    if part:
        first, wanted = part[0], list(part)
        for at in range(len(words) - len(wanted) + 1):
            if words[at] == first and list(words[at : at + len(wanted)]) == wanted:
                yield at


def count_shared(before: Sequence[object], after: Sequence[object]) -> tuple[int, int]:
    """The numbers of words that two lists share at the beginning, and then at the end."""
    shortest = min(len(before), len(after))
    first = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    last = next((i for i in range(shortest - first) if before[-1 - i] != after[-1 - i]), shortest - first)
    return first, last


def is_subsequence(part: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the words of a part occur in words in their order."""
    rest = iter(words)
    return all(word in rest for word in part)
