"""The size of a model: its number of parameters, parsed from text, and its size class."""

from __future__ import annotations

import re
from typing import Any

NOT_STATED = "not stated"
SIZES = ("up to 200 M", "200 M to 1 B", "over 1 B", NOT_STATED)

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}


def size_class(parameters: int | None) -> str:
    """Return the size class, one of `SIZES`; `NOT_STATED` if the number of parameters is unknown.

    >>> size_class(151_277_313)
    'up to 200 M'
    """
    if not parameters:
        return NOT_STATED
    return SIZES[0] if parameters <= 200e6 else SIZES[1] if parameters <= 1e9 else SIZES[2]


def parameter_count(text: Any) -> int | None:
    """Parse a number of parameters, such as 151277313, ``"151,277,313"``, ``"151M"`` or ``"1.4 B"``.

    Returns:
        None for other text, 0, or more than 10 ** 15.

    >>> parameter_count("151.3M"), parameter_count("many")
    (151300000, None)
    """
    match = re.fullmatch(r"(\d{1,16}(?:\.\d{1,16})?) ?([KMB]?)", str(text).strip().upper().replace(",", ""), re.ASCII)
    if match is None:
        return None
    count = round(float(match[1]) * _UNITS[match[2]])
    return count if 0 < count <= 10**15 else None
