"""An audit as one HTML file that needs nothing else: tables, and how scores and their gaps are distributed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.common.errors import DataError
from .html import page, table
from .report import accuracy_table, degenerate_table, shortened

if TYPE_CHECKING:
    from .audit import Audit

# Odd, so that ties have a bar of their own in the middle of the symmetric gaps.
_BINS = 61
_TRUE, _NEGATIVE, _GAP = "#1a7f5a", "#c2410c", "#4f5d75"


def to_html(audit: Audit) -> str:
    """The page.

    Raises:
        DataError: plotly is not installed.
    """
    record = audit.record
    parts = [
        f"<p>{record['pairs']:,} pairs of {record['images']:,} images. How often captions alone tell which is true, "
        f"in percent; chance is 50, a tie counts half.</p>",
        _plain_table(*accuracy_table(record)),
    ]
    if "normalised" in record:
        parts += ["<h2>After normalisation of the captions</h2>", _plain_table(*accuracy_table(record, "normalised"))]
    parts += ["<h2>What gives captions away</h2>", _telling(record)]
    parts += ["<h2>Pairs that cannot measure what they should</h2>", _plain_table(*degenerate_table(record))]
    parts += [
        "<h2>Scores and gaps</h2><p>Left: scores of true captions and of negatives. Right: gaps, the score of the true "
        "caption minus that of its negative; a benchmark that gives nothing away has gaps that are symmetric around "
        "0. Scores of probes are log-odds, of pairs that they did not learn from.</p>",
        _plots(audit),
    ]
    return page(f"Audit of {record['dataset']}", parts)


def _plots(audit: Audit) -> str:
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError:
        raise DataError("the page's plots need plotly; pip install 'vl-assay[authoring]'") from None

    names = list(audit.scores)
    titles = [title for name in names for title in (f"{escape(name)}: scores", f"{escape(name)}: gaps")]
    figure = make_subplots(rows=len(names), cols=2, subplot_titles=titles, vertical_spacing=0.25 / len(names))
    for row, name in enumerate(names, start=1):
        scores = audit.scores[name]
        gaps = scores[:, 0] - scores[:, 1]
        span = _edges(scores)
        for column, values, edges, label, colour in (
            (1, scores[:, 0], span, "true captions", _TRUE),
            (1, scores[:, 1], span, "negatives", _NEGATIVE),
            (2, gaps, _edges(np.concatenate([gaps, -gaps])), "gaps", _GAP),
        ):
            # Counted here: the page would else hold each score.
            counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
            bar = go.Bar(
                x=((edges[:-1] + edges[1:]) / 2).round(4).tolist(),
                y=counts.tolist(),
                width=float(edges[1] - edges[0]),
                name=label,
                legendgroup=label,
                showlegend=row == 1,
                marker={"color": colour, "opacity": 0.55, "line": {"width": 0}},
            )
            figure.add_trace(bar, row=row, col=column)
        figure.add_vline(x=0, line={"width": 1, "dash": "dot"}, row=row, col=2)  # pyright: ignore[reportArgumentType]
    figure.update_layout(
        barmode="overlay", height=240 * len(names) + 80, template="plotly_white", margin={"l": 50, "r": 20, "t": 60}
    )
    return figure.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False, "responsive": True})


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Edges of bins over all but the farthest hundredth; what lies beyond counts in the outermost."""
    low, high = np.quantile(values, [0.005, 0.995]).tolist()
    if high <= low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, _BINS + 1)


def _telling(record: dict[str, Any]) -> str:
    head = ["probe", "feature", "speaks for", "weight", "pairs that differ", "right in", "example"]
    rows = []
    for name, scorer in record["scorers"].items():
        for told in scorer.get("telling", ()):
            spoken_for = "the true caption" if told["weight"] > 0 else "the negative"
            shown = "<br>".join(
                " / ".join(f"<code>{escape(shortened(each[side]))}</code>" for side in ("positive", "negative"))
                for each in told["examples"]
            )
            figures = (f"{told['weight']:+.2f}", f"{told['differs']:.1%}", f"{told['right']:.1%}")
            feature = f"<code>{escape(told['feature'])}</code>"
            rows.append([escape(name.replace("_", " ")), feature, spoken_for, *figures, shown])
    return table(head, rows)


def _plain_table(head: list[str], rows: list[list[str]]) -> str:
    """A table of plain cells; the marks of code that Markdown needs are taken away."""
    return table(head, [[escape(cell.replace("`", "")) for cell in row] for row in rows])
