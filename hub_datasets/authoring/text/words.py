"""Texts as words, for comparing candidates with their captions."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

from ....metrics.common.errors import ModelError

_WORD = re.compile(r"['’]s\b|\w+(?:-\w+|['’](?!s\b)\w+)*|[^\w\s]", re.IGNORECASE)
_STOPS = (".", "!", "?")
# Libraries fill their tables at first use; another thread must not see half of them.
LOADING = threading.Lock()
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
        """Return the words that are compared: singular, and without articles, pronouns and forms of "be"."""
        return [singular(word) for word in self.lower if word not in FOLLOWING]


def split(text: str) -> Words:
    """Split a text into words.

    >>> split("Two dogs, an ox, men.").content
    ['two', 'dog', ',', 'ox', ',', 'man']
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    while spans and text[slice(*spans[-1])] in _STOPS:
        spans.pop()
    return Words(text, spans, [text[start:end].lower().replace("’", "'") for start, end in spans])


def engine() -> Any:
    """Return `inflect`'s engine; raises a `ModelError` if the library is not installed."""
    with LOADING:
        return _load_engine()


@functools.cache
def _load_engine() -> Any:
    try:
        # typeguard would rewrite each of inflect's functions at its import, which takes seconds.
        with patch("typeguard.typechecked", lambda function: function):
            import inflect
    except ImportError as error:
        raise ModelError("forms of words need inflect: pip install 'vl-assay[authoring]'") from error
    inflections = inflect.engine()
    for word in ("suvs?", "lcd", "mp3s?", "xbox"):
        inflections.defan(word)
    for verb in ("lie", "die", "tie"):
        inflections.defverb(verb, verb, verb, verb, f"{verb}s", verb)
    return inflections


@functools.cache
def singular(word: str) -> str:
    """Return the singular of a plural noun, or a verb without its final s; return any other word unchanged.

    >>> [singular(word) for word in ("women", "sits", "glass")]
    ['woman', 'sit', 'glass']
    """
    return engine().singular_noun(word) or word if word[0].isalpha() else word


def find(words: Sequence[str], part: Sequence[str]) -> Iterator[int]:
    """Yield the indices at which a part occurs in words.

    >>> list(find(["a", "b", "a"], ["a"]))
    [0, 2]
    """
    for at in range(len(words) - len(part) + 1 if part else 0):
        if list(words[at : at + len(part)]) == list(part):
            yield at


def count_shared(before: Sequence[object], after: Sequence[object]) -> tuple[int, int]:
    """Count the words that two lists share at the beginning, and then at the end."""
    shortest = min(len(before), len(after))
    first = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    last = next((i for i in range(shortest - first) if before[-1 - i] != after[-1 - i]), shortest - first)
    return first, last


def is_subsequence(part: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words of a part occur in words in their order."""
    rest = iter(words)
    return all(word in rest for word in part)
