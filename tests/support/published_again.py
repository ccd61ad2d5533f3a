"""The papers' tables, typed a second time from the papers' text, apart from ``hub_datasets/published``.

A file of ``second_typing/`` is a table in the paper's orientation and order. "-" is a cell without a value. Left out
are the differences in brackets of the Hard Positives paper, which repeat what its other columns say, and the sizes of
SugarCrepe's models.
"""

from __future__ import annotations

import csv
from pathlib import Path


def read_table(path: Path) -> dict[tuple[str, str], str]:
    """What stands in each cell that is not empty, by row and header, in the paper's order."""
    with path.open(encoding="utf-8", newline="") as file:
        found = {}
        for line in csv.DictReader(file):
            label = " / ".join(filter(None, (line.pop("group"), line.pop("label"))))
            found |= {(label, header): value for header, value in line.items() if value != "-"}
    return found


AGAIN = {path.stem: read_table(path) for path in sorted((Path(__file__).parent / "second_typing").glob("*.csv"))}
