"""What the pages of audits and refinements share: one file that needs no other, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1f2430;
       background: #fff; }
h1 { overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #d5d9e0; text-align: left; vertical-align: top; }
.numbers :is(th, td) { white-space: nowrap; }
.numbers :is(th, td):not(:first-child) { text-align: right; }
code { background: #f1f3f6; padding: 0 .2rem; white-space: pre-wrap; }
"""


def page(title: str, parts: Sequence[str]) -> str:
    """A whole page of a title, which is text, and parts, which are HTML."""
    title = escape(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "\n".join([f"<h1>{title}</h1>", *parts])
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n'
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of headings, which are text, and cells, which are HTML; of the kind "numbers" all but the first column
    are on the right."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    opening = f'<div class="wide"><table class="{kind}">'
    return f"{opening}<thead><tr>{top}</tr></thead><tbody>\n{lines}\n</tbody></table></div>"
