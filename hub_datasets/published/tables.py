"""The tables of the papers that `reproduce` compares with: what they print, of which models, and how it is scored here.

The modules ``_published_<paper>`` beside this file hold them, found by listing. A value is kept as it is printed, and
has an address: paper, table, row and column. None was measured by us. Which checkpoint a row means is from the paper's
text or its authors' code; where neither tells, the row's note says so.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...metrics.common.errors import UnknownNameError

NOTHING = "-"  # what stands for a cell without a value


@dataclass(frozen=True)
class Paper:
    """A paper: its title, and what to call it in a line."""

    title: str
    short: str


@dataclass(frozen=True)
class Column:
    """A score that a table prints of each model.

    Args:
        name: its name, unique in the table.
        task: benchmark and task of the predictions file, such as ``"sugarcrepe/itm"``; empty where there is none.
        metric: the module that computes it.
        score: where it stands in the module's result, such as ``("per_category", "swap_obj", "accuracy")``.
        average: ``"category"``, the score of one category; ``"micro"``, over all examples; ``"macro"``, the unweighted
            mean over categories; ``"curve"``, of one precision-recall curve over all examples.
        n: number of examples, where the paper prints it.
        reason: why it cannot be had here, where there is no task.
        header: the header in the paper, where that is not the name.
    """

    name: str
    task: str = ""
    metric: str = ""
    score: tuple[str, ...] = ()
    average: str = "category"
    n: int | None = None
    reason: str = ""
    header: str = ""


@dataclass(frozen=True)
class Run:
    """How a row's model is scored here.

    Args:
        model: its name as `load_model` takes it; empty where no family loads it.
        settings: of its family.
        weights: a file of weights that one must fetch; it becomes the setting ``pretrained``.
        source: where it is to be had.
        reason: why no family loads it.
        note: what is uncertain about it.
        is_model: false for people and for chance.
    """

    model: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""
    source: str = ""
    reason: str = ""
    note: str = ""
    is_model: bool = True


@dataclass(frozen=True)
class Row:
    """What a table prints of one model.

    Args:
        name: the row's label, with its group where the table has the label more than once.
        label, group: as they are printed; not every table has groups.
        printed: the values in the order of the columns, `NOTHING` where there is none.
        run: how the model is scored here.
    """

    name: str
    label: str
    group: str
    printed: tuple[str, ...]
    run: Run

    @property
    def folder(self) -> str:
        """The name of the folder with its predictions."""
        return re.sub(r"[^\w.+-]+", "-", self.name).strip("-.")


@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Args:
        name: its name here, such as ``"sugarcrepe-6"``.
        paper, number: where it stands.
        unit: what it prints for a score of 1: 100 where it prints per cent.
        decimals: how many it prints; a zero at the end may be left out.
        columns, rows: scores and models; in the paper it is the other way round where `transposed`.
        notes: why our values may differ.
    """

    name: str
    paper: Paper
    number: int
    unit: int
    decimals: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    transposed: bool = False

    def tasks(self, row: Row) -> list[str]:
        """The tasks that a row has values of, such as ``["hard_positives/replace", "hard_positives/swap"]``."""
        cells = zip(self.columns, row.printed, strict=True)
        return list(dict.fromkeys(column.task for column, printed in cells if column.task and printed != NOTHING))

    @property
    def metrics(self) -> set[str]:
        """The metrics that compute its columns."""
        return {column.metric for column in self.columns if column.metric}


@cache
def all_tables() -> Mapping[str, Table]:
    """All tables by name, those of a paper together."""
    homes = sorted(path.stem for path in Path(__file__).parent.glob("_[!_]*.py"))
    tables = [table for home in homes for table in importlib.import_module(f"{__package__}.{home}").TABLES]
    return {table.name: table for table in tables}


def get_table(name: str) -> Table:
    """The table of that name; `UnknownNameError` lists the known ones."""
    if name not in all_tables():
        raise UnknownNameError("table", name, all_tables())
    return all_tables()[name]


def read_rows(text: str, runs: Mapping[str, Run]) -> tuple[Row, ...]:
    """Rows of ``label | values``, after lines of ``group:``; a run is looked up by ``group/label``, then by label."""
    cells: list[tuple[str, str, list[str]]] = []
    group = ""
    for line in text.strip().splitlines():
        label, separator, values = (part.strip() for part in line.partition(" | "))
        if separator:
            cells.append((label, group, values.split()))
        else:
            group = label.removesuffix(":")
    counts = Counter(label for label, _, _ in cells)
    return tuple(
        Row(
            name=f"{label} ({group})" if counts[label] > 1 else label,
            label=label,
            group=group,
            printed=tuple(values),
            run=runs.get(f"{group}/{label}") or runs[label],
        )
        for label, group, values in cells
    )


def open_clip(name: str, note: str = "") -> Run:
    """A model with published weights of the library `open_clip`."""
    return Run(f"open_clip:{name}", note=note)


_PEOPLE = Run(reason="people, not a model", is_model=False)
_CHANCE = Run(reason="chance, not a model", is_model=False)
REFERENCES = {"Human": _PEOPLE, "Human Estimate": _PEOPLE, "Random Chance": _CHANCE, "Chance-level": _CHANCE}

CLIP = Run("clip:openai/clip-vit-base-patch32")
NEGCLIP = Run(
    "open_clip:ViT-B-32",
    weights="negclip.pth",
    source="from ARO's authors: gdown 1ooVVPxB-tvptgmHlIMMFGV3Cg-IrhbRZ -O negclip.pth",
    note="scored as ViT-B-32, without the QuickGELU that it was trained with, as its authors' code loads it",
)
XVLM = Run(reason="X-VLM (github.com/zengyan-97/X-VLM) is in neither transformers nor open_clip")
FP16 = (
    "The authors' code loads OpenAI's CLIP in float16 on a GPU, and then 0.8 to 5 % of close pairs tie; here it is "
    "float32 unless --dtype float16 is given."
)
