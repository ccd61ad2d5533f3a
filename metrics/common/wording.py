"""Captions as words: split captions, and find the words in which two captions differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

# Each character of Chinese and Japanese, which have no blanks between words, counts as a word.
IDEOGRAPH = "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_WORDS = rf"{IDEOGRAPH}|(?:(?!{IDEOGRAPH})[\w'])+"
_REST = r"|\s+|[^\w\s']"
# What ASCII needs is found several times faster.
_WORD = {True: re.compile(r"[\w']+"), False: re.compile(_WORDS)}
_PIECE = {True: re.compile(r"[\w']+" + _REST), False: re.compile(_WORDS + _REST)}

# Pieces of a text, each with whether it is in one of two texts only.
Segments = list[tuple[str, bool]]


def words(caption: str) -> list[str]:
    """Split a caption into lower-case words at blanks and punctuation; Chinese and Japanese into characters."""
    return _WORD[caption.isascii()].findall(caption.lower())


def mark_changes(caption: str, other: str) -> tuple[Segments, Segments]:
    """Split two texts into pieces of words and punctuation; each piece has a flag: it occurs in one text only.

    >>> mark_changes("a red cat", "a blue cat")[1]
    [('a ', False), ('blue', True), (' cat', False)]
    """
    one, two = (_PIECE[text.isascii()].findall(text) for text in (caption, other))
    # Most pairs differ in a word or two: what they begin and end with needs no matching.
    start = _shared(one, two)
    end = _shared(one[start:][::-1], two[start:][::-1])
    middles = one[start : len(one) - end], two[start : len(two) - end]
    parts: tuple[Segments, Segments] = ([], [])
    for pieces, segments in zip((one, two), parts, strict=True):
        _add(segments, pieces[:start], differs=False)
    for change, *spans in SequenceMatcher(None, *middles, autojunk=False).get_opcodes():
        for middle, span, segments in zip(middles, (spans[:2], spans[2:]), parts, strict=True):
            _add(segments, middle[slice(*span)], differs=change != "equal")
    for pieces, segments in zip((one, two), parts, strict=True):
        _add(segments, pieces[len(pieces) - end :], differs=False)
    return parts


def _shared(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of equal pieces with which both sequences begin."""
    return next((index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _add(segments: Segments, pieces: Sequence[str], *, differs: bool) -> None:
    """Append pieces as one segment, to the last one if that is of the same kind."""
    if pieces:
        before = segments.pop()[0] if segments and segments[-1][1] == differs else ""
        segments.append((before + "".join(pieces), differs))
