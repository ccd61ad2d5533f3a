"""Every table and figure of the papers, and what becomes of it here: ``inventory.csv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from .tables import Paper, all_tables

HERE, COMMAND, CANNOT = "here", "command", "cannot"
STATES = {HERE: "reproduced here", COMMAND: "one command", CANNOT: "cannot be"}
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Item:
    """A table, figure or algorithm of a paper.

    Args:
        paper: the paper's name, such as ``"aro"``.
        name: as the paper calls it, such as ``"Table 2"``.
        title: what it shows, in a few words.
        state: `HERE`, reproduced without weights and images; `COMMAND`, with weights, images or the user's own copy;
            `CANNOT`, not at all.
        command: the command; DATA is a folder with the user's copies, one folder for each benchmark, WEIGHTS one with
            the weights to be downloaded by hand, PREDICTIONS one with predictions.
        note: the reason, or what to know of the command.
    """

    paper: str
    name: str
    title: str
    state: str
    command: str
    note: str

    @property
    def table(self) -> str:
        """The name of the published table with its values; empty where there is none."""
        kind, _, number = self.name.partition(" ")
        name = f"{self.paper.removesuffix('-supplement')}-{number}"
        return name if kind == "Table" and name in all_tables() else ""


@cache
def all_items() -> tuple[Item, ...]:
    """The items of all papers, those of a paper together, in the paper's order."""
    with (_FOLDER / "inventory.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            Item(line["paper"], line["item"], line["title"], line["state"], line["command"], line["note"])
            for line in csv.DictReader(file)
        )


@cache
def all_papers() -> dict[str, Paper]:
    """The papers by name, in the order of the inventory."""
    described = yaml.safe_load((_FOLDER / "tables.yaml").read_text("utf-8"))["papers"]
    return {name: Paper(**described[name]) for name in dict.fromkeys(item.paper for item in all_items())}
