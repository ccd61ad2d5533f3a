"""What the Submit page answers, as HTML; every text from outside is escaped."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import Any

from ...metrics.evaluation import interval, lines, percent, title, words
from ...metrics.records.results import Result
from .submissions import Receipt


def problem(text: str) -> str:
    """A message that says what is wrong."""
    return f"<div class='assay-message bad' role='alert'>{escape(text)}</div>"


def receipt_html(receipt: Receipt, *, is_stored: bool) -> str:
    """A receipt, or what one would say, with the recomputed scores."""
    if is_stored:
        head = f"Received as <b>{escape(receipt.id)}</b>, {escape(receipt.time[:19])} UTC: {escape(receipt.status)}."
    else:
        head = f"Nothing is wrong with it. Sent, it would be {escape(receipt.status)}; nothing is stored yet."
    flags = "".join(f"<li>{escape(flag)}</li>" for flag in receipt.flags)
    look = f"<p>A person will look at this first:</p><ul>{flags}</ul>" if flags else ""
    files = "".join(
        f"<li>{escape(predictions['benchmark'])}/{escape(predictions['task'])}: {predictions['rows']:,} rows, SHA-256 "
        f"{escape(predictions['sha256'][:16])}…</li>"
        for predictions in receipt.predictions
    )
    tables = "".join(map(_table, receipt.results))
    return f"<div class='assay-message' role='status'><p>{head}</p>{look}<ul>{files}</ul></div>{tables}"


def as_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt as JSON: id, time, status, flags, predictions, and scores by benchmark, task and metric."""
    fields = asdict(receipt)
    fields["results"] = [
        {
            "benchmark": each.benchmark["name"],
            "task": each.benchmark["task"],
            "metric": each.metric,
            "scores": each.scores,
        }
        for each in receipt.results
    ]
    return fields


def _table(result: Result) -> str:
    heads = "".join(f"<th scope='col'>{escape(words(name))}</th>" for name in result.table_scores)
    rows = []
    for line in lines(result):
        cells = []
        for score in line.scores.values():
            span = f" [{interval(score.interval)}]" if score.interval else ""
            cells.append("<td></td>" if score.value is None else f"<td>{percent(score.value)} %{span}</td>")
        rows.append(f"<tr><th scope='row'>{escape(line.name)}</th>{''.join(cells)}<td>{line.n:,}</td></tr>")
    head = f"<tr><th></th>{heads}<th scope='col'>n</th></tr>"
    return (
        f"<h4>{escape(title(result))}</h4><div class='assay-board'><table><thead>{head}</thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
