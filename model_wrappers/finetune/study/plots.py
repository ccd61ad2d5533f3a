"""The plot of a study: accuracy against brittleness."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

_PANELS = {"replace": "REPLACE", "swap": "SWAP"}
_WEIGHTS = ("hn-weight-0", "hn-weight-0.25", "hn-weight-0.5", "hn-weight-0.75", "hp+hn")


def plot_png(found: Mapping[str, Any]) -> bytes:
    """Original accuracy and brittleness of each variant with their intervals, a panel for each kind, as a PNG.

    A line joins the weights of the hard-negative loss, from 0 to 1, beside that of hard positives.

    Args:
        found: what `_study_report.document` gives.

    Raises:
        ModuleNotFoundError: there is no matplotlib.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.5), layout="constrained")
    rows = found["rows"]
    every = figure.subplots(1, len(_PANELS))
    for axes, (kind, title) in zip(every, _PANELS.items(), strict=True):
        places = {name: _place(row[kind]) for name, row in rows.items()}
        path = [places[name] for name in _WEIGHTS if name in places]
        axes.plot([x for x, _ in path], [y for _, y in path], color="0.75", zorder=0)
        for number, (name, row) in enumerate(rows.items()):
            x, y = places[name]
            axes.errorbar(
                x,
                y,
                xerr=_reach(row[kind], "original_accuracy"),
                yerr=_reach(row[kind], "brittleness"),
                fmt="s" if name in _WEIGHTS[:-1] else "o",
                color=f"C{number % 10}",
                capsize=2,
                elinewidth=0.8,
                label=row["label"],
            )
        axes.set(xlabel="original accuracy, %", ylabel="brittleness, % (lower is better)", title=title)
        axes.spines[["top", "right"]].set_visible(False)
    every[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _place(part: Mapping[str, Any]) -> tuple[float, float]:
    scores = part["scores"]
    return 100 * scores["original_accuracy"], 100 * scores["brittleness"]


def _reach(part: Mapping[str, Any], key: str) -> list[list[float]]:
    """How far the interval reaches to either side."""
    value, (low, high) = part["scores"][key], part["intervals"][key]
    return [[100 * max(value - low, 0.0)], [100 * max(high - value, 0.0)]]
