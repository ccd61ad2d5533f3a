"""Parse what a model, a server or a person replied: yes or no, or which caption is meant.

An answer may stand at the beginning of a reply ("B. a red cat", "(B)", "Option B is correct"), on its last line, or
behind words such as "the answer is", in ``\\boxed{}`` or in ``<answer>``, after reasoning of any length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_YES, _NO = ("yes", "true", "1", "1.0"), ("no", "false", "0", "0.0")
_SENTENCE = re.compile(r"\W*(yes|no)\s*(?:[^\w\s].*)?", re.DOTALL)
_REASONED = re.compile(r"</(?:think|thinking|thought|reason|reasoning|analysis)>", re.IGNORECASE)
_MARKED = re.compile(r"\\boxed\s*\{(?:\\\w+\{)?([^{}]*)|<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_NAME = r"(?:answer|caption|choice|option|description|output|response)"
_GOOD = r"(?:correct|right|best|final|true|matching)"
# Words before an answer, but not those before a rejected one, such as "the wrong answer is".
_DECLARED = re.compile(
    rf"(?<!wrong )(?<!incorrect )(?<!other )(?:\banswer\b(?:\s+is\b)?|\b{_GOOD}\s+{_NAME}(?:\s+is\b|\s*:)"
    rf"|\b(?:choose|select|pick)\b(?:\s+{_NAME}\b)?)",
    re.IGNORECASE,
)
# A single letter, or one in brackets or quotation marks; if text follows, a capital before a sign, as in "B." or
# "(B)", or with "is correct" or the like, but not one of several letters, as in "A, B".
_LETTER = re.compile(
    rf"\W*(?:(?i:(?:the\s+)?(?:{_GOOD}\s+)?{_NAME}(?:\s+is)?)\W+)?(?:([A-Za-z])\W*$"
    rf"|([A-Z])(?:[).:\]}}>*\"'”’`]|,(?!\W*[A-Z]\b|\s*(?:or|and)\b)|\s+is\s+(?:the\s+)?{_GOOD}\b|\s+because\b|\s+[-–—]\s|\s*\n))"
)
# The beginning of an option; a reply with several lists them.
_OPTION = re.compile(r"(?<![\w'.])([A-Z])[).:](?=\s)")
# Characters that are read at the beginning and at the end of a reply.
_MOST_READ = 1000
_AROUND = " \t\n\"'“”‘’`*_"


def yes_or_no(reply: Any) -> float:
    """Return 1 for yes, -1 for no and 0 for any other reply.

    >>> yes_or_no("Yes, two of them."), yes_or_no(False), yes_or_no("yes and no"), yes_or_no("The answer is no.")
    (1.0, -1.0, 0.0, -1.0)
    """
    for text in _answers(str(reply) if isinstance(reply, str | int | float) else ""):
        plain = text.strip().casefold()
        sentence = _SENTENCE.fullmatch(plain)
        word = sentence[1] if sentence else plain
        if word in (*_YES, *_NO):
            return 1.0 if word in _YES else -1.0
    return 0.0


def chosen_captions(reply: str, captions: Sequence[str]) -> list[int]:
    """Return the indices of the caption that a reply names by its text or by its letter (A is the first).

    Several indices are returned if captions are equal, none if the reply names no caption, or if its text fits captions
    that differ in case, quotation marks or final period only.

    >>> captions = ["a red cat", "a blue cat"]
    >>> replies = "A blue cat.", "(B) a blue cat", "It is blue. So the answer is **B**.", "\\\\boxed{A}", "neither"
    >>> [chosen_captions(reply, captions) for reply in replies]
    [[1], [1], [1], [0], []]
    """
    for text in _answers(reply):
        for simplify in (str.strip, _simplified):
            same = [index for index, caption in enumerate(captions) if simplify(caption) == simplify(text)]
            if same and simplify(text):
                return same if len({captions[index].strip() for index in same}) == 1 else []
        match = _LETTER.match(text)
        index = ord((match[1] or match[2]).upper()) - ord("A") if match else len(captions)
        if index < len(captions):
            return [index]
    return []


def _answers(reply: str) -> Iterator[str]:
    """Yield the parts of a reply that may be the answer, parts marked as the answer first."""
    text = _REASONED.split(reply)[-1].strip()
    if len(text) > 2 * _MOST_READ:
        text = f"{text[:_MOST_READ]}\n{text[-_MOST_READ:]}"
    yield from ((match[1] or match[2] or "") for match in reversed(list(_MARKED.finditer(text))))
    last = text.rpartition("\n")[2]
    yield last if len(last.split()) == 1 else ""
    yield from (text[match.end() :].lstrip(" :=-") for match in reversed(list(_DECLARED.finditer(text))))
    yield from (text, last) if len(set(_OPTION.findall(text))) < 2 else ()


def _simplified(text: str) -> str:
    return text.strip(_AROUND).rstrip(".").strip(_AROUND).casefold()
