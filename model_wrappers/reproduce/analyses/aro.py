"""ARO's perturbations (Table 1), retrieval without order (Figure 2) and NegCLIP (Figure 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ....hub_datasets.published.tables import get_table, number
from ....metrics.common.documents import Part, simple_table
from .material import Material, draw_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Table 1: the caption, and the paper's words for the shuffles.
CAPTION = "remarkable scene with a blue ball behind a green chair"
SHUFFLES = {
    "shuffle_nouns_and_adjectives": "Shuffle nouns and adjectives",
    "shuffle_all_but_nouns_and_adjectives": "Shuffle everything but nouns and adjectives",
    "shuffle_trigrams": "Shuffle trigrams",
    "shuffle_within_trigrams": "Shuffle words within each trigram",
}


def perturbations(_: Material) -> list[Part]:
    """The caption of ARO's Table 1, perturbed here."""
    from ....hub_datasets.authoring.text.perturb import perturb

    found = perturb([CAPTION], list(SHUFFLES)).perturbed
    rows = [(shown, found[name][0] or "unchanged") for name, shown in SHUFFLES.items()]
    note = "The permutations are other draws than the paper's."
    return [simple_table(("Perturbation Type", "Example"), [("Original Caption", CAPTION), *rows], note=note)]


def retrieval_without_order(material: Material) -> list[Part]:
    """ARO's Figure 2, from Tables 3 and 4: Recall@1 with shuffled captions and images, and the largest drops."""
    parts: list[Part] = []
    for name, what in (("aro-3", "text"), ("aro-4", "image")):
        recalls = _recalls(name)
        draw = partial(_draw_recalls, recalls)
        parts += [_largest_drops(recalls, what), material.draw(f"aro-figure-2-{what}", draw, (13, 7))]
        if ours := material.ours(name):
            rows = [(f"{row}, {column}", one.printed, f"{one.ours:.3f}") for (row, column), one in ours.items()]
            parts.append(simple_table(("", "published", "ours"), rows, title=f"Ours, {what} shuffles", numbers=True))
    return parts


def _recalls(name: str) -> dict[tuple[str, str, str], dict[str, tuple[float, float]]]:
    """Return Recall@1 and its deviation by data, model and score, then by condition; the first is without shuffles."""
    table = get_table(name)
    found: dict[tuple[str, str, str], dict[str, tuple[float, float]]] = {}
    for row in table.rows:
        for column, text in table.cells(row):
            data, condition, score = re.split(", |: ", column.name)
            if score.endswith("@1"):
                deviation = float(text.partition("±")[2] or 0)
                found.setdefault((data, row.label, score), {})[condition] = number(text), deviation
    return found


def _largest_drops(recalls: Mapping[tuple[str, str, str], Mapping[str, tuple[float, float]]], what: str) -> Part:
    """By how much the worst shuffle lowers Recall@1."""
    rows = []
    for key, by_condition in recalls.items():
        (_, (plain, _)), *shuffled = by_condition.items()
        worst, (value, _) = min(shuffled, key=lambda item: item[1])
        rows.append((", ".join(key), f"{plain:.3f}", worst, f"{value:.3f}", f"{100 * value / plain:.0f} %"))
    title = f"Recall@1 with the {what} shuffle that lowers it most (published)"
    return simple_table(("", "no shuffling", "shuffle", "shuffled", "is left"), rows, title=title)


def _draw_recalls(recalls: Mapping[tuple[str, str, str], Mapping[str, tuple[float, float]]], figure: Figure) -> None:
    """Draw a panel for each set and direction, with a group of bars for each condition and a bar for each model."""
    panels = dict.fromkeys((data, score) for data, _, score in recalls)
    for axes, (data, score) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        own = {model: found for (other, model, of), found in recalls.items() if (other, of) == (data, score)}
        conditions = list(dict.fromkeys(condition for found in own.values() for condition in found))
        cells = {model: [found.get(each, (math.nan, 0)) for each in conditions] for model, found in own.items()}
        values, errors = ({model: [cell[n] for cell in found] for model, found in cells.items()} for n in (0, 1))
        draw_bars(axes, [name.replace("Shuffle ", "") for name in conditions], values, errors)
        axes.set(title=data, ylabel=score, ylim=(0, 1))
        axes.tick_params("x", labelsize=7)
    figure.axes[0].legend(fontsize=7, ncols=4)


def negclip_profile(material: Material) -> list[Part]:
    """ARO's Figure 3, from Table 6: CLIP, CLIP fine-tuned and NegCLIP on the benchmark and on other tasks."""
    table = get_table("aro-6")
    rows = {row.label: table.values(row) for row in table.rows}
    ours = material.ours(table.name)
    names = [column.name for column in table.columns]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        bars = {label: [row[name] for name in names] for label, row in rows.items()}
        for label, places in draw_bars(axes, names, bars, is_horizontal=True).items():
            if known := [(ours[label, n].ours, y) for n, y in zip(names, places, strict=True) if (label, n) in ours]:
                axes.plot(*zip(*known, strict=True), "k|", label=f"{label}, ours")
        axes.invert_yaxis()
        axes.set(xlabel="score", xlim=(0, 1))
        axes.legend()

    gains = [
        (name, *(f"{row[name]:.2f}" for row in rows.values()), f"{rows['NegCLIP'][name] - rows['CLIP'][name]:+.2f}")
        for name in names
    ]
    return [
        simple_table(("", *rows, "NegCLIP - CLIP"), gains, title="Published", numbers=True),
        material.draw("aro-figure-3", draw, (8, 6)),
    ]
