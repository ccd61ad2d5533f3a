"""Hard Positives: which captions beat the hard negative, and the averages of section 4.2."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....hub_datasets.published.tables import get_table
from ....metrics.common.documents import Part, simple_table
from ....metrics.common.figures import colours
from .material import Material

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMS = ("REPLACE", "SWAP")
# What the models of Table 1 (b) were fine-tuned on (section 4.1).
_HARD_NEGATIVES = {
    "NegCLIP": "SWAP", "CREPE-Swap": "SWAP", "CREPE-Replace": "REPLACE", "SVLC": "REPLACE", "SVLC+Pos": "REPLACE",
    "DAC-LLM": "REPLACE", "DAC-SAM": "REPLACE",
}  # fmt: skip


class _Shares(NamedTuple):
    """Shares of examples in per cent, by which of the original caption and the hard positive beat the hard negative."""

    both: float
    original: float
    positive: float
    neither: float


def rank_shares(original: float, augmented: float, brittleness: float) -> _Shares:
    """Which captions beat the hard negative, from the three scores of Hard Positives, all in per cent.

    The augmented accuracy is the share with both. The original accuracy counts those in which the original caption
    beats it, so that its difference is the share of the original alone; the rest of the brittle examples is the share
    of the hard positive alone.

    >>> [round(share, 1) for share in rank_shares(87.6, 48.9, 40.1)]
    [48.9, 38.7, 1.4, 11.0]
    """
    alone = original - augmented
    return _Shares(augmented, alone, brittleness - alone, 100 - augmented - brittleness)


def ranking(material: Material) -> list[Part]:
    """The rank shares of Hard Positives' models, from Tables 1, 7 and 8, and the averages of section 4.2."""
    parts: list[Part] = []
    for name in ("hard-positives-1", "hard-positives-7", "hard-positives-8"):
        table, ours = get_table(name), material.ours(name)
        rows = []
        for row in table.rows:
            own = {column: 100 * float(one.ours or 0) for (model, column), one in ours.items() if model == row.name}
            for label, values in ((row.name, table.values(row)), (f"{row.name}, ours", own)):
                rows += [(f"{label}, {part}", *map(_points, shares)) for part, shares in _by_part(values).items()]
        headings = ("", "both", "original alone", "hard positive alone", "neither")
        title = f"Captions that beat the hard negative, % of examples (from Table {table.number})"
        parts.append(simple_table(headings, rows, title=title, numbers=True))
    return [_averages(), *parts, material.draw("hard-positives-ranks", _draw_shares, (11, 5))]


def _points(share: float) -> str:
    """A share as the paper prints values; sums of rounded values may miss zero by a last digit."""
    return f"{share:.1f}".replace("-0.0", "0.0")


def _by_part(values: Mapping[str, float]) -> dict[str, _Shares]:
    found = {}
    for part in dict.fromkeys(name.split()[0] for name in values):
        scores = [values.get(f"{part} {name}") for name in ("Orig. Test Acc.", "Aug. Test Acc.", "Brittleness")]
        if None not in scores:
            found[part] = rank_shares(*(float(score or 0) for score in scores))
    return found


def _draw_shares(figure: Figure) -> None:
    table = get_table("hard-positives-1")
    shares = {row.name: _by_part(table.values(row)) for row in table.rows}
    for axes, form in zip(figure.subplots(1, 2, sharey=True), _FORMS, strict=True):
        left = [0.0] * len(shares)
        for name, colour in colours(_Shares._fields).items():
            widths = [getattr(own[form], name) for own in shares.values()]
            axes.barh([*shares], widths, left=left, color=colour, label=name)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set(title=form, xlabel="% of examples")
    figure.axes[0].invert_yaxis()  # of both panels, which share it
    figure.axes[0].legend(fontsize=7)


def _averages() -> Part:
    """What section 4.2 says of fine-tuning on hard negatives, computed from Table 1."""
    table = get_table("hard-positives-1")
    values = {row.label: table.values(row) for row in table.rows}

    def drop(model: str, form: str) -> float:
        return values[model][f"{form} Orig. Test Acc."] - values[model][f"{form} Aug. Test Acc."]

    def brittle(trained: str, tested: str) -> float:
        own = [model for model, form in _HARD_NEGATIVES.items() if form == trained]
        return statistics.fmean(values[model][f"{tested} Brittleness"] for model in own)

    def mean_drop(form: str) -> float:
        return statistics.fmean(drop(model, form) for model in _HARD_NEGATIVES)

    said = {
        "mean drop with hard negatives, REPLACE": (24.4, mean_drop("REPLACE")),
        "mean drop with hard negatives, SWAP": (12.5, mean_drop("SWAP")),
        "drop of CLIP, REPLACE": (14.9, drop("CLIP ViT-B/32", "REPLACE")),
        "drop of CLIP, SWAP": (10.9, drop("CLIP ViT-B/32", "SWAP")),
        "brittleness on SWAP, trained on REPLACE": (23.2, brittle("REPLACE", "SWAP")),
        "brittleness on REPLACE, trained on SWAP": (20.7, brittle("SWAP", "REPLACE")),
    }
    rows = [(what, f"{printed:.1f}", f"{found:.2f}") for what, (printed, found) in said.items()]
    return simple_table(("", "section 4.2", "from Table 1"), rows, title="Averages in points", numbers=True)
