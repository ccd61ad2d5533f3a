"""The content words of two texts, where one may restate the other: inflected, typed correctly, with other prepositions.

Annotators of COCO mistype words ("streen", "lap top"), and language models correct them, and change prepositions and
forms of verbs around a change (a man stands beside it; a man is standing with it behind him). So the words of
``restated.yaml`` are left out, as are articles, pronouns and signs, and words that differ by inflection or typing get
one spelling. Negations and quantities are content.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import yaml

from .words import FOLLOWING, split

_WORDS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
PREPOSITIONS = frozenset(_WORDS["prepositions"].split())
_GRAMMAR = PREPOSITIONS | frozenset(_WORDS["others"].split())
_ARTICLES = frozenset(["a", "an", "the"])
_AFTER_NO_ARTICLE = frozenset(_WORDS["after no article"].split())
_AT_NO_START = frozenset(_WORDS["at no start"].split())
_AT_NO_END = frozenset(_WORDS["at no end"].split())
_JOINTS = frozenset(["and", "or", ","])
_STEMS: dict[str, str] = dict(pair.split(":") for pair in _WORDS["stems"].split())
_INFLECTIONS = ("ing", "ed", "est", "er")
# The shorter words are, the oftener they are like others: a boat, a goat; a house, a horse.
_TYPING = ((5, 0.83), (7, 0.8))


class Content(NamedTuple):
    """Content words of a text, and the words and signs left out before each, without articles and pronouns."""

    words: list[str]
    gaps: list[list[str]]

    def are_joined(self, place: int) -> bool:
        """Whether only "and", "or" or commas stand before the word at a place."""
        return bool(self.gaps[place]) and _JOINTS.issuperset(self.gaps[place])

    @property
    def prepositions(self) -> Counter[str]:
        """The prepositions that were left out."""
        return Counter(word for word in chain.from_iterable(self.gaps) if word in PREPOSITIONS)


def restated(caption: str, candidate: str) -> tuple[Content, Content]:
    """The content words of two texts; those of the second in the spelling of the first, where they are the same.

    >>> [content.words for content in restated("A big dog sits by a lap top", "A laptop and a dog that is sitting")]
    [['big', 'dog', 'sits', 'laptop'], ['laptop', 'dog', 'sits']]
    """
    before, after = map(_content, _join_both(caption, candidate))
    words = respelled(before.words, after.words)
    return before._replace(words=words[0]), after._replace(words=words[1])


def respelled(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """Two lists of words, in which words that differ by inflection or typing have one spelling.

    >>> respelled(["two", "brocolli", "boats"], ["one", "boat", "broccoli"])
    (['two', 'brocolli', 'boats'], ['one', 'boats', 'brocolli'])
    """
    known = list(dict.fromkeys(before))
    spelling = {word: next(other for other in known if _stem(other) == _stem(word)) for word in known}
    for word in set(after) - set(known):
        spelling[word] = spelling.get(next((other for other in known if _is_same(other, word)), ""), word)
    return [spelling[word] for word in before], [spelling[word] for word in after]


def share_of_breaks(caption: str, candidate: str) -> float:
    """The share of neighbours in the second text that are none in the first; of all words but articles and pronouns.

    Exchanging two of a text's parts leaves most neighbours together, and shuffling its words hardly any.

    >>> share_of_breaks("a big cat on a mat near a red dog", "a big dog on a mat near a red cat")
    0.5
    """
    before, after = (
        [word for word in words if word not in FOLLOWING and word != ","] for words in _join_both(caption, candidate)
    )
    return count_breaks(*respelled(before, after)) / (len(after) + 1)


def count_breaks(before: Sequence[str], after: Sequence[str]) -> int:
    """The number of neighbours in the second list, its ends included, that are none in the first.

    Exchanging two parts of a list of different words makes at most 4.

    >>> count_breaks("abcdef", "aecdbf"), count_breaks("abcdef", "cdabef")
    (4, 3)
    """
    old, new = (Counter(zip(["", *words], [*words, ""], strict=True)) for words in (before, after))
    return (new - old).total()


def is_scrambled(text: str) -> bool:
    """Whether an article stands before a preposition, a verb, another article, or nothing; or one of these at an end.

    >>> is_scrambled("a cat on the mat"), is_scrambled("cat a on the mat"), is_scrambled("of cats a mat")
    (False, True, True)
    """
    words = split(text).lower
    pairs = zip(words, [*words[1:], "of"], strict=True)
    has_loose_article = any(word in _ARTICLES and other in _AFTER_NO_ARTICLE for word, other in pairs)
    return has_loose_article or bool(_AT_NO_START & {*words[:1]} or _AT_NO_END & {*words[-1:]})


def runs_of(words: Sequence[str], some: Counter[str]) -> Iterator[list[int]]:
    """The places of the runs of neighbouring words that are among some, each as often as it is counted there.

    >>> list(runs_of("a big red cat and a big dog".split(), Counter(["big", "red", "dog"])))
    [[1, 2], [7]]
    """
    left, run = some.copy(), list[int]()
    for place, word in enumerate(words):
        if left[word] > 0:
            left[word] -= 1
            run.append(place)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _tokens(text: str) -> list[str]:
    return [part for word in split(text).lower for part in (word.split("-") if len(word) > 1 else [word]) if part]


def _join_both(caption: str, candidate: str) -> tuple[list[str], list[str]]:
    """The words of two texts; neighbours that are one word of the other text are joined: lap top, laptop."""
    before, after = _tokens(caption), _tokens(candidate)
    return _join_compounds(before, {*after}), _join_compounds(after, {*before})


def _join_compounds(words: Sequence[str], others: set[str]) -> list[str]:
    joined = list[str]()
    for word in words:
        if joined and joined[-1] + word in others and len(word) > 1:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _content(words: Sequence[str]) -> Content:
    found, gap = Content([], []), list[str]()
    for word in words:
        if word in FOLLOWING:
            continue
        if word in _GRAMMAR or not re.search(r"\w", word):
            gap.append(word)
            continue
        found.words.append(word)
        found.gaps.append(gap)
        gap = []
    return found


def _is_same(word: str, other: str) -> bool:
    stems = _stem(word), _stem(other)
    if stems[0] == stems[1] or (len(stems[0]) > 2 and sorted(stems[0]) == sorted(stems[1])):
        return True
    length = min(len(word), len(other))
    likeness = difflib.SequenceMatcher(None, word, other, autojunk=False).ratio() if length >= _TYPING[0][0] else 0.0
    return any(length >= fewest and likeness >= least for fewest, least in _TYPING)


def _stem(word: str) -> str:
    word = re.sub("(?<=...)(?<!s)s$", "", re.sub("(?<=..)ies$", "y", _STEMS.get(word, word)))
    word = _STEMS.get(word, word)
    for ending in _INFLECTIONS:
        if word.endswith(ending) and len(word) - len(ending) > 2:
            word = word.removesuffix(ending)
            break
    word = re.sub("(?<=...)[eyi]$", "", word)
    return re.sub(r"(?<=..)([^\Waeiou_])\1$", r"\1", word)
