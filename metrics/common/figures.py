"""What the figures of reports share: colours, PNG files from matplotlib and HTML fragments from plotly."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Four of Okabe and Ito's colours and a violet: people with colour blindness can tell them apart, and each has a
# contrast of 3 to a white and to a dark page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A55AFF")
_GOLDEN = 0.618034


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each distinct name, in the order of first appearance."""
    found = {}
    for number, name in enumerate(dict.fromkeys(names)):
        if number < len(COLOURS):
            found[name] = COLOURS[number]
        else:
            rgb = colorsys.hls_to_rgb(number * _GOLDEN % 1, 0.45, 0.7)
            found[name] = "#" + "".join(f"{round(255 * part):02x}" for part in rgb)
    return found


def as_png(figure: Figure) -> bytes:
    """A matplotlib figure as a PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def plotly_grid(rows: int, columns: int, **options: Any) -> Any:
    """A plotly figure with a grid of panels; the options are those of ``plotly.subplots.make_subplots``.

    Raises:
        DataError: plotly is not installed.
    """
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise DataError("the figures of this page need plotly; pip install 'vl-assay[authoring]'") from None
    return make_subplots(rows=rows, cols=columns, **options)


def as_fragment(figure: Any) -> str:
    """A plotly figure as part of an HTML page, with plotly's code in it, so that the page needs no network."""
    return figure.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False, "responsive": True})


def histogram(values: NDArray[np.float64], edges: NDArray[np.float64], *, shares: bool = False, **style: Any) -> Any:
    """The bars of a histogram for a plotly figure, counted here so that the page does not hold every value.

    Args:
        values: of shape (n,); what lies beyond the edges counts in the outermost bins.
        edges: equidistant, ascending, of shape (bins + 1,).
        shares: heights are shares of all values and not counts.
        style: options of ``plotly.graph_objects.Bar``.
    """
    import plotly.graph_objects as go

    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    heights = (counts / len(values)).round(6) if shares else counts
    middles = (edges[:-1] + edges[1:]) / 2
    return go.Bar(x=middles.round(6).tolist(), y=heights.tolist(), width=float(edges[1] - edges[0]), **style)
