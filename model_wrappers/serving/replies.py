"""Parse what a model, a server or a person replied: yes or no, or which caption is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_YES, _NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0")
_SENTENCE = re.compile(r"\W*(yes|no)\s*(?:[^\w\s].*)?", re.DOTALL)
_NAMED = r"(?:the\s+)?(?:correct\s+|right\s+)?(?:answer|caption|choice|option|output)(?:\s+is)?"
# A letter alone, in brackets or behind "Answer:"; with more behind it only as in "B." or "(B)".
_LETTER = re.compile(rf"\W*(?:(?i:{_NAMED})\W+)?(?:([A-Za-z])\W*$|([A-Z])[).:])")


def yes_or_no(reply: Any) -> float:
    """Return 1 for yes, -1 for no and 0 for any other reply.

    >>> yes_or_no("Yes, two of them."), yes_or_no(False), yes_or_no("yes and no")
    (1.0, -1.0, 0.0)
    """
    text = str(reply).strip().casefold() if isinstance(reply, str | int | float) else ""
    sentence = _SENTENCE.fullmatch(text)
    word = sentence[1] if sentence else text
    return float(word in _YES) - float(word in _NO)


def chosen_captions(reply: str, captions: Sequence[str]) -> list[int]:
    """Return the indices of the caption that a reply names by its text or by its letter (A is the first).

    Several indices are returned if captions are equal, none if the reply names no caption, or if its text fits captions
    that differ in case, quotation marks or final period only.

    >>> captions = ["a red cat", "a blue cat"]
    >>> [chosen_captions(reply, captions) for reply in ("A blue cat.", "(B) a blue cat", "Answer: A", "neither")]
    [[1], [1], [0], []]
    """
    for simplify in (str.strip, _simplified):
        same = [index for index, caption in enumerate(captions) if simplify(caption) == simplify(reply)]
        if same and simplify(reply):
            return same if len({captions[index].strip() for index in same}) == 1 else []
    match = _LETTER.match(reply)
    index = ord((match[1] or match[2]).upper()) - ord("A") if match else len(captions)
    return [index] if index < len(captions) else []


def _simplified(text: str) -> str:
    return text.strip().strip("\"'“”").rstrip(".").casefold()
