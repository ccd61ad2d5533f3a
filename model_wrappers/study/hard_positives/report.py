"""The report of a study: tables in Markdown and in the terminal, JSON, and a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....metrics.augmented_accuracy.spec import SPEC as AUGMENTED
from ....metrics.brittleness.spec import SPEC as BRITTLE
from ....metrics.common.documents import Part, simple_table
from ....metrics.common.documents import to_markdown as write_markdown
from ....metrics.common.figures import as_file, colours
from ....metrics.common.formatting import percent, points
from ....metrics.common.storage import write_atomically, write_text
from .findings import BY_CATEGORY, CATEGORIES, KINDS, MEASURES, TABLES, Study, document
from .variants import BASE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Hard negatives, hard positives and in-batch negatives, in miniature"
_CHANCE = {score.name: score.chance or 0.0 for spec in (AUGMENTED, BRITTLE) for score in spec.scores}
_WEIGHTS = ("hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hp+hn")
_SHORT = ("original", "augmented", "brittleness ↓")


def write_study(study: Study, folder: Path) -> None:
    """Write ``study.json``, ``study.md`` and, with matplotlib, ``study.png`` into a folder."""
    found = document(study)
    write_text(folder / "study.json", json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(folder / "study.md", to_markdown(found))
    with suppress(ModuleNotFoundError):
        write_atomically(folder / "study.png", plot_png(found))


def to_markdown(found: Mapping[str, Any]) -> str:
    """The report of a study's `document` as Markdown."""
    return write_markdown(report_parts(found), TITLE, level=2)


def report_parts(found: Mapping[str, Any]) -> list[Part]:
    """The paragraphs and tables of the report."""
    size = found["size"]
    seeds = "1 seed" if size["seeds"] == 1 else f"{size['seeds']} seeds"
    steps = size["epochs"] * max(size["captions"] // size["batch_size"], 1)
    parts: list[Part] = [
        f"{seeds} for each model. Fine-tuning: {size['captions']:,} captions, {steps:,} steps of "
        f"{size['batch_size']} at a learning rate of {size['learning_rate']:g}. Curve: {size['curve_steps']:,} "
        f"steps of 64. Tested on {size['scenes']:,} scenes of the test split.",
        "Intervals: 95 %. Those of scores are over scenes, of the mean over seeds. A difference has one over scenes "
        "and, with several seeds, Student's over seeds.",
        "A finding is shown if both of its intervals lie above 0, refuted if both lie below; there is no correction "
        "for the number of comparisons.",
    ]
    head = ["", *(f"{kind.upper()} {key}" for key in _SHORT for kind in KINDS)]
    chance = ["random choice", *(percent(_CHANCE[key]) for key in MEASURES for _ in KINDS)]
    for table, names in TABLES.items():
        rows = [name and _row(found["rows"][name]) for name in names if name is None or name in found["rows"]]
        title = f"Table {table} of The Hard Positive Truth, for the toy world (%)"
        parts.append(simple_table(head, [*rows, None, chance], title=title))
    return [*parts, _categories(found), _stops(found), _curve(found), _findings(found)]


def _categories(found: Mapping[str, Any]) -> Part:
    head = ["", *(f"{category} {key}" for category in CATEGORIES for key in _SHORT)]
    rows = [
        [row["label"], *(percent(row[category]["scores"][key]) for category in CATEGORIES for key in MEASURES)]
        for name, row in found["rows"].items()
        if name in BY_CATEGORY
    ]
    return simple_table(head, rows, title="By category (%)")


def _stops(found: Mapping[str, Any]) -> Part:
    head = ["accuracy on negatives", "as they are", "with a final period"]
    rows = [
        [row["label"], *(f"{percent(each['score'])} {_interval(each['interval'])}" for each in row["scores"].values())]
        for row in found["stop"].values()
    ]
    return simple_table(head, rows, title="SugarCrepe's point: negatives with an artefact, in training and test (%)")


def _curve(found: Mapping[str, Any]) -> Part:
    head = ["captions that an image is told apart among", *(f"{category} original" for category in CATEGORIES)]
    head += [f"{kind.upper()} brittleness ↓" for kind in KINDS]
    rows = [
        [
            row["label"],
            *(_cell(row[category], "original_accuracy") for category in CATEGORIES),
            *(_cell(row[kind], "brittleness") for kind in KINDS),
        ]
        for row in found["curve"].values()
    ]
    return simple_table(head, rows, title="ARO's hypothesis: composition by the number of in-batch negatives (%)")


def _findings(found: Mapping[str, Any]) -> Part:
    head = ["finding", "compared", "difference, points", "by seed", "over seeds", "here"]
    rows = [
        [
            each["claim"],
            each["compared"],
            f"{_signed(each['difference'])} {_signed_interval(each['interval'])}",
            ", ".join(map(_signed, each["by_seed"])),
            _signed_interval(each["seed_interval"]) if each["seed_interval"] else "–",
            each["verdict"],
        ]
        for each in found["findings"]
    ]
    return simple_table(head, rows, title="Findings of the papers")


def _row(row: Mapping[str, Any]) -> list[str]:
    return [row["label"], *(_cell(row[kind], key) for key in MEASURES for kind in KINDS)]


def _cell(part: Mapping[str, Any], key: str) -> str:
    return f"{percent(part['scores'][key])} {_interval(part['intervals'][key])}"


def _interval(limits: list[float]) -> str:
    return f"[{', '.join(map(percent, limits))}]"


def _signed(value: float) -> str:
    return points(value).replace("-", "−")


def _signed_interval(limits: list[float]) -> str:
    return f"[{', '.join(map(_signed, limits))}]"


def plot_png(found: Mapping[str, Any]) -> bytes:
    """Original accuracy and brittleness of each variant, and accuracy by the number of in-batch negatives, as a PNG.

    A line connects the weights of the hard-negative loss, from 0 to 1, with hard positives.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5), layout="constrained")
    panels = figure.subplots(1, 1 + len(KINDS))
    for axes, kind in zip(panels, KINDS, strict=False):
        _plot_variants(axes, found, kind)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    _plot_curve(panels[-1], found)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return as_file(figure)


def _plot_variants(axes: Axes, found: Mapping[str, Any], kind: str) -> None:
    rows = {name: row[kind] for name, row in found["rows"].items()}
    path = [rows[name]["scores"] for name in _WEIGHTS if name in rows]
    axes.plot(*([100 * scores[key] for scores in path] for key in MEASURES[::2]), color="0.75", zorder=0)
    for name, colour in colours([*rows]).items():
        (x, x_error), (y, y_error) = (_with_error(rows[name], key) for key in MEASURES[::2])
        marker = "*" if name == BASE else "s" if name in _WEIGHTS[:-1] else "o"
        label = found["rows"][name]["label"]
        style: dict[str, Any] = {"capsize": 2, "elinewidth": 0.8, "color": colour, "label": label, "fmt": marker}
        axes.errorbar(x, y, xerr=x_error, yerr=y_error, **style)
    axes.set(xlabel="original accuracy, %", ylabel="brittleness, % (lower is better)", title=kind.upper())


def _plot_curve(axes: Axes, found: Mapping[str, Any]) -> None:
    rows = [*found["curve"].values()]
    sizes = [int(row["label"]) for row in rows]
    for category, colour in colours([*CATEGORIES]).items():
        ends = [_with_error(row[category], "original_accuracy") for row in rows]
        errors = [[end[1][side][0] for end in ends] for side in (0, 1)]
        axes.errorbar(sizes, [end[0] for end in ends], yerr=errors, color=colour, capsize=2, marker="o", label=category)
    axes.axhline(50, color="0.75", zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set(xlabel="captions that an image is told apart among", ylabel="original accuracy, %", title="From nothing")
    axes.legend(frameon=False)


def _with_error(part: Mapping[str, Any], key: str) -> tuple[float, list[list[float]]]:
    """The value, and the distances of its interval's ends from it, in percent."""
    value, (low, high) = part["scores"][key], part["intervals"][key]
    return 100 * value, [[100 * max(value - low, 0.0)], [100 * max(high - value, 0.0)]]
