"""The concepts that a model locates in captions, and the new ones that it thinks of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..text.tagging import Tagged, tag
from ..text.words import BE, find, split
from .rejected import Rejected, check_signs

MOST_CONCEPT_WORDS = 6
_PARTS = {
    "obj": ("NN", "NNS", "NNP", "NNPS"),
    "att": ("JJ", "JJR", "JJS", "VBN", "VBD", "VBG", "CD", "RB"),
    "rel": ("IN", "TO", "RP", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ"),
}


def check_concept(caption: str, old: str, new: str) -> str:
    """Clean a new concept; raise `Rejected` if it is empty, long, not plain words, or in the caption already."""
    check_signs(new)
    new = " ".join(new.split())
    words = split(new)
    if not words.content or not re.fullmatch(r"[\w' ’-]+", new):
        raise Rejected("missing field", f"{new[:40]!r} is not a concept")
    if len(words.lower) > MOST_CONCEPT_WORDS:
        raise Rejected("too long", f"{new[:40]!r} is not a single concept")
    if words.content == split(old).content or list(find(split(caption).content, words.content)):
        raise Rejected("same as the caption", f"{new!r} is in it already")
    return new


def locatable(caption: str, concepts: Sequence[str], part: str) -> list[str]:
    """Return the concepts that occur in the caption and are of the right part of speech, deduplicated.

    For the part ``"obj"``, ``"att"`` or ``"rel"`` a concept must have a noun, an attribute, or a preposition or verb,
    according to TextBlob.
    """
    [tagged] = tag([caption], "textblob")
    before = split(caption)
    located = []
    for concept in concepts:
        words = split(concept)
        spans = [
            (before.spans[at][0], before.spans[at + len(words.lower) - 1][1]) for at in find(before.lower, words.lower)
        ]
        is_part = any(_is_part(part, tagged, *span) for span in spans)
        if is_part and words.content and len(words.lower) <= MOST_CONCEPT_WORDS:
            located.append(" ".join(concept.split()))
    return list(dict.fromkeys(located))


def _is_part(part: str, tagged: Tagged, start: int, end: int) -> bool:
    inside = [index for index, span in enumerate(tagged.spans) if start <= span[0] and span[1] <= end]
    if any(tagged.tags[index] in _PARTS[part] for index in inside):
        return True
    if part != "att" or not inside or tagged.tags[inside[-1]] != "NN":
        return False
    # Unknown words are tagged as nouns. One before a noun, or after "is", is an attribute.
    before, following = tagged.words[: inside[0]][-1:], tagged.tags[inside[-1] + 1 :][:1]
    return (bool(before) and before[0].lower() in BE) or (bool(following) and following[0].startswith("NN"))
