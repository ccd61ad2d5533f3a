"""Formatting of candidates like their captions, so that formatting does not distinguish the two."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..text.articles import adapt_articles
from ..text.words import Words, count_shared, split
from .checks import check


def accept(kind: str, caption: str, text: str, old: Sequence[str] = (), new: str = "") -> str:
    """Return a text as a candidate: articles corrected, validated, and formatted like its caption.

    Takes the arguments of `check` and raises the same errors.

    >>> accept("replace_obj", " a cat on a  mat. ", "An dog on a mat")
    ' a dog on a  mat. '
    """
    text = adapt_articles(text, caption)
    check(kind, caption, text, old, new)
    return conform(caption, text)


def conform(caption: str, candidate: str) -> str:
    """Return the candidate with its caption's formatting.

    The words that both share at the beginning and end are copied from the caption, with its outer white space and its
    final stop, if any. In the other text white space is normalised, and the first letter gets the caption's case.

    >>> conform(" a cat on a  mat. ", "A dog on a mat")
    ' a dog on a  mat. '
    """
    before, after = split(caption), split(candidate)
    if not before.spans or not after.spans:
        return candidate
    first, last = count_shared(before.lower, after.lower)

    def changed(words: Words) -> tuple[int, int]:
        start = words.spans[first - 1][1] if first else words.spans[0][0]
        return start, words.spans[-last][0] if last else words.spans[-1][1]

    (start, stop), (begin, end) = changed(before), changed(after)
    middle, rest, begun = candidate[begin:end], caption[start:], caption[:stop]
    text = re.sub(r"\s+", " ", middle.strip())
    text = text if first else _with_case_of(rest, text)
    # The white space around the changed words is the caption's, too.
    if first and middle[:1].isspace():
        text = (rest[: len(rest) - len(rest.lstrip())] or " ") + text
    if last and text.strip() and middle[-1:].isspace():
        text += begun[len(begun.rstrip()) :] or " "
    return caption[:start] + text + caption[stop:]


def _with_case_of(caption: str, text: str) -> str:
    """Give the text's first letter the caption's case, unless its first word has other capitals."""
    match = re.match(r"\W*(\w)([\w'’-]*)", text)
    model = re.search(r"[^\W\d_]", caption)
    if not match or not model or match[2] != match[2].lower():
        return text
    letter = match[1].upper() if model[0].isupper() else match[1].lower()
    return text[: match.start(1)] + letter + text[match.end(1) :]
