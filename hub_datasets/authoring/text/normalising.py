"""Normalisation of captions, so that typography does not distinguish positive captions from negatives."""

from __future__ import annotations

import re
import unicodedata

_PLAIN = str.maketrans({"‘": "'", "’": "'", "`": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-"})


def normalise(caption: str) -> str:
    """Normalise the typography of a caption, keeping its words and their order.

    Steps:

    1. Unicode's composed form (NFC); curly quotation marks and long dashes become straight and short.
    2. Any run of white space becomes one blank; white space at the ends or before ``, . ; : ! ?`` is removed.
    3. Full stops, exclamation and question marks, commas, semicolons and colons at the end are removed.
    4. The first letter is lower case, unless its word has a capital letter further on, as in "TV".

    The function is idempotent.

    >>> normalise("  A dog , by a  “red” car.\\n")
    'a dog, by a "red" car'
    """
    text = unicodedata.normalize("NFC", caption).translate(_PLAIN)
    text = re.sub(r"\s+(?=[,.;:!?])", "", " ".join(text.split()))
    text = re.sub(r"[\s.!?,;:]+$", "", text)
    first = re.match(r"\w+", text)
    if first and not any(letter.isupper() for letter in first.group()[1:]):
        text = text[0].lower() + text[1:]
    return unicodedata.normalize("NFC", text)
