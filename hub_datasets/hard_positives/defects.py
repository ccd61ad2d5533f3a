"""Defects of released rows, and the line of the lexicon of each hard positive; pure functions on text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .lexicon import COMPOUNDS, LEXICON, LexiconEntry


class LexiconOrigin(NamedTuple):
    """The line of the lexicon that turns a caption into its hard positive, and the indices where it was replaced."""

    entry: LexiconEntry
    replaced: str
    starts: tuple[int, ...]


def find_origin(caption: str, positive: str, lexicon: Iterable[LexiconEntry] = LEXICON) -> LexiconOrigin | None:
    """Find the line of the lexicon that yields a released hard positive.

    The release replaced substrings: inside other words, and several times in a caption. So any subset of the
    occurrences is tried, whole words or not.

    Args:
        caption: the original caption.
        positive: its hard positive.
        lexicon: the lines to try.

    Returns:
        The first line that yields the positive, and the places; None if no single line does.

    >>> find_origin("cat in box", "cat within box").entry.synonym
    'within'
    >>> find_origin("covered bed", "covecrimson bed").starts
    (4,)
    """
    for entry in lexicon:
        for original in entry.originals:
            starts = _replaced_places(caption, positive, original, entry.synonym)
            if starts:
                return LexiconOrigin(entry, original, starts)
    return None


def find_defects(caption: str, positive: str, negative: str, origin: LexiconOrigin | None = None) -> list[str]:
    """Return the defects of one row, except repetitions, which need all rows.

    Captions are compared without their outer white space.

    Args:
        caption: the original caption.
        positive: its hard positive.
        negative: its hard negative.
        origin: how the positive was made, see `find_origin`; None for a swap.

    >>> origin = find_origin("a covered bed", "a covecrimson bed")
    >>> find_defects("a covered bed", "a covecrimson bed", "a blue bed", origin)
    ['substring replacement']
    """
    caption_text, positive_text, negative_text = caption.strip(), positive.strip(), negative.strip()
    defects = {
        "caption equals negative": caption_text == negative_text,
        "positive equals negative": positive_text == negative_text,
        "positive equals caption": positive_text == caption_text,
        "substring replacement": origin is not None and _cuts_words(caption, origin),
        "broken phrase": origin is not None and _cuts_compounds(caption, origin),
    }
    return [name for name, applies in defects.items() if applies]


def _replaced_places(caption: str, positive: str, original: str, synonym: str) -> tuple[int, ...]:
    """Return the indices in the caption where `synonym` replaces `original`; () if that never yields the positive."""
    pieces = caption.split(original)
    # Where one may be in the positive, with the places replaced so far.
    reached: dict[int, tuple[int, ...]] = {0: ()}
    start = 0
    for piece in pieces[:-1]:
        start += len(piece)
        onward: dict[int, tuple[int, ...]] = {}
        for at, places in reached.items():
            if positive.startswith(piece, at):
                for text, more in ((synonym, (start,)), (original, ())):
                    if positive.startswith(text, at + len(piece)):
                        onward.setdefault(at + len(piece) + len(text), places + more)
        reached = onward
        start += len(original)
    return reached.get(len(positive) - len(pieces[-1]), ()) if positive.endswith(pieces[-1]) else ()


def _cuts_words(caption: str, origin: LexiconOrigin) -> bool:
    def is_inner(place: int) -> bool:
        return place - 1 >= 0 and place < len(caption) and caption[place - 1].isalnum() and caption[place].isalnum()

    return any(is_inner(start) or is_inner(start + len(origin.replaced)) for start in origin.starts)


def _cuts_compounds(caption: str, origin: LexiconOrigin) -> bool:
    compounds = "|".join(re.escape(compound) for compound in COMPOUNDS)
    spans = [match.span() for match in re.finditer(rf"\b(?:{compounds})\b", caption)]
    ends = [(start, start + len(origin.replaced)) for start in origin.starts]
    return any(first < end and start < last for first, last in spans for start, end in ends)
