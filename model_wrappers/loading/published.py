"""The compositional checkpoints that papers published: ``published.csv``, shown in ``docs/checkpoints.md``.

A row has the place of the weights, their licence, architecture and activation, and how they load. ``files`` are the
patterns, with ``|`` between, by which a downloaded file is recognised; a pattern with ``/`` is of folder and file.
"""

from __future__ import annotations

import csv
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("published.csv")
QUICK = "quick_gelu"


class Published(NamedTuple):
    """A row of the table: ``activation`` is empty if not known, ``openai_share`` if the weights are not averaged."""

    name: str
    title: str
    repository: str
    licence: str
    weights: str
    files: str
    architecture: str
    activation: str
    openai_share: str
    load_as: str
    note: str

    @property
    def model(self) -> str:
        """The model of `open_clip` that computes the checkpoint with its activation."""
        return self.architecture + ("-quickgelu" if self.activation == QUICK else "")

    @property
    def how(self) -> str:
        """The model's name for `vl-assay run`, and its setting."""
        file = f"open_clip:{self.name} -s pretrained=FILE" if self.files else ""
        return self.load_as or file


@cache
def published_checkpoints() -> dict[str, Published]:
    """Return all rows by name."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {row["name"]: Published(**row) for row in csv.DictReader(file)}


def find_published(file: Path) -> Published | None:
    """Return the row of a downloaded file, recognised by its name."""
    names = file.name.lower(), f"{file.absolute().parent.name}/{file.name}".lower()
    for row in published_checkpoints().values():
        if any(fnmatch(names["/" in pattern], pattern.lower()) for pattern in row.files.split("|")):
            return row
    return None
