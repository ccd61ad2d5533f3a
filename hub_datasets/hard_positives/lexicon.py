"""The words that REPLACE exchanges for a synonym (The Hard Positive Truth, Tables 4 to 6): ``lexicon.csv``."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from typing import NamedTuple

# Prepositions of several words, which are never split.
COMPOUNDS = ("in front of", "in back of", "in between")


class LexiconEntry(NamedTuple):
    """A line of the lexicon: words, their synonym, and the paper's number of released rows."""

    kind: str
    originals: tuple[str, ...]
    synonym: str
    frequency: int


# Table 4 (relations), Tables 5 and 6 (attributes). The example of "riding on" replaces only "riding".
with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    LEXICON = tuple(
        LexiconEntry(kind, tuple(originals.split("|")), synonym, int(frequency))
        for kind, originals, synonym, frequency in islice(csv.reader(_file), 1, None)
    )
