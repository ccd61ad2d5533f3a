"""The report of a study: tables in Markdown and in the terminal, JSON, and a plot of accuracy against brittleness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....metrics.augmented_accuracy.spec import SPEC as AUGMENTED
from ....metrics.brittleness.spec import SPEC as BRITTLE
from ....metrics.common.documents import Part, simple_table
from ....metrics.common.documents import to_markdown as write_markdown
from ....metrics.common.figures import as_file
from ....metrics.common.formatting import percent, points
from ....metrics.common.storage import write_atomically, write_text
from .findings import ARTEFACT_LABELS, KINDS, MEASURES, TABLES, Study, document

TITLE = "Hard negatives and hard positives, in miniature"
_CHANCE = {score.name: score.chance or 0.0 for spec in (AUGMENTED, BRITTLE) for score in spec.scores}
_WEIGHTS = ("hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hn-weight-0.75", "hp+hn")


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
    steps = size["epochs"] * max(size["captions"] // size["batch_size"], 1)
    seeds = "1 seed" if size["seeds"] == 1 else f"{size['seeds']} seeds"
    parts: list[Part] = [
        f"{seeds} for each variant; {size['captions']:,} captions, {steps} steps of {size['batch_size']} at a learning "
        f"rate of {size['learning_rate']:g}; tested on {size['scenes']:,} scenes of the test split.",
        "Intervals: 95 %, over scenes, of the mean over seeds. The values by seed show the effect of the seed.",
        "A finding is shown if the interval and each seed lie on its side of 0; there is no correction for the number "
        "of comparisons. Where no gain is seen there may still be one, as large as the interval allows.",
        "REPLACE has attributes and relations together, as in the paper; here there are as many of each.",
    ]
    head = ["", *(f"{kind.upper()} {key}" for key in ("original", "augmented", "brittleness ↓") for kind in KINDS)]
    chance = ["random choice", *(percent(_CHANCE[key]) for key in MEASURES for _ in KINDS)]
    for table, names in TABLES.items():
        rows = [name and _row(found["rows"][name]) for name in names if name is None or name in found["rows"]]
        title = f"Table {table} of The Hard Positive Truth, for the toy world (%)"
        parts.append(simple_table(head, [*rows, None, chance], title=title))
    head = ["accuracy on", *ARTEFACT_LABELS.values()]
    rows = [[row["label"], *(_cell(row, key) for key in row["scores"])] for row in found["artefact"].values()]
    alone = ["the form alone", *map(percent, found["form_alone"].values())]
    title = "SugarCrepe's point: negatives with an artefact, in training and test (%)"
    parts.append(simple_table(head, [*rows, None, alone], title=title))
    rows = [
        [
            each["claim"],
            each["compared"],
            f"{_signed(each['difference'])} [{', '.join(map(_signed, each['interval']))}]",
            ", ".join(map(_signed, each["by_seed"])),
            each["verdict"],
        ]
        for each in found["findings"]
    ]
    head = ["finding", "compared", "difference, points", "by seed", "here"]
    return [*parts, simple_table(head, rows, title="Findings of the papers")]


def _row(row: Mapping[str, Any]) -> list[str]:
    return [row["label"], *(_cell(row[kind], key) for key in MEASURES for kind in KINDS)]


def _cell(part: Mapping[str, Any], key: str) -> str:
    return f"{percent(part['scores'][key])} [{', '.join(map(percent, part['intervals'][key]))}]"


def _signed(value: float) -> str:
    return points(value).replace("-", "−")


def plot_png(found: Mapping[str, Any]) -> bytes:
    """Original accuracy and brittleness of each variant with their intervals, a panel for each kind, as a PNG.

    A line connects the weights of the hard-negative loss, from 0 to 1, with hard positives.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.5), layout="constrained")
    panels = figure.subplots(1, len(KINDS))
    for axes, kind in zip(panels, KINDS, strict=True):
        rows = {name: row[kind] for name, row in found["rows"].items()}
        path = [rows[name]["scores"] for name in _WEIGHTS if name in rows]
        xs, ys = ([100 * scores[key] for scores in path] for key in MEASURES[::2])
        axes.plot(xs, ys, color="0.75", zorder=0)
        for number, (name, row) in enumerate(rows.items()):
            (x, x_error), (y, y_error) = (_with_error(row, key) for key in MEASURES[::2])
            axes.errorbar(
                x,
                y,
                xerr=x_error,
                yerr=y_error,
                fmt="s" if name in _WEIGHTS[:-1] else "o",
                color=f"C{number % 10}",
                capsize=2,
                elinewidth=0.8,
                label=found["rows"][name]["label"],
            )
        axes.set(xlabel="original accuracy, %", ylabel="brittleness, % (lower is better)", title=kind.upper())
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return as_file(figure)


def _with_error(part: Mapping[str, Any], key: str) -> tuple[float, list[list[float]]]:
    """The value, and the distances of its interval's ends from it, in percent."""
    value, (low, high) = part["scores"][key], part["intervals"][key]
    return 100 * value, [[100 * max(value - low, 0.0)], [100 * max(high - value, 0.0)]]
