"""ARO's perturbations (Table 1), retrieval without order (Figure 2) and NegCLIP (Figure 3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ....hub_datasets.published.tables import NOTHING, get_table
from ....metrics.common.documents import Part, simple_table
from ....metrics.common.figures import colours
from .material import Material
from .printed import values_of

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


class _Recall(NamedTuple):
    """A cell of ARO's Tables 3 and 4: fractions; the deviation is 0 without shuffles."""

    data: str
    condition: str
    score: str
    model: str
    value: float
    deviation: float


def retrieval_without_order(material: Material) -> list[Part]:
    """ARO's Figure 2, from Tables 3 and 4: Recall@1 with shuffled captions and images, and the largest drops."""
    parts: list[Part] = []
    for name, what in (("aro-3", "text"), ("aro-4", "image")):
        cells = _recalls(name)
        parts += [_largest_drops(cells, what), material.draw(f"aro-figure-2-{what}", _recall_bars(cells), (13, 7))]
        if ours := material.ours(name):
            rows = [(f"{row}, {column}", one.printed, f"{one.ours:.3f}") for (row, column), one in ours.items()]
            parts.append(simple_table(("", "published", "ours"), rows, title=f"Ours, {what} shuffles", numbers=True))
    return parts


def _recalls(name: str) -> list[_Recall]:
    table, found = get_table(name), []
    for row in table.rows:
        for column, text in zip(table.columns, row.printed, strict=True):
            data, condition, score = re.split(", |: ", column.name)
            if text != NOTHING and score.endswith("@1"):
                value, _, deviation = text.partition("±")
                found.append(_Recall(data, condition, score, row.label, float(value), float(deviation or 0)))
    return found


def _largest_drops(cells: list[_Recall], what: str) -> Part:
    """By how much the worst shuffle lowers Recall@1."""
    rows = []
    for data, model, score in dict.fromkeys((each.data, each.model, each.score) for each in cells):
        plain, *shuffled = [each for each in cells if (each.data, each.model, each.score) == (data, model, score)]
        worst = min(shuffled, key=lambda each: each.value)
        kept = f"{100 * worst.value / plain.value:.0f} %"
        rows.append((f"{data}, {model}, {score}", f"{plain.value:.3f}", worst.condition, f"{worst.value:.3f}", kept))
    title = f"Recall@1 with the {what} shuffle that lowers it most (published)"
    return simple_table(("", "no shuffling", "shuffle", "shuffled", "is left"), rows, title=title)


def _recall_bars(cells: list[_Recall]) -> Any:
    """Draws a panel for each set and direction, with a group of bars for each condition and a bar for each model."""

    def draw(figure: Figure) -> None:
        panels = [*dict.fromkeys((each.data, each.score) for each in cells)]
        for axes, (data, score) in zip(figure.subplots(2, 2).flat, panels, strict=True):
            own = [each for each in cells if (each.data, each.score) == (data, score)]
            conditions = [*dict.fromkeys(each.condition for each in own)]
            for number, (model, colour) in enumerate(colours([each.model for each in own]).items()):
                bars = [each for each in own if each.model == model]
                places = [conditions.index(each.condition) + 0.2 * (number - 1.5) for each in bars]
                heights, errors = [each.value for each in bars], [each.deviation for each in bars]
                axes.bar(places, heights, 0.18, yerr=errors, color=colour, label=model)
            axes.set(title=data, ylabel=score, ylim=(0, 1))
            axes.set_xticks(range(len(conditions)), [name.replace("Shuffle ", "") for name in conditions], fontsize=7)
        figure.axes[0].legend(fontsize=7, ncols=4)

    return draw


def negclip_profile(material: Material) -> list[Part]:
    """ARO's Figure 3, from Table 6: CLIP, CLIP fine-tuned and NegCLIP on the benchmark and on other tasks."""
    table = get_table("aro-6")
    rows = {row.label: values_of(table, row) for row in table.rows}
    ours = material.ours(table.name)
    names = [column.name for column in table.columns]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, (label, colour) in enumerate(colours([*rows]).items()):
            places = [place + 0.25 * (number - 1) for place in range(len(names))]
            axes.barh(places, [rows[label][name] for name in names], 0.23, color=colour, label=label)
            known = [(ours[label, name].ours, place) for name, place in zip(names, places, strict=True)
                     if (label, name) in ours]  # fmt: skip
            if known:
                axes.plot(*zip(*known, strict=True), "k|", label=f"{label}, ours")
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel="score", xlim=(0, 1))
        axes.legend()

    gains = []
    for name in names:
        gain = rows["NegCLIP"][name] - rows["CLIP"][name]
        gains.append((name, *(f"{each[name]:.2f}" for each in rows.values()), f"{gain:+.2f}"))
    return [
        simple_table(("", *rows, "NegCLIP - CLIP"), gains, title="Published", numbers=True),
        material.draw("aro-figure-3", draw, (8, 6)),
    ]
