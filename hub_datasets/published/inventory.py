"""Every table and figure of the papers, and where it can be had here: ``inventory.csv``.

A row is a table or figure as its caption names it, with its state, one of `STATES`; `how` is the command, the place in
this package, or the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .tables import all_tables, read_csv

STATES = {
    "here": "made without weights or images, from what is released",
    "command": "one command, with weights, images or predictions",
    "not comparable": "one command, but the paper has other data: its values are counted nowhere",
    "implemented": "a method, which is part of this package",
    "cannot": "cannot be made",
}


class Item(NamedTuple):
    """A table or figure: its paper's key, name, state, what it shows, and command, place or reason."""

    paper: str
    item: str
    state: str
    what: str
    how: str


@cache
def read_inventory() -> tuple[Item, ...]:
    """Return all items, by paper; tables come first."""
    return tuple(Item(**line) for line in read_csv(Path(__file__).with_name("inventory.csv")))


def paper_names() -> dict[str, str]:
    """Return the line that names each paper, by its key."""
    return {name.rpartition("-")[0]: table.paper.short for name, table in all_tables().items()}


def summarise(items: Sequence[Item]) -> str:
    """Return the number of items in each state: ``"2 here, 13 command"``."""
    counts = Counter(item.state for item in items)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
