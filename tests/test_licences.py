"""The page of licences: the benchmarks without an open one, and each library that an extra installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")


def rows(header):
    """The cells of the rows of the table whose header begins with these cells."""
    table = PAGE.split(f"| {header} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_benchmarks_whose_cards_state_no_open_licence_are_named():
    cards = {path.parent.name: path.read_text(encoding="utf-8") for path in ROOT.glob("hub_datasets/*/README.md")}
    licences = {name: yaml.safe_load(card.split("---")[1])["license"] for name, card in cards.items()}
    not_open = sorted(name for name, licence in licences.items() if licence in ("unknown", "other"))
    assert [name for name, _ in rows("benchmark | licence")] == not_open


def test_each_library_that_users_install_is_listed_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in ("docs", "test")}
    needs = [need for group in (project["dependencies"], *extras.values()) for need in group]
    expected = [name for name in dict.fromkeys(re.match(r"[\w.-]+", need)[0] for need in needs) if name != "vl-assay"]
    assert [name for _, name, _ in rows("extra | library | licence")] == expected
