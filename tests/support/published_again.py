"""The papers' tables, typed a second time from the papers' text, apart from ``hub_datasets/published``.

A file of ``second_typing/`` is a table in the paper's orientation and order. "-" is a cell without a value. Left out
are the differences in brackets of the Hard Positives paper, which repeat what its other columns say, the sizes of
SugarCrepe's models, and N/A for models that were trained without hard negatives. ARO's Tables 3 and 4 have a line for
each shuffle and model.
"""

from __future__ import annotations

import csv
import re
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


def as_typed_again(table) -> dict[tuple[str, str], str]:
    """What a table of ``hub_datasets/published`` holds, by the row and header of its second typing."""
    found = {}
    for row in table.rows:
        for column, text in zip(table.columns, row.printed, strict=True):
            line, header = [*filter(None, (row.group, row.label))], column.header or column.name
            if table.name in ("aro-3", "aro-4"):
                _, condition, header = re.split(", |: ", column.name)
                line.insert(1, condition)
            place = (" / ".join(line), header)
            if text != "-":
                found[place[::-1] if table.transposed else place] = text
    return found
