"""Shared by the figures of reports: colours, files from matplotlib, and bars for HTML pages.

Figures of pages are HTML without scripts, styled by ``figures.css`` for light and dark pages.
"""

from __future__ import annotations

import colorsys
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Four of Okabe and Ito's colours and a violet: people with colour blindness can tell them apart, and each has a
# contrast of 3 to a white and to a dark page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A55AFF")
_GOLDEN = 0.618034


def colours(names: Sequence[str]) -> dict[str, str]:
    """Assign a colour to each distinct name, in the order of first appearance."""
    by_name = {}
    for number, name in enumerate(dict.fromkeys(names)):
        if number < len(COLOURS):
            by_name[name] = COLOURS[number]
        else:
            rgb = colorsys.hls_to_rgb(number * _GOLDEN % 1, 0.45, 0.7)
            by_name[name] = "#" + "".join(f"{round(255 * channel):02x}" for channel in rgb)
    return by_name


def as_file(figure: Figure, kind: str = "png") -> bytes:
    """Return a matplotlib figure as a ``"png"``, ``"svg"`` or ``"pdf"`` file, with text kept as text and no date."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)}
    if kind == "png":
        options["pil_kwargs"] = {"compress_level": 3}  # half the time for a file a tenth larger
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "vl-assay", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=110, **options)
    return buffer.getvalue()


class Bar(NamedTuple):
    """A horizontal bar of a page's figure, in the units of its panel.

    Attributes:
        colour: a CSS colour.
        value: its length; nothing is drawn for NaN.
        low, high: the ends of its interval; the value itself for none.
        text: the value as text, printed next to the bar.
        hover: text for tooltips and screen readers.
    """

    colour: str
    value: float
    low: float
    high: float
    text: str
    hover: str


def bars_html(
    lines: Mapping[str, Sequence[Bar]], limits: tuple[float, float], levels: Mapping[str, Mapping[str, float]]
) -> str:
    """Return groups of horizontal bars with intervals as HTML without scripts, in the colours of the page.

    Args:
        lines: the bars of each group, such as a category.
        limits: the values at the left and the right end of the panel.
        levels: for each group the positions of vertical lines, such as chance, by their class in ``figures.css``.
    """
    start, span = limits[0], (limits[1] - limits[0]) or 1.0

    def place(value: float) -> float:
        return round(min(max(100 * (value - start) / span, 0.0), 100.0), 2)

    rows = []
    for name, bars in lines.items():
        lanes = []
        model_levels = levels.get(name, {}).items()
        marks = "".join(
            f'<i class="level {escape(level)}" style="left:{place(at)}%"></i>' for level, at in model_levels
        )
        for bar in bars:
            drawn = ""
            if bar.value == bar.value:
                left, right = sorted((place(bar.value), place(0.0)))
                low, high = place(bar.low), place(bar.high)
                style = f"left:{left}%;width:{right - left:.2f}%;background:{escape(bar.colour)}"
                drawn = f'<i class="bar" style="{style}"></i>'
                drawn += f'<i class="whisker" style="left:{low}%;width:{high - low:.2f}%"></i>' * (high > low)
            lanes.append(
                f'<div class="lane" title="{escape(bar.hover)}"><span class="track">{drawn}{marks}</span>'
                f"<span>{escape(bar.text)}</span></div>"
            )
        rows.append(f'<div class="group"><b>{escape(name)}</b><div>{"".join(lanes)}</div></div>')
    return f'<div class="bars">{"".join(rows)}</div>'


def legend_html(colour: Mapping[str, str], levels: Iterable[str] = ()) -> str:
    """Return the legend: the colours of bars and the lines of levels."""
    entries = [
        f'<span><i style="background:{escape(value)}"></i>{escape(name)}</span>' for name, value in colour.items()
    ]
    entries += [f'<span><i class="level {escape(name)}"></i>{escape(name)}</span>' for name in levels]
    return f'<p class="legend">{"".join(entries)}</p>'
