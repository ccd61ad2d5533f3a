"""The metrics' cards and the papers that they quote, for the tests that compare them."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

import vl_assay.metrics

METRICS = Path(vl_assay.metrics.__file__).parent
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def card_text(metric):
    return (METRICS / metric / "README.md").read_text(encoding="utf-8")


def _tables(text):
    """The tables of a card, each a list of rows of cells, the header first."""
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        yield [header, *rows]


def card_rows(metric, *header):
    """The rows, as lists of cells, of the card's table whose header starts with these cells."""
    for first, *rows in _tables(card_text(metric)):
        if first[: len(header)] == list(header):
            return rows
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


def numbers_not_in(metric, paper, computed=()):
    """The numbers of the card's reference tables that the paper has neither so nor as a fraction of 100.

    Args:
        computed: the headers' first cells of tables, or headers of columns, that no paper prints.
    """
    printed = set(_NUMBER.findall(paper))
    printed |= {format(Decimal(each.replace(",", "")).scaleb(2), "f") for each in printed if "." in each}
    printed = {Decimal(each.replace(",", "")) for each in printed}
    missing = []
    for header, *rows in _tables(re.split(r"\n## ", card_text(metric).split("## Reference values")[1])[0]):
        if header[0] in computed:
            continue
        for name, *cells in rows:
            if name == "chance":
                continue
            for column, cell in zip(header[1:], cells, strict=True):
                numbers = [] if column in computed else _NUMBER.findall(cell)
                missing += [(name, each) for each in numbers if Decimal(each.replace(",", "")) not in printed]
    return missing
