"""The metrics' cards and the papers that they quote, for the tests that hold the ones to the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vl_assay.metrics

METRICS = Path(vl_assay.metrics.__file__).parent


def card_text(metric):
    return (METRICS / metric / "README.md").read_text(encoding="utf-8")


def card_rows(metric, *header):
    """The rows, as lists of cells, of the card's table whose header starts with these cells."""
    tables = re.findall(r"(?:^\|.*\n)+", card_text(metric), flags=re.MULTILINE)
    for table in tables:
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        if rows[0][: len(header)] == list(header):
            return rows[2:]
    raise AssertionError(f"{metric} has no table that starts with {header}")


def card_table(metric, *header):
    """The same by their first cell."""
    return {name: cells for name, *cells in card_rows(metric, *header)}


def paper_text(shared_data, number):
    """The text of the paper whose file name starts with that number."""
    found = sorted((shared_data / "papers").glob(f"{number:03d}_*.txt"))
    if not found:
        pytest.skip(f"the text of paper {number:03d} is not there")
    return found[0].read_text(encoding="utf-8").replace("ﬂ", "fl").replace("ﬁ", "fi")


def plain_name(model):
    return model.upper().replace("-", "")


def table_before(paper, caption):
    """The rows, by plain name, of the paper's table of models that ends before its caption."""
    rows = {}
    for line in reversed(paper.split(caption)[0].splitlines()):
        name, *cells = line.split("\t")
        if name == "Model":
            return rows
        if name and cells and cells[0]:
            rows[plain_name(name)] = cells
    raise AssertionError(f"no table before {caption!r}")
